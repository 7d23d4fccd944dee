"""A model of Equinox, trained with Optax: the model is itself the tree of parameters.

A module of Equinox is a frozen dataclass and a pytree. Some leaves are arrays, others are not: the activation is
a function. ``filter_value_and_grad`` differentiates with respect to the arrays only. With ``replacing_jax``,
Equinox and Optax run unchanged on minijax.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_digits

OPTIMIZER = optax.adam(1e-2)


class Reader(eqx.Module):
    """A perceptron whose input is normalised."""

    norm: eqx.nn.LayerNorm
    layers: eqx.nn.MLP

    def __init__(self, key):
        self.norm = eqx.nn.LayerNorm(64)
        self.layers = eqx.nn.MLP(64, 10, width_size=32, depth=1, activation=jnp.tanh, key=key)

    def __call__(self, image):
        return jax.nn.log_softmax(self.layers(self.norm(image)))


def data(count=64):
    images, labels = load_digits(return_X_y=True)
    return jnp.asarray(images[:count] / 16.0, jnp.float32), jnp.asarray(labels[:count], jnp.int32)


def start():
    """The model's arrays, and the state of the optimizer."""
    arrays, _ = split()
    return arrays, OPTIMIZER.init(arrays)


def split():
    """The model's trained leaves and its other leaves, as two trees; ``eqx.combine`` joins them again."""
    return eqx.partition(Reader(jax.random.key(11)), eqx.is_inexact_array)


def loss(arrays, images, labels):
    model = eqx.combine(arrays, split()[1])
    predicted = jax.vmap(model)(images)
    return -jnp.mean(jnp.take_along_axis(predicted, labels[:, None], axis=1))


def step(state, images, labels):
    arrays, moments = state
    value, slope = eqx.filter_value_and_grad(loss)(arrays, images, labels)
    updates, moments = OPTIMIZER.update(slope, moments, arrays)
    return (eqx.apply_updates(arrays, updates), moments), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start()[0], *data()


if __name__ == "__main__":
    state, batch, jitted = start(), data(), eqx.filter_jit(step)
    for number in range(101):
        state, value = jitted(state, *batch)
        if number % 10 == 0:
            print(f"step {number:3}  loss {value:.4f}")
