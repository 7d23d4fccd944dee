"""Decompositions with NumPy's names, and what is computed from singular values."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.custom_jvp import custom_jvp
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.core.named import NamedTuple
from minijax.lax import linalg
from minijax.numpy import creation, linear, manipulation, reductions, ufuncs
from minijax.numpy.index_update import take_along_axis
from minijax.numpy.mathematics import where
from minijax.numpy.promotion import asarray, promote, typed_scalar
from minijax.numpy.ufuncs import INEXACT

__all__ = [
    "EigResult",
    "EighResult",
    "QRResult",
    "SVDResult",
    "cholesky",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "matrix_rank",
    "pinv",
    "qr",
    "svd",
    "svdvals",
]

HIGHEST = lax.Precision.HIGHEST


class EigResult(NamedTuple):
    """What ``eig`` gives."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """What ``eigh`` gives."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What ``qr`` gives."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """What ``svd`` gives."""

    U: Any
    S: Any
    Vh: Any


def adjoint(x: Any) -> Any:
    """The matrices ``x`` transposed and conjugated."""
    turned = manipulation.matrix_transpose(x)
    return lax.conj(turned) if dtypes.is_complex(turned.dtype) else turned


@inner_jit(static_argnames=("upper", "symmetrize_input"), compiled=True)
def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """The Cholesky factor of positive definite matrices ``a[..., n, n]``: a lower triangle L with ``a = L L*``.

    With ``upper``, its adjoint. ``symmetrize_input``: of the mean of ``a`` and its adjoint. nan for what is not
    positive definite; ValueError if ``a`` is not square.
    """
    (a,) = promote("jnp.linalg.cholesky", a, to=INEXACT)
    found = linalg.cholesky(a, symmetrize_input=symmetrize_input)
    return adjoint(found) if upper else found


@inner_jit(static_argnames=("full_matrices", "compute_uv", "hermitian", "subset_by_index"), compiled=True)
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """The singular values of matrices ``a[..., m, n]``, descending, and vectors: ``a = U @ diag(S) @ Vh``.

    Args:
      full_matrices: whether U and Vh are square, or have ``min(m, n)`` columns and rows.
      compute_uv: give ``(U, S, Vh)``; else S alone.
      hermitian: ``a`` is, and eigenvalues may be computed instead.
      subset_by_index: which singular values: not on the CPU.
    """
    (a,) = promote("jnp.linalg.svd", a, to=INEXACT)
    if not hermitian:
        found = linalg.svd(
            a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
        )
        return SVDResult(*found) if compute_uv else found
    vectors, values = linalg.eigh(a)
    size = ufuncs.absolute(values)
    if not compute_uv:
        return lax.rev(lax.sort(size), (size.ndim - 1,))
    signs = ufuncs.sign(values)
    places = lax.broadcasted_iota(np.uint32, size.shape, size.ndim - 1)
    ordered = lax.sort([size, places, signs], dimension=-1, num_keys=1)
    s, places, signs = (lax.rev(x, (size.ndim - 1,)) for x in ordered)
    row = size.ndim - 1
    u = take_along_axis(vectors, lax.expand_dims(places, (row,)), axis=-1)
    return SVDResult(u, s, adjoint(ufuncs.multiply(u, lax.expand_dims(signs, (row,)))))


def svdvals(x: Any, /) -> Any:
    """The singular values of matrices, descending."""
    return svd(x, compute_uv=False, hermitian=False)


def _reads_lower(uplo: Any) -> bool:
    if uplo not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {uplo}")
    return uplo != "U"


@inner_jit(static_argnames=("UPLO", "symmetrize_input"), compiled=True)
def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """The eigenvalues of Hermitian matrices ``a[..., n, n]``, ascending, and eigenvectors as columns.

    ``symmetrize_input``: of the mean of ``a`` and its adjoint; else the triangle ``UPLO``, 'L' or 'U', is read.
    ValueError for another, and if ``a`` is not square.
    """
    lower = _reads_lower(UPLO)
    (a,) = promote("jnp.linalg.eigh", a, to=INEXACT)
    vectors, values = linalg.eigh(a, lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(values, vectors)


@inner_jit(static_argnames=("UPLO", "symmetrize_input"), compiled=True)
def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """The eigenvalues of Hermitian matrices, ascending: see ``eigh``."""
    (a,) = promote("jnp.linalg.eigvalsh", a, to=INEXACT)
    return eigh(a, UPLO, symmetrize_input)[0]


def eig(a: Any) -> EigResult:
    """The eigenvalues of matrices ``a[..., n, n]``, and right eigenvectors as columns, all complex.

    Only eigenvalues are differentiable. ValueError if ``a`` is not square.
    """
    (a,) = promote("jnp.linalg.eig", a, to=INEXACT)
    return EigResult(*linalg.eig(a, compute_left_eigenvectors=False))


@inner_jit(compiled=True)
def eigvals(a: Any) -> Any:
    """The eigenvalues of matrices ``a[..., n, n]``, complex."""
    (a,) = promote("jnp.linalg.eigvals", a, to=INEXACT)
    return linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


@inner_jit(static_argnames=("mode",), compiled=True)
def qr(a: Any, mode: str = "reduced") -> Any:
    """The factors of matrices ``a[..., m, n]``: ``a = Q R``, Q's columns orthonormal, R an upper triangle.

    ``mode``: 'reduced' (or 'full', its old name), with ``min(m, n)`` columns in Q; 'complete', with m; 'r', R alone;
    'raw', the transposed reflectors and their factors. ValueError for another.
    """
    (a,) = promote("jnp.linalg.qr", a, to=INEXACT)
    if mode == "raw":
        packed, taus = linalg.geqrf_p.bind(a)
        return QRResult(manipulation.matrix_transpose(packed), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'. Choose 'reduced', 'complete', 'r' or 'raw'.")
    q, r = linalg.qr(a, pivoting=False, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@inner_jit(static_argnames=("hermitian",), compiled=True)
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """How many singular values of the matrices are above ``rtol``, by default the rounding error of the largest.

    Of a vector, whether any element is not 0. ``tol`` is the old name of ``rtol``.
    """
    (M,) = promote("jnp.linalg.matrix_rank", M, to=INEXACT)
    if M.aval.ndim < 2:
        return reductions.any(M != 0).astype(np.int32)
    limit = tol if rtol is None else rtol
    s = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if limit is None:
        eps = dtypes.finfo(M.aval.dtype).eps
        limit = reductions.amax(s, axis=-1) * np.array(max(M.aval.shape[-2:])).astype(s.dtype) * eps
    return reductions.sum(s > manipulation.expand_dims(asarray(limit), -1), axis=-1)


# -------------------------------------------------------------------------------- the pseudoinverse


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """The pseudoinverses (Moore and Penrose's) of matrices ``a[..., m, n]``, of shape ``[..., n, m]``.

    Singular values not above ``rtol`` times the largest are taken for 0; by default, 10 times the rounding error of the
    larger size. ``hermitian``: see ``svd``. ``rcond`` is the old name of ``rtol``.
    """
    return _pinv(a, rcond if rtol is None else rtol, hermitian)


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
@inner_jit(static_argnames=("hermitian",), compiled=True)
def _pinv(a: Any, rtol: Any = None, hermitian: bool = False) -> Any:
    (a,) = promote("jnp.linalg.pinv", a, to=INEXACT)
    *lead, m, n = a.aval.shape
    if not (m and n):
        return creation.empty((*lead, n, m), a.aval.dtype)
    if dtypes.is_complex(a.aval.dtype):
        a = lax.conj(a)
    if rtol is None:
        part = dtypes.real_dtype(a.aval.dtype)
        rtol = lax.mul(typed_scalar(10.0 * max(m, n), part), typed_scalar(dtypes.finfo(part).eps, part))
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    limit = manipulation.expand_dims(asarray(rtol), -1)
    limit = lax.expand_dims(limit, tuple(range(s.ndim - limit.ndim))) * s[..., 0:1]
    s = where(s > limit, s, math.inf).astype(u.dtype)
    transposed = manipulation.matrix_transpose
    left = transposed(vh)
    return linear.matmul(left, transposed(u) / manipulation.expand_dims(s, -1), precision=HIGHEST)


@_pinv.defjvp
def _pinv_jvp(rtol: Any, hermitian: bool, primals: Any, tangents: Any) -> Any:
    """``dP = -P dA P + P P* dA* (I - A P) + (I - P A) dA* P* P`` (Golub and Pereyra 1973), smaller products first."""
    (a,), (t,) = primals, tangents
    p = pinv(a, rtol, hermitian)

    def product(x: Any, y: Any) -> Any:
        return linear.matmul(x, y, precision=HIGHEST)

    m, n = a.shape[-2:]
    if m >= n:
        first = product(product(p, adjoint(p)), adjoint(t))
        second = product(product(adjoint(t), adjoint(p)), p)
        moved = product(-product(p, t), p) + first - product(product(first, a), p)
        return p, moved + second - product(product(p, a), second)
    first = product(p, product(adjoint(p), adjoint(t)))
    second = product(adjoint(t), product(adjoint(p), p))
    moved = product(-p, product(t, p)) + first - product(first, product(a, p))
    return p, moved + second - product(p, product(a, second))
