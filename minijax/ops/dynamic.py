"""Slices whose start is known only at run time: ``dynamic_slice`` and ``dynamic_update_slice``.

A slice that would cross the edge is moved inside.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import avals as types
from minijax.core import dtypes
from minijax.core.array import as_array, check_int, get_aval
from minijax.core.avals import ShapedArray, dtype_name, sharding_of_type
from minijax.core.rules import Dims, Flags, Ints, Names, Shape, Values
from minijax.core.structural import UndefinedPrimal, Zero, broadcast_in_dim_p, full, instantiate_zeros, zero_tangent
from minijax.interpreters.vmap import batching_rules
from minijax.lowering.text import dims_text, mlir_type
from minijax.ops.convert import convert
from minijax.ops.declare import all_weak, declare, set_rules
from minijax.ops.elementwise import add_p, lt_p
from minijax.ops.index import GatherDimensionNumbers, GatherScatterMode, gather_p
from minijax.ops.nary import check_same_dtypes
from minijax.ops.scatter import ScatterDimensionNumbers, scatter_p
from minijax.ops.select import select
from minijax.ops.shape import broadcast, canonical_shape, expand_dims, full_like, is_array, shape_of, squeeze
from minijax.ops.slicing import concatenate, index_in_dim

__all__ = [
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_slice_p",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "dynamic_update_slice_p",
]


def _check_starts(name: str, starts: Sequence[ShapedArray]) -> None:
    if any(s.ndim for s in starts):
        raise TypeError(f"start_indices arguments to {name} must be scalars, got indices {tuple(starts)}")
    if any(s.dtype != starts[0].dtype or not dtypes.is_integer(s.dtype) for s in starts):
        found = ", ".join(dtype_name(s.dtype) for s in starts)
        raise TypeError(f"index arguments to {name} must be integers of the same type, got: {found}")


def _window(shape: Ints, starts: Values, sizes: Ints) -> tuple[builtins.slice, ...]:
    """The NumPy index of a slice of ``sizes``, moved inside ``shape``."""
    places = [builtins.max(0, min(int(s), n - k)) for s, n, k in zip(starts, shape, sizes, strict=True)]
    return tuple(builtins.slice(p, p + k) for p, k in zip(places, sizes, strict=True))


def _index_vector(starts: Values, dims: Dims) -> tuple[Any, int | None]:
    """Join scalar starts, whose batch axes are ``dims``, to index vectors. Also return the vectors' batch axis."""
    if not starts:
        return np.array([], np.int32), None
    size = next((shape_of(x)[d] for x, d in zip(starts, dims, strict=True) if d is not None), None)
    if size is None:
        return concatenate([broadcast(x, (1,)) for x in starts], 0), None
    columns = [
        broadcast_in_dim_p.bind(x, shape=(size, 1), broadcast_dimensions=() if d is None else (0,), sharding=None)
        for x, d in zip(starts, dims, strict=True)
    ]
    return concatenate(columns, 1), 0


def _dynamic_slice_abstract(x: ShapedArray, *starts: ShapedArray, slice_sizes: Shape) -> ShapedArray:
    if not x.ndim == len(starts) == len(slice_sizes):
        raise TypeError(
            "dynamic_slice needs one start index and one slice size for each dimension of the operand, "
            f"got {len(starts)} indices and slice_sizes {slice_sizes} for operand shape {x.shape}."
        )
    if any(k > n for k, n in zip(slice_sizes, x.shape, strict=True)):
        raise TypeError(
            "slice slice_sizes must be less than or equal to operand shape, "
            f"got slice_sizes {slice_sizes} for operand shape {x.shape}."
        )
    if any(k < 0 for k in slice_sizes):
        raise TypeError(f"slice slice_sizes must be greater than or equal to zero, got slice_sizes of {slice_sizes}.")
    _check_starts("dynamic_slice", starts)
    return ShapedArray(slice_sizes, x.dtype, x.weak_type)


def _dynamic_slice_numpy(x: Any, *starts: Any, slice_sizes: Shape) -> Any:
    return np.asarray(x)[_window(x.shape, starts, slice_sizes)]


def _dynamic_slice_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
    x, *starts = primals
    t = tangents[0]
    moved = dynamic_slice_p.bind(t, *starts, **params) if type(t) is not Zero else None
    out = dynamic_slice_p.bind(x, *starts, **params)
    return out, zero_tangent(out) if moved is None else moved


def _dynamic_slice_transpose(ct: Any, x: Any, *starts: Any, slice_sizes: Shape) -> list[Any]:
    assert type(x) is UndefinedPrimal, "a dynamic slice is linear in its operand only"
    zeros = full(x.aval.shape, 0, x.aval.dtype, sharding=sharding_of_type(x.aval))
    return [dynamic_update_slice_p.bind(zeros, ct, *starts), *[None] * len(starts)]


def _dynamic_slice_batch(args: Values, dims: Dims, *, slice_sizes: Shape) -> Any:
    every = tuple(range(len(slice_sizes)))
    indices, dim = _index_vector(args[1:], dims[1:])
    return batching_rules[gather_p](
        (args[0], indices),
        (dims[0], dim),
        dimension_numbers=GatherDimensionNumbers(every, (), every),
        slice_sizes=slice_sizes,
        unique_indices=True,
        indices_are_sorted=True,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )


def _dynamic_slice_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, slice_sizes: Shape) -> str:
    types = ", ".join(map(mlir_type, avals))
    return ctx.emit(
        f"stablehlo.dynamic_slice {', '.join(names)}, sizes = {dims_text(slice_sizes)} : "
        f"({types}) -> {mlir_type(out_avals[0])}"
    )


def _with_zeros(ctx: Any, avals: Any, names: Names, first: int) -> tuple[Any, Names]:
    """Append zero starts for the dimensions of key words. ``first`` is the position of the first start."""
    count = avals[0].ndim - (len(names) - first)
    start = avals[first] if len(avals) > first else ShapedArray((), np.dtype(np.int32))
    zero = ctx.scalar(0, start.dtype)
    return [*avals, *[start] * count], [*names, *[zero] * count]


def _dynamic_slice_words(ctx: Any, avals: Any, out_avals: Any, *names: str, **params: Any) -> str:
    types, operands = _with_zeros(ctx, avals, names, 1)
    return _dynamic_slice_lower(ctx, types, out_avals, *operands, slice_sizes=out_avals[0].shape)


dynamic_slice_p = declare(
    "dynamic_slice",
    abstract=_dynamic_slice_abstract,
    numpy=_dynamic_slice_numpy,
    lower=_dynamic_slice_lower,
    batch=_dynamic_slice_batch,
    jvp=_dynamic_slice_jvp,
    transpose=_dynamic_slice_transpose,
    takes_keys=True,
)
set_rules(dynamic_slice_p, lower_keys=_dynamic_slice_words)


def _dynamic_update_slice_abstract(x: ShapedArray, update: ShapedArray, *starts: ShapedArray) -> ShapedArray:
    if x.ndim != update.ndim:
        raise TypeError(
            "dynamic_update_slice update must have the same rank as operand, "
            f"got update shape {update.shape} for operand shape {x.shape}."
        )
    if x.ndim != len(starts):
        raise TypeError(
            "dynamic_update_slice start_indices must have length equal to the rank of operand, "
            f"got indices {starts} for operand shape {x.shape}."
        )
    if any(k > n for k, n in zip(update.shape, x.shape, strict=True)):
        raise TypeError(
            "dynamic_update_slice update shape must be smaller than operand shape, "
            f"got update shape {update.shape} for operand shape {x.shape}."
        )
    check_same_dtypes("dynamic_update_slice", (x, update))
    _check_starts("dynamic_update_slice", starts)
    return ShapedArray(x.shape, x.dtype, all_weak((x, update, *starts)))


def _dynamic_update_slice_numpy(x: Any, update: Any, *starts: Any) -> Any:
    out = np.array(x)
    out[_window(x.shape, starts, update.shape)] = update
    return out


def _dynamic_update_slice_jvp(primals: Values, tangents: Values) -> Any:
    out = dynamic_update_slice_p.bind(*primals)
    t_x, t_update = tangents[:2]
    if type(t_x) is Zero and type(t_update) is Zero:
        return out, zero_tangent(out)
    moved = dynamic_update_slice_p.bind(instantiate_zeros(t_x), instantiate_zeros(t_update), *primals[2:])
    return out, moved


def _dynamic_update_slice_transpose(ct: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
    linear = [type(a) is UndefinedPrimal for a in (x, update)]
    sizes = update.aval.shape if linear[1] else shape_of(update)
    # as in JAX, make these zeros even if only ``update`` is linear, so that jaxprs agree
    sharding = sharding_of_type(update.aval if linear[1] else get_aval(update)) if types.sharded_types_made else None
    zeros = full_like(ct, 0, shape=sizes, sharding=sharding)
    ct_x = dynamic_update_slice_p.bind(ct, zeros, *starts) if linear[0] else None
    ct_update = dynamic_slice_p.bind(ct, *starts, slice_sizes=sizes) if linear[1] else None
    return [ct_x, ct_update, *[None] * len(starts)]


def _dynamic_update_slice_batch(args: Values, dims: Dims) -> Any:
    x, update, *starts = args
    every = tuple(range(len(starts)))
    indices, dim = _index_vector(starts, dims[2:])
    return batching_rules[scatter_p](
        (x, indices, update),
        (dims[0], dim, dims[1]),
        dimension_numbers=ScatterDimensionNumbers(every, (), every),
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
        update_jaxpr=None,
        update_consts=(),
    )


def _dynamic_update_slice_lower(ctx: Any, avals: Any, out_avals: Any, *names: str) -> str:
    types = ", ".join(map(mlir_type, avals))
    return ctx.emit(f"stablehlo.dynamic_update_slice {', '.join(names)} : ({types}) -> {mlir_type(out_avals[0])}")


def _dynamic_update_slice_words(ctx: Any, avals: Any, out_avals: Any, *names: str) -> str:
    types, operands = _with_zeros(ctx, avals, names, 2)
    return _dynamic_update_slice_lower(ctx, types, out_avals, *operands)


dynamic_update_slice_p = declare(
    "dynamic_update_slice",
    abstract=_dynamic_update_slice_abstract,
    numpy=_dynamic_update_slice_numpy,
    lower=_dynamic_update_slice_lower,
    batch=_dynamic_update_slice_batch,
    jvp=_dynamic_update_slice_jvp,
    transpose=_dynamic_update_slice_transpose,
    takes_keys=True,
)
set_rules(dynamic_update_slice_p, lower_keys=_dynamic_update_slice_words)


def wrap_negative(index: Any, size: int) -> Any:
    """Add ``size``, the length of the axis, to negative entries of an integer index: they count from the end."""
    aval = get_aval(index)
    if dtypes.is_unsigned(aval.dtype):
        return index
    negative = lt_p.bind(index, full((), 0, aval.dtype, aval.weak_type))
    return select(negative, add_p.bind(convert(index, aval.dtype), full((), size, aval.dtype)), index)


def _starts(x: Any, start_indices: Any, allow_negative: bool | Flags) -> list[Any]:
    """Return the start indices. If it is allowed, negative indices count from the end."""
    shape = shape_of(x)
    if is_array(start_indices) or isinstance(start_indices, np.ndarray):
        vector = start_indices if is_array(start_indices) else as_array(start_indices)
        if vector.ndim != 1:
            raise ValueError(f"Slice indices must be a 1D sequence, got {vector.shape}")
        start_indices = [index_in_dim(vector, i, 0, keepdims=False) for i in range(vector.shape[0])]
    if len(start_indices) != len(shape):
        raise ValueError(
            f"Length of slice indices must match number of operand dimensions ({len(start_indices)} vs {shape})"
        )
    allowed = [allow_negative] * len(shape) if isinstance(allow_negative, bool) else allow_negative
    return [_start(i, n, a) for i, n, a in zip(start_indices, shape, allowed, strict=True)]


def _start(index: Any, size: int, allow_negative: bool) -> Any:
    if isinstance(index, (int, np.integer)):
        dtype = get_aval(index).dtype
        if index < 0 and not allow_negative:
            raise ValueError(f"Index {index} is out of bounds for dimension {size} if allow_negative_indices=False")
        return convert(index + size if index < 0 else index, dtype)
    return wrap_negative(index, size) if allow_negative else index


def dynamic_slice(
    operand: Any, start_indices: Any, slice_sizes: Ints, *, allow_negative_indices: bool | Flags = True
) -> Any:
    """The slice of ``operand`` with static ``slice_sizes`` that begins at ``start_indices``, moved inside if necessary.

    The indices are integer scalars of one type, one for each dimension, or one 1-D array; they may be traced. Negative
    indices count from the end, unless disallowed. The result has shape ``slice_sizes`` and the operand's dtype. Raises
    TypeError for other indices and for sizes above the operand's, ValueError for another number of indices.

    >>> lax.dynamic_slice(jnp.arange(5), (4,), (2,))
    Array([3, 4], dtype=int32)
    """
    starts = _starts(operand, start_indices, allow_negative_indices)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=canonical_shape(slice_sizes))


def dynamic_update_slice(
    operand: Any, update: Any, start_indices: Any, *, allow_negative_indices: bool | Flags = True
) -> Any:
    """``operand`` with ``update``, of the same rank and dtype, put at ``start_indices``: see ``dynamic_slice``.

    The result has the operand's shape. ``update`` is moved inside if it would pass the end. Raises TypeError for an
    ``update`` of another rank or dtype, or a larger size.

    >>> lax.dynamic_update_slice(jnp.arange(5), jnp.array([8, 9]), (4,))
    Array([0, 1, 2, 8, 9], dtype=int32)
    """
    return dynamic_update_slice_p.bind(operand, update, *_starts(operand, start_indices, allow_negative_indices))


def _along(x: Any, index: Any, axis: int, allow_negative: bool) -> tuple[list[Any], list[bool]]:
    """The starts of a slice: ``index`` along ``axis``, 0 elsewhere; and for each start, whether it may be negative."""
    ndim, axis = len(shape_of(x)), operator.index(axis)
    if not -ndim <= axis < ndim:
        raise IndexError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    zero = full((), 0, get_aval(index).dtype) if not isinstance(index, int) else 0
    starts: list[Any] = [zero] * ndim
    allowed = [False] * ndim
    starts[axis], allowed[axis] = index, allow_negative
    return starts, allowed


def dynamic_slice_in_dim(
    operand: Any, start_index: Any, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Any:
    """``dynamic_slice`` along one ``axis``. The slice is whole along the other axes."""
    starts, allowed = _along(operand, start_index, axis, allow_negative_indices)
    sizes = list(shape_of(operand))
    sizes[axis] = operator.index(slice_size)
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allowed)


def dynamic_index_in_dim(
    operand: Any, index: Any, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Any:
    """The elements at ``index`` along ``axis``. With ``keepdims``, the axis stays as a dimension of size 1."""
    if isinstance(index, int):
        check_int(index)
    out = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return out if keepdims else squeeze(out, (axis,))


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """``dynamic_update_slice`` along one ``axis``. The update begins at 0 along the other axes."""
    starts, allowed = _along(operand, start_index, axis, allow_negative_indices)
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allowed)


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """``operand`` with ``update`` at ``index`` of ``axis``; ``update`` may lack this axis."""
    if isinstance(index, int):
        check_int(index)
    if len(shape_of(update)) != len(shape_of(operand)):
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(operand, update, index, axis, allow_negative_indices=allow_negative_indices)
