"""Python's garbage collector while a large program is staged or lowered.

The collector often scans new objects, and scans all objects whenever their number has grown by a quarter. The objects
of staging and lowering stay alive, so a full scan finds nothing. With 100,000 equations the scans took longer than
making the equations.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Old objects are scanned again after this many scans of new objects. Python's default is 10.
RARELY = 1000


def collecting_new_objects(work: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate ``work``: while it runs, the collector scans old objects a hundred times less often."""

    @functools.wraps(work)
    def working(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        new, seen, all_ = gc.get_threshold()
        if seen >= RARELY:
            return work(*args, **kwargs)
        try:
            gc.set_threshold(new, RARELY, all_)
            return work(*args, **kwargs)
        finally:
            if gc.get_threshold() == (new, RARELY, all_):
                gc.set_threshold(new, seen, all_)

    return working
