"""The chi-square distribution with ``df`` degrees of freedom."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density: -inf below ``loc``."""
    x, df, loc, scale = promote("chi2.logpdf", x, df, loc, scale, to=INEXACT)
    one, two = weak_const(x, 1), weak_const(x, 2)
    y = lax.div(lax.sub(x, loc), scale)
    df_on_two = lax.div(df, two)
    kernel = lax.sub(lax.mul(lax.sub(df_on_two, one), lax.log(y)), lax.div(y, two))
    normalizer = lax.neg(lax.add(lax.lgamma(df_on_two), lax.div(lax.mul(lax.log(two), df), two)))
    inside = lax.add(lax.sub(normalizer, lax.log(scale)), kernel)
    return jnp.where(lax.lt(x, loc), -math.inf, inside)


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, df, loc, scale))


def _halved(x: Any, df: Any, loc: Any, scale: Any) -> tuple[Any, Any]:
    two = weak_const(scale, 2)
    half_df = lax.div(df, two)
    scaled = lax.div(lax.sub(x, loc), lax.mul(scale, two))
    return half_df, lax.clamp(weak_const(x, 0), scaled, weak_const(x, math.inf))


def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    return special.gammainc(*_halved(*promote("chi2.cdf", x, df, loc, scale, to=INEXACT)))


def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``cdf``."""
    return lax.log(cdf(x, df, loc, scale))


def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above ``x``."""
    return special.gammaincc(*_halved(*promote("chi2.sf", x, df, loc, scale, to=INEXACT)))


def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``sf``."""
    return lax.log(sf(x, df, loc, scale))
