"""The multinomial distribution: counts of outcomes of probabilities ``p`` among ``n`` trials."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.core import dtypes
from minijax.core.avals import dtype_name
from minijax.numpy.promotion import astype, promote
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["logpmf", "pmf"]


def logpmf(x: Any, n: Any, p: Any) -> Any:
    """The logarithm of the probability of the counts ``x``, along its last axis: -inf unless they sum to ``n``."""
    (p,) = promote("multinomial.logpmf", p, to=INEXACT)
    x, n = promote("multinomial.logpmf", x, n, to=dtypes.to_numeric_dtype)
    if not dtypes.is_integer(x.aval.dtype):
        raise ValueError(f"multinomial.logpmf: x and n are counts, of an integer type, not {dtype_name(x.aval.dtype)}.")
    x, n = astype(x, p.aval.dtype), astype(n, p.aval.dtype)
    found = special.gammaln(n + 1) + jnp.sum(special.xlogy(x, p) - special.gammaln(x + 1), axis=-1)
    return jnp.where(jnp.equal(jnp.sum(x), n), found, -math.inf)


def pmf(x: Any, n: Any, p: Any) -> Any:
    """The probability of the counts ``x``."""
    return lax.exp(logpmf(x, n, p))
