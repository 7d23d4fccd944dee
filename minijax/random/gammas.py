"""Gamma numbers, and the distributions that are made of them: beta, chi-squared, Dirichlet, t, F and their like."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.core.array import get_aval
from minijax.nn.functions import softmax
from minijax.numpy import reductions
from minijax.numpy.promotion import astype, broadcast_to
from minijax.ops.shape import canonical_shape
from minijax.random.arguments import (
    checked,
    constant,
    float_dtype,
    one_key,
    shape_of_samples,
    staged,
    two_keys,
)
from minijax.random.basic import normal, rademacher
from minijax.random.keys import split
from minijax.random.random_gamma import random_gamma_p
from minijax.random.samplers import sampler
from minijax.random.transformed import exponential

__all__ = ["ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "t"]


@sampler
def gamma(key: Any, a: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """Numbers with the density x**(a - 1) exp(-x) / Gamma(a) over x > 0; ``a`` broadcasts to ``shape``.

    The derivative by ``a`` is that of the inverse distribution function. ValueError for a type that is not floating, or
    if ``a`` does not broadcast.
    """
    return _gamma(*checked("gamma", key, shape, dtype, a, lossy=True), False)


@sampler
def loggamma(key: Any, a: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """The logarithms of the numbers that ``gamma`` gives, also where these are too small for ``dtype``."""
    return _gamma(*checked("gamma", key, shape, dtype, a, lossy=True), True)


@staged
def _gamma(key: Any, a: Any, shape: tuple[int, ...], dtype: np.dtype, log_space: bool) -> Any:
    return random_gamma_p.bind(key, broadcast_to(astype(a, dtype), shape), log_space=log_space)


@sampler
def beta(key: Any, a: Any, b: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """Numbers with a density proportional to x**(a - 1) (1 - x)**(b - 1); ``a`` and ``b`` broadcast to ``shape``.

    ValueError for a type that is not floating, or if they do not broadcast.
    """
    return _beta(*checked("beta", key, shape, dtype, a, b))


@staged
def _beta(key: Any, a: Any, b: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    a, b = astype(a, dtype), astype(b, dtype)
    first, second = two_keys(key)
    a, b = broadcast_to(a, shape), broadcast_to(b, shape)
    log_x, log_y = loggamma(first, a, shape, dtype), loggamma(second, b, shape, dtype)
    larger = lax.max(log_x, log_y)
    x, y = lax.exp(log_x - larger), lax.exp(log_y - larger)
    return x / (x + y)


@sampler
def dirichlet(key: Any, alpha: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """Vectors of probabilities, which sum to 1 along the last axis, with the concentrations ``alpha``.

    ``alpha`` has the shape ``batch + (n,)``, its batch broadcasts to ``shape``, and the result has the shape
    ``shape + (n,)``. ValueError for a scalar ``alpha``, shapes that do not fit, and a type that is not floating.
    """
    key = one_key("dirichlet", key)
    found = float_dtype("dirichlet", dtype)
    own = get_aval(alpha).shape
    if not own:
        raise ValueError(
            "dirichlet requires alpha.ndim >= 1, got alpha.ndim == 0. Its last axis is that of the probabilities."
        )
    return _dirichlet(key, alpha, shape_of_samples("dirichlet", shape, own[:-1]), found)


@staged
def _dirichlet(key: Any, alpha: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    alpha = astype(alpha, dtype)
    return softmax(loggamma(key, alpha, (*shape, get_aval(alpha).shape[-1]), dtype), -1)


@sampler
def t(key: Any, df: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """Student's t with ``df`` degrees of freedom, which broadcasts to ``shape``.

    ValueError for a type that is not floating, or if ``df`` does not broadcast.
    """
    return _t(*checked("t", key, shape, dtype, df))


@staged
def _t(key: Any, df: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    df = astype(df, dtype)
    first, second = two_keys(key)
    found = normal(first, shape, dtype)
    half = lax.div(df, constant(2, dtype))
    return found * lax.sqrt(half / gamma(second, half, shape, dtype))


@sampler
def chisquare(key: Any, df: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """Chi-squared numbers with ``df`` degrees of freedom, which broadcasts to ``shape``.

    ValueError for a type that is not floating, or if ``df`` does not broadcast.
    """
    return _chisquare(*checked("chisquare", key, shape, dtype, df))


@staged
def _chisquare(key: Any, df: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    two = constant(2, dtype)
    half = lax.div(astype(df, dtype), two)
    return lax.mul(lax.exp(loggamma(key, half, shape, dtype)), two)


@sampler
def f(key: Any, dfnum: Any, dfden: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """The ratio of two chi-squared numbers, each divided by its degrees of freedom ``dfnum`` and ``dfden``.

    These broadcast to ``shape``. ValueError if they do not, or for a type that is not floating.
    """
    return _f(*checked("f", key, shape, dtype, dfnum, dfden))


@staged
def _f(key: Any, dfnum: Any, dfden: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    dfden, dfnum = astype(dfden, dtype), astype(dfnum, dtype)
    second, first = two_keys(key)
    above, below = chisquare(first, dfnum, shape, dtype), chisquare(second, dfden, shape, dtype)
    return (above / dfnum) / (below / dfden)


@sampler
def generalized_normal(key: Any, p: Any, shape: Sequence[int] = (), dtype: Any = None) -> Any:
    """Numbers with a density proportional to exp(-abs(x)**p). ValueError for a type that is not floating."""
    key = one_key("generalized_normal", key)
    return _generalized_normal(key, p, canonical_shape(shape), float_dtype("generalized_normal", dtype))


@staged
def _generalized_normal(key: Any, p: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    keys = split(key)
    size = gamma(keys[0], 1 / p, shape, dtype)
    return rademacher(keys[1], shape, dtype) * size ** (1 / p)


@sampler
def ball(key: Any, d: int, p: Any = 2, shape: Sequence[int] = (), dtype: Any = None) -> Any:
    """Points that are uniform in the unit ball of the ``p``-norm, of shape ``shape + (d,)``.

    By F. Barthe, O. Guédon, S. Mendelson and A. Naor (2005). TypeError for a ``d`` that is no integer, ValueError for a
    type that is not floating.
    """
    key = one_key("ball", key)
    return _ball(key, p, (*canonical_shape(shape), operator.index(d)), float_dtype("ball", dtype))


@staged
def _ball(key: Any, p: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    first, second = two_keys(key)
    direction = generalized_normal(first, p, shape, dtype)
    extra = exponential(second, shape[:-1], dtype)
    norm = (reductions.sum(abs(direction) ** p, -1) + extra) ** (1 / p)
    return direction / lax.expand_dims(norm, (norm.ndim,))
