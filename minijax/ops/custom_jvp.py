"""``custom_jvp_call``: a function with the user's jvp rule.

The function form has the parameters ``fun``, ``jvp`` (``Function``s), ``symbolic_zeros`` and ``level``. The equation
form has ``call_jaxpr``, ``jvp_jaxpr_fun`` (a ``Function``), ``num_consts`` and ``symbolic_zeros``; its first
``num_consts`` operands are the closed-over values.

``fun`` has no side input or output. The side input of ``jvp`` is the zero flags of the tangents; the values are the
primals and the nonzero tangents. ``jvp`` returns the primal results and their nonzero tangents; its side output is the
zero flags of the results' tangents. In an equation, closed-over values precede the primals; they have no tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import observe
from minijax.core.array import get_aval
from minijax.core.lists import chosen, partition, safe_zip
from minijax.core.rules import Flags, Params, Rule, Values
from minijax.core.structural import Zero, zero_of
from minijax.core.trace import state
from minijax.errors import UnexpectedTracerError
from minijax.interpreters.partial_eval import PartialEvalTracer, custom_rule_calls
from minijax.interpreters.vmap import vmap_jaxpr
from minijax.ir.jaxpr import JaxprEqn
from minijax.ops.custom_derivatives import (
    About,
    Batched,
    BatchedFunction,
    Dims,
    Function,
    OutDims,
    Pruned,
    StagedFunction,
    Written,
    check_closed_over,
    closed_over_message,
    custom_call,
    given,
    mapped_by,
    pruned_eqn,
    stage_call,
    zero_flags,
)
from minijax.ops.declare import set_rules

custom_jvp_call_p = custom_call("custom_jvp_call", "jvp", jvp="jvp_jaxpr_fun")


def with_jvp_rule(name: str, fun: Callable[..., Any], jvp: Rule, *args: Any) -> Any:
    """``fun(*args)``, from arrays to one array, with the jvp rule ``jvp(*args, *tangents) -> (result, tangent)``."""
    if len(state.stack) == 1 and not observe.bind_watched:
        return fun(*args)

    def run(side: None, *xs: Any) -> Any:
        return [fun(*xs)], None

    def run_rule(zeros: Flags, *values: Any) -> Any:
        return list(jvp(*values)), (False,)

    (out,) = custom_jvp_call_p.bind(
        *args,
        fun=Written(run, About(name, name, "custom_jvp"), custom_jvp_call_p),
        jvp=Written(run_rule, About(jvp.__name__, jvp.__name__, "custom_jvp rule"), custom_jvp_call_p, jvp),
        symbolic_zeros=False,
        level=len(state.stack),
    )
    return out


def custom_jvp_stage(trace: Any, *args: Any, **params: Any) -> list[Any]:
    if "call_jaxpr" in params:
        return trace.record(custom_jvp_call_p, args, params)
    consts, closed = stage_call(trace, params["fun"], args, "jvp")
    equation = {
        "call_jaxpr": closed,
        "jvp_jaxpr_fun": staged_rule(params["jvp"], [get_aval(x) for x in args], 0, consts),
        "num_consts": len(consts),
        "symbolic_zeros": params["symbolic_zeros"],
    }
    return trace.record(custom_jvp_call_p, [*consts, *args], equation)


def staged_rule(jvp: Function, avals: Sequence[Any], num_consts: int, closed_over: Values = ()) -> StagedFunction:
    """``jvp`` staged when first needed, for primals of types ``avals``; the first ``num_consts`` are closed over."""

    def avals_for(zeros: Flags) -> list[Any]:
        with_tangents = safe_zip(avals[num_consts:], zeros)
        return [*avals, *[a.to_tangent_aval() for a, zero in with_tangents if not zero]]

    return StagedFunction(jvp, avals_for, closed_over)


def custom_jvp_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
    symbolic_zeros = params["symbolic_zeros"]
    if "call_jaxpr" not in params:
        jvp = params["jvp"]
        outs, tangents_out = _apply_rule(jvp, primals, tangents, symbolic_zeros)
        check_closed_over([*outs, *tangents_out], params["level"], params["fun"].about.subject, "jvp")
        return outs, tangents_out
    n = params["num_consts"]
    if any(type(t) is not Zero for t in tangents[:n]):
        raise UnexpectedTracerError(closed_over_message(params["call_jaxpr"].jaxpr.debug_name, "jvp"))
    return _apply_rule(params["jvp_jaxpr_fun"], primals, tangents[n:], symbolic_zeros)


def _apply_rule(jvp: Function, primals: Values, tangents: Values, symbolic_zeros: bool) -> Any:
    zeros = zero_flags(tangents, symbolic_zeros)
    results, zeros_out = jvp.call(zeros, *primals, *given(tangents, zeros))
    outs, nonzero = results[: len(zeros_out)], iter(results[len(zeros_out) :])
    if any(type(x) is PartialEvalTracer for x in outs):
        known = {id(x._trace) for x in primals if type(x) is PartialEvalTracer}
        if any(type(x) is PartialEvalTracer and id(x._trace) not in known for x in outs):
            raise ValueError(
                "Linearization failed to produce known values for all output primals. This is typically caused by "
                "attempting to differentiate a function that uses an operation that does not support reverse-mode "
                f"autodiff; here the JVP rule {jvp.about.subject} computes a primal output from a tangent."
            )
    return outs, [zero_of(get_aval(x)) if zero else next(nonzero) for x, zero in safe_zip(outs, zeros_out)]


custom_rule_calls[custom_jvp_call_p] = "call_jaxpr"


class BatchedRule(Batched):
    """A batched jvp rule: each result and its tangent get the same batch axis."""

    def enter(self, side: Any) -> tuple[Any, Dims]:
        dims = self.in_dims[len(self.in_dims) - len(side) :]
        return side, [*self.in_dims, *partition(side, dims)[0]]

    def leave(self, side: Any, side_out: Any, values: list[Any], dims: Dims) -> tuple[list[Any], Any]:
        n = len(side_out)
        tangent_dims = iter(dims[n:])
        of_tangents = [None if zero else next(tangent_dims) for zero in side_out]
        merged = [t if p is None else p for p, t in safe_zip(dims[:n], of_tangents)]
        if self.out.dims is None:
            self.out.dims = merged
        # move the batch axis of each tangent to that of its result; the result replaces a zero tangent here
        tangents = iter(values[n:])
        full = [values[i] if zero else next(tangents) for i, zero in enumerate(side_out)]
        full_dims = [dims[i] if zero else of_tangents[i] for i, zero in enumerate(side_out)]
        outs = self.out.settle(values[:n], dims[:n], self.axis)
        moved = self.out.settle(full, full_dims, self.axis)
        return [*outs, *partition(side_out, moved)[0]], side_out


def custom_jvp_batch(axis: Any, args: Values, dims: Dims, **params: Any) -> Any:
    if "call_jaxpr" in params:
        call, out_dims = vmap_jaxpr(params["call_jaxpr"], axis, dims)
        out = OutDims(call.jaxpr.debug_name, out_dims)
        rule = BatchedRule(params["jvp_jaxpr_fun"], axis, dims, out, None)
        params["jvp_jaxpr_fun"] = staged_rule(rule, call.in_avals, params["num_consts"])
        params["call_jaxpr"] = call
    else:
        mapped = mapped_by(params["level"])
        out = OutDims(params["fun"].about.subject)
        params["fun"] = BatchedFunction(params["fun"], axis, dims, out, mapped)
        params["jvp"] = BatchedRule(params["jvp"], axis, dims, out, mapped)
    return custom_jvp_call_p.bind(*args, **params), out.dims


class PrunedRule(Pruned):
    """A jvp rule for the used results only."""

    def kept(self, side_out: Any) -> tuple[list[bool], Any]:
        used_tangents = partition(side_out, self.used)[0]
        return [*self.used, *used_tangents], tuple(chosen(self.used, side_out))


def custom_jvp_dce(eqn: JaxprEqn, used: Flags) -> JaxprEqn:
    def rules() -> Params:
        rule = PrunedRule(eqn.params["jvp_jaxpr_fun"], used)
        in_avals = eqn.params["call_jaxpr"].in_avals
        return {"jvp_jaxpr_fun": staged_rule(rule, in_avals, eqn.params["num_consts"])}

    return pruned_eqn(eqn, used, rules)


set_rules(
    custom_jvp_call_p, jvp=custom_jvp_jvp, axis_batch=custom_jvp_batch, stage=custom_jvp_stage, dce=custom_jvp_dce
)
