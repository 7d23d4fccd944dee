"""Counts: the Poisson and the geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.keys import THREEFRY
from minijax.numpy.promotion import astype, broadcast_to, choose, ensure, promote
from minijax.ops.shape import canonical_shape
from minijax.random.arguments import any_dtype, constant, one_key, shape_of_samples, staged, two_keys
from minijax.random.basic import uniform
from minijax.random.keys import split
from minijax.random.samplers import sampler

__all__ = ["geometric", "poisson"]

# From this rate on, Poisson numbers are drawn by rejection; below it, gaps between events are counted.
_FREQUENT = 10.0
_FLOAT = np.dtype(np.float32)


@sampler
def poisson(key: Any, lam: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """How many events there are in a unit of time in which ``lam`` are expected; ``lam`` broadcasts to ``shape``.

    ``dtype`` is an integer type; where ``lam`` is nan, -1. Raises ValueError for another type or if ``lam`` does not
    broadcast, NotImplementedError for keys of another implementation than threefry2x32.
    """
    key = one_key("poisson", key)
    if key.dtype.impl is not THREEFRY:
        raise NotImplementedError(
            f"`poisson` is only implemented for the threefry2x32 RNG, not {key.dtype.impl.name}. Make the key with "
            "random.key(seed)."
        )
    found = any_dtype("poisson", dtype)
    if not dtypes.is_integer(found):
        raise ValueError(f"dtype argument to `poisson` must be an integer dtype, got {found}.")
    shape = get_aval(lam).shape if shape is None else canonical_shape(shape)
    rate = astype(broadcast_to(ensure("poisson", lam), shape), _FLOAT)
    return _poisson(key, rate, shape, found)


@staged
def _poisson(key: Any, lam: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    by_gaps = lax.bitwise_or(lax.ne(lam, lam), lax.lt(lam, constant(_FREQUENT, _FLOAT)))
    # both methods draw for all elements: in place of the other's rates, one with which that is soon done
    few = lax.select(by_gaps, lam, lax.full_like(lam, 0.0))
    many = lax.select(by_gaps, lax.full_like(lam, 1e5), lam)
    counted = _poisson_knuth(key, few, shape, dtype)
    drawn = lax.select(by_gaps, counted, _poisson_rejection(key, many, shape, dtype))
    return lax.select(lax.eq(lam, constant(0, _FLOAT)), lax.full_like(drawn, 0), drawn)


def _most(dtype: np.dtype) -> Any:
    return constant(int(dtypes.iinfo(dtype).max), dtype)


@staged
def _poisson_knuth(key: Any, lam: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Gaps between events are counted until their sum is a unit of time: D. Knuth, TAOCP volume 2, 3.4.1."""

    def count(carry: Any) -> Any:
        i, found, key, log_product = carry
        key, subkey = two_keys(key)
        found = lax.select(log_product > -lam, found + 1, found)
        level = uniform(subkey, shape, np.dtype(np.float32))
        return i + 1, found, key, log_product + lax.log(level)

    def more(carry: Any) -> Any:
        i, _, _, log_product = carry
        return (log_product > -lam).any() & (i < _most(dtype))

    start = (0, lax.full_like(lam, 0, dtype, shape), key, lax.full_like(lam, 0, _FLOAT, shape))
    return lax.while_loop(more, count, start)[1] - 1


@staged
def _poisson_rejection(key: Any, lam: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Transformed rejection with squeeze: W. Hörmann, "The transformed rejection method for generating Poisson random
    variables" (1993), algorithm PTRS, whose letters these are.
    """
    log_lam = lax.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def attempt(carry: Any) -> Any:
        i, found, accepted, key = carry
        key, first, second = split(key, 3)
        u = uniform(first, shape, lam.dtype) - 0.5
        v = uniform(second, shape, lam.dtype)
        us = 0.5 - abs(u)
        k = lax.floor((2 * a / us + b) * u + lam + 0.43)
        s = lax.log(v * inverse_alpha / (a / (us * us) + b))
        log_density = -lam + k * log_lam - lax.lgamma(k + 1)
        at_once = (us >= 0.07) & (v <= v_r)
        reject = (k < 0) | ((us < 0.013) & (v > us))
        below = s <= log_density
        accept = at_once | (~reject & below)
        found, accepted = lax.select(accept, k, found), accepted | accept
        return i + 1, found, accepted, key

    def more(carry: Any) -> Any:
        i, _, accepted, _ = carry
        return (~accepted).any() & (i < _most(dtype))

    start = (0, lax.full_like(lam, -1, lam.dtype, shape), lax.full_like(lam, False, np.dtype(bool), shape), key)
    return astype(lax.while_loop(more, attempt, start)[1], dtype)


@sampler
def geometric(key: Any, p: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """How many attempts it takes to succeed, each succeeding with probability ``p``, which broadcasts to ``shape``.

    ``dtype`` is an integer type. ValueError for another, or if ``p`` does not broadcast.
    """
    key = one_key("geometric", key)
    found = any_dtype("geometric", dtype)
    if not dtypes.is_integer(found):
        raise ValueError(f"dtype argument to `geometric` must be an int dtype, got {found}. It is a count.")
    return _geometric(key, p, shape_of_samples("geometric", shape, p), found)


@staged
def _geometric(key: Any, p: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    (p,) = promote("geometric", p, to=dtypes.to_inexact_dtype)
    level = uniform(key, shape, get_aval(p).dtype)
    level = choose(level == 0, 1, level)
    log_level, log_failure = lax.log(level), lax.log1p(lax.neg(p))
    attempts = lax.floor(lax.div(log_level, broadcast_to(log_failure, shape)))
    return astype(lax.add(attempts, constant(1, level.dtype)), dtype)
