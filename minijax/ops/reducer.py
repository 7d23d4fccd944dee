"""``reduce``: reduces arrays along some dimensions by any function of scalars, from given initial values.

Parameters: ``computation``, the user's function; ``jaxpr``, its jaxpr, whose inputs are accumulators, then elements;
``dimensions``. Operands: n arrays of one shape, then n scalars to start from. XLA chooses the order and number of
calls, so the function must be associative and commutative. Outside of ``jit`` the reduction is compiled too.
"""

from __future__ import annotations

import math
from typing import Any

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.lists import safe_zip
from minijax.core.primitive import Primitive
from minijax.core.rules import Axes, Params, Values
from minijax.core.structural import Zero, instantiate_zeros, zero_of
from minijax.interpreters.evaluate import commits_itself
from minijax.interpreters.jvp import jvp
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import AxisData, batch, bdim_at_front, mapped_axis, match_axis
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ir.pretty import Unread
from minijax.lowering.lower import lower_eqns
from minijax.lowering.regions import region_text
from minijax.lowering.text import array_text, mlir_type, scalar_type
from minijax.ops.call import jit_p
from minijax.ops.declare import set_rules
from minijax.ops.reduce import reduced_shape
from minijax.ops.shape import broadcast_in_dim, reshape
from minijax.ops.slicing import concatenate, slice_in_dim

__all__ = ["reduce_p"]

reduce_p = Primitive("reduce", multiple_results=True)
reduce_p.keeps_signatures = False


def halves(args: Values) -> tuple[Values, Values]:
    """Split ``args`` in half: operands and initial values, or accumulators and elements."""
    n = len(args) // 2
    return args[:n], args[n:]


@reduce_p.def_abstract_eval
def reduce_abstract(*avals: ShapedArray, jaxpr: ClosedJaxpr, dimensions: Axes, **params: Any) -> list[Any]:
    operands, inits = halves(avals)
    shapes = {a.shape for a in operands}
    if len(shapes) > 1:
        raise ValueError(f"reduce: the operands must have one shape, got {', '.join(map(str, operands))}")
    for x, init, out in safe_zip(operands, inits, jaxpr.out_avals):
        if x.dtype != init.dtype:
            raise TypeError(
                "reduce operand dtypes should match corresponding initial value dtypes, got an operand of type "
                f"{x} and an initial value of type {init}. Convert them to one type."
            )
        if out.dtype != x.dtype or out.shape:
            raise ValueError(
                f"reduce: the computation must give a scalar of the type of its operand, but it gives {out} for an "
                f"operand of type {x} from an initial value of type {init}. Convert them to one type."
            )
    return [
        ShapedArray(reduced_shape(x, dimensions), x.dtype, x.weak_type and init.weak_type)
        for x, init in safe_zip(operands, inits)
    ]


@reduce_p.def_impl
def reduce_impl(*args: Any, jaxpr: ClosedJaxpr, dimensions: Axes, computation: Any) -> list[Any]:
    avals = tuple([get_aval(x) for x in args])
    key = ("reduce", avals, dimensions)
    closed = jaxpr.memo.get(key)
    if closed is None:
        # the cached program must not refer to the jaxpr (or function) whose memo holds it, or both would never be freed
        own, unread = ClosedJaxpr(jaxpr.jaxpr, jaxpr.consts), Unread(str(computation))
        closed = jaxpr.memo[key] = stage(
            lambda *xs: reduce_p.bind(*xs, jaxpr=own, dimensions=dimensions, computation=unread), avals, "reduce"
        )
    return jit_p.bind(*args, jaxpr=closed, name="reduce")


commits_itself.add(reduce_p)


def reduce_batch(args: Values, dims: Values, *, jaxpr: ClosedJaxpr, dimensions: Axes, **params: Any) -> Any:
    operands, inits = halves(args)
    operand_dims, init_dims = halves(dims)
    size, _ = mapped_axis(args, dims)
    if any(d is not None for d in init_dims):  # XLA has no reduction with a different initial value for each example
        outs, out_dims = batch(
            lambda *xs: _reduce_by_pairs(jaxpr, *halves(xs), dimensions), AxisData(None, size), args, dims, "reduce"
        )
        return outs, out_dims
    moved = [bdim_at_front(x, d, size) for x, d in safe_zip(operands, operand_dims)]
    outs = reduce_p.bind(*moved, *inits, jaxpr=jaxpr, dimensions=tuple(d + 1 for d in dimensions), **params)
    return outs, [0] * len(outs)


def _combine(jaxpr: ClosedJaxpr, lefts: Values, rights: Values) -> list[Any]:
    """Apply the computation elementwise to two lists of arrays."""
    shape = get_aval(lefts[0]).shape
    size = math.prod(shape)
    flat = [reshape(x, (size,)) for x in (*lefts, *rights)]
    outs, dims = batch(lambda *xs: eval_closed(jaxpr, *xs), AxisData(None, size), flat, [0] * len(flat), "reduce")
    return [reshape(match_axis(x, d, size, 0), shape) for x, d in safe_zip(outs, dims)]


def _reduce_by_pairs(jaxpr: ClosedJaxpr, operands: Values, inits: Values, dimensions: Axes) -> list[Any]:
    """Reduce by differentiable operations: combine neighbours until one element is left."""
    shape = get_aval(operands[0]).shape
    kept = [d for d in range(len(shape)) if d not in dimensions]
    rest = tuple(shape[d] for d in kept)
    n = math.prod(shape[d] for d in dimensions) + 1
    rows = [reshape(x, (n - 1, *rest), (*dimensions, *kept)) for x in operands]
    xs = [concatenate([broadcast_in_dim(i, (1, *rest), ()), x], 0) for i, x in safe_zip(inits, rows)]
    while n > 1:
        even = n - n % 2
        lefts, rights = ([slice_in_dim(x, start, even, 2) for x in xs] for start in (0, 1))
        found = _combine(jaxpr, lefts, rights)
        if n % 2:
            found = [concatenate([y, slice_in_dim(x, even, n)], 0) for x, y in safe_zip(xs, found)]
        xs, n = found, n // 2 + n % 2
    return [reshape(x, rest) for x in xs]


def reduce_jvp(primals: Values, tangents: Values, *, jaxpr: ClosedJaxpr, dimensions: Axes, **params: Any) -> Any:
    outs = reduce_p.bind(*primals, jaxpr=jaxpr, dimensions=dimensions, **params)
    _, found = jvp(lambda *xs: _reduce_by_pairs(jaxpr, *halves(xs), dimensions), primals, tangents, "reduce")
    return outs, [zero_of(get_aval(x)) if type(t) is Zero else instantiate_zeros(t) for x, t in safe_zip(outs, found)]


transpose_rules.holes[reduce_p] = "not linear"


def reduce_lower(
    ctx: Any, avals: Any, out_avals: Any, *names: str, jaxpr: ClosedJaxpr, dimensions: Axes, **params: Any
) -> list[str]:
    scalars = [scalar_type(a.dtype) for a in out_avals]

    def build(inner: Any, *values: str) -> list[str]:
        consts = [inner.constant(c, v.aval) for c, v in safe_zip(jaxpr.consts, jaxpr.jaxpr.constvars)]
        return lower_eqns(inner, jaxpr.jaxpr, consts, values)

    region = region_text(ctx, [*scalars, *scalars], build, scalars)
    ins, outs = ", ".join(map(mlir_type, avals)), ", ".join(map(mlir_type, out_avals))
    op = f'"stablehlo.reduce"({", ".join(names)}) <{{dimensions = {array_text(dimensions)}}}>'
    return ctx.emit_many(f"{op} {region} : ({ins}) -> ({outs})", len(out_avals))


def _reduce_read(params: Params, in_avals: Values, out_avals: Values) -> Params:
    return {**params, "computation": Unread(str(params["computation"]))}


set_rules(reduce_p, jvp=reduce_jvp, batch=reduce_batch, lower=reduce_lower, parse=_reduce_read)
