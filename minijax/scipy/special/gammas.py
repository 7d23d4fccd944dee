"""The gamma function, and what is made of it: beta, factorial, binomial coefficients, zeta."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from minijax import api, lax
from minijax import numpy as jnp
from minijax.api.custom_jvp import custom_jvp
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.core.avals import dtype_name
from minijax.core.lacking import borrow
from minijax.numpy.promotion import choose, const, ensure, promote, refuse_complex, static
from minijax.numpy.ufuncs import INEXACT

__all__ = [
    "beta",
    "betainc",
    "betaln",
    "comb",
    "digamma",
    "factorial",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "loggamma",
    "multigammaln",
    "poch",
    "polygamma",
    "zeta",
]


def gammaln(x: Any) -> Any:
    """log(abs(gamma(x))) of each element."""
    return lax.lgamma(*promote("gammaln", x, to=INEXACT))


def loggamma(x: Any) -> Any:
    """The logarithm of ``gamma``: NaN where there is no real one. That of complex numbers is borrowed from JAX."""
    (x,) = promote("loggamma", x, to=INEXACT)
    if dtypes.is_complex(x.aval.dtype):
        return borrow("minijax.scipy.special", "loggamma")(x)
    found = lax.lgamma(x)
    return choose(x > 0, found, math.nan)


@inner_jit
def gammasgn(x: Any) -> Any:
    """The sign of ``gamma``: 1 or -1, and NaN at its poles but 0, where the sign is that of the zero."""
    (x,) = promote("gammasgn", x, to=INEXACT)
    if dtypes.is_complex(x.aval.dtype):
        raise ValueError("gammasgn does not support complex-valued inputs: gamma has a sign on the real line only.")
    floor = lax.floor(x)
    negative = x < 0
    is_nan = (negative & (x == floor)) | jnp.isnan(x)
    is_minus = (negative & (floor % 2 != 0)) | ((x == 0) & jnp.signbit(x))
    return jnp.select([is_nan, is_minus], [const(x, math.nan), const(x, -1.0)], const(x, 1.0))


def gamma(x: Any) -> Any:
    """The gamma function of each element. That of complex numbers is borrowed from JAX."""
    (x,) = promote("gamma", x, to=INEXACT)
    if dtypes.is_complex(x.aval.dtype):
        return borrow("minijax.scipy.special", "gamma")(x)
    return gammasgn(x) * lax.exp(lax.lgamma(x))


def digamma(x: Any) -> Any:
    """The derivative of the logarithm of ``gamma``."""
    return lax.digamma(*promote("digamma", x, to=INEXACT))


def polygamma(n: Any, x: Any) -> Any:
    """The ``n``-th derivative of ``digamma`` at ``x``; ``n`` holds integers."""
    n = ensure("polygamma", n)
    if not dtypes.is_integer(n.aval.dtype):
        raise ValueError(f"polygamma: the order n must be of an integer type, not {dtype_name(n.aval.dtype)}.")
    return lax.polygamma(*promote("polygamma", n, *refuse_complex("polygamma", x), to=INEXACT))


def gammainc(a: Any, x: Any) -> Any:
    """The regularized lower incomplete gamma function."""
    return lax.igamma(*promote("gammainc", a, x, to=INEXACT))


def gammaincc(a: Any, x: Any) -> Any:
    """The regularized upper incomplete gamma function."""
    return lax.igammac(*promote("gammaincc", a, x, to=INEXACT))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function."""
    return lax.betainc(*promote("betainc", *refuse_complex("betainc", a, b, x), to=INEXACT))


# The minimax approximation in DiDonato and Morris 1992 (ACM TOMS 708, ALGDIV), lowest power first.
_ALGDIV = (
    0.833333333333333e-01,
    -0.277777777760991e-02,
    0.793650666825390e-03,
    -0.595202931351870e-03,
    0.837308034031215e-03,
    -0.165322962780713e-02,
)


def _log_gamma_quotient(a: Any, b: Any) -> Any:
    """log(gamma(b) / gamma(a + b)) for ``b`` of at least 8 (DiDonato and Morris 1992)."""
    h = a / b
    c = h / (1 + h)
    x = h / (1 + h)
    d = b + (a - 0.5)
    square = x * x
    # 1 + x + x**2 + ... with 3, 5, ... 11 terms
    sums = [1.0 + (x + square)]
    for _ in range(4):
        sums.append(1.0 + (x + square * sums[-1]))
    t = lax.integer_pow(1.0 / b, 2)
    w = _ALGDIV[5] * sums[4]
    for coefficient, terms in zip(_ALGDIV[4:0:-1], sums[3::-1], strict=True):
        w = w * t + coefficient * terms
    w = (w * t + _ALGDIV[0]) * (c / b)
    u = d * lax.log1p(a / b)
    v = a * (lax.log(b) - 1.0)
    return choose(u <= v, (w - v) - u, (w - u) - v)


def betaln(a: Any, b: Any) -> Any:
    """The logarithm of the absolute value of ``beta``."""
    a, b = promote("betaln", a, b, to=INEXACT)
    a, b = lax.min(a, b), lax.max(a, b)
    small = lax.lgamma(a) + (lax.lgamma(b) - lax.lgamma(a + b))
    large = lax.lgamma(a) + _log_gamma_quotient(a, b)
    return choose(b < 8, small, large)


def beta(a: Any, b: Any) -> Any:
    """gamma(a) * gamma(b) / gamma(a + b)."""
    a, b = promote("beta", a, b, to=INEXACT)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * lax.exp(betaln(a, b))


def factorial(n: Any, exact: bool = False) -> Any:
    """gamma(n + 1); 0 for negative ``n``. NotImplementedError for ``exact``: the result is a float."""
    if exact:
        raise NotImplementedError("factorial gives floats: exact=True is not implemented. Use math.factorial(n).")
    (n,) = promote("factorial", n, to=INEXACT)
    return choose(n < 0, 0, lax.exp(lax.lgamma(n + 1)))


def comb(N: Any, k: Any, *, repetition: bool = False) -> Any:
    """The number of ways to choose ``k`` of ``N`` things, with ``repetition`` or without; 0 where there is none."""
    N, k = promote("comb", N, k, to=INEXACT)
    if repetition:
        none_of_any = (k == 0) & (N >= 0)
        return choose(none_of_any, 1.0, comb(N + k - 1, k))
    possible = (k <= N) & (N >= 0) & (k >= 0)
    N, k = choose(possible, N, 0.0), choose(possible, k, 0.0)
    logarithm = lax.lgamma(N + 1) - lax.lgamma(k + 1) - lax.lgamma(N + 1 - k)
    return choose(possible, lax.exp(logarithm), 0.0)


@custom_jvp
def poch(z: Any, m: Any) -> Any:
    """gamma(z + m) / gamma(z), the rising factorial; 1 where ``m`` is 0."""
    z, m = promote("poch", *refuse_complex("poch", z, m), to=INEXACT)
    return choose(m == 0.0, const(z, 1), gamma(z + m) / gamma(z))


poch.defjvps(
    lambda g, ans, z, m: g * _poch_by_z(z, m),
    lambda g, ans, z, m: g * _poch_by_m(z, m),
)


def _poch_by_z(z: Any, m: Any) -> Any:
    return (digamma(z + m) - digamma(z)) * poch(z, m)


def _poch_by_m(z: Any, m: Any) -> Any:
    return digamma(z + m) * poch(z, m)


def multigammaln(a: Any, d: Any) -> Any:
    """The logarithm of the gamma function of dimension ``d``, which is known and taken as an integer, at ``a``."""
    d = static(d, "d argument of multigammaln", int)
    (a,) = promote("multigammaln", a, to=INEXACT)
    size = const(a, d)
    corners = lax.mul(lax.mul(const(a, 0.25), size), lax.sub(size, const(a, 1)))
    scale = lax.mul(corners, lax.log(const(a, math.pi)))
    shifts = jnp.arange(d, dtype=a.aval.dtype) / const(a, 2)
    shifted = lax.expand_dims(a, (a.aval.ndim,)) - lax.expand_dims(shifts, tuple(range(a.aval.ndim)))
    return jnp.sum(gammaln(shifted), axis=-1) + scale


# ------------------------------------------------------------------------------------ zeta


@custom_jvp
def zeta(x: Any, q: Any = None) -> Any:
    """The Hurwitz zeta function: the sum of (q + k)**-x over k from 0. NotImplementedError without ``q``."""
    _check_hurwitz(q)
    return lax.zeta(*promote("zeta", x, q, to=INEXACT))


def _check_hurwitz(q: Any) -> None:
    if q is None:
        raise NotImplementedError("Riemann's zeta function is not implemented: pass q. It is zeta(x, 1).")


def _bernoulli_numbers(count: int) -> list[Fraction]:
    """B(0), B(1), ... up to B(count), of which B(1) is -1/2."""
    found = [Fraction(1)]
    for n in range(1, count + 1):
        found.append(-sum((math.comb(n + 1, k) * b for k, b in enumerate(found)), Fraction(0)) / (n + 1))
    return found


def _zeta_series(x: Any, q: Any) -> Any:
    """The Hurwitz zeta function by the formula of Euler and Maclaurin with 8 terms of each kind (Johansson 2015)."""
    _check_hurwitz(q)
    x, q = promote("zeta", x, q, to=INEXACT)
    terms = 8
    dtype = x.aval.dtype
    numbers = _bernoulli_numbers(2 * terms)
    divisors = np.array([float(math.factorial(2 * k) / numbers[2 * k]) for k in range(1, terms + 1)], dtype)
    s, a = lax.expand_dims(x, (x.aval.ndim,)), lax.expand_dims(q, (q.aval.ndim,))
    total = jnp.sum((a + np.arange(terms, dtype=dtype)) ** -s, -1)
    integral = (q + terms) ** (1 - x) / (x - 1)
    first = (q + terms) ** -x
    factors = (s + np.arange(2 * terms, dtype=dtype)) / (a + terms)
    products = jnp.cumprod(factors, -1)[..., ::2]
    products = jnp.clip(products, max=dtypes.finfo(dtype).max) / divisors
    return total + integral + first * (0.5 + products.sum(-1))


zeta.defjvp(functools.partial(api.jvp, _zeta_series))
