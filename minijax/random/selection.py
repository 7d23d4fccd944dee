"""Random categories and random orders."""

from __future__ import annotations

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
from minijax.numpy.promotion import canonical_axis, ensure, static
from minijax.random.arguments import one_key, shape_of_samples, staged, two_keys
from minijax.random.basic import gumbel
from minijax.random.keys import bits
from minijax.random.samplers import sampler

__all__ = ["categorical", "permutation"]

# -------------------------------------------------------------------------------- categories


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

    The shape of ``logits`` without ``axis`` is the batch. ``shape`` is that of the samples, its last dimensions those
    to which the batch broadcasts; its first ones count samples of one distribution, which with ``replace=False`` are
    all different. ``mode`` is that of ``gumbel``. Raises TypeError for what is no array, IndexError for a bad ``axis``,
    ValueError for shapes that do not fit, and for more different samples than there are.
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
    """The ``count`` best of the perturbed ``logits``: W. Kool, H. van Hoof and M. Welling (2019)."""
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


# -------------------------------------------------------------------------------- orders


@sampler
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """``x`` in a random order along ``axis``; of an integer, ``arange(x)``.

    With ``independent`` each vector along ``axis`` gets an order of its own. Raises TypeError for a number that is no
    integer and for what is no array, ValueError for a bad ``axis``.
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
    order = _shuffle(key, lax.iota(_index_dtype(), x.aval.shape[axis]), 0)
    return take(x, order, axis, unique_indices=True)


def _index_dtype() -> np.dtype:
    return dtypes.default_int_dtype(x64_enabled())


# Words of 32 bits are sorted. Many elements need several rounds, since equal words become likely.
_WORDS = 2**32 - 1
_EXPONENT = 3


@staged
def _shuffle(key: Any, x: Any, axis: int) -> Any:
    """``x`` sorted by random words, often enough that equal words among n elements, left in their order, are rarer than
    1 / n.
    """
    aval = get_aval(x)
    rounds = math.ceil(_EXPONENT * math.log(max(1, aval.size)) / math.log(_WORDS))
    for _ in range(rounds):
        key, subkey = two_keys(key)
        words = bits(subkey, aval.shape, np.dtype(np.uint32))
        _, x = lax.sort_key_val(words, x, axis)
    return x
