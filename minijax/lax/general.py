"""Functions of ``jax.lax`` without a primitive of their own: ``stop_gradient`` and a few small ones."""

from __future__ import annotations

from typing import Any

from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.ops.convert import stop_gradient as stop_gradient_of_array
from minijax.ops.shape import broadcast_in_dim, full_like, shape_of
from minijax.pytree import tree_map

__all__ = ["broadcast_like", "dtype", "stop_gradient", "zeros_like_array"]


def stop_gradient(x: Any) -> Any:
    """Return ``x``, an array or a pytree of arrays, as a constant for differentiation."""
    return tree_map(stop_gradient_of_array, x)


def zeros_like_array(x: Any) -> Any:
    """Zeros of the shape and dtype of ``x``."""
    return full_like(x, 0)


def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """Repeat ``arr`` to the shape of ``like_arr``; the dtype stays. ValueError if it does not broadcast."""
    shape, wanted = shape_of(arr), shape_of(like_arr)
    lead = len(wanted) - len(shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(shape, wanted[lead:], strict=True)):
        raise ValueError(f"Incompatible types for broadcasting: input shape={shape} and requested shape={wanted}")
    return arr if shape == wanted else broadcast_in_dim(arr, wanted, range(lead, len(wanted)))


def dtype(x: Any) -> Any:
    """The dtype that ``x`` has as an operand: an array, a number, or a type such as ``float``."""
    return dtypes.dtype(x, x64_enabled())
