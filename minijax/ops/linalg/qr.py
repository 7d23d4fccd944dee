"""``qr``, and what it is made of: ``geqrf``, ``householder_product``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.structural import full
from minijax.interpreters.vmap import batching_rules, bdim_at_front, mapped_axis
from minijax.lowering.text import dims_text, mlir_type
from minijax.ops.convert import convert
from minijax.ops.elementwise import add_p, mul_p, real, sub_p
from minijax.ops.linalg.lapack import check_matrices, check_ranks, declare_lapack, lapack_call
from minijax.ops.linalg.lu import lu_p, lu_solve
from minijax.ops.linalg.parts import adjoint, dtype_of, eye, matmul, to_rank, tril
from minijax.ops.linalg.triangular_solve import triangular_solve_p
from minijax.ops.nary import check_same_dtypes
from minijax.ops.shape import shape_of
from minijax.ops.slicing import concatenate, slice, slice_text

# -------------------------------------------------------------------------------- reflectors


def _geqrf_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrices("geqrf", x)
    *lead, m, n = x.shape
    return [ShapedArray(x.shape, x.dtype), ShapedArray((*lead, min(m, n)), x.dtype)]


def _geqrf_lower(ctx: Any, avals: Any, out_avals: Any, x: str) -> list[str]:
    (aval,) = avals
    return lapack_call(ctx, "geqrf", aval.dtype, [(x, aval)], out_avals, aval.ndim - 2, "", {0: 0})


geqrf_p = declare_lapack(Primitive("geqrf", multiple_results=True), abstract=_geqrf_abstract, lower=_geqrf_lower)


def _householder_product_abstract(a: ShapedArray, taus: ShapedArray) -> ShapedArray:
    check_ranks("householder_product", a)
    if taus.ndim != a.ndim - 1:
        raise TypeError(
            "All inputs to householder_product must have the same number of batch dimensions, but got "
            f"[{a.ndim - 2}, {taus.ndim - 1}] batch dimensions for the inputs."
        )
    *lead, m, n = a.shape
    if m < n:
        raise ValueError(f"householder_product: the first argument has fewer rows than columns, shape {a.shape}")
    if taus.ndim and taus.shape[-1] > n:
        raise ValueError(f"householder_product: {taus.shape[-1]} reflections of matrices with {n} columns")
    check_matrices("householder_product", a)
    check_same_dtypes("householder_product", [a, taus])
    if taus.shape[:-1] != tuple(lead) or not taus.ndim:
        raise ValueError(
            f"householder_product takes a[..., m, n] and taus[..., k] of one dtype with m >= n >= k, got "
            f"{a.str_short()} and {taus.str_short()}"
        )
    return ShapedArray(a.shape, a.dtype)


def _householder_product_lower(ctx: Any, avals: Any, out_avals: Any, a: str, taus: str) -> str:
    matrix, factors = avals
    routine = "ungqr" if dtypes.is_complex(matrix.dtype) else "orgqr"
    operands = [(a, matrix), (taus, factors)]
    (out,) = lapack_call(ctx, routine, matrix.dtype, operands, [matrix], matrix.ndim - 2, "", {0: 0})
    return out


def _householder_product_batch(args: Sequence[Any], dims: Sequence[int | None]) -> Any:
    size, _ = mapped_axis(args, dims)
    return householder_product_p.bind(*[bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)]), 0


householder_product_p = declare_lapack(
    Primitive("householder_product"), abstract=_householder_product_abstract, lower=_householder_product_lower
)
batching_rules[householder_product_p] = _householder_product_batch


def householder_product(a: Any, taus: Any) -> Any:
    """The product of the reflections ``I - tau v v*``, of which ``a[..., m, n]`` has the v below its diagonal.

    Returns the first n columns, ``[..., m, n]``. Raises TypeError or ValueError for operands that do not fit.
    """
    return householder_product_p.bind(a, taus)


# -------------------------------------------------------------------------------- qr


def _qr_abstract(x: ShapedArray, *, pivoting: bool, full_matrices: bool, use_magma: bool | None) -> list[ShapedArray]:
    check_matrices("qr", x)
    *lead, m, n = x.shape
    k = m if full_matrices else min(m, n)
    types = [ShapedArray((*lead, m, k), x.dtype), ShapedArray((*lead, k, n), x.dtype)]
    return [*types, ShapedArray((*lead, n), np.dtype(np.int32))] if pivoting else types


def _qr_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, pivoting: bool, full_matrices: bool, use_magma: bool | None
) -> Any:
    """With ``dA R^-1 = dQ + Q dR R^-1``: ``dQ = Q (O - Q* dA R^-1) + dA R^-1``, ``dR = (Q* dA R^-1 - O) R``.

    O is the skew-Hermitian matrix with the strict lower triangle of ``Q* dA R^-1``.
    """
    (x,), (t,) = primals, tangents
    q, r, *permutation = qr_p.bind(x, pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma)
    *_, m, n = shape_of(x)
    if permutation:
        raise NotImplementedError(
            "JVP rule for QR with pivoting=True is not implemented. Permute the columns before, and use pivoting=False."
        )
    if m < n:
        rest, moved, moved_rest = _columns(x, m, n), _columns(t, 0, m), _columns(t, m, n)
        moved_q, moved_r = _reduced_tangents(q, _columns(r, 0, m), moved)
        over = add_p.bind(
            matmul(adjoint(moved_q), rest, None, typed=True), matmul(adjoint(q), moved_rest, None, typed=True)
        )
        return [q, r], [moved_q, concatenate([moved_r, over], len(shape_of(x)) - 1)]
    if full_matrices and m != n:
        reduced, rows = _columns(q, 0, n), _rows(r, 0, n)
        moved_q, moved_r = _reduced_tangents(reduced, rows, t)
        moved_rest = _complement_tangent(q, reduced, moved_q)
        rank = len(shape_of(x))
        moved_q = concatenate([moved_q, moved_rest], rank - 1)
        below = full((*shape_of(x)[:-2], m - n, n), 0, dtype_of(x))
        return [q, r], [moved_q, concatenate([moved_r, below], rank - 2)]
    return [q, r], list(_reduced_tangents(q, r, t))


def _columns(x: Any, start: int, stop: int) -> Any:
    *lead, rows, _ = shape_of(x)
    return slice(x, (*[0] * len(lead), 0, start), (*lead, rows, stop))


def _rows(x: Any, start: int, stop: int) -> Any:
    *lead, _, columns = shape_of(x)
    return slice(x, (*[0] * len(lead), start, 0), (*lead, stop, columns))


def _reduced_tangents(q: Any, r: Any, t: Any) -> tuple[Any, Any]:
    """The tangents of Q and R where R is square."""
    params = {"transpose_a": False, "conjugate_a": False, "unit_diagonal": False}
    solved = triangular_solve_p.bind(r, t, left_side=False, lower=False, **params)
    inside = matmul(adjoint(q), solved, None, typed=True)
    below = tril(inside, -1)
    skew = sub_p.bind(below, adjoint(below))
    unit = to_rank(eye(shape_of(r)[-1], dtype_of(inside)), len(shape_of(r)))
    # the diagonal of a skew-Hermitian matrix is imaginary; that of R is real
    size = convert(real(inside), dtype_of(inside)) if dtypes.is_complex(dtype_of(inside)) else inside
    skew = add_p.bind(skew, mul_p.bind(unit, sub_p.bind(inside, size)))
    moved_q = add_p.bind(matmul(q, sub_p.bind(skew, inside), None, typed=True), solved)
    return moved_q, matmul(sub_p.bind(inside, skew), r, None, typed=True)


def _complement_tangent(square: Any, q: Any, moved: Any) -> Any:
    """The tangent of the columns of ``square`` that complete those of Q, as the reflectors that make both move them.

    With Q's first rows Q1 and the others Q2, those columns P, and ``Z* = Q2 (Q1 - I)^-1``, it is
    ``dQ Z - (Q + P Z*) (dQ2 - Z* dQ1)*``.
    """
    n, m = shape_of(q)[-1], shape_of(q)[-2]
    first, second = _rows(q, 0, n), _rows(q, n, m)
    rest = _columns(square, n, m)
    moved_first, moved_second = _rows(moved, 0, n), _rows(moved, n, m)
    unit = to_rank(eye(n, dtype_of(q)), len(shape_of(q)))
    factors, _, permutation = lu_p.bind(sub_p.bind(first, unit))
    turned = adjoint(second)
    z = lu_solve(factors, permutation, turned, trans=2 if dtypes.is_complex(dtype_of(q)) else 1)
    z_adjoint = adjoint(z)
    along = matmul(moved, z, None, typed=True)
    whole = add_p.bind(q, matmul(rest, z_adjoint, None, typed=True))
    change = sub_p.bind(moved_second, matmul(z_adjoint, moved_first, None, typed=True))
    return sub_p.bind(along, matmul(whole, adjoint(change), None, typed=True))


def _qr_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, pivoting: bool, full_matrices: bool, use_magma: bool | None
) -> list[str]:
    (aval,) = avals
    *lead, m, n = aval.shape
    k, batch = min(m, n), len(lead)
    packed, taus, *places = _reflectors(ctx, x, aval, pivoting)
    q_aval, r_aval = out_avals[:2]
    if m < n:
        square = aval.update(shape=(*lead, m, m))
        columns = slice_text(ctx, packed, aval, square, [0] * aval.ndim, square.shape)
    else:
        square = q_aval
        zero = ctx.scalar(0, aval.dtype)
        zeros, high = dims_text([0] * aval.ndim), dims_text([0] * (aval.ndim - 1) + [square.shape[-1] - n])
        columns = ctx.emit(
            f"stablehlo.pad {packed}, {zero}, low = {zeros}, high = {high}, interior = {zeros} : "
            f"({mlir_type(aval)}, {mlir_type(aval.update(shape=()))}) -> {mlir_type(square)}"
        )
    vectors = ShapedArray((*lead, k), aval.dtype)
    routine = "ungqr" if dtypes.is_complex(aval.dtype) else "orgqr"
    (q,) = lapack_call(
        ctx, routine, aval.dtype, [(columns, square), (taus, vectors)], [square], batch, "", {0: 0}
    )
    upper = packed
    if r_aval.shape != aval.shape:
        upper = slice_text(ctx, packed, aval, r_aval, [0] * aval.ndim, r_aval.shape)
    return [q, triu_text(ctx, upper, r_aval), *places]


def _reflectors(ctx: Any, x: str, aval: ShapedArray, pivoting: bool) -> list[str]:
    """The factors as LAPACK has them; with ``pivoting``, the columns' numbers, from 0, too."""
    *lead, m, n = aval.shape
    vectors = ShapedArray((*lead, min(m, n)), aval.dtype)
    batch = len(lead)
    if not pivoting:
        return lapack_call(ctx, "geqrf", aval.dtype, [(x, aval)], [aval, vectors], batch, "", {0: 0})
    places = ShapedArray((*lead, n), np.dtype(np.int32))
    start = ctx.full(0, places)
    operands, results = [(x, aval), (start, places)], [aval, places, vectors]
    packed, order, taus = lapack_call(ctx, "geqp3", aval.dtype, operands, results, batch, "", {0: 0, 1: 1})
    order = ctx.emit(f"stablehlo.subtract {order}, {ctx.full(1, places)} : {mlir_type(places)}")
    return [packed, taus, order]


def triu_text(ctx: Any, x: str, aval: ShapedArray) -> str:
    """Write ``x`` with zeros below the diagonal."""
    places = ShapedArray(aval.shape[-2:], np.dtype(np.int32))
    ty, flag = mlir_type(places), np.dtype(bool)
    rows = ctx.emit(f"stablehlo.iota dim = 0 : {ty}")
    rows = ctx.emit(f"stablehlo.add {rows}, {ctx.full(-1, places)} : {ty}")
    columns = ctx.emit(f"stablehlo.iota dim = 1 : {ty}")
    flags = places.update(dtype=flag)
    mask = ctx.emit(f"stablehlo.compare GE, {rows}, {columns}, SIGNED : ({ty}, {ty}) -> {mlir_type(flags)}")
    if aval.ndim > 2:
        mask = ctx.broadcast(mask, flags, aval.shape, (aval.ndim - 2, aval.ndim - 1))
    zero = ctx.full(0, aval)
    types = f"{mlir_type(aval.update(dtype=flag))}, {mlir_type(aval)}"
    return str(ctx.emit(f"stablehlo.select {mask}, {zero}, {x} : {types}"))


qr_p = declare_lapack(Primitive("qr", multiple_results=True), abstract=_qr_abstract, lower=_qr_lower, jvp=_qr_jvp)


def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None) -> Any:
    """The factors of matrices ``x[..., m, n]``: ``x = Q R``, Q's columns orthonormal, R an upper triangle.

    Returns Q ``[..., m, k]`` and R ``[..., k, n]``, where k is m with ``full_matrices``, else ``min(m, n)``; with
    ``pivoting``, also the numbers p of the columns as they were taken, ``x[..., p] = Q R``. TypeError if ``x`` is not
    inexact. ``use_magma`` chooses among libraries for GPUs.
    """
    return tuple(qr_p.bind(x, pivoting=bool(pivoting), full_matrices=bool(full_matrices), use_magma=use_magma))
