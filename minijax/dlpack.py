"""``minijax.dlpack``: arrays of other libraries, without a copy where that can be."""

from minijax.numpy import from_dlpack as from_dlpack

__all__ = ["from_dlpack"]
