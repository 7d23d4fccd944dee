"""Commands about the session itself: %help %doc %config %x64 %history."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minijax.config import config
from minijax.errors import did_you_mean
from minijax.tools.commands.arguments import Arguments, Param, usage
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import Block, Document, Line, Row, Table, Text, document, line, text, unbroken
from minijax.tools.session.describe import describe
from minijax.tools.session.result import Result
from minijax.tools.session.settings import TABLE, listed, shown
from minijax.tools.session.settings_file import save
from minijax.tools.session.static import static_names
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

GROUPS = {
    "transform": "Transformations",
    "compile": "Compilation",
    "programs": "Programs and rules",
    "watch": "Watching",
    "session": "The session",
}
# The keys of the terminal prompt, except those that toggle a panel.
KEYS = (
    ("F1", "this help"),
    ("F2", "all panels off, and those chosen on again"),
    ("F9", "everything about the last line, uncut"),
    ("Enter", "run a complete input; go on with an incomplete one"),
    ("Alt-Enter", "a line break"),
    ("Tab", "complete; indent at the beginning of a line"),
    ("Up, Down", "earlier inputs"),
    ("Right", "take the suggestion in grey"),
    ("Ctrl-R", "search in earlier inputs"),
    ("Ctrl-C", "clear the input; interrupt what runs"),
    ("Ctrl-Z", "suspend; fg comes back"),
    ("Ctrl-D", "leave, on an empty line"),
)
_LONGEST_LABEL = 8
_ON = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}


def _overview(session: Session, table: Mapping[str, Command]) -> Document:
    lines: list[Line] = []
    width = max(12, *(len(session.command_name(name)) + 2 for name in table))
    for group, title in GROUPS.items():
        lines += [line(("heading", title))]
        for command in table.values():
            if command.group == group and (session.own_prompt or not command.prompt):
                name = ("%" if command.line else "%%") + session.command_name(command.name)
                lines.append(line("  ", ("keyword", f"{name:<{width}}"), command.summary))
    lines.append(line(("muted", "%help NAME tells more. f? tells about f, f?? shows its source.")))
    return document(Text(tuple(lines), hanging=width + 2))


def _details(session: Session, command: Command) -> Document:
    name = session.command_name(command.name)
    called = usage(name, command.params)
    blocks: list[Block] = [text(line(("keyword", called))), text(*command.help.split("\n"), hanging=0)]
    if command.cell:
        blocks.insert(1, text(line(("keyword", f"%%{name} ..."), ("muted", " and a cell below it"))))
    for param in command.params:
        label = param.name.upper() if param.is_text else param.option
        description = param.help + (f" (one of {', '.join(param.choices)})" if param.choices else "")
        blocks.append(text(line(("param-name", f"  {label:<14}"), description), hanging=16))
    blocks.append(text(line(("heading", "For example"))))
    example = command.example.replace(f"%{command.name}", f"%{name}")
    blocks += [text(line(("", f"  {each}"))) for each in example.split("\n")]
    return Document(tuple(blocks))


def run_help(session: Session, args: Arguments, table: Mapping[str, Command]) -> Result:
    name = args["name"].lstrip("%")
    if not name:
        return Result(_overview(session, table) + _keys_hint(session))
    if name == "keys":  # the topic "keys of the prompt" and the command %keys share this name
        return Result(_keys(session) + _details(session, table[name]))
    name = next((each for each in table if session.command_name(each) == name), name)
    if name not in table:
        hint = did_you_mean(name, table, "%help ")
        raise UsageError(f"there is no command %{name}.{hint} %help lists them all".replace("..", "."))
    return Result(_details(session, table[name]))


def _keys_hint(session: Session) -> Document:
    return document(text(line(("muted", "%help keys lists the keys.")))) if session.settings.panel_keys else Document()


def _keys(session: Session) -> Document:
    """The keys of the prompt, or an empty document in a front end without its own keys."""
    keys = session.settings.panel_keys
    if not keys:
        return Document()
    rows = [
        (key, f"{name} of the last line in full; again: fold this panel, or unfold it") for name, key in keys.items()
    ]
    table = sorted([*rows, *KEYS], key=lambda row: (not row[0].startswith("F"), row[0] if row[0][0] == "F" else ""))
    lines = [line(("param-name", f"  {key:<12}"), meaning) for key, meaning in table]
    return document(text(line(("heading", "Keys of the prompt"))), Text(tuple(lines), hanging=14), text(""))


def run_doc(session: Session, args: Arguments) -> Result:
    name = args["name"]
    first, *rest = name.split(".")
    if not all(part.isidentifier() for part in (first, *rest)):
        raise UsageError(f"%doc takes a name, such as grad or jnp.sin, not {name!r}")
    if session.has(first):
        value = session.lookup(first)
    elif hasattr(builtins, first):
        value = getattr(builtins, first)
    else:
        raise UsageError(f"there is nothing called {first}.{did_you_mean(first, session.namespace)}")
    for i, part in enumerate(rest):
        try:
            value = getattr(value, part)
        except AttributeError:
            owner = ".".join([first, *rest[:i]])
            raise UsageError(f"{owner} has no attribute {part}.{did_you_mean(part, static_names(value))}") from None
    return Result(describe(name, value, args["source"]))


def _settings(session: Session) -> dict[str, Any]:
    own = {name: getattr(session.settings, name) for name in TABLE}
    return {**own, **config.values}


def run_config(session: Session, args: Arguments) -> Result:
    words = args["setting"].replace("=", " ", 1).split(None, 1)
    known = _settings(session)
    if not words:
        return Result(_all_settings(session, known))
    if words == ["save"]:
        return Result(_save(session))
    name = words[0] if words[0] in known else f"jax_{words[0]}"
    if name not in known:
        hint = did_you_mean(words[0], [*known, "save"])
        raise UsageError(f"there is no setting {words[0]}.{hint} %config lists them all")
    lines: list[Line] = []
    if len(words) == 2:
        _change(session, name, words[1].strip().strip("'\""))
        if name in session.settings.without:
            lines.append(line(("muted", "has no effect here")))
        elif name in TABLE and TABLE[name].changed != "at once":
            lines.append(line(("muted", f"counts {TABLE[name].changed}, if %config save keeps it")))
    else:
        takes = TABLE[name].takes() if name in TABLE else listed(config.takes(name))
        lines.append(line(("muted", f"takes {takes}")))
    value = line(("value", shown(_settings(session)[name])))
    if len(name) > _LONGEST_LABEL:  # the label column is narrow
        return Result(document(text(line(("param-name", name), "  ", *value), *lines)))
    return Result(document(Row(name, (value, *lines))))


def _all_settings(session: Session, known: Mapping[str, Any]) -> Document:
    own = tuple(
        (("param-name", name), ("value", unbroken(shown(known[name]))), ("muted", choice.help))
        for name, choice in TABLE.items()
        if name not in session.settings.without
    )
    engine = tuple((("param-name", name), ("value", shown(known[name]))) for name in known if name not in TABLE)
    blocks: list[Block] = [Table(("setting", "value", ""), own), Table(("setting of the engine", "value"), engine)]
    if session.settings.file:
        blocks.append(text(line(("muted", f"%config save keeps them in {session.settings.file}"))))
    return Document(tuple(blocks))


def _save(session: Session) -> Document:
    path = session.settings.file
    if not path:
        raise UsageError("%config save: this front end has no settings file (perhaps it was started with --no-config)")
    try:
        save(session.settings, Path(path))
    except ValueError as error:
        raise UsageError(f"%config save: {path} is unchanged: {error}. Repair the file, or move it away") from None
    except OSError as error:
        raise UsageError(f"%config save: cannot write {path}: {error.strerror or error}") from None
    return document(text(line("saved in ", ("place", path))))


def _change(session: Session, name: str, value: str) -> None:
    if name in TABLE:
        try:
            session.settings.set(name, value)
        except ValueError as error:
            raise UsageError(f"%config {error}") from None
    else:
        _change_engine(name, value)


def _change_engine(name: str, value: str) -> None:
    word, is_flag = value.lower(), isinstance(config.read(name), bool)
    if is_flag and word not in _ON:
        raise UsageError(f"%config {name} takes on or off, not {value!r}")
    try:
        if is_flag:
            parsed: Any = _ON[word]
        else:
            parsed = None if word == "none" else config.meant(name, value)
        config.update(name, parsed)
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"%config {name}: {error}") from None


def run_x64(session: Session, args: Arguments) -> Result:
    word = args["state"].lower()
    if word:
        if word not in _ON:
            raise UsageError(f"%x64 takes on or off, not {args['state']!r}")
        config.update("jax_enable_x64", _ON[word])
    enabled = config.jax_enable_x64
    status = "on: 64-bit types are kept" if enabled else "off: 64-bit types become 32-bit"
    return Result(document(Row("x64", (line(("value", status)),))))


def run_history(session: Session, args: Arguments) -> Result:
    number = args["count"] or "20"
    if not number.isdigit():
        raise UsageError(f"%history takes a number of inputs, not {number!r}")
    # leave out the input that runs %history
    asking = session.inputs[-1].lstrip().startswith("%") and "history" in session.inputs[-1].split()[0]
    end = len(session.inputs) - asking
    lines: list[Line] = []
    for i in range(max(1, end - int(number)), end):
        first, *others = session.inputs[i].strip("\n").split("\n")
        lines.append(line(("muted", f"{i:>4}  "), first))
        lines += [line(f"      {each}") for each in others]
    return Result(document(Text(tuple(lines), wrap=False)))


def commands(table: Callable[[], Mapping[str, Command]]) -> tuple[Command, ...]:
    """The commands of this module. ``table`` returns all commands, for %help."""

    def help_command(session: Session, args: Arguments) -> Result:
        return run_help(session, args, table())

    return (
        Command(
            "help",
            (Param("name", "text", "a command, or keys"),),
            "The commands, or everything about one of them; %help keys lists the keys of the prompt.",
            "%help grad",
            help_command,
        ),
        Command(
            "doc",
            (
                Param("name", "text", "a name, such as grad or jnp.sin", required=True),
                Param("source", "flag", "show the source too"),
            ),
            "What something is: signature, origin, docstring. At the prompt f? is short for it, f?? shows the source.",
            "%doc grad",
            run_doc,
        ),
        Command(
            "config",
            (Param("setting", "text", "a setting (and its new value, to change it), or save"),),
            "Show the settings, change one, or save them for later sessions.",
            "%config style tutorial",
            run_config,
        ),
        Command(
            "x64",
            (Param("state", "text", "on or off"),),
            "Show or set whether 64-bit types are kept.",
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
