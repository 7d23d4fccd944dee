"""A layer that is defined by an equation: what it gives is the fixed point of a function.

The function is ``z -> tanh(W z + U x + b)``. ``while_loop`` finds its fixed point, but has no reverse mode. It does not
need one: by the implicit function theorem the backward pass needs the fixed point of another function,
``w -> v + w df/dz``, where ``v`` is the cotangent. The same loop finds it, with one vector-Jacobian product in each
iteration (Bai and others, 2019). ``custom_vjp`` gives JAX this rule.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

STATE, RATE, CLOSE, MOST = 8, 0.5, 1e-6, 100


def iterate(fun, z):
    """Apply ``fun`` to ``z``, then to each result, until the result no longer changes."""

    def goes_on(state):
        before, z, turns = state
        return (jnp.max(jnp.abs(z - before)) > CLOSE) & (turns < MOST)

    return lax.while_loop(goes_on, lambda state: (state[1], fun(state[1]), state[2] + 1), (z, fun(z), 0))[1]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def fixed_point(fun, params, x, guess):
    """The ``z`` that satisfies ``z = fun(params, x, z)``."""
    return iterate(lambda z: fun(params, x, z), guess)


def fixed_point_forward(fun, params, x, guess):
    z = fixed_point(fun, params, x, guess)
    return z, (params, x, z)


def fixed_point_backward(fun, residuals, cotangent):
    params, x, z = residuals
    _, of_z = jax.vjp(lambda z: fun(params, x, z), z)
    _, of_rest = jax.vjp(lambda params, x: fun(params, x, z), params, x)
    solved = iterate(lambda w: cotangent + of_z(w)[0], cotangent)
    return *of_rest(solved), jnp.zeros_like(z)  # the result does not depend on the guess


fixed_point.defvjp(fixed_point_forward, fixed_point_backward)


def layer(params, x, z):
    # the norm of this matrix is below 1 for all parameters, so there is one fixed point and the loop converges to it
    weights = params["state"] / (1.0 + jnp.sqrt(jnp.sum(params["state"] ** 2)))
    return jnp.tanh(weights @ z + params["input"] @ x + params["biases"])


def data(count=32):
    """Points of the plane, and 1 for each inside a circle, else 0."""
    points = jax.random.uniform(jax.random.key(8), (count, 2), minval=-1.0, maxval=1.0)
    return points, (jnp.sum(points**2, axis=1) < 0.6).astype(jnp.float32)


def start():
    keys = jax.random.split(jax.random.key(7), 3)
    return {
        "state": jax.random.normal(keys[0], (STATE, STATE)),
        "input": 2.0 * jax.random.normal(keys[1], (STATE, 2)),
        "biases": jax.random.normal(keys[2], (STATE,)),
        "read": jnp.zeros(STATE),
    }


def loss(params, points, inside):
    """The mean cross entropy of the predictions from the fixed points."""
    weights = {name: params[name] for name in ("state", "input", "biases")}
    states = jax.vmap(lambda point: fixed_point(layer, weights, point, jnp.zeros(STATE)))(points)
    odds = states @ params["read"]
    return jnp.mean(jax.nn.softplus(odds) - inside * odds)


def step(params, points, inside):
    value, slope = jax.value_and_grad(loss)(params, points, inside)
    return jax.tree.map(lambda leaf, change: leaf - RATE * change, params, slope), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start(), *data()


if __name__ == "__main__":
    params, batch, jitted = start(), data(200), jax.jit(step)
    for number in range(501):
        params, value = jitted(params, *batch)
        if number % 50 == 0:
            print(f"step {number:3}  loss {value:.4f}")
