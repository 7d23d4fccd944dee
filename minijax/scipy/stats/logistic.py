"""The logistic distribution around ``loc``, scaled by ``scale``."""

from __future__ import annotations

from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]

def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density."""
    x, loc, scale = promote("logistic.logpdf", x, loc, scale, to=INEXACT)
    x = lax.div(lax.sub(x, loc), scale)
    two = weak_const(x, 2)
    half = lax.div(x, two)
    return lax.sub(lax.mul(lax.neg(two), jnp.logaddexp(half, lax.neg(half))), lax.log(scale))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


def ppf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which the probability is ``x``."""
    x, loc, scale = promote("logistic.ppf", x, loc, scale, to=INEXACT)
    return lax.add(lax.mul(special.logit(x), scale), loc)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above ``x``."""
    x, loc, scale = promote("logistic.sf", x, loc, scale, to=INEXACT)
    return special.expit(lax.neg(lax.div(lax.sub(x, loc), scale)))


def isf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which the probability is ``x``."""
    x, loc, scale = promote("logistic.isf", x, loc, scale, to=INEXACT)
    return lax.add(lax.mul(lax.neg(special.logit(x)), scale), loc)


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    x, loc, scale = promote("logistic.cdf", x, loc, scale, to=INEXACT)
    return special.expit(lax.div(lax.sub(x, loc), scale))
