"""Reads the values of parameters from the text that ``str`` made of them.

Classes in ``pretty.param_types`` (enums, named tuples) are read too. ``NotAValue`` is raised for other text.
"""

from __future__ import annotations

import ast
import enum
import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax import pytree
from minijax.core import dtypes, lazy
from minijax.core.avals import ShapedArray
from minijax.core.structural import UNSPECIFIED
from minijax.ir.parse_tokens import Scanner
from minijax.ir.pretty import param_types


class NotAValue(Exception):
    """The text at the scanner is not a readable value."""


_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_STRING = re.compile(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")
_REAL = r"[-+]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
# A complex number as ``str`` writes it: (1+2j), -1j, (-0-infj).
COMPLEX = re.compile(rf"\({_REAL}?[-+](?:inf|nan|\d+\.?\d*(?:[eE][-+]?\d+)?)j\)|{_REAL}j(?![\w.])")
NUMBER = re.compile(rf"{_REAL}(?![\w.])")
_INTEGER = re.compile(r"[-+]?\d+$")
_ENUM_REPR = re.compile(r"<([A-Za-z_]\w*)\.([A-Za-z_]\w*): [^<>]*>")
_AVAL = re.compile(r"(\w+(?:<\w+>)?)\[([\d,]*)\](, weak_type=True)?\)")
_KEY_TYPE = re.compile(r"key<\w+>")
_KEYWORD = re.compile(r"([A-Za-z_]\w*)\s*=\s*")
_LAMBDA = re.compile(r"\{\s*lambda\b|let\s+\S+\s*=\s*\{")
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, "UnspecifiedValue": UNSPECIFIED}
# ``ir.parse_meshes``, which few programs need, reads these words
_MESH_WORDS = ("Auto", "Explicit", "Manual", "UNCONSTRAINED")
_MESH_CONSTRUCTORS = ("P", "PartitionSpec", "NamedSharding", "SingleDeviceSharding")
_of_meshes = functools.partial(lazy.public, "minijax.ir.parse_meshes")
_DTYPE_KEY = re.compile(r"(?:.*_)?dtype$|preferred_element_type$")


def number(text: str) -> Any:
    """The Python number that ``text`` represents: an int, float or complex."""
    if text[-1] == "j" or text[-1] == ")":
        return complex(text)
    return int(text) if _INTEGER.match(text) else float(text)


def holds_dtype(key: str) -> bool:
    """Whether the parameter called ``key`` holds a dtype. Its text is then the dtype's name."""
    return _DTYPE_KEY.match(key) is not None


def as_dtype_param(value: Any) -> Any:
    """``value`` as a dtype if it is the text of a dtype, else ``value`` itself."""
    if isinstance(value, str):
        try:
            return dtypes.from_short_name(value)
        except ValueError:
            return value
    if isinstance(value, list):  # float0 prints as a list
        return np.dtype(value)
    return value


def read_value(scan: Scanner, read_jaxpr: Callable[[], Any]) -> Any:
    """Read a value and move past it. ``NotAValue`` if there is none. ``read_jaxpr`` reads a jaxpr inside the value."""
    if scan.peek(_LAMBDA):
        return read_jaxpr()
    if found := scan.take(COMPLEX) or scan.take(NUMBER):
        return number(found[0])
    if found := scan.take(_STRING):
        return ast.literal_eval(found[0])
    for opening, closing, make in (("(", ")", tuple), ("[", "]", list)):
        if scan.take_text(opening):
            items, _ = _items(scan, closing, read_jaxpr)
            return make(items)
    if scan.take_text("{"):
        return _dictionary_or_set(scan, read_jaxpr)
    if scan.take_text("*"):  # a leaf of a PyTreeDef
        return 0
    if found := scan.take(_ENUM_REPR):
        return _member(found[1], found[2])
    if found := scan.take(_KEY_TYPE):
        return dtypes.from_short_name(found[0])
    if found := scan.take(_NAME):
        return _named(scan, found[0], read_jaxpr)
    raise NotAValue


def _items(scan: Scanner, closing: str, read_jaxpr: Callable[[], Any]) -> tuple[list[Any], dict[str, Any]]:
    """Read values, separated by commas, up to ``closing``: a list of unnamed values, and a dictionary of named ones."""
    items: list[Any] = []
    named: dict[str, Any] = {}
    while not scan.take_text(closing):
        if found := scan.take(_KEYWORD):
            named[found[1]] = read_value(scan, read_jaxpr)
        else:
            items.append(read_value(scan, read_jaxpr))
        if not scan.take_text(",") and not scan.text.startswith(closing, scan.at):
            raise NotAValue
    return items, named


def _dictionary_or_set(scan: Scanner, read_jaxpr: Callable[[], Any]) -> Any:
    keys: list[Any] = []
    values: list[Any] = []
    while not scan.take_text("}"):
        keys.append(read_value(scan, read_jaxpr))
        if scan.take_text(":"):
            values.append(read_value(scan, read_jaxpr))
        if not scan.take_text(",") and not scan.text.startswith("}", scan.at):
            raise NotAValue
    if len(keys) == len(values):
        return dict(zip(keys, values, strict=True))
    if values:
        raise NotAValue
    return set(keys)


def _named(scan: Scanner, name: str, read_jaxpr: Callable[[], Any]) -> Any:
    """A value that begins with ``name``: a constructor call, an enum member, a word or a bare string."""
    if scan.take_text("("):
        if name == "ShapedArray":
            return _aval(scan)
        if name in ("Mesh", "AbstractMesh"):
            return _of_meshes("read_mesh")(scan, name)
        items, named = _items(scan, ")", read_jaxpr)
        make = _constructor(name)
        if make is None:
            raise NotAValue
        return make(*items, **named)
    if name in _WORDS:
        return _WORDS[name]
    if name in _MESH_WORDS:
        return _of_meshes("WORDS")[name]
    if "." in name:
        return _member(*name.rsplit(".", 1))
    return name


def _constructor(name: str) -> Callable[..., Any] | None:
    if name == "frozenset":
        return frozenset
    if name == "dtype":
        return np.dtype
    if name in _MESH_CONSTRUCTORS:
        return _of_meshes("CONSTRUCTORS")[name]  # type: ignore[no-any-return]
    if name == "PyTreeDef":
        return pytree.tree_structure
    if name.startswith("np."):
        scalar = getattr(np, name[3:], None)
        return scalar if isinstance(scalar, type) and issubclass(scalar, np.generic) else None
    return param_types.get(name)


def _aval(scan: Scanner) -> ShapedArray:
    """``float32[8])``: the rest of a type's repr after ``ShapedArray(``."""
    found = scan.take(_AVAL)
    if found is None:
        raise NotAValue
    try:
        dtype = dtypes.float0 if found[1] == "float0" else dtypes.from_short_name(found[1])
    except ValueError:
        raise NotAValue from None
    return ShapedArray(tuple(int(size) for size in found[2].split(",") if size), dtype, bool(found[3]))


def _member(cls: str, name: str) -> Any:
    kind = param_types.get(cls)
    if isinstance(kind, type) and issubclass(kind, enum.Enum) and name in kind.__members__:
        return kind[name]
    raise NotAValue
