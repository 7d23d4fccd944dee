"""The binomial distribution: successes among ``n`` trials of probability ``p``."""

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
    """The logarithm of the probability of ``k``: -inf for what is no number of successes."""
    k, n, p, loc = promote("binom.logpmf", k, n, p, loc, to=INEXACT)
    y = lax.sub(k, loc)
    ways = lax.sub(
        special.gammaln(n + 1), lax.add(special.gammaln(y + 1), special.gammaln(lax.sub(n, y) + 1))
    )
    powers = lax.add(special.xlogy(y, p), special.xlog1py(lax.sub(n, y), lax.neg(p)))
    both = lax.add(ways, powers)
    sure = jnp.logical_or(jnp.logical_and(lax.eq(y, weak_const(y, 0)), lax.eq(n, weak_const(n, 0))), powers == 0)
    found = jnp.where(sure, 0.0, both)
    return jnp.where(lax.ge(k, loc) & lax.lt(k, loc + n + 1), found, -math.inf)


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of ``k``."""
    return lax.exp(logpmf(k, n, p, loc))
