"""The negative binomial distribution: failures before ``n`` successes of probability ``p``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["logpmf", "pmf"]

def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of ``k``: -inf below ``loc``."""
    k, n, p, loc = promote("nbinom.logpmf", k, n, p, loc, to=INEXACT)
    y = lax.sub(k, loc)
    orders = lax.sub(special.gammaln(lax.add(y, n)), special.gammaln(n))
    ways = lax.sub(orders, special.gammaln(lax.add(y, weak_const(k, 1))))
    powers = lax.add(special.xlogy(n, p), special.xlogy(y, lax.sub(weak_const(k, 1), p)))
    found = lax.add(ways, powers)
    return jnp.where(lax.lt(k, loc), -math.inf, found)


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of ``k``."""
    return lax.exp(logpmf(k, n, p, loc))
