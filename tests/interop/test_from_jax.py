"""Functions written for JAX, on minijax: values and derivatives beside JAX's own."""

import jax
import jax.numpy as rnp
import numpy as np
import pytest

import minijax as mj
from minijax import numpy as jnp
from minijax.interop import from_jax


def decay(x):
    def body(c, a):
        return c * 0.9 + rnp.tanh(a), c

    last, ys = jax.lax.scan(body, 0.0, x)
    return last + ys.sum()


def factored(x):
    return rnp.linalg.cholesky(rnp.outer(x, x) + 10 * rnp.eye(3)).sum()


def branching(x):
    return jax.lax.cond(x.sum() > 0, rnp.sin, rnp.cos, x[0]) + rnp.where(x > 1, x, 0.0).sum()


def custom_rules(x):
    return jax.nn.relu(x).sum() + jax.scipy.special.logsumexp(x) + jax.nn.softmax(x)[0]


def checkpointed(x):
    return jax.checkpoint(lambda x: rnp.sin(rnp.sin(x)).sum())(x)


def until(x):
    return jax.lax.fori_loop(0, 3, lambda i, y: y + rnp.sin(y) * i, x).sum()


@jax.custom_vjp
def clipped(x):
    return x * 2


clipped.defvjp(lambda x: (x * 2, x), lambda x, ct: (rnp.clip(ct * x, -1, 1),))


def own_vjp(x):
    return clipped(x).sum()


PROGRAMS = [decay, factored, branching, custom_rules, checkpointed, until, own_vjp]


@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda fun: fun.__name__)
def test_values_and_derivatives_are_jaxs(fun):
    x = np.array([0.5, 1.5, -0.25], np.float32)
    mine, xs = from_jax(fun), jnp.stack([x, x + 1])
    near = {"rtol": 2e-6, "atol": 2e-6}
    np.testing.assert_allclose(mine(x), fun(x), **near)
    np.testing.assert_allclose(mj.jit(mine)(x), jax.jit(fun)(x), **near)
    np.testing.assert_allclose(mj.grad(mine)(jnp.asarray(x)), jax.grad(fun)(x), **near)
    np.testing.assert_allclose(mj.jit(mj.vmap(mj.grad(mine)))(xs), jax.vmap(jax.grad(fun))(np.asarray(xs)), **near)
