"""Elements chosen by conditions, and taken out of an array or put into it."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax import lax
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.numpy import mathematics, reductions
from minijax.numpy.creation import array, full, zeros
from minijax.numpy.index_update import IndexUpdate, take
from minijax.numpy.indexing import rewrite_index
from minijax.numpy.manipulation import concatenate, moveaxis, ravel
from minijax.numpy.promotion import (
    broadcast_arrays,
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
from minijax.numpy.searching import nonzero

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

    ``size`` says how many; without it ``condition`` must be known: not under ``jit``. Missing ones are ``fill_value``.
    """
    condition, a = ensure("compress", condition, a)
    if condition.aval.ndim != 1:
        raise ValueError("condition must be a 1D array")
    if axis is None:
        a, axis = ravel(a), 0
    if out is not None:
        raise NotImplementedError("out argument is not supported.")
    a = moveaxis(a, axis, 0)
    condition, extra = condition[: a.aval.shape[0]], condition[a.aval.shape[0] :]
    if extra.aval.size and known_value(extra) is not None and known_value(extra).any():  # type: ignore[union-attr]
        raise ValueError("condition contains entries that are out of bounds")
    a = a[: condition.aval.shape[0]]
    if size is None:
        places = nonzero(condition)[0]
        return moveaxis(rewrite_index(a, places), 0, axis)
    (places,) = nonzero(condition, size=size, fill_value=a.aval.shape[0])
    return moveaxis(IndexUpdate(a)[places].get(mode="fill", fill_value=fill_value), 0, axis)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements of ``arr`` where ``condition`` is true, in one dimension; see ``compress``."""
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def trim_zeros(filt: Any, trim: str = "fb") -> Any:
    """The vector without the zeros at its front ('f') and back ('b'); it must be known: not under ``jit``."""
    filt = ensure("trim_zeros", filt)
    known = static(filt, "Error arose in the `filt` argument of trim_zeros()", np.asarray)
    places = np.flatnonzero(known)
    if not places.size:
        return filt[:0]
    trim = trim.lower()
    start = int(places[0]) if "f" in trim else 0
    stop = int(places[-1]) + 1 if "b" in trim else known.size
    return filt[start:stop]


def _not_in_place(name: str) -> ValueError:
    return ValueError(
        f"jax.numpy.{name} cannot modify arrays in-place, because JAX arrays are immutable. "
        "Pass inplace=False to instead return an updated array."
    )


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """A copy of ``arr`` with ``vals``, repeated as needed, where ``mask`` is true; ``inplace`` must be False."""
    if inplace:
        raise _not_in_place("place")
    data, mask, vals = ensure("place", arr, mask, vals)
    vals = ravel(vals)
    if data.aval.size != mask.aval.size:
        raise ValueError("place: arr and mask must be the same size")
    if not vals.aval.size:
        raise ValueError("Cannot place values from an empty array")
    if not data.aval.size:
        return data
    (places,) = nonzero(ravel(mask), size=data.aval.size, fill_value=data.aval.size)
    vals = repeated_to(vals, data.aval.size)
    return IndexUpdate(ravel(data))[places].set(vals, mode="drop").reshape(data.aval.shape)


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """A copy of ``a`` with ``v``, repeated as needed, at the places ``ind`` of the flattened array.

    ``inplace`` must be False; ``mode``: 'clip' (the default) or 'wrap', what happens out of bounds.
    """
    if inplace:
        raise _not_in_place("put")
    arr, ind, v = ensure("put", a, ind, v)
    ind, v = ravel(ind), ravel(v)
    if not arr.aval.size or not ind.aval.size or not v.aval.size:
        return arr
    v = repeated_to(v, ind.aval.size)
    if mode is None:
        scatter_mode = "drop"
    elif mode == "clip":
        ind, scatter_mode = mathematics.clip(ind, 0, arr.aval.size - 1), "promise_in_bounds"
    elif mode == "wrap":
        ind, scatter_mode = ind % arr.aval.size, "promise_in_bounds"
    elif mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.put is not supported.")
    else:
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got {mode!r}")
    return IndexUpdate(ravel(arr))[ind].set(v, mode=scatter_mode).reshape(arr.aval.shape)


def repeated_to(v: Any, size: int) -> Any:
    """The vector ``v``, over and over, to ``size`` elements."""
    if v.aval.size < size:
        v = concatenate([v] * -(-size // v.aval.size))
    return v[:size]


# ------------------------------------------------------------------------------------------------ with another size


def delete(arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Any:
    """``arr`` without the slices ``obj`` along ``axis``, or without those elements of the flattened array.

    Args:
      arr: the array.
      obj: an index, several, a slice, or booleans. Several must be known, unless they are different.
      axis: the axis.
      assume_unique_indices: whether the caller says that no index occurs twice.

    Raises:
      IndexError: an index or booleans out of bounds.
    """
    arr = ensure("delete", arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis(axis, arr.aval.ndim)
    size = arr.aval.shape[axis]
    if isinstance(obj, slice):
        return _without(arr, np.arange(size)[obj], axis)
    if not hasattr(obj, "aval"):
        obj = np.asarray(obj)
        if not obj.size and obj.dtype.kind == "f":
            obj = obj.astype(np.int64)
    if not np.ndim(obj):
        return _delete_one(arr, obj, axis, size)
    if assume_unique_indices and not dtypes.is_bool(ensure("delete", obj).aval.dtype):
        return _delete_several(arr, ensure("delete", obj), axis, size)
    context = "'obj' array argument of jnp.delete(). To delete traced indices, pass assume_unique_indices=True."
    known = static(obj, context, np.asarray)
    if known.dtype.kind == "b":
        if known.shape != (size,):
            raise ValueError(f"np.delete(arr, obj): booleans must be a vector of length {size}, got {known.shape}")
        return _without(arr, np.flatnonzero(known), axis)
    if known.dtype.kind not in "iu":
        raise ValueError(f"np.delete(arr, obj): got obj.dtype={known.dtype}; must be integer or bool.")
    return _without(arr, known, axis)


def _without(arr: Any, places: np.ndarray, axis: int) -> Any:
    kept = np.delete(np.arange(arr.aval.shape[axis]), places)
    return take(arr, kept, axis)


def _delete_one(arr: Any, obj: Any, axis: int, size: int) -> Any:
    obj = ensure("delete", obj)
    if not dtypes.is_integer(obj.aval.dtype):
        raise ValueError(f"np.delete(arr, obj): got obj.dtype={obj.aval.dtype}; must be integer or bool.")
    known = known_value(obj)
    if known is not None and not -size <= known < size:
        raise IndexError(f"index {known} is out of bounds for axis {axis} with size {size}")
    obj = chosen(obj < 0, obj + size, obj)
    at = lax.iota(dtypes.default_int_dtype(x64_enabled()), size - 1)
    return take(arr, at + (at >= obj), axis)


def _delete_several(arr: Any, obj: Any, axis: int, size: int) -> Any:
    obj = mathematics.clip(chosen(obj < 0, obj + size, obj), 0, size)
    obj = lax.sort(obj, 0)
    obj = obj - lax.iota(obj.aval.dtype, obj.aval.shape[0])
    at = lax.iota(obj.aval.dtype, size - obj.aval.shape[0])
    behind = reductions.sum(lax.expand_dims(at, (0,)) >= lax.expand_dims(obj, (1,)), 0)
    return take(arr, at + behind, axis)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """``arr`` with ``values`` inserted before the places ``obj`` along ``axis``, or of the flattened array.

    ``obj`` is an index, several, or a slice.
    """
    a, new = ensure("insert", arr, values)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.aval.ndim)
    size = a.aval.shape[axis]
    if isinstance(obj, slice):
        indices: Any = array(np.arange(size)[obj])
    else:
        indices = ensure("insert", np.asarray(obj) if isinstance(obj, (list, tuple)) else obj)
    if indices.aval.ndim > 1:
        raise ValueError(
            f"jnp.insert(): obj must be a slice, a one-dimensional array, or a scalar; got {indices.aval.str_short()}"
        )
    if not dtypes.is_integer(indices.aval.dtype):
        if indices.aval.size:
            raise TypeError("jnp.insert(): obj array must have integer type; got " + str(indices.aval.dtype))
        indices = convert(indices, dtypes.default_int_dtype(x64_enabled()))
    return _inserted(a, indices, new, axis, size)


def _inserted(a: Any, indices: Any, values: Any, axis: int, size: int) -> Any:
    ndim = max(a.aval.ndim, values.aval.ndim)
    a = lax.expand_dims(a, tuple(range(ndim - a.aval.ndim)))
    values = lax.expand_dims(values, tuple(range(ndim - values.aval.ndim)))
    if not indices.aval.ndim:
        values = moveaxis(values, 0, axis)
    indices = chosen(indices < 0, indices + size, indices)
    indices = mathematics.clip(indices, 0, size)
    values = convert(values, a.aval.dtype)
    count = values.aval.shape[axis] if not indices.aval.ndim or indices.aval.size == 1 else indices.aval.shape[0]
    total = size + count
    indices = mathematics.clip(indices, 0, size)
    if not indices.aval.ndim or indices.aval.size == 1:
        places = lax.add(lax.iota(indices.aval.dtype, count), lax.broadcast_in_dim(ravel(indices), (count,), (0,)))
    else:
        order_of = lax.sort_key_val(indices, lax.iota(indices.aval.dtype, count))[1]
        places = IndexUpdate(zeros(count, indices.aval.dtype))[order_of].set(
            lax.sort(indices, 0) + lax.iota(indices.aval.dtype, count)
        )
    shape = (*a.aval.shape[:axis], count, *a.aval.shape[axis + 1 :])
    values = lax.broadcast_in_dim(values, shape, tuple(range(ndim))) if values.aval.shape != shape else values
    kept = IndexUpdate(full((total,), True))[places].set(False)
    (old_places,) = nonzero(kept, size=size)
    at: tuple[Any, ...] = (slice(None),) * axis
    out = zeros((*a.aval.shape[:axis], total, *a.aval.shape[axis + 1 :]), a.aval.dtype)
    out = IndexUpdate(out)[(*at, places)].set(values)
    return IndexUpdate(out)[(*at, old_places)].set(a)
