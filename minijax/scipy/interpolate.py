"""``minijax.scipy.interpolate``: interpolation on a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from minijax import numpy as jnp
from minijax.core import dtypes
from minijax.core.lacking import borrowing
from minijax.numpy.promotion import check_array_like, ensure

__all__ = ["RegularGridInterpolator"]

__getattr__, __dir__ = borrowing(globals())

_METHODS = ("linear", "nearest")


def _points(xi: Any, count: int) -> Any:
    """Points as an array whose last axis holds coordinates: ``xi`` is that already, or a tuple of coordinates."""
    if isinstance(xi, tuple) and len(xi) == 1:
        xi = xi[0]
    if isinstance(xi, tuple):
        parts = jnp.broadcast_arrays(*xi)
        points = jnp.empty((*parts[0].shape, len(parts)), float)
        for i, part in enumerate(parts):
            points = points.at[..., i].set(part)
        return points
    check_array_like("RegularGridInterpolator", xi)
    points = jnp.asarray(xi)
    return points.reshape(-1, count) if points.ndim == 1 else points


class RegularGridInterpolator:
    """A function of points that is linear between the values on a grid, or that of the nearest place of it.

    Args:
      points: the coordinates of the grid along each axis, ascending.
      values: the values there: their first axes are those of the grid.
      method: 'linear' or 'nearest'.
      bounds_error: not implemented: whether a point is outside is known only when a program runs.
      fill_value: what is given for points outside of the grid; None: the function goes on as it is inside.

    Called with points, an array (..., number of axes) or a tuple of coordinates, it gives values (..., other axes of
    ``values``). ValueError for other methods and for shapes that do not fit, NotImplementedError for ``bounds_error``.
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = math.nan,
    ) -> None:
        _check_method(method)
        self.method, self.bounds_error = method, bounds_error
        if self.bounds_error:
            raise NotImplementedError("RegularGridInterpolator: bounds_error=True is not implemented: use fill_value.")
        values = ensure("RegularGridInterpolator", values)
        if len(points) > values.ndim:
            raise ValueError(f"there are {len(points)} point arrays, but values has {values.ndim} dimensions")
        if not dtypes.is_inexact(values.dtype):
            values = values.astype(float)
        if fill_value is not None:
            check_array_like("RegularGridInterpolator", fill_value)
            fill_value = jnp.asarray(fill_value)
            if not jnp.can_cast(fill_value.dtype, values.dtype, casting="same_kind"):
                raise ValueError(
                    f"fill_value is of type {fill_value.dtype}, which the values, of type {values.dtype}, cannot hold."
                )
        self.fill_value = fill_value
        self.grid = tuple(ensure("RegularGridInterpolator", along) for along in points)
        for i, along in enumerate(self.grid):
            if along.ndim != 1:
                raise ValueError(f"the points along axis {i} must be one-dimensional, not of shape {along.shape}.")
        self.values = values

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The function at the points ``xi``, by ``method`` instead of the one that was chosen."""
        method = self.method if method is None else method
        _check_method(method)
        count = len(self.grid)
        xi = _points(xi, count)
        if xi.shape[-1] != count:
            raise ValueError(f"the points have {xi.shape[-1]} coordinates, but the grid has {count} axes")
        shape = xi.shape
        xi = xi.reshape(-1, count)
        indices, distances, outside = self._located(xi.T)
        found = (self._linear if method == "linear" else self._nearest)(indices, distances)
        if self.fill_value is not None:
            filled = outside.reshape(found.shape[:1] + (1,) * (found.ndim - 1))
            found = jnp.where(filled, self.fill_value, found)
        return found.reshape(*shape[:-1], *self.values.shape[count:])

    def _located(self, xi: Any) -> tuple[list[Any], list[Any], Any]:
        """The index before each point along each axis, how far it is from there to the next, and whether outside."""
        indices, distances = [], []
        outside = jnp.zeros(xi.shape[1], bool)
        for x, along in zip(xi, self.grid, strict=True):
            i = jnp.searchsorted(along, x) - 1
            i = jnp.where(i < 0, 0, i)
            i = jnp.where(i > along.size - 2, along.size - 2, i)
            indices.append(i)
            distances.append((x - along[i]) / (along[i + 1] - along[i]))
            outside = outside | (x < along[0])
            outside = outside | (x > along[-1])
        return indices, distances, outside

    def _linear(self, indices: Sequence[Any], distances: Sequence[Any]) -> Any:
        """The mean of the values at the corners around, weighted by the distance from the opposite ones."""
        behind = (slice(None),) + (None,) * (self.values.ndim - len(indices))
        total: Any = 0.0
        for corner in itertools.product(*[[i, i + 1] for i in indices]):
            weight: Any = 1.0
            for at, i, distance in zip(corner, indices, distances, strict=True):
                weight = weight * jnp.where(at == i, 1 - distance, distance)
            total = total + self.values[corner] * weight[behind]
        return total

    def _nearest(self, indices: Sequence[Any], distances: Sequence[Any]) -> Any:
        return self.values[
            tuple(
                jnp.where(distance <= 0.5, i, i + 1) for i, distance in zip(indices, distances, strict=True)
            )
        ]


def _check_method(method: str) -> None:
    if method not in _METHODS:
        raise ValueError(f"method {method!r} is not defined: it is one of {_METHODS}.")
