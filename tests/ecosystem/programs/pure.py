"""JAX alone: features that JAX's own pages and the libraries use."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.ecosystem.example import example, numbers

KEY = np.array([0, 17], np.uint32)


@example(lambda: (KEY, numbers(3)), grad=None)
def random_draws(key, logits):
    """Typed keys, and random draws that repeat until a number is accepted."""
    keys = jax.random.split(jax.random.wrap_key_data(key), 5)
    return (
        jax.random.gamma(keys[0], 1.5, (3,)),
        jax.random.categorical(keys[1], logits),
        jax.random.bernoulli(keys[2], 0.3, (5,)),
        jax.random.bits(keys[3], (4,)),
        jax.random.choice(jax.random.fold_in(keys[4], 3), 10, (3,), replace=False),
        keys[0],
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def clipped(x, limit):
    return x


def clipped_forward(x, limit):
    return x, jnp.abs(x)


def clipped_backward(limit, size, cotangent):
    return (jnp.clip(cotangent * size, -limit, limit),)


clipped.defvjp(clipped_forward, clipped_backward)


@jax.custom_jvp
def log1pexp(x):
    return jnp.log1p(jnp.exp(x))


log1pexp.defjvps(lambda tangent, answer, x: tangent * (1.0 - jnp.exp(-answer)))


@example(lambda: (numbers(4),))
def custom_rules(xs):
    return jnp.sum(clipped(jnp.sin(xs), 0.5) ** 2) + jnp.sum(jax.vmap(log1pexp)(xs))


@example(lambda: (numbers(3), np.int32(2)))
def control_flow(x, index):
    def body(carry, step):
        carry = lax.cond(step > 2, jnp.sin, lambda c: c * 1.5, carry)
        return carry, lax.switch(index, [jnp.cos, jnp.tanh, jnp.square], carry)

    last, stacked = lax.scan(body, x, jnp.arange(4))
    halved = lax.fori_loop(0, 3, lambda i, value: value / (i + 1.0), last)
    count = lax.while_loop(lambda n: n < 10.0, lambda n: n * 3.0, 1.0 + 0.0 * lax.stop_gradient(x[0]))
    return jnp.sum(halved) + jnp.sum(stacked) * count


@example(lambda: (numbers(3, 3), numbers(3)))
def rematerialized(weights, x):
    @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
    def layer(weights, x):
        return jnp.tanh(weights @ jnp.sin(x))

    for _ in range(2):
        x = layer(weights, x)
    return jnp.sum(jax.jacrev(layer, argnums=1)(weights, x)) + x @ x


@example(lambda: (numbers(3, 2), numbers(2)), batch=None)
def nested_transformations(weights, x):
    """A Hessian, the gradient of each example, and the transpose of a linear map."""

    def energy(x):
        return jnp.sum(jnp.logaddexp(weights @ x, 0.0))

    hessian = jax.hessian(energy)(x)
    per_example = jax.vmap(jax.grad(energy))(jnp.stack([x, 2.0 * x]))
    back = jax.linear_transpose(lambda v: weights @ v, x)(jnp.ones(3))[0]
    return jnp.sum(hessian) + jnp.sum(per_example) + back @ jax.jvp(energy, (x,), (x,))[1][None].repeat(2)
