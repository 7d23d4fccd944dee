"""Sums and cumulative sums with NumPy, with a rounding error that does not grow with the number of terms.

NumPy adds pairwise along the axis that is contiguous in memory, but element by element along other axes: a float32 sum
of 17,000,000 ones along axis 0 stops at 16,777,216. Here no chain of additions is longer than ``CHAIN``, as in XLA.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minijax.core.rules import Axes

CHAIN = 32
# Up to this many terms NumPy's own order is used.
SHORT = 128
# The number of neighbouring elements added at a time; their partial sums fit into the L1 cache.
_WIDTH = 1024


def sum_of(x: Any, axes: Axes, dtype: np.dtype) -> Any:
    """The sum of floats or complex numbers ``x`` over ``axes`` (at least one), computed in ``dtype``."""
    while not _is_exact_enough(x, axes):
        x = _partial_sums(x, max(axes, key=x.shape.__getitem__), dtype)
    return np.add.reduce(x, axes, dtype)


def _is_exact_enough(x: Any, axes: Axes) -> bool:
    """Whether each sum has few terms, or its terms are contiguous in memory, so that NumPy adds pairwise."""
    shape, first = x.shape, axes[0]
    if len(axes) == 1:
        if shape[first] <= SHORT:
            return True
        stride = abs(x.strides[first])
        return all(stride <= abs(s) or n == 1 for s, n in zip(x.strides, shape, strict=True))
    if math.prod([shape[a] for a in axes]) <= SHORT:
        return True
    flags, ndim = x.flags, x.ndim
    if flags.c_contiguous:
        return min(axes) == ndim - len(axes)
    return flags.f_contiguous and max(axes) == len(axes) - 1


def _partial_sums(x: Any, axis: int, dtype: np.dtype) -> Any:
    """Partial sums of ``x`` along ``axis``: each adds about ``CHAIN`` elements that are ``width`` apart."""
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    chain = min(CHAIN, n)
    width = max(1, min(n // chain, _WIDTH // max(1, math.prod(after))))
    count = n // (chain * width)
    head = count * chain * width
    at = (slice(None),) * axis
    split = (x[(*at, slice(head))] if head < n else x).reshape(*before, count, chain, width, *after)
    part = np.add.reduce(split, axis + 1, dtype).reshape(*before, count * width, *after)
    if head < n:
        rest = x[(*at, slice(head, None))]
        rest = _partial_sums(rest, axis, dtype) if n - head >= chain else rest.sum(axis, dtype, keepdims=True)
        part[(*at, slice(rest.shape[axis]))] += rest
    return part


def accumulated(ufunc: np.ufunc, x: Any, axis: int, dtype: np.dtype) -> Any:
    """The cumulative ``ufunc`` of ``x`` along ``axis`` in ``dtype``, first within pieces, then across the pieces."""
    n = x.shape[axis]
    if n <= SHORT or dtype.kind not in "fc":
        return ufunc.accumulate(x, axis, dtype)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    at: tuple[Any, ...] = (slice(None),) * axis
    out = np.empty(x.shape, dtype)
    count = n // CHAIN
    head = count * CHAIN
    pieces = out[(*at, slice(0, head))].reshape(*before, count, CHAIN, *after)
    ufunc.accumulate(x[(*at, slice(0, head))].reshape(pieces.shape), axis + 1, dtype, pieces)
    so_far = accumulated(ufunc, pieces[(*at, slice(None), -1)], axis, dtype)
    later = pieces[(*at, slice(1, None))]
    ufunc(np.expand_dims(so_far[(*at, slice(0, -1))], axis + 1), later, later)
    if head < n:
        rest = out[(*at, slice(head, None))]
        ufunc.accumulate(x[(*at, slice(head, None))], axis, dtype, rest)
        ufunc(so_far[(*at, slice(-1, None))], rest, rest)
    return out
