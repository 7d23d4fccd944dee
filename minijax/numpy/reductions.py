"""NumPy's reductions and sorting.

As in JAX, small integers are summed as default integers, and half floats are summed as float32.
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
from minijax.core.avals import ShapedArray, sharding_of_type
from minijax.core.records import NamedTuple
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
from minijax.numpy.ufuncs import NUMERIC, alias, named
from minijax.ops.index import index_dtype
from minijax.ops.nary import reduce_sum_p

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "cumprod",
    "cumsum",
    "max",
    "mean",
    "min",
    "prod",
    "sort",
    "std",
    "sum",
    "var",
]

Axis = Any
Function = Callable[..., Any]
FLOAT32 = np.dtype(np.float32)


class Monoid(NamedTuple):
    """An associative operation: its reduction, its function of two arrays, and its neutral element for a dtype."""

    reduce: Any
    combine: Any
    neutral: Callable[[np.dtype], Any]


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
    """The default integer type for booleans and smaller integers. Other types are unchanged."""
    kind = dtypes.kind(dtype)
    if kind not in "biu":
        return dtype
    default = dtypes.default_dtype("i" if kind == "b" else kind, x64_enabled())
    return default if kind == "b" or dtypes.bits(dtype) < dtypes.bits(default) else dtype


def reduction_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """``axis`` as a tuple of axes counted from the front. ValueError for a repeated axis or one out of range."""
    axes = canonical_axes(static_axes(axis), ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def static_axes(axis: Axis) -> Any:
    """``axis`` as None, an integer or a tuple of integers. ConcretizationTypeError for a traced axis."""
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
    """Reduce the array ``a`` by ``monoid`` along ``axis``; ``where`` is the mask, ``initial`` the start value."""
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
    """The sum along ``axis``, in ``dtype``. By default integers are summed in at least the default integer type."""
    if axis is None and dtype is None and out is None and not keepdims and initial is None and where is None:
        # fast path for the common call
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
    """The product along ``axis``, in ``dtype``. By default integers are multiplied in at least the default type."""
    no_out("prod", out)
    (a,) = promote_dtypes(ensure("prod", a), to=NUMERIC)
    return reduction("prod", PROD, a, axis, keepdims, initial, where, dtype, promote_integers, dtype is None)


def _extremum(name: str, monoid: Monoid, doc: str) -> Function:
    def function(
        a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
    ) -> Any:
        no_out(name, out)
        return reduction(name, monoid, ensure(name, a), axis, keepdims, initial, where, has_identity=False)

    return named(function, name, f"The {doc} element along ``axis``. ValueError for an empty axis without ``initial``.")


max, min = _extremum("max", MAX, "largest"), _extremum("min", MIN, "smallest")
amax, amin = alias("amax", max), alias("amin", min)


def _quantifier(name: str, monoid: Monoid, doc: str) -> Function:
    def function(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, *, where: Any = None) -> Any:
        no_out(name, out)
        a = ensure(name, a)
        truth = convert(lax.real(a) if dtypes.is_complex(a.aval.dtype) else a, BOOL)
        return reduction(name, monoid, truth, axis, keepdims, None, where)

    return named(function, name, doc)


all = _quantifier("all", ALL, "Whether all elements along ``axis`` are nonzero.")
any = _quantifier("any", ANY, "Whether any element along ``axis`` is nonzero.")


def _count(a: Any, axis: Axis, keepdims: bool, where: Any, dtype: np.dtype) -> Any:
    """The number of elements in one reduction of ``a`` along ``axis``, as ``dtype``."""
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
    """The dtype in which a variance is computed, and the dtype of the result."""
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


_mean = mean  # under another name, because functions have a parameter ``mean``


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def _std(a: Any, axis: Axis, dtype: Any, correction: Any, keepdims: bool, where: Any, mean: Any) -> Any:
    return lax.sqrt(_var(a, axis, dtype, correction, keepdims, where, mean))


def _spread(name: str, computed: Function, doc: str) -> Function:
    def function(
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
        if dtype is not None:
            dtype = user_dtype(dtype, name)
            if computed is _std and not dtypes.is_inexact(dtype):
                raise ValueError(f"dtype argument to jnp.std must be inexact; got {dtype}")
        no_out(name, out)
        return computed(a, axis, dtype, _correction(ddof, correction), keepdims, where, mean)

    return named(function, name, doc)


var = _spread("var", _var, "The variance along ``axis``: the sum of squared deviations divided by (count - ``ddof``).")
std = _spread("std", _std, "The standard deviation along ``axis``: the square root of ``var``.")


def _position(name: str, find: Any, doc: str) -> Function:
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: Any = None) -> Any:
        no_out(name, out)
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

    return named(function, name, f"The index of the first {doc} element along ``axis``, or in the flattened array.")


argmax = _position("argmax", lax.argmax, "largest")
argmin = _position("argmin", lax.argmin, "smallest")


def _cumulative(name: str, reduce: Any, doc: str) -> Function:
    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        no_out(name, out)
        alone = type(a) in SCALARS  # JAX treats a Python number as a one-element array
        a = ensure(name, a)
        if axis is None or alone:
            a = lax.reshape(a, (a.aval.size,))
            axis = 0 if axis is None else axis
        axis = canonical_axis(axis, a.aval.ndim)
        if dtype is None:
            out_dtype = _promoted_integer(BOOL) if a.aval.dtype == BOOL else a.aval.dtype
        else:
            out_dtype = user_dtype(dtype, name)
        computed = out_dtype
        if out_dtype == BOOL:
            a = a if a.aval.dtype == BOOL else nonzero(a)
            computed = _promoted_integer(BOOL)
        return convert(reduce(convert(a, computed), axis), out_dtype)

    function = named(
        function, name, f"{doc} of the first 1, 2, ... elements along ``axis``, or of the flattened array."
    )
    return inner_jit(function, static_argnames=("axis", "dtype", "out"))  # type: ignore[no-any-return]


cumsum = _cumulative("cumsum", lax.cumsum, "Sums")
cumprod = _cumulative("cumprod", lax.cumprod, "Products")


def _sorting_operand(name: str, a: Any, axis: int | None, kind: Any, order: Any) -> tuple[Any, int]:
    a = ensure(name, a)
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")
    if axis is None:
        a, axis = lax.reshape(a, (a.aval.size,)), 0
    return a, canonical_axis(axis, a.aval.ndim)


@inner_jit(static_argnames=("axis", "kind", "order", "stable", "descending"))
def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: Any = None,
    order: Any = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """``a`` sorted along ``axis``, nan last. If ``axis`` is None, ``a`` is flattened first."""
    a, axis = _sorting_operand("sort", a, axis, kind, order)
    out = lax.sort(a, axis, stable)
    return lax.rev(out, (axis,)) if descending else out


@inner_jit(static_argnames=("axis", "kind", "order", "stable", "descending", "dtype"))
def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: Any = None,
    order: Any = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Any:
    """The indices that sort ``a`` along ``axis``. If ``axis`` is None, ``a`` is flattened first."""
    a, axis = _sorting_operand("argsort", a, axis, kind, order)
    shape = a.aval.shape
    if dtype is not None:
        out_dtype = user_dtype(dtype, "argsort")
    else:
        out_dtype = index_dtype((shape[axis],))
        if out_dtype == np.int32:
            out_dtype = dtypes.default_dtype("i", x64_enabled())
    places = lax.broadcasted_iota(out_dtype, shape, axis, out_sharding=sharding_of_type(a.aval))
    if descending and stable:
        # for a descending order, reverse before and after sorting: equal elements keep their order
        a, places = lax.rev(a, (axis,)), lax.rev(places, (axis,))
    _, places = lax.sort_key_val(a, places, axis, stable)
    return lax.rev(places, (axis,)) if descending else places
