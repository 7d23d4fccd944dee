"""``cholesky``: the lower triangle L with positive diagonal of which a positive definite matrix is ``L L*``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.ops.elementwise import add_p, const, div_p
from minijax.ops.linalg.lapack import INT32, check_matrices, declare_lapack, lapack_call, letter, or_nan, succeeded
from minijax.ops.linalg.parts import dtype_of, eye, matmul, symmetrized, to_rank, tril
from minijax.ops.linalg.triangular_solve import triangular_solve_p
from minijax.ops.shape import shape_of


def _cholesky_abstract(x: ShapedArray) -> ShapedArray:
    check_matrices("cholesky", x, square=True)
    return ShapedArray(x.shape, x.dtype)


def _cholesky_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """``dL = L phi(L^-1 dA L^-*)``, phi taking the lower triangle and half of the diagonal (Murray 2016)."""
    (x,), (t,) = primals, tangents
    factor = tril(cholesky_p.bind(x))
    right = triangular_solve_p.bind(
        factor,
        t,
        left_side=False,
        lower=True,
        transpose_a=True,
        conjugate_a=dtype_of(x).kind == "c",
        unit_diagonal=False,
    )
    both = triangular_solve_p.bind(
        factor, right, left_side=True, lower=True, transpose_a=False, conjugate_a=False, unit_diagonal=False
    )
    lower = tril(both)
    unit = eye(shape_of(x)[-1], dtype_of(x))
    twice = to_rank(add_p.bind(const(unit, 1), unit), len(shape_of(x)))
    return factor, matmul(factor, div_p.bind(lower, twice))


def _cholesky_lower(ctx: Any, avals: Any, out_avals: Any, x: str) -> str:
    (aval,) = avals
    lead = aval.shape[:-2]
    types = [aval, ShapedArray(lead, INT32)]
    options = f"uplo = {letter('L')}"
    factor, info = lapack_call(ctx, "potrf", aval.dtype, [(x, aval)], types, len(lead), options, {0: 0})
    return or_nan(ctx, succeeded(ctx, info, lead), factor, aval, len(lead))


cholesky_p = declare_lapack(
    Primitive("cholesky"), abstract=_cholesky_abstract, lower=_cholesky_lower, jvp=_cholesky_jvp
)
cholesky_p.of_hermitian = cholesky_p.gives_triangle = True


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The Cholesky factors, lower triangles, of positive definite matrices ``x[..., n, n]``.

    ``symmetrize_input``: of the mean of ``x`` and its adjoint; else only the lower triangle is read. What is not
    positive definite gives nan. TypeError if ``x`` is not inexact, ValueError if it is not square.
    """
    return tril(cholesky_p.bind(symmetrized(x) if symmetrize_input else x))
