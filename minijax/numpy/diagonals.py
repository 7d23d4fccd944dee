"""Diagonals and triangles of matrices: their indices, and arrays with values on them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from minijax import lax
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.numpy.creation import ones, tril, triu
from minijax.numpy.index_update import IndexUpdate
from minijax.numpy.promotion import const, ensure
from minijax.numpy.replacing import repeated_to
from minijax.numpy.searching import nonzero

__all__ = [
    "diag_indices",
    "diag_indices_from",
    "diagflat",
    "fill_diagonal",
    "mask_indices",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
]


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array with ``ndim`` axes of size ``n``, one array for each axis.

    ValueError for a negative ``n`` or ``ndim``.
    """
    n, ndim = operator.index(n), operator.index(ndim)
    if n < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {n}")
    if ndim < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {ndim}")
    return (lax.iota(dtypes.default_int_dtype(x64_enabled()), n),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """The indices of the main diagonal of ``arr``. ValueError unless it has axes of one size, two at least."""
    arr = ensure("diag_indices_from", arr)
    shape = arr.aval.shape
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(shape[0], len(shape))


def mask_indices(n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None) -> tuple[Any, ...]:
    """The indices where ``mask_func(ones((n, n)), k)`` is not zero; ``size`` is that of ``nonzero``."""
    return nonzero(mask_func(ones((n, n)), k), size=size)


def _count_at_and_below(rows: int, columns: int, k: int) -> int:
    """How many elements of a matrix are at or below its ``k``-th diagonal."""
    return sum(min(max(i + k + 1, 0), columns) for i in range(rows))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The indices of an ``n`` by ``m`` matrix at and below its ``k``-th diagonal, for rows and columns."""
    n, k = operator.index(n), operator.index(k)
    columns = n if m is None else operator.index(m)
    rows, cols = nonzero(tril(ones((n, columns)), k), size=_count_at_and_below(n, columns, k))
    return rows, cols


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The indices of an ``n`` by ``m`` matrix at and above its ``k``-th diagonal, for rows and columns."""
    n, k = operator.index(n), operator.index(k)
    columns = n if m is None else operator.index(m)
    count = n * columns - _count_at_and_below(n, columns, k - 1)
    rows, cols = nonzero(triu(ones((n, columns)), k), size=count)
    return rows, cols


def _matrix_shape(name: str, arr: Any) -> tuple[int, int]:
    shape = ensure(name, arr).aval.shape
    if len(shape) != 2:
        raise ValueError("Only 2-D inputs are accepted")
    return shape


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the matrix ``arr`` at and below its ``k``-th diagonal."""
    rows, columns = _matrix_shape("tril_indices_from", arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the matrix ``arr`` at and above its ``k``-th diagonal."""
    rows, columns = _matrix_shape("triu_indices_from", arr)
    return triu_indices(rows, k, columns)


def diagflat(v: Any, k: int = 0) -> Any:
    """A matrix with the flattened ``v`` on its ``k``-th diagonal."""
    v = ensure("diagflat", v)
    k = operator.index(k)
    v = lax.reshape(v, (v.aval.size,))
    side = v.aval.shape[0] + abs(k)
    flat = lax.full((side * side,), 0, v.aval.dtype)
    at = lax.iota(dtypes.default_int_dtype(x64_enabled()), v.aval.shape[0])
    # in the flattened matrix, a column to the right is one place on, a row below is ``side``
    if k >= 0:
        places = lax.add(lax.add(at, const(at, k)), lax.mul(at, const(at, side)))
    else:
        places = lax.add(at, lax.mul(lax.sub(at, const(at, k)), const(at, side)))
    return lax.reshape(IndexUpdate(flat)[places].set(v), (side, side))


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """A copy of ``a`` with ``val``, repeated as needed, on its main diagonal; ``inplace`` must be False.

    Raises ValueError for an array of one dimension, or of more than two whose axes differ in size; NotImplementedError
    for ``wrap``.
    """
    if inplace:
        raise NotImplementedError("JAX arrays are immutable, must use inplace=False")
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    a, val = ensure("fill_diagonal", a, val)
    shape = a.aval.shape
    if len(shape) < 2:
        raise ValueError("array must be at least 2-d")
    if len(shape) > 2 and len(set(shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    count = min(shape)
    places = diag_indices(count, len(shape))
    if val.aval.ndim:
        val = repeated_to(lax.reshape(val, (val.aval.size,)), count)
    return IndexUpdate(a)[places].set(val)
