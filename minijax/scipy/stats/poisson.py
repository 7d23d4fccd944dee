"""The Poisson distribution of mean ``mu``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.api.inner import inner_jit
from minijax.numpy.promotion import astype, ensure, promote, promote_dtypes, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["cdf", "entropy", "logpmf", "pmf"]

# up to which mean the entropy is a sum of so many terms, and how many
_FEW, _MANY = (10, 35), (100, 250)


def logpmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of ``k``: -inf for what is no count."""
    k, mu, loc = promote("poisson.logpmf", k, mu, loc, to=INEXACT)
    x = lax.sub(k, loc)
    found = special.xlogy(x, mu) - special.gammaln(x + 1) - mu
    return jnp.where(jnp.logical_or(lax.lt(x, weak_const(k, 0)), lax.ne(jnp.round(k), k)), -math.inf, found)


def pmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The probability of ``k``."""
    return jnp.exp(logpmf(k, mu, loc))


def cdf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The probability of values up to ``k``."""
    k, mu, loc = promote("poisson.cdf", k, mu, loc, to=INEXACT)
    x = lax.sub(k, loc)
    found = special.gammaincc(jnp.floor(1 + x), mu)
    return jnp.where(lax.lt(x, weak_const(k, 0)), weak_const(k, 0), found)


@inner_jit
def entropy(mu: Any, loc: Any = 0) -> Any:
    """The entropy, in nats: a sum of terms, and for means from 100 on Stirling's formula."""
    mu, loc = promote_dtypes(*ensure("poisson.entropy", mu, loc), to=INEXACT)
    whole = jnp.broadcast_shapes(mu.shape, loc.shape)
    shape, mu = mu.shape, mu.ravel()
    none = jnp.zeros_like(mu)
    is_none, is_small = mu == 0, mu < _FEW[0]
    few = _summed(mu, _FEW[1], lambda: mu + 20)
    is_medium = mu < _MANY[0]
    many = _summed(mu, _MANY[1], lambda: mu + 10 * jnp.sqrt(mu) + 20)
    large = 0.5 * jnp.log(2 * math.pi * math.e * mu) - 1.0 / (12 * mu)
    found = jnp.where(is_none, none, jnp.where(is_small, few, jnp.where(is_medium, many, large)))
    return jnp.broadcast_to(found.reshape(shape), whole)


def _summed(mu: Any, terms: int, end: Any) -> Any:
    """The sum of -p log(p) over counts below ``end``, of which there are not more than ``terms``."""
    k = jnp.arange(terms, dtype=mu.dtype)[:, None]
    p = pmf(k, astype(mu, mu.dtype)[None, :], jnp.zeros((1, 1), mu.dtype))
    p = jnp.where(k < astype(jnp.ceil(end()), mu.dtype)[None, :], p, 0.0)
    return special.entr(p).sum(axis=0)
