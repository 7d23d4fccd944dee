"""Uniform and normal numbers, integers, booleans, categories and random orders."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.numpy import reductions
from minijax.numpy.index_update import take
from minijax.numpy.mathematics import clip
from minijax.numpy.promotion import astype, canonical_axis, choose, ensure, static, typed_scalar
from minijax.ops.shape import canonical_shape
from minijax.random.arguments import (
    known_dtype,
    one_key,
    placed,
    shape_of_samples,
    staged,
    to_rank,
)
from minijax.random.keys import bits, sampler, split

__all__ = ["bernoulli", "categorical", "gumbel", "normal", "permutation", "randint", "uniform"]


@sampler
def uniform(key: Any, shape: Sequence[int] = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Uniform random numbers in [minval, maxval); the limits broadcast to ``shape``.

    Returns an array of ``shape``, float32 by default (float64 with x64). The same ``key`` gives the same numbers.
    ValueError for an array of keys, or if ``dtype`` is not a floating-point type. TypeError if the limits do not
    broadcast.

    >>> random.uniform(random.key(0))
    Array(0.947667, dtype=float32)
    """
    key = one_key("uniform", key)
    found = known_dtype("uniform", dtype, "float")
    return _uniform(key, canonical_shape(shape), found, placed(minval), placed(maxval))


@functools.lru_cache(maxsize=64)
def _mantissa(dtype: np.dtype) -> tuple[int, int, int]:
    """For a float type: the number of random bits to draw, how many of them to drop, and the bits of 1.0."""
    info = dtypes.finfo(dtype)
    # with fewer than 8 bits of mantissa, 8 random bits are enough
    drawn = 8 if info.nmant < 8 else info.bits
    one = int(np.ones((), dtype).view(f"uint{info.bits}"))
    return drawn, drawn - info.nmant, one


@staged
def _uniform(key: Any, shape: tuple[int, ...], dtype: np.dtype, minval: Any, maxval: Any) -> Any:
    # use random bits as the mantissa of a number in [1, 2)
    low, high = astype(minval, dtype), astype(maxval, dtype)
    low, high = to_rank(low, len(shape)), to_rank(high, len(shape))
    drawn, dropped, one = _mantissa(dtype)
    word = np.dtype(f"uint{dtypes.finfo(dtype).bits}")
    mantissa = astype(bits(key, shape, np.dtype(f"uint{drawn}")), word)
    mantissa = lax.bitwise_or(lax.shift_right_logical(mantissa, typed_scalar(dropped, word)), typed_scalar(one, word))
    zero_to_one = lax.sub(lax.bitcast_convert_type(mantissa, dtype), typed_scalar(1, dtype))
    found = zero_to_one * (high - low) + low
    # because of rounding, a number may be less than the lower limit
    return lax.max(low, lax.reshape(found, shape))


@sampler
def randint(key: Any, shape: Sequence[int], minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Uniform random integers in [minval, maxval); the limits broadcast to ``shape``.

    Returns an array of ``shape``. Where ``maxval`` is not above ``minval``, the result is ``minval``. ``dtype`` is an
    integer type, by default int32 (int64 with x64). TypeError for another dtype, OverflowError for a Python integer
    outside of the default type's range.

    >>> random.randint(random.key(0), (4,), 0, 10)
    Array([9, 0, 2, 3], dtype=int32)
    """
    key = one_key("randint", key)
    found = known_dtype("randint", dtype, "integer")
    if not dtypes.is_integer(found):
        raise TypeError(f"randint only accepts integer dtypes, got {found}. For real numbers use random.uniform.")
    shape = shape_of_samples("randint", shape, minval, maxval)
    if dtypes.bits(found) >= 32:
        return _randint(key, shape, minval, maxval, found)
    info, narrow = dtypes.iinfo(found), np.dtype(np.int32)
    low = clip(astype(minval, narrow), min=int(info.min), max=int(info.max))
    high = clip(astype(maxval, narrow), min=int(info.min), max=int(info.max) + 1)
    return astype(_randint(key, shape, low, high, narrow), found)


@staged
def _randint(key: Any, shape: tuple[int, ...], minval: Any, maxval: Any, dtype: np.dtype) -> Any:
    info = dtypes.iinfo(dtype)
    minval, maxval = (x if dtypes.is_integer(get_aval(x).dtype) else astype(x, dtype) for x in (minval, maxval))
    # maxval may be one more than the type's maximum
    beyond = lax.gt(maxval, _limited(typed_scalar(int(info.max), dtype), get_aval(maxval).dtype))
    low, high = _limited(minval, dtype), _limited(maxval, dtype)
    low, high = to_rank(low, len(shape)), to_rank(high, len(shape))
    first, second = split(key)
    word = np.dtype(f"uint{info.bits}")
    upper, lower = bits(first, shape, word), bits(second, shape, word)
    return lax.add(low, astype(_offset(upper, lower, _span(low, high, beyond, word)), dtype))


def _limited(x: Any, dtype: np.dtype) -> Any:
    """Clip the integers ``x`` to the range of ``dtype``."""
    aval = get_aval(x)
    own, info = dtypes.iinfo(aval.dtype), dtypes.iinfo(dtype)
    limits = [
        typed_scalar(each, aval.dtype, aval.weak_type)
        for each in (max(int(own.min), int(info.min)), min(int(own.max), int(info.max)))
    ]
    return astype(clip(x, *limits), dtype)


def _span(low: Any, high: Any, beyond: Any, word: np.dtype) -> Any:
    """The number of integers in [low, high), at least 1. Where ``beyond`` is True, the interval includes ``high``."""
    span = astype(lax.sub(high, low), word)
    shape = get_aval(span).shape
    span = lax.select(lax.le(high, low), lax.full(shape, 1, word), span)
    some = lax.gt(high, low)
    more = lax.bitwise_and(to_rank(beyond, len(shape)) if get_aval(beyond).ndim else beyond, some)
    return lax.select(more, lax.add(span, typed_scalar(1, word)), span)


def _offset(upper: Any, lower: Any, span: Any) -> Any:
    """Join two random words into a number with twice as many bits, and return this number modulo ``span``."""
    word = get_aval(span).dtype
    half = typed_scalar(1 << (dtypes.bits(word) // 2), word)
    shifted = lax.rem(half, span)
    shifted = lax.rem(lax.mul(shifted, shifted), span)
    return lax.rem(lax.add(lax.mul(lax.rem(upper, span), shifted), lax.rem(lower, span)), span)


@sampler
def bernoulli(key: Any, p: Any = 0.5, shape: Sequence[int] | None = None, mode: str = "low") -> Any:
    """Random booleans, True with probability ``p``, which broadcasts to ``shape``.

    ``mode`` 'high' draws twice as many bits, for accurate small probabilities. Raises TypeError for a ``p`` that is
    not floating, ValueError for another mode or for a shape to which ``p`` does not broadcast.
    """
    if mode not in ("high", "low"):
        raise ValueError(f"got mode={mode!r}, expected 'high' or 'low'")
    key = one_key("bernoulli", key)
    p = ensure("bernoulli", p)
    if not dtypes.is_float(p.aval.dtype):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {p.aval.dtype}.")
    return _bernoulli(key, astype(p, p.aval.dtype), shape_of_samples("bernoulli", shape, p), mode)


@staged
def _bernoulli(key: Any, p: Any, shape: tuple[int, ...], mode: str) -> Any:
    dtype = get_aval(p).dtype
    if mode == "low":
        return uniform(key, shape, dtype) < p
    high, low = uniform(key, (2, *shape), dtype)
    return lax.mul(low, typed_scalar(dtypes.finfo(dtype).eps, dtype)) < p - high


@sampler
def normal(key: Any, shape: Sequence[int] = (), dtype: Any = None) -> Any:
    """Standard normal numbers, real or complex, with mean 0 and variance 1. ValueError for any other ``dtype``.

    Returns an array of ``shape``, float32 by default (float64 with x64). For mean m and standard deviation s write
    ``m + s * normal(key, shape)``.

    >>> random.normal(random.key(0), (2,))
    Array([1.6226422, 2.0252647], dtype=float32)
    """
    key = one_key("normal", key)
    return _normal(key, canonical_shape(shape), known_dtype("normal", dtype, "float or complex"))


@staged
def _normal(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    if not dtypes.is_complex(dtype):
        return _normal_real(key, shape, dtype)
    first, second = split(key)
    part = dtypes.real_dtype(dtype)
    real = astype(_normal_real(first, shape, part), dtype)
    imaginary = astype(_normal_real(second, shape, part), dtype)
    turned = lax.mul(typed_scalar(1j, dtype), imaginary)
    return lax.div(lax.add(real, turned), typed_scalar(np.array(math.sqrt(2)).astype(part), dtype))


@staged
def _normal_real(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    # apply the inverse of the distribution function to uniform numbers in (-1, 1)
    least = typed_scalar(-1 + float(dtypes.finfo(dtype).epsneg), dtype)
    found = uniform(key, shape, dtype, least, typed_scalar(1, dtype))
    return lax.mul(typed_scalar(math.sqrt(2), dtype), lax.erf_inv(found))


@sampler
def gumbel(key: Any, shape: Sequence[int] = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Gumbel random numbers, with the distribution function exp(-exp(-x)).

    ``mode`` 'high' (default 'low') draws twice as many bits, so that larger numbers occur. ValueError for another mode.
    """
    key, found = one_key("gumbel", key), known_dtype("gumbel", dtype, "float")
    mode = "low" if mode is None else mode
    if mode not in ("high", "low"):
        raise ValueError(f"Must provide valid mode for gumbel got: {mode}. Give 'high' or 'low'.")
    return _gumbel(key, canonical_shape(shape), found, mode)


@staged
def _gumbel(key: Any, shape: tuple[int, ...], dtype: np.dtype, mode: str) -> Any:
    info = dtypes.finfo(dtype)
    tiny = typed_scalar(info.tiny, dtype)
    if mode == "low":
        return lax.neg(lax.log(lax.neg(lax.log(_uniform(key, shape, dtype, minval=tiny, maxval=1.0)))))
    high, low = _uniform(key, (2, *shape), dtype, minval=0.0, maxval=1.0)
    # below 1/2, one draw cannot give all floats, so the second draw adds the low bits
    coarse = lax.ge(high, typed_scalar(0.5, dtype))
    finer = lax.add(lax.add(high, lax.mul(typed_scalar(info.eps, dtype), low)), tiny)
    found = choose(coarse, high, finer)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(found)))))


@sampler
def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Sequence[int] | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Any:
    """Indices along ``axis`` with the probabilities ``softmax(logits, axis)``: integers of the default type.

    The shape of ``logits`` without ``axis`` is the batch shape. ``shape`` is the result's shape: its last dimensions
    are the batch shape, broadcast, and its first dimensions count samples from one distribution. With ``replace=False``
    these samples are all different. ``mode`` is as in ``gumbel``. Raises TypeError for a non-array, IndexError for a
    bad ``axis``, ValueError for shapes that do not fit, and for more distinct samples than categories.
    """
    key = one_key("categorical", key)
    logits = ensure("categorical", logits)
    own = logits.aval.shape
    if not -len(own) <= axis < len(own):
        raise IndexError(
            f"categorical: index {axis} is out of bounds for axis: logits of shape {own} have {len(own)} axes"
        )
    axis = axis % len(own) - len(own)
    batch = tuple(size for i, size in enumerate(own) if i != axis + len(own))
    shape = shape_of_samples("categorical", shape, batch)
    prefix, drawn = shape[: len(shape) - len(batch)], list(shape[len(shape) - len(batch) :])
    if replace:
        drawn.insert(axis + len(own), own[axis])
        noise = gumbel(key, (*prefix, *drawn), logits.aval.dtype, mode)
        expanded = lax.expand_dims(logits, tuple(range(len(prefix))))
        return reductions.argmax(noise + expanded, axis)
    return _different(key, logits, axis, shape, math.prod(prefix), mode)


def _different(key: Any, logits: Any, axis: int, shape: tuple[int, ...], count: int, mode: str | None) -> Any:
    """Draw ``count`` different samples: the indices of the ``count`` largest values of ``logits`` plus Gumbel noise.

    Source: W. Kool, H. van Hoof and M. Welling (2019), "Stochastic beams and where to find them".
    """
    own = logits.aval.shape
    logits = logits + gumbel(key, own, logits.aval.dtype, mode)
    if count > own[axis]:
        raise ValueError(
            f"Number of samples without replacement ({count}) cannot exceed number of categories ({own[axis]}). Draw "
            "fewer, or with replace=True."
        )
    _, places = lax.top_k(logits, count, axis=axis)
    first = axis + len(own)
    order = (first, *(i for i in range(len(own)) if i != first))
    return lax.reshape(places, shape, order)


@sampler
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """``x`` in a random order along ``axis``; for an integer, ``arange(x)`` in a random order.

    The result has the shape and dtype of ``x``. With ``independent`` each vector along ``axis`` gets an order of its
    own. Raises TypeError for a non-integer number and for a non-array, ValueError for a bad ``axis``.

    >>> random.permutation(random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    key = one_key("permutation", key)
    x = ensure("permutation", x)
    axis = canonical_axis(axis, x.aval.ndim or 1)
    if not x.aval.ndim:
        if not dtypes.is_integer(x.aval.dtype):
            raise TypeError(f"x must be an integer or at least 1-dimensional, got {x.aval}")
        size = max(static(x, "It is the length of a permutation.", int), 0)
        return _shuffle(key, lax.iota(x.aval.dtype, size), axis)
    if independent or x.aval.ndim == 1:
        return _shuffle(key, x, axis)
    order = _shuffle(key, lax.iota(dtypes.default_int_dtype(x64_enabled()), x.aval.shape[axis]), 0)
    return take(x, order, axis, unique_indices=True)


# The shuffle sorts 32-bit words. Many elements need several rounds, because equal words become likely.
_WORDS = 2**32 - 1
_EXPONENT = 3


@staged
def _shuffle(key: Any, x: Any, axis: int) -> Any:
    """Sort ``x`` by random words, in enough rounds that the probability of a tie is at most 1 / ``x.size``."""
    aval = get_aval(x)
    rounds = math.ceil(_EXPONENT * math.log(max(1, aval.size)) / math.log(_WORDS))
    for _ in range(rounds):
        key, subkey = split(key)
        words = bits(subkey, aval.shape, np.dtype(np.uint32))
        _, x = lax.sort_key_val(words, x, axis)
    return x
