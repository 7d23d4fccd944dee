"""Reductions of windows by a sum, a maximum or a minimum.

Parameters: ``window_dimensions``, a window's size in each dimension; ``window_strides``, how far it is from one to the
next; ``padding``, what is added around the operand, of the value that changes nothing; ``base_dilation`` and
``window_dilation``, how far elements of the operand, and of a window, are apart.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.primitive import Primitive
from minijax.core.structural import full, instantiate_zeros
from minijax.interpreters.evaluate import by_type, numpy_function
from minijax.lowering.regions import region_text, window_text
from minijax.lowering.text import mlir_type
from minijax.ops.declare import Rule, declare
from minijax.ops.elementwise import add_p, complex_extremum_text, ge_p, le_p, max_p, min_p
from minijax.ops.nary import NUM
from minijax.ops.reduce import accumulator, zero_of_dtype
from minijax.ops.shape import shape_of
from minijax.ops.slicing import pad
from minijax.ops.windows.pooling import select_and_gather_add_p
from minijax.ops.windows.shapes import (
    Ints,
    Pads,
    Windows,
    check_windows,
    dilated,
    reduce_window_shape_tuple,
    with_window_of_one,
)
from minijax.ops.windows.views import padded

__all__ = ["reduce_window_max_p", "reduce_window_min_p", "reduce_window_sum_p"]

# -------------------------------------------------------------------------------- types


def _monoid_abstract(name: str) -> Rule:
    def monoid_window_abstract(
        x: ShapedArray,
        *,
        window_dimensions: Ints,
        window_strides: Ints,
        padding: Pads,
        base_dilation: Ints,
        window_dilation: Ints,
    ) -> ShapedArray:
        if name == "reduce_window_sum" and dtypes.kind(x.dtype) not in NUM:
            raise TypeError(
                f"operand to reduce_window_sum must have a number dtype, got {dtype_name(x.dtype)}. Convert it to "
                "integers first."
            )
        shape = check_windows(
            "reduce_window",
            x.shape,
            window_dimensions=window_dimensions,
            window_strides=window_strides,
            padding=padding,
            base_dilation=base_dilation,
            window_dilation=window_dilation,
        )
        return x.update(shape=shape)

    return monoid_window_abstract


# -------------------------------------------------------------------------------- evaluation


def _monoid_numpy(combine: Primitive, identity: Callable[[np.dtype], Any]) -> Rule:
    """One dimension after another: what stands at each place of a window, over all windows at once."""

    @by_type
    def monoid_window_numpy(x: Any, **params: Any) -> Callable[..., Any]:
        windows = Windows(**params)
        dtype = x.dtype
        wide = accumulator(dtype)
        aval = ShapedArray((2,), wide)
        function = numpy_function(combine, (aval, aval), {})
        assert function is not None
        start = identity(dtype)
        counts = reduce_window_shape_tuple(x.shape, *windows)
        steps = windows.window_strides, windows.window_dilation
        rows = [*zip(counts, windows.window_dimensions, *steps, strict=True)]

        def reduced(x: Any) -> Any:
            x = padded(x, start, windows.padding, windows.base_dilation).astype(wide, copy=False)
            for d, (many, window, stride, step) in enumerate(rows):
                if window == 1 and stride == 1:
                    continue
                at = (slice(None),) * d
                parts = (x[(*at, slice(i * step, i * step + (many - 1) * stride + 1, stride))] for i in range(window))
                x = functools.reduce(function, parts) if many else x[(*at, slice(0))]
            return x.astype(dtype, copy=False)

        return reduced

    return monoid_window_numpy


# -------------------------------------------------------------------------------- batching, lowering


def _monoid_batch(primitive: Primitive) -> Rule:
    def monoid_window_batch(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        (x,), (dim,) = args, dims
        return primitive.bind(x, **with_window_of_one(dim, params)), dim

    return monoid_window_batch


def _monoid_lower(op: str, direction: str, identity: Callable[[np.dtype], Any]) -> Rule:
    def monoid_window_lower(ctx: Any, avals: Any, out_avals: Any, x: str, **params: Any) -> str:
        (aval,), (out,) = avals, out_avals
        scalar_aval = ShapedArray((), aval.dtype)
        scalar = mlir_type(scalar_aval)

        def combine(inner: Any, a: str, b: str) -> list[str]:
            if direction and dtypes.is_complex(aval.dtype):
                return [complex_extremum_text(inner, direction, a, b, scalar_aval)]
            return [inner.emit(f"stablehlo.{op} {a}, {b} : {scalar}")]

        start = ctx.full(identity(aval.dtype), scalar_aval, scalars=True)
        region = region_text(ctx, [scalar, scalar], combine, [scalar])
        text = f'"stablehlo.reduce_window"({x}, {start}) <{{{window_text(**params)}}}> {region}'
        return str(ctx.emit(f"{text} : ({mlir_type(aval)}, {scalar}) -> {mlir_type(out)}"))

    return monoid_window_lower


def _monoid(
    primitive: Primitive,
    combine: Primitive,
    op: str,
    direction: str,
    identity: Callable[[np.dtype], Any],
    **rules: Any,
) -> Primitive:
    """A reduction of windows by ``combine``, which is the StableHLO operation ``op``."""
    return declare(
        primitive,
        abstract=_monoid_abstract(primitive.name),
        numpy=_monoid_numpy(combine, identity),
        lower=_monoid_lower(op, direction, identity),
        batch=_monoid_batch(primitive),
        **rules,
    )


# -------------------------------------------------------------------------------- sums


def _sum_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    """Each element of the operand was in the windows that begin so much before it: again sums of windows."""
    windows, shape = Windows(**params), x.aval.shape
    config = []
    for size, window, stride, (low, _), base, step, many in zip(shape, *windows, shape_of(ct), strict=True):
        reach, whole = dilated(window, step), dilated(size, base)
        before = reach - low - 1
        config.append((before, whole + reach - 1 - dilated(many, stride) - before, stride - 1))
    spread = pad(ct, full((), 0, x.aval.dtype), config)
    again = windows._replace(
        window_strides=windows.base_dilation, padding=((0, 0),) * len(shape), base_dilation=(1,) * len(shape)
    )
    return [reduce_window_sum_p.bind(spread, **again._asdict())]


reduce_window_sum_p = _monoid(Primitive("reduce_window_sum"), add_p, "add", "", zero_of_dtype, transpose=_sum_transpose)

# -------------------------------------------------------------------------------- maximum, minimum


def _extremum_jvp(primitive: Primitive, select: Primitive) -> Rule:
    """The tangent of the element that was taken."""

    def extremum_window_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (x,), (t,) = primals, tangents
        out = primitive.bind(x, **params)
        return out, select_and_gather_add_p.bind(instantiate_zeros(t), x, select_prim=select, **params)

    return extremum_window_jvp


def _extremum(name: str, select: Primitive, combine: Primitive, op: str, direction: str, identity: Any) -> Primitive:
    primitive = Primitive(name)
    return _monoid(primitive, combine, op, direction, identity, jvp=_extremum_jvp(primitive, select))


reduce_window_max_p = _extremum("reduce_window_max", ge_p, max_p, "maximum", "GT", dtypes.min_value)
reduce_window_min_p = _extremum("reduce_window_min", le_p, min_p, "minimum", "LT", dtypes.max_value)
