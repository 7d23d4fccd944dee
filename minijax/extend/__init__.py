"""JAX's name for what extension authors need: see ``minijax.extend.core``."""

import importlib
from typing import Any

from minijax.extend import core, linear_util

__all__ = ["core", "linear_util"]

# Modules that few extensions use.
_LATE = ("ifrt_programs", "mlir", "random", "source_info_util")


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return importlib.import_module(f"minijax.extend.{name}")
    raise AttributeError(f"module 'minijax.extend' has no attribute {name!r}", name=name)
