"""The linear program of a tape without its values, its equations written when somebody reads them.

A summary keeps the program of every derivative, and few are looked at. An ``Outline`` tells at once what programs are
told apart by, and keeps of the tape what its equations are written from: the places of operands, and of residuals which
are the same. It holds no value, and no more of the user's than the code objects that lines are found by.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from minijax.core.array import LiteralArray, as_array
from minijax.core.avals import AnyArray, ShapedArray
from minijax.interpreters.bottom import Bottom, Type, logical
from minijax.interpreters.derived import Derived
from minijax.interpreters.partial_eval import Residual, live_eqns
from minijax.interpreters.tape import Recorded, Tape
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var


class _Value(AnyArray):
    """Stands for a value of which nothing but its type is kept."""

    __slots__ = ("aval",)
    aval: ShapedArray  # type: ignore[misc]

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval


class _TapeOfIds(Tape):
    """A copy of a tape whose entries have ids in place of residuals; None for one that is like no other."""

    __slots__ = ()

    def residual(self, value: Any, type_: Type) -> Any:
        if value is None:
            return _Value(logical(type_))
        found = self.arrays.get((value, type_))
        if found is None:
            found = self.arrays[value, type_] = value, _Value(logical(type_))
        return found[1]


class _LaterJaxpr(Jaxpr):
    """The jaxpr of a tape, closed when one of its parts is first asked for."""

    __slots__ = ("_tape",)
    _tape: Tape

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __getattr__(self, name: str) -> Any:
        if name not in Jaxpr.__slots__:
            raise AttributeError(name)
        jaxpr = self._tape.closed().jaxpr
        for part in ("constvars", "invars", "outvars", "eqns", "debug_name"):
            setattr(self, part, getattr(jaxpr, part))
        del self._tape
        return getattr(self, name)


class Outline:
    """What is told of a linear program: its jaxpr, which is written when it is read.

    ``in_avals`` and ``out_avals`` are the types of inputs and outputs, ``primitives`` those of its equations, in order.
    """

    __slots__ = ("jaxpr", "in_avals", "out_avals", "primitives")

    def __init__(self, tape: Tape, in_avals: list[Any], out_avals: list[Any], primitives: list[Any]) -> None:
        self.jaxpr = _LaterJaxpr(tape)
        self.in_avals = in_avals
        self.out_avals = out_avals
        self.primitives = primitives


def outline(tape: Tape) -> Outline | ClosedJaxpr:
    """The linear program of ``tape`` for whoever keeps it; the program itself if it has to be gone through."""
    entries = tape.entries[tape.n_in :]
    plain = tape.bottom is not None and tape.eqns is None and tape._program is None
    if not plain or tape.mixed or not all([type(v) is Var for v in tape.variables.values()]):
        return tape.closed()
    recorded = {i: entry for i, entry in enumerate(entries) if type(entry) is not tuple}
    if not all(map(_is_plain_recording, recorded.values())):
        return tape.closed()
    # column by column: there may be very many
    columns = [*zip(*[entry for entry in entries if type(entry) is tuple], strict=True)] or [()] * 4
    derived, residuals, operands, sources = columns
    if not all(map(_is_plain, set(derived))):
        return tape.closed()
    outs = [place for place in tape.out_places if place is not None]
    read = set(outs)
    for entry in recorded.values():
        read.update([entry.place_of[v] for eqn in entry.eqns for v in eqn.invars if v in entry.place_of])
    read.update([places for places in operands if type(places) is int])
    read.update(chain.from_iterable([places for places in operands if type(places) is not int]))
    if len(read.difference(range(tape.n_in))) < len(entries):  # nobody needs some of the equations
        return tape.closed()
    ids = [tuple(map(id, kept)) if type(kept) is tuple else () if kept is None else id(kept) for kept in residuals]
    copy = _copied(tape, [*zip(derived, ids, operands, sources, strict=True)], recorded)
    of_recorded = {i: [eqn.primitive for eqn in entry.eqns] for i, entry in recorded.items()}
    primitives = _merged([each.primitives for each in derived], of_recorded)
    in_avals = [tape.variables[i].aval for i in range(tape.n_in)]
    out_avals = [tape.variable(place).aval for place in outs]
    return Outline(copy, in_avals, out_avals, [*chain.from_iterable(primitives)])


def _merged(rest: Sequence[Any], others: dict[int, Any]) -> list[Any]:
    """``rest``, with ``others`` among them at their indices, which increase."""
    out: list[Any] = []
    taken = 0
    for i, each in others.items():
        count = i - len(out)
        out += rest[taken : taken + count]
        out.append(each)
        taken += count
    return [*out, *rest[taken:]]


def _copied(tape: Tape, entries: list[Any], recorded: dict[int, Recorded]) -> _TapeOfIds:
    """The tape without values; what stands for one value is one object, wherever it is met.

    ``entries`` have none, and those in ``recorded`` are not among them.
    """
    copy = _TapeOfIds(tape.name)
    copy.n_in, copy.out_places, copy.out_avals = tape.n_in, tape.out_places, tape.out_avals
    copy.bottom = Bottom(())
    copy.variables = dict(tape.variables)
    stand_ins: dict[int, Any] = {}

    def stand_in(x: Any) -> Any:
        found = stand_ins.get(id(x))
        if found is None:
            value = x if isinstance(x, AnyArray) else as_array(x)
            # numbers that are written inline are no more than that
            found = stand_ins[id(x)] = value if isinstance(value, LiteralArray) else _Value(value.aval)
        return found

    copy.arrays = {key: (None, stand_in(x)) for key, (_, x) in tape.arrays.items()}
    without: dict[int, Recorded] = {}
    for i, entry in recorded.items():
        eqns = [
            JaxprEqn(
                eqn.primitive,
                [Residual(stand_in(v.val)) if type(v) is Residual else v for v in eqn.invars],
                eqn.params,
                eqn.outvars,
                eqn.source,
            )
            for eqn in entry.eqns
        ]
        without[i] = Recorded(eqns, entry.place_of, entry.out_vars, entry.first)
    copy.entries = [*tape.entries[: tape.n_in], *_merged(entries, without)]
    return copy


def _is_plain_recording(entry: Any) -> bool:
    """Whether an entry is of equations for one result that are all needed, and hold no programs."""
    if type(entry) is not Recorded or len(entry.out_vars) > 1:
        return False
    return len(live_eqns(entry.eqns, entry.out_vars)) == len(entry.eqns) and not _hold_jaxprs(entry.eqns)


def _is_plain(derived: Derived) -> bool:
    """Whether the linear part is of operations on arrays that are all needed, and told by their places alone.

    Of a residual that is a truth value it cannot be told which array of the user's it is: NumPy has only two.
    """
    found = derived.plain
    if found is None:
        jaxpr = derived.linear.jaxpr
        read = {v for eqn in jaxpr.eqns for v in eqn.invars}
        found = derived.plain = (
            len(live_eqns(jaxpr.eqns, jaxpr.outvars)) == len(jaxpr.eqns)
            and read.issuperset(jaxpr.invars[derived.n_res :])
            and not any([logical(t).dtype.kind == "b" and not logical(t).shape for t in derived.residual_types])
            and not _hold_jaxprs(jaxpr.eqns)
        )
    return found


def _hold_jaxprs(eqns: Sequence[JaxprEqn]) -> bool:
    return any([_holds_jaxpr(value) for eqn in eqns for value in eqn.params.values()])


def _holds_jaxpr(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_holds_jaxpr, value))
    return isinstance(value, (ClosedJaxpr, Jaxpr))
