"""``minijax.scipy.integrate``: the trapezoidal rule."""

from __future__ import annotations

from typing import Any

from minijax import numpy as jnp
from minijax.api.inner import inner_jit
from minijax.core.lacking import borrowing

__all__ = ["trapezoid"]


@inner_jit(static_argnames="axis")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of ``y`` along ``axis``, sampled at ``x``, or at steps of ``dx``."""
    return jnp.trapezoid(y, x, dx, axis)


__getattr__, __dir__ = borrowing(globals())
