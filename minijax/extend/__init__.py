"""JAX's name for what extension authors need: see ``minijax.extend.core``."""

from minijax.extend import core, linear_util

__all__ = ["core", "linear_util"]
