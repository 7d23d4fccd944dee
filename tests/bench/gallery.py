"""Rows on training steps of whole programs, the pages of ``tests/programs``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench.measure import Row
from tests.bench.workloads import Function, steady
from tests.programs.pages import on_jax, on_minijax


def step_of(page: str) -> Callable[[Any], tuple[Function, tuple[Any, ...]]]:
    def make(ns: Any) -> tuple[Function, tuple[Any, ...]]:
        module = on_jax(page) if ns.__name__ == "jax" else on_minijax(page)
        return module.step, (module.start(), *module.data())

    return make


GALLERY_ROWS = [
    Row("jitted.cnn", "jitted step of a convolutional network", 1.02, steady(step_of("cnn"), 10), ops=10, reuse=True),
    Row(
        "jitted.transformer", "jitted step of a transformer", 1.02, steady(step_of("transformer"), 5), ops=5, reuse=True
    ),
]
