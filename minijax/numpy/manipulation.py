"""Functions that rearrange elements: reshaping, permuting axes, reversing, joining, splitting, repeating, trimming."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax import errors, lax
from minijax.api.inner import inner_jit
from minijax.core.array import Array
from minijax.core.trace import Tracer
from minijax.numpy.creation import asarray
from minijax.numpy.mathematics import remainder
from minijax.numpy.promotion import (
    broadcast_arrays as broadcast_together,
)
from minijax.numpy.promotion import (
    broadcast_shapes as common_shape,
)
from minijax.numpy.promotion import (
    broadcast_to as broadcast_array,
)
from minijax.numpy.promotion import (
    canonical_axes,
    canonical_axis,
    check_array_like,
    const,
    ensure,
    index_tuple,
    known_value,
    promote_dtypes,
    public_names,
    static,
)
from minijax.ops.shape import meant_sharding


def _new_shape(a: Any, shape: Any) -> tuple[int, ...]:
    """``shape`` as a tuple of sizes for the array ``a``; a -1 is filled in. TypeError if the sizes do not fit."""
    context = "Shapes must be 1D sequences of concrete values of integer type."
    items = tuple(shape) if isinstance(shape, (tuple, list)) or np.ndim(shape) == 1 else (shape,)
    try:
        sizes = [static(d, context) for d in items]
    except TypeError as error:
        if isinstance(error, errors.JAXTypeError):
            raise
        raise TypeError(f"{context} Got {shape}.") from None
    own = a.aval
    if sizes.count(-1) > 1:
        raise TypeError(f"can only specify one unknown axis size with a `-1` value, got {shape}")
    known = math.prod(d for d in sizes if d != -1)
    if -1 in sizes:
        if own.size % known if known else own.size:
            raise TypeError(
                f"cannot reshape array of shape {own.shape} (size {own.size}) into shape {shape} because the product "
                f"of specified axis sizes ({known}) does not evenly divide {own.size}"
            )
        sizes[sizes.index(-1)] = own.size // known if known else 0
    elif own.size != known:
        raise TypeError(
            f"cannot reshape array of shape {own.shape} (size {own.size}) into shape {shape} (size {known})"
        )
    return tuple(sizes)


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None) -> Any:
    """``a`` in another shape, sharded by ``out_sharding``; ``order``: 'C' (last axis fastest) or 'F' (first axis)."""
    a = ensure("reshape", a)
    sizes = _new_shape(a, shape)
    if order == "C":
        return lax.reshape(a, sizes, out_sharding=out_sharding)
    if order == "F":
        sharding = None if out_sharding is None else meant_sharding(out_sharding, "jnp.reshape")
        if sharding is not None:
            sharding = sharding.with_spec([*sharding.spec][::-1])
        return transpose(lax.reshape(a, sizes[::-1], tuple(range(a.aval.ndim))[::-1], out_sharding=sharding))
    if order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented.")
    raise ValueError(f"Unexpected value for 'order' argument: {order}.")


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements of ``a`` in one dimension, sharded by ``out_sharding``."""
    a = ensure("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    return reshape(a, (a.aval.size,), order, out_sharding=out_sharding)


def squeeze(a: Any, axis: Any = None) -> Any:
    """``a`` without its axes of size 1, or without those listed in ``axis``."""
    a = ensure("squeeze", a)
    shape = a.aval.shape
    axes = tuple(i for i, d in enumerate(shape) if d == 1) if axis is None else index_tuple(axis)
    return lax.squeeze(a, axes)


def expand_dims(a: Any, axis: Any) -> Any:
    """``a`` with new axes of size 1 at ``axis`` of the result."""
    return lax.expand_dims(ensure("expand_dims", a), index_tuple(axis))


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Any:
    """``array`` broadcast to ``shape``, sharded by ``out_sharding``. ValueError if it does not fit."""
    array = ensure("broadcast_to", array)
    context = "Shapes must be 1D sequences of concrete values of integer type."
    items = tuple(shape) if isinstance(shape, (tuple, list)) or np.ndim(shape) else (shape,)
    sharding = None if out_sharding is None else meant_sharding(out_sharding, "jnp.broadcast_to")
    return broadcast_array(array, tuple(static(d, context) for d in items), sharding)


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays, broadcast to their common shape."""
    check_array_like("broadcast_arrays", *args)
    return broadcast_together(*[asarray(x) for x in args])


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The common shape to which these shapes broadcast. ValueError if there is none."""
    return common_shape(*[(s,) if np.ndim(s) == 0 else tuple(s) for s in shapes])


def _atleast(name: str, ndim: int, args: tuple[Any, ...]) -> Any:
    check_array_like(name, *args)
    out = []
    for x in map(asarray, args):
        missing = ndim - x.aval.ndim
        if missing > 0:
            # for three dimensions, a vector gets an axis on both sides: (n,) -> (1, n, 1)
            front = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}[x.aval.ndim] if ndim == 3 else tuple(range(missing))
            x = lax.expand_dims(x, front)
        out.append(x)
    return out[0] if len(out) == 1 else out


@inner_jit
def atleast_1d(*arys: Any) -> Any:
    """The arrays. Scalars become arrays of one element."""
    return _atleast("atleast_1d", 1, arys)


@inner_jit
def atleast_2d(*arys: Any) -> Any:
    """The arrays. An array with fewer than two dimensions gets axes of size 1 in front."""
    return _atleast("atleast_2d", 2, arys)


@inner_jit
def atleast_3d(*arys: Any) -> Any:
    """The arrays. An array with fewer than three dimensions gets axes of size 1."""
    return _atleast("atleast_3d", 3, arys)


def transpose(a: Any, axes: Any = None) -> Any:
    """``a`` with its axes in the order ``axes``, by default reversed."""
    a = ensure("transpose", a)
    ndim = a.aval.ndim
    order = tuple(range(ndim))[::-1] if axes is None else tuple(canonical_axis(i, ndim) for i in axes)
    return lax.transpose(a, order)


def permute_dims(a: Any, /, axes: Any) -> Any:
    """``a`` with its axes in the order ``axes``, which must not be negative. TypeError for wrong axes."""
    return lax.transpose(ensure("permute_dims", a), axes)


def matrix_transpose(x: Any, /) -> Any:
    """``x`` with its last two axes exchanged. ValueError for less than two dimensions."""
    x = ensure("matrix_transpose", x)
    ndim = x.aval.ndim
    if ndim < 2:
        raise ValueError(f"x must be at least two-dimensional for matrix_transpose; got ndim={ndim!r}")
    return lax.transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    """``a`` with two axes exchanged. IndexError for axes that it does not have."""
    a = ensure("swapaxes", a)
    order = list(range(a.aval.ndim))
    for axis in map(operator.index, (axis1, axis2)):
        if not -len(order) <= axis < len(order):
            raise IndexError(f"swapaxes: axis {axis} is out of bounds for array of dimension {len(order)}")
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return lax.transpose(a, tuple(order))


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Move the axes ``source`` of ``a`` to the positions ``destination``; the other axes keep their order."""
    a = ensure("moveaxis", a)
    ndim = a.aval.ndim
    given = index_tuple(source), index_tuple(destination)
    sources, destinations = (tuple(canonical_axis(i, ndim) for i in axes) for axes in given)
    if len(sources) != len(destinations):
        raise ValueError(f"Inconsistent number of elements: {len(sources)} vs {len(destinations)}")
    order = [i for i in range(ndim) if i not in sources]
    for at, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(at, axis)
    return lax.transpose(a, tuple(order))


def flip(m: Any, axis: Any = None) -> Any:
    """``m`` with the elements along ``axis`` in reverse order."""
    return _flip(m, None if axis is None else index_tuple(axis))


@inner_jit(static_argnames="axis")
def _flip(m: Any, axis: tuple[int, ...] | None) -> Any:
    m = ensure("flip", m)
    return lax.rev(m, canonical_axes(axis, m.aval.ndim))


def fliplr(m: Any) -> Any:
    """``m`` with its columns in reverse order."""
    return flip(m, 1)


def flipud(m: Any) -> Any:
    """``m`` with its rows in reverse order."""
    return flip(m, 0)


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Shift the elements of ``a`` along ``axis`` by ``shift`` (rounded towards zero). They wrap around at the end."""
    a = ensure("roll", a)
    if axis is None:
        return lax.reshape(roll(lax.reshape(a, (a.aval.size,)), shift, 0), a.aval.shape)
    axes = canonical_axes(index_tuple(axis), a.aval.ndim)
    known = known_value(shift)
    if known is None:
        return _roll_dynamic(a, shift, axes)
    if known.ndim > 1:
        raise ValueError(f"roll: 'shift' must be a scalar or a vector, got one of shape {known.shape}")
    shifts = tuple(int(s) for s in np.atleast_1d(known))
    return _roll_static(a, shifts, axes)


@inner_jit(static_argnames=("shift", "axis"))
def _roll_static(a: Any, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    for ax, by in zip(*np.broadcast_arrays(axis, shift), strict=True):
        ax, size = int(ax), a.aval.shape[int(ax)]
        if size:
            start = int(-by % size)
            parts = [lax.slice_in_dim(a, start, size, axis=ax), lax.slice_in_dim(a, 0, start, axis=ax)]
            a = lax.concatenate(parts, ax)
    return a


@inner_jit(static_argnames="axis")
def _roll_dynamic(a: Any, shift: Any, axis: tuple[int, ...]) -> Any:
    shape = common_shape(shift.aval.shape, (len(axis),))
    if len(shape) > 1:
        raise ValueError("'shift' and 'axis' arguments to roll must be scalars or 1D arrays")
    for ax, by in zip(np.broadcast_to(axis, shape).tolist(), broadcast_array(shift, shape), strict=True):
        size = a.aval.shape[ax]
        # for an empty axis the divisor is 1, to avoid a division by zero
        by = remainder(by, lax.max(const(by, size), const(by, 1)))
        a = lax.dynamic_slice_in_dim(lax.concatenate((a, a), ax), lax.sub(const(by, size), by), size, ax)
    return a


def _is_array(x: Any) -> bool:
    return isinstance(x, (Array, Tracer, np.ndarray))


def _arrays(name: str, arrays: Any) -> list[Any]:
    """The arrays to join: a sequence, or the rows of one array."""
    if not _is_array(arrays):
        arrays = list(arrays)
        check_array_like(name, *arrays)
        return [asarray(x) for x in arrays]
    whole = asarray(arrays)
    shape = whole.aval.shape
    if not shape:
        raise ValueError("Need at least one array to concatenate.")
    return [lax.squeeze(lax.slice_in_dim(whole, i, i + 1, axis=0), (0,)) for i in range(shape[0])]


def concatenate(arrays: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """Join the arrays along ``axis``, an existing axis. If ``axis`` is None, flatten them first."""
    joined = _arrays("concatenate", arrays)
    if not joined:
        raise ValueError("Need at least one array to concatenate.")
    if axis is None:
        return concatenate([ravel(a) for a in joined], 0, dtype)
    if not joined[0].aval.shape:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    axis = canonical_axis(axis, joined[0].aval.ndim)
    typed = promote_dtypes(*joined) if dtype is None else [asarray(a, dtype=dtype) for a in joined]
    return lax.concatenate(typed, axis)


def concat(arrays: Any, /, *, axis: Any = 0) -> Any:
    """Join the arrays along ``axis``, an existing axis."""
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: Any = None, dtype: Any = None) -> Any:
    """Join arrays of one shape along a new ``axis``."""
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.stack is not supported.")
    joined = _arrays("stack", arrays)
    if not joined:
        raise ValueError("Need at least one array to stack.")
    typed = promote_dtypes(*joined) if dtype is None else [asarray(a, dtype=dtype) for a in joined]
    return lax.stack(typed, canonical_axis(axis, joined[0].aval.ndim + 1))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices of ``x`` along ``axis``, as arrays without that axis."""
    x = ensure("unstack", x)
    return tuple(lax.unstack(x, canonical_axis(axis, x.aval.ndim)))


def vstack(tup: Any, dtype: Any = None) -> Any:
    """Join the arrays along the first axis. Vectors count as rows."""
    return concatenate([atleast_2d(a) for a in _arrays("vstack", tup)], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Any:
    """Join the arrays along the second axis, or vectors along their only axis."""
    joined = [atleast_1d(a) for a in _arrays("hstack", tup)]
    return concatenate(joined, 0 if joined and joined[0].aval.ndim == 1 else 1, dtype)


def _split(name: str, ary: Any, where: Any, axis: Any) -> list[Any]:
    ary = ensure(name, ary)
    axis = canonical_axis(static(axis, f"in jax.numpy.{name} argument `axis`"), ary.aval.ndim)
    size = ary.aval.shape[axis]
    context = f"in jax.numpy.{name} argument 1"
    if isinstance(where, (tuple, list)) or (_is_array(where) and np.ndim(where) > 0):
        points = [0, *(static(i, context) for i in where), size]
        sizes = [b - a for a, b in zip(points[:-1], points[1:], strict=True)]
    else:
        count = static(where, context)
        part, rest = divmod(size, count)
        if rest and name != "array_split":
            raise ValueError(f"array split does not result in an equal division: rest is {rest}")
        sizes = [part + 1] * rest + [part] * (count - rest)
    return list(lax.split(ary, tuple(map(int, sizes)), axis))


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Cut ``ary`` along ``axis`` into equal parts, or at ascending indices. ValueError for parts that do not fit."""
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Cut ``ary`` along ``axis`` into parts of nearly equal size, or at the given indices."""
    return _split("array_split", ary, indices_or_sections, axis)


def tile(A: Any, reps: Any) -> Any:
    """Repeat ``A`` ``reps`` times along each axis. Missing entries of ``reps`` are 1, and missing axes are added."""
    A = ensure("tile", A)
    counts = index_tuple(reps)
    counts = (1,) * (A.aval.ndim - len(counts)) + counts
    if len(counts) > A.aval.ndim:
        A = lax.expand_dims(A, tuple(range(len(counts) - A.aval.ndim)))
    return lax.tile(A, counts)


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """``filt`` without leading (``'f'``) and trailing (``'b'``) slices of zeros along ``axis`` (default: every axis).

    Raises ConcretizationTypeError for a value that is unknown during tracing.
    """
    filt = ensure("trim_zeros", filt)
    nonzero = static(filt, "Error arose in the `filt` argument of trim_zeros()", np.asarray) != 0
    axes = canonical_axes(axis, filt.aval.ndim)
    if len({*axes}) < len(axes):
        raise ValueError(f"repeated axis: {axes}")
    kept = [slice(None)] * filt.aval.ndim
    for d in axes:
        (found,) = np.nonzero(nonzero.any(axis=tuple(i for i in range(nonzero.ndim) if i != d)))
        first, last = (found[0], found[-1] + 1) if len(found) else (0, 0)
        kept[d] = slice(
            int(first) if "f" in trim.lower() or not len(found) else None,
            int(last) if "b" in trim.lower() or not len(found) else None,
        )
    return filt[tuple(kept)] if set(trim.lower()) & {"f", "b"} else filt


if not TYPE_CHECKING:  # mypy already sees all names without an underscore
    __all__ = public_names(globals())
