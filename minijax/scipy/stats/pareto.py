"""The Pareto distribution of exponent ``b`` from ``loc + scale`` on."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

def _scaled(x: Any, loc: Any, scale: Any) -> Any:
    return lax.div(lax.sub(x, loc), scale)


def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density: -inf below."""
    x, b, loc, scale = promote("pareto.logpdf", x, b, loc, scale, to=INEXACT)
    scaled = _scaled(x, loc, scale)
    normalizer = lax.log(lax.div(scale, b))
    kernel = lax.mul(lax.add(b, weak_const(x, 1)), lax.log(scaled))
    inside = lax.neg(lax.add(normalizer, kernel))
    return jnp.where(lax.lt(x, lax.add(loc, scale)), -math.inf, inside)


def pdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, b, loc, scale))


def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    x, b, loc, scale = promote("pareto.cdf", x, b, loc, scale, to=INEXACT)
    inside = lax.sub(weak_const(x, 1), lax.pow(_scaled(x, loc, scale), lax.neg(b)))
    return jnp.where(lax.lt(x, lax.add(loc, scale)), weak_const(x, 0), inside)


def logcdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``cdf``."""
    x, b, loc, scale = promote("pareto.logcdf", x, b, loc, scale, to=INEXACT)
    inside = lax.log1p(lax.neg(lax.pow(_scaled(x, loc, scale), lax.neg(b))))
    return jnp.where(lax.lt(x, lax.add(loc, scale)), -math.inf, inside)


def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``sf``."""
    x, b, loc, scale = promote("pareto.logsf", x, b, loc, scale, to=INEXACT)
    inside = lax.neg(lax.mul(b, lax.log(_scaled(x, loc, scale))))
    return jnp.where(lax.lt(x, lax.add(loc, scale)), weak_const(x, 0), inside)


def sf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above ``x``."""
    return lax.exp(logsf(x, b, loc, scale))


def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which the probability is ``q``; NaN for what is no probability."""
    q, b, loc, scale = promote("pareto.ppf", q, b, loc, scale, to=INEXACT)
    one = weak_const(q, 1)
    inside = lax.add(loc, lax.mul(scale, lax.pow(lax.sub(one, q), lax.neg(lax.div(one, b)))))
    return jnp.where(jnp.isnan(q) | (q < 0) | (q > 1), math.nan, inside)
