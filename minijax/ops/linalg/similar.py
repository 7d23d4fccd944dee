"""Unitary similarity transformations to simpler forms: ``schur``, ``hessenberg``, ``tridiagonal``."""

from __future__ import annotations

from typing import Any

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.ops.linalg.lapack import INT32, check_matrices, declare_lapack, lapack_call, letter, or_nan, succeeded

# -------------------------------------------------------------------------------- schur


def _schur_abstract(
    x: ShapedArray, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Any
) -> list[ShapedArray]:
    check_matrices("schur", x, square=True)
    return [ShapedArray(x.shape, x.dtype)] * (2 if compute_schur_vectors else 1)


def _schur_lower(
    ctx: Any,
    avals: Any,
    out_avals: Any,
    x: str,
    *,
    compute_schur_vectors: bool,
    sort_eig_vals: bool,
    select_callable: Any,
) -> list[str]:
    if sort_eig_vals:
        raise NotImplementedError("The sorting feature of LAPACK's gees routine is not implemented.")
    (aval,) = avals
    lead, batch = aval.shape[:-2], aval.ndim - 2
    options = f"mode = {letter('V' if compute_schur_vectors else 'N')}, sort = {letter('N')}"
    w, info = ShapedArray(aval.shape[:-1], aval.dtype), ShapedArray(lead, INT32)
    types = [aval, aval, *[w] * (1 if dtypes.is_complex(aval.dtype) else 2), info, info]
    t, vectors, *_, status = lapack_call(ctx, "gees", aval.dtype, [(x, aval)], types, batch, options, {0: 0})
    ok = succeeded(ctx, status, lead)
    return [or_nan(ctx, ok, y, aval, batch) for y in ([t, vectors] if compute_schur_vectors else [t])]


schur_p = declare_lapack(Primitive("schur", multiple_results=True), abstract=_schur_abstract, lower=_schur_lower)


def schur(
    x: Any, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False, select_callable: Any = None
) -> Any:
    """The Schur form of matrices ``x[..., n, n]``: ``x = Z T Z*``, T a triangle (for real x with blocks of 2 x 2).

    Returns a list: T and Z; only T unless ``compute_schur_vectors``. TypeError if ``x`` is not inexact, ValueError
    if it is not square.
    """
    return schur_p.bind(
        x,
        compute_schur_vectors=bool(compute_schur_vectors),
        sort_eig_vals=bool(sort_eig_vals),
        select_callable=select_callable,
    )


# -------------------------------------------------------------------------------- hessenberg


def _hessenberg_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrices("hessenberg", x, square=True)
    if not x.shape[-1]:
        raise ValueError(f"hessenberg requires matrices with at least one row, got shape {x.shape}")
    return [ShapedArray(x.shape, x.dtype), ShapedArray((*x.shape[:-2], x.shape[-1] - 1), x.dtype)]


def _hessenberg_lower(ctx: Any, avals: Any, out_avals: Any, x: str) -> list[str]:
    (aval,), (_, taus_aval) = avals, out_avals
    lead, batch = aval.shape[:-2], aval.ndim - 2
    types = [aval, taus_aval, ShapedArray(lead, INT32)]
    options = f"high = {aval.shape[-1]} : i32, low = 1 : i32"
    packed, taus, info = lapack_call(ctx, "gehrd", aval.dtype, [(x, aval)], types, batch, options, {0: 0})
    ok = succeeded(ctx, info, lead)
    return [or_nan(ctx, ok, packed, aval, batch), or_nan(ctx, ok, taus, taus_aval, batch)]


hessenberg_p = declare_lapack(
    Primitive("hessenberg", multiple_results=True), abstract=_hessenberg_abstract, lower=_hessenberg_lower
)


def hessenberg(a: Any) -> list[Any]:
    """The upper Hessenberg form of matrices ``a[..., n, n]``, with the reflectors that bring it about.

    Returns a list: both in one array of a's shape, reflectors below the first subdiagonal, and ``taus[..., n - 1]``:
    see ``householder_product``. TypeError if ``a`` is not inexact, ValueError if it is not square.
    """
    found: list[Any] = hessenberg_p.bind(a)
    return found


# -------------------------------------------------------------------------------- tridiagonal


def _tridiagonal_abstract(x: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    check_matrices("tridiagonal", x, square=True)
    if not x.shape[-1]:
        raise ValueError(f"tridiagonal requires matrices with at least one row, got shape {x.shape}")
    lead, n, part = x.shape[:-2], x.shape[-1], dtypes.real_dtype(x.dtype)
    return [
        ShapedArray(x.shape, x.dtype),
        ShapedArray((*lead, n), part),
        ShapedArray((*lead, n - 1), part),
        ShapedArray((*lead, n - 1), x.dtype),
    ]


def _tridiagonal_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, lower: bool) -> list[str]:
    (aval,) = avals
    lead, batch = aval.shape[:-2], aval.ndim - 2
    routine = "hetrd" if dtypes.is_complex(aval.dtype) else "sytrd"
    types = [*out_avals, ShapedArray(lead, INT32)]
    options = f"uplo = {letter('L' if lower else 'U')}"
    *outs, info = lapack_call(ctx, routine, aval.dtype, [(x, aval)], types, batch, options, {0: 0})
    ok = succeeded(ctx, info, lead)
    return [or_nan(ctx, ok, y, a, batch) for y, a in zip(outs, out_avals, strict=True)]


tridiagonal_p = declare_lapack(
    Primitive("tridiagonal", multiple_results=True), abstract=_tridiagonal_abstract, lower=_tridiagonal_lower
)


def tridiagonal(a: Any, *, lower: bool = True) -> list[Any]:
    """The tridiagonal form of Hermitian matrices ``a[..., n, n]``, of which one triangle is read.

    Returns a list: an array of a's shape with it and its reflectors, its diagonal ``[..., n]``, the diagonal beside it
    ``[..., n - 1]``, both real, and ``taus[..., n - 1]``. TypeError or ValueError as for ``hessenberg``.
    """
    found: list[Any] = tridiagonal_p.bind(a, lower=bool(lower))
    return found
