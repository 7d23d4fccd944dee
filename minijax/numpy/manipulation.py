"""Functions that move elements about: reshaping, permuting axes, joining, splitting, repeating, padding."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from minijax import errors, lax
from minijax.api.inner import inner_jit
from minijax.core import avals, dtypes, late
from minijax.core.array import Array
from minijax.core.avals import dtype_name, sharding_of_type
from minijax.core.trace import Tracer
from minijax.numpy.creation import asarray, full
from minijax.numpy.index_update import IndexUpdate, take
from minijax.numpy.indexing import rewrite_index
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
    convert,
    ensure,
    index_tuple,
    known_value,
    promote_dtypes,
    static,
    user_dtype,
)
from minijax.numpy.reductions import cumsum
from minijax.numpy.ufuncs import subtract
from minijax.ops.shape import meant_sharding

__all__ = [
    "append",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "column_stack",
    "concat",
    "concatenate",
    "diff",
    "dsplit",
    "dstack",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "resize",
    "roll",
    "rollaxis",
    "rot90",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "unstack",
    "vsplit",
    "vstack",
]

# ------------------------------------------------------------------------------------ shape


def view(a: Any, dtype: Any = None, type: Any = None) -> Any:
    """The bytes of ``a`` read as elements of ``dtype``; along the last axis these may be more or fewer.

    Raises ValueError if they do not fit, NotImplementedError for a ``type``, which NumPy's subclasses of arrays are.
    """
    if type is not None:
        raise NotImplementedError("`type` argument of array.view() is not supported; jnp.asarray makes arrays.")
    a = ensure("view", a)
    wanted = a.aval.dtype if dtype is None else user_dtype(dtype, "view")
    if a.aval.dtype == wanted:
        return a
    if dtypes.is_bool(a.aval.dtype):
        return view(convert(a, np.dtype(np.uint8)), wanted)
    if dtypes.is_complex(a.aval.dtype):
        parts = lax.stack([lax.real(a), lax.imag(a)], a.aval.ndim)
        return view(lax.reshape(parts, (*a.aval.shape[:-1], 2 * _last(a))), wanted)
    if dtypes.is_bool(wanted):
        return convert(view(a, np.uint8), wanted)
    if dtypes.is_complex(wanted):
        halves = view(a, dtypes.real_dtype(wanted))
        if not halves.aval.ndim or halves.aval.shape[-1] % 2:
            raise _no_view(a, wanted)
        return lax.complex(halves[..., ::2], halves[..., 1::2])
    return _bits_viewed(a, wanted)


def _last(a: Any) -> int:
    return a.aval.shape[-1] if a.aval.ndim else 1


def _no_view(a: Any, wanted: np.dtype) -> ValueError:
    return ValueError(
        f"The last axis of {a.aval.str_short()} has to be divisible into elements of {dtype_name(wanted)}, which are "
        "of another size: reshape the array first, or view it as a type of the same size."
    )


def _bits_viewed(a: Any, wanted: np.dtype) -> Any:
    shape, old, new = a.aval.shape, dtypes.bits(a.aval.dtype), dtypes.bits(wanted)
    if old != new and (not shape or shape[-1] * old % new):
        raise _no_view(a, wanted)
    if not shape:
        return lax.squeeze(lax.bitcast_convert_type(lax.broadcast(a, (1,)), wanted), (0,))
    if old < new:
        a = lax.reshape(a, (*shape[:-1], shape[-1] * old // new, new // old))
    out = lax.bitcast_convert_type(a, wanted)
    return lax.reshape(out, (*shape[:-1], shape[-1] * old // new)) if old > new else out



def new_shape(a: Any, shape: Any) -> tuple[int, ...]:
    """The shape ``shape`` means for the array ``a``: one size may be -1, to be inferred.

    Raises TypeError if the sizes do not fit, ConcretizationTypeError if one is a tracer.
    """
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
                f"cannot reshape array of shape {own.shape} (size {own.size}) into shape {shape} because "
                "the product of "
                f"specified axis sizes ({known}) does not evenly divide {own.size}"
            )
        sizes[sizes.index(-1)] = own.size // known if known else 0
    elif own.size != known:
        raise TypeError(
            f"cannot reshape array of shape {own.shape} (size {own.size}) into shape {shape} (size {known})"
        )
    return tuple(sizes)


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None) -> Any:
    """The elements of ``a`` in another shape, which lies as ``out_sharding`` says; ``order`` 'C' (last axis fastest) or
    'F' (first axis fastest).
    """
    a = ensure("reshape", a)
    sizes = new_shape(a, shape)
    if order == "C":
        return lax.reshape(a, sizes, out_sharding=out_sharding)
    if order == "F":
        said = None if out_sharding is None else meant_sharding(out_sharding, "jnp.reshape")
        if said is not None:
            said = said.with_spec([*said.spec][::-1])
        return transpose(lax.reshape(a, sizes[::-1], tuple(range(a.aval.ndim))[::-1], out_sharding=said))
    if order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented.")
    raise ValueError(f"Unexpected value for 'order' argument: {order}.")


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements of ``a`` in one dimension, which lies as ``out_sharding`` says."""
    a = ensure("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    return reshape(a, (a.aval.size,), order, out_sharding=out_sharding)


def squeeze(a: Any, axis: Any = None) -> Any:
    """``a`` without the axes of size 1, or without those of them in ``axis``."""
    a = ensure("squeeze", a)
    shape = a.aval.shape
    axes = tuple(i for i, d in enumerate(shape) if d == 1) if axis is None else index_tuple(axis)
    return lax.squeeze(a, axes)


def expand_dims(a: Any, axis: Any) -> Any:
    """``a`` with new axes of size 1 at ``axis`` of the result."""
    return lax.expand_dims(ensure("expand_dims", a), index_tuple(axis))


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Any:
    """``array`` repeated to ``shape``, lying as ``out_sharding`` says. ValueError if it does not fit."""
    array = ensure("broadcast_to", array)
    context = "Shapes must be 1D sequences of concrete values of integer type."
    items = tuple(shape) if isinstance(shape, (tuple, list)) or np.ndim(shape) else (shape,)
    said = None if out_sharding is None else meant_sharding(out_sharding, "jnp.broadcast_to")
    return broadcast_array(array, tuple(static(d, context) for d in items), said)


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays, each repeated to their common shape."""
    check_array_like("broadcast_arrays", *args)
    return broadcast_together(*[asarray(x) for x in args])


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together. ValueError if there is none."""
    return common_shape(*[(s,) if np.ndim(s) == 0 else tuple(s) for s in shapes])


def _atleast(name: str, ndim: int, args: tuple[Any, ...]) -> Any:
    check_array_like(name, *args)
    out = []
    for x in map(asarray, args):
        missing = ndim - x.aval.ndim
        if missing > 0:
            # a row becomes a column of the third dimension: (n,) -> (1, n, 1)
            front = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}[x.aval.ndim] if ndim == 3 else tuple(range(missing))
            x = lax.expand_dims(x, front)
        out.append(x)
    return out[0] if len(out) == 1 else out


@inner_jit
def atleast_1d(*arys: Any) -> Any:
    """The arrays, scalars as arrays of one element."""
    return _atleast("atleast_1d", 1, arys)


@inner_jit
def atleast_2d(*arys: Any) -> Any:
    """The arrays, with axes of size 1 in front to make two dimensions."""
    return _atleast("atleast_2d", 2, arys)


@inner_jit
def atleast_3d(*arys: Any) -> Any:
    """The arrays, with axes of size 1 to make three dimensions."""
    return _atleast("atleast_3d", 3, arys)


# ------------------------------------------------------------------------------------ axes


def transpose(a: Any, axes: Any = None) -> Any:
    """``a`` with its axes in the order ``axes``, by default reversed."""
    a = ensure("transpose", a)
    ndim = a.aval.ndim
    order = tuple(range(ndim))[::-1] if axes is None else tuple(canonical_axis(i, ndim) for i in axes)
    return lax.transpose(a, order)


def permute_dims(a: Any, /, axes: Any) -> Any:
    """``a`` with its axes in the order ``axes``, counted from the front. TypeError if they are not its axes."""
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
    """``a`` with the axes ``source`` moved to the positions ``destination``, the others in their order."""
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


@inner_jit(static_argnames=("axis", "start"))
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """``a`` with ``axis`` moved to stand before the axis ``start``."""
    a = ensure("rollaxis", a)
    ndim = a.aval.ndim
    axis = canonical_axis(axis, ndim)
    if not -ndim <= start <= ndim:
        raise ValueError(f"start={start!r} must satisfy {-ndim}<=start<={ndim}")
    start = start + ndim if start < 0 else start
    return moveaxis(a, axis, start - 1 if start > axis else start)


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


@inner_jit(static_argnames=("k", "axes"))
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """``m`` turned by ``k`` quarters in the plane of the two axes, from the first towards the second."""
    m = ensure("rot90", m)
    ndim = m.aval.ndim
    if ndim < 2:
        raise ValueError(
            f"rot90 requires its first argument to have ndim at least two, but got first argument of "
            f"shape {m.aval.shape}, "
            f"which has ndim {ndim}"
        )
    first, second = (canonical_axis(a, ndim) for a in axes)
    if first == second:
        raise ValueError("Axes must be different")
    k %= 4
    if k == 0:
        return m
    if k == 2:
        return flip(flip(m, first), second)
    return swapaxes(flip(m, second), first, second) if k == 1 else flip(swapaxes(m, first, second), second)


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """``a`` with elements moved by ``shift``, rounded towards zero, along ``axis``; those that fall off come back at
    the other end.
    """
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
        # along an empty axis the size is no divisor; 1 will do, as there is nothing to move
        by = remainder(by, lax.max(const(by, size), const(by, 1)))
        a = lax.dynamic_slice_in_dim(lax.concatenate((a, a), ax), lax.sub(const(by, size), by), size, ax)
    return a


# ------------------------------------------------------------------------------------ joining


def _is_array(x: Any) -> bool:
    return isinstance(x, (Array, Tracer, np.ndarray))


def _arrays(name: str, arrays: Any) -> list[Any]:
    """The arrays to be joined: a sequence, or the rows of one array."""
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
    """The arrays joined along ``axis``, which they have already; flattened first if it is None."""
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
    """The arrays joined along ``axis``, which they have already."""
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: Any = None, dtype: Any = None) -> Any:
    """The arrays, of one shape, joined along a new ``axis``."""
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.stack is not supported.")
    joined = _arrays("stack", arrays)
    if not joined:
        raise ValueError("Need at least one array to stack.")
    typed = promote_dtypes(*joined) if dtype is None else [asarray(a, dtype=dtype) for a in joined]
    return lax.stack(typed, canonical_axis(axis, joined[0].aval.ndim + 1))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices of ``x`` along ``axis``, without that axis."""
    x = ensure("unstack", x)
    return tuple(lax.unstack(x, canonical_axis(axis, x.aval.ndim)))


def vstack(tup: Any, dtype: Any = None) -> Any:
    """The arrays joined along the first axis, vectors as rows."""
    return concatenate([atleast_2d(a) for a in _arrays("vstack", tup)], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Any:
    """The arrays joined along the second axis, vectors along their only one."""
    joined = [atleast_1d(a) for a in _arrays("hstack", tup)]
    return concatenate(joined, 0 if joined and joined[0].aval.ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Any:
    """The arrays joined along the third axis."""
    return concatenate([atleast_3d(a) for a in _arrays("dstack", tup)], 2, dtype)


def column_stack(tup: Any) -> Any:
    """The arrays joined along the second axis, vectors as columns."""
    columns = [transpose(atleast_2d(a)) if a.aval.ndim < 2 else a for a in _arrays("column_stack", tup)]
    return concatenate(columns, 1)


@inner_jit(static_argnames="axis")
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """``arr`` with ``values`` behind, along ``axis`` or flattened."""
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


@inner_jit
def block(arrays: Any) -> Any:
    """An array put together from nested lists of blocks: the innermost lists along the last axis."""
    return _block(arrays)[0]


def _block(x: Any) -> tuple[Any, int]:
    if isinstance(x, tuple):
        raise ValueError(f"jax.numpy.block does not allow tuples, got {x}")
    if not isinstance(x, list):
        return asarray(x), 1
    if not x:
        raise ValueError("jax.numpy.block does not allow empty list arguments")
    blocks, depths = zip(*map(_block, x), strict=True)
    if len(set(depths)) > 1:
        raise ValueError("Mismatched list depths in jax.numpy.block")
    rank = max(depths[0], *(b.aval.ndim for b in blocks))
    ranked = [lax.broadcast(b, (1,) * (rank - b.aval.ndim)) for b in blocks]
    return concatenate(ranked, -depths[0]), depths[0] + 1


# ------------------------------------------------------------------------------------ splitting


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
    """``ary`` cut along ``axis`` into equal parts, or at the given indices. ValueError if these do not rise up to the
    size of the axis.
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """``ary`` cut along ``axis`` into parts of nearly equal size, or at the given indices."""
    return _split("array_split", ary, indices_or_sections, axis)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """``ary`` cut along the first axis."""
    return _split("vsplit", ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """``ary`` cut along the second axis, a vector along its only one."""
    return _split("hsplit", ary, indices_or_sections, 0 if np.ndim(ensure("hsplit", ary)) == 1 else 1)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """``ary`` cut along the third axis."""
    return _split("dsplit", ary, indices_or_sections, 2)


# ------------------------------------------------------------------------------------ repeating, padding


def tile(A: Any, reps: Any) -> Any:
    """``A`` repeated ``reps`` times along each axis; missing entries of ``reps`` are 1, missing axes are
    added.
    """
    A = ensure("tile", A)
    counts = index_tuple(reps)
    counts = (1,) * (A.aval.ndim - len(counts)) + counts
    if len(counts) > A.aval.ndim:
        A = lax.expand_dims(A, tuple(range(len(counts) - A.aval.ndim)))
    return lax.tile(A, counts)


def repeat(
    a: Any,
    repeats: Any,
    axis: Any = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Any:
    """Each element of ``a`` repeated ``repeats`` times along ``axis``, or flattened.

    ``repeats`` decides the shape, so it must be known while tracing, unless ``total_repeat_length`` is given: then the
    result is cut off there, or filled with the last element. ``out_sharding`` says how the result lies over a mesh with
    explicit axes: by default as ``a``. ValueError where that does not say it.
    """
    check_array_like("repeat", a, repeats)
    a = asarray(a)
    if axis is None or not a.aval.ndim:
        a = lax.reshape(a, (a.aval.size,))
    axis = canonical_axis(0 if axis is None else axis, a.aval.ndim)
    if out_sharding is None and avals.sharded_types_made:
        out_sharding = _repeated_division(a, axis)
    if out_sharding is None:
        return _repeat(a, repeats, axis, total_repeat_length)
    within = late.public("minijax.api.explicit", "left_to_compiler")
    if total_repeat_length is None:
        return within("repeat", out_sharding, lambda a: _repeat(a, repeats, axis, None), a)
    run = lambda repeats, a: _repeat(a, repeats, axis, total_repeat_length)  # noqa: E731
    return within("repeat", out_sharding, run, repeats, a)


def _repeated_division(a: Any, axis: int) -> Any:
    """How ``a``, repeated along ``axis``, lies over the mesh that is set; None if it has no explicit axes."""
    public = late.public
    mesh = public("minijax.core.meshes", "context").mesh
    if mesh is None or not mesh.any_explicit:
        return None
    found = sharding_of_type(a.aval)
    if found is None:
        return public("minijax.core.shardings", "replicated")(0)
    if found.spec[axis] is not None:
        raise ValueError(
            f"jnp.repeat along axis {axis}, which is divided: {a.aval.str_short()}. Please pass sharding to "
            "`jnp.repeat` via `out_sharding` parameter."
        )
    return found


def _repeat(a: Any, repeats: Any, axis: int, total_repeat_length: int | None) -> Any:
    shape = a.aval.shape
    if total_repeat_length is not None:
        return _repeat_up_to(a, asarray(repeats), axis, operator.index(total_repeat_length))
    counts = static(repeats, "The number of repeats in jnp.repeat must be static.", np.asarray)
    if counts.dtype.kind not in "biu":
        raise TypeError(f"jnp.repeat: repeats must be integers, got an array of {counts.dtype}")
    if counts.ndim == 0:
        n = int(counts)
        dims = tuple(i for i in range(len(shape) + 1) if i != axis + 1)
        widened = lax.broadcast_in_dim(a, (*shape[: axis + 1], n, *shape[axis + 1 :]), dims)
        return lax.reshape(widened, (*shape[:axis], shape[axis] * n, *shape[axis + 1 :]))
    return _repeat_up_to(a, asarray(repeats), axis, int(np.broadcast_to(counts.ravel(), (shape[axis],)).sum()))


def _repeat_up_to(a: Any, repeats: Any, axis: int, length: int) -> Any:
    """``length`` elements of ``a`` along ``axis``, each ``repeats`` times, which may be traced."""
    size = a.aval.shape[axis]
    if not dtypes.is_bool(repeats.aval.dtype) and not dtypes.is_integer(repeats.aval.dtype):
        raise TypeError(f"jnp.repeat: repeats must be integers, got an array of {dtype_name(repeats.aval.dtype)}")
    if not size:
        return a
    counts = broadcast_array(ravel(repeats), (size,))
    # where each element begins; an element is the number of beginnings up to its place, less one
    begins = cumsum(IndexUpdate(roll(counts, 1, 0))[0].set(0))
    marked = IndexUpdate(full((length,), 0, np.int32))[begins].add(1)
    return take(a, subtract(cumsum(marked), 1), axis)


@inner_jit(static_argnames=("n", "axis"))
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The ``n``-th differences of neighbours along ``axis``."""
    a = ensure("diff", a)
    n, axis = operator.index(n), operator.index(axis)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if n == 0:
        return a
    if not a.aval.shape:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = canonical_axis(axis, a.aval.ndim)
    ends = []
    for x in (prepend, append):
        x = None if x is None else ensure("diff", x)
        if x is not None and not x.aval.shape:
            x = broadcast_array(x, tuple(1 if i == axis else d for i, d in enumerate(a.aval.shape)))
        ends.append(x)
    parts = [x for x in (ends[0], a, ends[1]) if x is not None]
    if len(parts) > 1:
        a = concatenate(parts, axis)
    op = lax.ne if dtypes.is_bool(a.aval.dtype) else lax.sub
    for _ in range(n):
        front = (slice(None),) * axis
        a = op(rewrite_index(a, (*front, slice(1, None))), rewrite_index(a, (*front, slice(None, -1))))
    return a


@inner_jit(static_argnames="new_shape")
def resize(a: Any, new_shape: Any) -> Any:
    """The elements of ``a``, repeated or cut off as needed, in another shape."""
    flat = ravel(a)
    shape = index_tuple(new_shape)
    if any(d < 0 for d in shape):
        raise ValueError(f"resize: all elements of `new_shape` must be non-negative, got {shape}")
    size = math.prod(shape)
    if not size or not flat.aval.size:
        return full(shape, 0, flat.aval.dtype)
    repeated = tile(flat, -(-size // flat.aval.size))
    return lax.reshape(rewrite_index(repeated, slice(0, size)), shape)
