"""The normal distribution cut off at ``a`` and ``b``, counted in ``scale`` from ``loc``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.api.inner import inner_jit
from minijax.nn.functions import logsumexp
from minijax.numpy.promotion import promote
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special
from minijax.scipy.stats import norm

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _log_difference(x: Any, y: Any) -> Any:
    """log(exp(x) - exp(y))."""
    return logsumexp(jnp.array([x, y]), b=jnp.array([jnp.ones_like(x), -jnp.ones_like(y)]), axis=0)


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the probability that a standard normal variable is between ``a`` and ``b``.

    Between two values of one sign it is a difference of small tails, else the complement of both tails.
    """
    a, b = jnp.array(a), jnp.array(b)
    a, b = jnp.broadcast_arrays(a, b)
    left, right = b <= 0, a > 0
    central = ~(left | right)
    lower = jnp.where(right, -b, a)
    upper = jnp.where(right, -a, b)
    tails = _log_difference(special.log_ndtr(upper), special.log_ndtr(lower))
    around = jnp.log1p(-special.ndtr(a) - special.ndtr(-b))
    return jnp.where(central, around, tails)


@inner_jit
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density: -inf outside, NaN unless ``a`` is below ``b``."""
    x, a, b, loc, scale = promote("truncnorm.logpdf", x, a, b, loc, scale, to=INEXACT)
    found = lax.sub(norm.logpdf(x, loc, scale), _log_mass(a, b))
    y = lax.div(lax.sub(x, loc), scale)
    found = jnp.where((y < a) | (y > b), -math.inf, found)
    return jnp.where(a >= b, math.nan, found)


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, a, b, loc, scale))


@inner_jit
def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``sf``."""
    x, a, b, loc, scale = promote("truncnorm.logsf", x, a, b, loc, scale, to=INEXACT)
    return logcdf(-x, -b, -a, -loc, scale)


@inner_jit
def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above ``x``."""
    return lax.exp(logsf(x, a, b, loc, scale))


@inner_jit
def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``cdf``; NaN unless ``a`` is below ``b``."""
    x, a, b, loc, scale = promote("truncnorm.logcdf", x, a, b, loc, scale, to=INEXACT)
    x, a, b = jnp.broadcast_arrays(x, a, b)
    x = lax.div(lax.sub(x, loc), scale)
    mass = _log_mass(a, b)
    direct = _log_mass(a, x) - mass
    # near 1, the complement of the mass above is more precise
    above = _log_mass(x, b) - mass
    conditions = [x >= b, x <= a, direct > -0.1, x > a]
    found = jnp.select(conditions, [0, -math.inf, jnp.log1p(-jnp.exp(above)), direct])
    return jnp.where(a >= b, math.nan, found)


@inner_jit
def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    return lax.exp(logcdf(x, a, b, loc, scale))
