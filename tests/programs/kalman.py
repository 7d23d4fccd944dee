"""A Kalman filter follows a thing through noise, and its likelihood finds how much noise there is.

The hidden state is position and speed; only the position is measured. The filter is a ``scan``: it predicts the next
state, compares it with the measurement, and corrects it. Each comparison has a log density. Their sum is the log
likelihood of the noise parameters, and its gradient goes through the whole filter.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MOTION = jnp.array([[1.0, 1.0], [0.0, 1.0]])  # the position grows by the speed; the speed stays
SEEN = jnp.array([1.0, 0.0])
RATE = 0.2


def data(length=30):
    """Measurements, with an error of about 1, of an object whose speed changes by about 0.3 each time."""
    random = np.random.default_rng(0)
    speed = np.cumsum(0.3 * random.standard_normal(length))
    return (jnp.asarray(np.cumsum(speed) + random.standard_normal(length), jnp.float32),)


def start():
    """Logarithms of two standard deviations, of speed changes and of measurements: so both stay positive."""
    return {"speed": jnp.array(1.0), "measurement": jnp.array(1.5)}


def filtered(params, measurements):
    """The mean and covariance of the state after each measurement, and the measurement's log density."""
    drift = jnp.diag(jnp.array([0.0, 1.0])) * jnp.exp(2 * params["speed"])
    error = jnp.exp(2 * params["measurement"])

    def moment(carry, measured):
        mean, covariance = carry
        mean, covariance = MOTION @ mean, MOTION @ covariance @ MOTION.T + drift  # predict
        surprise = measured - SEEN @ mean
        spread = SEEN @ covariance @ SEEN + error
        gain = covariance @ SEEN / spread
        mean, covariance = mean + gain * surprise, covariance - jnp.outer(gain, SEEN @ covariance)  # correct
        log_density = -0.5 * (surprise**2 / spread + jnp.log(2 * jnp.pi * spread))
        return (mean, covariance), (mean, covariance, log_density)

    _, results = lax.scan(moment, (jnp.zeros(2), 10.0 * jnp.eye(2)), measurements)
    return results


def loss(params, measurements):
    """The negative log likelihood of the measurements, divided by their number."""
    return -jnp.mean(filtered(params, measurements)[2])


def step(params, measurements):
    value, slope = jax.value_and_grad(loss)(params, measurements)
    return jax.tree.map(lambda leaf, change: leaf - RATE * change, params, slope), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start(), *data()


if __name__ == "__main__":
    params, batch, jitted = start(), data(300), jax.jit(step)
    for number in range(201):
        params, value = jitted(params, *batch)
        if number % 20 == 0:
            found = {name: round(float(jnp.exp(leaf)), 3) for name, leaf in params.items()}
            print(f"step {number:3}  loss {value:.4f}  standard deviations {found}")
