"""Hamiltonian Monte Carlo: many chains draw from a bent density, side by side.

A chain is a ball that rolls on a landscape, whose height is minus the log density, from a push in a random direction.
Rolling is simulated by leapfrog steps, and accepted with a probability that makes up for their error. One chain is
written; ``vmap`` makes many of it, each with a key of its own.
"""

import jax
import jax.numpy as jnp
from jax import lax

CHAINS, LEAPS, LENGTH = 16, 8, 0.1


def energy(place):
    """The height of the landscape: a banana, where y is about x squared."""
    x, y = place
    return 0.5 * x**2 + 2.0 * (y - x**2) ** 2


def data():
    return ()


def start():
    """Chains that begin far from where the density is, and the key that they draw with."""
    key, drawn = jax.random.split(jax.random.key(5))
    return jnp.array([2.0, -1.0]) + 0.5 * jax.random.normal(drawn, (CHAINS, 2)), key


def loss(places):
    """The mean height of the chains, which falls until they are where the density is."""
    return jnp.mean(jax.vmap(energy)(places))


def rolled(place, momentum):
    """Where the ball is after ``LEAPS`` leaps, and how it moves then: half a push, then moves and pushes by turns."""
    push = jax.grad(energy)

    def leap(_, state):
        place, momentum = state
        momentum = momentum - 0.5 * LENGTH * push(place)
        place = place + LENGTH * momentum
        return place, momentum - 0.5 * LENGTH * push(place)

    return lax.fori_loop(0, LEAPS, leap, (place, momentum))


def draw(key, place):
    """The next place of one chain."""
    key_of_momentum, key_of_acceptance = jax.random.split(key)
    momentum = jax.random.normal(key_of_momentum, place.shape)
    there, momentum_there = rolled(place, momentum)
    before = energy(place) + 0.5 * jnp.sum(momentum**2)
    after = energy(there) + 0.5 * jnp.sum(momentum_there**2)
    accepted = jnp.log(jax.random.uniform(key_of_acceptance)) < before - after
    return jnp.where(accepted, there, place)


def step(state):
    """One draw of every chain."""
    places, key = state
    key, *keys = jax.random.split(key, CHAINS + 1)
    return (jax.vmap(draw)(jnp.stack(keys), places), key), loss(places)


def example():
    """What ``loss`` is called with at the first step."""
    return (start()[0],)


if __name__ == "__main__":
    state, jitted, drawn = start(), jax.jit(step), []
    for _ in range(1000):
        state, value = jitted(state)
        drawn.append(state[0])
    places = jnp.concatenate(drawn[100:])
    print(f"mean of x {jnp.mean(places[:, 0]):.3f} (0), of x squared {jnp.mean(places[:, 0] ** 2):.3f} (1)")
    print(f"mean of y {jnp.mean(places[:, 1]):.3f} (1)")
