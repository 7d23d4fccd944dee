"""Grids and ranges written as indices: ``mgrid[0:3, 0:1:5j]``, ``r_[0, 1, x]``; and values in geometric progression."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.numpy import ufuncs
from minijax.numpy.creation import arange, array, asarray, linspace, logspace, meshgrid
from minijax.numpy.manipulation import concatenate, moveaxis, stack, transpose
from minijax.numpy.promotion import check_array_like, convert, ensure, promote_dtypes, result_dtype, static, user_dtype

__all__ = ["c_", "geomspace", "index_exp", "ix_", "mgrid", "ogrid", "r_", "s_"]


def _range(key: slice, what: str) -> Any:
    """The values that a slice stands for: with an imaginary step, that many of them, the last included."""
    start = static(key.start if key.start is not None else 0, f"slice start of jnp.{what}", _number)
    stop = static(key.stop, f"slice stop of jnp.{what}", _number)
    step = static(key.step if key.step is not None else 1, f"slice step of jnp.{what}", _number)
    if isinstance(step, complex):
        return linspace(start, stop, int(abs(step)), endpoint=True)
    return arange(start, stop, step)


def _number(x: Any) -> Any:
    return x.item() if hasattr(x, "item") else x


class _Grid:
    """``mgrid`` or ``ogrid``: indexed with slices, it gives the coordinates of a grid."""

    def __init__(self, name: str, sparse: bool, doc: str) -> None:
        self.name, self.sparse, self.__doc__ = name, sparse, doc

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if isinstance(key, slice):
            return _range(key, self.name)
        if not key:
            return () if self.sparse else array([])
        axes = promote_dtypes(*[_range(each, self.name) for each in key])
        grid = meshgrid(*axes, indexing="ij", sparse=self.sparse)
        return list(grid) if self.sparse else stack(grid, 0)

    def __repr__(self) -> str:
        return f"<minijax.numpy.{self.name}>"


mgrid = _Grid("mgrid", False, "A dense grid: ``mgrid[0:3, 0:1:5j]`` is an array of the coordinates, by axis.")
ogrid = _Grid("ogrid", True, "An open grid: ``ogrid[0:3, 0:1:5j]`` is a list of arrays that broadcast to the grid.")


class _Joined:
    """``r_`` or ``c_``: indexed with arrays, numbers and slices, it joins them."""

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int, doc: str) -> None:
        self.name, self.axis, self.ndmin, self.trans1d, self.__doc__ = name, axis, ndmin, trans1d, doc

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self.axis, self.ndmin, self.trans1d
        column = False
        if isinstance(items[0], str):
            directive = items.pop(0)
            if directive in ("r", "c"):
                ndmin, column = 2, directive == "c"
            else:
                axis, ndmin, trans1d = self._directive(directive)
        if column:
            parts = [lax.expand_dims(x, (1,)) if x.aval.ndim == 1 else x for x in map(asarray, items)]
        else:
            parts = [self._part(item, ndmin, trans1d) for item in items]
        if any(isinstance(item, str) for item in items):
            raise ValueError("special directives must be the first entry.")
        return concatenate(parts, axis)

    def _directive(self, text: str) -> tuple[int, int, int]:
        numbers = [int(each) for each in text.split(",") if each.strip().lstrip("-").isdigit()]
        if len(numbers) != len(text.split(",")) or len(numbers) > 3:
            raise ValueError(f"could not understand directive {text!r}")
        found = [self.axis, self.ndmin, self.trans1d]
        found[: len(numbers)] = numbers
        return found[0], found[1], found[2]

    def _part(self, item: Any, ndmin: int, trans1d: int) -> Any:
        if isinstance(item, slice):
            x = _range(item, self.name)
            return _of_rank(x, 1, ndmin, trans1d)
        ndim = np.ndim(item)
        if not ndim:
            return array(item, ndmin=max(ndmin, 1))
        return _of_rank(array(item, copy=False), ndim, ndmin, trans1d)

    def __repr__(self) -> str:
        return f"<minijax.numpy.{self.name}>"


def _of_rank(x: Any, ndim: int, ndmin: int, trans1d: int) -> Any:
    """``x`` with axes of size 1 to make ``ndmin``; ``trans1d`` says where its own begin."""
    missing = ndmin - ndim
    if missing <= 0:
        return x
    x = array(x, ndmin=ndmin, copy=False)
    if trans1d == -1:
        return x
    if trans1d < 0:
        trans1d += missing + 1
    order = list(range(missing, ndmin))
    new = list(range(missing))
    return transpose(x, (*new[:trans1d], *order, *new[trans1d:]))


r_ = _Joined("r_", 0, 1, -1, "Joins along the first axis: ``r_[0, 1:4, x]``; ``r_['axis,ndim,place', ...]`` otherwise.")
c_ = _Joined("c_", -1, 2, 0, "Joins columns: ``c_[x, y]`` has the vectors as its columns.")


class _Index:
    """``s_`` or ``index_exp``: indexed, it gives the index."""

    def __init__(self, name: str, always_tuple: bool) -> None:
        self.name, self.always_tuple = name, always_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self.always_tuple and not isinstance(key, tuple) else key

    def __repr__(self) -> str:
        return f"<minijax.numpy.{self.name}>"


s_ = _Index("s_", False)
index_exp = _Index("index_exp", True)


def ix_(*args: Any) -> tuple[Any, ...]:
    """The vectors, with axes of size 1 such that they index a block: the rows of one, the columns of the next.

    ValueError for arrays of more than one dimension.
    """
    check_array_like("ix", *args)
    out = []
    for place, x in enumerate(args):
        x = ensure("ix", x)
        if x.aval.ndim != 1:
            raise ValueError(f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {x.aval.shape}")
        if dtypes.is_bool(x.aval.dtype):
            raise NotImplementedError("Boolean arguments to jax.numpy.ix_ are not implemented")
        x = x if x.aval.size else convert(x, dtypes.default_int_dtype(x64_enabled()))  # [] means no indices
        shape = [1] * len(args)
        shape[place] = x.aval.shape[0]
        out.append(lax.broadcast_in_dim(x, shape, (place,)) if len(args) > 1 else x)
    return tuple(out)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """``num`` values from ``start`` to ``stop``, each a fixed multiple of the one before."""
    num = static(num, "'num' argument of jnp.geomspace")
    axis = static(axis, "'axis' argument of jnp.geomspace")
    return _geomspace(start, stop, num, endpoint, dtype, axis)


@inner_jit(static_argnames=("num", "endpoint", "dtype", "axis"))
def _geomspace(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int) -> Any:
    start, stop = ensure("geomspace", start, stop)
    given = dtypes.to_inexact_dtype(result_dtype(start, stop)[0])
    wanted = given if dtype is None else user_dtype(dtype, "geomspace")
    computed = dtypes.to_inexact_dtype(wanted)
    start, stop = convert(start, computed), convert(stop, computed)
    sign = lax.sign(start)
    ends = [ufuncs.log10(ufuncs.divide(start, sign)), ufuncs.log10(ufuncs.divide(stop, sign))]
    found = logspace(ends[0], ends[1], num, endpoint=endpoint, base=10.0, dtype=computed, axis=0)
    found = ufuncs.multiply(lax.expand_dims(sign, (0,)) if sign.aval.ndim else sign, found)
    return convert(moveaxis(found, 0, axis) if axis else found, wanted)
