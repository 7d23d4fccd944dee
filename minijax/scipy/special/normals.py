"""Error functions and the distribution function of the normal distribution."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from minijax import lax
from minijax import numpy as jnp
from minijax.api.custom_jvp import custom_jvp
from minijax.core.avals import dtype_name
from minijax.numpy.promotion import choose, const, ensure, promote, typed_scalar
from minijax.numpy.ufuncs import INEXACT

__all__ = ["erf", "erfc", "erfinv", "log_ndtr", "ndtr", "ndtri"]

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
# Where log_ndtr passes from its asymptotic series to the logarithm, and from there to the complement, by type.
_SERIES_BELOW = {_FLOATS[0]: -10.0, _FLOATS[1]: -20.0}
_COMPLEMENT_ABOVE = {_FLOATS[0]: 5.0, _FLOATS[1]: 8.0}


def erf(x: Any) -> Any:
    """The error function of each element."""
    return lax.erf(*promote("erf", x, to=INEXACT))


def erfc(x: Any) -> Any:
    """1 - erf(x), accurate where that is small."""
    return lax.erfc(*promote("erfc", x, to=INEXACT))


def erfinv(x: Any) -> Any:
    """The inverse of ``erf``."""
    return lax.erf_inv(*promote("erfinv", x, to=INEXACT))


def _checked(name: str, x: Any) -> Any:
    if x.aval.dtype not in _FLOATS:
        raise TypeError(
            f"{name} takes float32 and float64; x.dtype={dtype_name(x.aval.dtype)} is not supported. Convert it: "
            "x.astype('float32')."
        )
    return x


def ndtr(x: Any) -> Any:
    """The probability that a standard normal variable is below ``x``. TypeError but for float32 and float64."""
    return _ndtr(_checked("ndtr", jnp.asarray(x)))


def _ndtr(x: Any) -> Any:
    half_root = const(x, 0.5 * math.sqrt(2.0))
    w = x * half_root
    z = lax.abs(w)
    is_near, near = lax.lt(z, half_root), const(w, 1.0) + lax.erf(w)
    far = lax.select(lax.gt(w, const(w, 0.0)), const(w, 2.0) - lax.erfc(z), lax.erfc(z))
    return const(x, 0.5) * lax.select(is_near, near, far)


# Rational approximations of the Cephes library (Moshier 1989, ndtri.c), highest power first: of ndtri around 1/2 in
# (p - 1/2)**2, and in 1 / sqrt(-2 log p) for tails whose sqrt(-2 log p) is below 8 and above.
_CENTRE = (
    (-59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968, -1.2391658386738125),
    (
        1.0,
        1.9544885833814176,
        4.676279128988815,
        86.36024213908905,
        -225.46268785411937,
        200.26021238006066,
        -82.03722561683334,
        15.90562251262117,
        -1.1833162112133,
    ),
)
_NEAR_TAIL = (
    (
        4.0554489230596245,
        31.525109459989388,
        57.16281922464213,
        44.08050738932008,
        14.684956192885803,
        2.1866330685079025,
        -0.1402560791713545,
        -0.03504246268278482,
        -0.0008574567851546854,
    ),
    (
        1.0,
        15.779988325646675,
        45.39076351288792,
        41.3172038254672,
        15.04253856929075,
        2.504649462083094,
        -0.14218292285478779,
        -0.03808064076915783,
        -0.0009332594808954574,
    ),
)
_FAR_TAIL = (
    (
        3.2377489177694603,
        6.915228890689842,
        3.9388102529247444,
        1.3330346081580755,
        0.20148538954917908,
        0.012371663481782003,
        0.00030158155350823543,
        2.6580697468673755e-06,
        6.239745391849833e-09,
    ),
    (
        1.0,
        6.02427039364742,
        3.6798356385616087,
        1.3770209948908132,
        0.21623699359449663,
        0.013420400608854318,
        0.00032801446468212774,
        2.8924786474538068e-06,
        6.790194080099813e-09,
    ),
)


def ndtri(p: Any) -> Any:
    """The inverse of ``ndtr``. TypeError but for float32 and float64."""
    p = _checked("ndtri", ensure("ndtri", p))
    dtype, shape = p.aval.dtype, p.aval.shape

    def quotient(coefficients: Any, x: Any) -> Any:
        above, below = (jnp.array(c, dtype) for c in coefficients)
        return jnp.polyval(above, x()) / jnp.polyval(below, x())

    upper = const(p, -np.expm1(-2.0))
    tail = jnp.where(p > upper, const(p, 1.0) - p, p)
    safe = jnp.where(tail == const(p, 0.0), jnp.full(shape, const(p, 0.5)), tail)
    w = safe - const(p, 0.5)
    square = lax.square(w)
    centre = (w + w * square * quotient(_CENTRE, lambda: square)) * const(p, -math.sqrt(2.0 * math.pi))
    z = lax.sqrt(const(p, -2.0) * lax.log(safe))
    first = z - lax.log(z) / z
    far, near = (quotient(table, lambda: const(p, 1.0) / z) / z for table in (_FAR_TAIL, _NEAR_TAIL))
    far, near = first - far, first - near
    is_central = safe > const(p, np.exp(-2.0))
    x = jnp.where(is_central, centre, jnp.where(z >= const(p, 8.0), far, near))
    x = jnp.where(p > upper, x, -x)
    infinity = jnp.full(shape, const(p, math.inf))
    return jnp.where(p == const(p, 0.0), -infinity, jnp.where(p == const(p, 1.0), infinity, x))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """The logarithm of ``ndtr``, accurate in both tails; far below 0 by ``series_order`` terms of an asymptotic series.

    Raises TypeError but for float32 and float64 and for orders that are no integers, ValueError for orders below 0 and
    above 30.
    """
    if not isinstance(series_order, int):
        raise TypeError(f"series_order must be a Python integer, got {type(series_order)}.")
    if not 0 <= series_order <= 30:
        raise ValueError(f"series_order must be between 0 and 30, got {series_order}.")
    x = _checked("log_ndtr", jnp.asarray(x))
    lower, upper = (typed_scalar(of[x.aval.dtype], x.aval.dtype) for of in (_SERIES_BELOW, _COMPLEMENT_ABOVE))
    complement = lax.gt(x, upper)
    inside = _ndtr(choose(complement, -x, lax.max(x, lower)))
    minus_inside = -inside
    below = choose(lax.gt(x, lower), lax.log(inside), _log_of_series(lax.min(x, lower), series_order))
    return choose(complement, minus_inside, below)


@log_ndtr.defjvp
def _log_ndtr_jvp(series_order: int, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    out = log_ndtr(x, series_order)
    return out, lax.mul(t, lax.exp(lax.sub(_norm_logpdf(x), out)))


def _norm_logpdf(x: Any) -> Any:
    return const(x, -0.5) * lax.square(x) - const(x, math.log(math.sqrt(2.0 * math.pi)))


def _log_of_series(x: Any, order: int) -> Any:
    """log(density(x) / -x * series): Abramowitz and Stegun 26.2.12, for ``x`` far below 0."""
    square = lax.square(x)
    scale = const(x, -0.5) * square - lax.log(-x) - const(x, 0.5 * math.log(2.0 * math.pi))
    return scale + lax.log(_asymptotic(x, order))


def _asymptotic(x: Any, order: int) -> Any:
    """The sum of (-1)**n (2n - 1)!! / x**(2n) for n up to ``order``, positive and negative terms apart."""
    if order <= 0:
        return const(x, 1)
    square = power = lax.square(x)
    sums = {0: jnp.zeros_like(x), 1: jnp.zeros_like(x)}
    for n in range(1, order + 1):
        sums[n % 2] += const(x, math.prod(range(2 * n - 1, 0, -2))) / power
        power = power * square
    return const(x, 1.0) + sums[0] - sums[1]
