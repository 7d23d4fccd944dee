"""Places of elements: where something is nonzero or is to be inserted, counts of integers, indices of many axes."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from minijax import errors, lax
from minijax.api.batching import vmap
from minijax.api.inner import inner_jit
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.avals import dtype_name
from minijax.core.varying import varying_like
from minijax.numpy import mathematics, reductions, ufuncs
from minijax.numpy.creation import array, zeros, zeros_like
from minijax.numpy.index_update import IndexUpdate
from minijax.numpy.indexing import rewrite_index
from minijax.numpy.manipulation import atleast_1d, concatenate, ravel, transpose, vstack
from minijax.numpy.promotion import (
    check_array_like,
    choose,
    const,
    convert,
    ensure,
    known_value,
    promote_dtypes,
    result_dtype,
    static,
    typed_scalar,
    user_dtype,
)
from minijax.numpy.promotion import nonzero as is_nonzero
from minijax.ops.shape import meant_sharding

__all__ = [
    "argwhere",
    "bincount",
    "digitize",
    "flatnonzero",
    "nonzero",
    "ravel_multi_index",
    "searchsorted",
    "unravel_index",
]

INT32, UINT32 = np.dtype(np.int32), np.dtype(np.uint32)
SEARCH_METHODS = ("scan", "scan_unrolled", "sort", "compare_all", "default")

# ------------------------------------------------------------------------------------------------ nonzero


def default_int() -> np.dtype:
    """The type of indices that functions return."""
    return dtypes.default_int_dtype(x64_enabled())


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The indices of the elements that are not zero, an array for each axis.

    Args:
      a: an array of at least one dimension.
      size: how many indices to return. Without it, they are counted, so ``a`` must be known: not under ``jit``.
      fill_value: the index where there are fewer, by default 0; or a tuple, with one for each axis.

    Raises:
      ConcretizationTypeError: ``a`` is traced and no ``size`` is given.
      ValueError: ``a`` has no dimensions; ``fill_value`` is no scalar, or not one for each axis.
    """
    a = ensure("nonzero", a)
    if not a.aval.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() instead.")
    mask = a if a.aval.dtype == np.dtype(bool) else is_nonzero(a)
    count = _count(mask, size)
    if not a.aval.size or not count:
        return tuple(zeros(count, default_int()) for _ in a.aval.shape)
    # the place of the k-th is the number of places up to which fewer than k + 1 are found
    found = reductions.cumsum(bincount(reductions.cumsum(mask), length=count))
    out = []
    for axis, axis_size in enumerate(a.aval.shape):
        stride = np.int64(math.prod(a.aval.shape[axis + 1 :]))
        out.append(mathematics.remainder(mathematics.floor_divide(found, stride), axis_size))
    if fill_value is None or count <= 0:
        return tuple(out)
    return _filled(out, fill_value, mask, count)


def _count(mask: Any, size: int | None) -> int:
    if size is not None:
        return static(size, "The size argument of jnp.nonzero must be statically specified.")
    known = known_value(mask)
    if known is None:
        raise errors.ConcretizationTypeError(
            mask,
            "The size argument of jnp.nonzero must be statically specified to use jnp.nonzero within JAX "
            "transformations: without it, how many indices there are depends on the array's values.",
        )
    return int(np.count_nonzero(known))


def _filled(places: list[Any], fill_value: Any, mask: Any, count: int) -> tuple[Any, ...]:
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * len(places)
    if any(np.ndim(x) for x in fills):
        raise ValueError(f"fill_value must be a scalar or a tuple of length {len(places)}; got {fill_value}")
    if len(fills) != len(places):
        raise ValueError(f"fill_value of {len(fills)} indices for an array of {len(places)} dimensions")
    missing = lax.iota(default_int(), count) >= reductions.sum(mask)
    return tuple(choose(missing, fill, place) for fill, place in zip(fills, places, strict=True))


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The indices of the elements of the flattened array that are not zero; see ``nonzero``."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The indices of the elements that are not zero, one row for each; see ``nonzero``."""
    a = ensure("argwhere", a)
    rows = transpose(vstack(nonzero(atleast_1d(a), size=size, fill_value=fill_value)))
    return rows if a.aval.ndim else rows[:, :0]


# ------------------------------------------------------------------------------------------------ sorted arrays


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Any:
    """Where to insert each element of ``v`` into the sorted vector ``a`` so that it stays sorted, as int32.

    Args:
      a: a vector in rising order, NaN last.
      v: an array.
      side: 'left' of the elements that are equal, or 'right' of them.
      sorter: the indices that sort ``a``, if it is not sorted.
      method: how to search: 'scan' (bisection in a loop), 'scan_unrolled', 'sort' or 'compare_all' (fast for many, on
        accelerators).

    Raises:
      ValueError: ``a`` is no vector; an unknown side or method.
    """
    check_array_like("searchsorted", a, v, *([] if sorter is None else [sorter]))
    return _searchsorted(a, v, side, sorter, method=method)


def _search(a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Any:
    if side not in ("left", "right"):
        raise ValueError(f"{side!r} is an invalid value for keyword 'side'. Expected one of ['left', 'right'].")
    if method not in SEARCH_METHODS:
        raise ValueError(f"{method!r} is an invalid value for keyword 'method'. Expected one of {SEARCH_METHODS}.")
    a, v = promote_dtypes(*ensure("searchsorted", a, v))
    if a.aval.ndim != 1:
        raise ValueError("a should be 1-dimensional")
    if sorter is not None:
        a = rewrite_index(a, ensure("searchsorted", sorter))
    dtype = INT32 if a.aval.shape[0] < np.iinfo(np.int32).max else np.dtype(np.int64)
    a, v = varying_like(a, v), varying_like(v, a)
    if method == "sort":
        return _searchsorted_sort_impl(a, v, side, dtype)
    if method == "compare_all":
        return _searchsorted_compare_all_impl(a, v, side, dtype)
    return _searchsorted_scan_impl(a, v, side, dtype, method == "scan_unrolled")


_searchsorted = inner_jit(_search, static_argnames=("side", "method"), name="searchsorted")


def _less(query: Any, value: Any, side: str) -> Any:
    """Whether ``query`` belongs in front of ``value``: zeros of both signs are equal, and NaNs, which are last."""
    return _in_order(_canonical(query), _canonical(value), lax.le_to if side == "left" else lax.lt_to)


def _in_order(x: Any, y: Any, compare: Any) -> Any:
    """``compare``, ``lt_to`` or ``le_to``, of what ``_canonical`` gives; imaginary parts count where the real parts are
    equal.
    """
    if not dtypes.is_complex(x.aval.dtype):
        return compare(x, y)
    real, imag = (lax.real(x), lax.real(y)), (lax.imag(x), lax.imag(y))
    same = lax.bitwise_not(lax.lt_to(real[1], real[0]))
    return lax.bitwise_or(lax.lt_to(*real), lax.bitwise_and(same, compare(*imag)))


def _canonical(x: Any) -> Any:
    if dtypes.is_complex(x.aval.dtype):
        return lax.complex(_canonical(lax.real(x)), _canonical(lax.imag(x)))
    if not dtypes.is_float(x.aval.dtype):
        return x
    unsigned = lax.select(lax.eq(x, const(x, 0)), zeros_like(x), x)
    return lax.select(lax.ne(x, x), lax.full_like(x, math.nan), unsigned)


@inner_jit(static_argnames=("side", "dtype", "unrolled"))
def _searchsorted_scan_impl(a: Any, query: Any, side: str, dtype: np.dtype, unrolled: bool) -> Any:
    """By bisection: each step halves where the place can be."""
    size = a.aval.shape[0]
    if not size:
        return zeros_like(query, dtype=dtype)
    if query.aval.ndim:
        search = functools.partial(_searchsorted_scan_impl, side=side, dtype=dtype, unrolled=unrolled)
        return vmap(search, in_axes=(None, 0))(a, query)
    unsigned = UINT32 if dtype == INT32 else np.dtype(np.uint64)

    def halve(bounds: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], tuple[()]]:
        low, high = bounds
        middle = lax.add(low, mathematics.floor_divide(lax.sub(high, low), 2))
        before = _less(query, lax.dynamic_index_in_dim(a, middle, 0, False), side)
        return (lax.select(before, low, middle), lax.select(before, middle, high)), ()

    steps = max(1, math.ceil(math.log2(size + 1)))
    start = [varying_like(typed_scalar(at, unsigned), a) for at in (0, size)]
    (_, found), _ = lax.scan(halve, tuple(start), None, length=steps, unroll=steps if unrolled else 1)
    return convert(found, dtype)


@inner_jit(static_argnames=("side", "dtype"))
def _searchsorted_sort_impl(a: Any, query: Any, side: str, dtype: np.dtype) -> Any:
    """By sorting both together: an element's place, less the queries in front of it."""
    count = query.aval.size
    if side == "left":
        places = rewrite_index(_ranks(concatenate([ravel(query), a]), dtype), slice(0, count))
    else:
        places = rewrite_index(_ranks(concatenate([a, ravel(query)]), dtype), slice(a.aval.size, None))
    return lax.reshape(lax.sub(places, _ranks(ravel(query), dtype)), query.aval.shape)


def _ranks(x: Any, dtype: np.dtype) -> Any:
    """The place of each element of a vector when it is sorted."""
    numbers = lax.iota(dtype, x.aval.shape[0])
    start = zeros_like(numbers)
    _, order = lax.sort_key_val(x, numbers)
    return IndexUpdate(start)[order].set(numbers)


@inner_jit(static_argnames=("side", "dtype"))
def _searchsorted_compare_all_impl(a: Any, query: Any, side: str, dtype: np.dtype) -> Any:
    """By comparing each query with each element."""
    compare = lax.lt_to if side == "left" else lax.le_to
    a, query = _canonical(a), _canonical(query)
    ndim = query.aval.ndim
    query = lax.expand_dims(query, (0,))
    a = lax.expand_dims(a, tuple(range(1, ndim + 1)))
    return reductions.sum(_in_order(a, query, compare), 0, dtype)


@inner_jit(static_argnames=("right", "method"))
def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """The number of the bin that each element of ``x`` lies in; ``bins`` are its edges, rising or falling.

    A bin has its lower edge (of rising ones), or with ``right`` the upper one. ``method`` is that of ``searchsorted``.
    Raises ValueError for ``bins`` that are no vector.
    """
    x, bins = ensure("digitize", x, bins)
    if bins.aval.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got {bins.aval.shape}")
    if not bins.aval.shape[0]:
        return zeros_like(x, dtype=INT32)
    search = functools.partial(searchsorted, side="left" if right else "right", method=method or "scan")
    return choose(bins[-1] >= bins[0], search(bins, x), bins.aval.shape[0] - search(bins[::-1], x))


# ------------------------------------------------------------------------------------------------ counting


def bincount(
    x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None, out_sharding: Any = None
) -> Any:
    """How often each of 0, 1, 2, ... is in the vector ``x``; or the sum of the weights where it is.

    Args:
      x: integers; negative ones count as 0.
      weights: what each counts, by default 1.
      minlength: the least length of the result.
      out_sharding: that the result is to be whole on every device of a mesh with explicit axes: nothing else.
      length: the length of the result; larger numbers are not counted. Without it, ``x`` must be known: not under
        ``jit``.

    Raises:
      TypeError: ``x`` holds no integers.
      ValueError: ``x`` is no vector, or the weights are of another shape.
      ConcretizationTypeError: ``x`` is traced and no ``length`` is given.
    """
    x = ensure("bincount", x)
    if dtypes.is_bool(x.aval.dtype):
        x = convert(x, INT32)
    if not dtypes.is_integer(x.aval.dtype):
        raise TypeError(f"x argument to bincount must have an integer type; got {dtype_name(x.aval.dtype)}")
    if x.aval.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    minlength = static(minlength, "'minlength' argument of jnp.bincount")
    if length is None:
        known = known_value(x)
        if known is None:
            raise errors.ConcretizationTypeError(
                x,
                "The length argument of jnp.bincount must be statically specified to use jnp.bincount within JAX "
                "transformations: without it, the shape of the result depends on the array's values.",
            )
        length = max(int(minlength), max(0, int(known.max())) + 1 if known.size else 0)
    else:
        length = static(length, "'length' argument of jnp.bincount")
    if weights is None:
        weights = array(1, default_int())
    elif np.shape(weights) != x.aval.shape:
        raise ValueError("shape of weights must match shape of x.")
    weights = ensure("bincount", weights)
    start = zeros(length, weights.aval.dtype)
    said = None if out_sharding is None else meant_sharding(out_sharding, "jnp.bincount")
    if said is not None and any(part is not None for part in said.spec):
        raise errors.ShardingTypeError(
            f"out_sharding passed to `jnp.bincount` can only be fully replicated, got {out_sharding}. Pass P(), and "
            "bring the result to another sharding with sharding.reshard."
        )
    return IndexUpdate(start)[mathematics.clip(x, 0)].add(weights, mode="drop", out_sharding=said)


# ------------------------------------------------------------------------------------------------ many axes


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: str = "raise", order: str = "C", *, dtype: Any = None
) -> Any:
    """The places in the flattened array of shape ``dims`` of the elements at ``multi_index``, an array for each axis.

    ``mode``: 'raise' for indices out of bounds (they must be known: not under ``jit``), 'wrap', 'clip', or 'ignore';
    ``order``: 'C' or 'F'; ``dtype``: that of the places, by default that of the indices, at least the default integer.
    Raises ValueError for these and for a type that does not hold the greatest place, TypeError for indices that are no
    integers.
    """
    if len(multi_index) != len(dims):
        raise ValueError(f"len(multi_index)={len(multi_index)} != len(dims)={len(dims)}")
    shape = tuple(static(d, "in `dims` argument of ravel_multi_index().") for d in dims)
    check_array_like("ravel_multi_index", *multi_index)
    indices = [ensure("ravel_multi_index", i) for i in multi_index]
    wanted = result_dtype(0, *indices)[0] if dtype is None else user_dtype(dtype, "ravel_multi_index")
    if not dtypes.is_integer(wanted):
        raise ValueError(f"ravel_multi_index: dtype={wanted} is not an integer type.")
    if math.prod(shape) - 1 > dtypes.iinfo(wanted).max:
        raise ValueError(f"ravel_multi_index: {wanted} does not hold the places in an array of shape {shape}.")
    for i in indices:
        if not dtypes.is_integer(i.aval.dtype):
            raise TypeError("only int indices permitted")
    if mode == "raise":
        _check_in_bounds(indices, shape)
    elif mode == "clip":
        indices = [mathematics.clip(i, 0, size - 1) for i, size in zip(indices, shape, strict=True)]
    elif mode == "wrap":
        indices = [i % size for i, size in zip(indices, shape, strict=True)]
    elif mode != "ignore":
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip', or 'ignore'")
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    sizes = shape[::-1] if order == "C" else shape
    strides = [math.prod(sizes[:n]) for n in range(len(sizes))]
    found: Any = array(0, wanted)
    for i, stride in zip(indices, strides[::-1] if order == "C" else strides, strict=True):
        found = found + convert(i, wanted) * stride
    return found


def _check_in_bounds(indices: list[Any], shape: tuple[int, ...]) -> None:
    for i, size in zip(indices, shape, strict=True):
        known = known_value(i)
        if known is None:
            raise errors.ConcretizationTypeError(
                i,
                "The error occurred because ravel_multi_index was jit-compiled with mode='raise'. Use mode='wrap' or "
                "mode='clip' instead: whether an index is out of bounds depends on its value.",
            )
        if known.size and (known.min() < 0 or known.max() >= size):
            raise ValueError("invalid entry in coordinates array")


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """The indices of each axis of the elements at ``indices`` of the flattened array of ``shape``.

    Negative ones count from the end; those out of bounds are moved to the nearest. Raises ValueError for a shape that
    is no vector.
    """
    indices = ensure("unravel_index", indices)
    if np.ndim(shape) > 1:
        raise ValueError("shape should be a scalar or 1D sequence.")
    sizes = [operator.index(d) for d in (shape if np.ndim(shape) else (shape,))]
    rest, places = indices, []
    for size in reversed(sizes):
        rest, place = mathematics.divmod(rest, size)
        places.append(place)
    # what is left counts whole arrays: -1 are indices from the end, all else is out of bounds
    above, below = ufuncs.greater(rest, 0), ufuncs.less(rest, -1)
    return tuple(
        choose(above, size - 1, choose(below, 0, place)) for size, place in zip(sizes, reversed(places), strict=True)
    )
