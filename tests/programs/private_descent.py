"""Gradients of single examples: a model that no single example can mark much.

``vmap(grad(loss))`` gives the gradient of every example by itself, without a loop and without a change to the loss. For
private learning each is cut to a bounded length before they are added, and noise is added to the sum (Abadi and others,
2016): whether an example was there can then hardly be told.
"""

import jax
import jax.numpy as jnp
from sklearn.datasets import load_digits

RATE, LONGEST, NOISE = 0.5, 1.0, 0.3


def data(count=64):
    """Images of the digits, and whether these are odd."""
    images, labels = load_digits(return_X_y=True)
    return jnp.asarray(images[:count] / 16.0, jnp.float32), jnp.asarray(labels[:count] % 2, jnp.float32)


def start():
    """The parameters, and the key that noise is drawn with."""
    return {"weights": jnp.zeros(64), "bias": jnp.zeros(())}, jax.random.key(9)


def loss_of_one(params, image, odd):
    """Cross entropy of one example."""
    odds = image @ params["weights"] + params["bias"]
    return jax.nn.softplus(odds) - odd * odds


def loss(params, images, odd):
    return jnp.mean(jax.vmap(loss_of_one, in_axes=(None, 0, 0))(params, images, odd))


def cut(tree):
    """A gradient, shortened to ``LONGEST`` if it is longer than that."""
    length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))
    return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, LONGEST / length), tree)


def noise_like(key, tree):
    leaves, form = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    return form.unflatten([jax.random.normal(each, leaf.shape) for each, leaf in zip(keys, leaves, strict=True)])


def step(state, images, odd):
    params, key = state
    key, used = jax.random.split(key)
    slopes = jax.vmap(jax.grad(loss_of_one), in_axes=(None, 0, 0))(params, images, odd)  # a leading axis: the examples
    total = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), jax.vmap(cut)(slopes))

    def moved(leaf, sum_of_slopes, noise):
        return leaf - RATE * (sum_of_slopes + LONGEST * NOISE * noise) / len(images)

    return (jax.tree.map(moved, params, total, noise_like(used, params)), key), loss(params, images, odd)


def example():
    """What ``loss`` is called with at the first step."""
    return start()[0], *data()


if __name__ == "__main__":
    state, batch, jitted = start(), data(1000), jax.jit(step)
    for number in range(201):
        state, value = jitted(state, *batch)
        if number % 20 == 0:
            print(f"step {number:3}  loss {value:.4f}")
