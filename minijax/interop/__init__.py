"""Between minijax and the real JAX: programs of one on the other.

``from_jax`` makes a function that was written for JAX one of minijax. jax is imported when the first such is called.
"""

from minijax.interop.functions import from_jax

__all__ = ["from_jax"]
