"""Hamiltonian Monte Carlo: many chains draw from a bent density, side by side.

A chain moves like a ball on a landscape, whose height is minus the log density, after a push in a random direction.
Leapfrog steps simulate the motion; a random test accepts or rejects its end, which corrects the error of the steps. The
code is written for one chain; ``vmap`` runs many chains, each with its own key.
"""

import jax
import jax.numpy as jnp
from jax import lax

CHAINS, LEAPS, LENGTH = 16, 8, 0.1


def energy(place):
    """The height of the landscape: a curved valley, in which y is about x squared."""
    x, y = place
    return 0.5 * x**2 + 2.0 * (y - x**2) ** 2


def data():
    return ()


def start():
    """The starting points of the chains, far from where the density is high, and the random key."""
    key, drawn = jax.random.split(jax.random.key(5))
    return jnp.array([2.0, -1.0]) + 0.5 * jax.random.normal(drawn, (CHAINS, 2)), key


def loss(places):
    """The mean height of the chains. It falls until the chains reach the region of high density."""
    return jnp.mean(jax.vmap(energy)(places))


def rolled(place, momentum):
    """The position and the momentum after ``LEAPS`` leapfrog steps. Each is half a push, a move, and half a push."""
    push = jax.grad(energy)

    def leap(_, state):
        place, momentum = state
        momentum = momentum - 0.5 * LENGTH * push(place)
        place = place + LENGTH * momentum
        return place, momentum - 0.5 * LENGTH * push(place)

    return lax.fori_loop(0, LEAPS, leap, (place, momentum))


def draw(key, place):
    """The next position of one chain."""
    key_of_momentum, key_of_acceptance = jax.random.split(key)
    momentum = jax.random.normal(key_of_momentum, place.shape)
    there, momentum_there = rolled(place, momentum)
    before = energy(place) + 0.5 * jnp.sum(momentum**2)
    after = energy(there) + 0.5 * jnp.sum(momentum_there**2)
    accepted = jnp.log(jax.random.uniform(key_of_acceptance)) < before - after
    return jnp.where(accepted, there, place)


def step(state):
    """One new position for every chain."""
    places, key = state
    key, *keys = jax.random.split(key, CHAINS + 1)
    return (jax.vmap(draw)(jnp.stack(keys), places), key), loss(places)


def example():
    """The arguments of ``loss`` at the first step."""
    return (start()[0],)


if __name__ == "__main__":
    state, jitted, drawn = start(), jax.jit(step), []
    for _ in range(1000):
        state, value = jitted(state)
        drawn.append(state[0])
    places = jnp.concatenate(drawn[100:])
    print(f"mean of x {jnp.mean(places[:, 0]):.3f} (0), of x squared {jnp.mean(places[:, 0] ** 2):.3f} (1)")
    print(f"mean of y {jnp.mean(places[:, 1]):.3f} (1)")
