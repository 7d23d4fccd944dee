"""Matrices with a name, and matrices made of a vector: names of ``scipy.linalg``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.lax.convolution import conv_general_dilated_patches
from minijax.numpy.promotion import ensure, promote, promote_dtypes, user_dtype
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy.linalg import toeplitz
from minijax.scipy.special import comb

__all__ = [
    "circulant",
    "companion",
    "convolution_matrix",
    "dft",
    "fiedler",
    "fiedler_companion",
    "hadamard",
    "hankel",
    "helmert",
    "hilbert",
    "invhilbert",
    "invpascal",
    "leslie",
    "pascal",
]


def _positive(name: str, n: Any) -> int:
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"{name}: n must be a positive integer; got {n}.")
    return n


# -------------------------------------------------------------------------------- made of a vector


def circulant(c: Any) -> Any:
    """The matrix with first column ``c`` of which each column is the one before, turned. Vectors may be stacked."""
    c = jnp.atleast_1d(ensure("circulant", c))
    size = c.shape[-1]
    places = (jnp.arange(size)[:, None] - jnp.arange(size)[None, :]) % size if size else jnp.zeros((0, 0), int)
    return c[..., places]


def companion(a: Any) -> Any:
    """The companion matrix of a polynomial with coefficients ``a``, the highest first. Vectors may be stacked.

    Its eigenvalues are the roots. ValueError for fewer than two coefficients.
    """
    (a,) = promote("companion", a, to=INEXACT)
    a = jnp.atleast_1d(a)
    size = a.shape[-1]
    if size < 2:
        raise ValueError(f"companion: there must be two coefficients at least, along the last axis of {a.shape}.")
    return _stacked(_companion, a)


def _companion(a: Any) -> Any:
    row = -a[1:] / a[0]
    return jnp.eye(a.size - 1, k=-1, dtype=a.dtype).at[0, :].set(row)


def _stacked(function: Callable[[Any], Any], a: Any) -> Any:
    """The matrix that ``function`` makes of each vector of ``a``."""
    return function(a) if a.ndim == 1 else jnp.vectorize(function, signature="(n)->(m,m)")(a)


@inner_jit(static_argnames=("n", "mode"))
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """The matrix whose product with a vector of ``n`` is its convolution with ``a``. Vectors may be stacked.

    ``mode``: see ``numpy.convolve``. ValueError for another, for ``n`` below 1, and without elements.
    """
    a = ensure("convolution_matrix", a)
    n = _positive("convolution_matrix", n)
    if a.ndim < 1 or a.shape[-1] < 1:
        raise ValueError(f"convolution_matrix: there must be elements along the last axis of the shape {a.shape}.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"convolution_matrix: mode is 'full', 'valid' or 'same', not {mode!r}.")
    size = a.shape[-1]
    before = [(0, 0)] * (a.ndim - 1)
    column = jnp.pad(a, [*before, (0, n - 1)])
    row = jnp.pad(jnp.flip(a, -1), [*before, (0, n - 1)])
    least, most = sorted((n, size))
    if mode == "same":
        start, end = (least - 1) // 2, (least - 1) // 2 + most
    elif mode == "valid":
        start, end = least - 1, most
    else:
        start, end = 0, n + size - 1
    column = lax.slice_in_dim(column, start, end, axis=-1)
    # the row above the column's first element, from there on
    length = n + size - 1
    return toeplitz(column, lax.slice_in_dim(row, length - n - start, length - start, axis=-1))


def fiedler(a: Any) -> Any:
    """The matrix of the distances of the elements of ``a`` from one another. Vectors may be stacked."""
    a = jnp.atleast_1d(ensure("fiedler", a))
    return jnp.abs(a[..., :, None] - a[..., None, :])


def fiedler_companion(a: Any) -> Any:
    """The matrix of five diagonals whose characteristic polynomial has the coefficients ``a`` (Fiedler 2003).

    ValueError without coefficients.
    """
    (a,) = promote("fiedler_companion", a, to=INEXACT)
    a = jnp.atleast_1d(a)
    if not a.shape[-1]:
        raise ValueError(f"fiedler_companion: the last axis of 'a' must have coefficients, but its shape is {a.shape}")
    if a.shape[-1] < 2:
        if not a.shape[-1]:
            raise ValueError(f"fiedler_companion: there must be a coefficient along the last axis of {a.shape}.")
        return lax.full_like(a, 0, shape=(*a.shape[:-1], 0, 0))
    return _stacked(_fiedler_companion, a)


def _fiedler_companion(a: Any) -> Any:
    size = a.size - 1
    a = a / a[0]
    if size == 1:
        return -a[1:].reshape(1, 1)
    i, j = jnp.arange(size)[:, None], jnp.arange(size)[None, :]
    second = -a[jnp.minimum(i + 2, size)]
    first = -a[jnp.minimum(i + 1, size)]
    is_even, is_odd = i % 2 == 0, i % 2 == 1
    conditions = [
        (i == 0) & (j == 0),
        (i == 1) & (j == 0),
        (j == i + 1) & is_even,
        (j == i + 2) & is_even,
        (j == i - 1) & is_even & (i >= 2),
        (j == i - 2) & is_odd & (i >= 3),
    ]
    values = [-a[1], 1, second, 1, first, 1]
    return jnp.select(conditions, [jnp.asarray(value, a.dtype) for value in values], jnp.asarray(0, a.dtype))


def hankel(c: Any, r: Any = None) -> Any:
    """The matrix with first column ``c`` and last row ``r`` (but for its first element), constant along antidiagonals.

    ``r`` is zeros if None. Vectors may be stacked; ValueError for scalars.
    """
    c = ensure("hankel", c)
    r = jnp.zeros_like(c) if r is None else ensure("hankel", r)
    for name, x in (("c", c), ("r", r)):
        if x.ndim < 1:
            raise ValueError(f"hankel: {name} must have a dimension at least: it is a scalar.")
    if c.ndim == r.ndim == 1:
        return _hankel(c, r)
    return jnp.vectorize(_hankel, signature="(m),(n)->(m,n)")(c, r)


def _hankel(c: Any, r: Any) -> Any:
    (count,), (width,) = c.shape, r.shape
    if not c.size or not r.size:
        return jnp.zeros((count, width), jnp.result_type(c, r))
    elements = jnp.concatenate(promote_dtypes(c, r[1:]))
    patches = conv_general_dilated_patches(
        elements.reshape(1, -1, 1),
        (width,),
        (1,),
        "VALID",
        dimension_numbers=("NTC", "IOT", "NTC"),
        precision=lax.Precision.HIGHEST,
    )
    return patches[0]


def leslie(f: Any, s: Any) -> Any:
    """The Leslie matrix of fecundities ``f``, its first row, and survival rates ``s``, below its diagonal.

    Vectors may be stacked. ValueError unless ``s`` has one element less than ``f``, which has two at least.
    """
    f, s = (jnp.atleast_1d(x) for x in ensure("leslie", f, s))
    f, s = promote_dtypes(f, s)
    if f.shape[-1] < 2:
        raise ValueError(f"leslie: there must be two fecundities at least, along the last axis of {f.shape}.")
    if s.shape[-1] != f.shape[-1] - 1:
        raise ValueError(
            f"leslie: Incorrect lengths for f and s. There is one survival rate less than there are fecundities; got "
            f"f shape {f.shape} and s shape {s.shape}."
        )
    below = jnp.vectorize(lambda x: jnp.diag(x, -1), signature="(n)->(m,m)")(s) if s.ndim > 1 else jnp.diag(s, -1)
    return below.at[..., 0, :].set(f)


# -------------------------------------------------------------------------------- made of a number


@inner_jit(static_argnames=("n", "scale", "dtype"))
def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Any:
    """The matrix of the discrete Fourier transform of ``n`` elements; ``scale`` is 'sqrtn', 'n', or None for 1.

    ValueError for another, and for a type that is not complex.
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"dft: scale is None, 'sqrtn' or 'n', not {scale!r}.")
    dtype = user_dtype(complex if dtype is None else dtype, "dft")
    if not dtypes.is_complex(dtype):
        raise ValueError(f"dft: dtype must be complex, not {dtype}.")
    k = jnp.arange(n, dtype=dtype)
    found = jnp.exp(-2j * math.pi * k[:, None] * k[None, :] / n)
    if scale == "sqrtn":
        return found / jnp.sqrt(float(n)).astype(dtype)
    return found / n if scale == "n" else found


@inner_jit(static_argnames=("n", "dtype"))
def hadamard(n: int, dtype: Any = int) -> Any:
    """Hadamard's matrix of 1 and -1 by Sylvester's construction. ValueError unless ``n`` is a power of 2."""
    if n < 1 or n & (n - 1):
        raise ValueError(f"hadamard: n must be a positive power of 2; got {n}.")
    found = jnp.ones((1, 1), dtype)
    while found.shape[0] < n:
        found = jnp.block([[found, found], [found, -found]])
    return found


@inner_jit(static_argnames=("n", "full"))
def helmert(n: int, full: bool = False) -> Any:
    """Helmert's orthogonal matrix without its first row, which is constant; or with it: ``full``."""
    n = _positive("helmert", n)
    i, j = jnp.arange(n - 1)[:, None], jnp.arange(n)[None, :]
    after = i + 1
    count = after.astype(float)
    norm = jnp.sqrt(count * (count + 1))
    is_before = j <= i
    part = 1 / norm
    at_end = j == after
    found = jnp.where(is_before, part, jnp.where(at_end, -count / norm, jnp.zeros_like(norm)))
    if not full:
        return found
    return jnp.concatenate([jnp.full((1, n), 1 / jnp.sqrt(float(n)), found.dtype), found])


@inner_jit(static_argnames=("n",))
def hilbert(n: int) -> Any:
    """Hilbert's matrix, with elements 1 / (i + j + 1)."""
    i = lax.broadcasted_iota(jnp.result_type(float), (n, 1), 0)
    return 1 / (i + i.T + 1)


@inner_jit(static_argnames=("n",))
def invhilbert(n: int) -> Any:
    """The inverse of Hilbert's matrix, by its formula."""
    i = jnp.arange(n, dtype=float)
    i, j = i[:, None], i[None, :]
    total = i + j
    sign = (-1.0) ** total * (total + 1)
    return sign * comb(n + i, n - j - 1) * comb(n + j, n - i - 1) * comb(total, i) ** 2


@inner_jit
def _binom(n: Any, k: Any) -> Any:
    all_of, left, taken = lax.lgamma(n + 1.0), lax.lgamma(n - k + 1.0), lax.lgamma(k + 1.0)
    return jnp.exp(all_of - left - taken)


_KINDS = ("symmetric", "lower", "upper")


def _check_kind(name: str, kind: str | None) -> str:
    kind = "symmetric" if kind is None else kind
    if kind not in _KINDS:
        raise ValueError(f"{name}: kind is one of {list(_KINDS)}, not {kind!r}.")
    return kind


@inner_jit(static_argnames=("n", "kind"))
def pascal(n: int, kind: str | None = None) -> Any:
    """Pascal's triangle as a matrix: the 'lower' or the 'upper' one, or their product, which is 'symmetric'."""
    kind = _check_kind("pascal", kind)
    i = jnp.arange(n, dtype=float)
    lower = _binom(i[:, None], i[None, :])
    if kind == "symmetric":
        return jnp.dot(lower, lower.T)
    return lower if kind == "lower" else lower.T


@inner_jit(static_argnames=("n", "kind"))
def invpascal(n: int, kind: str | None = None) -> Any:
    """The inverse of ``pascal(n, kind)``."""
    kind = _check_kind("invpascal", kind)
    i = jnp.arange(n, dtype=float)
    i, j = i[:, None], i[None, :]
    lower = (-1.0) ** (i - j) * _binom(i, j)
    if kind == "symmetric":
        return jnp.dot(lower.T, lower)
    return lower if kind == "lower" else lower.T
