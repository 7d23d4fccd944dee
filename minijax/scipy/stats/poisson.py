"""The Poisson distribution of mean ``mu``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import const, promote
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["cdf", "logpmf", "pmf"]

def logpmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of ``k``: -inf for what is no count."""
    k, mu, loc = promote("poisson.logpmf", k, mu, loc, to=INEXACT)
    x = lax.sub(k, loc)
    found = special.xlogy(x, mu) - special.gammaln(x + 1) - mu
    return jnp.where(jnp.logical_or(lax.lt(x, const(k, 0)), lax.ne(jnp.round(k), k)), -math.inf, found)


def pmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The probability of ``k``."""
    return jnp.exp(logpmf(k, mu, loc))


def cdf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The probability of values up to ``k``."""
    k, mu, loc = promote("poisson.cdf", k, mu, loc, to=INEXACT)
    x = lax.sub(k, loc)
    found = special.gammaincc(jnp.floor(1 + x), mu)
    return jnp.where(lax.lt(x, const(k, 0)), const(k, 0), found)
