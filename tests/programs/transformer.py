"""A transformer learns to write this file, a character after the other.

Attention lets every character look at those before it: a query at each place is compared with the keys of all places,
and what it takes along is a mean of their values, weighted by the comparison. The optimizer is Adam, written out.
"""

from pathlib import Path

import jax
import jax.numpy as jnp

CONTEXT, WIDTH, HEADS, LAYERS = 32, 32, 4, 2
RATE, DECAY_OF_MEAN, DECAY_OF_SQUARE, TINY = 3e-3, 0.9, 0.99, 1e-8


def data(count=8):
    """Windows of the text as numbers from 0 to 127; the last character of each is only predicted."""
    text = Path(__file__).read_bytes()
    windows = [list(text[at : at + CONTEXT + 1]) for at in range(0, count * CONTEXT, CONTEXT)]
    return (jnp.array(windows, jnp.int32),)


def start():
    """The parameters, the two running means that Adam keeps for each, and the number of steps taken."""
    key = jax.random.key(2)

    def weights(number, *shape):
        return jax.random.normal(jax.random.fold_in(key, number), shape) * shape[0] ** -0.5

    def layer(number):
        return {
            "look": weights(number, WIDTH, 3, HEADS, WIDTH // HEADS),  # queries, keys and values
            "take": weights(number + 1, WIDTH, WIDTH),
            "widen": weights(number + 2, WIDTH, 4 * WIDTH),
            "narrow": weights(number + 3, 4 * WIDTH, WIDTH),
            "scales": jnp.ones((2, WIDTH)),
        }

    params = {
        "characters": weights(0, 128, WIDTH),
        "places": weights(1, CONTEXT, WIDTH),
        "layers": [layer(10 * number) for number in range(1, LAYERS + 1)],
        "head": weights(2, WIDTH, 128),
    }
    zeros = jax.tree.map(jnp.zeros_like, params)
    return params, zeros, zeros, 0


def normalize(x, scale):
    """Layer norm: scale the numbers at each position to mean 0 and variance 1."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return scale * centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def attend(layer, x):
    """A weighted mean of the values up to each position. ``x`` has shape (positions, WIDTH); axis h is the head."""
    query, key, value = jnp.einsum("pw,wkhd->khpd", x, layer["look"])
    scores = jnp.einsum("hpd,hqd->hpq", query, key) / (WIDTH // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -jnp.inf)
    taken = jnp.einsum("hpq,hqd->phd", jax.nn.softmax(scores), value)
    return taken.reshape(x.shape) @ layer["take"]


def predict(params, characters):
    """Log probabilities of the next character after each character of one window."""
    x = params["characters"][characters] + params["places"]
    for layer in params["layers"]:
        x = x + attend(layer, normalize(x, layer["scales"][0]))
        x = x + jax.nn.gelu(normalize(x, layer["scales"][1]) @ layer["widen"]) @ layer["narrow"]
    return jax.nn.log_softmax(x @ params["head"])


def loss(params, windows):
    predicted = jax.vmap(predict, in_axes=(None, 0))(params, windows[:, :-1])
    return -jnp.mean(jnp.take_along_axis(predicted, windows[:, 1:, None], axis=-1))


def step(state, windows):
    """Adam: the step is the running mean of the gradients, divided by their root mean square."""
    params, mean, square, taken = state
    value, slope = jax.value_and_grad(loss)(params, windows)
    taken = taken + 1
    mean = jax.tree.map(lambda old, new: DECAY_OF_MEAN * old + (1 - DECAY_OF_MEAN) * new, mean, slope)
    square = jax.tree.map(lambda old, new: DECAY_OF_SQUARE * old + (1 - DECAY_OF_SQUARE) * new**2, square, slope)
    mean_unbias, square_unbias = 1 - DECAY_OF_MEAN**taken, 1 - DECAY_OF_SQUARE**taken  # both means start at zero

    def moved(leaf, mean, square):
        return leaf - RATE * (mean / mean_unbias) / (jnp.sqrt(square / square_unbias) + TINY)

    return (jax.tree.map(moved, params, mean, square), mean, square, taken), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start()[0], *data()


if __name__ == "__main__":
    state, batch, jitted = start(), data(100), jax.jit(step)
    for number in range(101):
        state, value = jitted(state, *batch)
        if number % 10 == 0:
            print(f"step {number:3}  loss {value:.4f}")
