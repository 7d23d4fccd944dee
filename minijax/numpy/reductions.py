"""NumPy's reductions: sums, extremes, statistics, cumulative sums.

Like JAX: small integers are summed in the default integer type, half precision floats in float32.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.trace import Tracer
from minijax.numpy.promotion import (
    BOOL,
    SCALARS,
    broadcast_to,
    canonical_axes,
    canonical_axis,
    checked_bool,
    choose,
    const,
    convert,
    ensure,
    no_out,
    nonzero,
    promote_dtypes,
    static,
    typed_scalar,
    user_dtype,
)
from minijax.numpy.ufuncs import NUMERIC, isnan
from minijax.ops.nary import reduce_sum_p

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

Axis = Any
FLOAT32 = np.dtype(np.float32)


class Monoid:
    """An associative operation: its reduction, its function of two arrays, its neutral element by dtype."""

    def __init__(self, reduce: Any, combine: Any, neutral: Callable[[np.dtype], Any]) -> None:
        self.reduce = reduce
        self.combine = combine
        self.neutral = neutral


SUM = Monoid(lax.reduce_sum, lax.add, lambda dtype: 0)
PROD = Monoid(lax.reduce_prod, lax.mul, lambda dtype: 1)
MAX = Monoid(lax.reduce_max, lax.max, dtypes.min_value)
MIN = Monoid(lax.reduce_min, lax.min, dtypes.max_value)
ALL = Monoid(lax.reduce_and, lax.bitwise_and, lambda dtype: True)
ANY = Monoid(lax.reduce_or, lax.bitwise_or, lambda dtype: False)


def _is_half(dtype: np.dtype) -> bool:
    return dtype.itemsize == 2 and dtypes.is_float(dtype)


def _widened(dtype: np.dtype) -> np.dtype:
    return FLOAT32 if _is_half(dtype) else dtype


def _promoted_integer(dtype: np.dtype) -> np.dtype:
    """The default integer type for booleans and smaller integers, other types unchanged."""
    kind = dtypes.kind(dtype)
    if kind not in "biu":
        return dtype
    default = dtypes.default_dtype("i" if kind == "b" else kind, x64_enabled())
    return default if kind == "b" or dtypes.bits(dtype) < dtypes.bits(default) else dtype


def reduction_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes that ``axis`` means. ValueError for one given twice or out of range."""
    axes = canonical_axes(static_axes(axis), ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def static_axes(axis: Axis) -> Any:
    """``axis`` as None, an integer or a tuple of integers. ConcretizationTypeError for a traced one."""
    if axis is None or type(axis) is int:
        return axis
    if isinstance(axis, Tracer):
        return static(axis, "The axis argument must be known statically.")
    return tuple(static(a, "The axis argument must be known statically.") for a in np.atleast_1d(axis))


def reduction(
    name: str,
    monoid: Monoid,
    a: Any,
    axis: Axis,
    keepdims: bool,
    initial: Any,
    where: Any,
    dtype: Any = None,
    promote_integers: bool = False,
    widen: bool = False,
    has_identity: bool = True,
) -> Any:
    """The array ``a`` reduced by ``monoid`` along ``axis``, in the type and with the mask and start that JAX uses."""
    where = checked_bool(name, where)
    if initial is None and where is not None and not has_identity:
        raise ValueError(
            f"reduction operation {name} does not have an identity, so to use a where mask one has to specify 'initial'"
        )
    aval = a.aval
    axes = reduction_axes(axis, aval.ndim)
    if initial is None and not has_identity and builtins.any(aval.shape[d] == 0 for d in axes):
        raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    if dtype is None:
        out_dtype = _promoted_integer(aval.dtype) if promote_integers else aval.dtype
    else:
        out_dtype = user_dtype(dtype, name)
    dtype = _widened(out_dtype) if widen else out_dtype
    a = convert(a, dtype)
    if where is not None:
        a = choose(where, a, typed_scalar(monoid.neutral(dtype), dtype))
    if dtype == BOOL and monoid in (SUM, PROD):
        monoid = ANY if monoid is SUM else ALL
    out = monoid.reduce(a, axes)
    if initial is not None:
        start = convert(initial, dtype)
        if start.aval.shape:
            raise ValueError(f"initial value must be a scalar. Got array of shape {start.aval.shape}")
        out = monoid.combine(start, out)
    if keepdims:
        out = lax.expand_dims(out, axes)
    return convert(out, out_dtype)


# ------------------------------------------------------------------------------------ sums and products


def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The sum along ``axis``, in ``dtype``; of integers, in the default integer type or wider."""
    if axis is None and dtype is None and out is None and not keepdims and initial is None and where is None:
        # the common call, at once
        aval = getattr(a, "aval", None)
        if type(aval) is ShapedArray and aval.dtype.kind in "fc" and aval.dtype.itemsize >= 4 and not aval.weak_type:
            return reduce_sum_p.bind(a, axes=tuple(range(aval.ndim)), out_sharding=None)
    no_out("sum", out)
    (a,) = promote_dtypes(ensure("sum", a), to=NUMERIC)
    return reduction("sum", SUM, a, axis, keepdims, initial, where, dtype, promote_integers, dtype is None)


def prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The product along ``axis``, in ``dtype``; of integers, in the default integer type or wider."""
    no_out("prod", out)
    (a,) = promote_dtypes(ensure("prod", a), to=NUMERIC)
    return reduction("prod", PROD, a, axis, keepdims, initial, where, dtype, promote_integers, dtype is None)


def max(
    a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The largest element along ``axis``. ValueError for an empty axis without ``initial``."""
    no_out("max", out)
    return reduction("max", MAX, ensure("max", a), axis, keepdims, initial, where, has_identity=False)


def min(
    a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The smallest element along ``axis``. ValueError for an empty axis without ``initial``."""
    no_out("min", out)
    return reduction("min", MIN, ensure("min", a), axis, keepdims, initial, where, has_identity=False)


def amax(
    a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The largest element along ``axis``."""
    return max(a, axis, out, keepdims, initial, where)


def amin(
    a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The smallest element along ``axis``."""
    return min(a, axis, out, keepdims, initial, where)


def _truth(name: str, a: Any) -> Any:
    a = ensure(name, a)
    return convert(lax.real(a) if dtypes.is_complex(a.aval.dtype) else a, BOOL)


def all(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """Whether all elements along ``axis`` are nonzero."""
    no_out("all", out)
    return reduction("all", ALL, _truth("all", a), axis, keepdims, None, where)


def any(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """Whether any element along ``axis`` is nonzero."""
    no_out("any", out)
    return reduction("any", ANY, _truth("any", a), axis, keepdims, None, where)


# ------------------------------------------------------------------------------------ means


def _count(a: Any, axis: Axis, keepdims: bool, where: Any, dtype: np.dtype) -> Any:
    """How many elements a reduction of ``a`` along ``axis`` takes in, as ``dtype``."""
    if where is not None:
        return sum(broadcast_to(where, a.aval.shape), axis, dtype, None, keepdims)
    return typed_scalar(math.prod(a.aval.shape[d] for d in reduction_axes(axis, a.aval.ndim)), dtype)


def mean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """The mean along ``axis``, as a float."""
    a = ensure("mean", a)
    where = checked_bool("mean", where)
    no_out("mean", out)
    out_dtype = dtypes.to_inexact_dtype(a.aval.dtype) if dtype is None else user_dtype(dtype, "mean")
    computed = _widened(out_dtype) if dtype is None else out_dtype
    count = _count(a, axis, keepdims, where, computed)
    return convert(lax.div(sum(a, axis, computed, None, keepdims, None, where), count), out_dtype)


def variance_dtypes(a_dtype: np.dtype, dtype: Any) -> tuple[np.dtype, np.dtype]:
    """The types to compute a variance in and to return it in."""
    if dtype is not None:
        if dtypes.is_complex(a_dtype) and not dtypes.is_complex(dtype):
            raise ValueError("jax.numpy.var does not support real dtype parameters for arrays of complex values")
        return _widened(dtype), dtype
    if not dtypes.is_inexact(a_dtype):
        dtype = dtypes.to_inexact_dtype(a_dtype)
        return dtype, dtype
    return _widened(a_dtype), dtypes.real_dtype(a_dtype)


def _correction(ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if not isinstance(ddof, int) or ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """The variance along ``axis``: the mean of squared deviations, with ``ddof`` taken off the count."""
    no_out("var", out)
    if dtype is not None:
        dtype = user_dtype(dtype, "var")
    return _var(a, axis, dtype, _correction(ddof, correction), keepdims, where, mean)


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def _var(a: Any, axis: Axis, dtype: Any, correction: Any, keepdims: bool, where: Any, mean: Any) -> Any:
    a = ensure("var", a)
    where = checked_bool("var", where)
    computed, out_dtype = variance_dtypes(a.aval.dtype, dtype)
    a = convert(a, computed)
    if mean is None:
        center = _mean(a, axis, computed, None, True, where=where)
    else:
        center = convert(ensure("var", mean), computed)
    centered = lax.sub(a, center)
    if dtypes.is_complex(computed):
        centered = lax.real(lax.mul(centered, lax.conj(centered)))
        computed = centered.aval.dtype
    else:
        centered = lax.square(centered)
    count = lax.sub(_count(a, axis, keepdims, where, computed), convert(correction, computed))
    found = convert(lax.div(sum(centered, axis, computed, None, keepdims, None, where), count), out_dtype)
    return choose(lax.gt(count, const(count, 0)), found, math.nan)


_mean = mean  # for functions with a parameter of that name


def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """The standard deviation along ``axis``: the square root of ``var``."""
    if dtype is not None:
        dtype = user_dtype(dtype, "std")
        if not dtypes.is_inexact(dtype):
            raise ValueError(f"dtype argument to jnp.std must be inexact; got {dtype}")
    no_out("std", out)
    return _std(a, axis, dtype, _correction(ddof, correction), keepdims, where, mean)


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def _std(a: Any, axis: Axis, dtype: Any, correction: Any, keepdims: bool, where: Any, mean: Any) -> Any:
    return lax.sqrt(_var(a, axis, dtype, correction, keepdims, where, mean))


# ------------------------------------------------------------------------------------ positions


def _position(name: str, find: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    a = ensure(name, a)
    if axis is None:
        axes = tuple(range(a.aval.ndim))
        a, axis = lax.reshape(a, (a.aval.size,)), 0
    else:
        axis = canonical_axis(static(axis, f"'axis' argument of jnp.{name}"), a.aval.ndim)
        axes = (axis,)
    if a.aval.shape[axis] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    found = find(a, axis, dtypes.default_int_dtype(x64_enabled()))
    return lax.expand_dims(found, axes) if keepdims else found


def argmax(a: Any, axis: Any = None, out: Any = None, keepdims: Any = None) -> Any:
    """The index of the first largest element along ``axis``, or in the flattened array."""
    no_out("argmax", out)
    return _position("argmax", lax.argmax, a, axis, keepdims)


def argmin(a: Any, axis: Any = None, out: Any = None, keepdims: Any = None) -> Any:
    """The index of the first smallest element along ``axis``, or in the flattened array."""
    no_out("argmin", out)
    return _position("argmin", lax.argmin, a, axis, keepdims)


# ------------------------------------------------------------------------------------ cumulative


def cumulative(
    name: str, reduce: Any, a: Any, axis: Any, dtype: Any, fill_nan: Any = None, promote_integers: bool = False
) -> Any:
    """``reduce`` (``lax.cumsum``, say) along ``axis``; NaN is replaced by ``fill_nan(dtype)`` if that is given.

    With ``promote_integers``, small integers are reduced in the default integer type, as booleans always are.
    """
    alone = type(a) in SCALARS  # JAX takes a Python number for an array of one
    a = ensure(name, a)
    if axis is None or alone:
        a = lax.reshape(a, (a.aval.size,))
        axis = 0 if axis is None else axis
    axis = canonical_axis(axis, a.aval.ndim)
    if fill_nan is not None and dtypes.is_inexact(a.aval.dtype):
        a = choose(isnan(a), typed_scalar(fill_nan(a.aval.dtype), a.aval.dtype), a)
    if dtype is None:
        promoted = promote_integers or a.aval.dtype == BOOL
        out_dtype = _promoted_integer(a.aval.dtype) if promoted else a.aval.dtype
    else:
        out_dtype = user_dtype(dtype, name)
    computed = out_dtype
    if out_dtype == BOOL:
        a = a if a.aval.dtype == BOOL else nonzero(a)
        computed = _promoted_integer(BOOL)
    return convert(reduce(convert(a, computed), axis), out_dtype)


@inner_jit(static_argnames=("axis", "dtype", "out"))
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Sums of the first 1, 2, ... elements along ``axis``, or of the flattened array."""
    no_out("cumsum", out)
    return cumulative("cumsum", lax.cumsum, a, axis, dtype)


@inner_jit(static_argnames=("axis", "dtype", "out"))
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Products of the first 1, 2, ... elements along ``axis``, or of the flattened array."""
    no_out("cumprod", out)
    return cumulative("cumprod", lax.cumprod, a, axis, dtype)
