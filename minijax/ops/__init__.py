"""The primitives, each with all its rules beside it. Importing this package registers them.

It also answers for JAX's module ``ops``: ``segment_sum`` and its like, which are made of NumPy's functions.
"""

import importlib as _importlib
from typing import Any as _Any

_SEGMENTS = ("segment_max", "segment_min", "segment_prod", "segment_sum")


def __getattr__(name: str) -> _Any:
    if name in _SEGMENTS:
        return getattr(_importlib.import_module("minijax.numpy.segments"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_SEGMENTS})
