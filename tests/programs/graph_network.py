"""A graph network finds two circles of friends from who knows whom.

A graph is two lists of numbers, the ends of its edges. At each round every edge carries a message from one end to the
other, and ``segment_sum`` adds up what arrives at each node: a scatter, whose transpose is the gather that picks the
senders. The network is told the circle of four people and finds that of the rest.
"""

import jax
import jax.numpy as jnp
import numpy as np

NODES, WIDTH, ROUNDS, RATE = 24, 8, 2, 0.3


def data():
    """Friends are mostly of one circle: senders, receivers (each edge in both directions), and the circles."""
    random = np.random.default_rng(2)
    circle = np.arange(NODES) % 2
    likely = np.where(circle[:, None] == circle[None, :], 0.5, 0.05)
    one, other = np.nonzero(np.triu(random.uniform(size=likely.shape) < likely, 1))
    senders, receivers = np.concatenate([one, other]), np.concatenate([other, one])
    return tuple(jnp.asarray(each, jnp.int32) for each in (senders, receivers, circle))


def start():
    keys = jax.random.split(jax.random.key(10), ROUNDS + 2)
    return {
        "people": jax.random.normal(keys[0], (NODES, WIDTH)),
        "rounds": [jax.random.normal(key, (2, WIDTH, WIDTH)) * WIDTH**-0.5 for key in keys[2:]],
        "read": jax.random.normal(keys[1], (WIDTH, 2)) * WIDTH**-0.5,
    }


def predict(params, senders, receivers):
    """Log probabilities of the two circles, a row for each person."""
    people = params["people"]
    friends = jax.ops.segment_sum(jnp.ones(len(receivers)), receivers, NODES)
    for own, others in params["rounds"]:
        heard = jax.ops.segment_sum(people[senders], receivers, NODES) / jnp.maximum(friends, 1.0)[:, None]
        people = jnp.tanh(people @ own + heard @ others)
    return jax.nn.log_softmax(people @ params["read"])


def loss(params, senders, receivers, circle, known=4):
    """Of the people whose circle is known, minus the mean log probability of it."""
    predicted = predict(params, senders, receivers)
    return -jnp.mean(predicted[jnp.arange(known), circle[:known]])


def step(params, senders, receivers, circle):
    value, slope = jax.value_and_grad(loss)(params, senders, receivers, circle)
    return jax.tree.map(lambda leaf, change: leaf - RATE * change, params, slope), value


def example():
    """What ``loss`` is called with at the first step."""
    return start(), *data()


if __name__ == "__main__":
    params, batch, jitted = start(), data(), jax.jit(step)
    for number in range(101):
        params, value = jitted(params, *batch)
        if number % 10 == 0:
            print(f"step {number:3}  loss {value:.4f}")
    senders, receivers, circle = batch
    right = jnp.argmax(predict(params, senders, receivers), axis=1) == circle
    print(f"{jnp.mean(right):.0%} of the people are put into their circle")
