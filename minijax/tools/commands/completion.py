"""Complete the text before the cursor. Runs no user code: no property, no ``__getattr__``, no ``__dir__``.

Front ends may call this from another thread.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from minijax.core.borrowing import names_of
from minijax.core.records import NamedTuple
from minijax.tools.commands import calls
from minijax.tools.commands.completion_words import FILES, WORDS, file_words, spec_words
from minijax.tools.commands.imports import IMPORTING, importable
from minijax.tools.commands.table import COMMANDS
from minijax.tools.session.source import is_shell
from minijax.tools.session.static import UNKNOWN, static_names, static_value

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

_DOTTED = re.compile(r"[^\W\d]\w*(?:\.\w*)*$")


class Completion(NamedTuple):
    """``text`` replaces the last ``length`` characters; ``kind`` describes it."""

    text: str
    length: int
    kind: str


def complete(session: Session, before: str) -> list[Completion]:
    """Completions for ``before``, the whole input up to the cursor."""
    header, newline, _ = before.lstrip().partition("\n")
    if header.startswith("?") and not newline:
        return python_completions(session, header.lstrip("?"))
    if header.startswith("%") and not newline:
        return command_completions(session, before.lstrip())
    if is_shell(before):
        word = before.rpartition(" ")[2]
        return _starting(word, file_words(word), "file")
    return python_completions(session, before)


def command_completions(session: Session, before: str) -> list[Completion]:
    """Completions on a command's line: commands, options, values of options, then Python."""
    cell = before.startswith("%%")
    name, space, rest = before.lstrip("%").partition(" ")
    if not space:
        return [
            Completion(command.name, len(name), "command")
            for command in COMMANDS.values()
            if command.name.startswith(name) and (command.cell if cell else command.line)
        ]
    command = COMMANDS.get(name)
    if command is None:
        return []
    words = rest.split(" ")
    word, previous = words[-1], words[-2] if len(words) > 1 else ""
    options = {param.option: param for param in command.params if not param.is_text}
    if word.startswith("--"):
        return _starting(word, (option for option in options if option not in words[:-1]), "option")
    if previous in options and options[previous].choices:
        return _starting(word, options[previous].choices, "value")
    if previous in FILES or name in FILES:
        return _starting(word, file_words(word), "file")
    before_word = [each for each in words[:-1] if each and not each.startswith("--")]
    chosen = [each for param in command.params if param.kind == "words" for each in param.choices]
    known = [*WORDS[name](before_word)] if name in WORDS else [each for each in chosen if each not in before_word]
    if known or name in WORDS and name != "push":
        return _starting(word, known, "value")
    return _starting(word, spec_words(word), "type") or python_completions(session, before)


def _starting(prefix: str, words: Iterable[str], kind: str) -> list[Completion]:
    return [Completion(word, len(prefix), kind) for word in words if word.startswith(prefix)]


def python_completions(session: Session, before: str) -> list[Completion]:
    """Completions of the last word: names, attributes, dictionary keys, and keywords of the call around it."""
    session.complete_names()
    key = calls.open_key(before)
    if key is not None:
        value, _ = _resolve(session, key.name.split("."))
        closing = key.quote + "]"
        return [
            Completion(each + closing, len(key.typed), "key")
            for each in calls.keys(value, key.path)
            if each.startswith(key.typed) and key.quote not in each and "\\" not in each
        ]
    typed = calls.open_string(before)
    if typed is not None:
        return _starting(typed, file_words(typed), "file")
    importing = IMPORTING.search(before)
    if importing is not None:
        return _starting(importing["typed"].rpartition(".")[2], importable(importing), "module")
    match = _DOTTED.search(before)
    if match is None and before.rstrip().endswith(("(", ",")):
        return _starting("", _keywords(session, before), "argument")
    if match is None or before[: match.start()].endswith((".", "'", '"')):
        return []
    *path, prefix = match[0].split(".")
    if not path:
        names = {**session.namespace, **vars(builtins)}
        found = [Completion(word, len(prefix), "keyword") for word in keyword.kwlist if word.startswith(prefix)]
        found += _visible(names, prefix, "name")
        given = _keywords(session, before) if not before[: match.start()].rstrip().endswith("=") else []
        return [*_starting(prefix, given, "argument"), *found]
    value, module = _resolve(session, path)
    known = set() if value is UNKNOWN else static_names(value)
    borrowed = set(names_of(module)) - known if module else set()
    return [*_visible(known, prefix, "attribute"), *_visible(borrowed, prefix, "borrowed from JAX")]


def signature(session: Session, before: str, columns: int = 100_000) -> list[tuple[str, bool]]:
    """``(part, whether the cursor is in it)`` for each part of the signature of the call at the cursor; [] if no call.

    A signature of more than ``columns`` characters has … in place of some parts.
    """
    session.complete_names()
    call = calls.open_call(before)
    found = [] if call is None else calls.parameters(_resolve(session, call.function.split("."))[0])
    return calls.fitting(calls.signature_parts(call, found), columns) if call is not None and found else []


def _keywords(session: Session, before: str) -> list[str]:
    call = calls.open_call(before)
    if call is None or call.keyword:
        return []
    return calls.keywords(call, calls.parameters(_resolve(session, call.function.split("."))[0]))


def _visible(names: Iterable[str], prefix: str, kind: str) -> list[Completion]:
    return [
        Completion(name, len(prefix), kind)
        for name in sorted(n for n in names if isinstance(n, str))
        if name.startswith(prefix) and (prefix.startswith("_") or not name.startswith("_"))
    ]


def _resolve(session: Session, path: list[str]) -> tuple[Any, str]:
    """The value of a dotted name, and its name if it is a minijax module (else '').

    This imports nothing: ``names_of`` lists the contents of a minijax module from its name alone.
    """
    value = session.namespace.get(path[0], getattr(builtins, path[0], UNKNOWN))
    module = _own_module(value)
    for name in path[1:]:
        value = UNKNOWN if value is UNKNOWN else static_value(value, name)
        module = f"{module}.{name}" if module and value is UNKNOWN else _own_module(value)
    return value, module


def _own_module(value: Any) -> str:
    """The name of a minijax module; '' for any other value."""
    name = vars(value).get("__name__", "") if type(value) is ModuleType else ""
    return name if name.partition(".")[0] == "minijax" else ""
