"""Source lines of equations, for authors who make equations. A ``traceback`` here is one line, without its callers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from minijax import errors
from minijax.core.names import SourceInfo, named_scope, source_info_of
from minijax.core.trace import state

__all__ = [
    "SourceInfo",
    "current",
    "extend_name_stack",
    "new_source_info",
    "register_exclusion",
    "summarize",
    "user_context",
]

extend_name_stack = named_scope


def new_source_info() -> SourceInfo:
    """A source without a line or a named scope."""
    return SourceInfo(None, ())


def current() -> SourceInfo:
    """The line and the named scopes that an equation recorded here gets."""
    return source_info_of(state.source or errors.source_info(2))


def summarize(source_info: SourceInfo) -> str:
    """The line as text."""
    return errors.summarize(source_info.traceback)


def register_exclusion(path: str) -> None:
    """Treat files whose path begins with ``path`` as library code: equations get the line of the caller."""
    errors.exclude(path)


@contextlib.contextmanager
def user_context(traceback: Any, *, name_stack: Any = None) -> Iterator[None]:
    """Equations in the block get the line ``traceback`` and scopes ``name_stack``. Errors get a note with the line."""
    outer = state.source
    if traceback is not None:
        state.source = (*traceback[:2], name_stack) if name_stack is not None else traceback
    try:
        yield
    except Exception as error:
        if traceback is not None:
            error.add_note(f"It happened in the replacement of the operation at {errors.summarize(traceback)}.")
        raise
    finally:
        state.source = outer
