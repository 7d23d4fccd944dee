"""The distribution of a coin that shows 1 with probability ``p``, else 0."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["cdf", "logpmf", "pmf", "ppf"]

def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of ``k``: -inf but for 0 and 1."""
    k, p, loc = promote("bernoulli.logpmf", k, p, loc, to=INEXACT)
    one = weak_const(k, 1)
    x = lax.sub(k, loc)
    found = special.xlogy(x, p) + special.xlog1py(lax.sub(one, x), -p)
    return jnp.where(jnp.logical_or(lax.lt(x, weak_const(k, 0)), lax.gt(x, one)), -math.inf, found)


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of ``k``."""
    return jnp.exp(logpmf(k, p, loc))


def cdf(k: Any, p: Any) -> Any:
    """The probability of values up to ``k``; NaN where ``p`` is no probability."""
    k, p = promote("bernoulli.cdf", k, p, to=INEXACT)
    zero, one = weak_const(k, 0), weak_const(k, 1)
    conditions = [
        jnp.isnan(k) | jnp.isnan(p) | (p < zero) | (p > one),
        lax.lt(k, zero),
        jnp.logical_and(lax.ge(k, zero), lax.lt(k, one)),
        lax.ge(k, one),
    ]
    return jnp.select(conditions, [math.nan, zero, one - p, one])


def ppf(q: Any, p: Any) -> Any:
    """The least value up to which the probability is ``q``; NaN for what is no probability."""
    q, p = promote("bernoulli.ppf", q, p, to=INEXACT)
    zero, one = weak_const(q, 0), weak_const(q, 1)
    improper = jnp.isnan(q) | jnp.isnan(p) | (p < zero) | (p > one) | (q < zero) | (q > one)
    return jnp.where(improper, math.nan, jnp.where(lax.le(q, one - p), zero, one))
