"""Triangular and Hessenberg forms, functions of matrices, and equations of them: names of ``scipy.linalg``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.api.autodiff import jvp
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.lax import linalg
from minijax.numpy.promotion import ensure, promote_dtypes
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy.linalg import expm

__all__ = ["expm_frechet", "funm", "hessenberg", "rsf2csf", "schur", "solve_sylvester", "sqrtm"]

HIGHEST = lax.Precision.HIGHEST
_dot = functools.partial(jnp.dot, precision=HIGHEST)


def _adjoint(x: Any) -> Any:
    return x.conj().T


# -------------------------------------------------------------------------------- forms


@inner_jit(static_argnames=("output",), compiled=True)
def _schur(a: Any, output: str) -> tuple[Any, Any]:
    a = ensure("schur", a)
    if output == "complex":
        a = a.astype(dtypes.to_complex_dtype(a.dtype))
    t, z = linalg.schur(a)
    return t, z


def schur(a: Any, output: str = "real") -> list[Any]:
    """A list of T and Z with ``a = Z T Z*``, Z unitary, T an upper triangle; for a real one with blocks of 2 x 2.

    ``output`` of 'complex' makes ``a`` complex before. ValueError for other words, and unless ``a`` is square.
    """
    if output not in ("real", "complex"):
        raise ValueError(f"schur: output is 'real' or 'complex', not {output!r}.")
    return list(_schur(a, output))


@inner_jit(static_argnames=("calc_q", "check_finite", "overwrite_a"), compiled=True)
def hessenberg(a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """H with ``a = Q H Q*``, zeros below its first subdiagonal; H and Q with ``calc_q``. Matrices may be stacked.

    What SciPy takes besides is not looked at. ValueError unless ``a`` is square.
    """
    a = ensure("hessenberg", a)
    size = a.shape[-1] if a.ndim else 0
    if a.ndim and not size:
        return (jnp.zeros_like(a), jnp.zeros_like(a)) if calc_q else jnp.zeros_like(a)
    packed, taus = linalg.hessenberg(a)
    form = jnp.triu(packed, k=-1)
    if not calc_q:
        return form
    inner = linalg.householder_product(packed[..., 1:, : size - 1], taus)
    lead = a.shape[:-2]
    corner = jnp.ones((*lead, 1, 1), a.dtype)
    row, column = jnp.zeros((*lead, 1, size - 1), a.dtype), jnp.zeros((*lead, size - 1, 1), a.dtype)
    return form, jnp.block([[corner, row], [column, inner]])


@inner_jit(static_argnames=("check_finite",), compiled=True)
def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """A real Schur form made complex: T and Z with a triangle in place of blocks of 2 x 2. Matrices may be stacked.

    ValueError unless both are square matrices of one shape.
    """
    T, Z = ensure("rsf2csf", T, Z)
    for name, x in (("Z", Z), ("T", T)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"rsf2csf: {name} must be a square matrix, not of shape {x.shape}.")
    if T.shape != Z.shape:
        raise ValueError(f"rsf2csf: Z and T must have one shape, not {Z.shape} and {T.shape}.")
    if T.ndim > 2:
        found: tuple[Any, Any] = jnp.vectorize(_rsf2csf_2d, signature="(n,n),(n,n)->(n,n),(n,n)")(T, Z)
        return found
    return _rsf2csf_2d(T, Z)  # type: ignore[no-any-return]


@inner_jit
def _rsf2csf_2d(T: Any, Z: Any) -> tuple[Any, Any]:
    dtype = dtypes.to_complex_dtype(jnp.result_type(T, Z))
    T, Z = T.astype(dtype), Z.astype(dtype)
    size = T.shape[0]
    eps = dtypes.finfo(dtype).eps

    def split(m: Any, T: Any, Z: Any) -> tuple[Any, Any]:
        """T and Z with the block at rows ``m - 1`` and ``m`` made a triangle, by a rotation."""
        block = lax.dynamic_slice(T, (m - 1, m - 1), (2, 2))
        mu = jnp.linalg.eigvals(block) - T[m, m]
        length = jnp.linalg.norm(jnp.array([mu[0], T[m, m - 1]])).astype(T.dtype)
        cosine, sine = mu[0] / length, T[m, m - 1] / length
        turn = jnp.array([[cosine.conj(), sine], [-sine, cosine]], T.dtype)
        rows = lax.dynamic_slice_in_dim(T, m - 1, 2, axis=0)
        chosen = jnp.arange(size) >= m - 1
        turned = turn @ jnp.where(chosen, rows, 0)
        T = lax.dynamic_update_slice_in_dim(T, jnp.where(~chosen, rows, turned), m - 1, axis=0)
        columns = lax.dynamic_slice_in_dim(T, m - 1, 2, axis=1)
        chosen = jnp.arange(size)[:, None] < m + 1
        turned = jnp.where(chosen, columns, 0) @ turn.conj().T
        T = lax.dynamic_update_slice_in_dim(T, jnp.where(~chosen, columns, turned), m - 1, axis=1)
        columns = lax.dynamic_slice_in_dim(Z, m - 1, 2, axis=1)
        return T, lax.dynamic_update_slice_in_dim(Z, columns @ turn.conj().T, m - 1, axis=1)

    def step(i: Any, both: tuple[Any, Any]) -> tuple[Any, Any]:
        T, Z = both
        m = size - i
        is_block = jnp.abs(T[m, m - 1]) > eps * (jnp.abs(T[m - 1, m - 1]) + jnp.abs(T[m, m]))
        T, Z = lax.cond(is_block, split, lambda m, T, Z: (T, Z), m, T, Z)
        return T.at[m, m - 1].set(0), Z

    found: tuple[Any, Any] = lax.fori_loop(1, size, step, (T, Z))
    return found


# -------------------------------------------------------------------------------- functions of matrices


@inner_jit
def _sqrtm_triu(T: Any) -> Any:
    """The square root of an upper triangle, column by column (Björck and Hammarling 1983)."""
    diagonal = jnp.sqrt(jnp.diag(T))
    size = diagonal.size

    def element(k: Any, carry: tuple[Any, Any]) -> Any:
        j, U = carry
        i = j - 1 - k
        total = lax.fori_loop(i + 1, j, lambda k, total: total + U[i, k] * U[k, j], jnp.zeros((), T.dtype))
        value = jnp.where(T[i, j] == total, 0.0, (T[i, j] - total) / (diagonal[i] + diagonal[j]))
        return j, U.at[i, j].set(value)

    def column(j: Any, U: Any) -> Any:
        return lax.fori_loop(0, j, element, (j, U))[1]

    return lax.fori_loop(0, size, column, jnp.diag(diagonal))


@inner_jit(compiled=True)
def _sqrtm(A: Any) -> Any:
    T, Z = schur(A, output="complex")
    return _dot(_dot(Z, _sqrtm_triu(T)), _adjoint(Z))


def sqrtm(A: Any, blocksize: int = 1) -> Any:
    """The complex matrix whose square is ``A``, by its Schur form.

    NotImplementedError for a ``blocksize`` above 1; ValueError unless ``A`` is a square matrix.
    """
    if blocksize > 1:
        raise NotImplementedError("sqrtm: blocks are not implemented. Leave out blocksize.")
    return _sqrtm(A)


@inner_jit
def _algorithm_11_1_1(F: Any, T: Any) -> tuple[Any, Any]:
    """A function of the triangle ``T`` of which ``F`` has the diagonal: Golub and Van Loan, algorithm 11.1.1."""
    size = T.shape[0]
    least = jnp.abs(T[0, 0])

    def element(p: Any, i: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        F, least = carry
        j = i + p
        s = T[i - 1, j - 1] * (F[j - 1, j - 1] - F[i - 1, i - 1])
        row_T, column_T = T[i - 1, :], T[:, j - 1]
        row_F, column_F = F[i - 1, :], F[:, j - 1]
        between = (jnp.arange(size) >= i) & (jnp.arange(size) < j - 1)
        value = jnp.dot(jnp.where(between, row_T, 0), jnp.where(between, column_F, 0))
        value = value - jnp.dot(jnp.where(between, row_F, 0), jnp.where(between, column_T, 0))
        s = s + value
        distance = T[j - 1, j - 1] - T[i - 1, i - 1]
        s = jnp.where(distance != 0, s / distance, s)
        F = F.at[i - 1, j - 1].set(s)
        return F, jnp.minimum(least, jnp.abs(distance))

    def diagonal(p: Any, carry: tuple[Any, Any]) -> Any:
        return lax.fori_loop(1, size - p + 1, functools.partial(element, p), carry)

    found: tuple[Any, Any] = lax.fori_loop(1, size, diagonal, (F, least))
    return found


def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """``func``, a function of numbers, of the square matrix ``A``: by its Schur form and Parlett's recurrence.

    With ``disp`` False, an estimate of the relative error too. Eigenvalues that are near to one another cost digits.
    ValueError unless ``A`` is square.
    """
    A = ensure("funm", A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"funm: expected a square matrix, not the shape {A.shape}.")
    T, Z = schur(A)
    T, Z = rsf2csf(T, Z)
    F, least = _algorithm_11_1_1(jnp.diag(func(jnp.diag(T))), T)
    F = Z @ F @ Z.conj().T
    if disp:
        return F
    eps = dtypes.finfo(F.dtype).eps
    least = jnp.where(least == 0.0, eps, least)
    return F, jnp.minimum(1, jnp.maximum(eps, (eps / least) * jnp.linalg.norm(jnp.triu(T, 1), 1)))


@inner_jit(static_argnames=("method", "compute_expm"), compiled=True)
def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """``expm(A)`` and its derivative at ``A`` in the direction ``E``, both square; only that without ``compute_expm``.

    ``method`` is not looked at. ValueError for shapes that do not fit.
    """
    A, E = ensure("expm_frechet", A, E)
    for name, x in (("A", A), ("E", E)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"expm_frechet: expected {name} to be a square matrix, got shape {x.shape}.")
    if A.shape != E.shape:
        raise ValueError(f"expm_frechet: expected A and E of one shape, got {A.shape} and {E.shape}.")
    exponential, derivative = jvp(expm, (A,), (E,))
    return (exponential, derivative) if compute_expm else derivative


# -------------------------------------------------------------------------------- equations


@inner_jit(static_argnames=("method",), compiled=True)
def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: Any = 1e-8) -> Any:
    """The X with ``A X + X B = C``, by Schur forms (Bartels and Stewart 1972). Matrices may be stacked.

    It is nan if an eigenvalue of ``A`` is within ``tol`` of one of ``-B``. ValueError for shapes that do not fit and
    other methods.
    """
    A, B, C = promote_dtypes(*ensure("solve_sylvester", A, B, C), to=INEXACT)
    if min(A.ndim, B.ndim, C.ndim) < 2 or A.shape[-2] != A.shape[-1] or B.shape[-2] != B.shape[-1]:
        raise ValueError(f"solve_sylvester: A and B must be square matrices, not of shapes {A.shape} and {B.shape}.")
    if C.shape[-2:] != (A.shape[-1], B.shape[-1]):
        raise ValueError(f"solve_sylvester: C has the shape {C.shape}, which A and B do not fit.")
    if method != "schur":
        raise ValueError(f"solve_sylvester: method is 'schur', not {method!r}.")
    if A.ndim == B.ndim == C.ndim == 2:
        return _solve_sylvester_2d(A, B, C, tol)
    solve = functools.partial(_solve_sylvester_2d, tol=tol)
    return jnp.vectorize(solve, signature="(m,m),(n,n),(m,n)->(m,n)")(A, B, C)


@inner_jit
def _solve_sylvester_2d(A: Any, B: Any, C: Any, tol: Any) -> Any:
    R, U = schur(A, output="complex")
    S, V = schur(B.conj().T, output="complex")
    F = U.conj().T @ C.astype(U.dtype) @ V
    S = S.conj().T
    rows, columns = F.shape

    def element(Y: Any, k: Any) -> tuple[Any, None]:
        i, j = k // columns, k % columns
        known = Y.reshape(rows, columns)
        right = F[i, j]
        below = jnp.where(jnp.arange(rows) > i, R[i, :] * known[:, j], 0.0).sum()
        after = jnp.where(jnp.arange(columns) > j, known[i, :] * S[:, j], 0.0).sum()
        value = (right - (below + after)) / (R[i, i] + S[j, j])
        return Y.at[i * columns + j].set(value), None

    places = jnp.arange(rows * columns - 1, -1, -1)
    Y, _ = lax.scan(element, jnp.zeros(rows * columns, F.dtype), places)
    X = U @ Y.reshape(rows, columns) @ V.conj().T
    if not any(dtypes.is_complex(x.dtype) for x in (A, B, C)):
        X = X.real
    sums = jnp.linalg.eigvals(A)[:, None] + jnp.linalg.eigvals(B)[None, :]
    is_singular = jnp.any(jnp.abs(sums) < tol)
    return lax.cond(is_singular, lambda x: jnp.zeros_like(x) * jnp.nan, lambda x: x, X)
