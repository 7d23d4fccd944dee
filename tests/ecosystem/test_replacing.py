"""Optax and Chex on minijax as they stand, beside their real selves; ``test_programs.py`` runs whole programs so."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import jax
import pytest

import minijax
from minijax.interop import replacing_jax
from tests.ecosystem.beside_jax import EAGER, assert_leaves_near


def both(name: str) -> tuple[ModuleType, ModuleType]:
    """A library on minijax and on JAX; the test is skipped where it is not installed."""
    real = pytest.importorskip(name, reason=f"{name} is not installed: pip install -e '.[test-ecosystem]'")
    with replacing_jax():
        replaced = importlib.import_module(name)
    assert replaced is not real and sys.modules[name] is real
    return replaced, real


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "chain"])
def test_optimizers_of_optax_jitted(name: str) -> None:
    """Ten steps of an optimizer with a schedule, in one ``jit``, are JAX's."""

    def trained(jax: Any, optax: Any) -> Any:
        rate = optax.cosine_decay_schedule(0.1, 10)
        optimizer = {
            "sgd": lambda: optax.sgd(rate, momentum=0.9),
            "adam": lambda: optax.adam(rate),
            "adamw": lambda: optax.adamw(rate, weight_decay=1e-2),
            "chain": lambda: optax.chain(
                optax.clip_by_global_norm(0.5), optax.scale_by_adam(), optax.scale_by_learning_rate(rate)
            ),
        }[name]()
        params = {"w": jax.numpy.arange(6.0).reshape(2, 3) / 6, "b": jax.numpy.ones(3)}
        x = jax.numpy.sin(jax.numpy.arange(8.0)).reshape(4, 2)

        def loss(params: Any) -> Any:
            return jax.numpy.mean((x @ params["w"] + params["b"]) ** 2)

        @jax.jit
        def step(params: Any, state: Any) -> Any:
            updates, state = optimizer.update(jax.grad(loss)(params), state, params)
            return optax.apply_updates(params, updates), state

        state = optimizer.init(params)
        for _ in range(10):
            params, state = step(params, state)
        return params, state

    ours, theirs = both("optax")
    assert_leaves_near(minijax.tree.leaves(trained(minijax, ours)), trained(jax, theirs), EAGER)


def test_chex_beside_its_real_self() -> None:
    """Its flags are defined twice without a clash; its checks see minijax's arrays and traces."""
    ours, _ = both("chex")
    traces = ours.assert_max_traces(lambda x: ours.assert_shape(x, (2, 3)) or x * 2, n=1)
    double, x = minijax.jit(traces), minijax.numpy.ones((2, 3))
    ours.assert_trees_all_close(double(x), 2 * x)
    ours.assert_tree_all_finite({"x": double(x + 1)})
    with pytest.raises(AssertionError, match="traced > 1 times"):
        double(minijax.numpy.ones((3, 2)))
    with pytest.raises(AssertionError, match="has shape"):
        minijax.jit(lambda x: ours.assert_shape(x, (2, 3)))(minijax.numpy.ones((3, 2)))
    state = ours.dataclass(type("State", (), {"__annotations__": {"x": Any}}))(x=x)
    assert minijax.tree.map(lambda leaf: leaf + 1, state).x.tolist() == (x + 1).tolist()
