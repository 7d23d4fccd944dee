"""The primitives ``call`` and ``closed_call``, which only call a function.

``p.bind(*args, subfuns=(fun,), name="f")`` calls ``fun``, a ``WrappedFun``, or records an equation with its jaxpr.
A transformation of such an equation is the same primitive applied to the transformed jaxpr, as for ``jit``. Evaluation
runs the jaxpr without compiling it, unlike ``jit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.api.compile import lift_constants
from minijax.core.array import get_aval
from minijax.core.lists import partition
from minijax.core.structural import Zero
from minijax.core.trace import Tracer, state
from minijax.interpreters.jvp import jvp_jaxpr, with_zeros
from minijax.interpreters.named_axes import AxisPrimitive
from minijax.interpreters.partial_eval import (
    dce_call,
    split_now,
)
from minijax.interpreters.program import called_jaxprs
from minijax.interpreters.recompute import call_recompute
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import call_operands, operand_cotangents, transpose_jaxpr
from minijax.interpreters.vmap import vmap_jaxpr
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Var, matters
from minijax.ir.typecheck import call_rule
from minijax.ops.call import split_call
from minijax.ops.declare import set_rules

__all__ = ["CallPrimitive", "call_impl", "call_p", "closed_call_p"]

_JAXPR = "call_jaxpr"


def call_impl(fun: Any, *args: Any, **params: Any) -> Any:
    """Call ``fun``, a ``WrappedFun``, on ``args``."""
    return fun.call_wrapped(*args)


class CallPrimitive(AxisPrimitive):
    """A primitive that calls a function: see the module's docstring."""

    keeps_signatures = False

    def __init__(self, name: str) -> None:
        super().__init__(name, multiple_results=True)

    def bind(self, *args: Any, subfuns: Sequence[Any] = (), **params: Any) -> Any:
        """Call the one function in ``subfuns`` with ``args``; if there is none, call the parameter ``call_jaxpr``."""
        if not subfuns:
            return super().bind(*args, **params)
        (fun,) = subfuns
        if state.dynamic.level == 0 and not any(isinstance(x, Tracer) for x in args):
            return call_impl(fun, *args)
        name = params.get("name", fun.__name__)
        closed, outer = lift_constants(
            stage(fun.call_wrapped, list(map(get_aval, args)), name, label=self.name), Tracer
        )
        return super().bind(*outer, *args, **{_JAXPR: closed}, **params)


def _declare(p: CallPrimitive) -> CallPrimitive:

    def called_abstract(*avals: Any, call_jaxpr: ClosedJaxpr, name: Any = None) -> list[Any]:
        return call_jaxpr.out_avals

    def called_impl(*args: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return eval_closed(call_jaxpr, *args)

    def called_jvp(
        primals: Sequence[Any], tangents: Sequence[Any], *, call_jaxpr: ClosedJaxpr, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        jvp_of, nonzero = jvp_jaxpr(call_jaxpr, [type(t) is not Zero for t in tangents])
        outs = p.bind(*primals, *[t for t in tangents if type(t) is not Zero], call_jaxpr=jvp_of, **params)
        return with_zeros(outs, nonzero)

    def called_batch(
        axis: Any, args: Sequence[Any], dims: Sequence[int | None], *, call_jaxpr: ClosedJaxpr, **params: Any
    ) -> Any:
        batched, out_dims = vmap_jaxpr(call_jaxpr, axis, dims)
        return p.bind(*args, call_jaxpr=batched, **params), out_dims

    def called_partial_eval(eqn: JaxprEqn, unknown_in: Sequence[bool]) -> Any:
        known_jaxpr, unknown_jaxpr, unknown_out, inputs = split_call(eqn.params[_JAXPR], unknown_in)
        known_in, unknown_args = partition(unknown_in, eqn.invars)
        known_out, later_out = partition(unknown_out, eqn.outvars)
        made = [Var(aval) for aval in known_jaxpr.out_avals[len(known_out) :]]
        fresh = iter(made)
        residuals = [next(fresh) if i is None else known_in[i] for i in inputs]
        now = _with(eqn, known_jaxpr, known_in, [*known_out, *made])
        then = _with(eqn, unknown_jaxpr, [*residuals, *unknown_args], later_out)
        return ([now] if matters(now) else []), [then]

    def called_transpose(cts: Sequence[Any], *args: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        linear, nonzero, known, given = call_operands(cts, args)
        transposed, arrives = transpose_jaxpr(call_jaxpr, linear, nonzero, [get_aval(ct) for ct in given])
        found = p.bind(*known, *given, call_jaxpr=transposed, **params)
        return operand_cotangents(args, arrives, found)

    def called_lower(
        ctx: Any, avals: Any, out_avals: Any, *names: str, call_jaxpr: ClosedJaxpr, name: Any = None
    ) -> list[str]:
        symbol = ctx.module.function(call_jaxpr, name or p.name)
        return ctx.call(symbol, names, avals, out_avals)

    p.def_abstract_eval(called_abstract)
    p.def_impl(called_impl)
    called_jaxprs[p] = _JAXPR
    set_rules(
        p,
        jvp=called_jvp,
        axis_batch=called_batch,
        transpose=called_transpose,
        lower=called_lower,
        partial_eval_jaxpr=called_partial_eval,
        partial_eval=split_now(p),
        dce=lambda eqn, used: dce_call(eqn, used, param=_JAXPR),
        typecheck=call_rule(_JAXPR),
        recompute=call_recompute(
            p,
            lambda eqn, unknown_in, split: {**eqn.params, _JAXPR: split.known},
            lambda eqn, split: {**eqn.params, _JAXPR: split.staged},
            _JAXPR,
        ),
    )
    return p


def _with(eqn: JaxprEqn, called: ClosedJaxpr, invars: Sequence[Any], outvars: Sequence[Any]) -> JaxprEqn:
    """The equation ``eqn`` with the jaxpr ``called`` and these variables in place of its own."""
    return JaxprEqn(eqn.primitive, invars, {**eqn.params, _JAXPR: called}, outvars, eqn.source)


call_p = _declare(CallPrimitive("call"))
closed_call_p = _declare(CallPrimitive("closed_call"))
