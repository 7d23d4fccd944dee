"""``minijax.experimental.sparse.linalg``: eigenvalues and solutions of sparse matrices, borrowed from JAX."""

from __future__ import annotations

from typing import Any

from minijax.interop.names import borrowed_name

_FUNCTIONS = ("lobpcg_standard", "spsolve")


def __getattr__(name: str) -> Any:
    if name not in _FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = globals()[name] = borrowed_name(__name__, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_FUNCTIONS})
