"""JAXopt: optimizers whose solutions are differentiated implicitly."""

from __future__ import annotations

import jax.numpy as jnp
import jaxopt

from tests.ecosystem.example import example, numbers


@example(lambda: (numbers(3),), batch=None)
def lbfgs(target):
    solver = jaxopt.LBFGS(lambda x, target: jnp.sum((x**2 - target) ** 2 + 0.1 * x**2), maxiter=3, stepsize=0.1)
    return jnp.sum(solver.run(jnp.ones(3), target).params)


@example(lambda: (numbers(3),))
def projected_gradient(target):
    solver = jaxopt.ProjectedGradient(
        lambda x, target: 0.5 * jnp.sum((x - target) ** 2), jaxopt.projection.projection_simplex, maxiter=5
    )
    return jnp.sum(solver.run(jnp.ones(3) / 3.0, target=target).params ** 2)
