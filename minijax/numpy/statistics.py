"""Statistics that need an order or several arrays: quantiles, covariances, and what leaves NaN out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.config import x64_enabled
from minijax.core import dtypes, late
from minijax.core.avals import over_mesh_of
from minijax.numpy import mathematics, reductions, ufuncs
from minijax.numpy.creation import asarray, diag, ones_like, zeros_like
from minijax.numpy.index_update import take_along_axis
from minijax.numpy.indexing import rewrite_index
from minijax.numpy.linear import dot
from minijax.numpy.manipulation import atleast_2d, concatenate, moveaxis
from minijax.numpy.promotion import (
    broadcast_to,
    canonical_axes,
    canonical_axis,
    check_array_like,
    choose,
    const,
    convert,
    ensure,
    index_tuple,
    no_out,
    promote,
    promote_dtypes,
    type_of,
    user_dtype,
)
from minijax.numpy.ufuncs import INEXACT, isnan

__all__ = [
    "corrcoef",
    "cov",
    "median",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "nanstd",
    "nanvar",
    "percentile",
    "quantile",
]

METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")
INT32 = np.dtype(np.int32)
_STATIC = ("axis", "overwrite_input", "method", "keepdims")

# ------------------------------------------------------------------------------------------------ quantiles


def _plain(name: str, out: Any, overwrite_input: bool) -> None:
    if overwrite_input or out is not None:
        raise ValueError(f"jax.numpy.{name} does not support overwrite_input=True or out != None: use what it returns.")


@inner_jit(static_argnames=_STATIC)
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The ``q``-quantiles of ``a`` along ``axis``, or of the flattened array; NaN where it holds NaN.

    Args:
      a: an array of real numbers.
      q: a float between 0 and 1, or a vector of them, whose axis becomes the first of the result.
      axis: an axis, several, or None.
      out, overwrite_input: not supported.
      method: what lies between two elements: 'linear', 'lower', 'higher', 'midpoint', 'nearest', or 'inverted_cdf',
        the first element up to which the share of the weights is at least ``q``.
      keepdims: whether the reduced axes stay, with size 1.
      weights: how much each element counts, for 'inverted_cdf'.

    Raises:
      ValueError: complex numbers, a ``q`` of more than one dimension, an unknown method.
      NotImplementedError: weights with another method.
    """
    check_array_like("quantile", a, q, *([] if weights is None else [weights]))
    _plain("quantile", out, overwrite_input)
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights)


@inner_jit(static_argnames=_STATIC)
def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The ``q``-quantiles of what is not NaN; see ``quantile``."""
    check_array_like("nanquantile", a, q, *([] if weights is None else [weights]))
    _plain("nanquantile", out, overwrite_input)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights)


def _as_share(name: str, a: Any, q: Any) -> Any:
    check_array_like(name, a, q)
    (q,) = promote(name, q, to=INEXACT)
    return q / 100


@inner_jit(static_argnames=(*_STATIC, "out_sharding"))
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The quantiles at ``q`` per cent, lying as ``out_sharding`` says; see ``quantile``."""
    share = _as_share("percentile", a, q)
    _plain("percentile", out, overwrite_input)
    if out_sharding is None:
        return quantile(a, share, axis=axis, method=method, keepdims=keepdims, weights=weights)
    given = (a, share) if weights is None else (a, share, weights)

    def run(a: Any, share: Any, weights: Any = None) -> Any:
        return quantile(a, share, axis=axis, method=method, keepdims=keepdims, weights=weights)

    return late.public("minijax.api.explicit", "left_to_compiler")("jnp.percentile", out_sharding, run, *given)


@inner_jit(static_argnames=_STATIC)
def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The quantiles at ``q`` per cent of what is not NaN; see ``quantile``."""
    share = _as_share("nanpercentile", a, q)
    _plain("nanpercentile", out, overwrite_input)
    return nanquantile(a, share, axis=axis, method=method, keepdims=keepdims, weights=weights)


@inner_jit(static_argnames=("axis", "overwrite_input", "keepdims"))
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The median along ``axis``, or of the flattened array: the mean of the middle two of an even number."""
    check_array_like("median", a)
    _plain("median", out, overwrite_input)
    return quantile(a, 0.5, axis=axis, keepdims=keepdims, method="midpoint")


@inner_jit(static_argnames=("axis", "overwrite_input", "keepdims"))
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The median of what is not NaN."""
    check_array_like("nanmedian", a)
    _plain("nanmedian", out, overwrite_input)
    return nanquantile(a, 0.5, axis=axis, keepdims=keepdims, method="midpoint")


def _quantile(
    name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, without_nan: bool, weights: Any
) -> Any:
    if weights is not None and dtypes.is_complex(type_of(weights)[0]):
        raise ValueError(f"{name}: weights cannot be complex numbers.")
    if method not in METHODS:
        raise ValueError(f"method can only be {', '.join(map(repr, METHODS[:-1]))} or {METHODS[-1]!r}")
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights.")
    a, q = ensure(name, a, q)
    if q.aval.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {q.aval.shape}")
    if dtypes.is_complex(a.aval.dtype):
        raise ValueError(f"{name} does not support complex input, as the operation is poorly defined.")
    (a,) = promote_dtypes(a, to=INEXACT)
    weights = None if weights is None else _checked_weights(name, a, weights, axis)
    kept_shape = None
    if axis is None:
        if keepdims:
            kept_shape = (1,) * a.aval.ndim
        a, axis = lax.reshape(a, (a.aval.size,)), 0
        weights = None if weights is None else lax.reshape(weights, (weights.aval.size,))
    elif isinstance(axis, tuple):
        a, weights, axis, kept_shape = _one_axis(a, weights, axis, keepdims)
    axis = canonical_axis(axis, a.aval.ndim)
    if not dtypes.is_float(q.aval.dtype):
        raise TypeError(f"{name}: q is to be a float between 0 and 1, got an array of {q.aval.dtype}")
    found = _of_sorted(a, q, axis, method, keepdims, without_nan, weights)
    if kept_shape and keepdims:  # of a scalar the axis stays along which it was sorted, as in JAX
        found = lax.reshape(found, (*found.aval.shape[: q.aval.ndim], *kept_shape))
    return convert(found, a.aval.dtype)


def _checked_weights(name: str, a: Any, weights: Any, axis: Any) -> Any:
    (weights,) = promote(name, weights, to=INEXACT)
    if weights.aval.shape == a.aval.shape:
        return weights
    if axis is None or isinstance(axis, tuple) and len(axis) > 1:
        raise ValueError(
            f"{name}: weights of shape {weights.aval.shape} do not fit an array of shape {a.aval.shape}: for "
            "a shape of their own, give one axis."
        )
    at = canonical_axis(index_tuple(axis)[0], a.aval.ndim)
    if weights.aval.shape != (a.aval.shape[at],):
        raise ValueError(
            f"{name}: weights of shape {weights.aval.shape} do not fit axis {at} of an array of shape {a.aval.shape}"
        )
    return lax.broadcast_in_dim(weights, a.aval.shape, (at,))


def _one_axis(a: Any, weights: Any, axis: tuple[int, ...], keepdims: bool) -> tuple[Any, Any, int, Any]:
    """``a`` with several axes made one, the last; and the shape with those axes of size 1."""
    shape = a.aval.shape
    axes = canonical_axes(axis, len(shape))
    rest = [d for d in range(len(shape)) if d not in axes]
    merged = (*[shape[d] for d in rest], math.prod(shape[d] for d in axes))

    def moved(x: Any) -> Any:
        return lax.reshape(moveaxis(x, axes, range(len(rest), len(shape))) if rest else x, merged)

    kept = tuple(1 if d in axes else size for d, size in enumerate(shape)) if keepdims else None
    return moved(a), None if weights is None else moved(weights), len(rest), kept


def _of_sorted(a: Any, q: Any, axis: int, method: str, keepdims: bool, without_nan: bool, weights: Any) -> Any:
    if without_nan:
        a = choose(isnan(a), math.nan, a)  # all of one sign, so that they are sorted to the end
    else:
        a = choose(reductions.any(isnan(a), axis=axis, keepdims=True), math.nan, a)
    if weights is None:
        a = lax.sort(a, axis)
    else:
        a, weights = lax.sort((a, weights), axis, num_keys=1)
    size = a.aval.shape[axis]
    if without_nan:
        found = _at_counted_places(a, q, axis, method, keepdims)
    else:
        found = _at_fixed_places(a, q, axis, size, method, keepdims)
    # JAX's program computes ``found`` in any case
    return _inverted_cdf(a, q, axis, keepdims, without_nan, weights) if method == "inverted_cdf" else found


def _weights_of_neighbours(q: Any, last: Any) -> tuple[Any, Any, Any, Any]:
    """The places below and above each quantile, as floats, and what share each of the two has."""
    place = lax.mul(q, last)
    low, high = lax.floor(place), lax.ceil(place)
    high_weight = lax.sub(place, low)
    return low, high, high_weight, lax.sub(const(high_weight, 1), high_weight)


def _at_fixed_places(a: Any, q: Any, axis: int, size: int, method: str, keepdims: bool) -> Any:
    low, high, high_weight, low_weight = _weights_of_neighbours(q, _last(q, size))
    zero = const(q, 0)
    low, high = lax.clamp(zero, low, _last(q, size)), lax.clamp(zero, high, _last(q, size))
    places = convert(low, INT32), convert(high, INT32)
    shape = list(a.aval.shape)
    shape[axis] = 1
    ndim, at_q = a.aval.ndim, q.aval.ndim
    numbers = lax.GatherDimensionNumbers(
        tuple(range(at_q, ndim + at_q if keepdims else ndim + at_q - 1)),
        () if keepdims else (axis,),
        (axis,),
    )
    low_value, high_value = (
        lax.gather(a, lax.expand_dims(place, (at_q,)), numbers, tuple(shape), mode="promise_in_bounds")
        for place in places
    )
    if at_q:
        low_weight, high_weight = (
            lax.broadcast_in_dim(w, low_value.aval.shape, (0,)) if low_value.aval.shape != w.aval.shape else w
            for w in (low_weight, high_weight)
        )
    return _between(method, low_value, high_value, low_weight, high_weight)


def _last(q: Any, size: int) -> Any:
    """The greatest place, in the type of ``q``."""
    return lax.sub(const(q, size), const(q, 1))


def _at_counted_places(a: Any, q: Any, axis: int, method: str, keepdims: bool) -> Any:
    """As ``_at_fixed_places``, of the elements that are not NaN, which are the first of each vector."""
    counts = _count(isnan(a), axis, q.aval.dtype, keepdims)
    if counts.aval.ndim:
        many, rank = q.aval.ndim, counts.aval.ndim
        q = lax.expand_dims(q, tuple(range(many, many + rank)))
        counts = lax.expand_dims(counts, tuple(range(many))) if many else counts
    low, high, high_weight, low_weight = _weights_of_neighbours(q, counts - 1)
    bounded = [lax.max(const(q, 0), lax.min(place, counts - 1)) for place in (low, high)]
    places = [convert(place, INT32) for place in bounded]
    index: list[Any] = [None] * a.aval.ndim
    shape = [d for i, d in enumerate(a.aval.shape) if keepdims or i != axis]
    for d, size in enumerate(a.aval.shape):
        if d != axis:
            at = d if keepdims or d < axis else d - 1
            sizes = [size if i == at else 1 for i in range(len(shape))]
            index[d] = lax.reshape(lax.iota(INT32, size), sizes) if len(shape) > 1 else lax.iota(INT32, size)
    low_value, high_value = (
        rewrite_index(a, tuple(place if d == axis else i for d, i in enumerate(index))) for place in places
    )
    return _between(method, low_value, high_value, low_weight, high_weight)


def _count(missing: Any, axis: int, dtype: np.dtype, keepdims: bool) -> Any:
    """How many elements along ``axis`` are not ``missing``."""
    default = dtypes.default_int_dtype(x64_enabled())
    return reductions.sum(convert(ufuncs.logical_not(missing), default), axis, dtype, None, keepdims)


def _between(method: str, low: Any, high: Any, low_weight: Any, high_weight: Any) -> Any:
    if method == "linear":
        dtype = low_weight.aval.dtype
        below = lax.mul(convert(low, dtype), low_weight)
        return lax.add(below, lax.mul(convert(high, dtype), high_weight))
    if method in ("lower", "inverted_cdf"):
        return low
    if method == "higher":
        return high
    if method == "nearest":
        return lax.select(lax.le(high_weight, const(high_weight, 0.5)), low, high)
    return lax.mul(lax.add(low, high), const(low, 0.5))


def _inverted_cdf(a: Any, q: Any, axis: int, keepdims: bool, without_nan: bool, weights: Any) -> Any:
    """The first element up to which the weights make up a share of at least ``q``."""
    weights = ones_like(a) if weights is None else weights
    zeros = zeros_like(weights)
    invalid = lax.bitwise_or(lax.lt(weights, zeros), isnan(weights))
    missing = isnan(a)
    weights = lax.select(lax.bitwise_or(invalid, missing), zeros, weights)
    sums = reductions.cumsum(weights, axis)
    size = a.aval.shape[axis]
    totals = lax.index_in_dim(sums, size - 1, axis, False)
    rest, shape = totals.aval.ndim, totals.aval.shape
    if q.aval.ndim:
        totals = lax.expand_dims(totals, (0,))
    wanted = lax.mul(lax.reshape(q, (*q.aval.shape, *[1] * rest)), totals)
    sums = moveaxis(sums, axis, -1) if rest else sums
    wanted = lax.expand_dims(wanted, (wanted.aval.ndim,))
    below = lax.lt(lax.expand_dims(sums, (0,)) if q.aval.ndim else sums, wanted)
    places = reductions.sum(convert(below, INT32), -1)
    count = _count(missing, axis, q.aval.dtype, False) if without_nan else _full_count(q, size, shape)
    last = convert(lax.sub(count, const(count, 1)), INT32)
    if q.aval.ndim:
        last = lax.expand_dims(last, (0,))
    places = lax.max(const(places, 0), lax.min(places, last))
    return _taken(a, places, q, axis, keepdims, invalid, missing, count, without_nan)


def _full_count(q: Any, size: int, shape: tuple[int, ...]) -> Any:
    return lax.full(shape, size, q.aval.dtype) if shape else const(q, size)


def _taken(
    a: Any, places: Any, q: Any, axis: int, keepdims: bool, invalid: Any, missing: Any, count: Any, without_nan: bool
) -> Any:
    if q.aval.ndim:
        found = moveaxis(take_along_axis(a, moveaxis(places, 0, axis), axis), axis, 0)
    else:
        found = lax.squeeze(take_along_axis(a, lax.expand_dims(places, (axis,)), axis), (axis,))
    empty = lax.eq(count, lax.full_like(count, 0))
    bad = reductions.any(invalid, axis)
    bad = ufuncs.logical_or(bad, empty if without_nan else reductions.any(missing, axis))
    if q.aval.ndim and bad.aval.ndim:
        bad = lax.expand_dims(bad, (0,))
    found = choose(bad, lax.full_like(found, math.nan), found)
    return lax.expand_dims(found, (axis + q.aval.ndim,)) if keepdims else found


# ------------------------------------------------------------------------------------------------ without NaN


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = None,
    *,
    mean: Any = None,
) -> Any:
    """The variance along ``axis`` of what is not NaN: NaN where nothing is left but ``ddof`` elements."""
    no_out("nanvar", out)
    a = ensure("nanvar", a)
    wanted = None if dtype is None else user_dtype(dtype, "nanvar")
    computed, out_dtype = reductions.variance_dtypes(a.aval.dtype, wanted)
    a = convert(a, computed)
    if mean is None:
        center = reductions.nanmean(a, axis, dtype=computed, keepdims=True, where=where)
    else:
        center = convert(ensure("nanvar", mean), computed)
    centered = choose(isnan(a), 0, lax.sub(a, center))
    if dtypes.is_complex(computed):
        centered = lax.real(lax.mul(centered, lax.conj(centered)))
    else:
        centered = lax.square(centered)
    count = reductions.sum(ufuncs.logical_not(isnan(a)), axis, None, None, keepdims, None, where)
    divisor = count - ddof
    nothing = lax.le(divisor, over_mesh_of(const(divisor, 0), divisor))
    total = reductions.sum(centered, axis, None, None, keepdims, None, where)
    return convert(choose(nothing, math.nan, total) / choose(nothing, 1, divisor), out_dtype)


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = None,
    *,
    mean: Any = None,
) -> Any:
    """The standard deviation along ``axis`` of what is not NaN: the square root of ``nanvar``."""
    no_out("nanstd", out)
    return lax.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where, mean=mean))


def nanargmax(a: Any, axis: Any = None, out: Any = None, keepdims: bool | None = None) -> Any:
    """The index of the first largest element that is not NaN, -1 where all are."""
    no_out("nanargmax", out)
    return _nanargmax(a, _axis_or_none("nanargmax", a, axis), bool(keepdims))


def nanargmin(a: Any, axis: Any = None, out: Any = None, keepdims: bool | None = None) -> Any:
    """The index of the first smallest element that is not NaN, -1 where all are."""
    no_out("nanargmin", out)
    return _nanargmin(a, _axis_or_none("nanargmin", a, axis), bool(keepdims))


def _axis_or_none(name: str, a: Any, axis: Any) -> int | None:
    return None if axis is None else canonical_axis(axis, ensure(name, a).aval.ndim)


@inner_jit(static_argnames=("axis", "keepdims"))
def _nanargmax(a: Any, axis: int | None, keepdims: bool) -> Any:
    return _place_without_nan("nanargmax", reductions.argmax, -math.inf, a, axis, keepdims)


@inner_jit(static_argnames=("axis", "keepdims"))
def _nanargmin(a: Any, axis: int | None, keepdims: bool) -> Any:
    return _place_without_nan("nanargmin", reductions.argmin, math.inf, a, axis, keepdims)


def _place_without_nan(name: str, find: Any, worst: float, a: Any, axis: int | None, keepdims: bool) -> Any:
    a = ensure(name, a)
    if not dtypes.is_inexact(a.aval.dtype):
        return find(a, axis, keepdims=keepdims)
    missing = isnan(a)
    found = find(choose(missing, worst, a), axis, keepdims=keepdims)
    return choose(reductions.all(missing, axis, keepdims=keepdims), -1, found)


@inner_jit(static_argnames=("axis", "dtype"))
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Sums of the first elements along ``axis``, NaN counted as 0."""
    no_out("nancumsum", out)
    return _cumulative("nancumsum", reductions.SUM, lax.cumsum, a, axis, dtype)


@inner_jit(static_argnames=("axis", "dtype"))
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Products of the first elements along ``axis``, NaN counted as 1."""
    no_out("nancumprod", out)
    return _cumulative("nancumprod", reductions.PROD, lax.cumprod, a, axis, dtype)


def _cumulative(name: str, monoid: Any, scan: Any, a: Any, axis: Any, dtype: Any) -> Any:
    return reductions.cumulative(name, scan, a, axis, dtype, fill_nan=monoid.neutral)


# ------------------------------------------------------------------------------------------------ covariance


@inner_jit(static_argnames=("rowvar", "bias", "ddof", "dtype"))
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """The covariance matrix of the variables that are the rows of ``m`` (and of ``y``), or its columns.

    Args:
      m: a vector or a matrix of observations.
      y: more variables.
      rowvar: whether the variables are the rows.
      bias: whether to divide by the number of observations n instead of n - 1.
      ddof: what to take off that number in place of these.
      fweights: how often each observation counts, integers.
      aweights: how important each is.
      dtype: the type of the result.

    Raises:
      ValueError: arrays of more than two dimensions.
      TypeError: ``fweights`` that are no integers.
    """
    m, y = _variables(m, y, dtype)
    x = _in_rows(m, rowvar or m.aval.ndim < 2)
    if not x.aval.shape[0]:
        return lax.full((0, 0), 0, x.aval.dtype)
    if y is not None:
        second = _in_rows(y, rowvar or y.aval.ndim < 2 or y.aval.shape[0] == 1)
        x = concatenate((x, second), 0)
    ddof = (1 if bias is False or bias == 0 else 0) if ddof is None else ddof
    weights, importance = _observation_weights(fweights, aweights, x.aval.shape[1])
    average, total = _row_means(x, weights)
    if weights is None:
        factor: Any = x.aval.shape[1] - ddof
    elif ddof == 0:
        factor = total
    elif aweights is None:
        factor = total - ddof
    else:
        factor = total - ddof * reductions.sum(weights * importance) / total
    x = x - lax.expand_dims(average, (1,))
    turned = (x if weights is None else x * lax.expand_dims(weights, (0,))).T
    return ufuncs.true_divide(dot(x, ufuncs.conj(turned)), factor).squeeze()


def _row_means(x: Any, weights: Any) -> tuple[Any, Any]:
    """The weighted mean of each row, and the sum of the weights."""
    if weights is None:
        average, total = reductions.average(x, axis=1, returned=True)
    else:
        row = lax.reshape(weights, (1, weights.aval.size))
        total = reductions.sum(row, axis=1)
        average = reductions.sum(x * row, axis=1) / total
        total = broadcast_to(total, average.aval.shape)
    return average, total[0]


def _variables(m: Any, y: Any, dtype: Any) -> tuple[Any, Any]:
    given = [x for x in (m, y) if x is not None]
    check_array_like("cov", *given)
    arrays = [asarray(x) for x in given]
    if arrays[0].aval.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    if arrays[-1].aval.ndim > 2:
        raise ValueError("y has more than 2 dimensions")
    if dtype is not None:
        wanted = user_dtype(dtype, "cov")
        if not dtypes.is_inexact(wanted):
            raise ValueError(f"cov: dtype must be a subclass of float or complex; got {dtype=}")
        arrays = [convert(x, wanted) for x in arrays]
    arrays = promote_dtypes(*arrays, to=INEXACT)
    return arrays[0], arrays[1] if y is not None else None


def _in_rows(x: Any, rowvar: bool) -> Any:
    x = atleast_2d(x)
    return x if rowvar else x.T


def _observation_weights(fweights: Any, aweights: Any, count: int) -> tuple[Any, Any]:
    """The product of the weights, and those of importance; None for what is not given."""
    magnitudes: list[Any] = []
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            magnitudes.append(None)
            continue
        given = ensure("cov", given)
        if given.aval.ndim != 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if given.aval.shape[0] != count:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and not dtypes.is_integer(given.aval.dtype):
            raise TypeError("fweights must be integer.")
        magnitudes.append(ufuncs.abs(given))
    often, important = magnitudes
    if often is None or important is None:
        return important if often is None else often, important
    return ufuncs.multiply(often, important), important


@inner_jit(static_argnames=("rowvar", "dtype"))
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The correlations of the variables that are the rows of ``x`` (and of ``y``), or its columns; see ``cov``."""
    check_array_like("corrcoef", x)
    if dtype is not None and not dtypes.is_inexact(user_dtype(dtype, "corrcoef")):
        raise ValueError(f"corrcoef: dtype must be a subclass of float or complex; got {dtype=}")
    covariance = cov(x, y, rowvar, dtype=dtype)
    if not covariance.aval.ndim:
        return ufuncs.divide(covariance, covariance)
    spread = ufuncs.sqrt(ufuncs.real(diag(covariance)))
    found = covariance / lax.expand_dims(spread, (1,)) / lax.expand_dims(spread, (0,))
    if dtypes.is_complex(found.aval.dtype):
        return lax.complex(mathematics.clip(lax.real(found), -1, 1), mathematics.clip(lax.imag(found), -1, 1))
    return mathematics.clip(found, -1, 1)
