"""Python's garbage collector while a large program grows.

It looks at new objects often, and at all that the process has each time that this has grown by a quarter. What staging
and lowering make lives on, so looking at it again finds nothing; with 100,000 equations that took longer than making
them.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# What has been looked at is looked at again after so many passes over new objects; Python begins with 10.
RARELY = 1000


def collecting_new_objects(work: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """``work``, during which the collector looks for garbage among new objects, and a hundred times more rarely among
    those that it has seen.

    Where it does so as rarely already (by the user's setting, or because of an outer ``work``) nothing is changed; a
    setting that is made meanwhile stays.
    """

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
