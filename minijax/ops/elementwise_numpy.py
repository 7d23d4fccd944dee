"""NumPy rules of elementwise primitives for which NumPy's own function differs from XLA's.

The differences: integer division by zero, shifts beyond the width, signs of zeros, results for infinities and nan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.rules import Rule
from minijax.interpreters.evaluate import by_type


def scipy_special(name: str) -> Rule:
    """``scipy.special.<name>``, imported at the first call; the result has the first argument's dtype."""
    found: list[Any] = []

    def evaluate_special(*args: Any) -> Any:
        if not found:
            import scipy.special

            found.append(getattr(scipy.special, name))
        dtype = args[0].dtype
        if dtype.itemsize < 4:
            args = tuple(a.astype(np.float32) for a in args)
        out = found[0](*args)
        return out if out.dtype == dtype else out.astype(dtype)

    evaluate_special.__name__ = name
    return evaluate_special


def complex_dtype_of(dtype: np.dtype, *rest: np.dtype) -> np.dtype:
    """The complex dtype whose parts have ``dtype``; a complex ``dtype`` stays the same."""
    return np.dtype(np.complex128 if dtype.itemsize * (1 if dtypes.is_complex(dtype) else 2) == 16 else np.complex64)


def complex_numpy(x: Any, y: Any) -> Any:
    """``x + iy``, set part by part: a product with 1j would turn infinities into nan and lose the signs of zeros."""
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), complex_dtype_of(x.dtype))
    out.real, out.imag = x, y
    return out


def total_order(x: Any) -> Any:
    """Floats as integers in XLA's total order: -nan, -inf, ..., -0.0, 0.0, ..., inf, nan."""
    if not dtypes.is_float(x.dtype):
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    return bits ^ ((bits >> (8 * x.dtype.itemsize - 1)) & dtypes.iinfo(bits.dtype).max)


def in_total_order(ufunc: np.ufunc) -> Rule:
    """The comparison ``ufunc`` of floats in the order of ``total_order``."""
    return by_kind("f", lambda x, y: ufunc(total_order(x), total_order(y)), ufunc)


def _unsigned_zeros(x: Any, parts: str) -> Any:
    """The complex ``x`` with +0 for -0 in its real part (if ``parts`` has "r") and its imaginary part ("i")."""
    if not parts:
        return x
    out = np.array(x)
    for name, part in (("r", out.real), ("i", out.imag)):
        if name in parts:
            part += part.dtype.type(0)
    return out


def zero_signs(ufunc: Callable[..., Any], before: str, after: str = "") -> Rule:
    """``ufunc`` of complex numbers with XLA's signs of zeros. The sign of a zero decides the side of a branch cut.
    XLA's formulas turn -0 into +0 in some parts of the operand (``before``) and of the result (``after``): "r" is
    the real part, "i" the imaginary part. So sqrt(-1-0j) is 1j."""

    def with_zero_signs(x: Any) -> Any:
        return _unsigned_zeros(ufunc(_unsigned_zeros(x, before)), after)

    return by_kind("c", with_zero_signs, ufunc)


def by_kind(kinds: str, special: Rule, usual: Callable[..., Any]) -> Rule:
    """A NumPy rule: ``special`` for operands of ``kinds``, ``usual`` for others. It has the name of ``usual``."""

    def choose(x: Any, *others: Any) -> Rule:
        return special if dtypes.kind(x.dtype) in kinds else usual

    # displays show the name of the function that computes the result
    choose.__name__ = choose.__qualname__ = usual.__name__
    return by_type(choose)


def _cos_complex(x: Any) -> Any:
    out = np.cos(x)
    return np.where(x.real == 0, _unsigned_zeros(out, "i"), out)


cos_numpy = by_kind("c", _cos_complex, np.cos)
_atanh = zero_signs(np.arctanh, "r")


def _atan_complex(x: Any) -> Any:
    turned = _atanh(complex_numpy(-x.imag, x.real))
    return complex_numpy(turned.imag, -turned.real)


atan_numpy = by_kind("c", _atan_complex, np.arctan)


def _power(x: Any, y: Any) -> Any:
    return np.power(x, y.astype(x.dtype))


def _power_complex(x: Any, y: Any) -> Any:
    # in complex128, which seldom overflows: for small integer exponents NumPy multiplies, and for negative ones it
    # divides 1 by the product, which gives nan if the product has overflowed
    out = np.power(x.astype(np.complex128), y.astype(np.complex128))
    # log(0) has no direction that a complex exponent could rotate, so the power is nan
    return np.where((x == 0) & (y.imag != 0), complex(np.nan, np.nan), out).astype(x.dtype)


pow_numpy = by_kind("c", _power_complex, _power)


def _div_integers(x: Any, y: Any) -> Any:
    # XLA truncates towards zero; division by zero gives -1 (all bits set)
    zero = y == 0
    q = np.floor_divide(x, np.where(zero, 1, y).astype(x.dtype))
    r = x - q * y
    q = q + ((r != 0) & ((x < 0) != (y < 0)))
    return np.where(zero, np.array(-1).astype(x.dtype), q).astype(x.dtype)


div_numpy = by_kind("iu", _div_integers, np.divide)


def _rem_integers(x: Any, y: Any) -> Any:
    zero = y == 0
    return np.where(zero, x, np.fmod(x, np.where(zero, 1, y).astype(x.dtype))).astype(x.dtype)


rem_numpy = by_kind("iu", _rem_integers, np.fmod)


# Up to this many elements, counting nonzero elements is faster than comparing all elements with zero.
_FEW = 2048


# NumPy's public ``count_nonzero`` is a Python wrapper of this C function, which is ten times as fast for few numbers.
_count = getattr(getattr(getattr(np, "_core", np), "multiarray", np), "count_nonzero", np.count_nonzero)


def with_zeros(x: Any) -> bool:
    """Whether an element of ``x`` is zero."""
    return bool(_count(x) != x.size if x.size <= _FEW else _count(x == 0))


def _extremum(ufunc: np.ufunc, later: np.ufunc, at_zeros: Rule) -> Rule:
    """The extremum with XLA's choice between 0 and -0 (``at_zeros``) and XLA's order of complex numbers."""
    negative = bool(np.signbit(at_zeros(np.float32(0.0), np.float32(-0.0))))

    def of_complex(x: Any, y: Any) -> Any:
        first = np.where(x.real == y.real, later(x.imag, y.imag), later(x.real, y.real))
        return np.where(first, x, y)

    def with_number(x: Any, y: Any) -> Any:
        # an array and a number, as in relu: of two zeros the ufunc returns the second, so choose the order of operands
        number, array = (x, y) if y.ndim else (y, x)
        if number or (math.copysign(1.0, number) < 0) is negative:
            return ufunc(array, number)
        return ufunc(number, array)

    def of_floats(x: Any, y: Any) -> Any:
        out = ufunc(x, y)
        # ``with_zeros`` is written out here: the call would take 5% of the operation
        if out.size <= _FEW and _count(out) == out.size or not _count(out == 0):
            return out
        return np.where((x == 0) & (y == 0), at_zeros(x, y), out)

    def choose(x: Any, y: Any) -> Rule:
        kind = dtypes.kind(x.dtype)
        if kind != "f":
            return of_complex if kind == "c" else ufunc
        return with_number if (x.ndim == 0) != (y.ndim == 0) and x.dtype.itemsize >= 4 else of_floats

    choose.__name__ = choose.__qualname__ = ufunc.__name__
    return by_type(choose)


maximum_numpy = _extremum(np.maximum, np.greater, lambda x, y: x + y)
minimum_numpy = _extremum(np.minimum, np.less, lambda x, y: -((-x) - y))


def _abs_complex(x: Any) -> Any:
    # NumPy's absolute value of (inf, nan) is inf; here it is nan
    return np.where(np.isnan(x), x.real.dtype.type(np.nan), np.abs(x))


abs_numpy = by_kind("c", _abs_complex, np.abs)


def _sign_floats(x: Any) -> Any:
    out = np.sign(x)
    # only results of zero can have the wrong sign
    return np.copysign(out, x) if with_zeros(out) else out


def _sign_small_floats(x: Any) -> Any:
    # copy the sign to nan too: these types treat nan differently from float32
    return np.copysign(np.sign(x), x)


def _sign_complex(x: Any) -> Any:
    size = abs_numpy(x)
    zero = size == 0
    size = np.where(zero, size.dtype.type(1), size)
    return np.where(zero, x, complex_numpy(x.real / size, x.imag / size))


@by_type
def sign_numpy(x: Any) -> Rule:
    kind = dtypes.kind(x.dtype)
    if kind == "f":
        return _sign_floats if x.dtype.itemsize >= 4 else _sign_small_floats
    return _sign_complex if kind == "c" else np.sign


def nextafter_numpy(x: Any, y: Any) -> Any:
    # NumPy's function for small floats returns x if the operands are equal, even for zeros of different signs
    return np.where(x == y, y, np.nextafter(x, y)) if x.dtype.itemsize < 4 else np.nextafter(x, y)


def logistic_numpy(x: Any) -> Any:
    return (1 / (1 + np.exp(-x))).astype(x.dtype)


def rsqrt_numpy(x: Any) -> Any:
    return (1 / np.sqrt(x)).astype(x.dtype)


def _unsigned(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")


def _within(y: Any) -> Any:
    """Whether each shift amount is smaller than the bit width."""
    bits = 8 * y.dtype.itemsize
    return (y >= 0) & (y < bits)


def shift_left_numpy(x: Any, y: Any) -> Any:
    return np.where(_within(y), np.left_shift(x, np.where(_within(y), y, 0)), 0).astype(x.dtype)


def shift_right_arithmetic_numpy(x: Any, y: Any) -> Any:
    # unsigned numbers are read as signed ones: their highest bit counts as a sign bit
    word = np.dtype(f"i{x.dtype.itemsize}")
    shift = np.where(_within(y), y, 8 * x.dtype.itemsize - 1).astype(word)
    return np.right_shift(np.asarray(x).view(word), shift).view(x.dtype)


def shift_right_logical_numpy(x: Any, y: Any) -> Any:
    word = _unsigned(x.dtype)
    shifted = np.right_shift(np.asarray(x).view(word), np.where(_within(y), y, 0).astype(word))
    return np.where(_within(y), shifted, 0).astype(word).view(x.dtype)


def population_count_numpy(x: Any) -> Any:
    return np.bitwise_count(np.asarray(x).view(_unsigned(x.dtype))).astype(x.dtype)


def clz_numpy(x: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    word = np.asarray(x).view(_unsigned(x.dtype)).astype(np.uint64)
    count = np.zeros(word.shape, np.int64)
    for b in range(bits):
        count = np.where(word >> np.uint64(b) != 0, b + 1, count)
    return (bits - count).astype(x.dtype)


_gammaln, _psi, _zeta, _erfinv = (scipy_special(name) for name in ("gammaln", "digamma", "zeta", "erfinv"))


def erf_inv_numpy(x: Any) -> Any:
    return np.where(x == 0, x, _erfinv(x))


def lgamma_numpy(x: Any) -> Any:
    return np.where(x == -np.inf, x.dtype.type(np.inf), _gammaln(x))


def digamma_numpy(x: Any) -> Any:
    return np.where(x == 0, x.dtype.type(np.nan), _psi(x))


def polygamma_numpy(m: Any, x: Any) -> Any:
    """The derivatives of digamma by Hurwitz' zeta function; nan if the order ``m`` is invalid, as in XLA."""
    dtype = m.dtype
    if dtype.itemsize < 4:
        m, x = m.astype(np.float32), x.astype(np.float32)
    order = m + m.dtype.type(1)
    pole = (x <= 0) & (x == np.floor(x))
    zeta = np.where(pole, np.where(order % 2 == 0, np.inf, np.nan), np.where(x == np.inf, np.nan, _zeta(order, x)))
    # compute in the operands' dtype: a factorial that overflows gives infinity, or nan if zeta is 0
    zeta = np.where(np.abs(zeta) < np.finfo(m.dtype).tiny, 0, zeta).astype(m.dtype)
    out = np.where(m % 2 == 1, 1, -1) * np.exp(_gammaln(order)) * zeta
    out = np.where(m == 0, digamma_numpy(x), np.where((m > 0) & (m == np.floor(m)) & (order > m), out, np.nan))
    return out.astype(dtype)
