"""Clamping to an interval: ``clamp``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, sharding_of_type
from minijax.core.lists import safe_zip
from minijax.core.rules import Dims, Shape
from minijax.core.structural import broadcast_in_dim_p, zeros
from minijax.interpreters.vmap import bdim_at_front
from minijax.lowering.text import mlir_type
from minijax.ops.declare import all_weak, declare
from minijax.ops.elementwise import and_p, gt_p, lt_p
from minijax.ops.elementwise_numpy import maximum_numpy, minimum_numpy
from minijax.ops.nary import check_same_dtypes, maybe_broadcast
from minijax.ops.select import select

__all__ = ["clamp", "clamp_p"]


def _clamp_abstract(low: ShapedArray, x: ShapedArray, high: ShapedArray) -> ShapedArray:
    if low.shape and low.shape != x.shape:
        raise TypeError(
            "clamp requires min.shape == operand.shape or min.shape == (), "
            f"got min.shape={low.shape}, operand.shape={x.shape}."
        )
    if high.shape and high.shape != x.shape:
        raise TypeError(
            "clamp requires max.shape == operand.shape or max.shape == (), "
            f"got max.shape={high.shape}, operand.shape={x.shape}."
        )
    check_same_dtypes("clamp", (low, x, high))
    return ShapedArray(x.shape, x.dtype, all_weak((low, x, high)))


def _clamp_numpy(low: Any, x: Any, high: Any) -> Any:
    return minimum_numpy(maximum_numpy(x, low), high)


def _where(mask: Any, g: Any, x: Any) -> Any:
    """``g`` where ``mask`` holds, else zero. ``x`` is the operand or one of the bounds, and ``g`` is its tangent."""
    aval = get_aval(x)
    return select(mask, maybe_broadcast(aval.shape, g, sharding_of_type(aval)), zeros(aval))


def _low_derivative(g: Any, ans: Any, low: Any, x: Any, high: Any) -> Any:
    return _where(and_p.bind(gt_p.bind(low, x), lt_p.bind(low, high)), g, x)


def _operand_derivative(g: Any, ans: Any, low: Any, x: Any, high: Any) -> Any:
    return _where(and_p.bind(gt_p.bind(x, low), lt_p.bind(x, high)), g, x)


def _high_derivative(g: Any, ans: Any, low: Any, x: Any, high: Any) -> Any:
    return _where(lt_p.bind(high, x), g, x)


def _clamp_batch(args: Sequence[Any], dims: Dims) -> Any:
    low, x, high = args
    shapes = [get_aval(a).shape for a in args]
    low_shape, x_shape, high_shape = shapes
    if dims[0] == dims[1] == dims[2]:
        if low_shape == x_shape == high_shape:
            return clamp_p.bind(*args), dims[1]
        if len(low_shape) == len(high_shape) == 1:  # each example has its own scalar bounds
            bounds = [
                broadcast_in_dim_p.bind(b, shape=x_shape, broadcast_dimensions=(dims[1],), sharding=None)
                for b in (low, high)
            ]
            return clamp_p.bind(bounds[0], x, bounds[1]), dims[1]
    elif not low_shape and not high_shape and dims[1] is not None:
        return clamp_p.bind(*args), dims[1]
    size = next(s[d] for s, d in safe_zip(shapes, dims) if d is not None)
    bounds = [bdim_at_front(args[i], dims[i], size) if shapes[i] else args[i] for i in (0, 2)]
    x = bdim_at_front(x, dims[1], size) if x_shape else x
    shape = max((get_aval(a).shape for a in (*bounds, x)), key=len)
    for ndim in range(len(shape)):
        bounds = [_to_shape(b, shape) if get_aval(b).ndim == ndim else b for b in bounds]
    return clamp_p.bind(bounds[0], _to_shape(x, shape), bounds[1]), 0


def _to_shape(x: Any, shape: Shape) -> Any:
    """``x`` repeated to ``shape``. The dimensions of ``x`` are the leading ones of ``shape``."""
    own = get_aval(x).shape
    if own == shape:
        return x
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=tuple(range(len(own))), sharding=None)


def _clamp_lower(ctx: Any, avals: Any, out_avals: Any, low: str, x: str, high: str) -> str:
    low, x, high = ctx.broadcast_operands((low, x, high), avals, avals[1].shape)
    return ctx.emit(f"stablehlo.clamp {low}, {x}, {high} : {mlir_type(avals[1])}")


clamp_p = declare(
    "clamp",
    abstract=_clamp_abstract,
    numpy=_clamp_numpy,
    lower=_clamp_lower,
    batch=_clamp_batch,
    derivative=[_low_derivative, _operand_derivative, _high_derivative],
)


def clamp(min: Any, x: Any, max: Any) -> Any:
    """``x`` limited to between ``min`` and ``max``, which are scalars or have ``x``'s shape; all have one dtype.

    TypeError if shapes or dtypes do not fit.
    """
    return clamp_p.bind(min, x, max)
