"""Equinox: models are trees. ``filter_*`` passes only their arrays to JAX."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tests.ecosystem.example import example, filled, numbers


def arrays_and_rest(make: Any) -> tuple[Any, Any]:
    """The arrays of the model that ``make(key=...)`` gives, and the rest of the model."""
    model = eqx.filter_eval_shape(make, key=jax.ShapeDtypeStruct((2,), np.uint32))
    return eqx.partition(filled(model), eqx.is_inexact_array)


def perceptron(key: Any) -> eqx.nn.MLP:
    return eqx.nn.MLP(3, 2, width_size=8, depth=2, activation=jax.nn.gelu, key=key)


MLP, MLP_REST = arrays_and_rest(perceptron)


@example(lambda: (MLP, numbers(4, 3), numbers(4, 2)), batch=1)
def mlp(arrays, xs, ys):
    model = eqx.combine(arrays, MLP_REST)
    predicted = jax.vmap(model)(xs)
    return jnp.mean((predicted - ys) ** 2)


@example(lambda: (eqx.combine(MLP, MLP_REST), numbers(4, 3)), grad=None, batch=None, whole=True)
def filtered_gradient(model, xs):
    """A model with functions among its leaves, and transformations that skip such leaves."""

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(model, xs):
        return jnp.sum(jax.vmap(model)(xs) ** 2)

    value, gradient = loss(model, xs)
    return value, eqx.apply_updates(model, jax.tree_util.tree_map(lambda g: -0.1 * g, gradient))


class ConvNet(eqx.Module):
    conv: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        first, second = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(1, 2, kernel_size=3, key=first)
        self.pool = eqx.nn.MaxPool2d(kernel_size=2, stride=2)
        self.norm = eqx.nn.LayerNorm(8)
        self.head = eqx.nn.Linear(8, 3, key=second)

    def __call__(self, image):
        features = self.pool(jax.nn.relu(self.conv(image)))
        return jax.nn.log_softmax(self.head(self.norm(jnp.ravel(features))))


CONV_NET, CONV_NET_REST = arrays_and_rest(ConvNet)


@example(lambda: (CONV_NET, numbers(1, 6, 6)), batch=1)
def conv_net(arrays, image):
    return -eqx.combine(arrays, CONV_NET_REST)(image)[1]


GRU, GRU_REST = arrays_and_rest(lambda key: eqx.nn.GRUCell(2, 4, key=key))


@example(lambda: (GRU, numbers(5, 2)), batch=1)
def gru(arrays, inputs):
    cell = eqx.combine(arrays, GRU_REST)
    last, states = jax.lax.scan(lambda state, x: (cell(x, state),) * 2, jnp.zeros(4), inputs)
    return jnp.sum(last * states.mean(0))
