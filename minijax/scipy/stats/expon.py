"""The exponential distribution of mean ``scale`` from ``loc`` on."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote
from minijax.numpy.ufuncs import INEXACT

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density: -inf below ``loc``."""
    x, loc, scale = promote("expon.logpdf", x, loc, scale, to=INEXACT)
    log_scale = lax.log(scale)
    inside = lax.neg(lax.add(lax.div(lax.sub(x, loc), scale), log_scale))
    return jnp.where(lax.lt(x, loc), -math.inf, inside)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    x, loc, scale = promote("expon.cdf", x, loc, scale, to=INEXACT)
    minus = lax.div(lax.sub(loc, x), scale)
    return jnp.where(lax.lt(x, loc), jnp.zeros_like(minus), lax.neg(lax.expm1(minus)))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``cdf``."""
    x, loc, scale = promote("expon.logcdf", x, loc, scale, to=INEXACT)
    minus = lax.div(lax.sub(loc, x), scale)
    return lax.log1p(lax.neg(lax.exp(jnp.where(lax.lt(x, loc), jnp.zeros_like(minus), minus))))


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``sf``."""
    x, loc, scale = promote("expon.sf", x, loc, scale, to=INEXACT)
    minus = lax.div(lax.sub(loc, x), scale)
    return jnp.where(lax.lt(x, loc), jnp.zeros_like(minus), minus)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above ``x``."""
    return lax.exp(logsf(x, loc, scale))


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which the probability is ``q``; NaN for what is no probability."""
    q, loc, scale = promote("expon.ppf", q, loc, scale, to=INEXACT)
    improper = jnp.isnan(q) | (q < 0) | (q > 1)
    return jnp.where(improper, math.nan, lax.sub(loc, lax.mul(scale, lax.log1p(lax.neg(q)))))
