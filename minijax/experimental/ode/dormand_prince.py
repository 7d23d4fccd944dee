"""``odeint``: the explicit Runge-Kutta method of Dormand and Prince, with steps as long as the error allows.

A step computes seven slopes; their sum with one set of weights is the solution of order 5, the difference to that of
order 4 estimates the error, which is compared with ``atol + rtol * |y|``. Between the ends of a step the solution is
a polynomial of order 4. Derivatives are those of the continuous problem: the adjoint state is integrated backwards in
time, so that nothing of the steps is kept.

Sources: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, sections II.4 (the first step, the length
of steps) and II.5 (the method); Shampine, Some Practical Runge-Kutta Formulas, Math. Comp. 46 (the value in the middle
of a step); Chen et al., Neural Ordinary Differential Equations, arXiv:1806.07366, appendix C (the adjoint).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax import numpy as jnp
from minijax.api.autodiff import vjp
from minijax.api.batching import vmap
from minijax.api.closures import closure_convert
from minijax.api.compile import jit
from minijax.api.custom_vjp import custom_vjp
from minijax.config import default_matmul_precision
from minijax.core import dtypes
from minijax.core.array import is_array_like
from minijax.core.named import NamedTuple
from minijax.flatten_util import ravel_pytree
from minijax.pytree import tree_leaves, tree_map

Dynamics = Callable[..., Any]

ORDER = 5
# When the slopes are taken, as parts of the step; the first is there already.
TIMES = [1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0, 0]
# How much of the earlier slopes is in the state at which each slope but the first is taken.
STAGES = [
    [1 / 5, 0, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
]
SOLUTION = STAGES[-1]
OF_ORDER_4 = [1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60]
DIFFERENCE = [high - low for high, low in zip(SOLUTION, OF_ORDER_4, strict=True)]
MIDDLE = [
    6025192743 / 30085553152 / 2,
    0,
    51252292925 / 65400821598 / 2,
    -2691868925 / 45128329728 / 2,
    187940372067 / 1594534317056 / 2,
    -1776094331 / 19743644256 / 2,
    11237099 / 235043384 / 2,
]


class Tolerances(NamedTuple):
    """How exactly it is integrated: tolerances of the error, the most steps between two times, the longest step."""

    rtol: Any
    atol: Any
    mxstep: Any
    hmax: Any


# The state of the integration: the solution, its slope and the time; the next step's length; where the last step began,
# and its polynomial.
State = list[Any]


def odeint(
    func: Dynamics,
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """The solution of ``dy/dt = func(y, t, *args)`` at the times ``t``, where ``y(t[0])`` is ``y0``.

    Args:
      func: gives the slope, of the trees and shapes of ``y0``. It may close over traced values.
      y0: the state at the first time, a pytree of arrays.
      t: 1-D array of floats, which increase.
      args: pytrees of arrays that ``func`` is given; gradients by them are computed.
      rtol, atol: the error of a step is kept below ``atol + rtol * |y|``, in the mean over the state.
      mxstep: the most steps between two times.
      hmax: the longest step.

    Returns:
      A pytree like ``y0``, each leaf with a leading axis for the times. Reverse mode differentiates it by ``y0``, ``t``
      and ``args``; forward mode does not.

    Raises:
      TypeError: ``t`` is not of floats, or something in ``args`` is no array.
    """
    for arg in tree_leaves(args):
        if not is_array_like(arg):
            raise TypeError(
                f"The contents of odeint *args must be arrays or scalars, but got {arg}. Close over what is no array."
            )
    if not dtypes.issubdtype(t.dtype, np.floating):
        raise TypeError(f"t must be an array of floats, but got {t}. Convert it, t.astype(float).")
    converted, consts = closure_convert(func, y0, t[0], *args)
    return _odeint_wrapper(converted, rtol, atol, mxstep, hmax, y0, t, *args, *consts)


@functools.partial(jit, static_argnums=(0, 1, 2, 3, 4))
@default_matmul_precision("highest")
def _odeint_wrapper(
    func: Dynamics, rtol: float, atol: float, mxstep: float, hmax: float, y0: Any, ts: Any, *args: Any
) -> Any:
    """On trees, by way of vectors."""
    unravel: Any
    flat, unravel = ravel_pytree(y0)

    def flat_func(y: Any, t: Any, *rest: Any) -> Any:
        return ravel_pytree(func(unravel(y), t, *rest))[0]

    return vmap(unravel)(_odeint(flat_func, Tolerances(rtol, atol, mxstep, hmax), flat, ts, *args))


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
@default_matmul_precision("highest")
def _odeint(func: Dynamics, options: Tolerances, y0: Any, ts: Any, *args: Any) -> Any:
    """The solution at ``ts``, of a state that is a vector."""

    def slope(y: Any, t: Any) -> Any:
        return func(y, t, *args)

    def advance(state: State, target: Any) -> tuple[State, Any]:
        """Steps until ``target`` is passed; what the last polynomial is worth there."""

        def goes_on(counted: Sequence[Any]) -> Any:
            i, _, _, t, dt, _, _ = counted
            return (t < target) & (i < options.mxstep) & (dt > 0)

        def step(counted: Sequence[Any]) -> list[Any]:
            i, y, f, t, dt, begun, polynomial = counted
            after, f_after, error, slopes = _step(slope, y, f, t, dt)
            t_after = t + dt
            ratio = _error_ratio(error, options, y, after)
            fitted = _polynomial(y, after, slopes, dt)
            dt = jnp.clip(_next_length(dt, ratio), min=0.0, max=options.hmax)
            taken = [i + 1, after, f_after, t_after, dt, t, fitted]
            refused = [i + 1, y, f, t, dt, begun, polynomial]
            return [jnp.where(ratio <= 1.0, new, old) for new, old in zip(taken, refused, strict=True)]

        _, *state = lax.while_loop(goes_on, step, [0, *state])
        _, _, t, _, begun, polynomial = state
        part = (target - begun) / (t - begun)
        return state, jnp.polyval(polynomial, part.astype(polynomial.dtype))

    f0 = slope(y0, ts[0])
    dt = jnp.clip(_first_length(slope, ts[0], y0, options, f0), min=0.0, max=options.hmax)
    state = [y0, f0, ts[0], dt, ts[0], jnp.array([y0] * 5)]
    _, ys = lax.scan(advance, state, ts[1:])
    return jnp.concatenate((y0[None], ys))


# ------------------------------------------------------------------------------------------------ one step


def _step(slope: Dynamics, y0: Any, f0: Any, t0: Any, dt: Any) -> tuple[Any, Any, Any, Any]:
    """The state after a step, the slope there, the error's estimate, and all slopes, one a row."""
    kind = f0.dtype
    times = jnp.array(TIMES, dtype=dt.dtype)
    stages, solution, difference = (jnp.array(each, dtype=kind) for each in (STAGES, SOLUTION, DIFFERENCE))

    def stage(i: Any, slopes: Any) -> Any:
        t = t0 + dt * times[i - 1]
        y = y0 + dt.astype(kind) * jnp.dot(stages[i - 1, :], slopes)
        return slopes.at[i, :].set(slope(y, t))

    slopes = jnp.zeros((7, f0.shape[0]), kind).at[0, :].set(f0)
    slopes = lax.fori_loop(1, 7, stage, slopes)
    y1 = dt.astype(kind) * jnp.dot(solution, slopes) + y0
    error = dt.astype(kind) * jnp.dot(difference, slopes)
    return y1, slopes[-1], error, slopes


def _polynomial(y0: Any, y1: Any, slopes: Any, dt: Any) -> Any:
    """The coefficients, the highest first, of the polynomial of order 4 over a step whose time runs from 0 to 1.

    It has the states and the slopes at both ends, and the state in the middle.
    """
    dt = dt.astype(y0.dtype)
    middle = y0 + dt * jnp.dot(jnp.array(MIDDLE, dtype=y0.dtype), slopes)
    f0, f1 = slopes[0], slopes[-1]
    a = -2.0 * dt * f0 + 2.0 * dt * f1 - 8.0 * y0 - 8.0 * y1 + 16.0 * middle
    b = 5.0 * dt * f0 - 3.0 * dt * f1 + 18.0 * y0 + 14.0 * y1 - 32.0 * middle
    c = -4.0 * dt * f0 + dt * f1 - 11.0 * y0 - 5.0 * y1 + 16.0 * middle
    return jnp.asarray([a, b, c, dt * f0, y0])


def _error_ratio(error: Any, options: Tolerances, y0: Any, y1: Any) -> Any:
    """The error by what is tolerated, in the mean over the state: a step is taken if it is at most 1."""
    tolerated = options.atol + options.rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    ratio = error / tolerated.astype(error.dtype)
    squares = ratio.real**2 + ratio.imag**2 if jnp.iscomplexobj(ratio) else ratio**2
    return jnp.sqrt(jnp.mean(squares))


def _next_length(dt: Any, ratio: Any, safety: float = 0.9, most: float = 10.0, least: float = 0.2) -> Any:
    """How long the next step is to be; none is shorter after one that was taken."""
    shortest = jnp.where(ratio < 1, 1.0, least)
    factor = jnp.minimum(most, jnp.maximum(ratio ** (-1.0 / ORDER) * safety, shortest))
    return jnp.where(ratio == 0, dt * most, dt * factor)


def _first_length(slope: Dynamics, t0: Any, y0: Any, options: Tolerances, f0: Any) -> Any:
    """How long the first step is to be, from the sizes of the state, its slope and its curvature."""
    dtype = jnp.promote_types(jnp.promote_types(y0.dtype, f0.dtype), np.float32)
    y0, f0 = y0.astype(dtype), f0.astype(dtype)
    scale = (options.atol + jnp.abs(y0) * options.rtol).astype(dtype)
    size, rate = jnp.linalg.norm(y0 / scale), jnp.linalg.norm(f0 / scale)
    trial = jnp.where((size < 1e-5) | (rate < 1e-5), 1e-6, 0.01 * size / rate)
    f1 = slope(y0 + trial.astype(dtype) * f0, t0 + trial)
    curvature = jnp.linalg.norm((f1 - f0) / scale) / trial
    flat = (rate <= 1e-15) & (curvature <= 1e-15)
    by_order = (0.01 / jnp.maximum(rate, curvature)) ** (1.0 / ORDER)
    return jnp.minimum(100.0 * trial, jnp.where(flat, jnp.maximum(1e-6, trial * 1e-3), by_order))


# ------------------------------------------------------------------------------------------------ the adjoint


def _odeint_fwd(func: Dynamics, options: Tolerances, y0: Any, ts: Any, *args: Any) -> Any:
    ys = _odeint(func, options, y0, ts, *args)
    return ys, (ys, ts, args)


@default_matmul_precision("highest")
def _odeint_bwd(func: Dynamics, options: Tolerances, residuals: Any, g: Any) -> Any:
    ys, ts, args = residuals

    def adjoint_dynamics(state: Any, negative_t: Any, *args: Any) -> Any:
        """The problem and its adjoint, backwards in time: what flows into y, t and the arguments."""
        y, y_bar, *_ = state
        y_dot, pull_back = vjp(func, y, -negative_t, *args)
        return (-y_dot, *pull_back(y_bar))

    def back(carry: Any, i: Any) -> Any:
        y_bar, t0_bar, args_bar = carry
        # times are real, also where the state is complex
        t_bar = jnp.dot(func(ys[i], ts[i], *args), g[i]).real
        state = (ys[i], y_bar, t0_bar - t_bar, args_bar)
        interval = jnp.array([-ts[i], -ts[i - 1]])
        solved = odeint(adjoint_dynamics, state, interval, *args, **options._asdict())
        _, y_bar, t0_bar, args_bar = tree_map(lambda leaf: leaf[1], solved)
        return (y_bar + g[i - 1], t0_bar, args_bar), t_bar

    carry = (g[-1], 0.0, tree_map(jnp.zeros_like, args))
    (y_bar, t0_bar, args_bar), found = lax.scan(back, carry, jnp.arange(len(ts) - 1, 0, -1))
    return (y_bar, jnp.concatenate([jnp.array([t0_bar]), found[::-1]]), *args_bar)


_odeint.defvjp(_odeint_fwd, _odeint_bwd)
