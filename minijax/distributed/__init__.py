"""Programs in several processes: ``initialize`` joins them, and ``pmap`` and meshes then span the devices of all.

``python -m minijax.distributed -n 4 script.py`` starts the processes (``minijax.distributed.__main__``). Names and
meanings are those of https://docs.jax.dev/en/latest/jax.distributed.html.
"""

from __future__ import annotations

from minijax.backend.distributed import initialize, is_initialized, shutdown

__all__ = ["initialize", "is_initialized", "shutdown"]
