"""Gradients of single examples: a model that no single example can mark much.

``vmap(grad(loss))`` gives the gradient of every single example, without a loop and without a change to the loss. For
private learning each gradient is shortened to a maximum length, their sum is taken, and noise is added (Abadi and
others, 2016). Then the model hardly shows whether an example was in the data.
"""

import jax
import jax.numpy as jnp
from sklearn.datasets import load_digits

RATE, LONGEST, NOISE = 0.5, 1.0, 0.3


def data(count=64):
    """Images of the digits, and 1 for each odd digit, else 0."""
    images, labels = load_digits(return_X_y=True)
    return jnp.asarray(images[:count] / 16.0, jnp.float32), jnp.asarray(labels[:count] % 2, jnp.float32)


def start():
    """The parameters, and the random key for the noise."""
    return {"weights": jnp.zeros(64), "bias": jnp.zeros(())}, jax.random.key(9)


def loss_of_one(params, image, odd):
    """The cross entropy of one example."""
    odds = image @ params["weights"] + params["bias"]
    return jax.nn.softplus(odds) - odd * odds


def loss(params, images, odd):
    return jnp.mean(jax.vmap(loss_of_one, in_axes=(None, 0, 0))(params, images, odd))


def cut(tree):
    """A gradient, shortened to the length ``LONGEST`` if it is longer."""
    length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))
    return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, LONGEST / length), tree)


def noise_like(key, tree):
    leaves, form = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    return form.unflatten([jax.random.normal(each, leaf.shape) for each, leaf in zip(keys, leaves, strict=True)])


def step(state, images, odd):
    params, key = state
    key, used = jax.random.split(key)
    slopes = jax.vmap(jax.grad(loss_of_one), in_axes=(None, 0, 0))(params, images, odd)  # first axis: the examples
    total = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), jax.vmap(cut)(slopes))

    def moved(leaf, sum_of_slopes, noise):
        return leaf - RATE * (sum_of_slopes + LONGEST * NOISE * noise) / len(images)

    return (jax.tree.map(moved, params, total, noise_like(used, params)), key), loss(params, images, odd)


def example():
    """The arguments of ``loss`` at the first step."""
    return start()[0], *data()


if __name__ == "__main__":
    state, batch, jitted = start(), data(1000), jax.jit(step)
    for number in range(201):
        state, value = jitted(state, *batch)
        if number % 20 == 0:
            print(f"step {number:3}  loss {value:.4f}")
