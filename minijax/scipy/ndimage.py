"""``minijax.scipy.ndimage``: images at places between their elements."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.core.lacking import borrowing
from minijax.numpy.promotion import astype
from minijax.ops.shape import broadcast_shapes

__all__ = ["map_coordinates"]

__getattr__, __dir__ = borrowing(globals())


def _mirrored(index: Any, size: int) -> Any:
    """``index`` turned round at the middle of the first and the last element."""
    last = size - 1
    return jnp.abs((index + last) % (2 * last) - last)


def _reflected(index: Any, size: int) -> Any:
    """``index`` turned round at the edges: as mirrored, with two steps for each element."""
    return jnp.floor_divide(_mirrored(2 * index + 1, 2 * size + 1) - 1, 2)


# how an index beyond the end is brought back
_INDEX: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: jnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": _reflected,
}


def _nearest(coordinate: Any) -> list[tuple[Any, Any]]:
    """The place of a coordinate, and its weight."""
    place = coordinate if dtypes.is_integer(coordinate.dtype) else lax.round(coordinate).astype("int32")
    return [(place, coordinate.dtype.type(1))]


def _linear(coordinate: Any) -> list[tuple[Any, Any]]:
    """The places on both sides of a coordinate, with their weights."""
    lower = coordinate if dtypes.is_integer(coordinate.dtype) else jnp.floor(coordinate)
    upper_weight = coordinate - lower
    lower_weight = 1 - upper_weight
    place = lower if dtypes.is_integer(lower.dtype) else lower.astype("int32")
    return [(place, lower_weight), (place + 1, upper_weight)]


@inner_jit(static_argnames=("order", "mode", "cval"))
def _map_coordinates(input: Any, coordinates: Sequence[Any], order: int, mode: str, cval: Any) -> Any:
    input = jnp.asarray(input)
    coordinates = [jnp.asarray(c) for c in coordinates]
    cval = jnp.asarray(cval, input.dtype)
    if len(coordinates) != input.ndim:
        raise ValueError(
            f"coordinates must be a sequence of length input.ndim, but there are {len(coordinates)} of them for the "
            f"shape {input.shape}"
        )
    try:
        broadcast_shapes(*[c.shape for c in coordinates])
    except ValueError as error:
        raise TypeError(f"map_coordinates: the shapes of coordinates do not fit together: {error}") from error
    if mode not in _INDEX:
        raise NotImplementedError(f"map_coordinates: mode {mode!r} is not implemented. Use one of {list(_INDEX)}.")
    if order not in (0, 1):
        raise NotImplementedError("map_coordinates: order is 0, the nearest element, or 1, between the nearest.")

    along: list[list[tuple[Any, Any, Any]]] = []
    for coordinate, size in zip(coordinates, input.shape, strict=True):
        nodes = []
        for place, weight in (_nearest, _linear)[order](coordinate):
            index = _INDEX[mode](place, size)
            inside = (index >= 0) & (index < size) if mode == "constant" else True
            nodes.append((index, inside, weight))
        along.append(nodes)

    parts = []
    for corner in itertools.product(*along):
        indices, inside, weights = zip(*corner, strict=True)
        if mode == "constant":
            within = functools.reduce(operator.and_, inside)
            value = jnp.where(within, input[indices], cval)
        else:
            value = input[indices]
        parts.append(functools.reduce(operator.mul, weights) * value)
    found = functools.reduce(operator.add, parts)
    if dtypes.is_integer(input.dtype) and not dtypes.is_integer(found.dtype):
        found = lax.round(found)
    return astype(found, input.dtype)


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0
) -> Any:
    """The values of ``input`` at ``coordinates``, an array for each of its axes, counted in elements.

    Args:
      order: 0 for the nearest element, 1 for what is linear between elements.
      mode: what is beyond the ends: 'constant' (``cval``), 'nearest', 'wrap', 'mirror' or 'reflect'.

    ValueError unless there is an array of coordinates for each axis; NotImplementedError for other orders and modes.
    """
    return _map_coordinates(input, coordinates, order, mode, cval)
