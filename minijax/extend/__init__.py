"""JAX's name for what extension authors need: see ``minijax.extend.core``."""

from minijax.extend import core

__all__ = ["core"]
