"""Student's t distribution with ``df`` degrees of freedom."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT

__all__ = ["logpdf", "pdf"]

def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density."""
    x, df, loc, scale = promote("t.logpdf", x, df, loc, scale, to=INEXACT)
    two = weak_const(x, 2)
    scaled = lax.div(lax.sub(x, loc), scale)
    df_over_two = lax.div(df, two)
    df_plus_one_over_two = lax.add(df_over_two, weak_const(x, 0.5))
    half_log = lax.div(lax.log(lax.mul(lax.mul(lax.mul(scale, scale), weak_const(x, math.pi)), df)), two)
    constant = lax.sub(lax.add(lax.lgamma(df_over_two), half_log), lax.lgamma(df_plus_one_over_two))
    quadratic = lax.div(lax.mul(scaled, scaled), df)
    return lax.neg(lax.add(constant, lax.mul(df_plus_one_over_two, lax.log1p(quadratic))))


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, df, loc, scale))
