"""Programs in several processes: after ``initialize``, ``pmap`` and meshes span the devices of all processes.

``python -m minijax.distributed -n 4 script.py`` starts the processes (``minijax.distributed.__main__``). Names and
meanings follow https://docs.jax.dev/en/latest/jax.distributed.html.
"""

from __future__ import annotations

from minijax.backend.distributed import initialize, is_initialized, shutdown

__all__ = ["initialize", "is_initialized", "shutdown"]
