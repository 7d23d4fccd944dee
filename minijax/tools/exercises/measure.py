"""Compare an answer's result with the expected one, and with the results of known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minijax.core.array import is_array_like
from minijax.tools.documents.document import Block, Table, line, text
from minijax.tools.documents.words import shortened
from minijax.tools.exercises.model import NotYet
from minijax.tools.recording import preview

# The result that a mistake leads to, and the message for this mistake.
Mistake = tuple[Any, str]


def shown(x: Any) -> str:
    """A value with few digits, such as ``[0.5, 1.0]``. For an object without elements, such as a tracer, its repr."""
    if isinstance(x, tuple | list):
        inner = ", ".join(map(shown, x))
        return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' if len(x) == 1 else ''})"
    values = _values(x) if is_array_like(x) else None
    return shortened(repr(x)) if values is None else preview.value_text(values)


def _values(x: Any) -> np.ndarray | None:
    """The elements of an array. None for anything without elements, such as a tracer."""
    try:
        return np.asarray(x)
    except TypeError:
        return None


def close(a: Any, b: Any, tolerance: float = 1e-4) -> bool:
    """Whether two arrays have the same shape and differ by at most ``tolerance``, relative or absolute."""
    x, y = _values(a), _values(b)
    if x is None or y is None or {x.dtype.kind, y.dtype.kind} - set("fiub"):
        return False
    return x.shape == y.shape and bool(np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True))


def expect(
    what: str,
    found: Any,
    wanted: Any,
    mistakes: Iterable[Mistake] = (),
    otherwise: Callable[[], str] = str,
    tolerance: float = 1e-4,
) -> None:
    """Raise NotYet unless ``found`` equals ``wanted``. The message is that of the first mistake in ``mistakes`` with
    this result. If no mistake has this result, the message ends with the hint from ``otherwise``.
    """
    values = _values(found) if is_array_like(found) else None
    if values is None or values.dtype == object:
        raise NotYet(f"{what} is {shown(found)}, of type {type(found).__name__}; an array is expected.")
    if close(found, wanted, tolerance):
        return
    rows = compared(what, found, wanted)
    for value, said in mistakes:
        if close(found, value, tolerance):
            raise NotYet(said, rows)
    there, due = np.shape(found), np.shape(wanted)
    if there != due:
        raise NotYet(f"{what} has the shape {there}, and {due} is expected. {otherwise()}".rstrip(), rows)
    if close(found, -np.asarray(wanted), tolerance):
        raise NotYet(f"{what} has the wrong sign. {otherwise()}".rstrip(), rows)
    raise NotYet(f"{what} is not what it should be. {otherwise()}".rstrip(), rows)


def compared(what: str, found: Any, wanted: Any) -> tuple[Block, ...]:
    """A table with the answer's result and the expected one."""
    rows = ((("", what), ("error", shown(found)), ("good", shown(wanted))),)
    return (Table(("", "yours", "expected"), rows),)


def note(said: str) -> Block:
    """A line with a measurement."""
    return text(line(("muted", said)))


def pair(what: str, found: Any, of: str) -> tuple[Any, Any]:
    """The two parts of a rule's result. NotYet if it is no pair; ``of`` says in the message what the parts are."""
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise NotYet(f"{what} returned {shown(found)}. It returns a pair: {of}.")
    return found[0], found[1]
