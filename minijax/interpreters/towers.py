"""What a kept program comes to on tracers of several derivatives at once: a list of steps, found by one look-up.

In a derivative of derivatives a program is linearized at the level of its operands; what that gives to compute is a
program again, which is linearized at the level below, and so on down to NumPy's values. Which programs these are, and
which of their results each level keeps, follows from the operands' types at every level: a ``Tower`` has it written
down. To run it is to call the function at its foot and then, from the lowest level up, to write an entry on each tape
and to make the tracers of that level's results.

Invariant: tapes and tracers are what one level after the other would make, each given the programs of the one above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from minijax.core.named import NamedTuple
from minijax.core.trace import Tracer
from minijax.interpreters.bottom import Type
from minijax.interpreters.derived import DerivedProgram, derive_program
from minijax.interpreters.kept import KeptProgram


class Storey(NamedTuple):
    """What is done at one level. A value is named by its place in the list of all values of a run.

    ``active`` are the operands that have a tangent there, ``residuals`` takes what is kept from that list, packed;
    ``results`` says of each result which value it is, its type, and where its tangent is (``DerivedProgram.places``).
    """

    level: int
    derived: DerivedProgram
    active: tuple[int, ...]
    residuals: Callable[[list[Any]], Any]
    results: tuple[tuple[int, Any, int | None], ...]


class Tower(NamedTuple):
    """The steps of a run, the lowest first, and what is at the foot.

    There ``program`` is applied to the values ``operands``: as ``function``, to NumPy's; by ``bottom``, where that is
    what is derived of it for a level whose values come down to these, of which ``active`` have a tangent; or else by
    ``rest``, which takes any, its ``evaluate`` if there is none. Without a program, all results are operands.
    """

    storeys: tuple[Storey, ...]
    program: KeptProgram | None
    operands: tuple[int, ...]
    function: Callable[..., Any] | None
    bottom: DerivedProgram | None
    active: tuple[int, ...]
    rest: Callable[[Sequence[Any]], list[Any]] | None


def linearized(program: KeptProgram, types: Sequence[Type], kind: int) -> DerivedProgram | None:
    """What is derived of ``program`` for operands of these types, of which those in ``kind`` have a tangent."""
    key = (*types, kind)
    found: DerivedProgram | None = program.linearizations.get(key)
    if found is None:
        found = program.derived(program.linearizations, key, partial(derive_program, program, types, kind))
    return found


def build(
    program: KeptProgram, values: Sequence[Any], first: Sequence[int], types: Sequence[Type], cut: int, foot: int
) -> Tower:
    """The tower of ``program``.

    ``values`` are its operands as each level sees them, from the top; those of operand ``i`` begin at ``first[i]``.
    ``types`` are those of NumPy's values that they come down to. Levels up to ``cut`` belong to other interpreters; if
    there are none (-1), ``foot`` is the level whose values are NumPy's, 0 for evaluation.
    """
    lowest = foot if cut < 0 else max(cut, foot) + 1
    levels = {x._trace.main.level for x in values if isinstance(x, Tracer) and x._trace.level >= lowest}
    at = [*first]
    found: list[tuple[int, DerivedProgram, tuple[int, ...], list[int]]] = []
    below = program
    for level in sorted(levels, reverse=True):
        operands = [values[i] for i in at]
        has_tangent = [isinstance(x, Tracer) and x._trace.level == level for x in operands]
        kind = sum([has << i for i, has in enumerate(has_tangent)])
        active = tuple([i for i, has in zip(at, has_tangent, strict=True) if has])
        if level == foot:
            derived = linearized(below, types, kind)
            if derived is not None:
                storeys = _storeys(found, len(values), derived.n_out)
                return Tower(storeys, below, tuple(at), derived.forward, derived, active, None)
            break
        inner = [i + has for i, has in zip(at, has_tangent, strict=True)]
        derived = linearized(below, [values[i].aval for i in inner], kind)
        if derived is None:
            break
        found.append((level, derived, active, inner))
        at = inner
        inside, _ = derived.distinct
        if inside is None:
            return Tower(_storeys(found, len(values), 0), None, (), None, None, (), None)
        below = inside
    else:
        function, rest = (below.function, None) if cut < 0 else (None, below.run)
        return Tower(_storeys(found, len(values), len(below.out_avals)), below, tuple(at), function, None, (), rest)
    return Tower(_storeys(found, len(values), len(below.out_avals)), below, tuple(at), None, None, (), None)


def _storeys(
    found: Sequence[tuple[int, DerivedProgram, tuple[int, ...], list[int]]], count: int, n: int
) -> tuple[Storey, ...]:
    """The storeys, the lowest first, given those from the top: with the operands as the level below sees them.

    There are ``count`` values before the first results, the ``n`` at the foot.
    """
    storeys = []
    for level, derived, active, inner in reversed(found):
        _, numbers = derived.distinct
        places = [inner[i] if i < len(inner) else count + i - len(inner) for i in numbers]
        outs, kept = places[: derived.n_out], places[derived.n_out :]
        residuals = itemgetter(*kept) if kept else _nothing
        results = tuple(zip(outs, derived.out_avals, derived.places, strict=True))
        storeys.append(Storey(level, derived, active, residuals, results))
        count, n = count + n, derived.n_out
    return tuple(storeys)


def _nothing(values: list[Any]) -> tuple[()]:
    return ()
