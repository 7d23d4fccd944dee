"""A perceptron with one hidden layer learns to read handwritten digits.

The parameters are a list of dictionaries, which is a pytree. ``grad`` returns a tree of the same form, and ``tree.map``
moves every leaf one step against its gradient. That is the whole optimizer.
"""

import jax
import jax.numpy as jnp
from sklearn.datasets import load_digits

SIZES = (64, 32, 10)  # pixels of an image, hidden units, digits
RATE = 0.5


def data(count=256):
    """Images of 8 by 8 pixels, one in each row, and the digits that they show."""
    images, labels = load_digits(return_X_y=True)
    return jnp.asarray(images[:count] / 16.0, jnp.float32), jnp.asarray(labels[:count], jnp.int32)


def start():
    """Random weights, scaled so that activations stay about equally large from layer to layer."""
    keys = jax.random.split(jax.random.key(0), len(SIZES) - 1)
    return [
        {"weights": jax.random.normal(key, (inputs, outputs)) * jnp.sqrt(2.0 / inputs), "biases": jnp.zeros(outputs)}
        for key, inputs, outputs in zip(keys, SIZES[:-1], SIZES[1:], strict=True)
    ]


def predict(params, image):
    """Log probabilities of the digits for one image; ``vmap`` makes this work on batches."""
    *hidden, last = params
    for layer in hidden:
        image = jnp.tanh(image @ layer["weights"] + layer["biases"])
    scores = image @ last["weights"] + last["biases"]
    return scores - jax.nn.logsumexp(scores)


def loss(params, images, labels):
    """The mean negative log probability of the right digit."""
    predicted = jax.vmap(predict, in_axes=(None, 0))(params, images)
    return -jnp.mean(predicted[jnp.arange(len(labels)), labels])


def step(params, images, labels):
    """Gradient descent: the new parameters, and the loss before the step."""
    value, slope = jax.value_and_grad(loss)(params, images, labels)
    return jax.tree.map(lambda leaf, change: leaf - RATE * change, params, slope), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start(), *data()


if __name__ == "__main__":
    params, batch, jitted = start(), data(), jax.jit(step)
    for number in range(201):
        params, value = jitted(params, *batch)
        if number % 20 == 0:
            print(f"step {number:3}  loss {value:.4f}")
    images, labels = batch
    right = jnp.argmax(jax.vmap(predict, in_axes=(None, 0))(params, images), axis=1) == labels
    print(f"{jnp.mean(right):.1%} of these digits are read rightly")
