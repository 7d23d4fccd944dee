"""What could be typed next. Nothing of the user's is run: no property, no ``__getattr__``, no ``__dir__``.

Front ends may call this from another thread.
"""

from __future__ import annotations

import builtins
import keyword
import re
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from minijax.tools.commands import COMMANDS

if TYPE_CHECKING:
    from minijax.tools.session import Session

_DOTTED = re.compile(r"[^\W\d]\w*(?:\.\w*)*$")
_UNKNOWN = object()


class Completion(NamedTuple):
    """``text`` would replace the last ``length`` characters; ``kind`` says what it is."""

    text: str
    length: int
    kind: str


def complete(session: Session, before: str) -> list[Completion]:
    """Completions for the text before the cursor (the whole input up to it, not only its last line)."""
    header, newline, _ = before.lstrip().partition("\n")
    if header.startswith("%") and not newline:
        return command_completions(session, before.lstrip())
    return python_completions(session, before)


def command_completions(session: Session, before: str) -> list[Completion]:
    """Completions on a command's line: commands, options, what options take; Python after that."""
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
    options = {param.option: param for param in command.params if param.kind != "text"}
    if word.startswith("--"):
        return _starting(word, (option for option in options if option not in words[:-1]), "option")
    if previous in options and options[previous].choices:
        return _starting(word, options[previous].choices, "value")
    if name == "help":
        return _starting(word, COMMANDS, "command")
    return python_completions(session, before)


def _starting(prefix: str, words: Iterable[str], kind: str) -> list[Completion]:
    return [Completion(word, len(prefix), kind) for word in words if word.startswith(prefix)]


def python_completions(session: Session, before: str) -> list[Completion]:
    """Names and attributes that complete the last word."""
    match = _DOTTED.search(before)
    if match is None or before[: match.start()].endswith((".", "'", '"')):
        return []
    *path, prefix = match[0].split(".")
    if not path:
        names = {**session.namespace, **vars(builtins)}
        found = [Completion(word, len(prefix), "keyword") for word in keyword.kwlist if word.startswith(prefix)]
        found += _visible(names, prefix, "name")
        return found
    value = _resolve(session, path)
    return [] if value is _UNKNOWN else _visible(static_names(value), prefix, "attribute")


def _visible(names: Iterable[str], prefix: str, kind: str) -> list[Completion]:
    return [
        Completion(name, len(prefix), kind)
        for name in sorted(n for n in names if isinstance(n, str))
        if name.startswith(prefix) and (prefix.startswith("_") or not name.startswith("_"))
    ]


def _resolve(session: Session, path: list[str]) -> Any:
    value = session.namespace.get(path[0], getattr(builtins, path[0], _UNKNOWN))
    for name in path[1:]:
        if value is _UNKNOWN:
            break
        value = static_value(value, name)
    return value


def _bases(kind: type) -> tuple[type, ...]:
    """The classes that attributes are looked up in; a metaclass may intercept ``kind.__mro__``."""
    return type.__getattribute__(kind, "__mro__")


def _class_dict(kind: type) -> dict[str, Any]:
    return type.__getattribute__(kind, "__dict__")


def _own_dict(value: Any) -> dict[str, Any]:
    """The instance's dict, unless its class makes ``__dict__`` something that would have to be run."""
    for base in _bases(type(value)):
        found = _class_dict(base).get("__dict__")
        if found is not None and type(found) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
            return {}
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}


# ``isinstance`` asks an object for its ``__class__``, which a class can intercept: ``type`` cannot be.
def _is_a(value: Any, kind: type) -> bool:
    return issubclass(type(value), kind)


def static_names(value: Any) -> set[str]:
    """The attributes of ``value`` that can be seen without running anything of its class's."""
    if _is_a(value, types.ModuleType):
        return set(_own_dict(value))
    names: set[str] = set()
    if _is_a(value, type):
        for base in _bases(value):
            names.update(_class_dict(base))
        return names
    for base in _bases(type(value)):
        names.update(_class_dict(base))
    names.update(_own_dict(value))
    return names


def static_value(value: Any, name: str) -> Any:
    """An attribute that can be had without running anything, or ``_UNKNOWN``."""
    if _is_a(value, types.ModuleType):
        return _own_dict(value).get(name, _UNKNOWN)
    is_class = _is_a(value, type)
    found: Any = next(
        (d[name] for base in _bases(value if is_class else type(value)) if name in (d := _class_dict(base))),
        _UNKNOWN,
    )
    kind = type(found)
    if not is_class:
        if kind is types.MemberDescriptorType:  # a slot
            try:
                return found.__get__(value)
            except AttributeError:
                return _UNKNOWN
        own = _own_dict(value)
        if name in own and not any("__set__" in _class_dict(base) for base in _bases(kind)):
            return own[name]
    if kind in (staticmethod, classmethod):
        return found.__func__
    plain = kind in (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType) or _is_a(found, type)
    if not plain and any("__get__" in _class_dict(base) for base in _bases(kind)):
        return _UNKNOWN  # a property or the like: its value takes running it
    return found
