"""One step of Adam, written out: what an optimizer does with a gradient.

The gradient is large along a steep direction and small along a flat one, so plain descent goes too far along one or
hardly moves along the other. Adam keeps a running mean of each parameter's gradient, and one of its square. A step is
the mean divided by the root of the mean square, so it is about equally long in every direction (Kingma and Ba, 2015).
None of this is differentiated: it runs after the gradient, on trees, leaf by leaf.
"""

import jax
import jax.numpy as jnp

RATE, DECAY_OF_MEAN, DECAY_OF_SQUARE, TINY = 0.1, 0.9, 0.999, 1e-8


def data(count=16):
    """Points on the x axis, and the values of a line there. The line's slope is much larger than its offset."""
    places = jnp.linspace(-1.0, 1.0, count)
    return places, 20.0 * places + 0.5


def start():
    """The parameters, the two running means of their gradients, and the number of steps taken."""
    params = {"slope": jnp.array(0.0), "offset": jnp.array(0.0)}
    zeros = jax.tree.map(jnp.zeros_like, params)
    return params, zeros, zeros, 0


def loss(params, places, values):
    """The mean squared error of the line at the data."""
    return jnp.mean((params["slope"] * places + params["offset"] - values) ** 2)


def fading(decay, old, new):
    """The running mean after one more value: the weight of older values decays exponentially."""
    return jax.tree.map(lambda old, new: decay * old + (1 - decay) * new, old, new)


def update(slope, mean, square, taken):
    """The change of each parameter in this step, and the new running means."""
    mean = fading(DECAY_OF_MEAN, mean, slope)
    square = fading(DECAY_OF_SQUARE, square, jax.tree.map(jnp.square, slope))

    def change(mean, square):
        # both means start at zero, so they are too small by these factors
        mean = mean / (1 - DECAY_OF_MEAN**taken)
        square = square / (1 - DECAY_OF_SQUARE**taken)
        return -RATE * mean / (jnp.sqrt(square) + TINY)

    return jax.tree.map(change, mean, square), mean, square


def step(state, places, values):
    params, mean, square, taken = state
    value, slope = jax.value_and_grad(loss)(params, places, values)
    taken = taken + 1
    change, mean, square = update(slope, mean, square, taken)
    return (jax.tree.map(jnp.add, params, change), mean, square, taken), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start()[0], *data()


if __name__ == "__main__":
    state, batch, jitted = start(), data(), jax.jit(step)
    for number in range(501):
        state, value = jitted(state, *batch)
        if number % 50 == 0:
            found = {name: round(float(leaf), 3) for name, leaf in state[0].items()}
            print(f"step {number:3}  loss {value:.4f}  {found}")
