"""Types for annotations, under JAX's names."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from minijax.core.avals import AnyArray

__all__ = ["ArrayLike", "DTypeLike"]


class SupportsDType(Protocol):
    """Anything with a ``dtype``."""

    @property
    def dtype(self) -> np.dtype[Any]: ...


# Arguments of array functions: an array, a tracer, a NumPy array or a number.
ArrayLike = AnyArray | np.ndarray | np.bool_ | np.number | bool | int | float | complex

# A type of elements: ``"float32"``, ``jnp.float32``, ``np.dtype("float32")``, ``float``.
DTypeLike = str | type[Any] | np.dtype | SupportsDType
