"""Where programs run: StableHLO text is compiled and executed by XLA through PJRT (:mod:`minijax.backend.pjrt`).

The first buffer or program imports jaxlib. This module teaches :class:`minijax.core.array.Array` to fetch buffers.
"""

from typing import Any

from minijax.backend.pjrt import place, to_numpy
from minijax.core import lazy
from minijax.core.array import set_transfers


def gather(*args: Any) -> Any:
    """``spmd.gather``; only arrays over several devices load that module."""
    return lazy.public("minijax.backend.spmd", "gather")(*args)


set_transfers(to_numpy, place, gather)
