"""NumPy's elementwise functions that need several primitives."""

from __future__ import annotations

import builtins
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.core.lazy import HigherModule
from minijax.core.trace import Tracer
from minijax.numpy.promotion import (
    BOOL,
    check_array_like,
    choose,
    const,
    convert,
    ensure,
    promote,
    promote_dtypes,
    promote_shapes,
    public_names,
    static,
    type_of,
    typed_scalar,
    weak_const,
)
from minijax.numpy.ufuncs import (
    INEXACT,
    NUMERIC,
    alias,
    bitwise_and,
    equal,
    isfinite,
    isnan,
    logical_and,
    logical_or,
    not_equal,
    subtract,
)
from minijax.ops import elementwise as ew

_numpy = HigherModule("numpy")


def power(x1: Any, x2: Any, /) -> Any:
    """``x1 ** x2``; a concrete integer ``x2`` is static. TypeError if it is negative and ``x1`` has integers."""
    check_array_like("power", x1, x2)
    exponent = _static_integer(x2)
    if exponent is not None:
        (x1,) = promote_dtypes(x1, to=NUMERIC)
        return ew.integer_pow_p.bind(x1, y=exponent)
    (d1, _), (d2, _) = type_of(x1), type_of(x2)
    if dtypes.is_inexact(d1) and dtypes.is_integer(d2):
        return ew.pow_p.bind(*promote_shapes("power", *ensure("power", x1, x2)))
    x1, x2 = promote("power", x1, x2, to=NUMERIC)
    if dtypes.is_inexact(x1.aval.dtype):
        return ew.pow_p.bind(x1, x2)
    return _integer_power(x1, x2)


pow = alias("pow", power)


def _static_integer(x: Any) -> int | None:
    if isinstance(x, Tracer):
        x = x.to_concrete_value()
    if x is None or isinstance(x, builtins.float):
        return None
    try:
        return operator.index(x)
    except TypeError:
        return None


def _integer_power(x: Any, y: Any) -> Any:
    """Powers of integers by repeated squaring. Only the 6 lowest bits of ``y`` count. A negative power of 0 is 0."""
    zero, one = const(y, 0), const(y, 1)
    out = choose(lax.bitwise_and(lax.eq(x, zero), lax.ne(y, zero)), zero, one)
    for _ in range(6):
        out = choose(lax.bitwise_and(y, one), lax.mul(out, x), out)
        x = lax.mul(x, x)
        y = lax.shift_right_logical(y, one)
    return out


@inner_jit
def floor_divide(x1: Any, x2: Any, /) -> Any:
    """The quotient rounded towards minus infinity. TypeError for complex numbers."""
    x1, x2 = promote("floor_divide", x1, x2, to=NUMERIC)
    kind = dtypes.kind(x1.aval.dtype)
    if kind == "u":
        return lax.div(x1, x2)
    if kind == "c":
        raise TypeError("floor_divide does not support complex-valued inputs; divide their real or imaginary parts")
    if kind == "f":
        return _float_divmod(x1, x2)[0]
    quotient = lax.div(x1, x2)
    signs_differ = lax.ne(lax.sign(x1), lax.sign(x2))
    rest = lax.rem(x1, x2)
    inexact = logical_and(signs_differ, not_equal(rest, 0))
    return choose(inexact, subtract(quotient, 1), quotient)


def _float_divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    rest = lax.rem(x1, x2)
    numerator = choose(equal(x2, 0), x1, lax.sub(x1, rest))
    quotient = lax.div(numerator, x2)
    below = bitwise_and(not_equal(rest, 0), lax.ne(lax.sign(x2), lax.sign(rest)))
    rest = lax.select(below, lax.add(rest, x2), rest)
    quotient = lax.select(below, subtract(quotient, 1.0), quotient)
    return lax.round(quotient), rest


@inner_jit
def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """``(x1 // x2, x1 % x2)``."""
    x1, x2 = promote("divmod", x1, x2, to=NUMERIC)
    if dtypes.is_integer(x1.aval.dtype):
        return floor_divide(x1, x2), remainder(x1, x2)
    return _float_divmod(x1, x2)


@inner_jit
def remainder(x1: Any, x2: Any, /) -> Any:
    """The remainder of ``x1 // x2``, with the sign of ``x2``: Python's ``%``."""
    x1, x2 = promote("remainder", x1, x2, to=NUMERIC)
    if dtypes.is_integer(x2.aval.dtype):
        x2 = _nonzero_divisor(x2)
    rest = lax.rem(x1, x2)
    zero = const(x1, 0)
    inexact = lax.ne(rest, zero)
    signs_differ = lax.ne(lax.lt(rest, zero), lax.lt(x2, zero))
    return lax.select(lax.bitwise_and(signs_differ, inexact), lax.add(rest, x2), rest)


def _nonzero_divisor(x: Any) -> Any:
    """``x`` with 1 in place of 0: the remainder by this divisor is 0."""
    return choose(equal(x, 0), lax.full_like(x, 1), x)


def mod(x1: Any, x2: Any, /) -> Any:
    """The remainder of ``x1 // x2``, with the sign of ``x2``: Python's ``%``."""
    return remainder(x1, x2)


@inner_jit(static_argnames=("decimals", "out"))
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """``a`` rounded to ``decimals`` places, halves to even. Integers are returned unchanged."""
    a = ensure("round", a)
    decimals = static(decimals, "'decimals' argument of jnp.round")
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.round is not supported.")
    dtype = a.aval.dtype
    if dtypes.is_integer(dtype):
        if decimals < 0:
            raise NotImplementedError("integer np.round not implemented for decimals < 0")
        return a
    if decimals > np.log10(builtins.float(dtypes.finfo(dtype).max)):
        return a
    if dtypes.is_complex(dtype):
        return lax.complex(_round_float(lax.real(a), decimals), _round_float(lax.imag(a), decimals))
    return _round_float(a, decimals)


def _round_float(x: Any, decimals: int) -> Any:
    if decimals == 0:
        return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    dtype = x.aval.dtype
    half = dtype == np.float16
    if half:
        x = convert(x, np.dtype(np.float32))
    factor = weak_const(x, 10**decimals)
    out = lax.div(lax.round(lax.mul(x, factor), lax.RoundingMethod.TO_NEAREST_EVEN), factor)
    return convert(out, dtype) if half else out


@inner_jit(static_argnames=("decimals", "out"))
def around(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """``a`` rounded to ``decimals`` places, halves to even."""
    return round(a, decimals, out)


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: Any = None, fill_value: Any = None) -> Any:
    """Elements of ``x`` where ``condition`` is true, of ``y`` elsewhere; the three broadcast against each other.

    The dtype is the promoted one of ``x`` and ``y``. A ``condition`` that is not boolean is true where nonzero.
    With ``condition`` alone, the result is the indices where it is true: ``nonzero(condition, size=size,
    fill_value=fill_value)``. Under ``jit`` this form needs ``size``. Both ``x`` and ``y`` are computed and
    differentiated: an infinite derivative of the array that is not selected makes the gradient nan.

    TypeError for only one of ``x`` and ``y``, ValueError for shapes that do not broadcast, ConcretizationTypeError for
    a single traced argument without ``size``.

    >>> jnp.where(jnp.array([True, False]), jnp.arange(2), 9.)
    Array([0., 9.], dtype=float32, weak_type=True)
    """
    if x is None and y is None:
        return _numpy.nonzero(condition, size=size, fill_value=fill_value)
    check_array_like("where", condition, x, y)
    if size is not None or fill_value is not None:
        raise ValueError("size and fill_value arguments cannot be used in three-term where function.")
    return choose(condition, x, y)


@inner_jit
def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    """``arr`` with elements below ``min`` replaced by ``min``, and elements above ``max`` by ``max``."""
    if arr is None:
        raise ValueError("No input was provided to the clip function.")
    check_array_like("clip", arr)
    given = [x for x in (arr, min, max) if x is not None]
    if any(dtypes.is_complex(type_of(x)[0]) for x in given):
        raise ValueError(
            "Clip received a complex value either through the input or the min/max keywords. Complex values have no "
            "ordering and cannot be clipped. Clip jnp.real(x) or jnp.imag(x)."
        )
    arr = ensure("clip", arr)
    if min is not None:
        arr = lax.max(*promote("maximum", min, arr))
    if max is not None:
        arr = lax.min(*promote("minimum", max, arr))
    return arr


@inner_jit(static_argnames="equal_nan")
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether ``|a - b| <= atol + rtol * |b|``, element by element."""
    a, b = promote("isclose", a, b, to=INEXACT)
    part = dtypes.real_dtype(a.aval.dtype)
    rtol, atol = convert(rtol, part), convert(atol, part)
    both_nan = logical_and(isnan(a), isnan(b))
    finite = isfinite(b)
    distance = lax.abs(lax.sub(a, b))
    near = lax.le(distance, lax.add(atol, lax.mul(rtol, lax.abs(b))))
    out = logical_or(lax.eq(a, b), logical_and(finite, near))
    return logical_or(out, both_nan) if equal_nan else out


@inner_jit(static_argnames="equal_nan")
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether ``isclose`` holds everywhere, as a boolean scalar."""
    near = isclose(a, b, rtol, atol, equal_nan)
    return lax.reduce_and(near, tuple(range(near.aval.ndim)))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether the two arrays have the same shape and elements, as a boolean scalar."""
    a1, a2 = ensure("array_equal", a1), ensure("array_equal", a2)
    if a1.aval.shape != a2.aval.shape:
        return typed_scalar(False, BOOL)
    same = lax.eq(*promote("equal", a1, a2))
    if equal_nan:
        same = logical_or(same, logical_and(isnan(a1), isnan(a2)))
    return lax.reduce_and(same, tuple(range(same.aval.ndim)))


if not TYPE_CHECKING:  # mypy already sees all names without an underscore
    __all__ = public_names(globals())
