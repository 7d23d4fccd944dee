"""A Gaussian process draws a curve with its doubt through points, and learns how smooth it is.

Points near each other have similar values: the covariance says how similar. Its Cholesky factor gives the log
likelihood of the values with a triangular solve and a sum of logarithms. The gradient of the likelihood fits the three
parameters of the covariance (Rasmussen and Williams, 2006, algorithm 2.1).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

RATE = 0.1


def data(count=20):
    """Noisy values of a curve at a few points."""
    random = np.random.default_rng(1)
    places = np.sort(random.uniform(-3.0, 3.0, count))
    values = np.sin(2.0 * places) + 0.1 * random.standard_normal(count)
    return jnp.asarray(places, jnp.float32), jnp.asarray(values, jnp.float32)


def start():
    """The logarithms of the curve's size, of the length scale on which it changes, and of the noise."""
    return {"size": jnp.array(0.5), "length": jnp.array(1.0), "noise": jnp.array(-1.0)}


def covariance(params, a, b):
    """The covariance of the curve's values at points ``a`` with those at points ``b``: (len(a), len(b))."""
    distance = (a[:, None] - b[None, :]) / jnp.exp(params["length"])
    return jnp.exp(2.0 * params["size"] - 0.5 * distance**2)


def factored(params, places):
    """The lower triangular L such that L L^T is the covariance of the noisy values."""
    noise = jnp.exp(2.0 * params["noise"]) * jnp.eye(len(places))
    return jnp.linalg.cholesky(covariance(params, places, places) + noise)


def loss(params, places, values):
    """The negative log likelihood of the values, divided by their number."""
    factor = factored(params, places)
    white = solve_triangular(factor, values, lower=True)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    return 0.5 * (white @ white + log_determinant) / len(values) + 0.5 * jnp.log(2.0 * jnp.pi)


def predict(params, places, values, new):
    """The mean and the standard deviation of the curve at the points ``new``."""
    factor = factored(params, places)
    across = solve_triangular(factor, covariance(params, places, new), lower=True)
    mean = across.T @ solve_triangular(factor, values, lower=True)
    return mean, jnp.sqrt(jnp.exp(2.0 * params["size"]) - jnp.sum(across**2, axis=0))


def step(params, places, values):
    value, slope = jax.value_and_grad(loss)(params, places, values)
    return jax.tree.map(lambda leaf, change: leaf - RATE * change, params, slope), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start(), *data()


if __name__ == "__main__":
    params, batch, jitted = start(), data(), jax.jit(step)
    for number in range(301):
        params, value = jitted(params, *batch)
        if number % 30 == 0:
            print(f"step {number:3}  loss {value:.4f}")
    new = jnp.linspace(-3.0, 3.0, 7)
    for place, mean, doubt in zip(new, *predict(params, *batch, new), strict=True):
        print(f"at {place:4.1f}: {mean:6.3f} +- {doubt:.3f}  (the curve: {jnp.sin(2.0 * place):6.3f})")
