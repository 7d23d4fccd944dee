"""``minijax.numpy.linalg``: products and norms; decompositions are borrowed from JAX."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax.core import dtypes
from minijax.core.lacking import borrowing
from minijax.numpy import linear, manipulation, reductions
from minijax.numpy.creation import diagonal as _diagonal
from minijax.numpy.creation import trace as _trace
from minijax.numpy.promotion import canonical_axes, canonical_axis, ensure, nonzero, promote, typed_scalar
from minijax.numpy.ufuncs import INEXACT, absolute, conj, real, sqrt

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

matmul = linear.matmul
matrix_transpose = manipulation.matrix_transpose
tensordot = linear.tensordot
vecdot = linear.vecdot


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of a vector or matrix, or of those along ``axis`` (one axis or two).

    ``ord``: None (all elements' root of the sum of squares), a number, ``inf``, ``-inf``, or for matrices
    'fro', 1, -1. Raises ValueError for orders there are none of, NotImplementedError for those that need
    singular values.
    """
    (x,) = promote("jnp.linalg.norm", x, to=INEXACT)
    ndim = x.aval.ndim
    if axis is None and ord is None:
        return _root_of_squares(x, None, keepdims)
    axes = canonical_axes(axis, ndim)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(
            f"Improper number of axes for norm: axis={axes!r}. Pass one axis to compute a vector-norm, or "
            "two axes to "
            "compute a matrix-norm."
        )
    return _matrix_norm(x, ord, axes, keepdims)


def _root_of_squares(x: Any, axis: Any, keepdims: bool) -> Any:
    return sqrt(reductions.sum(real(lax.mul(x, conj(x))), axis, keepdims=keepdims))


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if ord is None or ord in ("f", "fro"):
        return _root_of_squares(x, axes, keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        if ord in ("nuc", 2, -2):
            raise NotImplementedError(
                f"the norm of order {ord!r} needs singular values, which minijax does not compute"
            )
        raise ValueError(f"Invalid order '{ord}' for matrix norm.")
    summed, other = axes if abs(ord) == 1 else axes[::-1]
    sums = reductions.sum(absolute(x), axis=summed, keepdims=keepdims)
    if not keepdims and other > summed:
        other -= 1
    if ord > 0:
        return reductions.amax(sums, axis=other, keepdims=keepdims, initial=0)
    return reductions.amin(sums, axis=other, keepdims=keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of order ``ord`` of the vectors along ``axis``, by default of all elements."""
    (x,) = promote("jnp.linalg.vector_norm", x, to=INEXACT)
    if ord is None or ord == 2:
        return _root_of_squares(x, axis, keepdims)
    if ord == math.inf:
        return reductions.amax(absolute(x), axis=axis, keepdims=keepdims, initial=0)
    if ord == -math.inf:
        return reductions.amin(absolute(x), axis=axis, keepdims=keepdims)
    if ord == 0:
        return reductions.sum(nonzero(x), axis=axis, dtype=dtypes.real_dtype(x.aval.dtype), keepdims=keepdims)
    if ord == 1:
        return reductions.sum(absolute(x), axis=axis, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    size = absolute(x)
    dtype = size.aval.dtype
    powers = reductions.sum(lax.pow(size, typed_scalar(ord, dtype)), axis=axis, keepdims=keepdims)
    return lax.pow(powers, typed_scalar(1.0 / ord, dtype))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of the matrices along the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)


def outer(x1: Any, x2: Any, /) -> Any:
    """The products of all elements of two vectors. ValueError for other ranks."""
    x1, x2 = ensure("jnp.linalg.outer", x1, x2)
    if x1.aval.ndim != 1 or x2.aval.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={x1.aval.ndim} "
            f"x2.ndim={x2.aval.ndim}"
        )
    return lax.mul(*promote("multiply", lax.expand_dims(x1, (1,)), lax.expand_dims(x2, (0,))))


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vector product of vectors of three components. ValueError for other sizes."""
    x1, x2 = ensure("jnp.linalg.outer", x1, x2)
    sizes = [x.aval.shape[canonical_axis(axis, x.aval.ndim)] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they have {sizes} components."
        )
    return linear.cross(x1, x2, axis=axis)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices along the last two axes."""
    return _diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices along the last two axes."""
    return _trace(x, offset, -2, -1, dtype)


def multi_dot(arrays: Any, *, precision: Any = None) -> Any:
    """The product of several matrices, from left to right."""
    arrays = list(arrays)
    if len(arrays) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(arrays)}")
    out = arrays[0]
    for x in arrays[1:]:
        out = linear.dot(out, x, precision=precision)
    return out


__getattr__, __dir__ = borrowing(globals())
