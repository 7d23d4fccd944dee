"""An LSTM predicts waves: a recurrent network is a ``scan`` of its cell.

The carry of the scan is the state that one time step passes to the next: (memory, output). ``scan`` is one equation of
the program, however long the wave is, and its derivative is a ``scan`` that runs backwards. Three gates between 0 and 1
choose how much of the memory to keep, how much to write into it, and how much of it to output.
"""

import jax
import jax.numpy as jnp
from jax import lax

HIDDEN, RATE = 16, 0.3


def data(waves=8, length=24):
    """Sine waves of different frequencies. The network reads all values but the last, and predicts the next of each."""
    pitch = jnp.linspace(0.3, 0.9, waves)[:, None]
    return (jnp.sin(pitch * jnp.arange(length)),)


def start():
    keys = jax.random.split(jax.random.key(3), 3)
    return {
        "input": jax.random.normal(keys[0], (1, 4 * HIDDEN)) * 0.5,
        "output": jax.random.normal(keys[1], (HIDDEN, 4 * HIDDEN)) * HIDDEN**-0.5,
        "biases": jnp.zeros(4 * HIDDEN).at[:HIDDEN].set(1.0),  # so that the cell keeps most of its memory at first
        "read": jax.random.normal(keys[2], (HIDDEN,)) * HIDDEN**-0.5,
    }


def cell(params, carry, value):
    """One time step: the new carry, and the prediction of the next value."""
    memory, output = carry
    gates = value[None] @ params["input"] + output @ params["output"] + params["biases"]
    keep, write, show, new = jnp.split(gates, 4)
    memory = jax.nn.sigmoid(keep) * memory + jax.nn.sigmoid(write) * jnp.tanh(new)
    output = jax.nn.sigmoid(show) * jnp.tanh(memory)
    return (memory, output), output @ params["read"]


def predict(params, wave):
    """The predicted next value after each value of one wave."""
    nothing = jnp.zeros(HIDDEN), jnp.zeros(HIDDEN)
    _, predicted = lax.scan(lambda carry, value: cell(params, carry, value), nothing, wave)
    return predicted


def loss(params, waves):
    predicted = jax.vmap(predict, in_axes=(None, 0))(params, waves[:, :-1])
    return jnp.mean((predicted - waves[:, 1:]) ** 2)


def step(params, waves):
    value, slope = jax.value_and_grad(loss)(params, waves)
    return jax.tree.map(lambda leaf, change: leaf - RATE * change, params, slope), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start(), *data()


if __name__ == "__main__":
    params, batch, jitted = start(), data(), jax.jit(step)
    for number in range(501):
        params, value = jitted(params, *batch)
        if number % 50 == 0:
            print(f"step {number:3}  mean squared error {value:.5f}")
