"""``eigh``: eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.ops.convert import convert
from minijax.ops.elementwise import add_p, integer_pow, mul_p, real, sub_p
from minijax.ops.linalg.lapack import INT32, check_matrices, declare_lapack, lapack_call, letter, or_nan, succeeded
from minijax.ops.linalg.parts import (
    adjoint,
    as_column,
    as_row,
    diagonal,
    dtype_of,
    eye,
    matmul,
    symmetrized,
    to_rank,
)
from minijax.ops.shape import shape_of


class EighImplementation(enum.Enum):
    """How eigenvalues are found; the CPU has one way."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


def _eigh_abstract(
    x: ShapedArray, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, algorithm: Any
) -> list[ShapedArray]:
    check_matrices("eigh", x, square=True)
    n = x.shape[-1]
    count = n if subset_by_index is None else subset_by_index[1] - subset_by_index[0]
    if not 0 < count <= n and count != n:
        raise ValueError(f"eigh: subset_by_index={subset_by_index} is no range of {n} eigenvalues")
    return [
        ShapedArray((*x.shape[:-1], count), x.dtype),
        ShapedArray((*x.shape[:-2], count), dtypes.real_dtype(x.dtype)),
    ]


def _eigh_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    lower: bool,
    sort_eigenvalues: bool,
    subset_by_index: Any,
    algorithm: Any,
) -> Any:
    """``dw = diag(V* dA V)``, ``dV = V (F * V* dA V)``, F being ``1 / (w_j - w_i)`` off the diagonal (Giles 2008)."""
    (x,), (t,) = primals, tangents
    if not (subset_by_index is None or subset_by_index == (0, shape_of(x)[-1])):
        raise NotImplementedError("Derivatives not defined for partial eigen decomposition.")
    v, w_real = eigh_p.bind(
        symmetrized(x),
        lower=lower,
        sort_eigenvalues=sort_eigenvalues,
        subset_by_index=subset_by_index,
        algorithm=algorithm,
    )
    dtype, rank = dtype_of(x), len(shape_of(x))
    w = convert(w_real, dtype)
    unit = eye(shape_of(x)[-1], dtype)
    row = as_row(w)
    apart = sub_p.bind(add_p.bind(to_rank(unit, rank), row), as_column(w))
    factors = sub_p.bind(integer_pow(apart, -1), to_rank(unit, rank))
    inside = matmul(matmul(adjoint(v), t), v)
    moved = matmul(v, mul_p.bind(factors, inside))
    return [v, w_real], [moved, diagonal(real(inside) if dtypes.is_complex(dtype) else inside)]


def _eigh_lower(
    ctx: Any,
    avals: Any,
    out_avals: Any,
    x: str,
    *,
    lower: bool,
    sort_eigenvalues: bool,
    subset_by_index: Any,
    algorithm: Any,
) -> list[str]:
    (aval,), (v_aval, w_aval) = avals, out_avals
    if not (subset_by_index is None or subset_by_index == (0, aval.shape[-1])):
        raise NotImplementedError("subset_by_index not supported on CPU and GPU: take the part of the result.")
    lead, batch = aval.shape[:-2], aval.ndim - 2
    routine = "heevd" if dtypes.is_complex(aval.dtype) else "syevd"
    options = f"mode = {letter('V')}, uplo = {letter('L' if lower else 'U')}"
    results = [aval, w_aval, ShapedArray(lead, INT32)]
    v, w, info = lapack_call(ctx, routine, aval.dtype, [(x, aval)], results, batch, options, {0: 0})
    ok = succeeded(ctx, info, lead)
    return [or_nan(ctx, ok, v, v_aval, batch), or_nan(ctx, ok, w, w_aval, batch)]


eigh_p = declare_lapack(
    Primitive("eigh", multiple_results=True), abstract=_eigh_abstract, lower=_eigh_lower, jvp=_eigh_jvp
)
eigh_p.of_hermitian = True


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: Any = None,
) -> tuple[Any, Any]:
    """The eigenvectors ``v[..., n, n]``, as columns, and eigenvalues ``w[..., n]``, ascending, of Hermitian matrices.

    ``symmetrize_input``: of the mean of ``x`` and its adjoint; else the lower triangle is read (the upper one unless
    ``lower``). ``subset_by_index`` and ``implementation`` are for other platforms than the CPU. TypeError if ``x`` is
    not inexact, ValueError if it is not square.
    """
    v, w = eigh_p.bind(
        symmetrized(x) if symmetrize_input else x,
        lower=bool(lower),
        sort_eigenvalues=bool(sort_eigenvalues),
        subset_by_index=subset_by_index,
        algorithm=implementation,
    )
    return v, w
