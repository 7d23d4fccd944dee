"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.numpy import manipulation, reductions
from minijax.numpy.linalg.decompositions import svd
from minijax.numpy.promotion import canonical_axes, ensure, nonzero, promote, typed_scalar
from minijax.numpy.ufuncs import INEXACT, absolute, conj, real, sqrt

__all__ = ["matrix_norm", "norm", "vector_norm"]


@inner_jit(static_argnames=("ord", "axis", "keepdims"))
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of a vector or matrix, or of those along ``axis`` (one axis or two).

    ``ord``: None (all elements' root of the sum of squares), a number, ``inf``, ``-inf``, or for matrices
    'fro', 'nuc' (the sum of singular values), 1, -1, 2, -2. Raises ValueError for other orders.
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
            return _of_singular_values(x, ord, axes, keepdims)
        raise ValueError(f"Invalid order '{ord}' for matrix norm.")
    summed, other = axes if abs(ord) == 1 else axes[::-1]
    sums = reductions.sum(absolute(x), axis=summed, keepdims=keepdims)
    if not keepdims and other > summed:
        other -= 1
    if ord > 0:
        return reductions.amax(sums, axis=other, keepdims=keepdims, initial=0)
    return reductions.amin(sums, axis=other, keepdims=keepdims)


def _of_singular_values(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    s = svd(manipulation.moveaxis(x, axes, (-2, -1)), compute_uv=False)
    if ord == "nuc":
        found = reductions.sum(s, axis=-1)
    elif ord == 2:
        found = reductions.amax(s, axis=-1, initial=0)
    else:
        found = reductions.amin(s, axis=-1)
    return manipulation.expand_dims(found, axes) if keepdims else found


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of order ``ord`` of the vectors along ``axis``, by default of all elements."""
    x = ensure("jnp.linalg.vector_norm", x)
    if ord is None or ord == 2:
        (x,) = promote("jnp.linalg.vector_norm", x, to=INEXACT)
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
    (x,) = promote("jnp.linalg.vector_norm", x, to=INEXACT)
    size = absolute(x)
    dtype = size.aval.dtype
    powers = reductions.sum(lax.pow(size, typed_scalar(ord, dtype)), axis=axis, keepdims=keepdims)
    return lax.pow(powers, typed_scalar(1.0 / ord, dtype))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of the matrices along the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)
