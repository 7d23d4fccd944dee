"""Elements chosen by conditions, and taken out of an array or put into it."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax import lax
from minijax.core import dtypes
from minijax.numpy import mathematics, reductions
from minijax.numpy.creation import arange, array, ones, zeros
from minijax.numpy.index_update import IndexUpdate
from minijax.numpy.indexing import rewrite_index
from minijax.numpy.manipulation import concatenate, moveaxis, ravel, tile
from minijax.numpy.promotion import (
    broadcast_arrays,
    canonical_axes,
    canonical_axis,
    check_array_like,
    convert,
    ensure,
    known_value,
    promote_dtypes,
    static,
)
from minijax.numpy.promotion import (
    choose as chosen,
)
from minijax.numpy.promotion import nonzero as is_nonzero
from minijax.numpy.searching import default_int, nonzero, unravel_index
from minijax.numpy.sorting import argsort, sort

__all__ = ["choose", "compress", "delete", "extract", "insert", "place", "put", "trim_zeros"]


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """At each place the element of ``choices[a]``, all broadcast.

    ``mode``: 'raise' for an ``a`` out of bounds (it must be known: not under ``jit``), 'wrap' or 'clip'.
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.choose is not supported.")
    check_array_like("choose", a, *choices)
    a = ensure("choose", a)
    if not dtypes.is_integer(a.aval.dtype):
        raise ValueError("`a` array must be integer typed")
    count = len(choices)
    if mode == "raise":
        known = static(
            a,
            "The error occurred because jnp.choose was jit-compiled with mode='raise'. Use "
            "mode='wrap' or mode='clip' instead.",
            np.asarray,
        )
        if known.size and (known.min() < 0 or known.max() >= count):
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        a = a % count
    elif mode == "clip":
        a = mathematics.clip(a, 0, count - 1)
    else:
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    a, *rows = broadcast_arrays(a, *promote_dtypes(*ensure("choose", *choices, 0)[:-1]))
    stacked = array(rows)
    grid = [lax.broadcasted_iota(a.aval.dtype, a.aval.shape, d) for d in range(a.aval.ndim)]
    return rewrite_index(stacked, (a, *grid))


def compress(
    condition: Any, a: Any, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0, out: Any = None
) -> Any:
    """The slices of ``a`` along ``axis`` where the vector ``condition`` is true.

    ``size`` says how many, at most as many as ``a`` has; without it ``condition`` must be known: not under ``jit``.
    Missing ones are ``fill_value``.
    """
    condition, a, fill_value = ensure("compress", condition, a, fill_value)
    if condition.aval.ndim != 1:
        raise ValueError("condition must be a 1D array")
    if out is not None:
        raise NotImplementedError("out argument is not supported.")
    if axis is None:
        a, axis = ravel(a) if a.aval.ndim != 1 else a, 0
    if dtypes.kind(condition.aval.dtype) != "b":
        condition = is_nonzero(condition)
    slices = moveaxis(a, axis, 0)
    count = slices.aval.shape[0]
    condition, beyond = condition[:count], condition[count:]
    known = known_value(beyond)
    if size is None and (known.any() if known is not None else reductions.any(beyond)):
        raise ValueError("condition contains entries that are out of bounds")
    slices = slices[: condition.aval.shape[0]]
    count = slices.aval.shape[0]
    if size is None:
        return moveaxis(slices[condition], 0, axis)
    if not 0 <= size <= count:
        raise ValueError(
            f"size must not be negative and not greater than the size of the array axis; got {size=} for {count} slices"
        )
    fill = array(fill_value, dtype=slices.aval.dtype)
    wide = lax.expand_dims(condition, tuple(range(1, slices.aval.ndim))) if slices.aval.ndim > 1 else condition
    kept = chosen(wide, slices, fill)
    return moveaxis(kept[argsort(condition, stable=True, descending=True)][:size], 0, axis)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements of ``arr`` where ``condition`` is true, in one dimension; see ``compress``."""
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """The array without the slices of zeros at its front ('f') and back ('b') along ``axis``, by default all axes.

    It must be known: not under ``jit``.
    """
    filt = ensure("trim_zeros", filt)
    known = static(filt, "Error arose in the `filt` argument of trim_zeros()", np.asarray)
    axes = range(known.ndim) if axis is None else canonical_axes(axis, known.ndim)
    trim = trim.lower()
    if not known.ndim or not ("f" in trim or "b" in trim):
        return filt
    kept = [slice(None)] * known.ndim
    for along in axes:
        places = np.flatnonzero(known.any(axis=tuple(i for i in range(known.ndim) if i != along)))
        start = int(places[0]) if places.size and "f" in trim else 0
        stop = (int(places[-1]) + 1 if "b" in trim else known.shape[along]) if places.size else 0
        kept[along] = slice(start, stop)
    return filt[tuple(kept)]


def _not_in_place(name: str) -> ValueError:
    return ValueError(
        f"jax.numpy.{name} cannot modify arrays in-place, because JAX arrays are immutable. "
        "Pass inplace=False to instead return an updated array."
    )


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """A copy of ``arr`` with ``vals``, repeated as needed, where ``mask`` is true; ``inplace`` must be False."""
    data, mask, vals = ensure("place", arr, mask, vals)
    if inplace:
        raise _not_in_place("place")
    vals = ravel(vals) if vals.aval.ndim != 1 else vals
    count = data.aval.size
    if count != mask.aval.size:
        raise ValueError("place: arr and mask must be the same size")
    if not vals.aval.size:
        raise ValueError("Cannot place values from an empty array")
    if not count:
        return data
    (places,) = nonzero(ravel(mask), size=count, fill_value=count)
    vals = repeated_to(vals, count)
    return IndexUpdate(ravel(data))[places].set(vals, mode="drop").reshape(data.aval.shape)


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """A copy of ``a`` with ``v``, repeated as needed, at the places ``ind`` of the flattened array.

    ``inplace`` must be False; ``mode``: None or 'clip', the nearest place for one out of bounds, or 'wrap'.
    """
    if inplace:
        raise _not_in_place("put")
    arr, ind, v = ensure("put", a, ind, v)
    ind, v = (ravel(x) if x.aval.ndim != 1 else x for x in (ind, v))
    size = arr.aval.size
    if not size or not ind.aval.size or not v.aval.size:
        return arr
    v = repeated_to(v, ind.aval.size)
    scatter_mode = "drop" if mode is None else "promise_in_bounds"
    if mode == "clip":
        ind = mathematics.clip(ind, 0, size - 1)
    elif mode == "wrap":
        ind = ind % size
    elif mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.put is not supported.")
    elif mode is not None:
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got {mode!r}")
    return IndexUpdate(arr)[unravel_index(ind, arr.aval.shape)].set(v, mode=scatter_mode)


def repeated_to(v: Any, size: int) -> Any:
    """The vector ``v``, over and over, to ``size`` elements."""
    if v.aval.size < size:
        v = tile(v, -(-size // v.aval.size))
    return v[:size] if v.aval.size > size else v


# ------------------------------------------------------------------------------------------------ with another size


def delete(arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Any:
    """``arr`` without the slices ``obj`` along ``axis``, or without those elements of the flattened array.

    Args:
      arr: the array.
      obj: an index, several, a slice, or booleans. They must be known, unless no index occurs twice.
      axis: the axis.
      assume_unique_indices: whether the caller says that no index occurs twice.

    Raises:
      IndexError: indices out of bounds; ValueError for a single one.
      ValueError: booleans of another length, indices that are no integers.
      ConcretizationTypeError: traced indices, of which nobody says that they are different.
    """
    check_array_like("delete", arr, 0 if isinstance(obj, slice) else obj)
    arr = ensure("delete", arr)
    if axis is None:
        arr, axis = ravel(arr) if arr.aval.ndim != 1 else arr, 0
    axis = canonical_axis(axis, arr.aval.ndim)
    size = arr.aval.shape[axis]
    front = (slice(None),) * axis
    if isinstance(obj, slice):
        return _delete_different(arr, lax.iota(default_int(), size)[obj], front, size)
    if np.ndim(obj) and assume_unique_indices and not dtypes.is_bool(np.result_type(obj)):
        return _delete_different(arr, ensure("delete", obj), front, size)
    context = "'obj' array argument of jnp.delete(). To delete traced indices, see assume_unique_indices."
    known = static(int(obj) if isinstance(obj, bool) else obj, context, np.asarray)
    if known.dtype.kind not in "iub":
        raise ValueError(f"np.delete(arr, obj): got obj.dtype={known.dtype}; must be integer or bool.")
    if known.dtype.kind == "b":
        if known.shape != (size,):
            raise ValueError(f"np.delete(arr, obj): booleans must be a vector of length {size}, got {known.shape}")
        return rewrite_index(arr, (*front, ~known))
    if known.size and not (-size <= known.min() and known.max() < size):
        refused = IndexError if known.ndim else ValueError
        raise refused(f"delete: index {known} is out of bounds for axis {axis} with size {size}")
    if not known.ndim:
        place = int(known) % size
        parts = [rewrite_index(arr, (*front, part)) for part in (slice(0, place), slice(place + 1, None))]
        return concatenate(parts, axis)
    kept = np.ones(size, bool)
    kept[known] = False
    return rewrite_index(arr, (*front, kept))


def _delete_different(arr: Any, obj: Any, front: tuple[Any, ...], size: int) -> Any:
    """``arr`` without the slices at the traced, different indices ``obj``: for each that stays, how many are before."""
    obj = mathematics.clip(chosen(obj < 0, obj + size, obj), 0, size)
    obj = sort(obj)
    obj = obj - lax.iota(obj.aval.dtype, obj.aval.shape[0])
    at = lax.iota(obj.aval.dtype, size - obj.aval.shape[0])
    before = reductions.sum(lax.ge(lax.expand_dims(at, (0,)), lax.expand_dims(obj, (1,))), 0)
    return rewrite_index(arr, (*front, at + before))


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """``arr`` with ``values`` inserted before the places ``obj`` along ``axis``, or of the flattened array.

    ``obj`` is an index, an array of some, or a slice. Raises TypeError for a list of them, ValueError for an array of
    more dimensions, and for indices that are no integers.
    """
    a, indices, new = ensure("insert", arr, 0 if isinstance(obj, slice) else obj, values)
    if axis is None:
        a, axis = ravel(a) if a.aval.ndim != 1 else a, 0
    axis = canonical_axis(axis, a.aval.ndim)
    size = a.aval.shape[axis]
    if isinstance(obj, slice):
        indices = arange(*obj.indices(size))
    if indices.aval.ndim > 1:
        raise ValueError(
            f"jnp.insert(): obj must be a slice, a one-dimensional array, or a scalar; got {indices.aval.str_short()}"
        )
    if not dtypes.is_integer(indices.aval.dtype):
        if indices.aval.size:
            raise ValueError(f"jnp.insert(): obj array must have integer type; got {indices.aval.dtype}")
        indices = convert(indices, default_int())
    new = array(new, ndmin=a.aval.ndim, dtype=a.aval.dtype, copy=False)
    scalar = not indices.aval.ndim
    indices = ravel(indices) if scalar else indices
    if indices.aval.size == 1:
        place = lax.squeeze(indices, (0,))
        new = moveaxis(new, 0, axis) if scalar and axis else new
        indices = lax.broadcast(place, (new.aval.shape[axis],))
    (count,) = lax.broadcast_shapes(indices.aval.shape, (new.aval.shape[axis],))
    out = zeros((*a.aval.shape[:axis], size + count, *a.aval.shape[axis + 1 :]), a.aval.dtype)
    indices = mathematics.clip(chosen(indices < 0, indices + size, indices), 0, size)
    # each is moved by those inserted before it
    indices = IndexUpdate(indices)[argsort(indices)].add(lax.iota(indices.aval.dtype, count))
    kept = IndexUpdate(ones(size + count, bool))[indices].set(False)
    (places,) = nonzero(kept, size=size)
    front = (slice(None),) * axis
    out = IndexUpdate(out)[(*front, indices)].set(new)
    return IndexUpdate(out)[(*front, places)].set(a)
