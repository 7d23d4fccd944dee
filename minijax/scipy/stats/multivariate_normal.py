"""The normal distribution of several dimensions, of mean ``mean`` and covariance ``cov``."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from minijax import lax
from minijax import numpy as jnp
from minijax.numpy.promotion import promote_dtypes
from minijax.numpy.ufuncs import INEXACT

__all__ = ["logpdf", "pdf"]


def _squared_length(y: Any) -> Any:
    return jnp.einsum("...i,...i->...", y, y)


def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Any:
    """The logarithm of the density at the points along the last axis of ``x``.

    ``cov`` is a scalar or matrices (..., n, n) for points of n components, (..., n). Raises ValueError if it is
    neither, NotImplementedError for ``allow_singular``.
    """
    if allow_singular is not None:
        raise NotImplementedError("multivariate_normal.logpdf does not take allow_singular: cov must be invertible.")
    x, mean, cov = promote_dtypes(x, mean, cov, to=INEXACT)
    if not mean.shape:
        return -1 / 2 * jnp.square(x - mean) / cov - 1 / 2 * (jnp.log(2 * math.pi) + jnp.log(cov))
    n = mean.shape[-1]
    if not np.shape(cov):
        return -1 / 2 * _squared_length(x - mean) / cov - n / 2 * (jnp.log(2 * math.pi) + jnp.log(cov))
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal.logpdf got incompatible shapes: mean of shape {mean.shape} goes with cov of shape "
            f"(..., {n}, {n}), not {cov.shape}."
        )
    factor = lax.linalg.cholesky(cov)
    solve = functools.partial(lax.linalg.triangular_solve, lower=True, transpose_a=True)
    y = jnp.vectorize(solve, signature="(n,n),(n)->(n)")(factor, x - mean)
    diagonal = factor.diagonal(axis1=-1, axis2=-2)
    return -1 / 2 * _squared_length(y) - n / 2 * jnp.log(2 * math.pi) - jnp.log(diagonal).sum(-1)


def pdf(x: Any, mean: Any, cov: Any) -> Any:
    """The density."""
    return lax.exp(logpdf(x, mean, cov))
