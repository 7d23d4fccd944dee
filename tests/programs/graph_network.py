"""A graph network finds two circles of friends from who knows whom.

Two lists of numbers store the graph: the two ends of each edge. In each round every edge carries a message from one
end to the other, and ``segment_sum`` adds the messages at each node. The gradient goes the other way: each edge reads
the cotangent of its receiver. Training uses the circles of four people; the network predicts those of the others.
"""

import jax
import jax.numpy as jnp
import numpy as np

NODES, WIDTH, ROUNDS, RATE = 24, 8, 2, 0.3


def data():
    """Senders, receivers (each edge in both directions), and circles. Most friends are in the same circle."""
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
    """Log probabilities of the two circles: one row for each person."""
    people = params["people"]
    friends = jax.ops.segment_sum(jnp.ones(len(receivers)), receivers, NODES)
    for own, others in params["rounds"]:
        heard = jax.ops.segment_sum(people[senders], receivers, NODES) / jnp.maximum(friends, 1.0)[:, None]
        people = jnp.tanh(people @ own + heard @ others)
    return jax.nn.log_softmax(people @ params["read"])


def loss(params, senders, receivers, circle, known=4):
    """The mean negative log probability of the right circle, over the people whose circle is known."""
    predicted = predict(params, senders, receivers)
    return -jnp.mean(predicted[jnp.arange(known), circle[:known]])


def step(params, senders, receivers, circle):
    value, slope = jax.value_and_grad(loss)(params, senders, receivers, circle)
    return jax.tree.map(lambda leaf, change: leaf - RATE * change, params, slope), value


def example():
    """The arguments of ``loss`` at the first step."""
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
