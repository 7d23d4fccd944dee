"""The Laplace distribution around ``loc``, of mean absolute deviation ``scale``."""

from __future__ import annotations

from typing import Any

from minijax import lax
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT

__all__ = ["cdf", "logpdf", "pdf"]

def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density."""
    x, loc, scale = promote("laplace.logpdf", x, loc, scale, to=INEXACT)
    linear = lax.div(lax.abs(lax.sub(x, loc)), scale)
    return lax.neg(lax.add(linear, lax.log(lax.mul(weak_const(x, 2), scale))))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    x, loc, scale = promote("laplace.cdf", x, loc, scale, to=INEXACT)
    half = weak_const(x, 0.5)
    diff = lax.div(lax.sub(x, loc), scale)
    below = lax.le(diff, weak_const(x, 0))
    return lax.select(
        below, lax.mul(half, lax.exp(diff)), lax.sub(weak_const(x, 1), lax.mul(half, lax.exp(lax.neg(diff))))
    )
