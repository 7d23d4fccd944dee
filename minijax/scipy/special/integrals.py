"""Functions that Cephes (Moshier 1989) computes by quotients of polynomials: Dawson's integral and Spence's function.

Besides them the scaled complementary error function and Bernoulli's numbers.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from minijax import lax
from minijax import numpy as jnp
from minijax.api.custom_jvp import custom_jvp
from minijax.core import dtypes
from minijax.core.avals import dtype_name
from minijax.core.lacking import borrow
from minijax.numpy.promotion import promote, refuse_complex
from minijax.numpy.ufuncs import INEXACT

__all__ = ["bernoulli", "dawsn", "erfcx", "spence"]

# Coefficients of Cephes' dawsn.c and spence.c, the highest first: numerators and denominators.
_DAWSN_NEAR_TOP = (
    1.1368149897175597e-11,
    8.492622676674738e-10,
    1.9443420417555306e-08,
    9.531517412544844e-07,
    3.078283098749132e-06,
    0.00035251336852028877,
    -0.0008501498467244109,
    0.04226182230055466,
    -0.09174803717734524,
    1.0,
)
_DAWSN_NEAR_BOTTOM = (
    2.403720730667626e-11,
    1.488646813684934e-09,
    5.212652810105416e-08,
    1.2725847827318697e-06,
    2.324902498207895e-05,
    0.00032552474182605793,
    0.003488058146571626,
    0.027944853119882897,
    0.15887424196012057,
    0.5749186294893204,
    1.0,
)
_DAWSN_MIDDLE_TOP = (
    0.5089551564179009,
    -0.24475441814269785,
    0.09415123353035344,
    -0.021871125514203903,
    0.003662076123295692,
    -0.0004232091144603888,
    3.5964130479389666e-05,
    -2.1464035171996896e-06,
    9.100107800763914e-08,
    -2.4027452082825098e-09,
    3.592333854409284e-11,
)
_DAWSN_MIDDLE_BOTTOM = (
    1.0,
    -0.6318398698733682,
    0.2367067882282487,
    -0.053180636700322324,
    0.008480417185862954,
    -0.0009479967684866654,
    7.810255929445524e-05,
    -4.558751532524426e-06,
    1.8910035811142186e-07,
    -4.913246913319206e-09,
    7.184664032357345e-11,
)
_DAWSN_FAR_TOP = (
    -0.5905928605347732,
    0.6292352427243688,
    -0.17285897538038814,
    0.016483704782518965,
    -0.0004868276130204627,
)
_DAWSN_FAR_BOTTOM = (
    1.0,
    -2.698200571975449,
    1.7327079904594784,
    -0.3937085822819395,
    0.03442789240412334,
    -0.0009736552260409412,
)
_SPENCE_TOP = (
    4.6512858607399003e-05,
    0.007315890452380947,
    0.13384763957830903,
    0.8796913117545303,
    2.7114985119655346,
    4.256971560081218,
    3.297713409852251,
    1.0,
)
_SPENCE_BOTTOM = (
    0.0006909904889125533,
    0.02540437639325444,
    0.2829748606025681,
    1.4117259775183106,
    3.6380053334513707,
    5.03278880143317,
    3.547713409852251,
    1.0,
)
# where Dawson's integral changes its formula
_NEAR, _MIDDLE = 3.25, 6.25


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    return jnp.polyval(np.array(coefficients, x.dtype), x)


def _widened(x: Any) -> Any:
    """``x`` in the type in which it is computed: float32 for floats of half its size and less."""
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _or_one(condition: Any, x: Any) -> Any:
    """``x``, or 1 where the formula it is for is not used: what is not used is to have no infinite derivative."""
    return lax.select(condition, x, jnp.full_like(x, 1))


# -------------------------------------------------------------------------------- Dawson's integral


def dawsn(x: Any) -> Any:
    """Dawson's integral: that of exp(t**2 - x**2) over t from 0 to x. ValueError for complex numbers."""
    (x,) = promote("dawsn", *refuse_complex("dawsn", x), to=INEXACT)
    return _dawsn(x)


@custom_jvp
def _dawsn(x: Any) -> Any:
    narrow, x = x.dtype, _widened(x)
    sign, size = jnp.sign(x), jnp.abs(x)
    inverse = 1.0 / jnp.square(size)
    near = _or_one(size < _NEAR, size)
    square = jnp.square(near)
    of_near = near * _polynomial(_DAWSN_NEAR_TOP, square) / _polynomial(_DAWSN_NEAR_BOTTOM, square)

    part = _or_one((size >= _NEAR) & (size < _MIDDLE), inverse)
    half = 0.5 / _or_one((size >= _NEAR) & (size < _MIDDLE), size)
    quotient = part * _polynomial(_DAWSN_MIDDLE_TOP, part) / _polynomial(_DAWSN_MIDDLE_BOTTOM, part)
    of_middle = half * (1.0 + quotient)

    part = _or_one(size >= _MIDDLE, inverse)
    half = 0.5 / _or_one(size >= _MIDDLE, size)
    quotient = part * _polynomial(_DAWSN_FAR_TOP, part) / _polynomial(_DAWSN_FAR_BOTTOM, part)
    of_far = half * (1.0 + quotient)
    is_near, is_middle = size < _NEAR, size < _MIDDLE
    return (sign * lax.select(is_near, of_near, lax.select(is_middle, of_middle, of_far))).astype(narrow)


_dawsn.defjvps(lambda g, ans, x: g * (1 - 2 * x * ans))


# -------------------------------------------------------------------------------- the error function


def erfcx(x: Any) -> Any:
    """exp(x**2) * erfc(x), without overflow. That of complex numbers is borrowed from JAX."""
    (x,) = promote("erfcx", x, to=INEXACT)
    if dtypes.is_complex(x.dtype):
        return borrow("minijax.scipy.special", "erfcx")(x)
    return _erfcx(x)


@custom_jvp
def _erfcx(x: Any) -> Any:
    narrow, x = x.dtype, _widened(x)
    # from here on exp(x**2) overflows: the asymptotic series, of which each term is that before, times -(k + 1/2)
    is_large = x > math.sqrt(math.log(float(dtypes.finfo(x.dtype).max)))
    terms = 9 if x.dtype == np.float64 else 5
    coefficients = [1.0]
    for k in range(terms - 1):
        coefficients.append(-coefficients[-1] * (k + 0.5))
    moderate = lax.select(is_large, jnp.full_like(x, 1), x)
    of_moderate = jnp.exp(jnp.square(moderate)) * lax.erfc(moderate)
    series = _polynomial(tuple(coefficients[::-1]), 1 / jnp.square(x))
    return lax.select(is_large, series / (x * math.sqrt(math.pi)), of_moderate).astype(narrow)


_erfcx.defjvps(lambda g, ans, x: g * (2 * x * ans - 2 / math.sqrt(math.pi)))


# -------------------------------------------------------------------------------- Spence's function


def spence(x: Any) -> Any:
    """The integral of log(t) / (1 - t) over t from 1 to x; nan for negative x.

    TypeError for other types than float32 and float64.
    """
    x = jnp.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(f"spence is of float32 and float64, not of {dtype_name(x.dtype)}. Convert it: x.astype(float).")
    return jnp.piecewise(x, [x < 0.0, x == 1.0, x == 0.0], [math.nan, 0, math.pi**2 / 6, _spence])


def _spence(x: Any) -> Any:
    """By Euler's reflections, of x to 1/x and of x to 1 - x, to the neighbourhood of 1."""
    beyond = x > 2.0
    x = jnp.piecewise(x, [x > 2.0], [lambda x: 1.0 / x, lambda x: x])
    large, small = x > 1.5, x < 0.5
    turned = beyond | large
    w = jnp.piecewise(x, [large, small], [lambda x: 1.0 / x - 1.0, lambda x: -x, lambda x: x - 1.0])
    found = -w * _polynomial(_SPENCE_TOP, w) / _polynomial(_SPENCE_BOTTOM, w)
    found = jnp.where(small, math.pi**2 / 6 - jnp.log(x) * jnp.log(1.0 - x) - found, found)
    return jnp.where(turned, -0.5 * jnp.log(x) ** 2 - found, found)


# -------------------------------------------------------------------------------- Bernoulli's numbers

# how many terms of the zeta function are added to the first
_TERMS = 48


def bernoulli(n: int) -> Any:
    """Bernoulli's numbers B(0) to B(``n``), of which B(1) is -1/2, by zeta(2k). ValueError for a negative ``n``."""
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"bernoulli: n must be a non-negative integer, not {n}.")
    first = jnp.array([1, -1 / 2, 1 / 6])
    if n < 3:
        return first[: n + 1]
    found = jnp.zeros(n + 1).at[:3].set(first)
    even = jnp.arange(4, n + 1, 2, dtype=found.dtype)
    factors = (1.0 / math.pi**2) * jnp.cumprod(-(even - 1) * even / 4 / math.pi**2)
    k = jnp.arange(2, 2 + _TERMS, dtype=found.dtype)
    zeta = 1 + jnp.sum(k[:, None] ** -even[None, :], axis=0)
    return found.at[4::2].set(factors * zeta)
