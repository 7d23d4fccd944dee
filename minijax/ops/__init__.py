"""The primitives, each with all its rules beside it. Importing this package registers them.

It also answers for JAX's module ``ops``: ``segment_sum`` and its like, which are made of NumPy's functions.
"""

from typing import Any as _Any

from minijax.core.late import HigherModule as _HigherModule

_segments = _HigherModule("segments")
_SEGMENTS = ("segment_max", "segment_min", "segment_prod", "segment_sum")


def __getattr__(name: str) -> _Any:
    if name in _SEGMENTS:
        return getattr(_segments, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_SEGMENTS})
