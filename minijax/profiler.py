"""``minijax.profiler``: JAX's profiler of XLA. It records all XLA programs of this process.

All names are those of ``jax.profiler``. Their first use imports jax.
"""

from __future__ import annotations

from typing import Any

from minijax.interop.values import jax_module


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'minijax.profiler' has no attribute {name!r}", name=name)
    return getattr(jax_module("profiler"), name)
