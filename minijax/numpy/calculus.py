"""Sums, differences, integrals and derivatives along the elements of an array, and interpolation between them."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.numpy import mathematics, reductions, ufuncs
from minijax.numpy.creation import asarray
from minijax.numpy.manipulation import concatenate, diff, moveaxis, ravel, reshape
from minijax.numpy.promotion import (
    canonical_axis,
    check_array_like,
    choose,
    const,
    ensure,
    index_tuple,
    promote_dtypes,
)
from minijax.numpy.searching import searchsorted
from minijax.numpy.ufuncs import INEXACT

__all__ = ["cumulative_prod", "cumulative_sum", "ediff1d", "gradient", "interp", "trapezoid", "unwrap"]

# ------------------------------------------------------------------------------------------------ cumulative


@inner_jit(static_argnames=("axis", "dtype"))
def _cumsum_with_promotion(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """As ``cumsum``, small integers in the default integer type."""
    return reductions.cumulative("cumulative_sum", lax.cumsum, a, axis, dtype, promote_integers=True)


def _cumulative(name: str, scan: Any, x: Any, axis: int | None, dtype: Any, include_initial: bool, start: int) -> Any:
    x = ensure(name, x)
    if not x.aval.ndim:
        raise ValueError("The input must be non-scalar to take a cumulative operation of it; make it an array of one.")
    if axis is None:
        if x.aval.ndim > 1:
            raise ValueError(
                f"The input array has rank {x.aval.ndim}, however axis was not set to an explicit value. The axis "
                "argument is only optional for one-dimensional arrays."
            )
        axis = 0
    axis = canonical_axis(axis, x.aval.ndim)
    out = scan(x, axis, dtype)
    if not include_initial:
        return out
    shape = (*x.aval.shape[:axis], 1, *x.aval.shape[axis + 1 :])
    return lax.concatenate([lax.full_like(out, start, shape=shape), out], axis)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Sums of the first 1, 2, ... elements along ``axis``; with ``include_initial`` that of none, 0, comes first.

    ValueError for a scalar, and for several axes of which none is chosen.
    """
    return _cumulative("cumulative_sum", _cumsum_with_promotion, x, axis, dtype, include_initial, 0)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Products of the first 1, 2, ... elements along ``axis``; with ``include_initial`` that of none, 1, comes first.

    ValueError for a scalar, and for several axes of which none is chosen.
    """
    product = functools.partial(reductions.cumulative, "cumulative_prod", lax.cumprod)
    return _cumulative("cumulative_prod", product, x, axis, dtype, include_initial, 1)


# ------------------------------------------------------------------------------------------------ differences


@inner_jit
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of neighbours in the flattened array, between ``to_begin`` and ``to_end``."""
    ary = ravel(ensure("ediff1d", ary))
    found = lax.sub(ary[1:], ary[:-1])
    if to_begin is not None:
        found = concatenate((ravel(asarray(to_begin, dtype=ary.aval.dtype)), found))
    if to_end is not None:
        found = concatenate((found, ravel(asarray(to_end, dtype=ary.aval.dtype))))
    return found


@inner_jit(static_argnames=("axis", "edge_order"))
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = None) -> Any:
    """The derivative along each of the axes, by differences of neighbours, of second order inside.

    Args:
      f: the values.
      *varargs: the distance of neighbours, for all axes or for each; or their coordinates, vectors.
      axis: an axis, several, or None for all. The result is an array for one axis, otherwise a list.
      edge_order: not supported.

    Raises:
      ValueError: less than two elements along an axis, coordinates that do not fit.
      TypeError: other numbers of distances than axes.
    """
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to jnp.gradient is not supported.")
    check_array_like("gradient", f, *varargs)
    f, *spacings = promote_dtypes(f, *varargs, to=INEXACT)
    ndim = f.aval.ndim
    axes = tuple(range(ndim)) if axis is None else tuple(canonical_axis(a, ndim) for a in index_tuple(axis))
    if min([size for d, size in enumerate(f.aval.shape) if d in axes], default=2) < 2:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2 elements are required."
        )
    if not axes:
        return []
    if not spacings:
        spacings = [1.0] * len(axes)
    elif len(spacings) == 1:
        spacings = spacings * len(axes)
    elif len(spacings) != len(axes):
        raise TypeError(f"Invalid number of spacing arguments {len(spacings)} for axis={axes}")
    found = [_along(f, h, a) for h, a in zip(spacings, axes, strict=True)]
    return found[0] if len(axes) == 1 else found


def _along(f: Any, h: Any, axis: int) -> Any:
    if isinstance(h, float) or not h.aval.ndim:
        return _evenly_spaced(f, h, axis)
    if h.aval.ndim != 1 or h.aval.shape[0] != f.aval.shape[axis]:
        raise ValueError("Spacing arrays must be vectors as long as the axis that they belong to.")
    return _unevenly_spaced(f, h, axis)


def _part(x: Any, start: int, stop: int | None, axis: int) -> Any:
    size = x.aval.shape[axis]
    start, stop, _ = slice(start, stop).indices(size)
    return lax.slice_in_dim(x, start, max(start, stop), axis=axis)


def _first_and_last(f: Any, axis: int) -> tuple[Any, Any]:
    first = lax.sub(_part(f, 1, 2, axis), _part(f, 0, 1, axis))
    return first, lax.sub(_part(f, -1, None, axis), _part(f, -2, -1, axis))


def _evenly_spaced(f: Any, h: Any, axis: int) -> Any:
    first, last = _first_and_last(f, axis)
    inner = ufuncs.multiply(lax.sub(_part(f, 2, None, axis), _part(f, 0, -2, axis)), 0.5)
    inner = ufuncs.divide(inner, h)
    last = ufuncs.divide(last, h)
    return lax.concatenate([ufuncs.divide(first, h), inner, last], axis)


def _unevenly_spaced(f: Any, x: Any, axis: int) -> Any:
    """The derivative of the parabola through each three neighbours; at the ends, of the line through two."""
    first, last = _first_and_last(f, axis)
    if f.aval.ndim > 1:
        shape = [1] * f.aval.ndim
        shape[axis] = -1
        x, at = reshape(x, shape), axis
    else:
        at = 0
    first = lax.div(first, lax.sub(_part(x, 1, 2, at), _part(x, 0, 1, at)))
    last = lax.div(last, lax.sub(_part(x, -1, None, at), _part(x, -2, -1, at)))
    before = lax.sub(_part(x, 1, -1, at), _part(x, 0, -2, at))
    after = lax.sub(_part(x, 2, None, at), _part(x, 1, -1, at))
    low = lax.div(lax.neg(after), lax.mul(before, lax.add(before, after)))
    middle = lax.div(lax.sub(after, before), lax.mul(before, after))
    high = lax.div(before, lax.mul(after, lax.add(before, after)))
    inner = lax.mul(low, _part(f, 0, -2, axis))
    inner = lax.add(inner, lax.mul(middle, _part(f, 1, -1, axis)))
    inner = lax.add(inner, lax.mul(high, _part(f, 2, None, axis)))
    return lax.concatenate([first, inner, last], axis)


# ------------------------------------------------------------------------------------------------ integrals


@inner_jit(static_argnames="axis")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along ``axis`` by the trapezoidal rule, at the places ``x``, or ``dx`` apart."""
    distances: Any
    if x is None:
        check_array_like("trapezoid", y)
        (y,) = promote_dtypes(y, to=INEXACT)
        distances = dx
    else:
        check_array_like("trapezoid", y, x)
        y, x = promote_dtypes(y, x, to=INEXACT)
        distances = diff(x) if x.aval.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
    y = moveaxis(y, axis, -1)
    if x is None or distances.aval.ndim > 1 and distances.aval.shape[-1] == 1:
        # the sum, less what the two ends count too much
        if x is not None:
            distances = lax.squeeze(distances, (distances.aval.ndim - 1,))
        total = reductions.sum(y, -1) - 0.5 * (y[..., 0] + y[..., -1])
        return ufuncs.multiply(distances, total)
    return 0.5 * reductions.sum(distances * (y[..., 1:] + y[..., :-1]), -1)


@inner_jit(static_argnames="axis")
def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Any:
    """``p`` along ``axis`` with whole periods added, so that no neighbours are more than half a period apart.

    Where they are apart by at least ``discont`` only, if that is more than half a period.
    """
    p, period = promote_dtypes(*ensure("unwrap", p, period)) if type(period) is not float else _with_period(p, period)
    if dtypes.is_complex(p.aval.dtype):
        raise ValueError("jnp.unwrap does not support complex inputs: unwrap jnp.angle(p).")
    if not p.aval.shape[axis]:
        return p
    integral = dtypes.is_integer(p.aval.dtype)
    if discont is None:
        discont = ufuncs.true_divide(period, 2)
    half = mathematics.floor_divide(period, 2) if integral else ufuncs.true_divide(period, 2)
    steps = diff(p, axis=axis)
    rest = mathematics.remainder(steps + half, period) - half
    rest = choose(ufuncs.logical_and(rest == -half, steps > 0), half, rest)
    corrections = choose(ufuncs.abs(steps) < discont, 0, rest - steps)
    first = lax.slice_in_dim(p, 0, 1, axis=axis)
    others = lax.slice_in_dim(p, 1, None, axis=axis)
    return concatenate((first, others + reductions.cumsum(corrections, axis)), axis)


def _with_period(p: Any, period: float) -> tuple[Any, Any]:
    """``p`` as floats, and the period that nobody gave as a constant of their type."""
    p, _ = promote_dtypes(ensure("unwrap", p), period)
    return p, const(p, period)


# ------------------------------------------------------------------------------------------------ interpolation


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """The values at ``x`` of the function that is linear between the points ``(xp, fp)``.

    Args:
      x: where to evaluate it.
      xp, fp: vectors; ``xp`` is to be rising.
      left, right: the values outside, by default the first and last of ``fp``; 'extrapolate' for those of the lines.
      period: the period of the function, if it has one: then ``xp`` need not be rising.

    Raises:
      ValueError: ``xp`` and ``fp`` are not vectors of one length, a period of 0, an unknown string.
    """
    flags = tuple(each if isinstance(each, str) else None for each in (left, right))
    if any(flag not in (None, "extrapolate") for flag in flags):
        raise ValueError(f"jnp.interp: the only valid string value of `left` and `right` is 'extrapolate', got {flags}")
    given = [None if isinstance(each, str) else each for each in (left, right)]
    return _interp(x, xp, fp, given[0], given[1], period, extrapolate=(flags[0] is not None, flags[1] is not None))


@inner_jit(static_argnames="extrapolate")
def _interp(x: Any, xp: Any, fp: Any, left: Any, right: Any, period: Any, extrapolate: tuple[bool, bool]) -> Any:
    check_array_like("interp", x, xp, fp)
    if np.shape(xp) != np.shape(fp) or np.ndim(xp) != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    x, xp = promote_dtypes(*ensure("interp", x, xp), to=INEXACT)
    (fp,) = promote_dtypes(ensure("interp", fp), to=INEXACT)
    if dtypes.is_complex(x.aval.dtype):
        raise ValueError("interp: complex x are not supported: there is no line that they lie on.")
    if period is not None:
        x, xp, fp = _of_one_period(x, xp, fp, period)
    i = mathematics.clip(searchsorted(xp, x, side="right"), 1, xp.aval.shape[0] - 1)
    rise = fp[i] - fp[i - 1]
    width = xp[i] - xp[i - 1]
    offset = x - xp[i - 1]
    same = lax.le(lax.abs(width), const(width, dtypes.finfo(xp.aval.dtype).eps ** 2))
    found = choose(same, fp[i - 1], fp[i - 1] + (offset / choose(same, 1, width)) * rise)
    if not extrapolate[0]:
        left = fp[0] if left is None else left
        found = found if period is not None else choose(x < xp[0], left, found)
    if not extrapolate[1]:
        right = fp[-1] if right is None else right
        found = found if period is not None else choose(x > xp[-1], right, found)
    return found


def _of_one_period(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """The arguments within one period, and the points with one more at each end."""
    if np.ndim(period):
        raise ValueError(f"period must be a scalar; got {period}")
    period = ufuncs.abs(period)
    x, xp = x % period, xp % period
    xp, fp = lax.sort_key_val(xp, fp)
    xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, concatenate([fp[-1:], fp, fp[:1]])
