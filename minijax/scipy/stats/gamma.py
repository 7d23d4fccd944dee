"""The gamma distribution of shape ``a`` from ``loc`` on."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density: -inf below ``loc``."""
    x, a, loc, scale = promote("gamma.logpdf", x, a, loc, scale, to=INEXACT)
    inside = lax.ge(x, loc)
    one = weak_const(x, 1)
    y = jnp.where(inside, lax.div(lax.sub(x, loc), scale), one)
    linear = lax.sub(special.xlogy(lax.sub(a, one), y), y)
    shape = lax.add(lax.lgamma(a), lax.log(scale))
    return jnp.where(inside, lax.sub(linear, shape), -math.inf)


def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, a, loc, scale))


def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    x, a, loc, scale = promote("gamma.cdf", x, a, loc, scale, to=INEXACT)
    return special.gammainc(a, lax.clamp(weak_const(x, 0), lax.div(lax.sub(x, loc), scale), weak_const(x, math.inf)))


def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``cdf``."""
    return lax.log(cdf(x, a, loc, scale))


def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above ``x``."""
    x, a, loc, scale = promote("gamma.sf", x, a, loc, scale, to=INEXACT)
    y = lax.div(lax.sub(x, loc), scale)
    return jnp.where(lax.lt(y, weak_const(y, 0)), 1, special.gammaincc(a, y))


def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``sf``."""
    return lax.log(sf(x, a, loc, scale))
