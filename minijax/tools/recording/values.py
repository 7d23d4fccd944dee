"""The values that a full recorder keeps, up to a memory limit. Each has the number of its tracer or array.

They exist only in this process; a recording loaded from a file has texts instead. The engine never writes to an array,
so a reference to its memory is enough. Only donation deletes a kept value; reading it then raises an error.

For staged programs, the programs and their calls are kept, so that ``tools/values`` can compute values of variables on
demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from minijax.core.array import Array, MeshArray
from minijax.core.avals import ShapedArray
from minijax.core.records import Frozen
from minijax.core.trace import Tracer
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, Var

# The maximum numbers of bytes of all kept values, of kept calls, and of kept programs.
MOST_BYTES = 256_000_000
MOST_CALLS = 20_000
MOST_PROGRAMS = 2_000
# An array of more bytes than this is counted only if its memory is not counted already.
_LARGE = 10_000


class RunRecord(Frozen):
    """An operation that runs a program: ``at`` is the event of its bind, ``params`` its parameters. ``operands`` has
    the number of each operand; if it is 0, ``literals`` maps the operand's index to its value. ``operation`` is the
    primitive object, ``avals`` are the operands' types, ``axes`` the names and sizes of the mapped axes in scope.
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
    """Arrays by number. ``Array`` objects are created on access, because a recording has very many scalars."""

    def __init__(self) -> None:
        # number -> the NumPy value (``types`` has its type); for an array on a device, an ``Array`` with its type
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
    """The values kept by a full recording.

    Attributes:
      arrays: number -> the array. Use ``array``, which returns None for values that were not kept.
      variables: number of a tracer -> its variable in the jaxpr that its interpreter records. For a tracer of a
      linearization, it is the variable of the tangent in the linear program.
      inside: number of a tracer -> its unnumbered contents: an inline number or a symbolic zero.
      runs: event of a bind -> the operation that runs a program.
      programs: event -> how a jaxpr was made ('staged', ...), and the jaxpr finished at that event.
      left_out: the number of values dropped at the memory limit.
      programs_left_out: the number of dropped programs, and of dropped operations that run a program.
      bytes: the memory of all kept values, including constants of programs.
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
        # ids of kept programs, of the memory of their constants, and of the memory of large arrays: each counts once
        self._counted: set[int] = set()

    def keep(self, number: int, x: Array) -> None:
        """Keep the value of ``x`` without keeping the user's ``Array`` object alive."""
        aval = x.aval
        # the memory: too high for keys and packed integers, otherwise exact. Quick for scalars: most values are scalars
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
        """Whether the constants of programs fit within the limit or are counted already; if so, count them."""
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
        """Id of an array's memory -> its size in bytes, for the ``arrays`` whose memory is not counted yet."""
        found = {_held(x): 100 + getattr(x, "nbytes", 0) for x in arrays}
        return {key: size for key, size in found.items() if key not in self._counted}

    def array(self, number: int) -> Array | None:
        """The array with this number; None for a tracer or if it was not kept."""
        return self.arrays.get(number)


def _held(x: Any) -> int:
    """The id of an array's memory, which several arrays can share."""
    value = getattr(x, "_np", None)
    return id(getattr(x, "_buffer", x) if value is None else value)


def _programs(values: Iterable[Any]) -> Iterator[ClosedJaxpr]:
    """The programs in the values of parameters."""
    for value in values:
        if type(value) is tuple:
            yield from _programs(value)
        elif isinstance(value, ClosedJaxpr):
            yield value


def _traced(closed: ClosedJaxpr) -> bool:
    """Whether a program has tracers among its constants. Such programs are not kept."""
    return any([isinstance(each, Tracer) for each in closed.consts])


def holds_program(value: Any) -> bool:
    """Whether a parameter is a program or a tuple with programs."""
    if type(value) is tuple:
        return any(isinstance(each, (ClosedJaxpr, Jaxpr)) for each in value)
    return isinstance(value, (ClosedJaxpr, Jaxpr))
