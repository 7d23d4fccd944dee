"""Slices: the equations and inputs that some outputs of a program depend on. They are found from the jaxpr alone.

Inner programs are sliced for each output. A result also depends on its selector: the index of a cond, the condition of
a while loop. Loop carries are followed to a fixed point, so an equation of a body is needed if any iteration needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minijax.core.records import Frozen
from minijax.core.refs import AbstractRef
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.tools.values.loops import InnerProgram, programs_of

# If the programs of one equation ran more often than this, their frames count as unknown.
MOST_FRAMES = 200
# Operations whose inner program only combines two elements.
ELEMENTWISE = ("reduce", "reduce_window", "scatter", "sort")


class WhatRan:
    """The runs of an equation, known from the frames ``around`` that contain the equation; unknown without frames."""

    def __init__(self, eqn: JaxprEqn | None = None, around: Sequence[Any] = ()) -> None:
        self.eqn = eqn
        self.around = around

    def branches(self) -> Sequence[int] | None:
        """The branches that a cond took; None if unknown."""
        found = [frame.branch(self.eqn) for frame in self.around]
        return found if found and all(isinstance(each, int) for each in found) else None

    def frames(self, jaxpr: Jaxpr) -> list[Any]:
        """The frames of the inner program ``jaxpr``, one for each run, in order; none if they are unknown."""
        out: list[Any] = []
        for frame in self.around:
            assert self.eqn is not None
            count = frame.count(self.eqn)
            if not isinstance(count, int) or len(out) + count > MOST_FRAMES:
                return []
            order: Sequence[int | None] = range(count)[::-1] if self.eqn.params.get("reverse") else range(count)
            if self.eqn.primitive.name == "shard_map":
                order = [None]  # all devices at once
            made = [frame.inside(self.eqn, i, part) for part in frame.parts(self.eqn) for i in order]
            out += [each for each in made if getattr(each, "jaxpr", None) is jaxpr]
        return out

    def inside(self, jaxpr: Jaxpr, eqn: JaxprEqn) -> WhatRan:
        """The runs of the equation ``eqn`` in the inner program ``jaxpr``."""
        return WhatRan(eqn, self.frames(jaxpr)) if any(True for _ in subjaxprs(eqn.params)) else UNKNOWN


class SlicedProgram(Frozen):
    """A slice of one program inside an operation.

    Attributes:
      title: the program's role in its operation: 'body', 'branch 1', or ''.
      jaxpr: the program.
      uses: the equations that are needed, in order.
      inputs: the indices of the inputs that are needed.
      operands: for each input, the index of the operand that initializes it.
      carries: index of an input -> index of the output that this input receives from the previous iteration.
      held: the values of the program's constants that are needed.
    """

    title: str
    jaxpr: Jaxpr
    uses: tuple[EquationUse, ...]
    inputs: frozenset[int]
    operands: tuple[int, ...]
    carries: Mapping[int, int]
    held: tuple[Any, ...] = ()


class EquationUse(Frozen):
    """An equation in a slice: its index in its program, the needed outputs, and the slices of its inner programs."""

    index: int
    eqn: JaxprEqn
    outs: frozenset[int]
    parts: tuple[SlicedProgram, ...] = ()


class Focus(Frozen):
    """A variable inside an operation: the program with the variable, and the equations around it, outermost first."""

    jaxpr: Jaxpr
    var: Var
    eqns: tuple[JaxprEqn, ...] = ()

    @property
    def inner(self) -> Focus:
        """The same variable, seen from inside the first of the equations."""
        return Focus(self.jaxpr, self.var, self.eqns[1:])


UNKNOWN = WhatRan()
Needed = tuple[frozenset[int], tuple[SlicedProgram, ...]]


def look_into(
    primitive: str,
    params: Mapping[str, Any],
    operands: int,
    outs: frozenset[int],
    known: WhatRan = UNKNOWN,
    focus: Focus | None = None,
) -> Needed:
    """The operands that the results ``outs`` of an operation depend on, and the slices of its programs.

    ``focus`` adds the dependencies of its variable.
    """
    programs, first, carries = programs_of(primitive, params, operands)
    taken = known.branches() if primitive == "cond" else None
    programs = [each for i, each in enumerate(programs) if taken is None or i in taken]
    if not programs or _takes_refs(params) or any(len(each.jaxpr.invars) != len(each.operands) for each in programs):
        return frozenset(range(operands)), ()
    if primitive == "scan" and params["length"] == 0:
        return frozenset(first + i for i in outs if i < carries), ()
    while True:
        parts = []
        for each in programs:
            gate = each.key == "cond_jaxpr"
            places = {i: k - first for i, k in enumerate(each.operands) if first <= k < first + carries and not gate}
            parts.append(_part(each, frozenset({0}) if gate else outs, known, focus, places))
        needed = {part.operands[i] for part in parts for i in part.inputs}
        more = outs | {k - first for k in needed if first <= k < first + carries}
        if more == outs:
            break
        outs = more
    # the body of a while may run zero times: then a result is the initial carry
    also = {"while": {first + i for i in outs}, "cond": {0}}.get(primitive, set())
    return frozenset(needed | also), tuple(parts)


def _takes_refs(params: Mapping[str, Any]) -> bool:
    return any(isinstance(v.aval, AbstractRef) for jaxpr in subjaxprs(dict(params)) for v in jaxpr.invars)


def _part(
    program: InnerProgram, outs: frozenset[int], known: WhatRan, focus: Focus | None, carries: Mapping[int, int]
) -> SlicedProgram:
    jaxpr, closed = program.jaxpr, program.closed
    uses, wanted = slice_program(jaxpr, outs, known, focus)
    inputs = frozenset(i for i, var in enumerate(jaxpr.invars) if var in wanted)
    consts = closed.consts if isinstance(closed, ClosedJaxpr) else ()
    held = tuple([x for var, x in zip(jaxpr.constvars, consts, strict=False) if var in wanted])
    return SlicedProgram(program.title, jaxpr, uses, inputs, tuple(program.operands), carries, held)


def slice_program(
    jaxpr: Jaxpr, outs: frozenset[int], known: WhatRan = UNKNOWN, focus: Focus | None = None
) -> tuple[tuple[EquationUse, ...], set[Any]]:
    """The equations and the variables that the outputs ``outs`` of ``jaxpr`` depend on."""
    wanted: set[Any] = {jaxpr.outvars[i] for i in outs if i < len(jaxpr.outvars)}
    if focus is not None and not focus.eqns and focus.jaxpr is jaxpr:
        wanted.add(focus.var)
    uses: list[EquationUse] = []
    for index in range(len(jaxpr.eqns) - 1, -1, -1):
        eqn = jaxpr.eqns[index]
        inner = focus.inner if focus is not None and focus.eqns and focus.eqns[0] is eqn else None
        made = frozenset(i for i, var in enumerate(eqn.outvars) if var in wanted)
        if not (made or inner is not None or writes(eqn, wanted)):
            continue
        name = eqn.primitive.name
        needed, parts = look_into(name, eqn.params, len(eqn.invars), made, known.inside(jaxpr, eqn), inner)
        wanted.update([eqn.invars[i] for i in needed if type(eqn.invars[i]) is not Literal])
        uses.append(EquationUse(index, eqn, made, parts))
    return tuple(reversed(uses)), wanted


def writes(eqn: JaxprEqn, wanted: set[Any]) -> bool:
    """Whether ``eqn`` writes to a ref among ``wanted``: later reads of the ref depend on ``eqn``."""
    if eqn.primitive.name == "get":
        return False
    return any(type(v) is not Literal and v in wanted and isinstance(v.aval, AbstractRef) for v in eqn.invars)


def operand_of(primitive: str, params: Mapping[str, Any], operands: int, jaxpr: Jaxpr, index: int) -> int:
    """The operand that initializes the input ``index`` of one of an operation's programs; -1 if unknown."""
    _, parts = look_into(primitive, params, operands, frozenset(), UNKNOWN, Focus(jaxpr, jaxpr.invars[index]))
    return next((part.operands[index] for part in parts if part.jaxpr is jaxpr), -1)


# --- walking a slice
# ---------------------------------------------------------------------------------------------------------


def focuses(params: Mapping[str, Any], var: Var) -> Iterator[Focus]:
    """The places of ``var`` in the programs of an operation."""
    todo: list[tuple[Jaxpr, tuple[JaxprEqn, ...]]] = [(each, ()) for each in subjaxprs(dict(params))]
    seen: set[int] = set()
    while todo:
        jaxpr, eqns = todo.pop()
        if id(jaxpr) in seen:
            continue
        seen.add(id(jaxpr))
        if var in jaxpr.invars or any(var in eqn.outvars for eqn in jaxpr.eqns):
            yield Focus(jaxpr, var, eqns)
        todo += [(inner, (*eqns, eqn)) for eqn in jaxpr.eqns for inner in subjaxprs(eqn.params)]


def innermost(parts: Sequence[SlicedProgram]) -> Iterator[JaxprEqn]:
    """The equations of these slices that have no inner programs: they do the actual work."""
    for part in parts:
        for use in part.uses:
            if use.parts:
                yield from innermost(use.parts)
            else:
                yield use.eqn


def size(primitive: str, params: Mapping[str, Any]) -> int:
    """The number of operations in an operation: 1, or the number of operations in its inner programs."""
    inner = [] if primitive.partition("-")[0] in ELEMENTWISE else list(subjaxprs(dict(params)))
    return sum(size(eqn.primitive.name, eqn.params) for jaxpr in inner for eqn in jaxpr.eqns) if inner else 1


def held(parts: Sequence[SlicedProgram]) -> Iterator[Any]:
    """The values of the needed constants, including constants of inner programs."""
    for part in parts:
        yield from part.held
        for use in part.uses:
            yield from held(use.parts)
