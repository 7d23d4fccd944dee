"""Rows on a model of Flax: jitted through ``from_jax``, and in the stepper. Skipped where Flax is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np

from tests.bench.measure import SKIPPED, Result, Row, Settings
from tests.bench.startup import Startup, program, python
from tests.bench.workloads import Function, steady

CNN = """
import flax.linen as nn
import jax
import jax.numpy as jnp


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(8, (3, 3))(x))
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(32)(x.reshape(x.shape[0], -1)))
        return nn.Dense(10)(x)


images = jnp.linspace(-1.0, 1.0, 4 * 12 * 12).reshape(4, 12, 12, 1)
labels = jnp.arange(4)
model = CNN()
params = model.init(jax.random.key(0), images)


def loss(params, images, labels):
    chosen = jax.nn.log_softmax(model.apply(params, images))[jnp.arange(len(labels)), labels]
    return -chosen.mean()


def train_step(params, images, labels):
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, images, labels))
"""


class FlaxRow(Row):
    """A row that needs Flax."""

    def run(self, settings: Settings) -> Result:
        return _without_flax(self) or super().run(settings)


class FlaxStartup(Startup):
    """A row on fresh processes that needs Flax."""

    def run(self, settings: Settings) -> Result:
        return _without_flax(self) or super().run(settings)


def _without_flax(row: Row | Startup) -> Result | None:
    if find_spec("flax") is not None:
        return None
    return Result(row.key, row.title, row.budget, verdict=SKIPPED, note="flax is not installed: pip install flax")


def taken(ns: Any, function: Function) -> Function:
    """A function that is written for JAX, as ``ns`` calls it."""
    return function if ns.__name__ == "jax" else ns.interop.from_jax(function)


def flax_step(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    scope: dict[str, Any] = {}
    exec(CNN, scope)
    arguments = scope["jax"].tree.map(np.asarray, (scope["params"], scope["images"], scope["labels"]))
    return taken(ns, scope["train_step"]), arguments


def stepped(name: str) -> list[str]:
    """The gradient of a loss: in the stepper's text, or on JAX."""
    folder = Path(gettempdir()) / "minijax-bench"
    folder.mkdir(exist_ok=True)
    (folder / "bench_cnn.py").write_text(CNN, encoding="utf-8")
    begin = f"import sys; sys.path.insert(0, {str(folder)!r}); from bench_cnn import *\n"
    if name == "jax":
        return python(f"{begin}jax.grad(loss)(params, images, labels)")
    return program("minijax-repl", "--no-config", "-c", f"{begin}%step jax.grad(loss)(params, images, labels)")


FLAX_ROWS: list[Row | Startup] = [
    FlaxRow("jitted.flax", "jitted step of a Flax CNN", 1.05, steady(flax_step, 20), ops=20, reuse=True),
    FlaxStartup("step.flax", "%step of a Flax CNN's gradient, start to screen", 1.5, stepped),
]
