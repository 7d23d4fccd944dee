"""Types in commands: ``f32[3]`` is valid Python, and means a type unless the user has a variable ``f32``."""

from __future__ import annotations

import ast
import operator
import re
from typing import Any

from minijax.core import dtypes, keys
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.tools.usage import UsageError

DTYPES = ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "c64", "c128", "bool")
# Names for the random key types: Python reads key<fry>[3] as a comparison.
KEYS = {f"key_{impl.tag}_": impl.dtype.name for impl in tuple(keys.PRNGImpl.known.values())}
_SPEC = rf"\s*({'|'.join((*DTYPES, *KEYS.values()))})\[([\d\s,]*)\]\s*"
# a string in one of Python's four kinds of quotes, or a comment
_LITERAL_TEXT = r"""(?s:('''|\"\"\"|'|")(?:\\.|(?!\1).)*\1)|#[^\n]*"""
_EMPTY_SPEC = rf"\b({'|'.join((*DTYPES, *KEYS))})\[\s*\]"
_KEY = rf"\b({'|'.join(KEYS.values())})(?=\[)"


class SpecType:
    """The object ``f32`` in commands: ``f32[3]`` is a ``ShapeDtypeStruct``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, shape: Any) -> ShapeDtypeStruct:
        dims = shape if isinstance(shape, tuple) else (shape,)
        if not all(hasattr(type(x), "__index__") and 0 <= operator.index(x) < 1 << 63 for x in dims):
            raise UsageError(f"{self.name}[{', '.join(map(repr, dims))}] is no type: dimensions are integers from 0 on")
        return ShapeDtypeStruct(dims, dtypes.from_short_name(self.name))

    def __repr__(self) -> str:
        return f"<type {self.name}; write {self.name}[3] for an array of it>"


SPECS = {name: SpecType(name) for name in DTYPES if name != "bool"} | {
    name: SpecType(dtype) for name, dtype in KEYS.items()
}
# The user's ``bool`` is Python's. In a command's expression, the ``bool`` of the type ``bool[3]`` gets this name. It is
# not an identifier, so no variable can hide it.
BOOL = "bool the type"
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def subscripted_bools(node: ast.AST) -> list[ast.Name]:
    """The ``bool`` of each ``bool[3]`` in an expression, but not in inner scopes such as a lambda."""
    found: list[ast.Name] = []
    todo = [node]
    while todo:
        each = todo.pop()
        if isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name) and each.value.id == "bool":
            found.append(each.value)
        if not isinstance(each, _SCOPES):
            todo += ast.iter_child_nodes(each)
    return found


def spec(text: str) -> ShapeDtypeStruct | None:
    """``f32[3,4]`` as a type, or None for any other text."""
    match = re.fullmatch(_SPEC, text)
    pieces = [] if match is None else [piece.strip() for piece in match[2].split(",") if piece.strip()]
    if match is None or not all(map(str.isdigit, pieces)):
        return None
    return SpecType(match[1])[tuple(map(int, pieces))]


def expression_text(text: str) -> str:
    """``text`` with the types of scalars, ``f32[]``, and of keys, ``key<fry>[3]``, rewritten as valid Python.

    Strings and comments stay the same.
    """
    names = {dtype: name for name, dtype in KEYS.items()}
    text = re.sub(f"{_LITERAL_TEXT}|{_KEY}", lambda m: m[0] if m[2] is None else names[m[2]], text)
    return re.sub(f"{_LITERAL_TEXT}|{_EMPTY_SPEC}", lambda m: m[0] if m[2] is None else f"{m[2]}[()]", text)
