"""The primitives, each with all its rules beside it. Importing this package registers them."""

from typing import Any as _Any

from minijax.core.lacking import borrowing as _borrowing

_borrowed, __dir__ = _borrowing(globals())


def __getattr__(name: str) -> _Any:
    """``segment_sum`` and its like: JAX's ``ops``, borrowed from JAX when they are used."""
    if name.startswith("segment_"):
        return _borrowed(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
