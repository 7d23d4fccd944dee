"""``minijax.scipy.linalg``: SciPy's linear algebra with JAX's names.

What SciPy takes besides, ``overwrite_a``, ``check_finite`` and the like, changes nothing here. What this module lacks
is borrowed from JAX when it is used.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.batching import vmap
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.core.lacking import borrowing
from minijax.lax import linalg
from minijax.lax.convolution import conv_general_dilated_patches
from minijax.numpy import creation, linear, manipulation
from minijax.numpy import linalg as numpy_linalg
from minijax.numpy.linalg.decompositions import HIGHEST, adjoint
from minijax.numpy.linalg.equations import matrix_times_vector, promote_inexact
from minijax.numpy.linalg.norms import norm
from minijax.numpy.promotion import asarray, ensure, promote_dtypes, result_dtype, typed_scalar
from minijax.numpy.searching import digitize
from minijax.numpy.ufuncs import floor, log2, maximum
from minijax.ops.linalg import lu as of_lu

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "eigh",
    "expm",
    "inv",
    "lu",
    "lu_factor",
    "lu_solve",
    "qr",
    "solve",
    "solve_triangular",
    "svd",
    "toeplitz",
]

__getattr__, __dir__ = borrowing(globals(), "minijax.scipy.matrices", "minijax.scipy.matrix_functions")


def _inexact(*args: Any) -> list[Any]:
    """Arrays, or lists of numbers, as arrays of one inexact type."""
    return promote_inexact("jax.scipy.linalg", *map(creation.asarray, args))


# -------------------------------------------------------------------------------- Cholesky


@inner_jit(static_argnames=("lower",), compiled=True)
def _cholesky(a: Any, lower: bool) -> Any:
    (a,) = _inexact(a)
    found = linalg.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return found if lower else adjoint(found)


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The triangle U with ``a = U* U``, for positive definite a; with ``lower``, L with ``a = L L*``.

    Only that triangle of ``a`` is read. nan for what is not positive definite; ValueError if ``a`` is not square.
    """
    return _cholesky(a, lower)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """``cholesky(a, lower)`` and ``lower``, for ``cho_solve``."""
    return cholesky(a, lower), lower


@inner_jit(static_argnames=("lower",), compiled=True)
def _cho_solve(c: Any, b: Any, lower: bool) -> Any:
    c, b = _inexact(c, b)
    _check_solvable(c, b)
    solved = functools.partial(linalg.triangular_solve, c, left_side=True, lower=lower)
    b = solved(b, transpose_a=not lower, conjugate_a=not lower)
    return solved(b, transpose_a=lower, conjugate_a=lower)


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The x with ``a @ x = b`` for a matrix of which ``cho_factor`` gave ``c_and_lower``."""
    c, lower = c_and_lower
    return _cho_solve(c, b, lower)


def _check_solvable(a: Any, b: Any) -> None:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or b.ndim < 1:
        raise ValueError(
            f"The arguments to solve must have shapes a=[..., m, m] and b=[..., m, k] or b=[..., m]; got a={a.shape} "
            f"and b={b.shape}"
        )


# -------------------------------------------------------------------------------- equations


@inner_jit(static_argnames=("trans", "lower", "unit_diagonal"), compiled=True)
def _solve_triangular(a: Any, b: Any, trans: int | str, lower: bool, unit_diagonal: bool) -> Any:
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ValueError(f"Invalid 'trans' value {trans}: it is 0 or 'N', 1 or 'T', 2 or 'C'.")
    a, b = _inexact(a, b)
    _check_solvable(a, b)
    return linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=lower,
        transpose_a=trans not in (0, "N"),
        conjugate_a=trans in (2, "C"),
        unit_diagonal=unit_diagonal,
    )


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Any:
    """The x with ``op(a) @ x = b`` for a triangular ``a[..., m, m]``, and ``b[..., m, k]`` or ``b[..., m]``.

    ``op`` is nothing for ``trans`` 0 or 'N', transposes for 1 or 'T', and conjugates too for 2 or 'C'. ValueError for
    another, and for shapes that do not fit.
    """
    return _solve_triangular(a, b, trans, lower, unit_diagonal)


@inner_jit(static_argnames=("assume_a", "lower"), compiled=True)
def _solve(a: Any, b: Any, assume_a: str, lower: bool) -> Any:
    if assume_a != "pos":
        return numpy_linalg.solve(a, b)
    a, b = _inexact(a, b)
    _check_solvable(a, b)
    factors = cho_factor(lax.stop_gradient(a), lower=lower)
    solve_vector = functools.partial(
        lax.custom_linear_solve,
        lambda x: matrix_times_vector(a, x),
        solve=lambda _, x: cho_solve(factors, x),
        symmetric=True,
    )
    if a.ndim == b.ndim + 1:
        return solve_vector(b)
    return vmap(solve_vector, b.ndim - 1, max(a.ndim, b.ndim) - 1)(b)


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Any:
    """The x with ``a @ x = b``; ``assume_a='pos'`` says that ``a`` is positive definite.

    ValueError for an ``assume_a`` other than 'gen', 'sym', 'her' and 'pos', and for shapes that do not fit.
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"Expected assume_a to be one of 'gen', 'sym', 'her' or 'pos'; got {assume_a!r}")
    return _solve(a, b, assume_a, lower)


@inner_jit(compiled=True, static_argnames=("overwrite_a", "check_finite"))
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """The factors of ``a`` and the pivots, in one array each: see ``lax.linalg.lu``."""
    (a,) = _inexact(a)
    factors, pivots, _ = linalg.lu(a)
    return factors, pivots


@inner_jit(static_argnames=("trans", "overwrite_b", "check_finite"), compiled=True)
def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """The x with ``op(a) @ x = b`` for a matrix of which ``lu_factor`` gave ``lu_and_piv``; ``trans`` is 0, 1 or 2."""
    factors, pivots = lu_and_piv
    pivots = asarray(pivots)
    factors, b = _inexact(factors, b)
    if factors.ndim < 2:
        raise ValueError(f"lu_solve takes the factors of square matrices, and their pivots, got shape {factors.shape}")
    permutation = linalg.lu_pivots_to_permutation(pivots, factors.shape[-2])
    return of_lu.lu_solve(factors, permutation, b, trans)


# -------------------------------------------------------------------------------- decompositions


@inner_jit(static_argnames=("permute_l",), compiled=True)
def _lu(a: Any, permute_l: bool) -> tuple[Any, ...]:
    (a,) = _inexact(a)
    factors, _, permutation = linalg.lu(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    places = manipulation.expand_dims(permutation, -2)
    rows = places == manipulation.expand_dims(creation.arange(m, dtype=permutation.dtype), 1)
    p = creation.array(rows, dtype=a.dtype)
    p = lax.real(p) if dtypes.is_complex(a.dtype) else p
    left = creation.tril(factors, -1)[..., :, :k] + creation.eye(m, k, dtype=a.dtype)
    right = creation.triu(factors)[..., :k, :]
    return (linear.matmul(p, left, precision=HIGHEST), right) if permute_l else (p, left, right)


@inner_jit(static_argnames=("permute_l", "overwrite_a", "check_finite"), compiled=True)
def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, ...]:
    """P, L and U with ``a = P @ L @ U``; with ``permute_l``, ``P @ L`` and U."""
    found: tuple[Any, ...] = _lu(a, permute_l)
    return found


@inner_jit(static_argnames=("full_matrices", "compute_uv"), compiled=True)
def _svd(a: Any, full_matrices: bool, compute_uv: bool) -> Any:
    (a,) = _inexact(a)
    return linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """U, s and Vh with ``a = U @ diag(s) @ Vh``; s alone unless ``compute_uv``: see ``numpy.linalg.svd``."""
    return _svd(a, full_matrices, compute_uv)


@inner_jit(static_argnames=("mode", "pivoting"), compiled=True)
def _qr(a: Any, mode: str, pivoting: bool) -> tuple[Any, ...]:
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'. Choose 'full', 'r' or 'economic'.")
    (a,) = _inexact(a)
    q, *rest = linalg.qr(a, pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(rest) if mode == "r" else (q, *rest)


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """Q and R with ``a = Q @ R``, and with ``pivoting`` the columns' numbers as they were taken.

    ``mode``: 'full', 'economic' (``min(m, n)`` columns in Q), or 'r', without Q. ValueError for another.
    """
    found: tuple[Any, ...] = _qr(a, mode, pivoting)
    return found


@inner_jit(static_argnames=("lower", "eigvals_only"), compiled=True)
def _eigh(a: Any, lower: bool, eigvals_only: bool) -> Any:
    (a,) = _inexact(a)
    vectors, values = linalg.eigh(a, lower=lower)
    return values if eigvals_only else (values, vectors)


def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """The eigenvalues of Hermitian matrices, ascending, and eigenvectors as columns unless ``eigvals_only``.

    NotImplementedError for generalised problems (``b``, ``type``) and parts (``eigvals``), as in JAX.
    """
    if b is not None:
        raise NotImplementedError("Only the b=None case of eigh is implemented")
    if type != 1:
        raise NotImplementedError("Only the type=1 case of eigh is implemented.")
    if eigvals is not None:
        raise NotImplementedError("Only the eigvals=None case of eigh is implemented.")
    return _eigh(a, lower, eigvals_only)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverses of matrices: see ``numpy.linalg.inv``."""
    return numpy_linalg.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinants of matrices: see ``numpy.linalg.det``."""
    return numpy_linalg.det(a)


# -------------------------------------------------------------------------------- special matrices


@inner_jit
def block_diag(*arrs: Any) -> Any:
    """The matrix with ``arrs`` (matrices; vectors are rows) along its diagonal. ValueError for more dimensions."""
    if not arrs:
        arrs = (creation.zeros((1, 0)),)
    blocks = promote_dtypes(*map(asarray, arrs)) if len(arrs) > 1 else [asarray(arrs[0])]
    if any(x.ndim > 2 for x in blocks):
        shapes = [x.shape for x in blocks]
        raise ValueError(f"Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions, got {shapes}")
    blocks = [manipulation.atleast_2d(x) for x in blocks]
    dtype = blocks[0].dtype
    width, before = sum(x.shape[1] for x in blocks), 0
    rows = []
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(lax.pad(x, typed_scalar(0, dtype), ((0, 0, 0), (before, after, 0))))
        before += x.shape[1]
    return lax.concatenate(rows, 0)


def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix with first column ``c`` and first row ``r`` (but for its first element), constant along diagonals.

    ``r`` is ``conj(c)`` if None. Dimensions in front of the last are mapped.
    """
    c = ensure("toeplitz", c)
    r = (lax.conj(c) if dtypes.is_complex(c.dtype) else c) if r is None else ensure("toeplitz", r)
    c, r = manipulation.atleast_1d(c), manipulation.atleast_1d(r)
    if c.ndim > 1 or r.ndim > 1:
        lead = lax.broadcast_shapes(c.shape[:-1], r.shape[:-1])
        c, r = (manipulation.broadcast_to(x, (*lead, x.shape[-1])) for x in (c, r))
        mapped = _toeplitz
        for _ in lead:
            mapped = vmap(mapped)
        return mapped(c, r)
    return _toeplitz(c, r)


def _toeplitz(c: Any, r: Any) -> Any:
    """Each row is a window of the reversed column followed by the row."""
    (rows,), (columns,) = c.shape, r.shape
    if not (rows and columns):
        return creation.empty((rows, columns), result_dtype(c, r)[0])
    elements = manipulation.concatenate((c[::-1], r[1:]))
    windows = conv_general_dilated_patches(
        elements.reshape((1, -1, 1)),
        (columns,),
        (1,),
        "VALID",
        dimension_numbers=("NTC", "IOT", "NTC"),
        precision=lax.Precision.HIGHEST,
    )
    return manipulation.flip(windows[0], axis=0)


# -------------------------------------------------------------------------------- the exponential function

# Higham 2005, "The Scaling and Squaring Method for the Matrix Exponential Revisited", table 2.3: up to which norm the
# approximant of each degree is exact to the type's precision; and the last one's, to which matrices are scaled.
_DEGREES = {4: (3, 5, 7), 8: (3, 5, 7, 9, 13)}
_NORMS = {
    4: (4.258730016922831e-01, 1.880152677804762e00),
    8: (1.495585217958292e-02, 2.539398330063230e-01, 9.504178996162932e-01, 2.097847961257068e00),
}
_LAST_NORM = {4: 3.925724783138660, 8: 5.371920351148152}


def _coefficients(degree: int) -> list[float]:
    """Those of the numerator of the Padé approximant of the exponential function, from the lowest, as integers."""
    m = degree
    whole = [
        math.factorial(2 * m - j) * math.factorial(m) // (math.factorial(j) * math.factorial(m - j))
        for j in range(m + 1)
    ]
    return [float(n // whole[-1]) for n in whole]


def _approximant(degree: int, a: Any) -> tuple[Any, Any]:
    """The odd and the even part of the numerator of the Padé approximant of ``exp(a)``."""
    b = _coefficients(degree)
    unit = creation.eye(a.shape[-1], dtype=a.dtype)

    def product(x: Any, y: Any) -> Any:
        return linear.matmul(x, y, precision=HIGHEST)

    powers = [unit, product(a, a)]  # of a**2
    for i in range(2, 4 if degree == 13 else (degree + 1) // 2):
        powers.append(product(powers[i - 1], powers[i - 1] if i == 2 else powers[1]))

    def combined(first: int, last: int, shift: int = 0) -> Any:
        """The sum of ``b[j]`` times powers for j from ``last`` down to ``first`` by 2."""
        total = b[last] * powers[(last - shift) // 2]
        for j in range(last - 2, first - 1, -2):
            total = total + b[j] * powers[(j - shift) // 2]
        return total

    if degree < 13:
        return product(a, combined(1, degree)), combined(0, degree - 1)
    odd = product(powers[3], combined(9, 13, 7)) + b[7] * powers[3] + b[5] * powers[2] + b[3] * powers[1] + b[1] * unit
    odd = product(a, odd)
    even = product(powers[3], combined(8, 12, 6)) + b[6] * powers[3] + b[4] * powers[2] + b[2] * powers[1] + b[0] * unit
    return odd, even


@inner_jit
def _calc_P_Q(a: Any) -> tuple[Any, Any, Any]:
    """The numerator and denominator of the approximant of ``exp(a / 2**n)``, and n."""
    size = dtypes.real_dtype(a.dtype).itemsize
    length = norm(a, ord=1)
    squarings = maximum(0, floor(log2(length / _LAST_NORM[size])))
    a = a / 2 ** squarings.astype(a.dtype)
    which = digitize(length, np.array(_NORMS[size], length.dtype))
    u, v = lax.switch(which, [functools.partial(_approximant, degree) for degree in _DEGREES[size]], a)
    return u + v, -u + v, squarings


@inner_jit(static_argnames=("max_squarings",))
def _squaring(r: Any, squarings: Any, max_squarings: int) -> Any:
    def square(x: Any) -> Any:
        return linear.matmul(x, x, precision=HIGHEST)

    def step(x: Any, i: Any) -> Any:
        return lax.cond(i < squarings, square, lambda x: x, x), None

    return lax.scan(step, r, creation.arange(max_squarings, dtype=squarings.dtype))[0]


@inner_jit(static_argnames=("upper_triangular", "max_squarings"), compiled=True)
def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """The exponential of matrices ``A[..., n, n]``, by a Padé approximant of a scaled matrix, squared again.

    Args:
      upper_triangular: ``A`` is an upper triangle.
      max_squarings: nan is given for a matrix that needs more.

    ValueError if ``A`` is not square, TypeError for floats of 16 bits.
    """
    (A,) = _inexact(A)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got A.shape={A.shape}.")
    if A.ndim > 2:
        return vmap(functools.partial(expm, upper_triangular=upper_triangular, max_squarings=max_squarings))(A)
    if dtypes.bits(dtypes.real_dtype(A.dtype)) < 32:
        raise TypeError(f"expm: A.dtype={A.dtype} is not supported: convert it to float32.")
    p, q, squarings = _calc_P_Q(A)

    def unknown(a: Any, p: Any, q: Any) -> Any:
        return creation.full_like(a, math.nan)

    def known(a: Any, p: Any, q: Any) -> Any:
        r = solve_triangular(q, p) if upper_triangular else numpy_linalg.solve(q, p)
        return _squaring(r, squarings, max_squarings)

    return lax.cond(squarings > max_squarings, unknown, known, A, p, q)
