"""Diffrax, Lineax and Optimistix: differential equations, linear systems, roots and least squares."""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import optimistix as optx

from tests.ecosystem.example import example, numbers


@example(lambda: (numbers(2), np.float32(1.5)), grad=1)
def ode(start, rate):
    """The gradient is taken through the solver's steps, with checkpoints."""

    def field(t, y, rate):
        return jnp.stack([y[1], rate * (1.0 - y[0] ** 2) * y[1] - y[0]])

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Heun(),
        t0=0.0,
        t1=0.5,
        dt0=0.1,
        y0=start,
        args=rate,
        stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-4),
        max_steps=64,
    )
    return jnp.sum(solution.ys**2)


@example(lambda: (np.array([0, 9], np.uint32), np.float32(0.5)), grad=1)
def sde(key, volatility):
    motion = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-1, shape=(), key=key)
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, args: -y), diffrax.ControlTerm(lambda t, y, args: volatility, motion)
    )
    solution = diffrax.diffeqsolve(terms, diffrax.Euler(), t0=0.0, t1=1.0, dt0=0.25, y0=jnp.float32(1.0), max_steps=8)
    return solution.ys[0]


@example(lambda: (numbers(3, 3) + 3.0 * np.eye(3, dtype=np.float32), numbers(3)))
def linear_system(matrix, vector):
    """The derivative uses a primitive of the solver."""
    operator = lx.MatrixLinearOperator(matrix)
    return jnp.sum(lx.linear_solve(operator, vector, lx.LU()).value ** 2)


@example(lambda: (np.float32(2.0),))
def root(target):
    found = optx.root_find(
        lambda y, target: y**3 + y - target, optx.Newton(rtol=1e-5, atol=1e-5), jnp.float32(1.0), args=target
    )
    return found.value


@example(lambda: (numbers(4),))
def least_squares(ys):
    def residuals(params, ys):
        return params[0] * jnp.exp(params[1] * jnp.arange(4.0)) - ys

    solver = optx.LevenbergMarquardt(rtol=1e-2, atol=1e-2)
    found = optx.least_squares(residuals, solver, jnp.array([0.5, -0.5]), args=ys, max_steps=16, throw=False)
    return jnp.sum(found.value)


@example(lambda: (numbers(3), numbers(3, name="vector")), batch=1)
def conjugate_gradients(diagonal, vector):
    def apply(x):
        return jax.nn.softplus(diagonal) * x + 0.1 * jnp.sum(x)

    operator = lx.FunctionLinearOperator(apply, jax.ShapeDtypeStruct((3,), jnp.float32), lx.positive_semidefinite_tag)
    solution = lx.linear_solve(operator, vector, lx.CG(rtol=1e-5, atol=1e-5), throw=False)
    return jnp.sum(solution.value)
