"""Indexing: ``x[...]`` with static integers, slices, None and Ellipsis becomes slice, rev, squeeze, broadcast_in_dim.

For indices that slices cannot express (integer arrays, boolean masks, traced scalars) ``gather_index`` reads and
``update_index`` writes. Both translate the index by NumPy's rules ("Advanced indexing" in its user guide) to the
parameters of one gather or scatter: an array of index vectors with one column for each indexed axis, and the dimensions
that are copied whole. A traced scalar among slices becomes a ``dynamic_slice``.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax import errors, lax
from minijax.config import promotes_strictly, x64_enabled
from minijax.core import avals as types
from minijax.core import dtypes
from minijax.core.array import Array, as_array, check_int, get_aval, is_foreign, numpy_aval
from minijax.core.avals import ShapedArray, dtype_name, sharded_part, sharding_of_parts
from minijax.core.records import NamedTuple
from minijax.core.structural import full
from minijax.core.trace import Tracer
from minijax.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from minijax.numpy.promotion import (
    BOOL,
    SCALARS,
    asarray,
    broadcast_arrays,
    broadcast_to,
    convert,
    evaluating,
    promote_dtypes,
    static,
    type_of,
)
from minijax.ops.dynamic import wrap_negative
from minijax.ops.index import index_dtype

Mode = str | GatherScatterMode | None


class Item(NamedTuple):
    """One element of an index: ``kind`` is 'none', 'slice', 'integer' or 'array'."""

    kind: str
    value: Any


class Parsed(NamedTuple):
    """A parsed index: one item for each axis of ``shape``, and for each None.

    ``shape``: the array's shape, with an axis of size 1 at the positions ``new_axes``, one for each scalar boolean.

    ``together``: whether integers and arrays are adjacent; this decides where NumPy puts their dimensions.
    """

    items: list[Item]
    shape: tuple[int, ...]
    new_axes: tuple[int, ...]
    together: bool


def index_items(index: Any) -> tuple[Any, ...]:
    """``index`` as a tuple. TypeError for a list, which is ambiguous."""
    if isinstance(index, tuple):
        return index
    if isinstance(index, Sequence) and not isinstance(index, str):
        several = any(isinstance(i, (Sequence, slice)) or i is None or i is Ellipsis or np.ndim(i) for i in index)
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
            f"`arr[{'tuple' if several else 'array'}(seq)]` instead of `arr[seq]`. "
            "See https://github.com/jax-ml/jax/issues/4564 for more information."
        )
    return (index,)


def slice_parts(item: slice, position: int) -> slice:
    """``item`` with bounds and step as integers or None. Errors name ``position``. IndexError for traced parts."""
    return slice(*(_slice_part(item, part, position) for part in (item.start, item.stop, item.step)))


def _slice_part(whole: slice, part: Any, position: int) -> int | None:
    if part is None or type(part) is int:
        return part
    if isinstance(part, Tracer) and part.to_concrete_value() is None:
        raise IndexError(
            f"Slice entries must be static integers. Got {whole} at position {position}. "
            "For a traced start and a static size, use lax.dynamic_slice."
        )
    return static(part, "Array slice indices must be static integers.")


def parse(items: tuple[Any, ...], shape: tuple[int, ...]) -> Parsed:
    """Parse an index of an array of ``shape``: masks become integer arrays, and omitted axes become slices.

    IndexError or TypeError for an invalid index, NonConcreteBooleanIndexError for a traced mask.
    """
    items = tuple([as_array(i) if is_foreign(i) else i for i in items])
    consumed = sum(_consumes(i) for i in items)
    _check_count(items, consumed, len(shape))
    if not any(i is Ellipsis for i in items):
        items = (*items, Ellipsis)
    parsed: list[Item] = []
    new_axes: list[int] = []
    # the positions of integers and arrays among the items; a mask counts as the integer arrays that replace it
    standing: list[int] = []
    count = axis = 0
    for position, item in enumerate(items):
        more = 1
        if item is Ellipsis:
            left = len(shape) - consumed
            parsed += [Item("slice", slice(None))] * left
            axis += left
        elif _is_boolean(item) and not np.ndim(item):
            new_axes.append(axis + len(new_axes))
            parsed.append(Item("array", np.arange(int(_mask(item)))))
        elif _is_boolean(item):
            where = _where(_mask(item), shape[axis : axis + np.ndim(item)], position)
            parsed += [Item("array", w) for w in where]
            more = len(where)
            standing += range(count, count + more)
            axis += more
        else:
            parsed.append(_item(item, position))
            if parsed[-1].kind in ("integer", "array"):
                standing.append(count)
            axis += _consumes(item)
        count += more
    wide = list(shape)
    for d in new_axes:
        wide.insert(d, 1)
    together = all(b - a == 1 for a, b in zip(standing, standing[1:], strict=False))
    return Parsed(parsed, tuple(wide), tuple(new_axes), together)


def _check_count(items: Sequence[Any], consumed: int, ndim: int) -> None:
    if sum(i is Ellipsis for i in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if consumed > ndim:
        raise IndexError(f"Too many indices: array is {ndim}-dimensional, but {consumed} were indexed")


def _no_index(item: Any) -> IndexError:
    return IndexError(
        "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays are valid "
        f"indices. Got {item}"
    )


def _consumes(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return np.ndim(item) if _is_boolean(item) else 1


def _is_boolean(item: Any) -> bool:
    if isinstance(item, (bool, np.bool_)):
        return True
    if isinstance(item, (Array, Tracer, np.ndarray)):
        return bool(item.dtype == BOOL)
    return isinstance(item, list) and len(item) > 0 and np.asarray(item).dtype == BOOL


def _mask(item: Any) -> np.ndarray:
    if isinstance(item, Tracer):
        concrete = item.to_concrete_value()
        if concrete is None:
            raise errors.NonConcreteBooleanIndexError(item)
        item = concrete
    return np.asarray(item)


def _where(mask: np.ndarray, shape: tuple[int, ...], position: int) -> tuple[np.ndarray, ...]:
    if any(a not in (0, b) for a, b in zip(mask.shape, shape, strict=True)):
        raise IndexError(
            f"boolean index did not match shape of indexed array in index {position}: got {mask.shape}, "
            f"expected {list(shape)}"
        )
    return np.where(mask)


def _item(item: Any, position: int) -> Item:
    if item is None:
        return Item("none", None)
    if isinstance(item, slice):
        return Item("slice", slice_parts(item, position))
    if isinstance(item, (int, np.integer)):
        return Item("integer", item)
    if isinstance(item, Sequence) and not isinstance(item, str):
        # NumPy would make an empty list an array of floats
        item = asarray(np.asarray(item) if len(item) else np.zeros(0, np.int32))
    if not isinstance(item, (Array, Tracer, np.ndarray)):
        raise _no_index(item)
    if not dtypes.is_integer(item.dtype):
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {dtype_name(item.dtype)}")
    return Item("array", item)


def _slice_of(item: slice, size: int) -> tuple[int, int, int]:
    """``(start, step, count)`` of the elements that a slice selects on an axis of ``size``."""
    start, stop, step = item.indices(size)
    return start, step, len(range(start, stop, step))


def _dynamic_slice(x: Any, items: Sequence[Item], wrap: bool) -> Any:
    """Index ``x`` by integers, traced scalars, None and slices of step 1 or -1, as one ``dynamic_slice``."""
    shape = x.aval.shape
    starts: list[Any] = []
    sizes: list[int] = []
    reversed_axes: list[int] = []
    squeezed: list[int] = []
    new_axes: list[int] = []
    for item in items:
        axis = len(starts)
        if item.kind == "none":
            new_axes.append(axis - len(squeezed) + len(new_axes))
        elif item.kind == "slice":
            start, step, count = _slice_of(item.value, shape[axis])
            if step < 0:
                start -= max(count - 1, 0)
                reversed_axes.append(axis)
            starts.append(start)
            sizes.append(count)
        else:
            starts.append(int(item.value) if item.kind == "integer" else item.value)
            sizes.append(1)
            squeezed.append(axis)
    if len(starts) > 1:
        dtype = index_dtype(shape)
        starts = [full((), s, dtype) if isinstance(s, int) else lax.convert_element_type(s, dtype) for s in starts]
    x = lax.dynamic_slice(x, starts, sizes, allow_negative_indices=wrap)
    if reversed_axes:
        x = lax.rev(x, reversed_axes)
    x = lax.squeeze(x, squeezed)
    return lax.expand_dims(x, new_axes) if new_axes else x


def scalars_among_slices(parsed: Parsed, mode: Mode) -> bool:
    """Whether ``dynamic_slice`` can express the index: its items are scalars, None, and slices of step 1 or -1."""
    if parsed.new_axes or 0 in parsed.shape:
        return False
    if mode is not None and GatherScatterMode.from_any(mode) == GatherScatterMode.FILL_OR_DROP:
        return False
    for kind, value in parsed.items:
        if kind == "array" and np.ndim(value) or kind == "slice" and value.step not in (None, 1, -1):
            return False
    return True


class GatherPlan(NamedTuple):
    """The arguments of a gather or scatter for an index, and the steps that follow a gather.

    Attributes:
      shape: the result's shape.
      slice_sizes: the gather's slice sizes.
      indices: the array of index vectors.
      numbers: the dimension numbers.
      plain: whether there are no integer arrays, so that elements are distinct and in order.
      reversed_dims: dimensions of the gather's result to reverse.
      new_axes: dimensions of size 1, to be inserted into the result at the end.
      parts: for each dimension of ``shape``, the mesh axes that shard it according to the type, or None.
    """

    shape: tuple[int, ...]
    slice_sizes: tuple[int, ...]
    indices: Any
    numbers: GatherDimensionNumbers
    plain: bool
    reversed_dims: tuple[int, ...]
    new_axes: tuple[int, ...]
    parts: tuple[Any, ...]


def _wrapped(index: Any, size: int) -> Any:
    """``index`` with its negative entries counted from the end of an axis of ``size``. ``index`` may be traced."""
    if isinstance(index, (int, np.integer)):
        return index + size if index < 0 and not isinstance(index, np.unsignedinteger) else index
    if isinstance(index, np.ndarray) and index.dtype.kind != "u":
        # NumPy compares immediately; comparing an ``Array`` would write an equation
        dtype = get_aval(index).dtype
        return lax.select(index < 0, lax.add(index, full((), size, dtype)), index)
    aval = get_aval(index)
    if not aval.weak_type:
        return wrap_negative(index, size)
    wrapped = lax.select(index < 0, lax.add(index, full((), size, aval.dtype, True)), index)
    return convert(wrapped, aval.dtype)


def _as_index(index: Any, dtype: np.dtype) -> Any:
    if isinstance(index, (int, np.integer)):
        return full((), index, dtype)
    return lax.convert_element_type(index, dtype)


def plan_gather(aval: ShapedArray, parsed: Parsed, wrap: bool) -> GatherPlan:
    """Plan the gather for an index of an array of type ``aval``. ``wrap``: negative indices count from the end."""
    items, shape, scalars, together = parsed
    own = iter(range(aval.ndim))
    of_axis = [None if d in scalars else sharded_part(aval, next(own)) for d in range(len(shape))]
    parts: list[Any] = []
    dtype = index_dtype(shape)
    axes = iter(range(len(shape)))
    placed = [(kind, value, next(axes) if kind != "none" else -1) for kind, value in items]
    if wrap:
        placed = [(k, _wrapped(v, shape[d]) if k in ("integer", "array") else v, d) for k, v, d in placed]
    advanced: list[Any] = []
    advanced_axes: list[int] = []
    first = -1
    if any(k == "array" and np.ndim(v) for k, v in items):
        standing = [n for n, (k, _, _) in enumerate(placed) if k in ("integer", "array")]
        advanced = broadcast_arrays(*[asarray(placed[n][1]) for n in standing])
        advanced_axes = [placed[n][2] for n in standing]
        first = standing[0] if together else 0

    out_shape: list[int] = []
    sizes: list[int] = []
    new_axes: list[int] = []
    reversed_dims: list[int] = []
    offset_dims: list[int] = []
    collapsed: list[int] = []
    index_map: list[int] = []
    # (a column of the index vectors, the position in ``outer`` of its first dimension)
    columns: list[tuple[Any, int]] = []
    outer: list[int] = []
    dims = 0
    for n, (kind, value, axis) in enumerate(placed):
        if n == first:
            common = advanced[0].aval.shape
            columns += [(_as_index(a, dtype), len(outer)) for a in advanced]
            outer += common
            out_shape += common
            parts += [sharded_part(advanced[0].aval, d) for d in range(len(common))]
            dims += len(common)
            index_map += advanced_axes
            collapsed += advanced_axes
        if kind == "none":
            new_axes.append(len(out_shape))
            out_shape.append(1)
            parts.append(None)
        elif axis in advanced_axes:
            sizes.append(1)
        elif kind != "slice":
            if not shape[axis]:
                raise IndexError(f"index is out of bounds for axis {axis} with size 0")
            columns.append((_as_index(value, dtype), len(outer)))
            collapsed.append(axis)
            index_map.append(axis)
            sizes.append(1)
        else:
            start, step, count = _slice_of(value, shape[axis])
            out_shape.append(count)
            parts.append(of_axis[axis])
            if step == 1:
                if count != shape[axis]:
                    columns.append((full((), start, dtype), len(outer)))
                    index_map.append(axis)
                sizes.append(count)
                offset_dims.append(dims)
            else:
                places = lax.mul(full((), step, dtype), lax.iota(dtype, count))
                places = lax.add(full((), start, dtype), places)
                if step < 0:
                    reversed_dims.append(dims)
                    places = lax.rev(places, (0,))
                columns.append((places, len(outer)))
                outer.append(count)
                index_map.append(axis)
                collapsed.append(axis)
                sizes.append(1)
            dims += 1
    numbers = GatherDimensionNumbers(tuple(offset_dims), tuple(sorted(collapsed)), tuple(index_map))
    return GatherPlan(
        tuple(out_shape),
        tuple(sizes),
        _index_vectors(columns, outer, dtype),
        numbers,
        not advanced,
        tuple(reversed_dims),
        tuple(new_axes),
        tuple(parts),
    )


def _index_vectors(columns: Sequence[tuple[Any, int]], outer: Sequence[int], dtype: np.dtype) -> Any:
    """Join the columns along a last dimension; each is first broadcast to ``outer``. See ``plan_gather``."""
    if not columns:
        return np.zeros((0,), dtype)
    if len(columns) == 1:
        ((column, _),) = columns
        return lax.expand_dims(column, (np.ndim(column),))
    shape = (*outer, 1)
    repeated = [lax.broadcast_in_dim(c, shape, range(d, d + np.ndim(c))) for c, d in columns]
    return lax.concatenate(repeated, len(outer))


def gather_index(
    x: Any,
    items: tuple[Any, ...],
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
    fill_value: Any = None,
    wrap_negative_indices: bool = True,
) -> Any:
    """``x[items]``; by default, ``mode`` clamps indices out of bounds. IndexError or TypeError for an invalid index."""
    parsed = parse(items, x.aval.shape)
    if scalars_among_slices(parsed, mode):
        return _dynamic_slice(x, parsed.items, wrap_negative_indices)
    plan = plan_gather(x.aval, parsed, wrap_negative_indices)
    if fill_value is not None:
        fill_value = static(fill_value, "fill_value argument to indexed get()", lambda value: value)
        if np.ndim(fill_value):
            raise ValueError("fill_value argument to indexed get() must be a scalar")
        fill_value = fill_value.item() if isinstance(fill_value, (np.ndarray, Array)) else fill_value
    if parsed.new_axes:
        x = lax.expand_dims(x, parsed.new_axes)
    if not math.prod(plan.shape):
        return lax.full_like(x, 0, shape=plan.shape)
    if plan.indices.size:
        x = lax.gather(
            x,
            plan.indices,
            plan.numbers,
            plan.slice_sizes,
            unique_indices=unique_indices or plan.plain,
            indices_are_sorted=indices_are_sorted or plan.plain,
            mode=mode,
            fill_value=fill_value,
        )
    if plan.reversed_dims:
        x = lax.rev(x, plan.reversed_dims)
    return lax.expand_dims(x, plan.new_axes) if plan.new_axes else x


def update_index(
    x: Any,
    index: Any,
    values: Any,
    scatter: Callable[..., Any],
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
    wrap_negative_indices: bool = True,
) -> Any:
    """Combine ``values`` into ``x[index]`` by ``scatter``, a function with ``lax.scatter``'s arguments.

    ``values`` are converted to the dtype of ``x``, with a FutureWarning if the conversion is unsafe.
    Updates out of bounds are dropped by default.
    """
    aval = x.aval
    _check_cast(values, aval.dtype)
    parsed = parse(index_items(index), aval.shape)
    plan = plan_gather(x.aval, parsed, wrap_negative_indices)
    if not math.prod(plan.shape):
        return x
    if isinstance(values, int) and dtypes.is_integer(aval.dtype):
        info = dtypes.iinfo(aval.dtype)
        values = full((), values, aval.dtype) if info.min <= values <= info.max else values
    x, values = promote_dtypes(x, values)
    sharding = None
    if types.sharded_types_made:
        sharding = sharding_of_parts(plan.parts, aval, get_aval(plan.indices), get_aval(values))
    values = lax.squeeze(broadcast_to(values, plan.shape, sharding), plan.new_axes)
    if plan.reversed_dims:
        values = lax.rev(values, plan.reversed_dims)
    if parsed.new_axes:
        x = lax.expand_dims(x, parsed.new_axes)
    out = scatter(
        x,
        plan.indices,
        values,
        ScatterDimensionNumbers(*plan.numbers),
        indices_are_sorted=indices_are_sorted or plan.plain,
        unique_indices=unique_indices or plan.plain,
        mode=mode,
    )
    if parsed.new_axes:
        out = lax.squeeze(out, parsed.new_axes)
    return convert(out, aval.dtype, aval.weak_type)


def _check_cast(values: Any, dtype: np.dtype) -> None:
    found = type_of(values)
    x64, strict = x64_enabled(), promotes_strictly()
    if found[0] == dtype or dtypes.result_type(found, (dtype, False), x64=x64, strict=strict)[0] == dtype:
        return
    warnings.warn(
        f"scatter inputs have incompatible types: cannot safely cast value from dtype={dtype_name(found[0])} to "
        f"dtype={dtype_name(dtype)}. In future JAX releases this will result in an error.",
        FutureWarning,
        stacklevel=4,
    )


Index = Any


class _NotStatic(Exception):
    """Raised for an index that slices cannot express."""


def rewrite_index(x: Any, index: Index, **options: Any) -> Any:
    """``x[index]``, with ``gather_index``'s options. IndexError for too many indices, TypeError for invalid ones."""
    items = index_items(index)
    try:
        return _static_index(x, list(items))
    except _NotStatic:
        return gather_index(x, items, **options)


def takes_slices(x: Any, index: Index, mode: Any) -> bool:
    """Whether ``rewrite_index(x, index, mode=mode)`` slices ``x`` instead of calling ``lax.gather``."""
    items = index_items(index)
    try:
        for position, item in enumerate(items):
            _classify(item, position)
    except _NotStatic:
        return scalars_among_slices(parse(items, x.aval.shape), mode)
    return True


def _classify(item: Index, position: int) -> Index:
    """``item`` if slices can express it; raise _NotStatic for arrays, IndexError or TypeError for an invalid index."""
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, slice):
        return slice_parts(item, position)
    if isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_)):
        if isinstance(item, int):
            check_int(item)
            return int(item)
        return int(item.astype(numpy_aval(item).dtype))  # modulo 2**32 in 32-bit mode, like every NumPy integer
    if isinstance(item, (Array, Tracer, np.ndarray)):
        dtype = item.dtype
        if not (dtype == BOOL or dtypes.is_integer(dtype)):
            raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {dtype}")
        if item.ndim == 0 and dtype != BOOL and evaluating() and not isinstance(item, Tracer):
            return operator.index(item)
        raise _NotStatic
    if isinstance(item, (bool, np.bool_)) or is_foreign(item):
        raise _NotStatic
    if isinstance(item, str):
        raise TypeError(f"JAX does not support string indexing; got idx={item!r}")
    if isinstance(item, Sequence):
        dtype = np.asarray(item).dtype
        if len(item) and not (dtype == BOOL or dtype.kind in "iuO"):
            raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {dtype}")
        raise _NotStatic
    if isinstance(item, (*SCALARS, np.generic)):
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {np.dtype(type(item))}")
    raise _no_index(item)


def _static_index(x: Any, items: list[Index]) -> Any:
    items = [_classify(i, n) for n, i in enumerate(items)]
    shape = x.aval.shape
    consumed = sum(i is not None and i is not Ellipsis for i in items)
    _check_count(items, consumed, len(shape))
    at = next((n for n, i in enumerate(items) if i is Ellipsis), len(items))
    items[at : at + 1] = [slice(None)] * (len(shape) - consumed)

    starts: list[int] = []
    limits: list[int] = []
    strides: list[int] = []
    reversed_axes: list[int] = []
    squeezed: list[int] = []
    new_axes: list[int] = []
    for item in items:
        if item is None:
            new_axes.append(len(starts) - len(squeezed) + len(new_axes))
            continue
        axis = len(starts)
        size = shape[axis]
        if type(item) is int:
            if not size:
                raise IndexError(f"index is out of bounds for axis {axis} with size 0")
            # as in JAX, clamp an index out of bounds
            start = min(max(item + size if item < 0 else item, 0), size - 1)
            part = (start, start + 1, 1)
            squeezed.append(axis)
        else:
            part = _forward(item, size)
            if item.step is not None and item.step < 0:
                reversed_axes.append(axis)
        for sequence, value in zip((starts, limits, strides), part, strict=True):
            sequence.append(value)
    if starts != [0] * len(shape) or tuple(limits) != shape or any(s != 1 for s in strides):
        x = lax.slice(x, starts, limits, None if all(s == 1 for s in strides) else strides)
    if reversed_axes:
        x = lax.rev(x, tuple(reversed_axes))
    if squeezed:
        x = lax.squeeze(x, tuple(squeezed))
    return lax.expand_dims(x, tuple(new_axes)) if new_axes else x


def _forward(item: slice, size: int) -> tuple[int, int, int]:
    """``(start, limit, stride)`` of the elements that a slice selects on an axis of ``size``, in ascending order."""
    start, stop, step = item.indices(size)
    if step > 0:
        return start, max(start, stop), step
    lowest = min(size, stop + 1 + abs(start - stop - 1) % -step)
    return lowest, max(lowest, start + 1), -step
