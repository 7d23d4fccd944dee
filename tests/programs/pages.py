"""The pages as modules, on JAX and on minijax."""

import functools
import importlib

from minijax.interop import replacing_jax


def on_jax(page):
    return importlib.import_module(f"tests.programs.{page}")


@functools.cache
def on_minijax(page):
    """The page on minijax: in the page and in the libraries that it uses, imports of jax import minijax."""
    names = {}  # the caller may be code without a module
    with replacing_jax():
        exec(f"from tests.programs import {page}", names)
    return names[page]
