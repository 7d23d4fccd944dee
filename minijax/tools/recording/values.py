"""The values that a full recorder keeps, by the numbers of what was seen, up to a bound of memory.

They live in the process only: a recording that was loaded from a file has texts. Arrays of the engine are never written
to, so keeping one is keeping a reference to its memory; what a donation has deleted is gone, and says so.

Of what is staged the programs are kept, and the calls that ran them, so that values of their variables can be computed
when somebody looks (``tools/values``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from minijax.core.array import Array, MeshArray
from minijax.core.avals import ShapedArray
from minijax.core.named import Frozen
from minijax.core.trace import Tracer
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, Var

# What would make it more bytes of values than this is not kept; so many calls, and programs, are.
MOST_BYTES = 256_000_000
MOST_CALLS = 20_000
MOST_PROGRAMS = 2_000
# Of arrays that take more bytes it is looked whether their values are counted already.
_LARGE = 10_000


class RunRecord(Frozen):
    """An operation that runs a program: ``at`` is the event of its bind, ``params`` the operation's own; ``operands``
    are numbers (0: not numbered, and then ``literals`` has the value at that index). ``operation`` is the primitive
    itself, ``avals`` are the operands' types, ``axes`` names and sizes of the mapped axes that were bound then.
    """

    at: int
    primitive: str
    level: str
    params: Mapping[str, Any]
    operands: tuple[int, ...]
    literals: Mapping[int, Any]
    operation: Any = None
    avals: tuple[Any, ...] = ()
    axes: tuple[tuple[Any, int], ...] = ()


class Kept(Mapping[int, Array]):
    """Arrays by their numbers, each made of what it holds when it is asked for: a recording has very many scalars."""

    def __init__(self) -> None:
        # number -> what NumPy holds, and its type; the array itself of what is on a device
        self.held: dict[int, Any] = {}
        self.types: dict[int, ShapedArray] = {}

    def __getitem__(self, number: int) -> Array:
        held = self.held[number]
        return held if type(held) is Array else Array(held, self.types[number])

    def __contains__(self, number: object) -> bool:
        return number in self.held

    def __iter__(self) -> Iterator[int]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


class Values:
    """What a full recording keeps of values.

    Attributes:
      arrays: number -> the array. Use ``array``, which tells what was not kept.
      variables: number of a tracer -> the variable that it stands for: of the jaxpr that its interpreter records, or of
        its tangent in the linear program.
      inside: number of a tracer -> what it holds that has no number: a number that was handed over, a zero.
      runs: event of a bind -> the operation that runs a program.
      programs: event -> the jaxpr that was finished then, and by what ('staged', ...).
      left_out: how many values had no room.
      programs_left_out: how many programs, and operations that run one, had none.
      bytes: what is kept takes, the constants of programs included.
    """

    def __init__(self) -> None:
        self.arrays = Kept()
        self.variables: dict[int, Var] = {}
        self.inside: dict[int, dict[int, Any]] = {}
        self.runs: dict[int, RunRecord] = {}
        self.programs: dict[int, tuple[str, ClosedJaxpr]] = {}
        self.left_out = 0
        self.programs_left_out = 0
        self.bytes = 0
        # ids of the programs that are kept, and of what holds the values of their constants and of large arrays: these
        # count once
        self._counted: set[int] = set()

    def keep(self, number: int, x: Array) -> None:
        """Keep the value of ``x``, whose wrapper is the user's and dies when it would."""
        aval = x.aval
        # an array's own size is right for all but keys and packed integers, which take no more; most are scalars
        taken = 100 if not aval.shape or aval.size == 1 else 100 + aval.size * aval.dtype.itemsize
        if taken > _LARGE:
            taken = sum(self._new((x,)).values())
        if self.bytes + taken > MOST_BYTES:
            self.left_out += 1
            return
        self.bytes += taken
        if taken > _LARGE:
            self._counted.add(_held(x))
        kept = self.arrays
        kept.types[number] = aval
        try:
            kept.held[number] = x._np
        except AttributeError:
            copy: Array
            if type(x) is MeshArray:
                copy = MeshArray(x._buffer, aval, x.device)
            else:
                copy = object.__new__(Array)
                copy.aval, copy._buffer = aval, x._buffer
            kept.held[number] = copy

    def keep_run(self, record: RunRecord) -> None:
        """Keep an operation that runs a program."""
        programs = list(_programs(record.params.values()))
        if any(map(_traced, programs)):
            return
        if len(self.runs) < MOST_CALLS and self._has_room(programs):
            self.runs[record.at] = record
        else:
            self.programs_left_out += 1

    def keep_program(self, at: int, kind: str, closed: Any) -> None:
        """Keep a finished jaxpr."""
        if not isinstance(closed, ClosedJaxpr) or _traced(closed):
            return
        if len(self.programs) < MOST_PROGRAMS and self._has_room((closed,)):
            self.programs[at] = kind, closed
        else:
            self.programs_left_out += 1

    def _has_room(self, programs: Sequence[ClosedJaxpr]) -> bool:
        """Whether the constants of programs have room, or have it already: then they are counted."""
        counted = self._counted
        new: dict[int, int] = {}
        for each in programs:
            if id(each) not in counted:
                new[id(each)] = 0
                new |= self._new(each.consts)
        taken = sum(new.values())
        if self.bytes + taken > MOST_BYTES:
            return False
        self.bytes += taken
        counted.update(new)
        return True

    def _new(self, arrays: Iterable[Any]) -> dict[int, int]:
        """What those of the arrays take that are not counted yet, by what holds their values."""
        found = {_held(x): 100 + getattr(x, "nbytes", 0) for x in arrays}
        return {key: size for key, size in found.items() if key not in self._counted}

    def array(self, number: int) -> Array | None:
        """The array of this number; None if it is a tracer's or was not kept."""
        return self.arrays.get(number)


def _held(x: Any) -> int:
    """The id of what has the values of an array, which several arrays may have together."""
    value = getattr(x, "_np", None)
    return id(getattr(x, "_buffer", x) if value is None else value)


def _programs(values: Iterable[Any]) -> Iterator[ClosedJaxpr]:
    """The programs among the values of parameters."""
    for value in values:
        if type(value) is tuple:
            yield from _programs(value)
        elif isinstance(value, ClosedJaxpr):
            yield value


def _traced(closed: ClosedJaxpr) -> bool:
    """Whether a program has tracers among its constants, which are not kept alive."""
    return any([isinstance(each, Tracer) for each in closed.consts])


def holds_program(value: Any) -> bool:
    """Whether a parameter is a program, or several."""
    if type(value) is tuple:
        return any(isinstance(each, (ClosedJaxpr, Jaxpr)) for each in value)
    return isinstance(value, (ClosedJaxpr, Jaxpr))
