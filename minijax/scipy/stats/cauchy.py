"""The Cauchy distribution around ``loc``, of half width ``scale``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density."""
    x, loc, scale = promote("cauchy.logpdf", x, loc, scale, to=INEXACT)
    scaled = lax.div(lax.sub(x, loc), scale)
    normalizer = lax.log(lax.mul(weak_const(x, math.pi), scale))
    return lax.neg(lax.add(normalizer, lax.log1p(lax.mul(scaled, scaled))))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to ``x``."""
    x, loc, scale = promote("cauchy.cdf", x, loc, scale, to=INEXACT)
    scaled = lax.div(lax.sub(x, loc), scale)
    return lax.add(weak_const(x, 0.5), lax.mul(lax.div(weak_const(x, 1), weak_const(x, math.pi)), lax.atan(scaled)))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``cdf``."""
    return lax.log(cdf(x, loc, scale))


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above ``x``."""
    x, loc, scale = promote("cauchy.sf", x, loc, scale, to=INEXACT)
    return cdf(-x, -loc, scale)


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of ``sf``."""
    x, loc, scale = promote("cauchy.logsf", x, loc, scale, to=INEXACT)
    return logcdf(-x, -loc, scale)


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which the probability is ``q``."""
    q, loc, scale = promote("cauchy.isf", q, loc, scale, to=INEXACT)
    angle = lax.sub(weak_const(q, 0.5 * math.pi), lax.mul(weak_const(q, math.pi), q))
    return lax.add(lax.mul(lax.tan(angle), scale), loc)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which the probability is ``q``."""
    q, loc, scale = promote("cauchy.ppf", q, loc, scale, to=INEXACT)
    angle = lax.sub(lax.mul(weak_const(q, math.pi), q), weak_const(q, 0.5 * math.pi))
    return lax.add(lax.mul(lax.tan(angle), scale), loc)
