"""``lu``: Gaussian elimination with partial pivoting; and ``lu_pivots_to_permutation``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import observe
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, division, dtype_name
from minijax.core.primitive import Primitive
from minijax.core.structural import full, zero_tangent
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.lowering.text import mlir_type
from minijax.ops.call import named_call
from minijax.ops.declare import declare
from minijax.ops.dynamic import dynamic_index_in_dim, dynamic_update_index_in_dim, wrap_negative
from minijax.ops.elementwise import add_p, lt_p
from minijax.ops.index import GatherDimensionNumbers
from minijax.ops.linalg.lapack import (
    INT32,
    batch_in_front,
    check_matrices,
    declare_lapack,
    lapack_call,
    or_nan,
    succeeded,
)
from minijax.ops.linalg.parts import dtype_of, eye, matmul, over_batch, taken, tril, triu
from minijax.ops.linalg.triangular_solve import triangular_solve_p
from minijax.ops.nary import NO_DERIVATIVE
from minijax.ops.shape import broadcasted_iota, expand_dims, iota, shape_of, squeeze
from minijax.ops.slicing import pad, slice
from minijax.ops.sort import sort
from minijax.ops.while_loop import while_p

# -------------------------------------------------------------------------------- permutations


def _permutation_abstract(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    if pivots.ndim < 1:
        raise TypeError(f"lu_pivots_to_permutation takes vectors of pivots, got shape {pivots.shape}")
    if permutation_size < pivots.shape[-1]:
        raise ValueError(
            f"Output permutation size {permutation_size} has to exceed the trailing dimension of the pivots, whose "
            f"shape is {pivots.shape}"
        )
    if pivots.dtype != INT32:
        raise TypeError(
            f"lu_pivots_to_permutation does not accept dtype {dtype_name(pivots.dtype)}: pivots are int32, as lu gives "
            "them."
        )
    return ShapedArray((*pivots.shape[:-1], permutation_size), INT32)


def _permutation_numpy(pivots: Any, permutation_size: int) -> Any:
    count = int(np.prod(pivots.shape[:-1]))
    flat = np.asarray(pivots).reshape(count, pivots.shape[-1])
    out = np.tile(np.arange(permutation_size, dtype=np.int32), (count, 1))
    each = np.arange(count)
    for i, others in enumerate(flat.T):
        first, second = out[each, i].copy(), out[each, others].copy()
        out[each, i], out[each, others] = second, first
    return out.reshape(*pivots.shape[:-1], permutation_size)


def _swaps(pivots: Any, permutation: Any) -> list[Any]:
    """The vector ``permutation``, of which each place is swapped with its pivot, one after the other."""
    scalar, places = ShapedArray((), INT32), get_aval(permutation)
    count = shape_of(pivots)[0]

    def more(i: Any, permutation: Any) -> list[Any]:
        return [lt_p.bind(i, np.int32(count))]

    def swap(pivots: Any, i: Any, permutation: Any) -> list[Any]:
        j = dynamic_index_in_dim(pivots, i, 0, keepdims=False)
        here, there = (dynamic_index_in_dim(permutation, k, 0, keepdims=False) for k in (i, j))
        moved = dynamic_update_index_in_dim(permutation, there, i, 0)
        return [add_p.bind(i, np.int32(1)), dynamic_update_index_in_dim(moved, here, j, 0)]

    _, permutation = while_p.bind(
        pivots,
        full((), 0, INT32),
        permutation,
        cond_jaxpr=stage(more, [scalar, places], "more"),
        cond_nconsts=0,
        body_jaxpr=stage(swap, [get_aval(pivots).update(weak_type=False), scalar, places], "swap"),
        body_nconsts=1,
    )
    return [permutation]


@functools.lru_cache(maxsize=256)
def _permutation_program(pivots: ShapedArray, permutation_size: int) -> ClosedJaxpr:
    shape, sharding = (*pivots.shape[:-1], permutation_size), division(pivots)

    def permutations(pivots: Any) -> list[Any]:
        places = broadcasted_iota(INT32, shape, len(shape) - 1, out_sharding=sharding)
        return over_batch(_swaps, [pivots, places], [1, 1])

    with observe.unobserved():
        return stage(permutations, [pivots], "lu_pivots_to_permutation")


def permutation_text(ctx: Any, pivots: str, aval: ShapedArray, permutation_size: int) -> str:
    """Write the permutation of ``permutation_size`` places for ``pivots``, of type ``aval``; its name."""
    if not aval.size:
        out = aval.update(shape=(*aval.shape[:-1], permutation_size))
        return str(ctx.emit(f"stablehlo.iota dim = {out.ndim - 1} : {mlir_type(out)}"))
    closed = _permutation_program(aval, permutation_size)
    symbol, (out,) = ctx.module.function(closed, "lu_pivots_to_permutation"), closed.out_avals
    return str(ctx.emit(f"func.call @{symbol}({pivots}) : ({mlir_type(aval)}) -> {mlir_type(out)}"))


def _permutation_lower(ctx: Any, avals: Any, out_avals: Any, pivots: str, *, permutation_size: int) -> str:
    return permutation_text(ctx, pivots, avals[0], permutation_size)


lu_pivots_to_permutation_p = Primitive("lu_pivots_to_permutation")
declare(
    lu_pivots_to_permutation_p,
    abstract=_permutation_abstract,
    numpy=_permutation_numpy,
    lower=_permutation_lower,
    batch=batch_in_front(lu_pivots_to_permutation_p),
    derivative=NO_DERIVATIVE,
)


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The permutations that ``lu``'s pivots ``[..., n]`` make: ``x[permutation]`` are the rows of x as swapped.

    Returns int32 ``[..., permutation_size]``. ValueError if pivots are not int32, or more than places.
    """
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=int(permutation_size))


# -------------------------------------------------------------------------------- lu


def _lu_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrices("lu", x)
    *lead, m, n = x.shape
    return [
        ShapedArray(x.shape, x.dtype),
        ShapedArray((*lead, min(m, n)), INT32),
        ShapedArray((*lead, m), INT32),
    ]


def _padded(x: Any, *config: tuple[int, int, int]) -> Any:
    return pad(x, full((), 0, dtype_of(x)), config)


def _lu_tangent(a: Any, t: Any, factors: Any, permutation: Any) -> list[Any]:
    """``L tril(L^-1 P dA U^-1, -1) + triu(L^-1 P dA U^-1) U``, with L and U extended to square matrices."""
    m, n = shape_of(a)
    k, dtype = min(m, n), dtype_of(a)
    left = _padded(tril(slice(factors, (0, 0), (m, k)) if k < n else factors, -1), (0, 0, 0), (0, m - k, 0))
    left = add_p.bind(left, eye(m, dtype))
    corner = _padded(eye(n - k, dtype), (k, 0, 0), (k, 0, 0))
    right = _padded(triu(slice(factors, (0, 0), (k, n)) if k < m else factors), (0, n - k, 0), (0, 0, 0))
    right = add_p.bind(right, corner)
    places = expand_dims(wrap_negative(permutation, m), (1,))
    rows = taken(t, places, GatherDimensionNumbers((1,), (0,), (0,)), (1, n))
    params = {"transpose_a": False, "conjugate_a": False}
    inner = triangular_solve_p.bind(left, rows, left_side=True, lower=True, unit_diagonal=True, **params)
    both = triangular_solve_p.bind(right, inner, left_side=False, lower=False, unit_diagonal=False, **params)
    of_left = matmul(left, tril(both, -1), typed=True)
    return [add_p.bind(of_left, matmul(triu(both), right, typed=True))]


def _lu_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (a,), (t,) = primals, tangents
    outs = lu_p.bind(a)
    factors, pivots, permutation = outs
    (moved,) = over_batch(_lu_tangent, [a, t, factors, permutation], [2, 2, 2, 1])
    return outs, [moved, zero_tangent(pivots), zero_tangent(permutation)]


def _lu_lower(ctx: Any, avals: Any, out_avals: Any, x: str) -> list[str]:
    (aval,), (_, pivots_aval, permutation_aval) = avals, out_avals
    lead = aval.shape[:-2]
    types = [aval, pivots_aval, ShapedArray(lead, INT32)]
    factors, pivots, info = lapack_call(ctx, "getrf", aval.dtype, [(x, aval)], types, len(lead), "", {0: 0})
    ty = mlir_type(pivots_aval)
    pivots = ctx.emit(f"stablehlo.subtract {pivots}, {ctx.full(1, pivots_aval)} : {ty}")  # LAPACK counts from 1
    ok = succeeded(ctx, info, lead, at_least=True)
    factors = or_nan(ctx, ok, factors, aval, len(lead))
    return [factors, pivots, permutation_text(ctx, pivots, pivots_aval, permutation_aval.shape[-1])]


lu_p = declare_lapack(Primitive("lu", multiple_results=True), abstract=_lu_abstract, lower=_lu_lower, jvp=_lu_jvp)


def lu(x: Any) -> list[Any]:
    """The factors of matrices ``x[..., m, n]`` with their rows permuted: ``P x = L U``.

    Returns a list: L below the diagonal (its own diagonal is ones) and U from it up, in one array of x's shape; the
    pivots, int32 ``[..., min(m, n)]``, row i having been swapped with row ``pivots[i]``; and the permutation that
    they make, int32 ``[..., m]``. TypeError if ``x`` is not inexact.
    """
    found: list[Any] = lu_p.bind(x)
    return found


# -------------------------------------------------------------------------------- equations


def _lu_solve(factors: Any, permutation: Any, b: Any, trans: int) -> list[Any]:
    is_vector = len(shape_of(b)) == 1
    x = expand_dims(b, (1,)) if is_vector else b
    rows, columns = shape_of(x)
    numbers, sizes = GatherDimensionNumbers((1,), (0,), (0,)), (1, columns)

    def solved(x: Any, lower: bool, transpose_a: bool) -> Any:
        return triangular_solve_p.bind(
            factors,
            x,
            left_side=True,
            lower=lower,
            transpose_a=transpose_a,
            conjugate_a=trans == 2,
            unit_diagonal=lower,
        )

    if trans == 0:
        x = taken(x, expand_dims(wrap_negative(permutation, rows), (1,)), numbers, sizes)
        x = solved(solved(x, True, False), False, False)
    else:
        x = solved(solved(x, False, True), True, True)
        _, back = sort([permutation, iota(INT32, rows)], num_keys=1)
        x = taken(x, expand_dims(wrap_negative(back, rows), (1,)), numbers, sizes)
    return [squeeze(x, (1,)) if is_vector else x]


def _lu_solve_batched(factors: Any, permutation: Any, b: Any, trans: int) -> list[Any]:
    rank = len(shape_of(b)) - (len(shape_of(factors)) - 2)
    return over_batch(functools.partial(_lu_solve, trans=trans), [factors, permutation, b], [2, 1, rank])


def lu_solve(factors: Any, permutation: Any, b: Any, trans: int = 0) -> Any:
    """The x with ``op(A) x = b``, for matrices A of which ``lu`` gave factors and permutation.

    ``b`` has the batch dimensions of ``factors``, then one (vectors) or two. ``op`` is nothing for ``trans`` 0,
    transposes for 1, and conjugates too for 2. It is a call of a function ``_lu_solve``, as in JAX.
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    (out,) = named_call("_lu_solve", _lu_solve_batched, [factors, permutation, b], (trans,))
    return out
