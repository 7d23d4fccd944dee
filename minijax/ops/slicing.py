"""Primitives that cut, pad and join arrays: slice, pad, concatenate, split, stack, unstack."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.array import as_array, get_aval
from minijax.core.avals import Avals, ShapedArray, dtype_name
from minijax.core.primitive import Primitive
from minijax.core.rules import Axes, Ints, Params, Shape, Values
from minijax.core.structural import UndefinedPrimal, instantiate_zeros
from minijax.core.structural import broadcast as broadcast_axis
from minijax.core.structural import full as full_of
from minijax.interpreters.vmap import bdim_at_front, mapped_axis
from minijax.lowering.text import dims_text, mlir_type
from minijax.ops.declare import all_weak, declare
from minijax.ops.elementwise import sub_p
from minijax.ops.nary import check_same_dtypes, reduce_sum_p
from minijax.ops.select import select
from minijax.ops.shape import broadcast_in_dim, canonical_axis, is_array, reshape_text, shape_of, squeeze

__all__ = [
    "concatenate",
    "concatenate_p",
    "index_in_dim",
    "pad",
    "pad_p",
    "slice",
    "slice_in_dim",
    "slice_p",
    "split",
    "split_p",
    "stack",
    "stack_p",
    "unstack",
    "unstack_p",
]


def _slice_abstract(x: ShapedArray, *, start_indices: Axes, limit_indices: Axes, strides: Axes | None) -> ShapedArray:
    starts, limits = start_indices, limit_indices
    if x.ndim != len(starts):
        raise TypeError(
            "slice start_indices must have length equal to the number of dimensions of the operand, "
            f"got indices {starts} for operand shape {x.shape}."
        )
    if len(starts) != len(limits):
        raise TypeError(
            "slice limit_indices must have the same length as start_indices, "
            f"got start_indices {starts} and limit_indices {limits}."
        )
    if any(n < b for n, b in zip(x.shape, limits, strict=True)):
        raise TypeError(
            "slice limit_indices must be less than or equal to operand shape, "
            f"got limit_indices {limits} for operand shape {x.shape}."
        )
    if any(a < 0 for a in starts):
        raise TypeError(f"slice start_indices must be greater than or equal to zero, got start_indices of {starts}.")
    if any(b < a for a, b in zip(starts, limits, strict=True)):
        raise TypeError(
            "slice limit_indices must be greater than or equal to start_indices, "
            f"got start_indices {starts} and limit_indices {limits}."
        )
    if strides is None:
        strides = (1,) * x.ndim
    if len(strides) != x.ndim:
        raise TypeError(
            "slice strides must have length equal to the number of dimensions of the operand, "
            f"got strides {strides} for operand shape {x.shape}."
        )
    if any(s <= 0 for s in strides):
        raise TypeError(f"slice strides must be positive, got {strides}")
    shape = tuple(int((b - a + s - 1) // s) for a, b, s in zip(starts, limits, strides, strict=True))
    return ShapedArray(shape, x.dtype, x.weak_type)


def _slice_numpy(x: Any, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    if strides is None:
        return x[tuple(map(builtins.slice, start_indices, limit_indices))]
    return x[tuple(map(builtins.slice, start_indices, limit_indices, strides))]


def _slice_transpose(ct: Any, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> list[Any]:
    shape, taken = x.aval.shape, shape_of(ct)
    if strides is None:
        strides = (1,) * len(shape)
    # end each slice directly after the last element that was taken: a stride may step over the given limit
    ends = [
        b if s == 1 else a + (1 + (n - 1) * s if n else 0)
        for a, b, s, n in zip(start_indices, limit_indices, strides, taken, strict=True)
    ]
    after = tuple(n - e for n, e in zip(shape, ends, strict=True))
    between = (0,) * len(shape) if all(s == 1 for s in strides) else tuple(s - 1 for s in strides)
    config = tuple(zip(start_indices, after, between, strict=True))
    return [pad_p.bind(ct, zero_like(ct), padding_config=config)]


def zero_like(x: Any) -> Any:
    """A scalar zero of ``x``'s dtype, strongly typed."""
    return full_of((), 0, get_aval(x).dtype)


def _inserted(sequence: Values, position: int, item: Any) -> tuple[Any, ...]:
    return (*sequence[:position], item, *sequence[position:])


def _slice_batch(args: Values, dims: Values, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    (x,), (dim,) = args, dims
    out = slice_p.bind(
        x,
        start_indices=_inserted(start_indices, dim, 0),
        limit_indices=_inserted(limit_indices, dim, shape_of(x)[dim]),
        strides=None if strides is None else _inserted(strides, dim, 1),
    )
    return out, dim


def _slice_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, start_indices: Any, limit_indices: Any, strides: Any
) -> str:
    return slice_text(ctx, x, avals[0], out_avals[0], start_indices, limit_indices, strides)


def slice_text(
    ctx: Any, x: str, aval: ShapedArray, out: ShapedArray, starts: Any, limits: Any, strides: Any = None
) -> str:
    """Write a slice of ``x``, from type ``aval`` to type ``out``. Return the result's name."""
    steps = (1,) * aval.ndim if strides is None else strides
    ranges = ", ".join(f"{a}:{b}" + (f":{s}" if s != 1 else "") for a, b, s in zip(starts, limits, steps, strict=True))
    return ctx.emit(f"stablehlo.slice {x} [{ranges}] : ({mlir_type(aval)}) -> {mlir_type(out)}")


def _slice_words(avals: Any, out_avals: Any, params: Params) -> Params:
    """The parameters for the raw words of keys: the slice has all words of its keys."""
    starts, limits, strides = params["start_indices"], params["limit_indices"], params["strides"]
    words = avals[0].shape[len(starts) :]
    return {
        "start_indices": (*starts, *[0] * len(words)),
        "limit_indices": (*limits, *words),
        "strides": strides and (*strides, *[1] * len(words)),
    }


slice_p = declare(
    "slice",
    abstract=_slice_abstract,
    numpy=_slice_numpy,
    lower=_slice_lower,
    batch=_slice_batch,
    transpose=_slice_transpose,
    words=_slice_words,
)


def _ints(sequence: Values) -> Axes:
    return tuple(map(operator.index, sequence))


def _kept_ints(sequence: Values) -> tuple[Any, ...]:
    """``sequence`` as integers. NumPy's integers keep their types, as in JAX."""
    return tuple([n if isinstance(n, np.integer) else operator.index(n) for n in sequence])


def slice(operand: Any, start_indices: Ints, limit_indices: Ints, strides: Ints | None = None) -> Any:
    """The elements of ``operand`` from ``start_indices`` to ``limit_indices``, with steps ``strides``. All are static.

    Raises TypeError for indices that are negative or out of bounds.
    """
    return slice_p.bind(
        operand,
        start_indices=_ints(start_indices),
        limit_indices=_ints(limit_indices),
        strides=None if strides is None else _ints(strides),
    )


def slice_in_dim(operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Any:
    """``slice`` along one ``axis``. Negative indices count from the end. None means the start or end of the axis."""
    shape = shape_of(operand)
    axis, size = operator.index(axis), shape[axis]
    start = 0 if start_index is None else operator.index(start_index)
    limit = size if limit_index is None else operator.index(limit_index)
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = start + size if start < 0 else start
    limits[axis] = limit + size if limit < 0 else limit
    strides[axis] = operator.index(stride)
    return slice(operand, starts, limits, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """The element at the static ``index`` of ``axis``. With ``keepdims``, the axis stays, with size 1.

    Raises IndexError if ``index`` is out of bounds.
    """
    index, axis = operator.index(index), operator.index(axis)
    size = shape_of(operand)[axis]
    wrapped = index + size if index < 0 else index
    if not 0 <= wrapped < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    taken = slice_in_dim(operand, wrapped, wrapped + 1, 1, axis)
    return taken if keepdims else squeeze(taken, (axis,))


PaddingConfig = tuple[tuple[int, int, int], ...]


def _check_axes(padding_config: Values, shape: Shape) -> None:
    if len(padding_config) != len(shape):
        raise ValueError(
            "length of padding_config must equal the number of axes of operand, "
            f"got padding_config {padding_config} for operand shape {shape}"
        )


def _pad_abstract(x: ShapedArray, value: ShapedArray, *, padding_config: PaddingConfig) -> ShapedArray:
    if x.dtype != value.dtype:
        raise TypeError(
            "pad operand and padding_value must be same dtype: "
            f"got {dtype_name(x.dtype)} and {dtype_name(value.dtype)}."
        )
    if value.ndim:
        raise ValueError(f"padding_value must be a scalar; got np.shape(padding_value)={value.shape}")
    _check_axes(padding_config, x.shape)
    if any(i < 0 for _, _, i in padding_config):
        raise ValueError(f"interior padding in padding_config must be nonnegative, got padding_config {padding_config}")
    shape = _padded_shape(x.shape, padding_config)
    if any(d < 0 for d in shape):
        raise ValueError(
            f"Dimension size after padding is not at least 0, got result shape {shape}, "
            f"for padding_config {padding_config} and operand shape {x.shape}"
        )
    return ShapedArray(shape, x.dtype, x.weak_type and value.weak_type)


def _padded_shape(shape: Shape, padding_config: PaddingConfig) -> Shape:
    return tuple(
        int(low + high) + (n + (n - 1) * int(i) if n else 0)
        for n, (low, high, i) in zip(shape, padding_config, strict=True)
    )


def _pad_numpy(x: Any, value: Any, padding_config: PaddingConfig) -> Any:
    shape = _padded_shape(x.shape, padding_config)
    out = np.empty(shape, x.dtype)
    out[...] = value
    source, target = [], []
    for n, size, (low, _, interior) in zip(x.shape, shape, padding_config, strict=True):
        step = interior + 1
        # element k goes to position low + k * step; negative padding drops elements whose position is outside
        first = max(0, -(low // step))
        last = min(n, (size - 1 - low) // step + 1)
        if last <= first:
            return out
        source.append(builtins.slice(first, last))
        target.append(builtins.slice(low + first * step, low + (last - 1) * step + 1, step))
    out[tuple(target)] = x[tuple(source)]
    return out


def _pad_transpose(ct: Any, x: Any, value: Any, *, padding_config: PaddingConfig) -> list[Any]:
    rank = len(padding_config)

    def total(array: Any) -> Any:
        return reduce_sum_p.bind(array, axes=tuple(range(rank)), out_sharding=None)

    ct_x = ct_value = None
    if type(x) is UndefinedPrimal or type(value) is UndefinedPrimal:
        cut = tuple((-low, -high, 0) for low, high, _ in padding_config)
        unpadded = pad_p.bind(ct, zero_like(ct), padding_config=cut)
        ct_x = slice_p.bind(
            unpadded,
            start_indices=(0,) * rank,
            limit_indices=shape_of(unpadded),
            strides=tuple(i + 1 for _, _, i in padding_config),
        )
    if type(value) is UndefinedPrimal:
        ct_value = sub_p.bind(total(ct), total(ct_x))
    return [ct_x if type(x) is UndefinedPrimal else None, ct_value]


def _pad_batch(args: Values, dims: Values, *, padding_config: PaddingConfig) -> Any:
    x, value = args
    dim, value_dim = dims
    if dim is None:
        dim = 0
        x = broadcast_axis(x, shape_of(value)[value_dim], 0)
    padding_config = _inserted(padding_config, dim, (0, 0, 0))
    if value_dim is None:
        return pad_p.bind(x, value, padding_config=padding_config), dim
    # each example has a different padding value: pad with zeros, then select
    aval = get_aval(x)
    padded = pad_p.bind(x, full_of((), 0, aval.dtype, aval.weak_type), padding_config=padding_config)
    everywhere = full_of(aval.shape, True, np.dtype(bool))
    inside = pad_p.bind(everywhere, np.bool_(False), padding_config=padding_config)
    return select(inside, padded, broadcast_in_dim(value, shape_of(padded), (dim,))), dim


def _pad_lower(ctx: Any, avals: Any, out_avals: Any, x: str, value: str, *, padding_config: PaddingConfig) -> str:
    low, high, interior = zip(*padding_config, strict=True) if padding_config else ((), (), ())
    types = f"({mlir_type(avals[0])}, {mlir_type(avals[1])}) -> {mlir_type(out_avals[0])}"
    return ctx.emit(
        f"stablehlo.pad {x}, {value}, low = {dims_text(low)}, high = {dims_text(high)}, "
        f"interior = {dims_text(interior)} : {types}"
    )


pad_p = declare(
    "pad", abstract=_pad_abstract, numpy=_pad_numpy, lower=_pad_lower, batch=_pad_batch, transpose=_pad_transpose
)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[Ints]) -> Any:
    """``operand`` with ``padding_value``, a scalar of its dtype, around and between its elements.

    ``padding_config`` has ``(low, high, interior)`` for each dimension; negative low and high remove
    elements. ValueError for a ``padding_value`` that is no scalar, TypeError for an ``operand`` that is a list.
    """
    if isinstance(operand, (list, tuple)):
        raise TypeError(f"pad requires ndarray or scalar arguments, got {type(operand)} as the operand.")
    if shape_of(padding_value):
        raise ValueError(f"padding_value must be a scalar; got one of shape {shape_of(padding_value)}")
    _check_axes(padding_config, shape_of(operand))
    return pad_p.bind(operand, padding_value, padding_config=tuple(map(_kept_ints, padding_config)))


def _shapes_text(avals: Avals) -> str:
    return ", ".join(str(a.shape) for a in avals)


def _concatenate_abstract(*operands: ShapedArray, dimension: int) -> ShapedArray:
    if not operands:
        raise TypeError("concatenate expects at least one operand, got 0.")
    first = operands[0]
    if any(o.ndim != first.ndim for o in operands):
        raise TypeError(
            f"Cannot concatenate arrays with different numbers of dimensions: got {_shapes_text(operands)}."
        )
    if not 0 <= dimension < first.ndim:
        raise TypeError(
            f"concatenate dimension out of bounds: dimension {dimension} for shapes {_shapes_text(operands)}."
        )
    if any(_resized(o.shape, dimension, 0) != _resized(first.shape, dimension, 0) for o in operands):
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one being "
            f"concatenated: concatenating along dimension {dimension} for shapes {_shapes_text(operands)}."
        )
    check_same_dtypes("concatenate", operands)
    size = sum(o.shape[dimension] for o in operands)
    return ShapedArray(_resized(first.shape, dimension, size), first.dtype, all_weak(operands))


def _resized(shape: Ints, dimension: int, size: int) -> Shape:
    return (*shape[:dimension], size, *shape[dimension + 1 :])


def _concatenate_numpy(*operands: Any, dimension: int) -> Any:
    return np.concatenate(operands, dimension)


def _linear_only(cts: Values, operands: Values) -> list[Any]:
    return [ct if type(x) is UndefinedPrimal else None for ct, x in zip(cts, operands, strict=True)]


def _concatenate_transpose(ct: Any, *operands: Any, dimension: int) -> list[Any]:
    sizes = [get_aval(x).shape[dimension] for x in operands]
    return _linear_only(split(ct, sizes, dimension), operands)


def _concatenate_batch(args: Values, dims: Values, *, dimension: int) -> Any:
    axis = mapped_axis(args, dims)
    fronted = [bdim_at_front(x, d, *axis) for x, d in zip(args, dims, strict=True)]
    return concatenate(fronted, dimension + 1), 0


def _concatenate_lower(ctx: Any, avals: Any, out_avals: Any, *operands: str, dimension: int) -> str:
    return concatenate_text(ctx, operands, avals, out_avals[0], dimension)


def concatenate_text(ctx: Any, operands: Sequence[str], avals: Avals, out: ShapedArray, dimension: int) -> str:
    """Write a concatenation of type ``out``. Return the result's name."""
    types = ", ".join(map(mlir_type, avals))
    return ctx.emit(f"stablehlo.concatenate {', '.join(operands)}, dim = {dimension} : ({types}) -> {mlir_type(out)}")


concatenate_p = declare(
    "concatenate",
    abstract=_concatenate_abstract,
    numpy=_concatenate_numpy,
    lower=_concatenate_lower,
    batch=_concatenate_batch,
    transpose=_concatenate_transpose,
    takes_keys=True,
)


def concatenate(operands: Values, dimension: int) -> Any:
    """Join ``operands`` along ``dimension``. TypeError unless their dtypes and all other sizes are equal."""
    if not len(operands):
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    if len(operands) == 1 and is_array(operands[0]):
        return operands[0]
    return concatenate_p.bind(*operands, dimension=operator.index(dimension))


def _split_abstract(x: ShapedArray, *, sizes: Shape, axis: int) -> list[ShapedArray]:
    if any(s < 0 for s in sizes):
        raise ValueError(f"Sizes passed to split must be nonnegative, got {list(sizes)}")
    if sum(sizes) != x.shape[axis]:
        raise ValueError(
            f"Sum of sizes {sum(sizes)} must be equal to dimension {axis} of the operand shape {list(x.shape)}"
        )
    return [ShapedArray(_resized(x.shape, axis, int(s)), x.dtype, x.weak_type) for s in sizes]


def _cuts(sizes: Ints) -> list[tuple[int, int]]:
    """The start and end of each part, as pairs."""
    out, start = [], 0
    for size in sizes:
        out.append((start, start + size))
        start += size
    return out


def _split_numpy(x: Any, sizes: Shape, axis: int) -> list[Any]:
    before = (builtins.slice(None),) * axis
    return [x[(*before, builtins.slice(a, b))] for a, b in _cuts(sizes)]


def _split_transpose(cts: Values, x: Any, *, sizes: Shape, axis: int) -> list[Any]:
    return [concatenate([instantiate_zeros(ct) for ct in cts], axis)]


def _split_batch(args: Values, dims: Values, *, sizes: Shape, axis: int) -> Any:
    (x,), (dim,) = args, dims
    return split(x, sizes, axis + 1 if axis >= dim else axis), [dim] * len(sizes)


def _split_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, sizes: Shape, axis: int) -> list[str]:
    aval = avals[0]
    zeros = (0,) * aval.ndim
    return [
        slice_text(ctx, x, aval, out, _resized(zeros, axis, a), _resized(aval.shape, axis, b))
        for out, (a, b) in zip(out_avals, _cuts(sizes), strict=True)
    ]


split_p = declare(
    "split",
    abstract=_split_abstract,
    numpy=_split_numpy,
    lower=_split_lower,
    batch=_split_batch,
    transpose=_split_transpose,
    multiple_results=True,
    takes_keys=True,
)


def split(operand: Any, sizes: Ints, axis: int = 0) -> list[Any]:
    """``operand`` cut along ``axis`` into parts of the given ``sizes``. ValueError unless they add up to its size."""
    operand = operand if is_array(operand) else as_array(operand)
    return split_p.bind(operand, sizes=_kept_ints(sizes), axis=canonical_axis(axis, operand.ndim))


def _stack_abstract(*operands: ShapedArray, axis: int) -> ShapedArray:
    if not operands:
        raise ValueError("stack expects at least one operand, got 0.")
    first = operands[0]
    if any(o.ndim != first.ndim for o in operands):
        raise ValueError(f"Cannot stack arrays with different numbers of dimensions: got {_shapes_text(operands)}.")
    if any(o.shape != first.shape for o in operands):
        raise ValueError(f"All input arrays must have the same shape. Got {_shapes_text(operands)}.")
    check_same_dtypes("stack", operands)
    return ShapedArray(_inserted(first.shape, axis, len(operands)), first.dtype, all_weak(operands))


def _stack_numpy(*operands: Any, axis: int) -> Any:
    return np.stack(operands, axis)


def _stack_transpose(ct: Any, *operands: Any, axis: int) -> list[Any]:
    return _linear_only(unstack_p.bind(ct, axis=axis), operands)


def _stack_batch(args: Values, dims: Values, *, axis: int) -> Any:
    dim = dims[0]
    if dim is not None and all(d == dim for d in dims):
        after = axis <= dim
        return stack_p.bind(*args, axis=axis if after else axis + 1), dim + 1 if after else dim
    size, _ = mapped_axis(args, dims)
    return stack_p.bind(*[bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)], axis=axis + 1), 0


def _stack_lower(ctx: Any, avals: Any, out_avals: Any, *operands: str, axis: int) -> str:
    aval = avals[0]
    row = aval.update(shape=_inserted(aval.shape, axis, 1))
    places = [d for d in range(row.ndim) if d != axis]
    rows = [ctx.broadcast(x, aval, row.shape, places) for x in operands]
    return concatenate_text(ctx, rows, [row] * len(rows), out_avals[0], axis)


stack_p = declare(
    "stack",
    abstract=_stack_abstract,
    numpy=_stack_numpy,
    lower=_stack_lower,
    batch=_stack_batch,
    transpose=_stack_transpose,
    takes_keys=True,
)


def stack(operands: Values, axis: int = 0) -> Any:
    """``operands``, of one shape and dtype, joined along a new ``axis``. ValueError if shapes or dtypes differ."""
    arrays = [x if is_array(x) else as_array(x) for x in operands]
    if not arrays:
        raise ValueError("stack expects at least one operand, got 0.")
    return stack_p.bind(*arrays, axis=canonical_axis(axis, arrays[0].ndim + 1))


def _check_unstacked(shape: Shape) -> None:
    if not shape:
        raise ValueError(f"unstack requires arrays with rank > 0, however a scalar array of shape {shape} was passed.")


def _unstack_abstract(x: ShapedArray, *, axis: int) -> list[ShapedArray]:
    _check_unstacked(x.shape)
    part = ShapedArray((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype, x.weak_type)
    return [part] * x.shape[axis]


def _unstack_numpy(x: Any, axis: int) -> list[Any]:
    before = (builtins.slice(None),) * axis
    return [x[(*before, i)] for i in range(x.shape[axis])]


def _unstack_transpose(cts: Values, x: Any, *, axis: int) -> list[Any]:
    return [stack_p.bind(*[instantiate_zeros(ct) for ct in cts], axis=axis)]


def _unstack_batch(args: Values, dims: Values, *, axis: int) -> Any:
    (x,), (dim,) = args, dims
    inner = axis < dim
    outs = unstack_p.bind(x, axis=axis if inner else axis + 1)
    return outs, [dim - 1 if inner else dim] * len(outs)


def _unstack_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, axis: int) -> list[str]:
    aval = avals[0]
    row = aval.update(shape=_resized(aval.shape, axis, 1))
    zeros = (0,) * aval.ndim
    outs = []
    for i, out in enumerate(out_avals):
        taken = slice_text(ctx, x, aval, row, _resized(zeros, axis, i), _resized(aval.shape, axis, i + 1))
        outs.append(reshape_text(ctx, taken, row, out.shape))
    return outs


unstack_p = Primitive("unstack", multiple_results=True)
declare(
    unstack_p,
    abstract=_unstack_abstract,
    numpy=_unstack_numpy,
    lower=_unstack_lower,
    batch=_unstack_batch,
    transpose=_unstack_transpose,
    takes_keys=True,
)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of ``x`` along ``axis``, as arrays without this axis. ValueError for a scalar."""
    axis = operator.index(axis)
    x = x if is_array(x) else as_array(x)
    _check_unstacked(x.shape)
    return tuple(unstack_p.bind(x, axis=canonical_axis(axis, x.ndim)))
