"""The von Mises distribution of concentration ``kappa`` around 0."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote, weak_const
from minijax.numpy.ufuncs import INEXACT

__all__ = ["logpdf", "pdf"]

def logpdf(x: Any, kappa: Any) -> Any:
    """The logarithm of the density; NaN where ``kappa`` is not positive."""
    x, kappa = promote("vonmises.logpdf", x, kappa, to=INEXACT)
    proper = lax.gt(kappa, weak_const(kappa, 0))
    found = kappa * (jnp.cos(x) - 1) - jnp.log(2 * math.pi * lax.bessel_i0e(kappa))
    return jnp.where(proper, found, math.nan)


def pdf(x: Any, kappa: Any) -> Any:
    """The density."""
    return lax.exp(logpdf(x, kappa))
