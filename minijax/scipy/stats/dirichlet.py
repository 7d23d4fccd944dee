"""The Dirichlet distribution of concentrations ``alpha``."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote_dtypes, weak_const
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy import special

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, alpha: Any) -> Any:
    """The logarithm of the density: -inf off the simplex.

    ``alpha`` is a vector; ``x`` has the components of points along its first axis, all of them or all but the last.
    Raises ValueError if they do not fit.
    """
    x, alpha = promote_dtypes(x, alpha, to=INEXACT)
    if alpha.ndim != 1:
        raise ValueError(f"dirichlet.logpdf takes a vector of concentrations alpha, not one of shape {alpha.shape}.")
    if x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            f"dirichlet.logpdf: points have as many components as alpha, {alpha.shape[0]}, or one fewer; x of shape "
            f"{x.shape} has {x.shape[0]} along its first axis."
        )
    one = weak_const(x, 1)
    if x.shape[0] != alpha.shape[0]:
        x = jnp.concatenate([x, lax.sub(one, x.sum(axis=0, keepdims=True))], axis=0)
    normalizer = jnp.sum(special.gammaln(alpha)) - special.gammaln(jnp.sum(alpha))
    if x.ndim > 1:
        alpha = lax.broadcast_in_dim(alpha, alpha.shape + (1,) * (x.ndim - 1), (0,))
    found = jnp.sum(special.xlogy(lax.sub(alpha, one), x), axis=0) - normalizer
    total = jnp.sum(x, axis=0)
    on_simplex = jnp.logical_and(jnp.all(x > 0, axis=0), jnp.abs(total - 1) < 1e-6)
    return jnp.where(on_simplex, found, -math.inf)


def pdf(x: Any, alpha: Any) -> Any:
    """The density."""
    return lax.exp(logpdf(x, alpha))
