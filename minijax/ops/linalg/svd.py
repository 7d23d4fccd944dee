"""``svd``: singular values and vectors."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.structural import full
from minijax.ops.convert import convert
from minijax.ops.elementwise import add_p, const, div_p, eq_p, mul_p, real, sub_p
from minijax.ops.linalg.lapack import (
    INT32,
    check_matrices,
    check_ranks,
    declare_lapack,
    lapack_call,
    letter,
    or_nan,
    succeeded,
)
from minijax.ops.linalg.parts import (
    adjoint,
    as_row,
    diagonal,
    diagonal_places,
    dtype_of,
    eye,
    matmul,
    swapped,
    to_rank,
)
from minijax.ops.scatter import ScatterDimensionNumbers, scatter
from minijax.ops.shape import iota, shape_of


class SvdAlgorithm(enum.Enum):
    """How singular values are found; on the CPU, QR is divide and conquer too."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _svd_abstract(
    x: ShapedArray, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, algorithm: Any
) -> list[ShapedArray]:
    check_matrices("svd", x)
    *lead, m, n = x.shape
    rank = min(m, n)
    if subset_by_index is not None:
        start, end = subset_by_index
        if full_matrices and subset_by_index != (0, rank):
            raise ValueError("full_matrices and subset_by_index cannot both be set")
        rank = min(rank, end - start)
    values = ShapedArray((*lead, rank), dtypes.real_dtype(x.dtype))
    if not compute_uv:
        return [values]
    return [
        values,
        ShapedArray((*lead, m, m if full_matrices else rank), x.dtype),
        ShapedArray((*lead, n if full_matrices else rank, n), x.dtype),
    ]


def _svd_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: Any,
    algorithm: Any,
) -> Any:
    """The derivative of Townsend 2016, "Differentiating the Singular Value Decomposition"."""
    (x,), (t,) = primals, tangents
    check_ranks("svd", get_aval(x))
    params = {"subset_by_index": subset_by_index, "algorithm": algorithm}
    *_, m, n = shape_of(x)
    if compute_uv and full_matrices and m != n:
        raise NotImplementedError(
            "Singular value decomposition JVP not implemented for full matrices: pass full_matrices=False."
        )
    if not (subset_by_index is None or subset_by_index == (0, min(m, n))):
        raise NotImplementedError("SVD JVP rule not implemented for subset_by_index that is not the full range.")
    s, u, v_adjoint = svd_p.bind(x, full_matrices=False, compute_uv=True, **params)
    u_adjoint, v = adjoint(u), adjoint(v_adjoint)
    row = as_row(s)
    inside = matmul(matmul(u_adjoint, t, typed=True), v, typed=True)
    is_complex = dtypes.is_complex(dtype_of(x))
    moved = diagonal(real(inside) if is_complex else inside)
    if not compute_uv:
        return [s], [moved]
    rank, dtype = len(shape_of(x)), dtype_of(x)

    def typed(y: Any) -> Any:
        return convert(y, dtype)

    squares = mul_p.bind(add_p.bind(row, swapped(row)), sub_p.bind(row, swapped(row)))
    unit = to_rank(eye(shape_of(s)[-1], dtype_of(s)), rank)
    apart = add_p.bind(squares, unit)
    factors = sub_p.bind(div_p.bind(const(apart, 1), apart), unit)
    right = mul_p.bind(typed(row), inside)
    left = mul_p.bind(swapped(typed(row)), inside)
    # where a singular value is zero, so is its inverse
    is_zero = convert(eq_p.bind(s, const(s, 0)), dtype_of(s))
    whole = add_p.bind(s, is_zero)
    inverse = sub_p.bind(div_p.bind(const(whole, 1), whole), is_zero)
    diagonals = _diagonal_matrix(inverse)
    skew = sub_p.bind(inside, adjoint(inside))
    half = mul_p.bind(mul_p.bind(const(skew, 0.5), skew), typed(diagonals))
    rotation = add_p.bind(mul_p.bind(typed(factors), add_p.bind(right, adjoint(right))), half)
    moved_u = matmul(u, rotation, typed=True)
    moved_v = matmul(v, mul_p.bind(typed(factors), add_p.bind(left, adjoint(left))), typed=True)
    if m > n:
        over = matmul(t, v, typed=True)
        rest = sub_p.bind(over, matmul(u, matmul(u_adjoint, over, typed=True), typed=True))
        moved_u = add_p.bind(moved_u, div_p.bind(rest, typed(row)))
    if n > m:
        over = matmul(adjoint(t), u, typed=True)
        rest = sub_p.bind(over, matmul(v, matmul(v_adjoint, over, typed=True), typed=True))
        moved_v = add_p.bind(moved_v, div_p.bind(rest, typed(row)))
    return [s, u, v_adjoint], [moved, moved_u, adjoint(moved_v)]


def _diagonal_matrix(x: Any) -> Any:
    """Matrices with the vectors ``x`` on their diagonals."""
    *lead, n = shape_of(x)
    rank = len(lead)
    last = (rank, rank + 1)
    numbers = ScatterDimensionNumbers(tuple(range(rank)), last, last)
    i = iota(INT32, n)
    zeros = full((*lead, n, n), 0, dtype_of(x))
    return scatter(zeros, diagonal_places(n, i), x, numbers, mode="fill")


def _svd_lower(
    ctx: Any,
    avals: Any,
    out_avals: Any,
    x: str,
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: Any,
    algorithm: Any,
) -> list[str]:
    (aval,) = avals
    *lead, m, n = aval.shape
    batch = len(lead)
    if not (subset_by_index is None or subset_by_index == (0, min(m, n))):
        raise NotImplementedError("subset_by_index not implemented for CPU: take the part of the result.")
    name = getattr(algorithm, "name", "DEFAULT")
    if name in ("JACOBI", "POLAR"):
        raise NotImplementedError(f"The SVD algorithm {name} is not for the CPU: choose DEFAULT or QR.")
    if not (m and n):
        return [_empty_text(ctx, out) for out in out_avals]
    routine, wide = ("gesvd" if name == "QR" else "gesdd"), full_matrices and compute_uv
    k = min(m, n)
    values = out_avals[0]
    types = [
        aval,
        values,
        ShapedArray((*lead, m, m if full_matrices else k), aval.dtype),
        ShapedArray((*lead, n if full_matrices else k, n), aval.dtype),
        ShapedArray(tuple(lead), INT32),
    ]
    options = f"mode = {letter('N' if not compute_uv else 'A' if wide else 'S')}"
    _, s, u, v, info = lapack_call(ctx, routine, aval.dtype, [(x, aval)], types, batch, options, {0: 0})
    ok = succeeded(ctx, info, lead)
    outs = [or_nan(ctx, ok, s, values, batch)]
    if compute_uv:
        outs += [or_nan(ctx, ok, u, types[2], batch), or_nan(ctx, ok, v, types[3], batch)]
    return outs


def _empty_text(ctx: Any, aval: ShapedArray) -> str:
    """A result for matrices without elements: nothing, or identity matrices."""
    if not aval.size:
        return str(ctx.full(0, aval))
    unit = ShapedArray(aval.shape[-2:], aval.dtype)
    name = ctx.constant(np.eye(aval.shape[-1], dtype=aval.dtype), unit)
    return str(ctx.broadcast(name, unit, aval.shape, (aval.ndim - 2, aval.ndim - 1)))


svd_p = declare_lapack(
    Primitive("svd", multiple_results=True), abstract=_svd_abstract, lower=_svd_lower, jvp=_svd_jvp
)


def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """The factors of matrices ``x[..., m, n]``: ``x = U diag(s) V*`` with orthonormal columns in U and V.

    Returns U ``[..., m, k]``, s ``[..., min(m, n)]``, descending, and V* ``[..., l, n]``: k and l are m and n with
    ``full_matrices``, else ``min(m, n)``. Only s unless ``compute_uv``. TypeError if ``x`` is not inexact.
    """
    outs = svd_p.bind(
        x,
        full_matrices=bool(full_matrices),
        compute_uv=bool(compute_uv),
        subset_by_index=subset_by_index,
        algorithm=algorithm,
    )
    if not compute_uv:
        return outs[0]
    s, u, v = outs
    return u, s, v
