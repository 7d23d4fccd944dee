"""The pages as modules: as they stand, and on minijax."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

from minijax.interop import replacing_jax


def on_jax(page: str) -> ModuleType:
    return importlib.import_module(f"tests.programs.{page}")


@functools.cache
def on_minijax(page: str) -> ModuleType:
    """Its import statements, and those of the libraries that it imports, mean minijax where they say jax."""
    names: dict[str, Any] = {}  # code that belongs to no module may replace what it imports
    with replacing_jax():
        exec(f"from tests.programs import {page}", names)
    return names[page]
