"""The Gumbel distribution of smallest values, around ``loc``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density; NaN where ``scale`` is not positive."""
    x, loc, scale = promote("gumbel_l.logpdf", x, loc, scale, to=INEXACT)
    proper = lax.gt(scale, weak_const(scale, 0))
    z = lax.div(lax.sub(x, loc), scale)
    return jnp.where(proper, special.xlogy(-1, scale) + lax.sub(z, lax.exp(z)), math.nan)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``cdf``."""
    x, loc, scale = promote("gumbel_l.logcdf", x, loc, scale, to=INEXACT)
    proper = lax.gt(scale, weak_const(scale, 0))
    z = lax.div(lax.sub(x, loc), scale)
    return jnp.where(proper, lax.log(lax.neg(lax.expm1(lax.neg(lax.exp(z))))), math.nan)


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    return lax.exp(logcdf(x, loc, scale))


def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which the probability is ``p``; NaN for what is no probability."""
    p, loc, scale = promote("gumbel_l.ppf", p, loc, scale, to=INEXACT)
    proper = lax.bitwise_and(lax.gt(p, weak_const(p, 0)), lax.lt(p, weak_const(p, 1)))
    found = lax.add(loc, lax.mul(scale, lax.log(special.xlog1py(-1, lax.neg(p)))))
    return jnp.where(proper, found, math.nan)


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``sf``."""
    x, loc, scale = promote("gumbel_l.logsf", x, loc, scale, to=INEXACT)
    proper = lax.gt(scale, weak_const(scale, 0))
    return jnp.where(proper, lax.neg(lax.exp(lax.div(lax.sub(x, loc), scale))), math.nan)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above ``x``."""
    return lax.exp(logsf(x, loc, scale))
