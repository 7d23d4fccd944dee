"""Sorting by several keys, of complex numbers, and in part."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax import lax
from minijax.api.batching import vmap
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.numpy.creation import ones_like
from minijax.numpy.index_update import IndexUpdate
from minijax.numpy.manipulation import swapaxes
from minijax.numpy.promotion import canonical_axis, check_array_like, const, convert, ensure, static
from minijax.ops.index import index_dtype

__all__ = ["argpartition", "lexsort", "partition", "sort_complex"]


@inner_jit(static_argnames="axis")
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort by several keys, the last of which counts most. TypeError for none."""
    keys = tuple(keys)
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    check_array_like("lexsort", *keys)
    arrays = [ensure("lexsort", key) for key in keys]
    shape = arrays[0].aval.shape
    if len({x.aval.shape for x in arrays}) > 1:
        raise ValueError("all keys need to be the same shape")
    if not shape:
        return lax.full((), 0, np.dtype(np.int32))
    axis = canonical_axis(axis, len(shape))
    places = lax.broadcasted_iota(index_dtype((shape[axis],)), shape, axis)
    return lax.sort((*arrays[::-1], places), axis, num_keys=len(arrays))[-1]


@inner_jit
def sort_complex(a: Any) -> Any:
    """``a`` sorted along its last axis by real part, then by imaginary part, as complex numbers."""
    a = lax.sort(ensure("sort_complex", a), 0 if np.ndim(a) == 1 else -1)
    return convert(a, dtypes.to_complex_dtype(a.aval.dtype))


def _checked(name: str, a: Any, kth: Any, axis: int) -> tuple[Any, int, int]:
    a = ensure(name, a)
    if dtypes.is_complex(a.aval.dtype):
        raise NotImplementedError(f"jax.numpy.{name} for complex dtype is not implemented.")
    axis = canonical_axis(axis, a.aval.ndim)
    kth = canonical_axis(static(kth, f"'kth' argument of jnp.{name}"), a.aval.shape[axis])
    return swapaxes(a, axis, -1), kth, axis


def _descending(x: Any) -> Any:
    """Numbers whose order is the reverse of that of ``x``: its negative, of an unsigned x that of x + 1."""
    return lax.neg(lax.add(x, const(x, 1))) if dtypes.is_unsigned(x.aval.dtype) else lax.neg(x)


def _ascending(x: Any) -> Any:
    """The inverse of ``_descending``."""
    return lax.sub(lax.neg(x), const(x, 1)) if dtypes.is_unsigned(x.aval.dtype) else lax.neg(x)


@inner_jit(static_argnames=("kth", "axis"))
def partition(a: Any, kth: int, axis: int = -1) -> Any:
    """``a`` with the ``kth`` element along ``axis`` where sorting puts it, smaller ones before it, others behind.

    NotImplementedError for complex numbers.
    """
    a, kth, axis = _checked("partition", a, kth, axis)
    smallest = _ascending(lax.top_k(_descending(a), kth + 1)[0])
    largest = lax.top_k(a, a.aval.shape[-1] - kth - 1)[0]
    return swapaxes(lax.concatenate([smallest, largest], a.aval.ndim - 1), -1, axis)


@inner_jit(static_argnames=("kth", "axis"))
def argpartition(a: Any, kth: int, axis: int = -1) -> Any:
    """The indices that make ``partition(a, kth, axis)`` of ``a``."""
    a, kth, axis = _checked("argpartition", a, kth, axis)
    _, first = lax.top_k(_descending(a), kth + 1)

    def without(x: Any, places: Any) -> Any:
        return IndexUpdate(x)[places].set(0)

    for _ in range(a.aval.ndim - 1):
        without = vmap(without)
    left = without(ones_like(a, dtype=np.float32), first)
    _, rest = lax.top_k(left, a.aval.shape[-1] - kth - 1)
    return swapaxes(lax.concatenate([first, rest], a.aval.ndim - 1), -1, axis)
