"""``minijax.scipy.sparse.linalg``: solutions of linear equations of which only products with vectors are known.

A vector is a pytree of arrays, a linear operator a function from vectors to vectors, or a matrix.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minijax import lax
from minijax import numpy as jnp
from minijax.api.devices import device_put
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.lacking import borrowing
from minijax.numpy.promotion import typed_scalar
from minijax.pytree import tree_leaves, tree_map, tree_structure
from minijax.scipy.linalg import solve, solve_triangular

__all__ = ["bicgstab", "cg", "gmres"]

__getattr__, __dir__ = borrowing(globals())

HIGHEST = lax.Precision.HIGHEST
_dot = functools.partial(jnp.dot, precision=HIGHEST)
_vdot = functools.partial(jnp.vdot, precision=HIGHEST)


# -------------------------------------------------------------------------------- vectors and operators


def _inner(x: Any, y: Any) -> Any:
    """The inner product of two vectors."""
    return sum([_vdot(a, b) for a, b in zip(tree_leaves(x), tree_leaves(y), strict=True)])


def _real_inner(x: Any, y: Any) -> Any:
    """The real part of the inner product."""
    return sum([_real_vdot(a, b) for a, b in zip(tree_leaves(x), tree_leaves(y), strict=True)])


def _real_vdot(x: Any, y: Any) -> Any:
    found = _vdot(jnp.real(x), jnp.real(y))
    if jnp.iscomplexobj(x) or jnp.iscomplexobj(y):
        found = found + _vdot(jnp.imag(x), jnp.imag(y))
    return found


def _norm(x: Any) -> Any:
    return jnp.sqrt(_real_inner(x, x))


def _times(number: Any, x: Any) -> Any:
    return tree_map(lambda leaf: number * leaf, x)


_plus = functools.partial(tree_map, jnp.add)
_minus = functools.partial(tree_map, jnp.subtract)


def _dtype(x: Any) -> Any:
    return jnp.result_type(*tree_leaves(x))


def _identity(x: Any) -> Any:
    return x


def _operator(f: Any) -> Callable[[Any], Any]:
    """A linear operator as a function. TypeError for what is none, ValueError for a matrix that is not square."""
    if callable(f):
        return f  # type: ignore[no-any-return]
    if not (hasattr(f, "ndim") and hasattr(f, "shape")):
        raise TypeError(f"linear operator must be either a function or an array: {f!r}")
    if f.ndim != 2 or f.shape[0] != f.shape[1]:
        raise ValueError(f"linear operator must be a square matrix, but has shape: {f.shape}")
    return functools.partial(_dot, f)


class _Equation(NamedTuple):
    """What all solvers are given: operator, right side, first guess, number of steps, preconditioner, size."""

    A: Callable[[Any], Any]
    b: Any
    x0: Any
    maxiter: int
    M: Callable[[Any], Any]
    size: int


def _equation(A: Any, b: Any, x0: Any, maxiter: int | None, M: Any) -> _Equation:
    if x0 is None:
        x0 = tree_map(jnp.zeros_like, b)
    b, x0 = device_put((b, x0))
    size = sum(int(np.prod(get_aval(leaf).shape)) for leaf in tree_leaves(b))
    M = _identity if M is None else M
    operator, preconditioner = _operator(A), _operator(M)
    if tree_structure(x0) != tree_structure(b):
        raise ValueError(f"x0 and b must have one tree structure, not {tree_structure(x0)} and {tree_structure(b)}")
    shapes = [[get_aval(leaf).shape for leaf in tree_leaves(vector)] for vector in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"arrays in x0 and b must have the same shapes, not {shapes[0]} and {shapes[1]}")
    return _Equation(operator, b, x0, 10 * size if maxiter is None else maxiter, preconditioner, size)


def _threshold(b: Any, tol: Any, atol: Any) -> Any:
    """The square of the residual's norm where iterations end."""
    square = _real_inner(b, b)
    return jnp.maximum(jnp.square(tol) * square, jnp.square(atol))


# -------------------------------------------------------------------------------- conjugate gradients


def cg(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, None]:
    """The x with ``A(x) = b`` by conjugate gradients, for Hermitian positive definite ``A``.

    Derivatives are those of the solution (``lax.custom_linear_solve``), and are solved for in the same way.

    Args:
      A: a linear function of something like ``b``, or a matrix.
      b: the right side, a pytree of arrays.
      x0: where to begin, zeros by default.
      tol, atol: it ends where the norm of the residual is at most ``max(tol * norm(b), atol)``.
      maxiter: the most steps, ten times the number of unknowns by default.
      M: like ``A``, near to its inverse.

    Returns:
      x, and None, where SciPy says how it ended.

    Raises:
      TypeError: ``A`` or ``M`` is neither. ValueError: a matrix that is not square, or ``x0`` unlike ``b``.
    """
    given = _equation(A, b, x0, maxiter, M)

    def solver(A: Callable[[Any], Any], b: Any) -> Any:
        return _cg(given._replace(A=A, b=b), tol, atol)

    is_real = not any(jnp.iscomplexobj(leaf) for leaf in tree_leaves(given.b))
    return lax.custom_linear_solve(given.A, given.b, solver, solver, symmetric=is_real), None


def _cg(given: _Equation, tol: Any, atol: Any) -> Any:
    A, b, x0, maxiter, M, _ = given
    threshold = _threshold(b, tol, atol)

    def goes_on(carry: Any) -> Any:
        _, r, gamma, _, k = carry
        square = jnp.real(gamma) if M is _identity else _real_inner(r, r)
        return (square > threshold) & (k < maxiter)

    def step(carry: Any) -> Any:
        x, r, gamma, p, k = carry
        Ap = A(p)
        alpha = gamma / _real_inner(p, Ap).astype(dtype)
        x = _plus(x, _times(alpha, p))
        r = _minus(r, _times(alpha, Ap))
        z = M(r)
        new_gamma = _real_inner(r, z).astype(dtype)
        p = _plus(z, _times(new_gamma / gamma, p))
        return x, r, new_gamma, p, k + 1

    r = _minus(b, A(x0))
    p = z = M(r)
    dtype = _dtype(p)
    x, *_ = lax.while_loop(goes_on, step, (x0, r, _real_inner(r, z).astype(dtype), p, 0))
    return x


# -------------------------------------------------------------------------------- stabilized biconjugate gradients


def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, None]:
    """The x with ``A(x) = b`` by stabilized biconjugate gradients: see ``cg``; ``A`` need not be Hermitian."""
    given = _equation(A, b, x0, maxiter, M)

    def solver(A: Callable[[Any], Any], b: Any) -> Any:
        return _bicgstab(given._replace(A=A, b=b), tol, atol)

    return lax.custom_linear_solve(given.A, given.b, solver, solver), None


def _bicgstab(given: _Equation, tol: Any, atol: Any) -> Any:
    A, b, x0, maxiter, M, _ = given
    threshold = _threshold(b, tol, atol)

    def goes_on(carry: Any) -> Any:
        _, r, *_, k = carry
        return (_real_inner(r, r) > threshold) & (k < maxiter) & (k >= 0)  # below 0 it has broken down

    def step(carry: Any) -> Any:
        x, r, alpha, omega, rho, p, q, k = carry
        new_rho = _inner(rhat, r)
        beta = new_rho / rho * alpha / omega
        p = _plus(r, _times(beta, _minus(p, _times(omega, q))))
        phat = M(p)
        q = A(phat)
        alpha = new_rho / _inner(rhat, q)
        s = _minus(r, _times(alpha, q))
        ends = _real_inner(s, s) < threshold
        shat = M(s)
        t = A(shat)
        omega = _inner(t, s) / _inner(t, t)
        choose = functools.partial(tree_map, functools.partial(jnp.where, ends))
        x = choose(
            _plus(x, _times(alpha, phat)),
            _plus(x, _plus(_times(alpha, phat), _times(omega, shat))),
        )
        r = choose(s, _minus(s, _times(omega, t)))
        k = jnp.where((omega == 0) | (alpha == 0), -11, k + 1)
        k = jnp.where(new_rho == 0, -10, k)
        return x, r, alpha, omega, new_rho, p, q, k

    r = rhat = _minus(b, A(x0))
    one = typed_scalar(1, _dtype(r))
    x, *_ = lax.while_loop(goes_on, step, (x0, r, one, one, one, r, r, 0))
    return x


# -------------------------------------------------------------------------------- generalized minimal residuals


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Any]:
    """The x with ``A(x) = b`` by generalized minimal residuals: see ``cg``; ``A`` need not be Hermitian.

    Args:
      restart: the dimension of the Krylov spaces, from each of which the best approximation is taken.
      maxiter: the most of these.
      solve_method: 'batched' computes whole spaces, 'incremental' ends within one as soon as it can.

    Returns:
      x, and 0, or -1 if x has NaNs.

    Saad and Schultz 1986, "GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear systems".
    """
    if solve_method not in ("incremental", "batched"):
        raise ValueError(f"invalid solve_method {solve_method!r}, must be either 'incremental' or 'batched'")
    given = _equation(A, b, x0, maxiter, M)
    restart = min(restart, given.size)
    length = _norm(given.b)
    atol = jnp.maximum(tol * length, atol)
    # with a preconditioner the residual is measured in its terms
    inner_atol = _norm(given.M(given.b)) * jnp.minimum(1.0, atol / length)

    def solver(A: Callable[[Any], Any], b: Any) -> Any:
        advance = _incremental if solve_method == "incremental" else _batched
        this = given._replace(A=A, b=b)

        def goes_on(carry: Any) -> Any:
            _, k, _, residual = carry
            return (k < this.maxiter) & (residual > atol)

        def step(carry: Any) -> Any:
            x, k, direction, residual = carry
            x, direction, residual = advance(this, x, direction, residual, inner_atol, restart)
            return x, k + 1, direction, residual

        direction, residual = _normalized(this.M(_minus(b, A(this.x0))))
        return lax.while_loop(goes_on, step, (this.x0, 0, direction, residual))[0]

    x = lax.custom_linear_solve(given.A, given.b, solver, solver)
    return x, jnp.where(jnp.isnan(_norm(x)), -1, 0)


def _normalized(x: Any, least: Any = None) -> tuple[Any, Any]:
    """``x`` over its norm, and that; zeros where the norm is not more than ``least``."""
    norm = _norm(x)
    dtype = _dtype(x)
    if least is None:
        least = typed_scalar(dtypes.finfo(dtype).eps, norm.dtype)
    counts = norm > least
    unit = tree_map(lambda leaf: jnp.where(counts, leaf / norm.astype(dtype), 0.0), x)
    return unit, jnp.where(counts, norm, 0.0)


def _first_column(x: Any, count: int) -> Any:
    """A basis of ``count`` more vectors, of which the first is ``x``: their index is a last axis."""
    return tree_map(lambda leaf: jnp.pad(leaf[..., None], ((0, 0),) * leaf.ndim + ((0, count),)), x)


def _project(basis: Any, x: Any) -> Any:
    """The inner products of ``x`` with the vectors of a basis."""
    parts = tree_map(
        lambda columns, leaf: jnp.einsum("...n,...->n", jnp.conj(columns), leaf, precision=HIGHEST), basis, x
    )
    return functools.reduce(jnp.add, tree_leaves(parts))


def _orthogonalized(basis: Any, x: Any, length: Any, most: int = 2) -> tuple[Any, Any]:
    """``x`` without its projections on the basis, and those: Gram and Schmidt's, repeated while it lost much."""
    found = jnp.zeros(tree_leaves(basis)[0].shape[-1:], _dtype(x))
    scaled = length / jnp.sqrt(2.0)

    def once(k: Any, x: Any, found: Any, scaled: Any) -> tuple[Any, Any, Any]:
        h = _project(basis, x)
        x = _minus(x, tree_map(lambda columns: _dot(columns, h), basis))
        found = jnp.add(found, h)

        def goes_on(carry: Any) -> Any:
            k, not_done, _ = carry
            return jnp.logical_and(not_done, k < (most - 1))

        def measure(carry: Any) -> Any:
            k, _, _ = carry
            _, left = _normalized(x)
            return k, False, left / jnp.sqrt(2.0)

        _, _, scaled = lax.while_loop(goes_on, measure, (k, True, scaled))
        return x, found, scaled

    def goes_on(carry: Any) -> Any:
        k, _, found, scaled = carry
        _, left = _normalized(found)
        return jnp.logical_and(k < (most - 1), left < scaled)

    def step(carry: Any) -> Any:
        rest = once(*carry)
        return carry[0] + 1, *rest

    _, x, found, _ = lax.while_loop(goes_on, step, (1, *once(0, x, found, scaled)))
    return x, found


def _arnoldi(k: Any, given: _Equation, basis: Any, H: Any) -> tuple[Any, Any, Any]:
    """The basis of a Krylov space with its vector ``k + 1``, the matrix with its row ``k``, and whether it ends."""
    x = given.M(given.A(tree_map(lambda columns: columns[..., k], basis)))
    _, length = _normalized(x)
    x, h = _orthogonalized(basis, x, length)
    unit, left = _normalized(x, typed_scalar(dtypes.finfo(_dtype(x)).eps, length.dtype) * length)
    basis = tree_map(lambda columns, leaf: columns.at[..., k + 1].set(leaf), basis, unit)
    h = h.at[k + 1].set(left.astype(h.dtype))
    return basis, H.at[k, :].set(h), left == 0.0


def _stepped(given: _Equation, x: Any, basis: Any, y: Any) -> tuple[Any, Any, Any]:
    """``x`` after a step of ``y`` in the space of ``basis``; the direction and the norm of its residual."""
    x = _plus(x, tree_map(lambda columns: _dot(columns[..., :-1], y), basis))
    return x, *_normalized(given.M(_minus(given.b, given.A(x))))


def _batched(given: _Equation, x: Any, direction: Any, residual: Any, atol: Any, restart: int) -> Any:
    """The step that makes the residual least in the Krylov space of ``direction``, by normal equations."""
    basis = _first_column(direction, restart)
    dtype = _dtype(direction)

    def goes_on(carry: Any) -> Any:
        _, _, ends, k = carry
        return jnp.logical_and(k < restart, jnp.logical_not(ends))

    def step(carry: Any) -> Any:
        basis, H, _, k = carry
        found = _arnoldi(k, given, basis, H)
        return *found, k + 1

    start = basis, jnp.eye(restart, restart + 1, dtype=dtype), False, 0
    basis, H, _, _ = lax.while_loop(goes_on, step, start)
    beta = jnp.zeros((restart + 1,), dtype).at[0].set(residual.astype(dtype))
    a = H.T
    y = solve(_dot(jnp.conj(a.T), a), _dot(jnp.conj(a.T), beta), assume_a="pos")
    return _stepped(given, x, basis, y)


def _incremental(given: _Equation, x: Any, direction: Any, residual: Any, atol: Any, restart: int) -> Any:
    """The step that makes the residual least, by rotations that make the matrix triangular as it grows."""
    basis = _first_column(direction, restart)
    dtype = _dtype(direction)
    R = jnp.eye(restart, restart + 1, dtype=dtype)
    rotations = jnp.zeros((restart, 2), dtype)
    beta = jnp.zeros((restart + 1,), dtype).at[0].set(residual.astype(dtype))

    def goes_on(carry: Any) -> Any:
        k, error, *_ = carry
        return jnp.logical_and(k < restart, error > atol)

    def step(carry: Any) -> Any:
        k, _, basis, R, beta, rotations = carry
        basis, H, _ = _arnoldi(k, given, basis, R)
        row = lax.fori_loop(0, k, lambda i, row: _rotated(row, i, *rotations[i, :]), H[k, :])
        cosine, sine = _rotation(row[k], row[k + 1])
        rotations = rotations.at[k, :].set(jnp.array([cosine, sine]))
        R = R.at[k, :].set(_rotated(row, k, cosine, sine))
        beta = _rotated(beta, k, *rotations[k, :])
        error = jnp.abs(beta[k + 1])
        return k + 1, error, basis, R, beta, rotations

    _, _, basis, R, beta, _ = lax.while_loop(goes_on, step, (0, residual, basis, R, beta, rotations))
    return _stepped(given, x, basis, solve_triangular(R[:, :-1].T, beta[:-1]))


def _rotated(x: Any, i: Any, cosine: Any, sine: Any) -> Any:
    """``x`` with its elements i and i + 1 turned."""
    first, second = x[i], x[i + 1]
    turned = jnp.conj(cosine) * first - jnp.conj(sine) * second, sine * first + cosine * second
    return x.at[i].set(turned[0]).at[i + 1].set(turned[1])


def _rotation(a: Any, b: Any) -> tuple[Any, Any]:
    """The cosine and sine of the turn that makes the second element of (a, b) zero (Givens)."""
    is_zero = jnp.abs(b) == 0
    smaller = jnp.abs(a) < jnp.abs(b)
    t = -jnp.where(smaller, a, b) / jnp.where(smaller, b, a)
    r = lax.rsqrt(1 + jnp.abs(t) ** 2).astype(t.dtype)
    cosine = jnp.where(is_zero, 1, jnp.where(smaller, r * t, r))
    return cosine, jnp.where(is_zero, 0, jnp.where(smaller, r, r * t))
