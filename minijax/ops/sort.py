"""Sorting along an axis: ``sort``, which is lexicographic if it has several keys, and ``top_k``."""

from __future__ import annotations

import operator as operators
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, sharding_of_type
from minijax.core.lists import safe_zip
from minijax.core.rules import Values
from minijax.core.structural import Zero, broadcast_in_dim_p, moveaxis, zero_of, zero_tangent
from minijax.lowering.regions import region_text
from minijax.lowering.text import mlir_type, scalar_type
from minijax.ops.declare import declare
from minijax.ops.elementwise_numpy import total_order
from minijax.ops.index import GatherDimensionNumbers, gather, index_dtype
from minijax.ops.reduce import accumulator
from minijax.ops.shape import broadcasted_iota, canonical_axis, expand_dims, reshape, shape_of, transpose_text

__all__ = ["sort", "sort_key_val", "sort_p", "top_k", "top_k_p"]


def _sort_abstract(*operands: ShapedArray, dimension: int, is_stable: bool, num_keys: int) -> list[ShapedArray]:
    if any(o.shape != operands[0].shape for o in operands):
        shapes = " ".join(str(o.shape) for o in operands)
        raise TypeError(f"Arguments to sort must have equal shapes, got: {shapes}")
    if not 0 <= dimension < operands[0].ndim:
        raise ValueError(f"sort dimension {dimension} is out of bounds for shape {operands[0].shape}")
    return list(operands)


def _key(x: Any) -> Any:
    """``x`` in a dtype that NumPy sorts in XLA's order, nan last. Small floats of ml_dtypes need a wider dtype."""
    return x.astype(accumulator(x.dtype)) if accumulator(x.dtype) is not x.dtype else x


def _sort_numpy(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
    keys = [_key(x) for x in operands[:num_keys]]
    if num_keys == 1:
        order = np.argsort(keys[0], dimension, kind="stable")
    else:
        order = np.lexsort(keys[::-1], dimension)
    return [np.take_along_axis(np.asarray(x), order, dimension) for x in operands]


def _moved_along(x: Any, indices: Any, axis: int) -> Any:
    """``x`` at ``indices`` along ``axis``. ``indices`` has one more dimension than ``x``, of size 1, at the end."""
    rank = len(shape_of(x))
    others = tuple(d for d in range(rank) if d != axis)
    return gather(x, indices, GatherDimensionNumbers((), (axis,), (axis,), others, others), (1,) * rank)


def _sort_jvp(primals: Values, tangents: Values, *, dimension: int, **params: Any) -> Any:
    shape = shape_of(primals[0])
    sharding = sharding_of_type(get_aval(primals[0]))
    places = broadcasted_iota(index_dtype(shape, signed=False), shape, dimension, out_sharding=sharding)
    *outs, moved = sort_p.bind(*primals, places, dimension=dimension, **params)
    indices = expand_dims(moved, (len(shape),))
    return outs, [t if type(t) is Zero else _moved_along(t, indices, dimension) for t in tangents]


def _sort_batch(args: Values, dims: Values, *, dimension: int, **params: Any) -> Any:
    aval, dim = next((get_aval(x), d) for x, d in safe_zip(args, dims) if d is not None)
    kept = tuple(i for i in range(aval.ndim) if i != dim)
    repeated = {"shape": aval.shape, "broadcast_dimensions": kept, "sharding": sharding_of_type(aval)}
    aligned = [
        broadcast_in_dim_p.bind(x, **repeated) if d is None else moveaxis(x, d, dim) for x, d in safe_zip(args, dims)
    ]
    return sort_p.bind(*aligned, dimension=dimension + (dim <= dimension), **params), [dim] * len(args)


def _comparable(ctx: Any, x: str, dtype: np.dtype) -> list[tuple[str, np.dtype]]:
    """The values to compare for ``x`` in XLA's total order. All zeros are made equal, and so are all nans."""
    if dtypes.is_complex(dtype):
        part = dtypes.real_dtype(dtype)
        ty, part_ty = (scalar_type(d) for d in (dtype, part))
        pieces = [ctx.emit(f'"stablehlo.{side}"({x}) : ({ty}) -> {part_ty}') for side in ("real", "imag")]
        return [found for piece in pieces for found in _comparable(ctx, piece, part)]
    if not dtypes.is_float(dtype):
        return [(x, dtype)]
    ty, flag = scalar_type(dtype), "tensor<i1>"
    zero, nan = ctx.scalar(0, dtype), ctx.scalar(np.nan, dtype)
    is_zero = ctx.emit(f"stablehlo.compare EQ, {x}, {zero}, FLOAT : ({ty}, {ty}) -> {flag}")
    one_zero = ctx.emit(f"stablehlo.select {is_zero}, {zero}, {x} : {flag}, {ty}")
    is_nan = ctx.emit(f"stablehlo.compare NE, {x}, {x}, FLOAT : ({ty}, {ty}) -> {flag}")
    return [(ctx.emit(f"stablehlo.select {is_nan}, {nan}, {one_zero} : {flag}, {ty}"), dtype)]


def _sort_lower(
    ctx: Any, avals: Any, out_avals: Any, *operands: str, dimension: int, is_stable: bool, num_keys: int
) -> list[str]:
    scalars = [scalar_type(a.dtype) for a in avals]

    def before(inner: Any, *names: str) -> list[str]:
        """Whether the first of each pair in ``names`` sorts before the second. The first key that differs decides."""
        keys: list[tuple[str, str, np.dtype]] = []
        for i in range(num_keys):
            left = _comparable(inner, names[2 * i], avals[i].dtype)
            right = _comparable(inner, names[2 * i + 1], avals[i].dtype)
            keys.extend((a, b, dtype) for (a, dtype), (b, _) in safe_zip(left, right))
        found = ""
        for a, b, dtype in reversed(keys):
            ty = scalar_type(dtype)
            kind = "TOTALORDER" if dtypes.is_float(dtype) else "SIGNED" if dtypes.is_signed(dtype) else "UNSIGNED"
            less = inner.emit(f"stablehlo.compare LT, {a}, {b}, {kind} : ({ty}, {ty}) -> tensor<i1>")
            if found:
                same = inner.emit(f"stablehlo.compare EQ, {a}, {b}, {kind} : ({ty}, {ty}) -> tensor<i1>")
                tie = inner.emit(f"stablehlo.and {same}, {found} : tensor<i1>")
                less = inner.emit(f"stablehlo.or {less}, {tie} : tensor<i1>")
            found = less
        return [found]

    region = region_text(ctx, [s for s in scalars for _ in range(2)], before, ["tensor<i1>"])
    types = ", ".join(map(mlir_type, avals))
    stable = str(bool(is_stable)).lower()
    op = f'"stablehlo.sort"({", ".join(operands)}) <{{dimension = {dimension} : i64, is_stable = {stable}}}>'
    return ctx.emit_many(f"{op} {region} : ({types}) -> ({types})", len(operands))


sort_p = declare(
    "sort",
    abstract=_sort_abstract,
    numpy=_sort_numpy,
    lower=_sort_lower,
    batch=_sort_batch,
    jvp=_sort_jvp,
    multiple_results=True,
)


def _top_k_abstract(x: ShapedArray, *, k: int, axis: int) -> list[ShapedArray]:
    if dtypes.is_complex(x.dtype):
        raise ValueError("top_k is not compatible with complex inputs.")
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    if not x.ndim:
        raise TypeError(f"top_k operand must have >= 1 dimension, got {x.shape}")
    if not 0 <= axis < x.ndim:
        raise ValueError(f"axis argument out of range: {axis=} for operand.shape={x.shape}")
    if x.shape[axis] < k:
        raise ValueError(
            "k argument to top_k must be no larger than size along axis; "
            f"got {k=} with shape={list(x.shape)} and {axis=}"
        )
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [x.update(shape=shape), x.update(shape=shape, dtype=np.dtype(np.int32))]


def _top_k_numpy(x: Any, k: int, axis: int) -> list[Any]:
    order = np.argsort(~total_order(x), axis, kind="stable").take(range(k), axis)
    return [np.take_along_axis(x, order, axis), order.astype(np.int32)]


def _top_k_jvp(primals: Values, tangents: Values, *, k: int, axis: int) -> Any:
    (x,), (t,) = primals, tangents
    values, places = top_k_p.bind(x, k=k, axis=axis)
    still = zero_of(get_aval(places))
    if type(t) is Zero:
        return [values, places], [zero_tangent(values), still]
    indices = reshape(places, (*shape_of(places), 1))
    return [values, places], [_moved_along(t, indices, axis), still]


def _top_k_batch(args: Values, dims: Values, *, k: int, axis: int) -> Any:
    (x,), (dim,) = args, dims
    return top_k_p.bind(x, k=k, axis=axis + (dim <= axis)), [dim, dim]


def _top_k_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, k: int, axis: int) -> list[str]:
    (aval,) = avals
    # XLA's operation only works along the last dimension
    order = list(range(aval.ndim))
    order[axis], order[-1] = order[-1], order[axis]

    def swapped(some: ShapedArray) -> ShapedArray:
        return some.update(shape=tuple(some.shape[d] for d in order))

    if axis != aval.ndim - 1:
        x = transpose_text(ctx, x, aval, order)
    types = ", ".join(mlir_type(swapped(out)) for out in out_avals)
    outs = ctx.emit_many(f"chlo.top_k({x}, k = {k}) : {mlir_type(swapped(aval))} -> ({types})", 2)
    if axis == aval.ndim - 1:
        return outs
    return [transpose_text(ctx, name, swapped(out), order) for name, out in safe_zip(outs, out_avals)]


top_k_p = declare(
    "top_k",
    abstract=_top_k_abstract,
    numpy=_top_k_numpy,
    lower=_top_k_lower,
    batch=_top_k_batch,
    jvp=_top_k_jvp,
    multiple_results=True,
)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """``operand`` sorted along ``dimension``, nan last. A sequence is sorted by its first ``num_keys`` arrays.

    The order is ascending. Shapes and dtypes do not change. Other arrays of a sequence are reordered in the same way.
    ``is_stable``: equal elements keep their order.
    Returns an array, or a tuple for a sequence. Raises TypeError for an empty sequence or different shapes, ValueError
    for a bad ``num_keys`` or ``dimension``.

    >>> lax.sort((jnp.array([3, 1, 2]), jnp.array([0, 1, 2])))
    (Array([1, 2, 3], dtype=int32), Array([1, 2, 0], dtype=int32))
    """
    if not isinstance(operand, Sequence):
        if num_keys != 1:
            raise ValueError(f"num_keys={num_keys} must equal 1 for a single operand.")
        (out,) = sort((operand,), dimension, is_stable)
        return out
    if not operand:
        raise TypeError("Sort requires at least one operand")
    if not 1 <= num_keys <= len(operand):
        raise ValueError(f"num_keys={num_keys} must be between 1 and len(operand)={len(operand)}")
    axis = canonical_axis(dimension, get_aval(operand[0]).ndim)
    return tuple(sort_p.bind(*operand, dimension=axis, is_stable=is_stable, num_keys=num_keys))


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> tuple[Any, Any]:
    """``keys`` sorted along ``dimension``, and ``values`` in the same order."""
    out = sort((keys, values), dimension, is_stable)
    return out[0], out[1]


def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Any]:
    """The ``k`` greatest elements of ``operand`` along ``axis``, the greatest first, and their int32 indices.

    Returns a list of two arrays with size ``k`` along ``axis``; the elements keep the operand's dtype. nan counts as
    greatest. Of equal elements the first comes first. Raises ValueError for complex numbers, or if ``axis`` has fewer
    than ``k`` elements.

    >>> lax.top_k(jnp.array([3., 1., 2.]), 2)
    [Array([3., 2.], dtype=float32), Array([0, 2], dtype=int32)]
    """
    k = operators.index(k)
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    return top_k_p.bind(operand, k=k, axis=canonical_axis(axis, get_aval(operand).ndim))
