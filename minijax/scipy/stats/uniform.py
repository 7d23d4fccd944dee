"""The uniform distribution between ``loc`` and ``loc + scale``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import const, promote
from minijax.numpy.ufuncs import INEXACT

__all__ = ["cdf", "logpdf", "pdf", "ppf"]

def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density: -inf outside."""
    x, loc, scale = promote("uniform.logpdf", x, loc, scale, to=INEXACT)
    inside = lax.neg(lax.log(scale))
    outside = jnp.logical_or(lax.gt(x, lax.add(loc, scale)), lax.lt(x, loc))
    return jnp.where(outside, -math.inf, inside)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    x, loc, scale = promote("uniform.cdf", x, loc, scale, to=INEXACT)
    zero, one = const(x, 0), const(x, 1)
    conditions = [
        lax.lt(x, loc),
        lax.gt(x, lax.add(loc, scale)),
        jnp.logical_and(lax.ge(x, loc), lax.le(x, lax.add(loc, scale))),
    ]
    return jnp.select(conditions, [zero, one, lax.div(lax.sub(x, loc), scale)])


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which the probability is ``q``; NaN for what is no probability."""
    q, loc, scale = promote("uniform.ppf", q, loc, scale, to=INEXACT)
    improper = jnp.isnan(q) | (q < 0) | (q > 1)
    return jnp.where(improper, math.nan, lax.add(loc, lax.mul(scale, q)))
