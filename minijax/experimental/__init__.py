"""``minijax.experimental``: what JAX keeps under this name."""

import importlib
from typing import Any

from minijax.api.callbacks import io_callback

__all__ = ["io_callback"]

# Modules that few programs use.
_LATE = ("checkify", "jet", "layout", "mesh_utils", "multihost_utils", "ode", "sparse")


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return importlib.import_module(f"minijax.experimental.{name}")
    raise AttributeError(f"module 'minijax.experimental' has no attribute {name!r}", name=name)
