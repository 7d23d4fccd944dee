"""``eig``: eigenvalues and eigenvectors of any square matrices."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.lowering.text import mlir_type
from minijax.ops.convert import convert
from minijax.ops.elementwise import (
    abs_p,
    add_p,
    complex_p,
    conj,
    div_p,
    eq_p,
    imag,
    integer_pow,
    mul_p,
    neg_p,
    real,
    sub_p,
)
from minijax.ops.elementwise_numpy import complex_dtype_of
from minijax.ops.linalg.lapack import INT32, check_matrices, declare_lapack, lapack_call, letter, or_nan, succeeded
from minijax.ops.linalg.lu import lu_p, lu_solve
from minijax.ops.linalg.parts import as_column, as_row, diagonal, dtype_of, eye, matmul, swapped, to_rank
from minijax.ops.reduce import argmax_p, reduce_sum_p
from minijax.ops.shape import broadcasted_iota, shape_of


class EigImplementation(enum.Enum):
    """Whose routine finds eigenvalues: on the CPU, LAPACK's."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


def _eig_abstract(
    x: ShapedArray,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
    implementation: Any,
) -> list[ShapedArray]:
    check_matrices("eig", x, square=True)
    dtype = complex_dtype_of(x.dtype)
    vectors = ShapedArray(x.shape, dtype)
    return [
        ShapedArray(x.shape[:-1], dtype),
        *[vectors] * (bool(compute_left_eigenvectors) + bool(compute_right_eigenvectors)),
    ]


def _eig_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
    implementation: Any,
) -> Any:
    """``dw = diag(V^-1 dA V)``; ``dV = V (F * V^-1 dA V)``, kept to vectors of norm 1 whose largest part is real."""
    (x,), (t,) = primals, tangents
    vectors = compute_left_eigenvectors or compute_right_eigenvectors
    if compute_left_eigenvectors or (vectors and not enable_eigvec_derivs):
        raise NotImplementedError(
            "The derivatives of non-symmetric eigenvectors are not supported by default: only first-order derivatives "
            "of eigenvalues are. Pass enable_eigvec_derivs=True, for right eigenvectors, if their phase may be chosen."
        )
    w, v = eig_p.bind(
        x,
        compute_left_eigenvectors=False,
        compute_right_eigenvectors=True,
        enable_eigvec_derivs=enable_eigvec_derivs,
        implementation=implementation,
    )
    dtype, rank = dtype_of(v), len(shape_of(v))
    factors, _, permutation = lu_p.bind(v)
    solved = lu_solve(factors, permutation, convert(t, dtype))
    if not vectors:
        inside = mul_p.bind(solved, swapped(v))
        return [w], [reduce_sum_p.bind(inside, axes=(rank - 1,), out_sharding=None)]
    unit = eye(shape_of(v)[-1], dtype)
    row = as_row(w)
    unit = to_rank(unit, rank)
    apart = sub_p.bind(add_p.bind(unit, row), as_column(w))
    factors = sub_p.bind(integer_pow(apart, -1), unit)
    inside = matmul(solved, v)
    moved = matmul(v, mul_p.bind(factors, inside))
    largest = argmax_p.bind(abs_p.bind(v), axes=(rank - 2,), index_dtype=INT32)
    mask = convert(eq_p.bind(broadcasted_iota(INT32, shape_of(v), rank - 2), as_row(largest)), dtype)

    def along(y: Any) -> Any:
        return reduce_sum_p.bind(y, axes=(rank - 2,), out_sharding=None)

    shrinking = neg_p.bind(real(along(mul_p.bind(conj(v), moved))))
    turning = div_p.bind(neg_p.bind(imag(along(mul_p.bind(mask, moved)))), real(along(mul_p.bind(mask, v))))
    kept = mul_p.bind(v, as_row(complex_p.bind(shrinking, turning)))
    return [w, v], [diagonal(inside), add_p.bind(moved, kept)]


def _eig_lower(
    ctx: Any,
    avals: Any,
    out_avals: Any,
    x: str,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
    implementation: Any,
) -> list[str]:
    (aval,), w_aval = avals, out_avals[0]
    lead, batch = aval.shape[:-2], aval.ndim - 2
    left, right = ("V" if wanted else "N" for wanted in (compute_left_eigenvectors, compute_right_eigenvectors))
    options = f"compute_left = {letter(left)}, compute_right = {letter(right)}"
    vectors, info = ShapedArray(aval.shape, w_aval.dtype), ShapedArray(lead, INT32)
    is_complex = dtypes.is_complex(aval.dtype)
    values = [w_aval] if is_complex else [ShapedArray(w_aval.shape, aval.dtype)] * 2
    types = [*values, vectors, vectors, info]
    found = lapack_call(ctx, "geev", aval.dtype, [(x, aval)], types, batch, options)
    *parts, v_left, v_right, status = found
    w = parts[0]
    if not is_complex:
        ty = mlir_type(values[0])
        w = ctx.emit(f'"stablehlo.complex"({", ".join(parts)}) : ({ty}, {ty}) -> {mlir_type(w_aval)}')
    ok = succeeded(ctx, status, lead)
    outs = [or_nan(ctx, ok, w, w_aval, batch)]
    if compute_left_eigenvectors:
        outs.append(or_nan(ctx, ok, v_left, vectors, batch))
    if compute_right_eigenvectors:
        outs.append(or_nan(ctx, ok, v_right, vectors, batch))
    return outs


eig_p = declare_lapack(
    Primitive("eig", multiple_results=True), abstract=_eig_abstract, lower=_eig_lower, jvp=_eig_jvp
)


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:
    """The eigenvalues ``w[..., n]`` of matrices ``x[..., n, n]``, and left and right eigenvectors as columns.

    All are complex. Eigenvalues are differentiable; right eigenvectors, with ``enable_eigvec_derivs``, as those of norm
    1 whose largest component is real. TypeError if ``x`` is not inexact, ValueError if it is not square.
    """
    if use_magma is not None:
        implementation = EigImplementation.MAGMA if use_magma else EigImplementation.CUSOLVER
    found: list[Any] = eig_p.bind(
        x,
        compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors),
        enable_eigvec_derivs=bool(enable_eigvec_derivs),
        implementation=implementation,
    )
    return found
