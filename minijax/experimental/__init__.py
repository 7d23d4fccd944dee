"""``minijax.experimental``: what JAX keeps under this name."""

from minijax.api.callbacks import io_callback

__all__ = ["io_callback"]
