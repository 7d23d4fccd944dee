"""Commands about the session itself: %help %config %x64 %history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from minijax.config import config
from minijax.tools.arguments import Arguments, Param, UsageError
from minijax.tools.command import Command, Result
from minijax.tools.document import Block, Document, Line, Row, Table, Text, document, line, text
from minijax.tools.settings import CHOICES

if TYPE_CHECKING:
    from minijax.tools.session import Session

_GROUPS = {
    "transform": "Transformations",
    "compile": "Compilation",
    "watch": "Watching",
    "session": "The session",
}
_ON = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}


def _overview(table: Mapping[str, Command]) -> Document:
    lines: list[Line] = []
    for group, title in _GROUPS.items():
        lines += [line(("heading", title))]
        for command in table.values():
            if command.group == group:
                name = f"%{command.name}" if command.line else f"%%{command.name}"
                lines.append(line("  ", ("keyword", f"{name:<12}"), command.summary))
    lines.append(line(("muted", "%help NAME tells more. Anything else at the prompt is Python.")))
    return document(Text(tuple(lines), hanging=14))


def _details(command: Command) -> Document:
    blocks: list[Block] = [text(line(("keyword", command.usage))), text(*command.help.split("\n"), hanging=0)]
    if command.cell:
        blocks.insert(1, text(line(("keyword", f"%%{command.name} ..."), ("muted", " and a cell below it"))))
    for param in command.params:
        label = param.name.upper() if param.kind == "text" else param.option
        said = param.help + (f" (one of {', '.join(param.choices)})" if param.choices else "")
        blocks.append(text(line(("param-name", f"  {label:<14}"), said), hanging=16))
    blocks.append(text(line(("heading", "For example"))))
    blocks += [text(line(("", f"  {each}"))) for each in command.example.split("\n")]
    return Document(tuple(blocks))


def run_help(session: Session, args: Arguments, table: Mapping[str, Command]) -> Result:
    name = args["name"].lstrip("%")
    if not name:
        return Result(_overview(table))
    if name not in table:
        raise UsageError(f"there is no command %{name}; %help lists them all")
    return Result(_details(table[name]))


def _settings(session: Session) -> dict[str, Any]:
    own = {name: getattr(session.settings, name) for name in CHOICES}
    return {**own, **config.values}


def run_config(session: Session, args: Arguments) -> Result:
    words = args["setting"].replace("=", " ").split(None, 1)
    known = _settings(session)
    if not words:
        rows = tuple((("param-name", name), ("value", _shown(value))) for name, value in known.items())
        return Result(document(Table(("setting", "value"), rows)))
    name = words[0] if words[0] in known else f"jax_{words[0]}"
    if name not in known:
        raise UsageError(f"there is no setting {words[0]}; %config lists them all")
    if len(words) == 2:
        _change(session, name, words[1].strip().strip("'\""))
    return Result(document(Row(name, (line(("value", _shown(_settings(session)[name]))),))))


def _shown(value: Any) -> str:
    return " ".join(value) or "off" if isinstance(value, tuple) else str(value)


def _change(session: Session, name: str, value: str) -> None:
    if name == "panels":
        words = value.replace(",", " ").split()
        words = list(CHOICES["panels"]) if words == ["on"] else [] if words == ["off"] else words
        unknown = [word for word in words if word not in CHOICES["panels"]]
        if unknown:
            raise UsageError(
                f"%config panels takes on, off, or some of {', '.join(CHOICES['panels'])}, not {unknown[0]!r}"
            )
        session.settings.panels = tuple(word for word in CHOICES["panels"] if word in words)
    elif name in CHOICES:
        if value not in CHOICES[name]:
            raise UsageError(f"%config {name} takes {' or '.join(CHOICES[name])}, not {value!r}")
        setattr(session.settings, name, value)
    else:
        _change_engine(name, value)


def _change_engine(name: str, value: str) -> None:
    parsed: Any = None if value.lower() == "none" else value
    if isinstance(config.read(name), bool):
        if value.lower() not in _ON:
            raise UsageError(f"%config {name} takes on or off, not {value!r}")
        parsed = _ON[value.lower()]
    try:
        config.update(name, parsed)
    except ValueError as error:
        raise UsageError(f"%config {name}: {error}") from None


def run_x64(session: Session, args: Arguments) -> Result:
    word = args["state"].lower()
    if word:
        if word not in _ON:
            raise UsageError(f"%x64 takes on or off, not {args['state']!r}")
        config.update("jax_enable_x64", _ON[word])
    enabled = config.x64_enabled()
    said = "on: 64-bit types are kept" if enabled else "off: 64-bit types become 32-bit"
    return Result(document(Row("x64", (line(("value", said)),))))


def run_history(session: Session, args: Arguments) -> Result:
    number = args["count"] or "20"
    if not number.isdigit():
        raise UsageError(f"%history takes a number of inputs, not {number!r}")
    # the input that asks for the history is not part of the answer
    asking = session.inputs[-1].lstrip().startswith("%") and "history" in session.inputs[-1].split()[0]
    end = len(session.inputs) - asking
    lines: list[Line] = []
    for i in range(max(1, end - int(number)), end):
        first, *others = session.inputs[i].strip("\n").split("\n")
        lines.append(line(("muted", f"{i:>4}  "), first))
        lines += [line(f"      {each}") for each in others]
    return Result(document(Text(tuple(lines), wrap=False)))


def commands(table: Callable[[], Mapping[str, Command]]) -> tuple[Command, ...]:
    """The rows of this module; ``table`` gives the whole table, which %help shows."""

    def help_command(session: Session, args: Arguments) -> Result:
        return run_help(session, args, table())

    return (
        Command(
            "help",
            (Param("name", "text", "a command"),),
            "The commands, or everything about one of them.",
            "%help grad",
            help_command,
        ),
        Command(
            "config",
            (Param("setting", "text", "a setting, and perhaps its new value"),),
            "Show the settings, or change one.",
            "%config style tutorial",
            run_config,
        ),
        Command(
            "x64",
            (Param("state", "text", "on or off"),),
            "Show, or choose, whether 64-bit types are kept.",
            "%x64 on",
            run_x64,
        ),
        Command(
            "history",
            (Param("count", "text", "how many inputs"),),
            "The last inputs of this session.",
            "%history 5",
            run_history,
        ),
    )
