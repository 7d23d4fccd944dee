"""The call or the dictionary key at the cursor, for displaying the signature and completing keywords and keys.

As in ``completion``, no user code runs: the signature shows ``...`` for defaults of unknown types.
"""

from __future__ import annotations

import inspect
import re
import types
from typing import Any

from minijax.core.records import NamedTuple
from minijax.tools.commands.arguments import CLOSING, OPENING, tokens
from minijax.tools.session.static import UNKNOWN, static_value

_BEFORE_CALL = re.compile(r"([^\W\d]\w*(?:\.\w+)*)\s*$")
_KEYWORD = re.compile(r"\s*([^\W\d]\w*)\s*=(?!=)")
_IN_KEY = re.compile(r"""([^\W\d][\w.]*)((?:\[(?:'[^']*'|"[^"]*"|\d+)\])*)\[(['"])([^'"\]]*)$""")
_SUBSCRIPT = re.compile(r"""\[(?:'([^']*)'|"([^"]*)"|(\d+))\]""")
# Types whose ``repr`` runs no user code.
_PLAIN = (int, float, bool, str, complex, type(None))


class OpenCall(NamedTuple):
    """The innermost call whose bracket is still open: the function's name as typed, and the arguments so far.

    ``position`` counts the positional arguments before the cursor. ``named`` are the keywords so far. ``keyword`` is
    the keyword at the cursor, or ''.
    """

    function: str
    position: int
    named: tuple[str, ...]
    keyword: str


def open_call(before: str) -> OpenCall | None:
    """The unfinished call at the end of ``before``. None in strings and comments, and if the function is no name."""
    stack, inside = _open(before)
    if inside is not None or not stack or before[stack[-1]] != "(":
        return None
    start = stack[-1]
    name = _BEFORE_CALL.search(before[:start])
    if name is None or re.search(r"\b(?:def|class|lambda)\s*$", before[: name.start()]):
        return None
    parts = _arguments(before[start + 1 :])
    keywords = [found[1] if (found := _KEYWORD.match(part)) else "" for part in parts]
    position = sum(not each for each in keywords[:-1])
    return OpenCall(name[1], position, tuple(filter(None, keywords[:-1])), keywords[-1])


def _open(before: str) -> tuple[list[int], int | None]:
    """The positions of the open brackets in ``before``; the position of its unfinished string or comment, or None."""
    stack: list[int] = []
    for i, token, _ in tokens(before):
        if token in "'\"#":
            return stack, i
        if token in OPENING:
            stack.append(i)
        elif token in CLOSING and stack:
            stack.pop()
    return stack, None


def open_string(before: str) -> str | None:
    """The text of an unfinished one-line string at the end of ``before``, or None."""
    _, start = _open(before)
    if start is None or before[start] == "#" or before.startswith(before[start] * 3, start):
        return None
    prefix = re.search(r"[A-Za-z]*$", before[:start])
    if prefix is not None and "f" in prefix[0].lower():  # an f-string contains Python
        return None
    typed = before[start + 1 :]
    return None if "\n" in typed else typed


def _arguments(inside: str) -> list[str]:
    """The arguments in an argument list, which may be unfinished."""
    commas = [i for i, token, depth in tokens(inside) if token == "," and not depth]
    return [inside[i + 1 : j] for i, j in zip((-1, *commas), (*commas, len(inside)), strict=True)]


def parameters(value: Any) -> list[inspect.Parameter]:
    """The parameters of a function, a class or a transformed function; [] if they are unknown. Runs no user code."""
    for _ in range(20):
        wrapped = static_value(value, "__wrapped__")
        if wrapped is UNKNOWN:
            break
        value = wrapped
    if type(value) is types.MethodType:
        return parameters(value.__func__)[1:]
    if type(value) is type:
        made = static_value(value, "__init__")
        return parameters(made)[1:] if type(made) is types.FunctionType else []
    known = type(value) in (types.FunctionType, types.BuiltinFunctionType)
    if not known and _package(type(value)) not in ("minijax", "jax", "numpy"):
        return []
    given = static_value(value, "__signature__")
    # if ``__signature__`` were callable, ``inspect`` would call it
    if given is not None and given is not UNKNOWN and type(given) is not inspect.Signature:
        return []
    try:
        return [*inspect.signature(value, follow_wrapped=False).parameters.values()]
    except (TypeError, ValueError):
        return []


def _package(kind: type) -> str:
    """The package of a class, read without its metaclass or its own properties, which could run code."""
    try:
        module = type.__dict__["__module__"].__get__(kind)
    except AttributeError:
        return ""
    return module.partition(".")[0] if type(module) is str else ""


class _Hidden:
    def __repr__(self) -> str:
        return "..."


def signature_parts(call: OpenCall, found: list[inspect.Parameter]) -> list[tuple[str, bool]]:
    """``(part, whether it is the parameter at the cursor)`` for each of ``f(``, ``x``, ``, ``, ``axis=None``, ``)``."""
    at = _current(call, found)
    current = found[at].name if at >= 0 else ""
    shown = [each.replace(annotation=each.empty, default=_shown_default(each.default)) for each in found]
    parts = [(f"{call.function.rpartition('.')[2]}(", False)]
    for each in _arguments(str(inspect.Signature(shown))[1:-1]):
        text = each.strip()
        parts += [(text, text.lstrip("*").partition("=")[0] == current != ""), (", ", False)]
    return [*parts[:-1], (")", False)]


def _shown_default(default: Any) -> Any:
    return default if default is inspect.Parameter.empty or type(default) in _PLAIN else _Hidden()


def fitting(parts: list[tuple[str, bool]], columns: int) -> list[tuple[str, bool]]:
    """The ``parts`` of a signature that fit on one line, including the one at the cursor. … marks omitted parts."""
    if sum(len(piece) for piece, _ in parts) <= columns or not parts:
        return parts
    at = next((i for i, (_, current) in enumerate(parts) if current), 0)
    first = 1
    while first < at and _width(parts[:1], parts[first : at + 1]) + 2 * len("…, ") > columns:
        first += 2
    shown = [parts[0], *([("…, ", False)] if first > 1 else [])]
    for piece, current in parts[first:]:
        room = columns - _width(shown) - 1
        if len(piece) > room:
            return [*shown, (piece[: max(room, 0)] + "…", current)]
        shown.append((piece, current))
    return shown


def _width(*parts: list[tuple[str, bool]]) -> int:
    return sum(len(piece) for each in parts for piece, _ in each)


def _current(call: OpenCall, found: list[inspect.Parameter]) -> int:
    names = [each.name for each in found]
    if call.keyword:
        return names.index(call.keyword) if call.keyword in names else -1
    for i, each in enumerate(found):
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            return i
        if each.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
            return -1
        if i == call.position:
            return i
    return -1


def keywords(call: OpenCall, found: list[inspect.Parameter]) -> list[str]:
    """The keywords that the call does not have yet, each followed by ``=``."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        f"{each.name}="
        for i, each in enumerate(found)
        if each.kind in kinds
        and each.name not in call.named
        and (each.kind is inspect.Parameter.KEYWORD_ONLY or i >= call.position)
    ]


class OpenKey(NamedTuple):
    """In ``params['l1']['w``, ``name`` is 'params', ``path`` is ('l1',), ``quote`` is "'" and ``typed`` is 'w'."""

    name: str
    path: tuple[str | int, ...]
    quote: str
    typed: str


def open_key(before: str) -> OpenKey | None:
    """The unfinished dictionary key at the end of ``before``, or None."""
    found = _IN_KEY.search(before)
    if found is None:
        return None
    path: list[str | int] = []
    for one, two, number in _SUBSCRIPT.findall(found[2]):
        path.append(int(number) if number else one or two)
    return OpenKey(found[1], tuple(path), found[3], found[4])


def keys(value: Any, path: tuple[str | int, ...]) -> list[str]:
    """The string keys of ``value[path[0]][path[1]]...`` if this value is a plain dictionary, else []."""
    for each in path:
        if type(value) is dict:
            # ``value[each]`` could call ``__eq__`` of a user's key
            found = [inner for key, inner in value.items() if type(key) is type(each) and key == each]
        else:
            is_place = type(value) in (list, tuple) and type(each) is int and each < len(value)
            found = [value[each]] if is_place else []
        if not found:
            return []
        value = found[0]
    return [each for each in value if type(each) is str] if type(value) is dict else []
