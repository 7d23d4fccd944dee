"""Products of vectors and of matrices, and their diagonals, as the standard for arrays names them."""

from __future__ import annotations

import itertools
from typing import Any

from minijax import lax
from minijax.numpy import creation, linear, manipulation, ufuncs
from minijax.numpy.einsum import einsum
from minijax.numpy.promotion import canonical_axis, ensure

__all__ = ["cross", "diagonal", "matmul", "matrix_transpose", "multi_dot", "outer", "tensordot", "trace", "vecdot"]

matmul = linear.matmul
matrix_transpose = manipulation.matrix_transpose
vecdot = linear.vecdot


def tensordot(
    x1: Any,
    x2: Any,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum of products over ``axes``; see ``jnp.tensordot``."""
    x1, x2 = ensure("jnp.linalg.tensordot", x1, x2)
    return linear.tensordot(
        x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type, out_sharding=out_sharding
    )


def outer(x1: Any, x2: Any, /) -> Any:
    """The products of all elements of two vectors. ValueError for other ranks."""
    x1, x2 = ensure("jnp.linalg.outer", x1, x2)
    if x1.aval.ndim != 1 or x2.aval.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={x1.aval.ndim} "
            f"x2.ndim={x2.aval.ndim}"
        )
    return ufuncs.multiply(lax.expand_dims(x1, (1,)), lax.expand_dims(x2, (0,)))


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vector product of vectors of three components. ValueError for other sizes."""
    x1, x2 = ensure("jnp.linalg.cross", x1, x2)
    sizes = [x.aval.shape[canonical_axis(axis, x.aval.ndim)] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they have {sizes} components."
        )
    return linear.cross(x1, x2, axis=axis)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices along the last two axes."""
    return creation.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices along the last two axes."""
    return creation.trace(x, offset, -2, -1, dtype)


def multi_dot(arrays: Any, *, precision: Any = None) -> Any:
    """The product of several matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors. ValueError for fewer than two, for other ranks, and for sizes that differ.
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
    if any(x.shape[-1] != y.shape[0] for x, y in itertools.pairwise(arrays)):
        raise ValueError(
            "multi_dot: the last dimension of each array must be the first one of the next. Got shapes "
            f"{[x.shape for x in arrays]}"
        )
    if len(arrays) == 2:
        return linear.dot(*arrays, precision=precision)
    operands: list[Any] = []
    for i, x in enumerate(arrays):
        operands += [x, [i, i + 1][-x.ndim if i == 0 else 0 :][: x.ndim]]
    ends = [0] * (ranks[0] - 1) + [len(arrays)] * (ranks[-1] - 1)
    return einsum(*operands, ends, optimize="optimal", precision=precision)
