"""JAX's name for the tools of extension authors: see ``minijax.extend.core``."""

import importlib
from typing import Any

from minijax.core.borrowing import make_modules_below
from minijax.extend import core

__all__ = ["core", "linear_util"]  # noqa: F822  (see __getattr__)

# Modules that are imported at first use. ``linear_util`` is JAX's own module, since it computes nothing.
_LATE = ("ifrt_programs", "linear_util", "mlir", "random", "source_info_util")

make_modules_below(__name__)


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return importlib.import_module(f"minijax.extend.{name}")
    raise AttributeError(f"module 'minijax.extend' has no attribute {name!r}", name=name)
