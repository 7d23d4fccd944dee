"""``x.at[index]``, and functions that take elements at indices: ``take``, ``take_along_axis``."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.core import dtypes, lazy
from minijax.core.array import Array, MeshArray
from minijax.core.avals import dtype_name
from minijax.core.trace import Tracer
from minijax.numpy.creation import asarray, ones_like
from minijax.numpy.indexing import Mode, gather_index, index_items, rewrite_index, takes_slices, update_index
from minijax.numpy.mathematics import mod, power
from minijax.numpy.promotion import (
    broadcast_shapes,
    canonical_axis,
    choose,
    const,
    ensure,
    is_array_like,
)
from minijax.numpy.ufuncs import add, divide, less
from minijax.ops.dynamic import wrap_negative
from minijax.ops.index import index_dtype

__all__ = ["take", "take_along_axis"]

# In these modes a static index becomes a slice, which clamps an index out of bounds.
_MOVING = (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)


class IndexUpdate:
    """The class of ``x.at``: ``x.at[index].set(y)`` and its siblings return a changed copy of ``x``."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateAt:
        return IndexUpdateAt(self.array, index)

    def __repr__(self) -> str:
        return f"IndexUpdate({self.array!r})"


def _updating(name: str, scatter: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def update(self: IndexUpdateAt, values: Any, **options: Any) -> Any:
        values = values if is_array_like(values) else asarray(values)  # a list, for example
        out_sharding = options.pop("out_sharding", None)
        if out_sharding is None:
            return update_index(self.array, self.index, values, scatter, **options)

        def run(array: Any, index: Any, values: Any) -> Any:
            return update_index(array, index, values, scatter, **options)

        return _over_mesh(f".{name}", out_sharding, run, self.array, self.index, values)

    update.__name__, update.__qualname__, update.__doc__ = name, f"IndexUpdateAt.{name}", doc
    return update


class IndexUpdateAt:
    """``x.at[index]``: ``x.at[index].set(y)`` returns a changed copy; ``x`` itself stays the same.

    ``index``: any index that ``x[index]`` accepts. ``values`` broadcast to the shape of ``x[index]``. They are
    converted to the dtype of ``x``, with a FutureWarning if the conversion is unsafe. The result has the shape and
    dtype of ``x``. The methods take the options of ``lax.scatter``: ``indices_are_sorted``, ``unique_indices``,
    ``mode`` for indices out of bounds (by default 'drop'; or 'clip', 'promise_in_bounds'), ``wrap_negative_indices``.
    ``out_sharding`` is the result's sharding over a mesh with explicit axes. If an index occurs several times, ``set``
    keeps one of its values; the other methods combine all of them. ValueError for ``values`` that do not broadcast.

    >>> jnp.arange(3).at[jnp.array([0, 0])].add(1)
    Array([2, 1, 2], dtype=int32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"IndexUpdateAt({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """``x[index]``. With ``mode='fill'``, an index out of bounds gives ``fill_value`` (by default nan).

        ``out_sharding`` applies to gathers only: as in JAX, it does not change a slice of a tracer.
        """
        flags: dict[str, Any] = {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
            "mode": mode,
        }
        outside = {"fill_value": fill_value, "wrap_negative_indices": wrap_negative_indices}
        moving = wrap_negative_indices and (mode is None or lax.GatherScatterMode.from_any(mode) in _MOVING)
        if out_sharding is not None and not (
            moving and type(self.array) is not MeshArray and takes_slices(self.array, self.index, mode)
        ):

            def run(array: Any, index: Any) -> Any:
                return IndexUpdateAt(array, index).get(**flags, **outside)

            return _over_mesh(".get", out_sharding, run, self.array, self.index)
        if moving:
            return rewrite_index(self.array, self.index, **flags)
        return gather_index(self.array, index_items(self.index), **flags, **outside)

    set = _updating("set", lax.scatter, "A copy of ``x`` with ``values`` at ``index``.")
    add = _updating("add", lax.scatter_add, "A copy of ``x`` with ``values`` added at ``index``.")
    subtract = _updating("subtract", lax.scatter_sub, "A copy of ``x`` with ``values`` subtracted at ``index``.")
    multiply = mul = _updating("multiply", lax.scatter_mul, "A copy of ``x`` multiplied by ``values`` at ``index``.")
    min = _updating("min", lax.scatter_min, "A copy of ``x`` with the smaller of ``x`` and ``values`` at ``index``.")
    max = _updating("max", lax.scatter_max, "A copy of ``x`` with the larger of ``x`` and ``values`` at ``index``.")

    def divide(self, values: Any, **options: Any) -> Any:
        """A copy of ``x`` divided by ``values`` at ``index``."""
        return divide(self.array, IndexUpdateAt(ones_like(self.array), self.index).multiply(values, **options))

    def power(self, values: Any, **options: Any) -> Any:
        """A copy of ``x`` raised to the power ``values`` at ``index``."""
        return power(self.array, IndexUpdateAt(ones_like(self.array), self.index).multiply(values, **options))

    def apply(self, func: Callable[[Any], Any], **options: Any) -> Any:
        """A copy of ``x`` with the scalar function ``func`` applied at ``index``. The copy has no derivative."""

        def scatter(x: Any, indices: Any, values: Any, numbers: Any, **flags: Any) -> Any:
            return lax.scatter_apply(x, indices, func, numbers, update_shape=values.aval.shape, **flags)

        return update_index(self.array, self.index, const(self.array, 0), scatter, **options)


def _over_mesh(name: str, out_sharding: Any, run: Callable[..., Any], array: Any, index: Any, *values: Any) -> Any:
    """Call ``run(array, index, *values)``, whose shardings the compiler chooses; the result gets ``out_sharding``."""
    items = index if isinstance(index, tuple) else (index,)
    places = [i for i, item in enumerate(items) if isinstance(item, (Array, Tracer, np.ndarray))]

    def whole(array: Any, *rest: Any) -> Any:
        full = [*items]
        for place, item in zip(places, rest[len(values) :], strict=True):
            full[place] = item
        return run(array, tuple(full) if isinstance(index, tuple) else full[0], *rest[: len(values)])

    within = lazy.public("minijax.api.explicit", "left_to_compiler")
    return within(name, out_sharding, whole, array, *values, *(items[i] for i in places))


def take(
    a: Any,
    indices: Any,
    axis: Any = None,
    out: Any = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """The elements of ``a`` at ``indices`` along ``axis``. If ``axis`` is None, ``a`` is flattened first.

    ``mode`` decides about indices out of bounds. 'fill' (the default) gives ``fill_value`` or nan. 'clip' gives the
    nearest element (the first, for negative indices). 'wrap' takes the index modulo the size. IndexError for elements
    of an empty axis.
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.take is not supported.")
    axis = None if axis is None else operator.index(axis)
    return _take(a, indices, axis, mode, unique_indices, indices_are_sorted, fill_value)


@inner_jit(static_argnames=("axis", "mode", "unique_indices", "indices_are_sorted", "fill_value"))
def _take(
    a: Any, indices: Any, axis: Any, mode: str | None, unique_indices: bool, indices_are_sorted: bool, fill_value: Any
) -> Any:
    a, indices = ensure("take", a, indices)
    if axis is None:
        a, axis = lax.reshape(a, (a.aval.size,)), 0
    shape = a.aval.shape
    axis = canonical_axis(axis, len(shape))
    size = shape[axis]
    if mode is None or mode == "fill":
        mode = "fill"
        indices = choose(less(indices, 0), add(indices, size), indices)
    elif mode == "wrap":
        mode = "promise_in_bounds"
        indices = mod(indices, const(indices, size))
    elif mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.take is not supported.")
    elif mode != "clip":
        raise ValueError(f"Invalid mode '{mode}' for np.take")
    count = indices.aval.ndim
    if not size:
        if indices.aval.size:
            raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
        return a
    if not indices.aval.size:
        return lax.full_like(a, 0, shape=(*shape[:axis], *indices.aval.shape, *shape[axis + 1 :]))
    rest = (*range(axis), *range(axis + count, len(shape) + count - 1))
    return lax.gather(
        a,
        lax.expand_dims(indices, (count,)),
        lax.GatherDimensionNumbers(rest, (axis,), (axis,)),
        (*shape[:axis], 1, *shape[axis + 1 :]),
        mode=mode,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        fill_value=fill_value,
    )


@inner_jit(static_argnames=("axis", "mode", "fill_value", "wrap_negative_indices"))
def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: Mode = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Any:
    """The elements of ``arr`` at ``indices`` along ``axis``. Each position along the other axes has its own indices.

    The other axes of ``arr`` and ``indices`` broadcast. With ``mode='fill'`` (the default) an index out of bounds gives
    ``fill_value`` or nan. Raises TypeError for indices that are not integers, ValueError if ``arr`` and ``indices``
    differ in their number of dimensions.
    """
    a, indices = ensure("take_along_axis", arr, indices)
    if not dtypes.is_integer(indices.aval.dtype):
        raise TypeError(f"take_along_axis indices must be of integer type, got {dtype_name(indices.aval.dtype)}")
    if axis is None:
        if indices.aval.ndim != 1:
            raise ValueError(f"take_along_axis indices must be 1D if axis=None, got shape {indices.aval.shape}")
        a, axis = lax.reshape(a, (a.aval.size,)), 0
    shape, places = a.aval.shape, indices.aval.shape
    if len(shape) != len(places):
        raise ValueError(f"indices and arr must have the same number of dimensions; {len(places)} vs. {len(shape)}")
    if mode == "one_hot":
        raise NotImplementedError("take_along_axis(mode='one_hot') is not supported: leave the mode out.")
    axis = canonical_axis(axis, len(shape))
    size = shape[axis]
    single = (*shape[:axis], 1, *shape[axis + 1 :])
    out_shape = broadcast_shapes(places, single)
    if not size:
        return lax.full(out_shape, 0, a.aval.dtype)
    if mode != "promise_in_bounds" if wrap_negative_indices is None else wrap_negative_indices:
        indices = wrap_negative(lax.convert_element_type(indices, index_dtype((size,))), size)
    varying = [d for d, n in enumerate(places) if d == axis or n != 1]
    vectors = lax.reshape(indices, (*[out_shape[d] for d in varying], 1))
    # drop the array's axes of size 1 along which the indices vary; the gather pairs each other varying axis with the
    # same axis of the indices
    dropped = [d for d in varying if d != axis and shape[d] == 1]
    kept = [d for d in range(len(shape)) if d not in dropped]
    together = [d for d in varying if d != axis and d not in dropped]
    numbers = lax.GatherDimensionNumbers(
        tuple(d for d in range(len(shape)) if d not in varying),
        (kept.index(axis),),
        (kept.index(axis),),
        tuple(kept.index(d) for d in together),
        tuple(varying.index(d) for d in together),
    )
    sizes = tuple(1 if d == axis else min(shape[d], 1) if d in together else shape[d] for d in kept)
    return lax.gather(
        lax.squeeze(a, dropped),
        vectors,
        numbers,
        sizes,
        mode="fill" if mode is None else mode,
        fill_value=fill_value,
    )
