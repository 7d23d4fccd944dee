"""Indexing: ``x[...]`` with static integers, slices, None and Ellipsis becomes slice, rev, squeeze, broadcast_in_dim.

What else an index may contain (integer arrays, booleans, traced scalars) is left to ``gather_indexing``.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.core import dtypes
from minijax.core.array import Array, check_int, is_foreign, numpy_aval
from minijax.core.trace import Tracer
from minijax.numpy.gather_indexing import gather_index, index_items, parse, scalars_among_slices, slice_parts
from minijax.numpy.promotion import BOOL, SCALARS, evaluating

Index = Any


class _NotStatic(Exception):
    """An index that slices cannot express."""


def rewrite_index(x: Any, index: Index, **options: Any) -> Any:
    """``x[index]`` of an array or tracer; ``options`` are those of ``gather_index``.

    Raises IndexError for too many indices, TypeError for what is no index.
    """
    items = index_items(index)
    try:
        return _static_index(x, list(items))
    except _NotStatic:
        return gather_index(x, items, **options)


def takes_slices(x: Any, index: Index, mode: Any) -> bool:
    """Whether ``rewrite_index(x, index, mode=mode)`` takes slices of ``x``, and gathers nothing."""
    items = index_items(index)
    try:
        for position, item in enumerate(items):
            _classify(item, position)
    except _NotStatic:
        return scalars_among_slices(parse(items, x.aval.shape), mode)
    return True


def _classify(item: Index, position: int) -> Index:
    """``item`` if slices can express it; raises _NotStatic for arrays, IndexError or TypeError for what is no index."""
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, slice):
        return slice_parts(item, position)
    if isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_)):
        if isinstance(item, int):
            check_int(item)
            return int(item)
        return int(item.astype(numpy_aval(item).dtype))  # in 32-bit mode modulo 2**32, like every NumPy integer
    if isinstance(item, (Array, Tracer, np.ndarray)):
        dtype = item.dtype
        if not (dtype == BOOL or dtypes.is_integer(dtype)):
            raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {dtype}")
        if item.ndim == 0 and dtype != BOOL and evaluating() and not isinstance(item, Tracer):
            return operator.index(item)
        raise _NotStatic
    if isinstance(item, (bool, np.bool_)) or is_foreign(item):
        raise _NotStatic
    if isinstance(item, str):
        raise TypeError(f"JAX does not support string indexing; got idx={item!r}")
    if isinstance(item, Sequence):
        dtype = np.asarray(item).dtype
        if len(item) and not (dtype == BOOL or dtype.kind in "iuO"):
            raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {dtype}")
        raise _NotStatic
    if isinstance(item, (*SCALARS, np.generic)):
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {np.dtype(type(item))}")
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays "
        "are valid "
        f"indices. Got {item}"
    )


def _static_index(x: Any, items: list[Index]) -> Any:
    items = [_classify(i, n) for n, i in enumerate(items)]
    shape = x.aval.shape
    consumed = sum(i is not None and i is not Ellipsis for i in items)
    if sum(i is Ellipsis for i in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if consumed > len(shape):
        raise IndexError(f"Too many indices: array is {len(shape)}-dimensional, but {consumed} were indexed")
    at = next((n for n, i in enumerate(items) if i is Ellipsis), len(items))
    items[at : at + 1] = [slice(None)] * (len(shape) - consumed)

    starts: list[int] = []
    limits: list[int] = []
    strides: list[int] = []
    reversed_axes: list[int] = []
    squeezed: list[int] = []
    new_axes: list[int] = []
    for item in items:
        if item is None:
            new_axes.append(len(starts) - len(squeezed) + len(new_axes))
            continue
        axis = len(starts)
        size = shape[axis]
        if type(item) is int:
            if not size:
                raise IndexError(f"index is out of bounds for axis {axis} with size 0")
            # out of bounds means the nearest element, as in JAX
            start = min(max(item + size if item < 0 else item, 0), size - 1)
            part = (start, start + 1, 1)
            squeezed.append(axis)
        else:
            part = _forward(item, size)
            if item.step is not None and item.step < 0:
                reversed_axes.append(axis)
        for sequence, value in zip((starts, limits, strides), part, strict=True):
            sequence.append(value)
    if starts != [0] * len(shape) or tuple(limits) != shape or any(s != 1 for s in strides):
        x = lax.slice(x, starts, limits, None if all(s == 1 for s in strides) else strides)
    if reversed_axes:
        x = lax.rev(x, tuple(reversed_axes))
    if squeezed:
        x = lax.squeeze(x, tuple(squeezed))
    return lax.expand_dims(x, tuple(new_axes)) if new_axes else x


def _forward(item: slice, size: int) -> tuple[int, int, int]:
    """``(start, limit, stride)`` of the elements that ``item`` means, in rising order."""
    start, stop, step = item.indices(size)
    if step > 0:
        return start, max(start, stop), step
    lowest = min(size, stop + 1 + abs(start - stop - 1) % -step)
    return lowest, max(lowest, start + 1), -step
