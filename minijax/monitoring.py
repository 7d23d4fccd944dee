"""``minijax.monitoring``: JAX's events, which programs record for listeners. minijax itself records none.

This module has the names of ``jax.monitoring``. The first use of a name imports jax.

Source: https://docs.jax.dev/en/latest/jax.monitoring.html
"""

from __future__ import annotations

from typing import Any

from minijax.interop.values import jax_module


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'minijax.monitoring' has no attribute {name!r}", name=name)
    return getattr(jax_module("monitoring"), name)


def __dir__() -> list[str]:
    return [name for name in dir(jax_module("monitoring")) if not name.startswith("_")]
