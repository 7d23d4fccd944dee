"""The geometric distribution: trials until the first success, of probability ``p``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["logpmf", "pmf"]

def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of ``k``: -inf unless it is positive."""
    k, p, loc = promote("geom.logpmf", k, p, loc, to=INEXACT)
    x = lax.sub(k, loc)
    found = special.xlog1py(lax.sub(x, weak_const(k, 1)), -p) + lax.log(p)
    return jnp.where(lax.le(x, weak_const(k, 0)), -math.inf, found)


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of ``k``."""
    return jnp.exp(logpmf(k, p, loc))
