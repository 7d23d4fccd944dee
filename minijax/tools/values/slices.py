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

# Operations that pass their unchanged operands to one inner program -> the parameter with this program.
CALLS = {
    "jit": "jaxpr",
    "remat2": "jaxpr",
    "shard_map": "jaxpr",
    "call": "call_jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
# Operations whose inner program only combines two elements.
ELEMENTWISE = ("reduce", "reduce_window", "scatter", "sort")


class WhatRan:
    """Knowledge about the run of an operation. This class knows nothing; subclasses know more."""

    def branches(self) -> Sequence[int] | None:
        """The branches that a cond took; None if unknown."""
        return None

    def inside(self, jaxpr: Jaxpr, eqn: JaxprEqn) -> WhatRan:
        """The knowledge about the equation ``eqn`` in the inner program ``jaxpr``."""
        return self


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
    if primitive.partition("-")[0] not in ELEMENTWISE and any(True for _ in subjaxprs(dict(params))):
        sliced = _of_program(primitive, params, operands, outs, known, focus)
        if sliced is not None:
            return sliced
    return frozenset(range(operands)), ()


def _of_program(
    primitive: str, params: Mapping[str, Any], operands: int, outs: frozenset[int], known: WhatRan, focus: Focus | None
) -> Needed | None:
    """The result of ``look_into``; None if the operation is unsupported or an inner program takes refs."""
    if any(isinstance(v.aval, AbstractRef) for jaxpr in subjaxprs(dict(params)) for v in jaxpr.invars):
        return None
    if primitive in CALLS:
        part = _part("", params[CALLS[primitive]], outs, range(operands), known, focus)
        return None if part is None else (part.inputs, (part,))
    if primitive == "scan":
        return _scan(params, operands, outs, known, focus)
    if primitive == "while":
        return _while(params, operands, outs, known, focus)
    if primitive == "cond":
        return _cond(params, operands, outs, known, focus)
    if primitive == "custom_linear_solve":
        return _linear_solve(params, operands, outs, known, focus)
    return None


def _part(
    title: str,
    closed: ClosedJaxpr | Jaxpr,
    outs: frozenset[int],
    operands: Sequence[int],
    known: WhatRan,
    focus: Focus | None,
    carries: Mapping[int, int] | None = None,
) -> SlicedProgram | None:
    jaxpr = closed.jaxpr if isinstance(closed, ClosedJaxpr) else closed
    if len(jaxpr.invars) != len(operands):
        return None
    uses, wanted = slice_program(jaxpr, outs, known, focus)
    inputs = frozenset(i for i, var in enumerate(jaxpr.invars) if var in wanted)
    consts = closed.consts if isinstance(closed, ClosedJaxpr) else ()
    held = tuple([x for var, x in zip(jaxpr.constvars, consts, strict=False) if var in wanted])
    return SlicedProgram(title, jaxpr, uses, inputs, tuple(operands), carries or {}, held)


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


# --- programs by operation
# ---------------------------------------------------------------------------------------------------------


def _scan(
    params: Mapping[str, Any], operands: int, outs: frozenset[int], known: WhatRan, focus: Focus | None
) -> Needed | None:
    consts, count = params["num_consts"], params["num_carry"]
    if params["length"] == 0:
        return frozenset(consts + i for i in outs if i < count), ()
    carries = {consts + i: i for i in range(count)}
    while True:
        part = _part("body", params["jaxpr"], outs, range(operands), known, focus, carries)
        if part is None:
            return None
        more = outs | {carries[i] for i in part.inputs if i in carries}
        if more == outs:
            return part.inputs, (part,)
        outs = more


def _while(
    params: Mapping[str, Any], operands: int, outs: frozenset[int], known: WhatRan, focus: Focus | None
) -> Needed | None:
    of_cond, of_body = params["cond_nconsts"], params["body_nconsts"]
    first = of_cond + of_body  # index of the first carry
    count = operands - first
    of_carries = range(first, operands)
    cond = _part("condition", params["cond_jaxpr"], frozenset({0}), [*range(of_cond), *of_carries], known, focus)
    if cond is None:
        return None
    outs |= {i - of_cond for i in cond.inputs if i >= of_cond}
    carries = {of_body + i: i for i in range(count)}
    while True:
        body = _part("body", params["body_jaxpr"], outs, [*range(of_cond, first), *of_carries], known, focus, carries)
        if body is None:
            return None
        more = outs | {carries[i] for i in body.inputs if i in carries}
        if more == outs:
            break
        outs = more
    # the body may run zero times: then the result is the initial carry
    needed = {first + i for i in outs} | {part.operands[i] for part in (cond, body) for i in part.inputs}
    return frozenset(needed), (cond, body)


def _cond(
    params: Mapping[str, Any], operands: int, outs: frozenset[int], known: WhatRan, focus: Focus | None
) -> Needed | None:
    branches = params["branches"]
    chosen = known.branches()
    needed, parts = {0}, []
    for i in range(len(branches)) if chosen is None else sorted(set(chosen)):
        part = _part(f"branch {i}", branches[i], outs, range(1, operands), known, focus)
        if part is None:
            return None
        parts.append(part)
        needed |= {part.operands[k] for k in part.inputs}
    return frozenset(needed), tuple(parts)


def _linear_solve(
    params: Mapping[str, Any], operands: int, outs: frozenset[int], known: WhatRan, focus: Focus | None
) -> Needed | None:
    """The slice of the solver. Only the solver runs; the other functions are for derivatives."""
    lengths = params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    own = range(first, first + lengths.solve)
    rest = range(first + lengths.solve + lengths.transpose_solve, operands)
    part = _part("solve", params["jaxprs"].solve, outs, [*own, *rest], known, focus)
    return None if part is None else (frozenset(part.operands[i] for i in part.inputs), (part,))


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
