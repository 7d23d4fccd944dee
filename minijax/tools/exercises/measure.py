"""Comparing what an answer gave with what is due, and with what known mistakes give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from minijax.core.array import is_array_like
from minijax.tools.documents.document import Block, Table, line, text
from minijax.tools.exercises.model import NotYet
from minijax.tools.recording import preview

# A value that a mistake gives, and what to say of that mistake.
Mistake = tuple[Any, str]


def shown(x: Any) -> str:
    """A value in a few digits: ``[0.5, 1.0]``."""
    if isinstance(x, tuple | list):
        inner = ", ".join(map(shown, x))
        return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' if len(x) == 1 else ''})"
    return preview.value_text(np.asarray(x)) if is_array_like(x) else preview.shortened(repr(x), 60)


def close(a: Any, b: Any, tolerance: float = 1e-4) -> bool:
    """Whether two arrays have one shape and are equal as far as 32 bits and finite differences tell."""
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return x.shape == y.shape and bool(np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True))


def expect(
    what: str, found: Any, wanted: Any, mistakes: Iterable[Mistake] = (), otherwise: str = "", tolerance: float = 1e-4
) -> None:
    """NotYet unless ``found`` is ``wanted``; of the ``mistakes`` the first that gives ``found`` is named."""
    if not is_array_like(found):
        raise NotYet(f"{what} is {shown(found)}, of type {type(found).__name__}; an array is due.")
    if close(found, wanted, tolerance):
        return
    rows = compared(what, found, wanted)
    for value, said in mistakes:
        if close(found, value, tolerance):
            raise NotYet(said, rows)
    there, due = np.shape(found), np.shape(wanted)
    if there != due:
        raise NotYet(f"{what} has the shape {there}, and {due} is due. {otherwise}".rstrip(), rows)
    if close(found, -np.asarray(wanted), tolerance):
        raise NotYet(f"{what} has the wrong sign. {otherwise}".rstrip(), rows)
    raise NotYet(f"{what} is not what it should be. {otherwise}".rstrip(), rows)


def compared(what: str, found: Any, wanted: Any) -> tuple[Block, ...]:
    """What an answer gave beside what is due."""
    rows = ((("", what), ("error", shown(found)), ("good", shown(wanted))),)
    return (Table(("", "yours", "due"), rows),)


def note(said: str) -> Block:
    """A line of what was measured."""
    return text(line(("muted", said)))


def pair(what: str, found: Any, of: str) -> tuple[Any, Any]:
    """The two parts of what a rule returned."""
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise NotYet(f"{what} returned {shown(found)}. It returns a pair: {of}.")
    return found[0], found[1]
