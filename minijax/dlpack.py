"""``minijax.dlpack``: arrays of other libraries, shared without a copy where possible."""

from minijax.numpy import from_dlpack as from_dlpack

__all__ = ["from_dlpack"]
