"""Distributions that are functions of uniform, exponential or normal numbers, mostly inverted distribution functions.

The formulas are those of L. Devroye, "Non-Uniform Random Variate Generation" (1986), chapters II and IX.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.core import dtypes
from minijax.numpy import linalg
from minijax.numpy.promotion import asarray, astype, broadcast_to, choose
from minijax.ops.shape import broadcast_shapes, canonical_shape
from minijax.random.arguments import (
    check_safe,
    checked,
    constant,
    float_dtype,
    halves,
    inexact_dtype,
    inlined,
    one_key,
    shape_of_samples,
    staged,
    two_keys,
)
from minijax.random.basic import _uniform, normal, rademacher, uniform
from minijax.random.samplers import sampler

__all__ = [
    "cauchy",
    "double_sided_maxwell",
    "exponential",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "maxwell",
    "pareto",
    "rayleigh",
    "triangular",
    "wald",
    "weibull_min",
]

# -------------------------------------------------------------------------------- without parameters


@sampler
def gumbel(key: Any, shape: Sequence[int] = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Numbers with the distribution function exp(-exp(-x)).

    ``mode`` 'high' draws twice as many bits, so that large numbers are met; 'low' is the default. ValueError for other
    modes, and for a type that is not floating.
    """
    arguments = checked("gumbel", key, shape, dtype)
    mode = "low" if mode is None else mode
    if mode not in ("high", "low"):
        raise ValueError(f"Must provide valid mode for gumbel got: {mode}. There are 'high' and 'low'.")
    return _gumbel(*arguments, mode)


@staged
def _gumbel(key: Any, shape: tuple[int, ...], dtype: np.dtype, mode: str) -> Any:
    info = dtypes.finfo(dtype)
    tiny = constant(info.tiny, dtype)
    if mode == "low":
        return lax.neg(lax.log(lax.neg(lax.log(_uniform(key, shape, dtype, minval=tiny, maxval=1.0)))))
    high, low = halves(_uniform(key, (2, *shape), dtype, minval=0.0, maxval=1.0))
    # below 1/2 floats are closer than the numbers that were drawn: the second ones fill the gaps
    coarse = lax.ge(high, constant(0.5, dtype))
    finer = lax.add(lax.add(high, lax.mul(constant(info.eps, dtype), low)), tiny)
    found = choose(coarse, high, finer)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(found)))))


@sampler
def exponential(key: Any, shape: Sequence[int] = (), dtype: Any = None) -> Any:
    """Numbers with the density exp(-x) over x > 0. ValueError for a type that is not floating."""
    return _exponential(*checked("exponential", key, shape, dtype))


@staged
def _exponential(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return lax.neg(lax.log1p(lax.neg(uniform(key, shape, dtype))))


@sampler
def laplace(key: Any, shape: Sequence[int] = (), dtype: Any = None) -> Any:
    """Numbers with the density exp(-abs(x)) / 2. ValueError for a type that is not floating."""
    return _laplace(*checked("laplace", key, shape, dtype))


@staged
def _laplace(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    # the least number above -1: of a type that is not NumPy's it is a float32, as JAX has it
    least = np.asarray(-1.0 + dtypes.finfo(dtype).epsneg)
    found = uniform(key, shape, dtype, constant(least, least.dtype), 1.0)
    return lax.mul(lax.sign(found), lax.log1p(lax.neg(lax.abs(found))))


@sampler
def logistic(key: Any, shape: Sequence[int] = (), dtype: Any = None) -> Any:
    """Numbers with the distribution function 1 / (1 + exp(-x)). ValueError for a type that is not floating."""
    return _logistic(*checked("logistic", key, shape, dtype))


@staged
def _logistic(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    found = uniform(key, shape, dtype, constant(dtypes.finfo(dtype).tiny, dtype), 1.0)
    return lax.sub(lax.log(found), lax.log1p(lax.neg(found)))


@sampler
def cauchy(key: Any, shape: Sequence[int] = (), dtype: Any = None) -> Any:
    """Numbers with the density 1 / (pi (x**2 + 1)). ValueError for a type that is not floating."""
    return _cauchy(*checked("cauchy", key, shape, dtype))


@staged
def _cauchy(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    found = uniform(key, shape, dtype, constant(dtypes.finfo(dtype).eps, dtype), 1.0)
    return lax.tan(lax.mul(constant(math.pi, dtype), lax.sub(found, constant(0.5, dtype))))


@sampler
def maxwell(key: Any, shape: Sequence[int] = (), dtype: Any = None) -> Any:
    """The length of a vector of three standard normal numbers. ValueError for a type that is not floating."""
    return _maxwell(*checked("maxwell", key, shape, dtype))


@staged
def _maxwell(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return linalg.norm(normal(key, (*shape, 3), dtype), axis=-1)


# -------------------------------------------------------------------------------- with parameters


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Sequence[int] = (), dtype: Any = None
) -> Any:
    """``loc`` plus ``scale`` times a Maxwell number with a random sign.

    As in JAX the samples have ``shape``, by default that of ``loc`` and ``scale`` broadcast, and then that shape once
    more. ValueError for a type that is not floating.
    """
    key = one_key("double_sided_maxwell", key)
    found = float_dtype("double_sided_maxwell", dtype)
    of_params = broadcast_shapes(np.shape(loc), np.shape(scale))
    shape = (*(canonical_shape(shape) or of_params), *of_params)
    return _double_sided_maxwell(key, loc, scale, shape, found)


@staged
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    first, second = two_keys(key)
    size = maxwell(first, shape, dtype)
    return rademacher(second, shape, dtype) * size * scale + loc


# not of a weak type, as in JAX: samples of a half float need a sigma of their own
_ONE = np.float32(1.0)


@sampler
def lognormal(key: Any, sigma: Any = _ONE, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """The exponential of ``sigma`` times standard normal numbers; ``sigma`` broadcasts to ``shape``.

    ValueError for a type that is neither real nor complex, or if ``sigma`` does not broadcast.
    """
    key = one_key("lognormal", key)
    found = inexact_dtype("lognormal", dtype)
    shape = shape_of_samples("lognormal", shape, sigma)
    check_safe("lognormal", found, sigma)
    return _lognormal(key, astype(sigma, found), shape, found)


@inlined
def _lognormal(key: Any, sigma: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return lax.exp(normal(key, shape, dtype) * sigma)


@sampler
def rayleigh(key: Any, scale: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """``scale`` times the length of a vector of two standard normal numbers; it broadcasts to ``shape``.

    ValueError for a type that is not floating, or if ``scale`` does not broadcast.
    """
    return _rayleigh(*checked("rayleigh", key, shape, dtype, scale))


@staged
def _rayleigh(key: Any, scale: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    found = uniform(key, shape, dtype)
    scale = broadcast_to(astype(scale, dtype), shape)
    return lax.mul(scale, lax.sqrt(lax.mul(lax.log(found), constant(-2, dtype))))


@sampler
def pareto(key: Any, b: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """Numbers with the density b / x**(b + 1) over x > 1; ``b`` broadcasts to ``shape``.

    ValueError for a type that is not floating, or if ``b`` does not broadcast.
    """
    return _pareto(*checked("pareto", key, shape, dtype, b))


@staged
def _pareto(key: Any, b: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    b = astype(b, dtype)
    return lax.exp(exponential(key, shape, dtype) / b)


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Sequence[int] = (), dtype: Any = None
) -> Any:
    """``scale`` times exponential numbers to the power 1 / ``concentration``.

    ``shape`` is that of the samples before ``scale`` and ``concentration``. ValueError for a type that is not floating.
    """
    key = one_key("weibull_min", key)
    found = float_dtype("weibull_min", dtype)
    return _weibull_min(key, scale, concentration, canonical_shape(shape), found)


@staged
def _weibull_min(key: Any, scale: Any, concentration: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    found = uniform(key, shape, dtype, 0, 1)
    return lax.neg(lax.log1p(lax.neg(found))) ** (1.0 / concentration) * scale


@sampler
def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Sequence[int] | None = None, dtype: Any = None
) -> Any:
    """Numbers between ``left`` and ``right`` whose density is a triangle with its top at ``mode``.

    The three broadcast to ``shape``. ValueError if they do not, or for a type that is not floating.
    """
    key, *limits, of_samples, found = checked("triangular", key, shape, dtype, left, mode, right)
    return _triangular(key, *(asarray(astype(x, found)) for x in limits), of_samples, found)


@inlined
def _triangular(key: Any, left: Any, top: Any, right: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    left, right, top = (broadcast_to(x, shape) for x in (left, right, top))
    at_mode = lax.div(lax.sub(top, left), lax.sub(right, left))
    level = uniform(key, shape, dtype)
    rising = lax.mul(lax.mul(level, lax.sub(right, left)), lax.sub(top, left))
    below = lax.add(left, lax.sqrt(rising))
    falling = lax.mul(lax.mul(lax.sub(constant(1, dtype), level), lax.sub(right, left)), lax.sub(right, top))
    above = lax.sub(right, lax.sqrt(falling))
    return lax.select(lax.lt(level, at_mode), below, above)


@sampler
def wald(key: Any, mean: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """Numbers of the inverse normal distribution of shape 1 with ``mean``, which broadcasts to ``shape``.

    By the transformation with two roots of J. Michael, W. Schucany and R. Haas (1976). ValueError for a type that is
    not floating, or if ``mean`` does not broadcast.
    """
    return _wald(*checked("wald", key, shape, dtype, mean))


@staged
def _wald(key: Any, mean: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    first, second = two_keys(key)
    mean = broadcast_to(astype(mean, dtype), shape)
    found, level = normal(first, shape, dtype), uniform(second, shape, dtype)
    squared = lax.integer_pow(found, 2)
    fourth = lax.integer_pow(squared, 2)
    mean_squared = lax.integer_pow(mean, 2)
    root = lax.sqrt(4.0 * mean * squared + mean_squared * fourth)
    smaller = mean + mean_squared * squared / 2.0 - mean / 2.0 * root
    return lax.select(level <= mean / (mean + smaller), smaller, mean_squared / smaller)
