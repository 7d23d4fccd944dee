"""Transposition: run a linear program backwards, from cotangents of its outputs to cotangents of its inputs.

In: equations that are linear in some variables (all others are known), and cotangents of the outputs. Out: input
cotangents. Invariant: a variable's cotangent is complete when its defining equation is reached, since every use came
later in the program; equations without a cotangent are skipped, and zeros stay symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from minijax.core import observe
from minijax.core.avals import cotangent_type
from minijax.core.lists import partition
from minijax.core.names import transposed
from minijax.core.records import NamedTuple
from minijax.core.rules import ReplaceableRules, bad_result
from minijax.core.structural import UndefinedPrimal, Zero, add_tangents, zero_of
from minijax.core.trace import state
from minijax.interpreters.partial_eval import LinearProgram, Residual
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

transpose_rules = ReplaceableRules(
    "transpose",
    "Transpose rule (for reverse-mode differentiation) for '{name}' not implemented",
    "add: minijax.interpreters.ad.primitive_transposes[primitive] = rule"
    "   # rule(ct, *args, **params) -> cotangents of the linear args, None for the others",
)


def backward_pass(
    eqns: Sequence[JaxprEqn],
    known: dict[Var, Any],
    outs: Sequence[Any],
    cts: Sequence[Any],
    in_vars: Sequence[Var],
    named: bool = False,
    for_observers: Callable[[], tuple[Jaxpr, Mapping[Var, Any]]] | None = None,
) -> list[Any]:
    """Cotangents of ``in_vars`` (or symbolic zeros) given ``cts`` of ``outs``; ``known`` maps residuals to values.

    ``named``: name stacks show the transposition. ``for_observers`` gives the program and its constants for observers.
    """
    ct_of: dict[Var, Any] = {}
    for v, ct in zip(outs, cts, strict=True):
        if type(ct) is not Zero and isinstance(v, Var) and type(v) is not Residual and v not in known:
            ct_of[v] = add_tangents(ct_of[v], ct) if v in ct_of else ct
    if observe.on_backward:
        program, values = (Jaxpr([*known], in_vars, outs, eqns), known) if for_observers is None else for_observers()
        observe.emit(observe.on_backward, program, values, outs, cts, [*ct_of.items()])
    outer_source = state.source
    try:
        for eqn in reversed(eqns):
            # equations of the rule get the source line of the forward equation
            state.source = transposed(eqn.source, eqn.primitive.name, named)
            transpose_eqn(eqn, known, ct_of)
    finally:
        state.source = outer_source
        if observe.on_backward_end:
            observe.emit(observe.on_backward_end)
    return [ct_of[v] if v in ct_of else zero_of(cotangent_type(v.aval)) for v in in_vars]


def evaluate_known(eqns: Sequence[JaxprEqn], known: dict[Var, Any]) -> Sequence[JaxprEqn]:
    """Evaluate the equations without linear operands (from linearization rules) into ``known``; return the others."""
    linear: list[JaxprEqn] = []
    for eqn in eqns:
        for v in eqn.invars:
            if type(v) is not Residual and type(v) is not Literal and v not in known:
                linear.append(eqn)
                break
        else:
            args = [v.val if type(v) is Residual or type(v) is Literal else known[v] for v in eqn.invars]
            out = eqn.primitive.bind(*args, **eqn.params)
            known.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
    return linear


def transpose_eqn(eqn: JaxprEqn, known: dict[Var, Any], ct_of: dict[Var, Any]) -> None:
    """Move the cotangents of ``eqn``'s results to its linear operands."""
    primitive = eqn.primitive
    if primitive.multiple_results:
        arrived = [ct_of.pop(v, None) for v in eqn.outvars]
        if all(ct is None for ct in arrived):
            return
        pairs = zip(eqn.outvars, arrived, strict=True)
        ct: Any = [zero_of(cotangent_type(v.aval)) if c is None else c for v, c in pairs]
    else:
        ct = ct_of.pop(eqn.outvars[0], None)
        if ct is None:
            return
    args: list[Any] = []
    for v in eqn.invars:
        if type(v) is Residual or type(v) is Literal:
            args.append(v.val)
        elif v in known:
            args.append(known[v])
        else:
            args.append(UndefinedPrimal(v.aval))
    if observe.on_transposing:
        observe.emit(observe.on_transposing, eqn, ct)
    rule = transpose_rules[primitive]
    if observe.on_rule:
        observe.emit(observe.on_rule, "transpose", primitive, rule)
    result = rule(ct, *args, **eqn.params)
    try:
        found = [*zip(eqn.invars, args, result, strict=True)]
    except (TypeError, ValueError) as error:
        expected = f"a cotangent, or None, for each of the {len(args)} operands"
        raise bad_result(transpose_rules, primitive, result, expected, error) from None
    given: list[tuple[Var, Any, Any]] = []
    for v, arg, new in found:
        if type(arg) is UndefinedPrimal and new is not None and type(new) is not Zero:
            total = ct_of[v] = add_tangents(ct_of[v], new) if v in ct_of else new
            if observe.on_transposed:
                given.append((v, new, total))
    if observe.on_transposed:
        observe.emit(observe.on_transposed, eqn, given)


class Arrivals(dict):  # type: ignore[type-arg]
    """variable -> its cotangent so far. Cotangents of a variable in ``places`` go to ``arrive(place, ct)`` instead."""

    def __init__(self, places: Mapping[Var, Any], arrive: Callable[[Any, Any], None]) -> None:
        super().__init__()
        self.places = places
        self.arrive = arrive

    def __setitem__(self, v: Var, ct: Any) -> None:
        if v in self.places:
            self.arrive(self.places[v], ct)
        else:
            super().__setitem__(v, ct)


def transpose_program(program: LinearProgram, cts: Sequence[Any]) -> list[Any]:
    """The cotangents of ``program``'s inputs."""
    known = dict(program.known)
    eqns = evaluate_known(program.eqns, known) if program.mixed else program.eqns

    def for_observers() -> tuple[Jaxpr, Mapping[Var, Any]]:
        closed = program.closed()
        return closed.jaxpr, dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))

    return backward_pass(eqns, known, program.outs, cts, program.in_vars, named=True, for_observers=for_observers)


def backward_pass_closed(closed: ClosedJaxpr, args: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """Transpose ``closed`` at ``args``; ``UndefinedPrimal`` marks linear inputs. Known inputs get None."""
    jaxpr = closed.jaxpr
    known: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    known.update((v, x) for v, x in zip(jaxpr.invars, args, strict=True) if type(x) is not UndefinedPrimal)
    in_vars = [v for v, x in zip(jaxpr.invars, args, strict=True) if type(x) is UndefinedPrimal]
    linear = evaluate_known(jaxpr.eqns, known)
    found = iter(backward_pass(linear, known, jaxpr.outvars, cts, in_vars, for_observers=lambda: (jaxpr, known)))
    return [next(found) if type(x) is UndefinedPrimal else None for x in args]


class CallOperands(NamedTuple):
    """The arguments of a call's transpose rule, sorted by kind."""

    linear: list[bool]
    nonzero: list[bool]
    # the operands of the transposed call: operands that are not linear, and nonzero cotangents
    known: list[Any]
    given: list[Any]


def call_operands(cts: Sequence[Any], args: Sequence[Any]) -> CallOperands:
    """Find the linear operands and nonzero cotangents, and the operands that the transposed call takes."""
    linear = [type(x) is UndefinedPrimal for x in args]
    nonzero = [type(ct) is not Zero for ct in cts]
    return CallOperands(linear, nonzero, partition(linear, args)[0], partition(nonzero, cts)[1])


def operand_cotangents(args: Sequence[Any], arrives: Sequence[bool], found: Iterable[Any]) -> list[Any]:
    """The cotangents of a call's operands: None if known, the next of ``found`` where ``arrives`` is true, or zero."""
    at, values = iter(arrives), iter(found)
    return [None if type(x) is not UndefinedPrimal else next(values) if next(at) else zero_of(x.aval) for x in args]


def transpose_jaxpr(
    closed: ClosedJaxpr, linear: Sequence[bool], nonzero_cts: Sequence[bool], ct_avals: Sequence[Any]
) -> tuple[ClosedJaxpr, list[bool]]:
    """The transpose of a jaxpr, (known inputs, nonzero cts) -> nonzero cts of linear inputs, and which are nonzero."""
    key = ("transpose", tuple(linear), tuple(nonzero_cts), tuple(ct_avals))
    if key not in closed.memo:
        nonzero_out: list[bool] = []
        known_avals = [a for a, lin in zip(closed.in_avals, linear, strict=True) if not lin]

        def transposed_jaxpr(*values: Any) -> list[Any]:
            known, given = iter(values[: len(known_avals)]), iter(values[len(known_avals) :])
            args = [UndefinedPrimal(a) if lin else next(known) for a, lin in zip(closed.in_avals, linear, strict=True)]
            out_avals = map(cotangent_type, closed.out_avals)
            cts = [next(given) if nz else zero_of(a) for a, nz in zip(out_avals, nonzero_cts, strict=True)]
            found = [ct for ct, lin in zip(backward_pass_closed(closed, args, cts), linear, strict=True) if lin]
            nonzero_out[:] = [type(ct) is not Zero for ct in found]
            return [ct for ct in found if type(ct) is not Zero]

        made = stage(transposed_jaxpr, [*known_avals, *ct_avals], closed.jaxpr.debug_name, "transpose")
        closed.memo[key] = made, nonzero_out
    return closed.memo[key]
