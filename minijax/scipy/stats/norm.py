"""The normal distribution, of mean ``loc`` and standard deviation ``scale``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density."""
    x, loc, scale = promote("norm.logpdf", x, loc, scale, to=INEXACT)
    variance = lax.square(scale)
    log_normalizer = lax.log(lax.mul(weak_const(x, 2 * math.pi), variance))
    quadratic = lax.div(lax.square(lax.sub(x, loc)), variance)
    return lax.div(lax.add(log_normalizer, quadratic), weak_const(x, -2))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    x, loc, scale = promote("norm.cdf", x, loc, scale, to=INEXACT)
    return special.ndtr(lax.div(lax.sub(x, loc), scale))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``cdf``, accurate in both tails."""
    x, loc, scale = promote("norm.logcdf", x, loc, scale, to=INEXACT)
    return special.log_ndtr(lax.div(lax.sub(x, loc), scale))


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which the probability is ``q``."""
    return jnp.asarray(special.ndtri(q) * scale + loc, float)


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``sf``, accurate in both tails."""
    x, loc, scale = promote("norm.logsf", x, loc, scale, to=INEXACT)
    return logcdf(-x, -loc, scale)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above ``x``."""
    x, loc, scale = promote("norm.sf", x, loc, scale, to=INEXACT)
    return cdf(-x, -loc, scale)


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which the probability is ``q``."""
    return ppf(lax.sub(weak_const(jnp.asarray(q), 1), q), loc, scale)
