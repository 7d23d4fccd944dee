"""The binomial distribution whose probability is distributed as ``beta`` with ``a`` and ``b``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.api.inner import inner_jit
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["logpmf", "pmf"]

@inner_jit
def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of ``k``: -inf for what is no count, NaN for improper parameters."""
    k, n, a, b, loc = promote("betabinom.logpmf", k, n, a, b, loc, to=INEXACT)
    y = lax.sub(lax.floor(k), loc)
    zero, one = weak_const(y, 0), weak_const(y, 1)
    ways = lax.neg(lax.add(lax.log1p(n), special.betaln(lax.add(lax.sub(n, y), one), lax.add(y, one))))
    shape = lax.sub(special.betaln(lax.add(y, a), lax.add(lax.sub(n, y), b)), special.betaln(a, b))
    found = lax.add(ways, shape)
    found = jnp.where(jnp.logical_and(lax.eq(y, zero), lax.eq(n, zero)), 0.0, found)
    outside = jnp.logical_or(lax.lt(y, lax.neg(loc)), lax.gt(y, n))
    found = jnp.where(jnp.logical_or(outside, lax.le(lax.add(y, a), zero)), -math.inf, found)
    improper = jnp.logical_or(jnp.logical_or(lax.lt(n, zero), lax.le(a, zero)), lax.le(b, zero))
    return jnp.where(improper, math.nan, found)


def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """The probability of ``k``."""
    return lax.exp(logpmf(k, n, a, b, loc))
