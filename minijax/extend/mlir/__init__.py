"""MLIR's Python bindings, loaded on first use, under JAX's name ``extend.mlir``: ``ir`` and ``dialects``."""

from typing import Any

from minijax.extend.mlir import dialects
from minijax.lowering import bindings

__all__ = ["dialects", "ir"]


def __getattr__(name: str) -> Any:
    if name == "ir":
        return bindings.ir()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
