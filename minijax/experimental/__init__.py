"""``minijax.experimental``: modules under JAX's names. All of ``sparse`` is borrowed from JAX."""

import importlib
from typing import Any

from minijax.api.callbacks import io_callback
from minijax.core.borrowing import make_modules_below

__all__ = ["io_callback"]

_LATE = ("checkify", "jet", "layout", "mesh_utils", "multihost_utils", "ode", "sparse")

make_modules_below(__name__)


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return importlib.import_module(f"minijax.experimental.{name}")
    raise AttributeError(f"module 'minijax.experimental' has no attribute {name!r}", name=name)
