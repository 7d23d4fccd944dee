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
from minijax.interpreters.derived import Linearization
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
    plain = tape.bottom is not None and tape.bottom.staging is None and tape.eqns is None and tape._program is None
    if not plain or tape.mixed or not all([type(v) is Var for v in tape.variables.values()]):
        return tape.closed()
    recorded = {i: entry for i, entry in enumerate(entries) if type(entry) is not tuple}
    if not all(map(_is_plain_recording, recorded.values())):
        return tape.closed()
    if not all(map(_is_plain, {entry[0] for entry in entries if type(entry) is tuple})):
        return tape.closed()
    outs = [place for place in tape.out_places if place is not None]
    read = set(outs)
    for entry in recorded.values():
        read.update([entry.place_of[v] for eqn in entry.eqns for v in eqn.invars if v in entry.place_of])
    operands = [entry[2] for entry in entries if type(entry) is tuple]
    read.update(chain.from_iterable([(places,) if type(places) is int else places for places in operands]))
    if len(read.difference(range(tape.n_in))) < len(entries):  # nobody needs some of the equations
        return tape.closed()
    copy = _copied(tape, entries, recorded)
    primitives = [
        entry[0].primitives if type(entry) is tuple else [eqn.primitive for eqn in entry.eqns] for entry in entries
    ]
    in_avals = [tape.variables[i].aval for i in range(tape.n_in)]
    out_avals = [tape.variable(place).aval for place in outs]
    return Outline(copy, in_avals, out_avals, [*chain.from_iterable(primitives)])


def _copied(tape: Tape, entries: list[Any], recorded: dict[int, Recorded]) -> _TapeOfIds:
    """The tape without values; what stands for one value is one object, wherever it is met."""
    copy = _TapeOfIds(tape.name)
    copy.n_in, copy.out_places, copy.out_avals = tape.n_in, tape.out_places, tape.out_avals
    copy.bottom = Bottom((), None)
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
    copy.entries = tape.entries[: tape.n_in]
    copy.entries += [
        None
        if type(entry) is not tuple
        else (entry[0], id(entry[1]) if entry[0].n_res == 1 else tuple(map(id, entry[1] or ())), entry[2], entry[3])
        for entry in entries
    ]
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
        copy.entries[tape.n_in + i] = Recorded(eqns, entry.place_of, entry.out_vars, entry.first)
    return copy


def _is_plain_recording(entry: Any) -> bool:
    """Whether an entry is of equations for one result that are all needed, and hold no programs."""
    if type(entry) is not Recorded or len(entry.out_vars) > 1:
        return False
    return len(live_eqns(entry.eqns, entry.out_vars)) == len(entry.eqns) and not _hold_jaxprs(entry.eqns)


def _is_plain(derived: Linearization) -> bool:
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
