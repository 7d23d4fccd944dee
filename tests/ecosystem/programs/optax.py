"""Optax: chains of gradient transformations, whose states are trees of named tuples."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from tests.ecosystem.example import example, numbers


def loss(params, xs):
    return jnp.mean((jnp.tanh(xs @ params["w"]) + params["b"]) ** 2)


def params():
    return {"w": numbers(3, 2), "b": numbers(2)}


@example(lambda: (params(), numbers(4, 3)), batch=1)
def adam(params, xs):
    """The loss after two steps. Its gradient goes through the optimizer."""
    optimizer = optax.adam(0.1)
    state = optimizer.init(params)
    for _ in range(2):
        updates, state = optimizer.update(jax.grad(loss)(params, xs), state)
        params = optax.apply_updates(params, updates)
    return loss(params, xs)


@example(lambda: (params(), numbers(4, 3)), grad=None, batch=1)
def adamw_with_schedule(params, xs):
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, warmup_steps=2, decay_steps=6)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(schedule, weight_decay=0.01))

    def step(carry, _):
        params, state = carry
        value, gradient = jax.value_and_grad(loss)(params, xs)
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), value

    return jax.lax.scan(step, (params, optimizer.init(params)), None, length=3)


@example(lambda: (numbers(3),), grad=None)
def lbfgs(x):
    def valley(x):
        return jnp.sum((x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    optimizer = optax.lbfgs(memory_size=2)
    state = optimizer.init(x)
    value, gradient = jax.value_and_grad(valley)(x)
    updates, _ = optimizer.update(gradient, state, x, value=value, grad=gradient, value_fn=valley)
    return optax.apply_updates(x, updates)
