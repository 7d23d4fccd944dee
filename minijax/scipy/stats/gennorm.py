"""The generalized normal distribution of exponent ``beta``."""

from __future__ import annotations

from typing import Any

from minijax import lax
from minijax.numpy.promotion import promote
from minijax.numpy.ufuncs import INEXACT

__all__ = ["cdf", "logpdf", "pdf"]

def logpdf(x: Any, beta: Any) -> Any:
    """The logarithm of the density."""
    x, beta = promote("gennorm.logpdf", x, beta, to=INEXACT)
    return lax.log(0.5 * beta) - lax.lgamma(1 / beta) - lax.abs(x) ** beta


def pdf(x: Any, beta: Any) -> Any:
    """The density."""
    return lax.exp(logpdf(x, beta))


def cdf(x: Any, beta: Any) -> Any:
    """The probability of values up to ``x``."""
    x, beta = promote("gennorm.cdf", x, beta, to=INEXACT)
    return 0.5 * (1 + lax.sign(x) * lax.igamma(1 / beta, lax.abs(x) ** beta))
