"""Indexing by arrays: ``gather``, and the modes, dimension numbers and bounds that it shares with ``scatter``.

One gather takes many slices of one size. The last dimension of ``indices`` holds a start; the other dimensions
enumerate the slices. The semantics are those of StableHLO's ``gather`` (openxla.org/stablehlo/spec).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.keys import WORD, is_key
from minijax.core.lists import safe_zip
from minijax.core.records import NamedTuple
from minijax.core.rules import Axes, Dims, Ints, Params, Shape
from minijax.core.structural import moveaxis
from minijax.ir.pretty import readable
from minijax.lowering.text import array_text, dims_text, mlir_type
from minijax.ops.convert import convert_text
from minijax.ops.declare import declare
from minijax.ops.shape import canonical_shape, shape_of

__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "gather", "gather_p"]

INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)


class GatherScatterMode(enum.Enum):
    """What a gather or scatter does with an index out of bounds."""

    # Move the slice to the nearest place where it fits.
    CLIP = enum.auto()
    # A gather returns ``fill_value`` for the slice, and a scatter drops the update.
    FILL_OR_DROP = enum.auto()
    # The program promises that no index is out of bounds.
    PROMISE_IN_BOUNDS = enum.auto()
    # Only ``jnp.take_along_axis`` knows this mode.
    ONE_HOT = enum.auto()

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """Make a mode from 'clip', 'fill', 'drop', 'promise_in_bounds', 'one_hot' or None, which means 'fill'.
        Raises ValueError for anything else."""
        if isinstance(s, GatherScatterMode):
            return s
        if s not in _MODES:
            raise ValueError(f'Unknown gather mode "{s}"')
        return _MODES[s]


_MODES = {
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    None: GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


class GatherDimensionNumbers(NamedTuple):
    """How a gather maps dimensions of the operand and the indices to dimensions of the result.

    Attributes:
      offset_dims: the dimensions of the result that run over a slice.
      collapsed_slice_dims: the dimensions of the operand, with slice size 1, that the result lacks.
      start_index_map: for each element of an index vector, the dimension of the operand where it is the start.
      operand_batching_dims: dimensions of the operand that are indexed together with ...
      start_indices_batching_dims: ... these dimensions of the indices.
    """

    offset_dims: Axes
    collapsed_slice_dims: Axes
    start_index_map: Axes
    operand_batching_dims: Axes = ()
    start_indices_batching_dims: Axes = ()


readable(GatherScatterMode, GatherDimensionNumbers)


# The two functions below also check scatter, whose dimension numbers have other names for these fields.


def _check_dims(op: str, name: str, dims: Ints, rank: int, in_order: bool) -> None:
    if in_order and list(dims) != sorted(dims):
        raise TypeError(f"{name} in {op} op must be sorted; got {dims}")
    if len(set(dims)) != len(dims):
        raise TypeError(f"{name} in {op} op must not repeat; got: {dims}.")
    for d in dims:
        if not 0 <= d < rank:
            raise TypeError(f"Invalid {name} set in {op} op; valid range is [0, {rank}); got: {d}.")


def check_numbers(op: str, operand: ShapedArray, indices: ShapedArray, numbers: Any, window_rank: int) -> None:
    """Raise TypeError if the dimension numbers of ``op`` do not fit, and ValueError if the indices are not integers.

    ``window_rank`` is the rank of the result of a gather, or of the updates of a scatter.
    """
    title = op.capitalize()
    if not dtypes.is_integer(indices.dtype):
        raise ValueError("indices must have an integer type")
    if not indices.ndim:
        raise TypeError(
            f"{title} index leaf dimension must be within [0, rank(indices) + 1). rank(indices) is 0 and "
            f"{op} index leaf dimension is -1."
        )
    window, collapsed, index_map, batching, index_batching = numbers
    names = numbers._fields
    _check_dims(op, names[0], window, window_rank, True)
    _check_dims(op, names[1], collapsed, operand.ndim, True)
    _check_dims(op, names[2], index_map, operand.ndim, False)
    _check_dims(op, names[3], batching, operand.ndim, True)
    _check_dims(op, names[4], index_batching, indices.ndim, False)
    if len(index_map) != indices.shape[-1]:
        raise TypeError(
            f"{title} op has {len(index_map)} elements in {names[2]} and the bound of dimension "
            f"index_vector_dim={indices.ndim - 1} of indices is {indices.shape[-1]}. These two numbers must "
            "be equal."
        )
    for name, dims in ((names[1], collapsed), (names[2], index_map)):
        if not set(dims).isdisjoint(batching):
            raise TypeError(f"{name} and {names[3]} in {op} op must be disjoint; got: {dims} and {batching}.")
    if indices.ndim - 1 in index_batching:
        raise TypeError(
            f"{title} op cannot have the index vector dimension as a batching dimension; got {index_batching}."
        )
    if len(batching) != len(index_batching):
        raise TypeError(
            f"{title} op requires equal numbers of {names[3]} and {names[4]}, got {batching} and {index_batching}."
        )
    ours = tuple(operand.shape[d] for d in batching)
    theirs = tuple(indices.shape[d] for d in index_batching)
    if ours != theirs:
        raise TypeError(
            f"{title} op requires operand batching dimensions and indices batching dimensions to have the "
            "same shape, "
            f"got {ours} and {theirs}."
        )


def batched_numbers(numbers: Any, operand_batched: bool, indices_batched: bool) -> Any:
    """The dimension numbers if the operand, the indices or both get a batch dimension in front."""
    window, collapsed, index_map, batching, index_batching = numbers
    if operand_batched:
        window, collapsed, index_map, batching = (
            tuple(d + 1 for d in dims) for dims in (window, collapsed, index_map, batching)
        )
    else:
        window = tuple(d + 1 for d in window)
    if indices_batched:
        index_batching = tuple(d + 1 for d in index_batching)
    if operand_batched and indices_batched:
        batching, index_batching = (0, *batching), (0, *index_batching)
    elif operand_batched:
        window = (0, *window)
    return type(numbers)(window, collapsed, index_map, batching, index_batching)


def start_bounds(shape: Ints, numbers: Any, slice_sizes: Ints) -> list[int]:
    """For each element of an index vector, the last start at which a slice fits."""
    return [shape[d] - slice_sizes[d] for d in numbers[2]]


def batch_positions(window: Ints, rank: int) -> list[int]:
    """The dimensions that enumerate slices, in a result or updates with ``rank`` dimensions."""
    return [d for d in range(rank) if d not in window]


def _placed(array: Any, positions: Ints, rank: int) -> Any:
    """``array`` reshaped to ``rank`` dimensions. Its own dimensions go to ``positions``; the others have size 1."""
    shape = [1] * rank
    for position, size in safe_zip(positions, array.shape):
        shape[position] = size
    return array.reshape(shape)


def _start_indices(shape: Ints, indices: Any, numbers: Any, slice_sizes: Ints, clip: bool) -> tuple[Any, Any]:
    """``indices`` clamped to the bounds, and a mask of the index vectors that were inside the bounds.
    The mask is None if all were inside, or with ``clip``."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(dtypes.iinfo(INT64).max))
    indices = indices.astype(INT64)
    bounds = np.array(start_bounds(shape, numbers, slice_sizes), INT64)
    moved = np.minimum(np.maximum(indices, 0), bounds)
    if clip:
        return moved, None
    inside = (moved == indices).all(-1)
    return moved, None if inside.all() else inside


def flat_positions(
    shape: Ints, indices: Any, numbers: Any, slice_sizes: Ints, rank: int, clip: bool
) -> tuple[Any, Any]:
    """The positions of the slices' elements in the flat operand of ``shape``, and a mask of the slices in bounds.

    Both broadcast to the result, which has ``rank`` dimensions. The mask is None if all are inside, or with ``clip``.
    """
    window, collapsed, index_map, batching, index_batching = numbers
    starts, inside = _start_indices(shape, indices, numbers, slice_sizes, clip)
    outer = batch_positions(window, rank)
    inner = iter(window)
    total: Any = _placed(np.zeros(indices.shape[:-1], INT64), outer, rank)
    stride = math.prod(shape)
    for d, size in enumerate(shape):
        stride = stride // size if size else 0
        if d in index_map:
            total = total + stride * _placed(starts[..., index_map.index(d)], outer, rank)
        if d in batching:
            total = total + stride * _placed(np.arange(size), [outer[index_batching[batching.index(d)]]], rank)
        elif d not in collapsed:
            total = total + stride * _placed(np.arange(slice_sizes[d]), [next(inner)], rank)
    return total, None if inside is None else _placed(inside, outer, rank)


def numbers_text(kind: str, names: Sequence[str], numbers: Any, index_vector_dim: int) -> str:
    """``#stablehlo.gather<...>``: the attribute for dimension numbers. ``names`` are the names of the five fields."""
    fields = [f"{name} = {dims_text(dims)}" for name, dims in safe_zip(names, numbers) if dims]
    return f"#stablehlo.{kind}<{', '.join([*fields, f'index_vector_dim = {index_vector_dim}'])}>"


def _gather_abstract(
    operand: ShapedArray,
    indices: ShapedArray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    unique_indices: bool = False,
    **params: Any,
) -> ShapedArray:
    window, collapsed, _, batching, _ = dimension_numbers
    rank = len(window) + indices.ndim - 1
    check_numbers("gather", operand, indices, dimension_numbers, rank)
    if operand.ndim != len(slice_sizes):
        raise TypeError(
            "Gather op must have one slice size for every input dimension; got: "
            f"len(slice_sizes)={len(slice_sizes)}, input_shape.rank={operand.ndim}"
        )
    if len(slice_sizes) != len(window) + len(collapsed) + len(batching):
        raise TypeError(
            "All components of the offset index in a gather op must either be a offset dimension or "
            "explicitly "
            f"collapsed/batching; got len(slice_sizes)={len(slice_sizes)}, output_slice_sizes={window}, "
            f"collapsed_slice_dims={collapsed}, operand_batching_dims={batching}."
        )
    for i, (size, limit) in enumerate(safe_zip(slice_sizes, operand.shape)):
        if indices.size and not 0 <= size <= limit:
            raise TypeError(
                f"Slice size at index {i} in gather op is out of range, must be within [0, {limit} + 1), got {size}."
            )
        if i in collapsed and size != 1:
            raise TypeError(f"Gather op can only collapse slice dims with bound 1, but bound is {size} for index {i}.")
        if i in batching and size > 1:
            raise TypeError(
                f"Gather op can only have operand batching dims with bound 0/1, but bound is {size} for index {i}."
            )
    slices = iter(n for d, n in enumerate(slice_sizes) if d not in collapsed and d not in batching)
    outer = iter(indices.shape)
    shape = tuple(next(slices) if d in window else next(outer) for d in range(rank))
    return ShapedArray(shape, operand.dtype, operand.weak_type)


def _gather_numpy(
    operand: Any,
    indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    mode: GatherScatterMode,
    fill_value: Any,
    **params: Any,
) -> Any:
    operand = np.asarray(operand)
    window, collapsed, index_map, batching, _ = dimension_numbers
    rank = len(window) + indices.ndim - 1
    clip = mode != GatherScatterMode.FILL_OR_DROP
    whole = all(d in index_map or n == operand.shape[d] for d, n in enumerate(slice_sizes))
    if len(index_map) == 1 and collapsed == index_map and not batching and whole and operand.size:
        # take whole rows or columns: several times as fast as single elements
        (axis,) = index_map
        starts, inside = _start_indices(operand.shape, indices, dimension_numbers, slice_sizes, clip)
        outer = batch_positions(window, rank)
        taken = np.take(operand, starts[..., 0], axis)
        if outer != list(range(axis, axis + len(outer))):
            taken = np.moveaxis(taken, range(axis, axis + len(outer)), outer)
        inside = None if inside is None else _placed(inside, outer, rank)
    else:
        positions, inside = flat_positions(operand.shape, indices, dimension_numbers, slice_sizes, rank, clip)
        if not operand.size:
            shape = np.broadcast_shapes(positions.shape, () if inside is None else inside.shape)
            return np.full(shape, _fill(operand.dtype, fill_value or 0), operand.dtype)
        taken = operand.reshape(-1)[positions]
    if inside is None:
        return taken
    return np.where(inside, taken, _fill(operand.dtype, fill_value))


def _fill(dtype: np.dtype, value: Any) -> Any:
    """``value`` as an element of ``dtype``; for keys, a key whose words all have this value."""
    if dtype.type is not np.void:
        return np.array(value, dtype)
    return np.full(dtype.itemsize // WORD.itemsize, value, WORD).view(dtype)[0]


def _gather_derivative(g: Any, ans: Any, operand: Any, indices: Any, **params: Any) -> Any:
    return gather(g, indices, **{**params, "fill_value": 0})


def _gather_batch(args: Sequence[Any], dims: Dims, **params: Any) -> Any:
    operand, indices = args
    operand_dim, indices_dim = dims
    numbers = batched_numbers(params["dimension_numbers"], operand_dim is not None, indices_dim is not None)
    params["dimension_numbers"] = numbers
    if operand_dim is not None:
        operand = moveaxis(operand, operand_dim, 0)
        size = shape_of(operand)[0]
        width = size if indices_dim is None else min(size, 1)
        params["slice_sizes"] = (width, *params["slice_sizes"])
    else:
        params["unique_indices"] = params["indices_are_sorted"] = False
    if indices_dim is not None:
        indices = moveaxis(indices, indices_dim, 0)
    return gather(operand, indices, **params), 0


def _gather_lower(
    ctx: Any,
    avals: Any,
    out_avals: Any,
    operand: str,
    indices: str,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    indices_are_sorted: bool,
    mode: GatherScatterMode,
    fill_value: Any,
    **params: Any,
) -> str:
    (aval, index_aval), (out,) = avals, out_avals
    if not out.size:
        return ctx.full(0, out)
    fills = mode == GatherScatterMode.FILL_OR_DROP
    if fills:
        wide = index_aval.update(dtype=index_dtype(aval.shape))
        indices, index_aval = convert_text(ctx, indices, index_aval, wide.dtype), wide
    numbers = numbers_text("gather", GatherDimensionNumbers._fields, dimension_numbers, index_aval.ndim - 1)
    op = (
        f'"stablehlo.gather"({operand}, {indices}) <{{dimension_numbers = {numbers}, '
        f"slice_sizes = {array_text(slice_sizes)}, indices_are_sorted = {str(indices_are_sorted).lower()}}}>"
    )
    taken = ctx.emit(f"{op} : ({mlir_type(aval)}, {mlir_type(index_aval)}) -> {mlir_type(out)}")
    if not fills:
        return taken
    bounds = start_bounds(aval.shape, dimension_numbers, slice_sizes)
    inside, inside_aval = _inside_text(ctx, indices, index_aval, bounds)
    positions = batch_positions(dimension_numbers.offset_dims, out.ndim)
    if out.shape != inside_aval.shape:
        inside = ctx.broadcast(inside, inside_aval, out.shape, positions)
    flags = mlir_type(out.update(dtype=np.dtype(bool)))
    return ctx.emit(f"stablehlo.select {inside}, {taken}, {ctx.full(fill_value, out)} : {flags}, {mlir_type(out)}")


def _inside_text(ctx: Any, indices: str, aval: ShapedArray, bounds: Ints) -> tuple[str, ShapedArray]:
    """Write whether each vector of ``indices`` lies between 0 and ``bounds``; return the mask's name and type."""
    ty, flags = mlir_type(aval), mlir_type(aval.update(dtype=np.dtype(bool)))
    vector = ShapedArray((len(bounds),), aval.dtype)
    last = ctx.constant(np.array(bounds, aval.dtype), vector)
    if aval.ndim > 1:  # compare in two steps, as in JAX's ``all``
        row = ShapedArray((1,) * (aval.ndim - 1) + vector.shape, aval.dtype)
        last = ctx.broadcast(last, vector, row.shape, [aval.ndim - 1])
        (last,) = ctx.broadcast_operands([last], [row], aval.shape)
    above = ctx.emit(f"stablehlo.compare GE, {indices}, {ctx.full(0, aval)}, SIGNED : ({ty}, {ty}) -> {flags}")
    below = ctx.emit(f"stablehlo.compare LE, {indices}, {last}, SIGNED : ({ty}, {ty}) -> {flags}")
    both = ctx.emit(f"stablehlo.and {above}, {below} : {flags}")
    out = ShapedArray(aval.shape[:-1], np.dtype(bool))
    true = ctx.scalar(True, out.dtype)
    reduced = ctx.emit(
        f"stablehlo.reduce({both} init: {true}) applies stablehlo.and across dimensions = [{aval.ndim - 1}] "
        ": "
        f"({flags}, tensor<i1>) -> {mlir_type(out)}"
    )
    return reduced, out


def _gather_words(avals: Any, out_avals: Any, params: Params) -> Params:
    """The parameters for the raw words of keys: each slice has all words of its keys."""
    operand, out, sizes = avals[0], out_avals[0], params["slice_sizes"]
    words = operand.shape[len(sizes) :]
    window, *others = params["dimension_numbers"]
    numbers = GatherDimensionNumbers((*window, *range(out.ndim - len(words), out.ndim)), *others)
    return {**params, "dimension_numbers": numbers, "slice_sizes": (*sizes, *words)}


# ``ops.scatter`` sets the transpose rule, which is a scatter-add
gather_p = declare(
    "gather",
    abstract=_gather_abstract,
    numpy=_gather_numpy,
    lower=_gather_lower,
    batch=_gather_batch,
    derivative=[_gather_derivative, None],
    words=_gather_words,
)


def index_dtype(shape: Ints, signed: bool = True) -> np.dtype:
    """The integer type of indices into ``shape``: 32 bits if they suffice."""
    narrow, wide = (INT32, INT64) if signed else (np.dtype(np.uint32), np.dtype(np.uint64))
    return wide if any(d > dtypes.iinfo(narrow).max for d in shape) else narrow


def _default_fill(dtype: np.dtype) -> Any:
    """The fill value: nan, True, or the smallest (unsigned: largest) integer; for keys, the value of a word."""
    if is_key(dtype):
        dtype = WORD
    if dtypes.is_inexact(dtype):
        return np.nan
    if dtypes.is_signed(dtype):
        return int(dtypes.iinfo(dtype).min)
    return True if dtypes.is_bool(dtype) else int(dtypes.iinfo(dtype).max)


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Ints,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:
    """Slices of ``operand`` with the sizes ``slice_sizes``. They start at the integers ``start_indices[..., :]``.

    The last axis of ``start_indices`` holds one index vector: entry i is the start along dimension
    ``dimension_numbers.start_index_map[i]``. Every slice has shape ``slice_sizes``, without the dimensions in
    ``collapsed_slice_dims``. The result has all axes of ``start_indices`` except the last, and the slice's axes at
    ``offset_dims``; its dtype is ``operand``'s.

    ``mode`` is for slices out of bounds: 'clip' moves them inside, 'fill' gives ``fill_value`` (by default nan for
    floats, the smallest value for signed integers), 'promise_in_bounds' (the default) leaves the result undefined.
    Raises TypeError if shapes, sizes and dimension numbers do not fit, ValueError for indices that are no integers.

    >>> numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(jnp.arange(5.) * 10, jnp.array([[3], [1]]), numbers, slice_sizes=(1,))
    Array([30., 10.], dtype=float32)
    """
    parsed = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    if parsed != GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    elif fill_value is None:
        fill_value = _default_fill(get_aval(operand).dtype)
    return gather_p.bind(
        operand,
        start_indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=canonical_shape(slice_sizes),
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        mode=parsed,
        fill_value=fill_value,
    )
