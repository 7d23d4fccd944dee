"""``custom_vjp_call``: a function whose reverse-mode derivative is the user's forward and backward passes.

The function form has the parameters ``fun``, ``fwd``, ``bwd`` (``Function``s), ``symbolic_zeros`` and ``level``. The
equation form has ``call_jaxpr``, ``fwd_jaxpr_thunk`` and ``bwd`` (``Function``s), ``num_consts`` and
``symbolic_zeros``; its first ``num_consts`` operands are the closed-over values.

The side input of ``fwd`` says which inputs are perturbed (None without ``symbolic_zeros``). ``fwd`` returns residuals
and results; its side output is an object with ``n_res``, the number of residuals. The side input of ``bwd`` is this
object and the zero flags of the cotangents; the values are the residuals and the nonzero cotangents. ``bwd`` returns
the nonzero cotangents of the inputs; its side output is their zero flags. In an equation, closed-over values precede
the inputs of ``fwd``; they have no cotangents.

``custom_lin`` connects ``fwd`` and ``bwd``: it maps the tangents of the inputs to those of the results. Its only rule
is its transpose, which runs ``bwd``.
"""

from __future__ import annotations

from typing import Any

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.lists import partition, safe_zip, spread
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.rules import Flags, Values
from minijax.core.structural import Zero, zero_of
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.vmap import vmap_jaxpr
from minijax.ir.jaxpr import JaxprEqn
from minijax.ir.pretty import Params, Printer
from minijax.ops.custom_derivatives import (
    Batched,
    BatchedFunction,
    Dims,
    Function,
    OutDims,
    Pruned,
    StagedFunction,
    check_closed_over,
    closed_over_message,
    custom_call,
    given,
    mapped_by,
    pruned_eqn,
    stage_call,
    sum_to_axis,
    zero_flags,
)
from minijax.ops.declare import set_rules

custom_vjp_call_p = custom_call("custom_vjp_call", "vjp", fwd="fwd_jaxpr_thunk", bwd="bwd")
custom_lin_p = Primitive("custom_lin", multiple_results=True)
custom_lin_p.keeps_signatures = False

FORWARD_MODE = "can't apply forward-mode autodiff (jvp) to a custom_vjp function."


class CustomVJPException(Exception):
    """Raised when a ``custom_vjp`` function is differentiated with respect to a value that it closes over."""


def custom_vjp_stage(trace: Any, *args: Any, **params: Any) -> list[Any]:
    if "call_jaxpr" in params:
        return trace.record(custom_vjp_call_p, args, params)
    consts, closed = stage_call(trace, params["fun"], args, "vjp")
    avals = [get_aval(x) for x in args]
    equation = {
        "call_jaxpr": closed,
        "fwd_jaxpr_thunk": StagedFunction(params["fwd"], lambda perturbed: avals, consts),
        "bwd": params["bwd"],
        "num_consts": len(consts),
        "symbolic_zeros": params["symbolic_zeros"],
    }
    return trace.record(custom_vjp_call_p, [*consts, *args], equation)


def custom_vjp_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
    symbolic_zeros = params["symbolic_zeros"]
    if "call_jaxpr" not in params:
        return _run_forward(params["fwd"], params["bwd"], primals, tangents, symbolic_zeros, params["level"])
    n = params["num_consts"]
    if any(type(t) is not Zero for t in tangents[:n]):
        raise CustomVJPException(closed_over_message(params["call_jaxpr"].jaxpr.debug_name, "vjp"))
    return _run_forward(params["fwd_jaxpr_thunk"], params["bwd"], primals, tangents[n:], symbolic_zeros)


def _run_forward(
    fwd: Function, bwd: Function, primals: Values, tangents: Values, symbolic_zeros: bool, level: int | None = None
) -> Any:
    """The results and their tangents. ``fwd`` must not close over tracers of the jvp trace at ``level``."""
    in_zeros = [type(t) is Zero for t in tangents]
    perturbed = tuple(not zero for zero in in_zeros) if symbolic_zeros else None
    results, side = fwd.call(perturbed, *primals)
    if level is not None:
        check_closed_over(results, level, fwd.about.subject, "vjp")
    residuals, outs = results[: side.n_res], results[side.n_res :]
    tangents_out = custom_lin_p.bind(
        *residuals,
        *given(tangents, in_zeros),
        num_res=side.n_res,
        bwd=Backward(bwd, side),
        out_avals=[get_aval(x).to_tangent_aval() for x in outs],
        symbolic_zeros=symbolic_zeros,
        in_zeros=in_zeros,
    )
    return outs, [
        zero_of(get_aval(x)) if get_aval(t).dtype == dtypes.float0 else t for x, t in safe_zip(outs, tangents_out)
    ]


class Backward(NamedTuple):
    """A backward pass, and the side output of its forward pass."""

    function: Function
    side: Any

    def __repr__(self) -> str:
        return repr(self.function)


@custom_lin_p.def_abstract_eval
def custom_lin_abstract(*avals: Any, out_avals: Values, **params: Any) -> Values:
    return out_avals


def refuse_forward_mode(*args: Any, **params: Any) -> Any:
    """Raise TypeError: a tangent arrived, so this is forward mode."""
    raise TypeError(FORWARD_MODE)


custom_lin_p.def_impl(refuse_forward_mode)
# no rule: as in JAX, a backward pass has no forward-mode derivative here
jvp_rules.holes[custom_lin_p] = "a custom_vjp function has no forward-mode derivative: use grad instead of jvp"


def custom_lin_params(eqn: JaxprEqn, printer: Printer) -> Params:
    return [(k, v) for k, v in sorted(eqn.params.items()) if k != "out_avals"]


def custom_lin_transpose(
    cts: Values, *args: Any, num_res: int, bwd: Backward, out_avals: Values, symbolic_zeros: bool, in_zeros: Flags
) -> list[Any]:
    zeros = zero_flags(cts, symbolic_zeros)
    found, zeros_out = bwd.function.call((bwd.side, zeros), *args[:num_res], *given(cts, zeros))
    all_cts = spread([not zero for zero in zeros_out], found)
    return [None] * num_res + partition(in_zeros, all_cts)[0]


set_rules(
    custom_lin_p,
    axis_batch=refuse_forward_mode,
    transpose=custom_lin_transpose,
    lower=refuse_forward_mode,
    shown=custom_lin_params,
)


class BatchedSide(NamedTuple):
    """The side output of a batched forward pass, with the batch axes of residuals and results."""

    inner: Any
    n_res: int
    res_dims: Dims
    out_dims: Dims


class BatchedForward(Batched):
    """A batched forward pass. Residuals keep their batch axes; results get the batch axes of the function's results."""

    def leave(self, side: Any, side_out: Any, values: list[Any], dims: Dims) -> tuple[list[Any], Any]:
        n = side_out.n_res
        outs = self.out.settle(values[n:], dims[n:], self.axis)
        assert self.out.dims is not None
        return [*values[:n], *outs], BatchedSide(side_out, n, dims[:n], self.out.dims)


class BatchedBackward(Batched):
    """A batched backward pass. A cotangent gets the batch axis of its input, or is summed over the batch."""

    def enter(self, side: Any) -> tuple[Any, Dims]:
        forward, zeros = side
        ct_dims = partition(zeros, forward.out_dims)[0]
        return (forward.inner, zeros), [*forward.res_dims, *ct_dims]

    def leave(self, side: Any, side_out: Any, values: list[Any], dims: Dims) -> tuple[list[Any], Any]:
        wanted = partition(side_out, self.in_dims)[0]
        return [sum_to_axis(x, d, to, self.axis) for x, d, to in safe_zip(values, dims, wanted)], side_out


def custom_vjp_batch(axis: Any, args: Values, dims: Dims, **params: Any) -> Any:
    if "call_jaxpr" in params:
        call, out_dims = vmap_jaxpr(params["call_jaxpr"], axis, dims)
        out = OutDims(call.jaxpr.debug_name, out_dims)
        fwd = BatchedForward(params["fwd_jaxpr_thunk"], axis, dims, out, None)
        params["call_jaxpr"], params["fwd_jaxpr_thunk"] = call, StagedFunction(fwd, lambda perturbed: call.in_avals)
        params["bwd"] = BatchedBackward(params["bwd"], axis, dims[params["num_consts"] :], out, None)
    else:
        mapped = mapped_by(params["level"])
        out = OutDims(params["fun"].about.subject)
        params["fun"] = BatchedFunction(params["fun"], axis, dims, out, mapped)
        params["fwd"] = BatchedForward(params["fwd"], axis, dims, out, mapped)
        params["bwd"] = BatchedBackward(params["bwd"], axis, dims, out, mapped)
    return custom_vjp_call_p.bind(*args, **params), out.dims


class PrunedSide(NamedTuple):
    """The side output of a forward pass that returns only the used results."""

    inner: Any
    n_res: int


class PrunedForward(Pruned):
    """A forward pass that returns only the used results."""

    def kept(self, side_out: Any) -> tuple[list[bool], Any]:
        return [*[True] * side_out.n_res, *self.used], PrunedSide(side_out, side_out.n_res)


class PrunedBackward(Function):
    """A backward pass that takes the cotangents of the used results; the cotangents of the others are zeros."""

    def __init__(self, inner: Function, used: Flags, out_avals: Values, symbolic_zeros: bool) -> None:
        self.inner = inner
        self.about = inner.about
        self.used = used
        self.out_avals = out_avals
        self.symbolic_zeros = symbolic_zeros

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        forward, zeros = side
        residuals, cts = values[: forward.n_res], iter(values[forward.n_res :])
        flags = iter(zeros)
        all_cts = [
            zero_of(aval) if not used or next(flags) else next(cts)
            for aval, used in safe_zip(self.out_avals, self.used)
        ]
        all_zeros = zero_flags(all_cts, self.symbolic_zeros)
        return self.inner.call((forward.inner, all_zeros), *residuals, *given(all_cts, all_zeros))


def custom_vjp_dce(eqn: JaxprEqn, used: Flags) -> JaxprEqn:
    def rules() -> dict[str, Any]:
        closed = eqn.params["call_jaxpr"]
        fwd = PrunedForward(eqn.params["fwd_jaxpr_thunk"], used)
        bwd = PrunedBackward(eqn.params["bwd"], used, closed.out_avals, eqn.params["symbolic_zeros"])
        return {"fwd_jaxpr_thunk": StagedFunction(fwd, lambda perturbed: closed.in_avals), "bwd": bwd}

    return pruned_eqn(eqn, used, rules)


set_rules(
    custom_vjp_call_p, jvp=custom_vjp_jvp, axis_batch=custom_vjp_batch, stage=custom_vjp_stage, dce=custom_vjp_dce
)
