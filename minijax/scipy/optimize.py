"""``minijax.scipy.optimize``: minimization by the method of Broyden, Fletcher, Goldfarb and Shanno."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from minijax import lax
from minijax import numpy as jnp
from minijax.api.autodiff import value_and_grad
from minijax.core import dtypes
from minijax.core.lacking import borrow, borrowing

__all__ = ["OptimizeResults", "minimize"]

__getattr__, __dir__ = borrowing(globals())

_dot = functools.partial(jnp.dot, precision=lax.Precision.HIGHEST)


class OptimizeResults(NamedTuple):
    """What a minimization found: a tuple, and so a pytree.

    ``x``: where the function is ``fun``, its gradient ``jac``, and the inverse of its Hessian about ``hess_inv``;
    ``success``; ``status``, 0 for that, 1 after too many steps, more where no step could be found; ``nfev``, ``njev``
    and ``nit``: how often function and gradient were computed, and how many steps were made.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Where ``fun(x, *args)``, a differentiable function of a vector, is least, from ``x0`` on.

    Args:
      method: 'BFGS', in any case (Nocedal and Wright 2006, "Numerical Optimization", algorithm 6.1), or JAX's
        'l-bfgs-experimental-do-not-rely-on-this', which is borrowed from it.
      tol: not looked at by 'BFGS'.
      options: ``maxiter`` (200 for each unknown), ``norm`` (of the gradient: infinity), ``gtol`` (that it ends at:
        1e-5), and ``line_search_maxiter`` (10).

    Raises:
      TypeError: ``args`` is no tuple, or an option is not known. ValueError: the method is not, or x0 is no vector.
    """
    if not isinstance(args, tuple):
        raise TypeError(f"minimize: args is a tuple of further arguments, not {args!r}. Write args=({args!r},).")
    if method.lower().startswith("l-bfgs"):
        found: OptimizeResults = borrow("minijax.scipy.optimize", "minimize")(
            fun, x0, args, method=method, tol=tol, options=options
        )
        return OptimizeResults(*found)
    if method.lower() != "bfgs":
        raise ValueError(f"minimize: method {method!r} is not implemented. Use 'BFGS'.")
    return _bfgs(lambda x: fun(x, *args), x0, **({} if options is None else options))


# -------------------------------------------------------------------------------- BFGS


class _State(NamedTuple):
    """Between steps: the inverse ``H`` of the Hessian is an estimate, ``previous`` the value before ``f``."""

    converged: Any
    failed: Any
    k: Any
    nfev: Any
    ngev: Any
    x: Any
    f: Any
    g: Any
    H: Any
    previous: Any
    search_status: Any


def _bfgs(
    fun: Callable[[Any], Any],
    x0: Any,
    maxiter: int | None = None,
    norm: float = math.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    x0 = jnp.asarray(x0)
    if maxiter is None:
        maxiter = x0.size * 200
    if x0.ndim != 1:
        raise ValueError(f"minimize: x0 is a vector, not of shape {x0.shape}. Flatten it: flatten_util.ravel_pytree.")
    size = x0.shape[0]
    H = jnp.eye(size, dtype=x0.dtype)
    f, g = value_and_grad(fun)(x0)
    start = _State(
        converged=jnp.linalg.norm(g, ord=norm) < gtol,
        failed=False,
        k=0,
        nfev=1,
        ngev=1,
        x=x0,
        f=f,
        g=g,
        H=H,
        previous=f + jnp.linalg.norm(g) / 2,
        search_status=0,
    )

    def goes_on(state: _State) -> Any:
        return jnp.logical_not(state.converged) & jnp.logical_not(state.failed) & (state.k < maxiter)

    def step(state: _State) -> _State:
        direction = -_dot(state.H, state.g)
        found = _line_search(fun, state, direction, line_search_maxiter)
        nfev, ngev = state.nfev + found.nfev, state.ngev + found.ngev
        s = found.length * direction
        x = state.x + s
        y = found.g - state.g
        rho = jnp.reciprocal(_dot(y, s))
        product = s[:, None] * y[None, :]
        w = jnp.eye(size, dtype=rho.dtype) - rho * product
        H = (
            jnp.einsum("ij,jk,lk", w, state.H, w, precision=lax.Precision.HIGHEST)
            + rho * s[:, None] * s[None, :]
        )
        H = jnp.where(jnp.isfinite(rho), H, state.H)
        converged = jnp.linalg.norm(found.g, ord=norm) < gtol
        return _State(
            converged, found.failed, state.k + 1, nfev, ngev, x, found.f, found.g, H, state.f, found.status
        )

    end = lax.while_loop(goes_on, step, start)
    too_many = end.k == maxiter
    status = jnp.where(end.failed, 2 + end.search_status, -1)
    status = jnp.where(end.converged, 0, jnp.where(too_many, 1, status))
    success = end.converged & jnp.logical_not(end.failed)
    return OptimizeResults(end.x, success, status, end.f, end.g, end.H, end.nfev, end.ngev, end.k)


# -------------------------------------------------------------------------------- the length of a step
#
# Nocedal and Wright, algorithms 3.5 and 3.6, with the interpolations of SciPy's line search: phi is the function along
# the direction, dphi its derivative. A length is accepted that fulfils both of Wolfe's conditions.

_C1, _C2 = 1e-4, 0.9
_ZOOMS = 30
# how near to the ends of its bracket an interpolated length may be, as a part of it
_CUBIC_MARGIN, _QUADRATIC_MARGIN = 0.2, 0.1


class _Along(NamedTuple):
    """The function along a direction: (phi, dphi, gradient) of a length; and phi and dphi at 0."""

    at: Callable[[Any], tuple[Any, Any, Any]]
    phi: Any
    dphi: Any

    def too_high(self, a: Any, phi: Any) -> Any:
        """Whether Wolfe's first condition fails: the function has not fallen enough."""
        return phi > self.phi + _C1 * a * self.dphi

    def flat(self, dphi: Any) -> Any:
        """Wolfe's second condition: the derivative has become small."""
        return jnp.abs(dphi) <= -_C2 * self.dphi


class _Zoom(NamedTuple):
    """A bracket from ``a_lo`` to ``a_hi``, the length that was given up last, and the one that is accepted."""

    done: Any
    failed: Any
    j: Any
    a_lo: Any
    phi_lo: Any
    dphi_lo: Any
    a_hi: Any
    phi_hi: Any
    dphi_hi: Any
    a_rec: Any
    phi_rec: Any
    a_star: Any
    phi_star: Any
    dphi_star: Any
    g_star: Any
    nfev: Any
    ngev: Any


class _Search(NamedTuple):
    """The search for a bracket: ``a`` is the last length that was tried."""

    done: Any
    failed: Any
    i: Any
    a: Any
    phi: Any
    dphi: Any
    nfev: Any
    ngev: Any
    a_star: Any
    phi_star: Any
    dphi_star: Any
    g_star: Any


class _Found(NamedTuple):
    failed: Any
    nfev: Any
    ngev: Any
    length: Any
    f: Any
    g: Any
    status: Any


def _replaced(state: Any, condition: Any, **others: Any) -> Any:
    """``state`` with other values where ``condition`` is True."""
    chosen = {name: jnp.where(condition, new, getattr(state, name)) for name, new in others.items()}
    return state._replace(**chosen)


def _cubic_minimum(a: Any, fa: Any, fpa: Any, b: Any, fb: Any, c: Any, fc: Any) -> Any:
    """Where the cubic through three points is least whose derivative at ``a`` is ``fpa``."""
    db, dc = b - a, c - a
    scale = (db * dc) ** 2 * (db - dc)
    matrix = jnp.array([[dc**2, -(db**2)], [-(dc**3), db**3]])
    A, B = _dot(matrix, jnp.array([fb - fa - fpa * db, fc - fa - fpa * dc])) / scale
    radical = B * B - 3.0 * A * fpa
    return a + (-B + jnp.sqrt(radical)) / (3.0 * A)


def _quadratic_minimum(a: Any, fa: Any, fpa: Any, b: Any, fb: Any) -> Any:
    """Where the parabola through two points is least whose derivative at ``a`` is ``fpa``."""
    db = b - a
    B = (fb - fa - fpa * db) / (db**2)
    return a - fpa / (2.0 * B)


def _zoomed(along: _Along, lo: tuple[Any, ...], hi: tuple[Any, ...], g: Any, skipped: Any) -> _Zoom:
    """An accepted length between two: each is given as length, phi and dphi. Nothing is done where ``skipped``."""
    middle = (lo[0] + hi[0]) / 2.0, (lo[1] + hi[1]) / 2.0
    start = _Zoom._make((False, False, 0, *lo, *hi, *middle, 1.0, lo[1], lo[2], g, 0, 0))

    def goes_on(state: _Zoom) -> Any:
        return jnp.logical_not(state.done) & jnp.logical_not(skipped) & jnp.logical_not(state.failed)

    return lax.while_loop(goes_on, functools.partial(_zoom_step, along), start)  # type: ignore[no-any-return]


def _zoom_step(along: _Along, state: _Zoom) -> _Zoom:
    width = state.a_hi - state.a_lo
    low, high = jnp.minimum(state.a_hi, state.a_lo), jnp.maximum(state.a_hi, state.a_lo)
    cubic_margin, quadratic_margin = _CUBIC_MARGIN * width, _QUADRATIC_MARGIN * width
    least = jnp.where(dtypes.finfo(width.dtype).bits < 64, 1e-5, 1e-10)
    state = state._replace(failed=state.failed | (width <= least))

    cubic = _cubic_minimum(*state[3:8], state.a_rec, state.phi_rec)
    use_cubic = (state.j > 0) & (cubic > low + cubic_margin) & (cubic < high - cubic_margin)
    quadratic = _quadratic_minimum(*state[3:8])
    use_quadratic = (
        jnp.logical_not(use_cubic)
        & (quadratic > low + quadratic_margin)
        & (quadratic < high - quadratic_margin)
    )
    middle = (state.a_lo + state.a_hi) / 2.0
    use_middle = jnp.logical_not(use_cubic) & jnp.logical_not(use_quadratic)
    a = jnp.where(use_cubic, cubic, state.a_rec)
    a = jnp.where(use_quadratic, quadratic, a)
    a = jnp.where(use_middle, middle, a)

    phi, dphi, g = along.at(a)
    state = state._replace(nfev=state.nfev + 1, ngev=state.ngev + 1)
    is_high = along.too_high(a, phi) | (phi >= state.phi_lo)
    accepted = along.flat(dphi) & jnp.logical_not(is_high)
    rises = (
        (dphi * (state.a_hi - state.a_lo) >= 0.0) & jnp.logical_not(is_high) & jnp.logical_not(accepted)
    )
    is_low = jnp.logical_not(is_high) & jnp.logical_not(accepted)

    state = _replaced(
        state, is_high, a_hi=a, phi_hi=phi, dphi_hi=dphi, a_rec=state.a_hi, phi_rec=state.phi_hi
    )
    state = state._replace(done=accepted | state.done)
    state = _replaced(state, accepted, a_star=a, phi_star=phi, dphi_star=dphi, g_star=g)
    state = _replaced(
        state,
        rises,
        a_hi=state.a_lo,
        phi_hi=state.phi_lo,
        dphi_hi=state.dphi_lo,
        a_rec=state.a_hi,
        phi_rec=state.phi_hi,
    )
    state = _replaced(state, is_low & jnp.logical_not(rises), a_rec=state.a_lo, phi_rec=state.phi_lo)
    state = _replaced(state, is_low, a_lo=a, phi_lo=phi, dphi_lo=dphi)
    state = state._replace(j=state.j + 1)
    return state._replace(failed=state.failed | (state.j >= _ZOOMS))


def _line_search(fun: Callable[[Any], Any], at: _State, direction: Any, maxiter: int) -> _Found:
    """How long a step from ``at`` in ``direction`` is to be."""

    def function(t: Any) -> tuple[Any, Any, Any]:
        t = jnp.array(t, dtype=direction.dtype)
        phi, g = value_and_grad(fun)(at.x + t * direction)
        return phi, jnp.real(_dot(g, direction)), g

    along = _Along(function, at.f, jnp.real(_dot(at.g, direction)))
    candidate = 1.01 * 2 * (along.phi - at.previous) / along.dphi
    first = jnp.where(candidate > 1, 1.0, candidate)

    def goes_on(state: _Search) -> Any:
        return jnp.logical_not(state.done) & (state.i <= maxiter) & jnp.logical_not(state.failed)

    def step(state: _Search) -> _Search:
        a = jnp.where(state.i == 1, first, state.a * 2.0)
        phi, dphi, g = along.at(a)
        state = state._replace(nfev=state.nfev + 1, ngev=state.ngev + 1)
        last, this = (state.a, state.phi, state.dphi), (a, phi, dphi)
        # between the last length and this one there is one that can be accepted, or this one can be, or it is beyond
        before = along.too_high(a, phi) | ((phi >= state.phi) & (state.i > 1))
        accepted = along.flat(dphi) & jnp.logical_not(before)
        beyond = (dphi >= 0.0) & jnp.logical_not(before) & jnp.logical_not(accepted)

        def with_counts(state: _Search, zoom: _Zoom) -> _Search:
            return state._replace(nfev=state.nfev + zoom.nfev, ngev=state.ngev + zoom.ngev)

        forwards = _zoomed(along, last, this, at.g, jnp.logical_not(before))
        state = with_counts(state, forwards)
        backwards = _zoomed(along, this, last, at.g, jnp.logical_not(beyond))
        state = with_counts(state, backwards)

        def taken(state: _Search, condition: Any, zoom: _Zoom) -> _Search:
            state = state._replace(done=condition | state.done, failed=(condition & zoom.failed) | state.failed)
            return _replaced(  # type: ignore[no-any-return]
                state,
                condition,
                a_star=zoom.a_star,
                phi_star=zoom.phi_star,
                dphi_star=zoom.dphi_star,
                g_star=zoom.g_star,
            )

        state = taken(state, before, forwards)
        state = state._replace(done=accepted | state.done)
        state = _replaced(state, accepted, a_star=a, phi_star=phi, dphi_star=dphi, g_star=g)
        state = taken(state, beyond, backwards)
        return state._replace(i=state.i + 1, a=a, phi=phi, dphi=dphi)

    start = _Search(False, False, 1, 0.0, along.phi, along.dphi, 0, 0, 0.0, along.phi, along.dphi, at.g)
    end = lax.while_loop(goes_on, step, start)
    status = jnp.where(end.failed, 1, jnp.where(end.i > maxiter, 3, 0))
    length = end.a_star
    is_narrow = dtypes.finfo(length.dtype).bits != 64
    tiny = is_narrow & (jnp.abs(length) < 1e-8)
    length = jnp.where(tiny, jnp.sign(length) * 1e-8, length)
    failed = end.failed | jnp.logical_not(end.done)
    return _Found(failed, end.nfev, end.ngev, length, end.phi_star, end.g_star, status)
