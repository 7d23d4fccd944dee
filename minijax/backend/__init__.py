"""Where programs run: StableHLO text is compiled and executed by XLA through PJRT (:mod:`minijax.backend.pjrt`).

It imports jaxlib with the first buffer or program, and teaches :class:`minijax.core.array.Array` to fetch buffers.
"""

from typing import Any

from minijax.backend.pjrt import place, to_numpy
from minijax.core import lazy
from minijax.core.array import set_transfers


def gather(*args: Any) -> Any:
    """``spmd.gather``, whose module only arrays over several devices need."""
    return lazy.public("minijax.backend.spmd", "gather")(*args)


set_transfers(to_numpy, place, gather)
