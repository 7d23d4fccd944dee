"""The Cauchy distribution wrapped around the circle, between 0 and 2 pi."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT

__all__ = ["logpdf", "pdf"]

def logpdf(x: Any, c: Any) -> Any:
    """The logarithm of the density: -inf outside, NaN unless ``c`` is between 0 and 1."""
    x, c = promote("wrapcauchy.logpdf", x, c, to=INEXACT)
    proper = lax.bitwise_and(lax.gt(c, weak_const(c, 0)), lax.lt(c, weak_const(c, 1)))
    inside = lax.bitwise_and(lax.ge(x, weak_const(x, 0)), lax.le(x, weak_const(x, 2 * math.pi)))
    normalizer = lax.log(1 - c * c) - jnp.log(2 * math.pi)
    around = 1 + c * c - 2 * c * lax.cos(x)
    found = normalizer - lax.log(around)
    return jnp.where(proper, jnp.where(inside, found, -math.inf), math.nan)


def pdf(x: Any, c: Any) -> Any:
    """The density."""
    return lax.exp(logpdf(x, c))
