"""The pages as modules: as they stand, and on minijax."""

import functools
import importlib

from minijax.interop import replacing_jax


def on_jax(page):
    return importlib.import_module(f"tests.programs.{page}")


@functools.cache
def on_minijax(page):
    """Its import statements, and those of the libraries that it imports, mean minijax where they say jax."""
    names = {}  # code that belongs to no module may replace what it imports
    with replacing_jax():
        exec(f"from tests.programs import {page}", names)
    return names[page]
