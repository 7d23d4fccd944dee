"""A model of Flax, trained with Optax: a description, and a tree of parameters beside it.

A module of Flax's linen describes a computation. ``init`` runs it once to find shapes and draws parameters;
``apply`` runs it with given parameters. With ``replacing_jax``, Flax and Optax run unchanged on minijax.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_digits


class Reader(nn.Module):
    """A small convolutional network with layer norm."""

    @nn.compact
    def __call__(self, images):
        x = nn.relu(nn.Conv(8, (3, 3))(images))
        x = nn.max_pool(x, (2, 2), strides=(2, 2)).reshape(len(x), -1)
        return nn.Dense(10)(nn.LayerNorm()(x))


MODEL = Reader()
OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-2, 200)))


def data(count=32):
    images, labels = load_digits(return_X_y=True)
    pixels = jnp.asarray(images[:count] / 16.0, jnp.float32).reshape(count, 8, 8, 1)
    return pixels, jnp.asarray(labels[:count], jnp.int32)


def start():
    """The parameters, and the state of the optimizer."""
    params = MODEL.init(jax.random.key(12), jnp.zeros((1, 8, 8, 1)))
    return params, OPTIMIZER.init(params)


def loss(params, images, labels):
    scores = MODEL.apply(params, images)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(scores, labels))


def step(state, images, labels):
    params, moments = state
    value, slope = jax.value_and_grad(loss)(params, images, labels)
    updates, moments = OPTIMIZER.update(slope, moments, params)
    return (optax.apply_updates(params, updates), moments), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start()[0], *data()


if __name__ == "__main__":
    state, batch, jitted = start(), data(), jax.jit(step)
    for number in range(101):
        state, value = jitted(state, *batch)
        if number % 10 == 0:
            print(f"step {number:3}  loss {value:.4f}")
