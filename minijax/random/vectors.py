"""Vectors and matrices: the multivariate normal distribution, and orthogonal matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.numpy import linalg
from minijax.numpy.creation import diagonal
from minijax.numpy.einsum import einsum
from minijax.numpy.promotion import promote_dtypes, static
from minijax.ops.shape import canonical_shape
from minijax.random.arguments import float_dtype, inexact_dtype, one_key, shape_of_samples, staged
from minijax.random.basic import normal
from minijax.random.samplers import sampler

__all__ = ["multivariate_normal", "orthogonal"]

_METHODS = ("svd", "eigh", "cholesky")


@sampler
def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    method: str = "cholesky",
) -> Any:
    """Normal vectors with the ``mean`` of shape ``batch + (n,)`` and the covariances ``cov``, ``batch + (n, n)``.

    The batches broadcast to ``shape``, and the result has the shape ``shape + (n,)``. ``method`` is the decomposition
    of the covariances: 'cholesky' (if one is not positive definite, nan), 'svd' or 'eigh'. ValueError for shapes that
    do not fit, another method, and a type that is not floating.
    """
    key = one_key("multivariate_normal", key)
    mean, cov = promote_dtypes(mean, cov, to=dtypes.to_inexact_dtype)
    found = float_dtype("multivariate_normal", mean.aval.dtype if dtype is None else dtype)
    if method not in _METHODS:
        raise ValueError(f"method must be one of {', '.join(_METHODS)}, got {method!r}")
    shape = _batch(mean.aval.shape, cov.aval.shape, shape)
    return _multivariate_normal(key, mean, cov, shape, found, method)


def _batch(mean: tuple[int, ...], cov: tuple[int, ...], shape: Any) -> tuple[int, ...]:
    """The shape of the samples but for the last axis. ValueError if shapes do not fit."""
    if not mean:
        raise ValueError("multivariate_normal requires mean.ndim >= 1, got mean.ndim == 0. It is a vector.")
    if len(cov) < 2:
        raise ValueError(f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {len(cov)}. It is a matrix.")
    n = mean[-1]
    if cov[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got cov.shape == {cov}."
        )
    return shape_of_samples("multivariate_normal", shape, mean[:-1], cov[:-2])


@staged
def _multivariate_normal(key: Any, mean: Any, cov: Any, shape: tuple[int, ...], dtype: np.dtype, method: str) -> Any:
    root = _root(cov, method)
    noise = normal(key, (*shape, get_aval(mean).shape[-1]), dtype)
    return mean + einsum("...ij,...j->...i", root, noise)


def _root(cov: Any, method: str) -> Any:
    """A matrix whose product with its transpose is ``cov``."""
    if method == "cholesky":
        return linalg.cholesky(cov)
    if method == "svd":
        vectors, values, _ = linalg.svd(cov)
    else:
        values, vectors = linalg.eigh(cov)
    return vectors * lax.sqrt(lax.expand_dims(values, (values.aval.ndim - 1,)))


@sampler
def orthogonal(
    key: Any, n: int, shape: Sequence[int] = (), dtype: Any = None, m: int | None = None
) -> Any:
    """Matrices of shape ``shape + (n, m)`` that are uniform among those with orthonormal columns (or rows, if fewer).

    ``m`` is ``n`` unless given. By F. Mezzadri, "How to generate random matrices from the classical compact groups"
    (2007). TypeError for sizes that are no integers, ValueError for negative ones and for a type that is neither real
    nor complex.
    """
    key = one_key("orthogonal", key)
    n = static(n, "It is a size.")
    m = n if m is None else static(m, "It is a size.")
    if min(n, m) < 0:
        raise ValueError(f"orthogonal: matrices have no negative dimensions, got {n} and {m}")
    return _orthogonal(key, (*canonical_shape(shape), n, m), inexact_dtype("normal", dtype))


@staged
def _orthogonal(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    n, m = shape[-2:]
    tall = (*shape[:-2], max(n, m), min(n, m))
    q, r = linalg.qr(normal(key, tall, dtype))
    # what makes the decomposition unique: a positive diagonal
    signs = lax.sign(diagonal(r, 0, -2, -1))
    q = q * lax.expand_dims(signs, (signs.aval.ndim - 1,))
    return q if n >= m else linalg.matrix_transpose(q)
