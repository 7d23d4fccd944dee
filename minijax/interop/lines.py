"""The user's line for an equation of JAX, and the names of the scopes around it.

In: an equation of a JAX jaxpr. Out: a source in minijax's form: ``(code, offset)``, ``(code, offset, names)``, or for a
transposed equation one more entry (see ``core.names.transposed``).
"""

from __future__ import annotations

import ast
import functools
import itertools
import os
import site
import sys
import sysconfig
from types import CodeType, FunctionType
from typing import Any

from minijax import errors
from minijax.core.names import NameStack
from minijax.interop.values import jax_module

# The name stack of equations outside all named scopes.
_NO_NAMES: NameStack = ()


class TransformedSource(tuple[Any, ...]):
    """The source of an equation that a JAX transformation made, for a tangent, a cotangent or a batch."""

    __slots__ = ()


@functools.cache
def foreign_folders() -> tuple[str, ...]:
    """The folders of Python's library and of installed packages, which hold no user code."""
    folders = {*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()}
    return tuple(sorted(folder.rstrip(os.sep) + os.sep for folder in folders if folder and folder != sys.prefix))


@functools.cache
def _jax_folders() -> tuple[str, ...]:
    packages = [jax_module(), sys.modules["jaxlib"]]
    return tuple([os.path.dirname(os.path.abspath(package.__file__)) + os.sep for package in packages])


@functools.lru_cache(4096)
def rank_of_file(filename: str) -> int:
    """The rank of a file: 0 for the user's, 1 for a library's, 2 for JAX's or minijax's."""
    if not errors.is_user_file(filename) or filename.startswith(_jax_folders()):
        return 2
    return 1 if filename.startswith(foreign_folders()) else 0


def source_of(eqn: Any) -> Any:
    """The source of a JAX equation in minijax's form, or None: the user's innermost line, else a library's.

    JAX keeps only the frames inside the function that it traced.
    """
    traceback = eqn.source_info.traceback
    place = None if traceback is None else place_of(traceback)
    if place is None:
        return None
    stack = eqn.source_info.name_stack
    names = _names(stack)
    made = [each.name for each in stack.stack if type(each).__name__ == "Transform"]
    if not made:
        return (*place, names) if names else place
    # JAX keeps no names of the transposed primitives
    unknown = ("",) * made.count("transpose")
    return TransformedSource((*place, names, unknown) if unknown else (*place, names) if names else place)


def jax_traceback(source: Any) -> Any:
    """A JAX traceback of a call at ``source``, the source of a minijax equation; None if ``source`` is None."""
    if source is None:
        return None
    get = sys.modules["jaxlib"]._jax.Traceback.get_traceback
    return FunctionType(_calling_at(*source[:2]), {"get": get})()


@functools.lru_cache(4096)
def _calling_at(code: CodeType, offset: int) -> CodeType:
    """Compile ``get()`` at the source position of ``code`` at ``offset``."""
    call = ast.parse("get()", mode="eval")
    line, end_line, column, end_column = next(itertools.islice(code.co_positions(), offset // 2, None))
    node: Any
    for node in ast.walk(call.body):
        node.lineno, node.end_lineno, node.col_offset, node.end_col_offset = line, end_line, column, end_column
    made = compile(call, code.co_filename, "eval")
    return made.replace(co_name=code.co_name, co_qualname=code.co_qualname)


def place_of(traceback: Any) -> Any:
    """The innermost user line in a JAX traceback, else a library's, as ``(code, offset)``; None if there is neither."""
    library = None
    for code, offset in zip(*traceback.raw_frames(), strict=True):
        rank = rank_of_file(code.co_filename)
        if rank == 0:
            return code, offset
        if rank == 1 and library is None:
            library = (code, offset)
    return library


def _names(stack: Any) -> NameStack:
    """Convert JAX's name stack. The result is empty without a named scope, even if there are transformations."""
    elements = stack.stack
    if not any(type(each).__name__ == "Scope" for each in elements):
        return _NO_NAMES
    return tuple([(each.name, type(each).__name__ != "Scope") for each in elements])
