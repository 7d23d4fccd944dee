"""A convolutional network reads handwritten digits.

A convolution slides one small kernel over the whole image, so it recognises a stroke anywhere. Pooling keeps the
largest of each two by two values. Images have the axes batch, height, width, channels: the letters NHWC tell
``conv_general_dilated`` so. Descent uses momentum: a second tree, of the same form, has the velocities.
"""

import jax
import jax.numpy as jnp
from jax import lax
from sklearn.datasets import load_digits

RATE, MOMENTUM = 0.05, 0.9


def data(count=64):
    images, labels = load_digits(return_X_y=True)
    pixels = jnp.asarray(images[:count] / 16.0, jnp.float32).reshape(count, 8, 8, 1)
    return pixels, jax.nn.one_hot(labels[:count], 10)


def start():
    """The parameters, and zero velocities."""
    first, second, last = jax.random.split(jax.random.key(1), 3)
    params = {
        "first": jax.random.normal(first, (3, 3, 1, 8)) * 0.3,  # height, width, channels in, channels out (HWIO)
        "second": jax.random.normal(second, (3, 3, 8, 16)) * 0.1,
        "head": jax.random.normal(last, (16, 10)) * 0.2,
        "biases": jnp.zeros(10),
    }
    return params, jax.tree.map(jnp.zeros_like, params)


def convolve(images, kernel):
    """Convolve images with a kernel. Zero padding keeps the height and width."""
    return lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def largest_of_four(images):
    return lax.reduce_window(images, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def predict(params, images):
    """Log probabilities of the digits: one row for each image."""
    images = largest_of_four(jax.nn.relu(convolve(images, params["first"])))
    images = jax.nn.relu(convolve(images, params["second"]))
    features = jnp.mean(images, axis=(1, 2))
    return jax.nn.log_softmax(features @ params["head"] + params["biases"])


def loss(params, images, targets):
    return -jnp.mean(jnp.sum(targets * predict(params, images), axis=1))


def step(state, images, targets):
    """Descent with momentum: the velocity is a decaying sum of the past gradients."""
    params, velocity = state
    value, slope = jax.value_and_grad(loss)(params, images, targets)
    velocity = jax.tree.map(lambda speed, change: MOMENTUM * speed - RATE * change, velocity, slope)
    return (jax.tree.map(jnp.add, params, velocity), velocity), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start()[0], *data()


if __name__ == "__main__":
    state, batch, jitted = start(), data(512), jax.jit(step)
    for number in range(201):
        state, value = jitted(state, *batch)
        if number % 20 == 0:
            print(f"step {number:3}  loss {value:.4f}")
    images, targets = batch
    right = jnp.argmax(predict(state[0], images), axis=1) == jnp.argmax(targets, axis=1)
    print(f"{jnp.mean(right):.1%} of these digits are read rightly")
