"""Bessel's functions ``bessel_i0e`` and ``bessel_i1e``, and Hurwitz' ``zeta``.

XLA has operations for the last two; the first is a sum of Chebyshev's polynomials, of ``x/2 - 2`` up to 8 and of
``32/x - 2`` above (C. Clenshaw, "Chebyshev series for mathematical functions", 1962).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.ops.convert import convert
from minijax.ops.elementwise import (
    abs_p,
    add_p,
    const,
    div_p,
    gt_p,
    integer_pow,
    le_p,
    mul_p,
    sign_p,
    sqrt_p,
    sub_p,
)
from minijax.ops.elementwise_numpy import scipy_special
from minijax.ops.nary import FLOAT, NO_DERIVATIVE, binary, unary
from minijax.ops.programs import call_program
from minijax.ops.select import select
from minijax.ops.shape import full_like
from minijax.ops.special.computed import filled, scalar

__all__ = ["bessel_i0e", "bessel_i0e_p", "bessel_i1e", "bessel_i1e_p", "zeta", "zeta_p"]

add: Callable[..., Any] = add_p.bind
sub: Callable[..., Any] = sub_p.bind
mul: Callable[..., Any] = mul_p.bind
div: Callable[..., Any] = div_p.bind

# Up to where the first sum holds, and how many terms either takes for so many bytes.
_MIDDLE = 8.0
_TERMS = {4: (18, 7), 8: (30, 25)}
# The sums are found from values at so many points.
_POINTS = 64


@functools.cache
def _coefficients() -> tuple[np.ndarray, np.ndarray]:
    """Those of ``i0e(x)`` for x up to 8, and of ``sqrt(x) i0e(x)`` above, for polynomials of half the argument."""
    import scipy.special

    t = np.cos(np.pi * (np.arange(_POINTS) + 0.5) / _POINTS)
    below = 2 * (2 * t + 2)
    above = 32 / (2 * t + 2)
    polynomials = np.cos(np.pi * np.outer(np.arange(_POINTS), np.arange(_POINTS) + 0.5) / _POINTS)
    first = polynomials @ scipy.special.i0e(below) * (2 / _POINTS)
    second = polynomials @ (np.sqrt(above) * scipy.special.i0e(above)) * (2 / _POINTS)
    return first, second


def _sum_at(t: Any, coefficients: np.ndarray) -> Any:
    """The sum of polynomials at ``t``, which is twice their argument, by Clenshaw's recurrence."""
    last, before, now = (filled(t, 0) for _ in range(3))
    for c in coefficients[::-1]:
        last, before = before, now
        now = add(sub(mul(t, before), last), filled(t, c))
    return mul(scalar(t, 0.5), sub(now, last))


def _bessel_i0e(x: Any) -> list[Any]:
    dtype = get_aval(x).dtype
    if dtype.itemsize < 4:
        (out,) = _bessel_i0e(convert(x, np.dtype(np.float32)))
        return [convert(out, dtype)]
    many = _TERMS[dtype.itemsize]
    first, second = (c[:n] for c, n in zip(_coefficients(), many, strict=True))
    x = abs_p.bind(x)
    below = _sum_at(sub(mul(scalar(x, 0.5), x), scalar(x, 2)), first)
    above = div(_sum_at(sub(div(scalar(x, 32), x), scalar(x, 2)), second), sqrt_p.bind(x))
    return [select(le_p.bind(x, filled(x, _MIDDLE)), below, above)]


def _bessel_i0e_lower(ctx: Any, avals: Any, out_avals: Any, x: str) -> str:
    return call_program(ctx, _bessel_i0e, [avals[0].update(weak_type=False)], [x])[0]


def _i0e_derivative(g: Any, ans: Any, x: Any) -> Any:
    return mul(g, sub(bessel_i1e_p.bind(x), mul(sign_p.bind(x), ans)))


def _i1e_derivative(g: Any, ans: Any, x: Any) -> Any:
    """Near 0, where its formula divides by x, it is 1/2."""
    dtype = get_aval(x).dtype
    eps = dtypes.finfo(dtype).eps
    size = abs_p.bind(x)
    far = gt_p.bind(convert(size, dtype) if get_aval(size).weak_type else size, const(x, float(eps)))
    safe = select(far, x, full_like(x, eps))
    slope = sub(bessel_i0e_p.bind(safe), mul(ans, add(sign_p.bind(safe), integer_pow(safe, -1))))
    return mul(g, select(far, slope, full_like(x, 0.5)))


_i1e = scipy_special("i1e")


def bessel_i1e_numpy(x: Any) -> Any:
    return np.where(x == 0, x, _i1e(x))


bessel_i0e, bessel_i0e_p = unary(
    "bessel_i0e", FLOAT, scipy_special("i0e"), _bessel_i0e_lower, _i0e_derivative,
    "The modified Bessel function of order 0, divided by ``exp(abs(x))``.",
)  # fmt: skip
bessel_i1e, bessel_i1e_p = unary(
    "bessel_i1e", FLOAT, bessel_i1e_numpy, "chlo.bessel_i1e", _i1e_derivative,
    "The modified Bessel function of order 1, divided by ``exp(abs(x))``.",
)  # fmt: skip


_zeta = scipy_special("zeta")


def zeta_numpy(x: Any, q: Any) -> Any:
    """At a pole infinite for even ``x``, where the term is of one sign on both sides of it; else nan, as in XLA.

    So are the limits at infinity, where XLA multiplies zeros by infinities.
    """
    pole = (q <= 0) & (q == np.floor(q))
    at_pole = np.where((x == np.floor(x)) & (x % 2 == 0), np.inf, np.nan)
    limit = (q == np.inf) & (x > 1) | (x == np.inf) & (q <= 1)
    out = np.where(pole & (x != 1), at_pole, np.where(limit, np.nan, _zeta(x, q)))
    return out.astype(x.dtype)


zeta, zeta_p = binary(
    "zeta", FLOAT, zeta_numpy, "chlo.zeta", NO_DERIVATIVE,
    "Hurwitz' zeta function: the sum of ``(y + k)**-x`` over k = 0, 1, 2, ...",
)  # fmt: skip
