"""Flax: ``linen`` applies modules to trees of parameters; the modules of ``nnx`` hold their parameters."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tests.ecosystem.example import example, filled, numbers


def key(seed: int = 0) -> np.ndarray:
    return np.array([0, seed], np.uint32)


def initial(module: nn.Module, *inputs: Any, **options: Any) -> Any:
    """The variables of ``module``, filled with fixed numbers instead of by initializers."""
    keys = {"params": key(), "dropout": key(1)}
    return filled(jax.eval_shape(lambda *xs: module.init(keys, *xs, **options), *inputs))


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(nn.tanh(nn.Dense(8)(x)))


@example(lambda: (initial(Perceptron(), numbers(4, 3)), numbers(4, 3)), batch=1)
def linen_mlp(variables, xs):
    return jnp.mean(Perceptron().apply(variables, xs) ** 2)


@example(lambda: (key(3), numbers(4, 3)), grad=None)
def linen_init(key, xs):
    """The initial parameters. The initializers draw truncated normal numbers."""
    return Perceptron().init(key, xs)


class ConvNet(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.Conv(2, (3, 3))(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.Dropout(0.25, deterministic=not train)(x.reshape(len(x), -1))
        return nn.Dense(3)(x)


@example(lambda: (*split_variables(), numbers(2, 4, 4, 1), key(2)), batch=3)
def linen_conv_net(params, statistics, images, key):
    """Batch normalisation updates its statistics, and dropout draws its mask."""
    scores, changed = ConvNet().apply(
        {"params": params, "batch_stats": statistics},
        images,
        train=True,
        rngs={"dropout": key},
        mutable=["batch_stats"],
    )
    labels = jax.nn.one_hot(jnp.array([0, 2]), 3)
    penalty = sum(jnp.sum(leaf**2) for leaf in jax.tree_util.tree_leaves(changed))
    return -jnp.mean(jnp.sum(labels * jax.nn.log_softmax(scores), axis=-1)) + 0.1 * penalty


def split_variables() -> tuple[Any, Any]:
    variables = initial(ConvNet(), numbers(2, 4, 4, 1), train=True)
    return variables["params"], variables["batch_stats"]


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=4)(nn.LayerNorm()(x), mask=mask)
        return x + nn.Dense(4)(nn.gelu(nn.Dense(8)(nn.LayerNorm()(x))))


@example(lambda: (initial(Block(), numbers(3, 4)), numbers(3, 4)), batch=1)
def linen_attention(variables, xs):
    return jnp.sum(Block().apply(variables, xs) ** 2)


@example(lambda: (initial(nn.RNN(nn.OptimizedLSTMCell(4)), numbers(5, 2)), numbers(5, 2)), batch=1)
def linen_lstm(variables, xs):
    return jnp.mean(nn.RNN(nn.OptimizedLSTMCell(4)).apply(variables, xs) ** 2)


class Model(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(3, 8, rngs=rngs)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.second = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.silu(self.norm(self.first(x))))


def nnx_parts() -> tuple[Any, Any]:
    return nnx.split(nnx.eval_shape(lambda: Model(nnx.Rngs(0))))


@example(lambda: (filled(nnx_parts()[1]), numbers(4, 3)), batch=1)
def nnx_model(state, xs):
    model = nnx.merge(nnx_parts()[0], state)
    return jnp.mean(model(xs) ** 2)
