"""The beta distribution, from ``loc`` to ``loc + scale``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density: -inf outside, NaN for parameters that are not positive."""
    x, a, b, loc, scale = promote("beta.logpdf", x, a, b, loc, scale, to=INEXACT)
    one, zero = weak_const(x, 1), weak_const(x, 0)
    shape = lax.neg(special.betaln(a, b))
    y = lax.div(lax.sub(x, loc), scale)
    powers = lax.add(special.xlogy(lax.sub(a, one), y), special.xlog1py(lax.sub(b, one), lax.neg(y)))
    inside = lax.sub(lax.add(shape, powers), lax.log(scale))
    outside = jnp.logical_or(lax.gt(x, lax.add(loc, scale)), lax.lt(x, loc))
    found = jnp.where(outside, -math.inf, inside)
    improper = jnp.logical_or(jnp.logical_or(lax.le(a, zero), lax.le(b, zero)), lax.le(scale, zero))
    return jnp.where(improper, math.nan, found)


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, a, b, loc, scale))


def _scaled(x: Any, loc: Any, scale: Any) -> Any:
    return lax.clamp(weak_const(x, 0), lax.div(lax.sub(x, loc), scale), weak_const(x, 1))


def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    x, a, b, loc, scale = promote("beta.cdf", x, a, b, loc, scale, to=INEXACT)
    return special.betainc(a, b, _scaled(x, loc, scale))


def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``cdf``."""
    return lax.log(cdf(x, a, b, loc, scale))


def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above ``x``."""
    x, a, b, loc, scale = promote("beta.sf", x, a, b, loc, scale, to=INEXACT)
    return special.betainc(b, a, 1 - _scaled(x, loc, scale))


def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``sf``."""
    return lax.log(sf(x, a, b, loc, scale))
