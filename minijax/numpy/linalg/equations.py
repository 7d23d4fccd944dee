"""Linear equations, how well they are conditioned, and determinants."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.batching import vmap
from minijax.api.custom_jvp import custom_jvp
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import whole_sharding
from minijax.core.named import NamedTuple
from minijax.lax import linalg
from minijax.lax.solves import linear_solve
from minijax.numpy import creation, linear, manipulation, reductions, ufuncs
from minijax.numpy.linalg.decompositions import HIGHEST, svd
from minijax.numpy.linalg.norms import norm
from minijax.numpy.mathematics import remainder, where
from minijax.numpy.promotion import asarray, check_array_like, ensure, promote, promote_dtypes, typed_scalar
from minijax.numpy.ufuncs import INEXACT, isnan
from minijax.ops.linalg.lu import lu_solve
from minijax.ops.reduce import reduce_sum_p

__all__ = [
    "SlogdetResult",
    "cond",
    "det",
    "inv",
    "lstsq",
    "matrix_power",
    "slogdet",
    "solve",
    "tensorinv",
    "tensorsolve",
]


class SlogdetResult(NamedTuple):
    """What ``slogdet`` gives."""

    sign: Any
    logabsdet: Any


# -------------------------------------------------------------------------------- equations


def promote_inexact(name: str, *args: Any) -> list[Any]:
    """Arrays of one inexact type, their ranks as they are."""
    check_array_like(name, *args)
    return [promote(name, x, to=INEXACT)[0] for x in promote_dtypes(*map(asarray, args))]


def matrix_times_vector(a: Any, x: Any) -> Any:
    """The matrices ``a`` times the vectors ``x``."""
    n, batch = a.ndim, tuple(range(a.ndim - 2))
    return lax.dot_general(a, x, (((n - 1,), (x.ndim - 1,)), (batch, batch)), precision=HIGHEST)


def _transposed_product(a: Any, y: Any) -> Any:
    """The transposed matrices ``a`` times the vectors ``y``; the sum over no axes is JAX's, and is nothing to XLA."""
    n, batch = a.ndim, tuple(range(a.ndim - 2))
    found = lax.dot_general(y, a, (((y.ndim - 1,), (n - 2,)), (batch, batch)), precision=HIGHEST)
    aval = get_aval(found)
    return reduce_sum_p.bind(found, axes=(), out_sharding=whole_sharding(aval, aval.ndim))


def _solved(a: Any, b: Any) -> Any:
    """The x with ``a @ x = b`` for one matrix a, and b a vector or a matrix."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or b.shape[0] != a.shape[-1]:
        raise ValueError(
            f"solve takes a[..., m, m] and b[..., m, k] or b[m], got shapes {a.shape} and {b.shape}"
        )
    factors, _, permutation = linalg.lu(lax.stop_gradient(a))
    solve_vector = functools.partial(
        linear_solve,
        lambda x: matrix_times_vector(a, x),
        lambda y: _transposed_product(a, y),
        solve=lambda _, x: lu_solve(factors, permutation, x, 0),
        transpose_solve=lambda _, x: lu_solve(factors, permutation, x, 1),
    )
    return solve_vector(b) if b.ndim == 1 else vmap(solve_vector, 1, 1)(b)


def over_leading(fun: Callable[..., Any], args: Sequence[Any], ranks: Sequence[int]) -> Any:
    """``fun``, of arrays of these ranks, mapped over the dimensions in front, which broadcast."""
    leads = [x.shape[: x.ndim - rank] for x, rank in zip(args, ranks, strict=True)]
    depth = max(map(len, leads))
    sizes = lax.broadcast_shapes(*leads)
    filled = [(1,) * (depth - len(lead)) + lead for lead in leads]
    squeezed = [
        lax.squeeze(x, tuple(i for i, n in enumerate(lead) if n == 1)) for x, lead in zip(args, leads, strict=True)
    ]
    expand = []
    for axis in reversed(range(depth)):
        in_axes = tuple(None if lead[axis] == 1 else 0 for lead in filled)
        if any(a is not None for a in in_axes):
            fun = vmap(fun, in_axes)
        else:
            expand.append(axis)
    out = fun(*squeezed)
    assert len(sizes) == depth
    return lax.expand_dims(out, tuple(sorted(expand))) if expand else out


@inner_jit(compiled=True)
def solve(a: Any, b: Any) -> Any:
    """The x with ``a @ x = b``, by Gaussian elimination.

    Args:
      a: matrices ``[..., m, m]``.
      b: ``[..., m, k]``, or one vector ``[m]``. Other dimensions broadcast.

    Raises ValueError if the shapes do not fit.
    """
    a, b = promote_inexact("jnp.linalg.solve", a, b)
    if a.ndim < 2:
        raise ValueError(f"left hand array must be at least two dimensional; got shape {a.shape}")
    if b.ndim == 0:
        raise ValueError("solve: b must be at least one dimensional, got a scalar. Write a / b for numbers.")
    return over_leading(_solved, (a, b), (2, min(b.ndim, 2)))


@inner_jit(compiled=True)
def inv(a: Any) -> Any:
    """The inverses of matrices ``a[..., n, n]``. ValueError if they are not square."""
    a = ensure("jnp.linalg.inv", a)
    _check_square("inv", a)
    unit = creation.eye(a.shape[-1], dtype=a.dtype)
    return solve(a, lax.broadcast(unit, a.shape[:-2]))


def _check_square(name: str, a: Any) -> None:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Argument to {name} must have shape [..., n, n], got {a.shape}.")


@inner_jit(static_argnames=("n",), compiled=True)
def matrix_power(a: Any, n: int) -> Any:
    """The product of ``n`` matrices ``a``; of their inverses if ``n`` is negative.

    TypeError if ``n`` is no integer or ``a`` is not square.
    """
    a = ensure("jnp.linalg.matrix_power", a)
    if a.ndim < 2:
        raise TypeError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    if a.shape[-2] != a.shape[-1]:
        raise TypeError(f"Last 2 dimensions of the array must be square, got shape {a.shape}")
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError(f"exponent must be an integer, got {n}") from error
    if n == 0:
        return manipulation.broadcast_to(creation.eye(a.shape[-2], dtype=a.dtype), a.shape)
    if n < 0:
        a, n = inv(a), -n
    if n == 3:
        return linear.matmul(linear.matmul(a, a), a)
    power = result = None
    while n > 0:
        power = a if power is None else linear.matmul(power, power)
        n, bit = divmod(n, 2)
        if bit:
            result = power if result is None else linear.matmul(result, power)
    return result


@inner_jit(static_argnames=("p",), compiled=True)
def cond(x: Any, p: Any = None) -> Any:
    """The condition of matrices ``x[..., m, n]``: how much larger relative errors of solutions are than of operands.

    ``p``: None or 2, the largest singular value by the smallest; -2, the inverse; else the norm of that order of ``x``
    times that of its inverse.
    """
    x = ensure("jnp.linalg.cond", x)
    if x.ndim < 2:
        raise ValueError(f"jnp.linalg.cond: input array must be at least 2D; got x.shape={x.shape}")
    if not x.size:
        raise ValueError(f"jnp.linalg.cond: input array must not be empty; got x.shape={x.shape}")
    if p is None or p == 2:
        s = svd(x, compute_uv=False)
        return s[..., 0] / s[..., -1]
    if p == -2:
        s = svd(x, compute_uv=False)
        ratio = s[..., -1] / s[..., 0]
    else:
        if x.shape[-2] != x.shape[-1]:
            raise ValueError(f"jnp.linalg.cond: for p={p!r}, matrices must be square; got x.shape={x.shape}")
        ratio = norm(x, ord=p, axis=(-2, -1)) * norm(inv(x), ord=p, axis=(-2, -1))
    # nan if the matrix has one, not because infinity met 0
    unknown = isnan(ratio)
    return where(unknown & ~reductions.any(isnan(x), axis=(-2, -1)), math.inf, ratio)


def lstsq(a: Any, b: Any, rcond: Any = None, *, numpy_resid: bool = False) -> tuple[Any, Any, Any, Any]:
    """The x for which the norm of ``a @ x - b`` is least, of least norm among those.

    Args:
      a: a matrix ``[m, n]``.
      b: ``[m]`` or ``[m, k]``.
      rcond: singular values below so much of the largest are taken for 0.
      numpy_resid: no residuals if the rank is not n, as in NumPy, which needs values.

    Returns ``(x, residuals, rank, singular values)``, residuals being sums of squares. TypeError or ValueError if the
    shapes do not fit.
    """
    if numpy_resid:
        return _least_squares(a, b, rcond, True)
    found: tuple[Any, Any, Any, Any] = _lstsq(a, b, rcond)
    return found


@inner_jit(compiled=True)
def _lstsq(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    return _least_squares(a, b, rcond, False)


def _least_squares(a: Any, b: Any, rcond: Any, numpy_resid: bool) -> tuple[Any, Any, Any, Any]:
    a, b = promote_inexact("jnp.linalg.lstsq", a, b)
    if a.shape[:1] != b.shape[:1]:
        raise ValueError(f"Leading dimensions of input arrays must match, got shapes {a.shape} and {b.shape}")
    if a.ndim != 2:
        raise TypeError(f"{a.ndim}-dimensional array given. Array must be two-dimensional")
    is_vector = b.ndim == 1
    if is_vector:
        b = manipulation.expand_dims(b, 1)
    if b.ndim != 2:
        raise TypeError(f"{b.ndim}-dimensional array given. Array must be one or two-dimensional")
    if a.size == 0:
        s, rank = creation.empty(0, a.dtype), creation.array(0, dtype=int)
        x = creation.empty((a.shape[1], *b.shape[1:]), a.dtype)
    else:
        x, rank, s = _by_singular_values(a, b, rcond)
    if numpy_resid and (a.shape[0] <= a.shape[1] or bool(rank < a.shape[1])):
        resid = creation.asarray([], dtype=a.dtype)
    else:
        resid = norm(b - linear.matmul(a, x, precision=HIGHEST), axis=0) ** 2
    return manipulation.ravel(x) if is_vector else x, resid, rank, s


def _by_singular_values(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any]:
    """The least squares solution, the rank and the singular values."""
    eps = dtypes.finfo(a.dtype).eps
    limit = eps * max(a.shape) if rcond is None else where(rcond < 0, eps, rcond)
    u, s, vt = svd(a, full_matrices=False)
    positive = s > 0
    large = positive & (s >= creation.array(limit, dtype=s.dtype) * s[0])
    rank = reductions.sum(large)
    safe = where(large, s, 1).astype(a.dtype)
    inverse = manipulation.expand_dims(where(large, 1 / safe, 0), 1)
    inside = linear.matmul(_turned(u), b, precision=HIGHEST)
    return linear.matmul(_turned(vt), inverse * inside, precision=HIGHEST), rank, s


def _turned(x: Any) -> Any:
    """The adjoint of the matrix ``x``, conjugated first."""
    return manipulation.matrix_transpose(lax.conj(x) if dtypes.is_complex(x.dtype) else x)


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of ``a`` as a map from its last dimensions to its first ``ind``.

    ValueError if ``ind`` is not positive, or the sizes of both are not equal.
    """
    a = ensure("jnp.linalg.tensorinv", a)
    ind = operator.index(ind)
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got ind={ind}")
    first, last = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise ValueError(f"product of dimensions {first} and {last} must be equal: a is {a.shape}, ind {ind}")
    size = math.prod(first)
    return inv(lax.reshape(a, (size, size))).reshape((*last, *first))


def tensorsolve(a: Any, b: Any, axes: tuple[int, ...] | None = None) -> Any:
    """The x with ``tensordot(a, x, x.ndim) = b``, after ``axes`` of ``a`` are moved to the end.

    ValueError if the shapes do not fit.
    """
    a, b = ensure("jnp.linalg.tensorsolve", a, b)
    if axes is not None:
        a = manipulation.moveaxis(a, axes, tuple(range(a.ndim - len(axes), a.ndim)))
    out = a.shape[b.ndim :]
    if a.shape[: b.ndim] != b.shape or math.prod(out) != b.size:
        raise ValueError(
            f"tensorsolve takes a of b's shape and as many elements more: got shapes {a.shape} and {b.shape}"
        )
    return solve(lax.reshape(a, (b.size, b.size)), manipulation.ravel(b)).reshape(out)


# -------------------------------------------------------------------------------- determinants


@inner_jit(static_argnames=("method",), compiled=True)
def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """The determinant of matrices ``a[..., n, n]`` as its sign and the logarithm of its absolute value.

    ``method``: 'lu' (the default) or 'qr'. ValueError for another, and if ``a`` is not square.
    """
    (a,) = promote("jnp.linalg.slogdet", a, to=INEXACT)
    _check_square("slogdet", a)
    if method is not None and method not in ("lu", "qr"):
        raise ValueError(f"Unrecognized method '{method}'. Expected 'lu' or 'qr'")
    if method is None and 1 <= a.shape[-1] <= 2:
        return SlogdetResult(*_slogdet_small(a))
    return SlogdetResult(*(_slogdet_qr(a) if method == "qr" else _slogdet_lu(a)))


def _typed(x: Any, dtype: np.dtype) -> Any:
    return creation.array(x, dtype=dtype)


def _corners(a: Any) -> list[Any]:
    """The elements of matrices of 1 x 1 or 2 x 2, row by row."""
    if a.shape[-1] == 1:
        return [lax.squeeze(a, (a.ndim - 2, a.ndim - 1))]
    return [a[..., i, j] for i in range(2) for j in range(2)]


def _small_determinant(elements: Sequence[Any]) -> Any:
    if len(elements) == 1:
        return elements[0]
    p, q, r, s = elements
    return p * s - q * r


@custom_jvp
def _slogdet_small(a: Any) -> tuple[Any, Any]:
    value = _small_determinant(_corners(a))
    size = ufuncs.absolute(value)
    return ufuncs.sign(value), ufuncs.log(size)


@_slogdet_small.defjvp
def _slogdet_small_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    sign, ans = _slogdet_small(a)
    if a.shape[-1] == 1:
        (change,), (value,) = _corners(t), _corners(a)
    else:
        p, q, r, s = _corners(a)
        value = _small_determinant((p, q, r, s))
        dp, dq, dr, ds = _corners(t)
        change = dp * s - dq * r - dr * q + ds * p
    return _slogdet_tangents(sign, ans, change / value)


@custom_jvp
def _slogdet_lu(a: Any) -> tuple[Any, Any]:
    dtype = a.dtype
    factors, pivots, _ = linalg.lu(a)
    diagonal = creation.diagonal(factors, axis1=-2, axis2=-1)
    is_zero = reductions.any(diagonal == typed_scalar(0, dtype), axis=-1)
    swaps = _swaps(pivots)
    if dtypes.is_complex(dtype):
        sign = reductions.prod(diagonal / ufuncs.absolute(diagonal).astype(dtype), axis=-1)
    else:
        sign = typed_scalar(1, dtype)
        swaps = swaps + reductions.count_nonzero(diagonal < 0, axis=-1)
    sign = where(is_zero, typed_scalar(0, dtype), sign * _typed(-2 * remainder(swaps, 2) + 1, dtype))
    total = reductions.sum(ufuncs.log(ufuncs.absolute(diagonal)).astype(dtype), axis=-1)
    return sign, ufuncs.real(where(is_zero, typed_scalar(-np.inf, dtype), total))


def _swaps(pivots: Any) -> Any:
    """How many rows were swapped with another."""
    places = lax.expand_dims(creation.arange(pivots.shape[-1]), tuple(range(pivots.ndim - 1)))
    return reductions.count_nonzero(pivots != places, axis=-1)


@custom_jvp
def _slogdet_qr(a: Any) -> tuple[Any, Any]:
    if dtypes.is_complex(a.dtype):
        raise NotImplementedError("slogdet method='qr' not implemented for complex inputs: use 'lu'.")
    n = a.shape[-1]
    packed, taus = linalg.geqrf_p.bind(a)
    diagonal = creation.diagonal(packed, axis1=-2, axis2=-1)
    total = reductions.sum(ufuncs.log(ufuncs.absolute(diagonal)), axis=-1)
    sign = reductions.prod(ufuncs.sign(diagonal), axis=-1)
    # each reflection that is one turns the sign
    is_reflection = lax.slice_in_dim(taus, 0, n - 1, axis=taus.ndim - 1) != 0
    return sign * reductions.prod(where(is_reflection, -1, 1), axis=-1).astype(sign.dtype), total


def _slogdet_jvp(primals: Any, tangents: Any) -> Any:
    """``d log det A = tr(A^-1 dA)``."""
    (a,), (t,) = primals, tangents
    sign, ans = slogdet(a)
    return _slogdet_tangents(sign, ans, creation.trace(solve(a, t), axis1=-1, axis2=-2))


def _slogdet_tangents(sign: Any, ans: Any, moved: Any) -> Any:
    """The results and their tangents, ``moved`` being that of the complex logarithm."""
    if dtypes.is_complex(sign.dtype):
        turning = (moved - ufuncs.real(moved).astype(moved.dtype)) * sign
        return (sign, ans), (turning, ufuncs.real(moved))
    return (sign, ans), (creation.zeros_like(sign), moved)


for _method in (_slogdet_lu, _slogdet_qr):
    _method.defjvp(_slogdet_jvp)


@inner_jit(compiled=True)
def det(a: Any) -> Any:
    """The determinants of matrices ``a[..., n, n]``. ValueError if they are not square."""
    (a,) = promote("jnp.linalg.det", a, to=INEXACT)
    _check_square("det", a)
    if a.shape[-1] == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    if a.shape[-1] == 3:
        # Sarrus' rule
        return (
            a[..., 0, 0] * a[..., 1, 1] * a[..., 2, 2]
            + a[..., 0, 1] * a[..., 1, 2] * a[..., 2, 0]
            + a[..., 0, 2] * a[..., 1, 0] * a[..., 2, 1]
            - a[..., 0, 2] * a[..., 1, 1] * a[..., 2, 0]
            - a[..., 0, 0] * a[..., 1, 2] * a[..., 2, 1]
            - a[..., 0, 1] * a[..., 1, 0] * a[..., 2, 2]
        )
    return _det(a)


@custom_jvp
def _det(a: Any) -> Any:
    sign, total = slogdet(a)
    return sign * ufuncs.exp(total).astype(sign.dtype)


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    """``d det A = tr(adj(A) dA)`` (Jacobi), which is defined where A is singular too."""
    (a,), (t,) = primals, tangents
    if a.shape[-1] < 2:
        return _det(a), creation.trace(t, axis1=-1, axis2=-2)
    value, moved = _cofactor_product(a, t)
    return value, creation.trace(moved, axis1=-1, axis2=-2)


def _cofactor_product(a: Any, t: Any) -> tuple[Any, Any]:
    """The determinant of ``a``, and ``det(A) A^-1 t`` for matrices of rank n - 1 at least.

    With ``A = P L U``, the determinant is multiplied in before the last step of back substitution divides by the last
    pivot, which may be 0; what has rank below n - 1 has no cofactors but 0.
    """
    factors, pivots, permutation = linalg.lu(a)
    dtype = a.dtype
    diagonal = creation.diagonal(factors, axis1=-2, axis2=-1)
    sign = (-2 * remainder(_swaps(pivots), 2) + 1).astype(dtype)
    partial = reductions.cumprod(diagonal, axis=-1) * manipulation.expand_dims(sign, -1)
    factors = factors.at[..., -1, -1].set(1.0 / partial[..., -2])
    ones = creation.ones(a.shape[:-1], dtype)
    probe = linalg.triangular_solve(factors, ones, left_side=True)
    bad = reductions.any(ufuncs.isnan(probe) | ufuncs.isinf(probe), axis=-1)
    bad = manipulation.tile(bad[..., None, None], (1,) * bad.ndim + a.shape[-2:])
    t = where(bad, creation.zeros_like(t), t)
    t = over_leading(lambda rows, places: rows[places, :], (t, permutation), (2, 1))
    t = linalg.triangular_solve(factors, t, left_side=True, lower=True, unit_diagonal=True)
    scaled = t[..., :-1, :] * partial[..., -1, None, None]
    t = manipulation.concatenate((scaled, t[..., -1:, :]), axis=-2)
    t = linalg.triangular_solve(factors, t, left_side=True)
    return partial[..., -1], where(bad, creation.zeros_like(t), t)
