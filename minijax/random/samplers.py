"""The argument ``out_sharding=`` of every function that draws samples."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from minijax.core import late

# What samplers take besides arrays.
_PLAIN = ("shape", "dtype", "axis", "independent", "replace")


def sampler(fun: Callable[..., Any]) -> Callable[..., Any]:
    """``fun``, a function of a key and of parameters, with the argument ``out_sharding``: the result's sharding.

    It applies to the result alone; the compiler shards the operations before it.
    """
    signature = inspect.signature(fun)
    name = fun.__name__

    @functools.wraps(fun)
    def sample(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        if out_sharding is None:
            return fun(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {k: x for k, x in bound.arguments.items() if k not in _PLAIN and not isinstance(x, (str, type(None)))}
        if type(given.get("x")) is int:  # the length of a permutation
            del given["x"]
        known = {k: x for k, x in bound.arguments.items() if k not in given}

        def run(*arrays: Any) -> Any:
            return fun(**dict(zip(given, arrays, strict=True)), **known)

        within = late.public("minijax.api.explicit", "left_to_compiler")
        return within(name, out_sharding, run, *given.values())

    keyword = inspect.Parameter("out_sharding", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
    found: Any = sample
    found.__signature__ = signature.replace(parameters=[*signature.parameters.values(), keyword])
    return sample
