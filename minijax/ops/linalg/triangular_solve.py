"""``triangular_solve``: the solution of a linear equation whose matrix is a triangle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.structural import Zero, moveaxis
from minijax.interpreters.vmap import batching_rules, bdim_at_front, mapped_axis
from minijax.lowering.lower import lowering_rules
from minijax.lowering.text import mlir_type
from minijax.ops.elementwise import conj, conj_p, neg_p
from minijax.ops.linalg.lapack import check_matrices, check_ranks, declare_lapack, is_supported, lapack_call, letter
from minijax.ops.linalg.parts import as_column, as_row, dtype_of, matmul, swapped, tril, triu
from minijax.ops.nary import check_same_dtypes, nary_jvp
from minijax.ops.shape import reshape, shape_of, squeeze

triangular_solve_p = Primitive("triangular_solve")


def _triangular_solve_abstract(
    a: ShapedArray,
    b: ShapedArray,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> ShapedArray:
    check_ranks("triangular_solve", a, b)
    if a.ndim != b.ndim:
        raise TypeError(
            "All inputs to triangular_solve must have the same number of batch dimensions, but got "
            f"[{a.ndim - 2}, {b.ndim - 2}] batch dimensions for the inputs."
        )
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"The first argument to triangular_solve must be square matrices, got shape {a.shape}")
    if a.shape[:-2] != b.shape[:-2] or b.shape[-2 if left_side else -1] != a.shape[-1]:
        raise ValueError(
            f"triangular_solve takes a[..., m, m] and b[..., {'m, k' if left_side else 'k, m'}], got shapes {a.shape} "
            f"and {b.shape}"
        )
    check_same_dtypes("triangular_solve", [a, b])
    check_matrices("triangular_solve", a, b)
    return ShapedArray(b.shape, b.dtype)


def _matrix_derivative(
    g: Any,
    ans: Any,
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """``-A^-1 dA x``, of which the smaller product comes first."""
    inside = tril(g, -1 if unit_diagonal else 0) if lower else triu(g, 1 if unit_diagonal else 0)
    moved = neg_p.bind(inside)
    if transpose_a:
        moved = swapped(moved)
    if conjugate_a:
        moved = conj(moved)

    def inverse(x: Any) -> Any:
        return triangular_solve_p.bind(
            a,
            x,
            left_side=left_side,
            lower=lower,
            transpose_a=transpose_a,
            conjugate_a=conjugate_a,
            unit_diagonal=unit_diagonal,
        )

    rows, columns = shape_of(b)[-2:]
    if left_side:
        return inverse(matmul(moved, ans)) if rows > columns else matmul(inverse(moved), ans)
    return inverse(matmul(ans, moved)) if rows < columns else matmul(ans, inverse(moved))


def _right_derivative(g: Any, ans: Any, a: Any, b: Any, **params: Any) -> Any:
    return triangular_solve_p.bind(a, g, **params)


def _triangular_solve_transpose(ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: Any) -> list[Any]:
    if type(ct) is Zero:
        return [None, Zero(b.aval)]
    return [None, triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


def _triangular_solve_batch(args: Sequence[Any], dims: Sequence[int | None], *, left_side: bool, **params: Any) -> Any:
    (a, b), (a_dim, b_dim) = args, dims
    if a_dim is None:
        assert b_dim is not None
        # many right sides of one matrix are one right side with more columns, or rows
        rank = len(shape_of(b))
        at = rank - 1 if left_side else rank - 2
        moved = moveaxis(b, b_dim, at)
        shape = shape_of(moved)
        if left_side:
            merged = (*shape[:-2], shape[-2] * shape[-1])
        else:
            merged = (*shape[:-3], shape[-3] * shape[-2], shape[-1])
        out = triangular_solve_p.bind(a, reshape(moved, merged), left_side=left_side, **params)
        return reshape(out, shape), at
    axis = mapped_axis(args, dims)
    front = [bdim_at_front(x, d, *axis) for x, d in zip(args, dims, strict=True)]
    return triangular_solve_p.bind(*front, left_side=left_side, **params), 0


def _triangular_solve_lower(
    ctx: Any,
    avals: Any,
    out_avals: Any,
    a: str,
    b: str,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> str:
    matrix, right = avals
    if conjugate_a and not transpose_a and matrix.dtype.kind == "c":
        a = lowering_rules[conj_p](ctx, [matrix], [matrix], a, input_dtype=matrix.dtype)
        conjugate_a = False
    if not is_supported(matrix.dtype):
        op = "TRANSPOSE" if transpose_a else "NO_TRANSPOSE"
        flags = {"left_side": left_side, "lower": lower, "unit_diagonal": unit_diagonal}
        written = ", ".join(f"{name} = {str(on).lower()}" for name, on in flags.items())
        types = f"({mlir_type(matrix)}, {mlir_type(right)}) -> {mlir_type(right)}"
        attributes = f"{written}, transpose_a = #stablehlo<transpose {op}>"
        return str(ctx.emit(f'"stablehlo.triangular_solve"({a}, {b}) <{{{attributes}}}> : {types}'))
    options = ", ".join(
        [
            f"diag = {letter('U' if unit_diagonal else 'N')}",
            f"side = {letter('L' if left_side else 'R')}",
            f"trans_x = {letter('N' if not transpose_a else 'C' if conjugate_a else 'T')}",
            f"uplo = {letter('L' if lower else 'U')}",
        ]
    )
    operands = [(a, matrix), (b, right)]
    (out,) = lapack_call(ctx, "trsm", matrix.dtype, operands, [right], right.ndim - 2, options, {0: 1})
    return out


declare_lapack(
    triangular_solve_p,
    abstract=_triangular_solve_abstract,
    lower=_triangular_solve_lower,
    jvp=nary_jvp(triangular_solve_p, [_matrix_derivative, _right_derivative]),
    transpose=_triangular_solve_transpose,
)
batching_rules[triangular_solve_p] = _triangular_solve_batch


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """The x with ``op(a) @ x = b``, or ``x @ op(a) = b`` unless ``left_side``.

    Args:
      a: triangular matrices ``[..., m, m]``; only the triangle is read.
      b: ``[..., m, k]`` (``[..., k, m]`` unless ``left_side``), or vectors ``[..., m]``.
      lower: which triangle.
      transpose_a, conjugate_a: what ``op`` does.
      unit_diagonal: the diagonal is ones, whatever ``a`` has there.

    Raises TypeError if the dtypes differ or are not inexact, ValueError if the shapes do not fit.
    """
    vectors = get_aval(b).ndim == get_aval(a).ndim - 1
    if vectors:
        b = as_column(b) if left_side else as_row(b)
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a) and dtype_of(a).kind == "c",
        unit_diagonal=bool(unit_diagonal),
    )
    return squeeze(out, (-1 if left_side else -2,)) if vectors else out
