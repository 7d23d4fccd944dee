"""Haiku: functions create parameters where they use them; ``transform`` turns each into a pair of pure functions."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from tests.ecosystem.example import example, filled, numbers

KEY = np.array([0, 5], np.uint32)

perceptron = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([8, 2])(x)))


@example(lambda: (filled(jax.eval_shape(perceptron.init, KEY, numbers(4, 3))), numbers(4, 3)), batch=1)
def mlp(params, xs):
    return jnp.mean(perceptron.apply(params, xs) ** 2)


def unrolled(xs):
    core = hk.LSTM(4)
    outputs, state = hk.dynamic_unroll(core, xs, core.initial_state(None))
    return outputs, state


recurrent = hk.transform(unrolled)


@example(lambda: (filled(jax.eval_shape(recurrent.init, KEY, numbers(5, 2))), KEY, numbers(5, 2)), batch=2)
def lstm(params, key, xs):
    outputs, state = recurrent.apply(params, key, xs)
    return jnp.sum(outputs**2) + jnp.sum(state.cell)


def normalised(x):
    x = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)(hk.Linear(3)(x), is_training=True)
    return hk.dropout(hk.next_rng_key(), 0.25, jax.nn.relu(x))


with_state = hk.transform_with_state(normalised)


@example(lambda: (KEY, numbers(4, 2)), grad=1)
def state_of_batch_norm(key, xs):
    """Initialization and application in one program: the key gives the parameters and dropout's mask."""
    params, state = with_state.init(key, xs)
    outputs, state = with_state.apply(params, state, key, xs)
    return jnp.sum(outputs**2) + sum(jnp.sum(leaf) for leaf in jax.tree_util.tree_leaves(state))
