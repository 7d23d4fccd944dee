"""A variational autoencoder: digits as clouds of points in four dimensions, and back.

The encoder gives each image the mean and the spread of a normal distribution. The decoder turns a point drawn from it
into probabilities of ink. The point is mean + spread * noise, so that the gradient passes through the draw (Kingma and
Welling, 2014). Each step draws new noise, from a key that is split off the one in the state.
"""

import jax
import jax.numpy as jnp
from sklearn.datasets import load_digits

PIXELS, HIDDEN, LATENT, RATE = 64, 32, 4, 0.02


def data(count=64):
    """Images in black and white, one in each row."""
    images, _ = load_digits(return_X_y=True)
    return (jnp.asarray(images[:count] > 7, jnp.float32),)


def start():
    """The parameters, and the random key for the noise."""
    key, *keys = jax.random.split(jax.random.key(4), 5)
    shapes = {
        "encode": (PIXELS, HIDDEN),
        "describe": (HIDDEN, 2 * LATENT),
        "decode": (LATENT, HIDDEN),
        "draw": (HIDDEN, PIXELS),
    }
    params = {
        name: (jax.random.normal(each, shape) * shape[0] ** -0.5, jnp.zeros(shape[1]))
        for each, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    return params, key


def dense(layer, x):
    weights, biases = layer
    return x @ weights + biases


def encode(params, image):
    """The mean and the logarithm of the spread of the points for one image."""
    return jnp.split(dense(params["describe"], jnp.tanh(dense(params["encode"], image))), 2)


def decode(params, point):
    """For each pixel, the logarithm of the odds that it has ink."""
    return dense(params["draw"], jnp.tanh(dense(params["decode"], point)))


def bound(params, key, image):
    """The evidence lower bound of one image, in nats: log-likelihood minus divergence."""
    mean, log_spread = encode(params, image)
    point = mean + jnp.exp(log_spread) * jax.random.normal(key, mean.shape)
    odds = decode(params, point)
    log_probability = jnp.sum(image * odds - jax.nn.softplus(odds))
    # the divergence of this normal distribution from the standard one, in closed form
    divergence = jnp.sum(0.5 * (jnp.exp(2 * log_spread) + mean**2 - 1) - log_spread)
    return log_probability - divergence


def loss(params, key, images):
    keys = jax.random.split(key, len(images))
    return -jnp.mean(jax.vmap(bound, in_axes=(None, 0, 0))(params, keys, images))


def step(state, images):
    params, key = state
    key, used = jax.random.split(key)
    value, slope = jax.value_and_grad(loss)(params, used, images)
    return (jax.tree.map(lambda leaf, change: leaf - RATE * change, params, slope), key), value


def example():
    """The arguments of ``loss`` at the first step."""
    params, key = start()
    return params, jax.random.split(key)[1], *data()


if __name__ == "__main__":
    state, batch, jitted = start(), data(512), jax.jit(step)
    for number in range(501):
        state, value = jitted(state, *batch)
        if number % 50 == 0:
            print(f"step {number:3}  minus the bound {value:.3f} nats an image")
