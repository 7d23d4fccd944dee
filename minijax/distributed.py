"""Programs that run in several processes: ``initialize`` joins them, and ``pmap`` then spans all their devices.

Names and meanings are those of https://docs.jax.dev/en/latest/jax.distributed.html.
"""

from __future__ import annotations

from minijax.backend.distributed import initialize, is_initialized, shutdown

__all__ = ["initialize", "is_initialized", "shutdown"]
