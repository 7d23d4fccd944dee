"""``odeint`` beside JAX's: solutions, gradients by everything, transformations, wrong use."""

from __future__ import annotations

import jax
import jax.numpy as rnp
import numpy as np
import pytest
from jax.experimental.ode import odeint as theirs

import minijax
import minijax.numpy as jnp
from minijax.experimental.ode import odeint as ours

TIMES = np.linspace(0, 1, 3).astype(np.float32)
START = {"x": np.array(1.0, np.float32), "v": np.array([0.0, 0.5], np.float32)}
A, P = np.float32(2.0), np.array([1.5, 0.5], np.float32)


def pendulum(np_, ode):
    def slope(y, t, a, p):
        return {"x": (y["v"] * p).sum(), "v": -a * np_.sin(y["x"]) - 0.1 * y["v"] * t}

    def solve(y0, ts, a, p):
        return ode(slope, y0, ts, a, p, rtol=1e-5, atol=1e-6)

    def loss(*args):
        found = solve(*args)
        return found["x"].sum() + (found["v"] ** 2).sum()

    return solve, loss


MINE, REAL = pendulum(jnp, ours), pendulum(rnp, theirs)


def arrays(np_):
    return jax.tree.map(np_.asarray, (START, TIMES, A, P))


def check(mine, real, rtol=1e-6):
    mine, real = jax.tree.leaves(mine), jax.tree.leaves(real)
    assert [(x.shape, x.dtype) for x in mine] == [(x.shape, x.dtype) for x in real]
    for x, y in zip(mine, real, strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=rtol, atol=1e-7)


def test_solutions_and_gradients_are_jaxs():
    every = (0, 1, 2, 3)
    value, gradient = minijax.jit(minijax.value_and_grad(MINE[1], argnums=every))(*arrays(jnp))
    expected = jax.jit(jax.value_and_grad(REAL[1], argnums=every))(*arrays(rnp))
    check((value, gradient), expected, rtol=1e-5)


def test_what_the_slope_closes_over_is_differentiated_and_mapped():
    ts = jnp.asarray(TIMES)

    def decay(rate, y0):
        return ours(lambda y, t: -rate * y, y0, ts, rtol=1e-6, hmax=0.5)[-1]

    rates = jnp.array([0.5, 1.0])
    np.testing.assert_allclose(minijax.vmap(decay, in_axes=(0, None))(rates, 2.0), 2 * np.exp(-rates), rtol=1e-5)
    np.testing.assert_allclose(minijax.grad(decay)(0.5, 2.0), -2 * np.exp(-0.5), rtol=1e-4)
    # so few steps do not get there: what the last polynomial says is far from the solution
    assert not np.allclose(ours(lambda y, t: -y, 2.0, ts, mxstep=1)[-1], 2 * np.exp(-1.0), rtol=1e-3)


@pytest.mark.parametrize(
    "args", [(1.0, np.arange(3)), (1.0, TIMES, "text")], ids=["times that are integers", "an argument that is no array"]
)
def test_wrong_use(args):
    for ode in (ours, theirs):
        with pytest.raises(TypeError):
            ode(lambda y, t, *rest: y, *args)
