"""``minijax.numpy.linalg``: products, norms, decompositions, equations and determinants."""

from __future__ import annotations

import math
from typing import Any

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.core.lacking import borrowing
from minijax.numpy import linear, manipulation, reductions
from minijax.numpy.creation import diagonal as _diagonal
from minijax.numpy.creation import trace as _trace
from minijax.numpy.decompositions import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    matrix_rank,
    pinv,
    qr,
    svd,
    svdvals,
)
from minijax.numpy.einsum import einsum
from minijax.numpy.equations import det, inv, lstsq, matrix_power, slogdet, solve, tensorinv, tensorsolve
from minijax.numpy.mathematics import where
from minijax.numpy.norms import matrix_norm, norm, vector_norm
from minijax.numpy.promotion import canonical_axis, ensure, promote
from minijax.numpy.ufuncs import isnan

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

matmul = linear.matmul
matrix_transpose = manipulation.matrix_transpose
tensordot = linear.tensordot
vecdot = linear.vecdot


@inner_jit(static_argnames=("p",), compiled=True)
def cond(x: Any, p: Any = None) -> Any:
    """The condition of matrices ``x[..., m, n]``: how much larger relative errors of solutions are than of operands.

    ``p``: None or 2, the largest singular value by the smallest; -2, the inverse; else the norm of that order of ``x``
    times that of its inverse.
    """
    x = ensure("jnp.linalg.cond", x)
    if x.ndim < 2:
        raise ValueError(f"jnp.linalg.cond: input array must be at least 2D; got x.shape={x.shape}")
    if not x.size:
        raise ValueError(f"jnp.linalg.cond: input array must not be empty; got x.shape={x.shape}")
    if p is None or p == 2:
        s = svd(x, compute_uv=False)
        return s[..., 0] / s[..., -1]
    if p == -2:
        s = svd(x, compute_uv=False)
        ratio = s[..., -1] / s[..., 0]
    else:
        if x.shape[-2] != x.shape[-1]:
            raise ValueError(f"jnp.linalg.cond: for p={p!r}, matrices must be square; got x.shape={x.shape}")
        ratio = norm(x, ord=p, axis=(-2, -1)) * norm(inv(x), ord=p, axis=(-2, -1))
    # nan if the matrix has one, not because infinity met 0
    unknown = isnan(ratio)
    return where(unknown & ~reductions.any(isnan(x), axis=(-2, -1)), math.inf, ratio)


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
    """The product of several matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors. ValueError for fewer than two, and for other ranks.
    """
    arrays = list(ensure("jnp.linalg.multi_dot", *arrays)) if len(arrays) > 1 else []
    if not arrays:
        raise ValueError("multi_dot requires at least two arrays; got fewer")
    ranks = [x.ndim for x in arrays]
    if not {1, 2} >= {ranks[0], ranks[-1]} or any(rank != 2 for rank in ranks[1:-1]):
        raise ValueError(
            "multi_dot: input arrays must all be two-dimensional, except the first and last array which may be 1 or 2 "
            f"dimensional. Got shapes {[x.shape for x in arrays]}"
        )
    if len(arrays) == 2:
        return linear.dot(*arrays, precision=precision)
    operands: list[Any] = []
    for i, x in enumerate(arrays):
        operands += [x, [i, i + 1][-x.ndim if i == 0 else 0 :][: x.ndim]]
    ends = [0] * (ranks[0] - 1) + [len(arrays)] * (ranks[-1] - 1)
    return einsum(*operands, ends, optimize="optimal", precision=precision)


__getattr__, __dir__ = borrowing(globals())
