"""Primitives that rearrange or repeat elements (broadcast_in_dim, reshape, squeeze, transpose, rev, tile), and iota."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from minijax.config import x64_enabled
from minijax.core import avals as types
from minijax.core import dtypes, lazy
from minijax.core.array import Array, as_array, get_aval
from minijax.core.avals import ShapedArray, dtype_name, sharded_part, sharding_of_type
from minijax.core.keys import is_key
from minijax.core.lists import safe_zip
from minijax.core.rules import Axes, Ints, Params, Rule, Shape, Values
from minijax.core.structural import (
    batched_sharding,
    broadcast_in_dim_p,
    moveaxis,
    random_unwrap_p,
    random_wrap_p,
    squeeze_p,
    transpose_p,
)
from minijax.core.structural import full as full_of
from minijax.core.trace import Tracer
from minijax.core.varying import varying_like
from minijax.interpreters.evaluate import by_type
from minijax.ir.pretty import hide
from minijax.lowering.text import dims_text, mlir_type
from minijax.ops.convert import convert
from minijax.ops.declare import declare, set_rules, trailing, unchanged
from minijax.ops.nary import NUM, ZERO, reduce_sum_p, reshape_p

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_in_dim_p",
    "broadcast_shapes",
    "broadcast_to_rank",
    "broadcasted_iota",
    "collapse",
    "expand_dims",
    "full",
    "full_like",
    "iota",
    "iota_p",
    "reshape",
    "reshape_p",
    "rev",
    "rev_p",
    "squeeze",
    "squeeze_p",
    "tile",
    "tile_p",
    "transpose",
    "transpose_p",
]

# A broadcast of at most this many elements is a copy, which takes 0.5 us. NumPy's view takes 3 us.
_COPIED_BROADCAST = 4096
# A broadcast of more elements than this checks that there is enough memory.
_CERTAINLY_FITS = 1 << 28


def is_array(x: Any) -> bool:
    """Whether ``x`` is an array or tracer of minijax. A function with nothing to do returns only these unchanged."""
    return isinstance(x, (Array, Tracer))


def canonical_axis(axis: Any, ndim: int) -> int:
    """``axis`` counted from the front. ValueError if an array of ``ndim`` dimensions has no such axis."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


def canonical_shape(shape: Any, context: str = "") -> Shape:
    """``shape`` (a sequence, or one integer) as a tuple of ints. TypeError if the sizes are not known integers."""
    if isinstance(shape, int):
        shape = (shape,)
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        pass
    where = f" {context}" if context else ""
    hint = ""
    if is_array(shape) or any(isinstance(d, Tracer) for d in shape):
        hint = "\nIf using `jit`, try using `static_argnums` or applying `jit` to smaller subfunctions."
    raise TypeError(f"Shapes must be 1D sequences of concrete values of integer type, got {shape}{where}.{hint}")


def shape_of(x: Any) -> Shape:
    """The shape of any array-like value."""
    return get_aval(x).shape


def meant_sharding(sharding: Any, function: str) -> Any:
    """Resolve ``sharding``, the argument ``out_sharding`` of ``function``: see ``core.explicit``."""
    return lazy.public("minijax.core.explicit", "meant_sharding")(sharding, function)


def _without(sequence: Ints, positions: Iterable[int]) -> Axes:
    dropped = set(positions)
    return tuple(x for i, x in enumerate(sequence) if i not in dropped)


def _broadcast_abstract(x: ShapedArray, *, shape: Shape, broadcast_dimensions: Axes, sharding: Any) -> ShapedArray:
    dims = broadcast_dimensions
    if x.ndim != len(dims):
        raise TypeError(
            "broadcast_in_dim broadcast_dimensions must have length equal to operand ndim; "
            f"got broadcast_dimensions {dims} for operand ndim {x.ndim}."
        )
    if len(shape) < x.ndim:
        raise TypeError(
            "broadcast_in_dim target broadcast shape must have equal or higher rank to the operand shape; "
            f"got operand ndim {x.ndim} and target broadcast ndim {len(shape)}."
        )
    if any(not 0 <= d < len(shape) for d in dims):
        raise TypeError(
            "broadcast_in_dim broadcast_dimensions must be a subset of output dimensions, "
            f"got {dims} for operand ndim {x.ndim} and shape {shape}."
        )
    if any(n not in (1, shape[d]) for n, d in safe_zip(x.shape, dims)):
        raise TypeError(
            "broadcast_in_dim operand dimension sizes must either be 1, or be equal to their corresponding "
            f"dimensions in the target broadcast shape; got operand of shape {x.shape}, target broadcast "
            f"shape {shape}, broadcast_dimensions {dims}"
        )
    if len(set(dims)) != len(dims):
        raise TypeError(
            f"broadcast_in_dim broadcast_dimensions must not contain duplicates, got broadcast_dimensions {dims}"
        )
    return ShapedArray(shape, x.dtype, x.weak_type)


@by_type
def _broadcast_numpy(x: Any, shape: Shape, broadcast_dimensions: Axes, sharding: Any) -> Rule:
    aligned = [1] * len(shape)
    for d, n in safe_zip(broadcast_dimensions, x.shape):
        aligned[d] = n
    align = arranged(x.shape, tuple(sorted(range(x.ndim), key=broadcast_dimensions.__getitem__)), tuple(aligned))
    if x.ndim and tuple(aligned) == shape:
        return align or unchanged
    spread = functools.partial(_spread, shape, math.prod(shape))
    return spread if align is None or not x.ndim else lambda x: spread(align(x))


def _spread(shape: Shape, size: int, x: Any) -> Any:
    """``x`` broadcast to ``shape``, as by NumPy. ``size`` is the number of elements of ``shape``."""
    if size > _COPIED_BROADCAST:
        if size > _CERTAINLY_FITS:
            np.empty(shape, x.dtype)  # raise MemoryError now, not when the view is first used
        return np.broadcast_to(x, shape)
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


def arranged(shape: Shape, permutation: Axes, wanted: Axes) -> Rule | None:
    """A function that permutes and reshapes a NumPy array of ``shape`` to ``wanted``; None if that changes nothing."""
    transposed = None if permutation == (*range(len(shape)),) else operator.methodcaller("transpose", permutation)
    if tuple([shape[d] for d in permutation]) == wanted:
        return transposed
    reshaped = operator.methodcaller("reshape", wanted)
    return reshaped if transposed is None else lambda x: reshaped(transposed(x))


def _broadcast_transpose(ct: Any, x: Any, *, shape: Shape, broadcast_dimensions: Axes, sharding: Any) -> list[Any]:
    ones = [i for i, n in enumerate(x.aval.shape) if n == 1]
    kept = _without(broadcast_dimensions, ones)
    out_sharding = None
    if types.sharded_types_made:
        small = x.aval
        for i in reversed(ones):
            small = small.part(i)
        out_sharding = sharding_of_type(small, get_aval(ct))
    summed = reduce_sum_p.bind(ct, axes=_without(range(len(shape)), kept), out_sharding=out_sharding)
    # the dimensions of the sum are in the order of the result; bring them into the operand's order
    summed = transpose(summed, inverse_permutation(sorted(range(len(kept)), key=kept.__getitem__)))
    return [expand_dims(summed, ones)]


def _broadcast_batch(args: Values, dims: Values, *, shape: Shape, broadcast_dimensions: Axes, sharding: Any) -> Any:
    x = moveaxis(args[0], dims[0], 0)
    bumped = (0, *[d + 1 for d in broadcast_dimensions])
    wide = batched_sharding(sharding, 0, sharded_part(get_aval(x), 0))
    return repeated(x, (shape_of(x)[0], *shape), bumped, wide), 0


def _broadcast_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, shape: Shape, broadcast_dimensions: Axes, sharding: Any
) -> str:
    return ctx.broadcast(x, avals[0], shape, broadcast_dimensions)


def _broadcast_words(avals: Any, out_avals: Any, params: Params) -> Params:
    (x,), (out,) = avals, out_avals
    dims = trailing(params["broadcast_dimensions"], x.ndim, out.ndim)
    return {**params, "shape": out.shape, "broadcast_dimensions": dims}


declare(
    broadcast_in_dim_p,
    abstract=_broadcast_abstract,
    numpy=_broadcast_numpy,
    lower=_broadcast_lower,
    batch=_broadcast_batch,
    transpose=_broadcast_transpose,
    words=_broadcast_words,
    sharding="sharding",
)
# ``hide`` omits the parameters that the printed type of the result shows: its shape and sharding


def _broadcast_read(params: Params, in_avals: Any, out_avals: Any) -> Params:
    """Restore the parameters that ``hide`` hides, from the type of the result."""
    return {"shape": out_avals[0].shape, "broadcast_dimensions": (), **params}


set_rules(broadcast_in_dim_p, shown=hide("shape", "sharding", trivial=["broadcast_dimensions"]), parse=_broadcast_read)


def broadcast_in_dim(operand: Any, shape: Ints, broadcast_dimensions: Ints, *, out_sharding: Any = None) -> Any:
    """``operand`` repeated to ``shape``, with the sharding ``out_sharding``; its dimension ``i`` becomes
    ``broadcast_dimensions[i]`` of the result.

    Each dimension of ``operand`` must have size 1 or the size of the result's dimension, else TypeError.
    """
    shape, dims = canonical_shape(shape), tuple(map(operator.index, broadcast_dimensions))
    if out_sharding is not None:
        out_sharding = meant_sharding(out_sharding, "broadcast_in_dim")
    return repeated(operand, shape, dims, out_sharding)


def repeated(operand: Any, shape: Shape, dims: Axes, sharding: Any) -> Any:
    """``broadcast_in_dim`` without checks. An operand that already has this shape is returned unchanged."""
    if sharding is None and is_array(operand) and operand.shape == shape and dims == tuple(range(len(shape))):
        return operand
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims, sharding=sharding)


def broadcast(operand: Any, sizes: Ints, *, out_sharding: Any = None) -> Any:
    """``operand`` repeated along new leading dimensions of ``sizes``. TypeError for sizes that are not a sequence."""
    sizes = canonical_shape(tuple(sizes))
    if not sizes and out_sharding is None:
        return operand if is_array(operand) else as_array(operand)
    own = shape_of(operand)
    dims = range(len(sizes), len(sizes) + len(own))
    return broadcast_in_dim(operand, (*sizes, *own), dims, out_sharding=out_sharding)


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """``x`` with leading dimensions of size 1 up to ``rank`` dimensions."""
    return broadcast(x, (1,) * (rank - get_aval(x).ndim))


def broadcast_shapes(*shapes: Ints) -> Shape:
    """The shape to which NumPy broadcasts ``shapes``. ValueError if they do not fit, TypeError for negative sizes."""
    if not shapes:
        return ()
    if any(d < 0 for s in shapes for d in s):
        raise TypeError(f"Sizes must not be negative to broadcast: shapes={[tuple(s) for s in shapes]}")
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(s)) + tuple(s) for s in shapes]
    out = []
    for sizes in safe_zip(*padded):
        wide = {d for d in sizes if d != 1}
        if len(wide) > 1:
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={[tuple(s) for s in shapes]}")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def expand_dims(array: Any, dimensions: Ints) -> Any:
    """``array`` with new dimensions of size 1 at ``dimensions`` of the result. ValueError for repeated or bad ones."""
    ndim = get_aval(array).ndim + len(dimensions)
    new = {canonical_axis(d, ndim) for d in dimensions}
    if len(new) != len(dimensions):
        raise ValueError(f"repeated axis in lax.expand_dims: {tuple(dimensions)}")
    sizes = iter(shape_of(array))
    shape = [1 if d in new else next(sizes) for d in range(ndim)]
    return broadcast_in_dim(array, shape, [d for d in range(ndim) if d not in new])


def _reshape_abstract(x: ShapedArray, *, new_sizes: Shape, dimensions: Axes | None, sharding: Any) -> ShapedArray:
    if any(d < 0 for d in new_sizes):
        raise TypeError(f"reshape new_sizes must all be positive, got {new_sizes}.")
    if math.prod(new_sizes) != x.size:
        raise TypeError(f"reshape total size must be unchanged, got new_sizes {new_sizes} for shape {x.shape}.")
    if dimensions is not None and sorted(dimensions) != list(range(x.ndim)):
        raise TypeError(
            "reshape dimensions must be a permutation of operand dimensions, "
            f"got dimensions {dimensions} for shape {x.shape}."
        )
    return ShapedArray(new_sizes, x.dtype, x.weak_type)


@by_type
def _reshape_numpy(x: Any, new_sizes: Shape, dimensions: Axes | None, sharding: Any) -> Rule:
    return arranged(x.shape, (*range(x.ndim),) if dimensions is None else dimensions, new_sizes) or unchanged


def _reshape_transpose(ct: Any, x: Any, *, new_sizes: Shape, dimensions: Axes | None, sharding: Any) -> list[Any]:
    shape = x.aval.shape
    if dimensions is None:
        return [reshape(ct, shape, out_sharding=sharding_of_type(x.aval, get_aval(ct)))]
    return [transpose(reshape(ct, [shape[d] for d in dimensions]), inverse_permutation(dimensions))]


def _reshape_batch(args: Values, dims: Values, *, new_sizes: Shape, dimensions: Axes | None, sharding: Any) -> Any:
    x = moveaxis(args[0], dims[0], 0)
    if dimensions is not None:
        dimensions = (0, *[d + 1 for d in dimensions])
    wide = batched_sharding(sharding, 0, sharded_part(get_aval(x), 0))
    return reshape(x, (shape_of(x)[0], *new_sizes), dimensions, out_sharding=wide), 0


def _reshape_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, new_sizes: Shape, dimensions: Any, sharding: Any
) -> str:
    aval = avals[0]
    if dimensions is not None:
        x = transpose_text(ctx, x, aval, dimensions)
        aval = aval.update(shape=tuple(aval.shape[d] for d in dimensions))
    # also written if the shape stays the same: as in JAX, a reshape is then only staged if it has ``dimensions``
    return ctx.emit(f"stablehlo.reshape {x} : ({mlir_type(aval)}) -> {mlir_type(out_avals[0])}")


def reshape_text(ctx: Any, x: str, aval: ShapedArray, shape: Shape) -> str:
    """Write the reshape of ``x``, of type ``aval``, to ``shape``. Return its name."""
    if aval.shape == shape:
        return x
    return ctx.emit(f"stablehlo.reshape {x} : ({mlir_type(aval)}) -> {mlir_type(aval.update(shape=shape))}")


def _reshape_words(avals: Any, out_avals: Any, params: Params) -> Params:
    (x,), (out,), dims = avals, out_avals, params["dimensions"]
    return {**params, "new_sizes": out.shape, "dimensions": dims and trailing(dims, x.ndim, x.ndim)}


declare(
    reshape_p,
    abstract=_reshape_abstract,
    numpy=_reshape_numpy,
    lower=_reshape_lower,
    batch=_reshape_batch,
    transpose=_reshape_transpose,
    words=_reshape_words,
    sharding="sharding",
)


def reshape(operand: Any, new_sizes: Ints, dimensions: Ints | None = None, *, out_sharding: Any = None) -> Any:
    """``operand`` reshaped to ``new_sizes`` in row-major order, after a permutation by ``dimensions`` if it is given.
    The result has the sharding ``out_sharding``.

    ``new_sizes`` has no -1: only ``jnp.reshape`` accepts it. Raises TypeError if the number of elements would change.
    """
    new_sizes = canonical_shape(new_sizes)
    shape = shape_of(operand)
    order = None if dimensions is None else tuple(map(operator.index, dimensions))
    if order == tuple(range(len(shape))):
        order = None
    if out_sharding is not None:
        out_sharding = meant_sharding(out_sharding, "reshape")
    elif shape and shape == new_sizes and order is None and is_array(operand):
        return operand
    return reshape_p.bind(operand, new_sizes=new_sizes, dimensions=order, sharding=out_sharding)


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """``operand`` with the dimensions from ``start_dimension`` up to ``stop_dimension`` merged into one."""
    shape = shape_of(operand)
    low, high, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if high < low:
        raise ValueError(f"Invalid dimension range passed to collapse: {shape}[{start_dimension}:{stop_dimension}]")
    return reshape(operand, (*shape[:low], math.prod(shape[low:high]), *shape[high:]))


def _squeeze_abstract(x: ShapedArray, *, dimensions: Axes) -> ShapedArray:
    if len(set(dimensions)) != len(dimensions):
        raise ValueError(f"dimensions are not unique: {dimensions}")
    if any(not 0 <= d < x.ndim for d in dimensions):
        raise ValueError(f"dimensions outside range [0, ndim): {dimensions}")
    if any(x.shape[d] != 1 for d in dimensions):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one, "
            f"got shape={x.shape} and dimensions={dimensions}"
        )
    return ShapedArray(_without(x.shape, dimensions), x.dtype, x.weak_type)


def _squeeze_numpy(x: Any, dimensions: Axes) -> Any:
    return x.squeeze(dimensions)


def _squeeze_transpose(ct: Any, x: Any, *, dimensions: Axes) -> list[Any]:
    return [expand_dims(ct, dimensions)]


def _squeeze_batch(args: Values, dims: Values, *, dimensions: Axes) -> Any:
    return squeeze(moveaxis(args[0], dims[0], 0), [d + 1 for d in dimensions]), 0


def _squeeze_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, dimensions: Axes) -> str:
    return reshape_text(ctx, x, avals[0], out_avals[0].shape)


declare(
    squeeze_p,
    abstract=_squeeze_abstract,
    numpy=_squeeze_numpy,
    lower=_squeeze_lower,
    batch=_squeeze_batch,
    transpose=_squeeze_transpose,
    takes_keys=True,
)


def squeeze(array: Any, dimensions: Ints) -> Any:
    """``array`` without its ``dimensions``. ValueError if one of them does not have size 1."""
    ndim = get_aval(array).ndim
    dims = tuple(sorted(canonical_axis(d, ndim) for d in dimensions))
    if not dims and is_array(array):
        return array
    return squeeze_p.bind(array, dimensions=dims)


def inverse_permutation(permutation: Ints) -> Axes:
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def _transpose_abstract(x: ShapedArray, *, permutation: Axes) -> ShapedArray:
    if not isinstance(permutation, (tuple, list, np.ndarray)):
        raise TypeError(f"transpose permutation must be a tuple/list/ndarray, got {type(permutation)}.")
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, "
            f"got permutation {permutation} for operand shape {x.shape}."
        )
    return ShapedArray(tuple(x.shape[d] for d in permutation), x.dtype, x.weak_type)


@by_type
def _transpose_numpy(x: Any, permutation: Axes) -> Rule:
    return operator.methodcaller("transpose", permutation)


def _transpose_transpose(ct: Any, x: Any, *, permutation: Axes) -> list[Any]:
    return [transpose(ct, inverse_permutation(permutation))]


def _transpose_batch(args: Values, dims: Values, *, permutation: Axes) -> Any:
    (x,), (dim,) = args, dims
    return transpose(x, (dim, *[d if d < dim else d + 1 for d in permutation])), 0


def _transpose_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, permutation: Axes) -> str:
    return transpose_text(ctx, x, avals[0], permutation)


def transpose_text(ctx: Any, x: str, aval: ShapedArray, permutation: Ints) -> str:
    """Write the transpose of ``x``, of type ``aval``. Return its name."""
    out = mlir_type(aval.update(shape=tuple(aval.shape[d] for d in permutation)))
    return ctx.emit(f"stablehlo.transpose {x}, dims = {dims_text(permutation)} : ({mlir_type(aval)}) -> {out}")


def _transpose_words(avals: Any, out_avals: Any, params: Params) -> Params:
    (x,) = avals
    return {"permutation": trailing(params["permutation"], x.ndim, x.ndim)}


declare(
    transpose_p,
    abstract=_transpose_abstract,
    numpy=_transpose_numpy,
    lower=_transpose_lower,
    batch=_transpose_batch,
    transpose=_transpose_transpose,
    words=_transpose_words,
)


def transpose(operand: Any, permutation: Ints) -> Any:
    """``operand`` with its dimensions permuted: dimension ``i`` of the result is ``permutation[i]`` of the operand."""
    order = tuple(map(operator.index, permutation))
    if is_array(operand) and order == tuple(range(operand.ndim)):
        return operand
    return transpose_p.bind(operand, permutation=order)


def _rev_abstract(x: ShapedArray, *, dimensions: Axes) -> ShapedArray:
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev dimensions must be unique, got {dimensions}.")
    if any(not 0 <= d < x.ndim for d in dimensions):
        raise TypeError(
            f"rev dimensions must all be less than operand ndim, got dimensions {dimensions} for operand ndim {x.ndim}."
        )
    return x


def _rev_numpy(x: Any, dimensions: Axes) -> Any:
    return x[tuple(slice(None, None, -1) if d in dimensions else slice(None) for d in range(x.ndim))]


def _rev_transpose(ct: Any, x: Any, *, dimensions: Axes) -> list[Any]:
    return [rev(ct, dimensions)]


def _rev_batch(args: Values, dims: Values, *, dimensions: Axes) -> Any:
    (x,), (dim,) = args, dims
    return rev(x, [d + 1 if d >= dim else d for d in dimensions]), dim


def _rev_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, dimensions: Axes) -> str:
    return ctx.emit(f"stablehlo.reverse {x}, dims = {dims_text(dimensions)} : {mlir_type(avals[0])}")


rev_p = declare(
    "rev",
    abstract=_rev_abstract,
    numpy=_rev_numpy,
    lower=_rev_lower,
    batch=_rev_batch,
    transpose=_rev_transpose,
    takes_keys=True,
)


def rev(operand: Any, dimensions: Ints) -> Any:
    """``operand`` with the order of elements along ``dimensions`` reversed."""
    return rev_p.bind(operand, dimensions=tuple(map(operator.index, dimensions)))


def _tile_abstract(x: ShapedArray, *, reps: Axes) -> ShapedArray:
    if x.ndim != len(reps):
        raise TypeError(f"reps length must be equal to the ndim of x, got len(reps)={len(reps)} and x.ndim={x.ndim}.")
    return ShapedArray(tuple(n * r for n, r in safe_zip(x.shape, reps)), x.dtype, x.weak_type)


def _interleave(first: Values, second: Values) -> tuple[Any, ...]:
    return tuple(n for pair in safe_zip(first, second) for n in pair)


def _tile_transpose(ct: Any, x: Any, *, reps: Axes) -> list[Any]:
    shape = x.aval.shape
    axes = tuple(range(0, 2 * len(shape), 2))
    wide = sharding_of_type(x.aval, get_aval(ct))
    if wide is not None:  # the dimensions of the repetitions are not sharded
        wide = wide.with_spec(wide.spec.update(_interleave([None] * len(shape), wide.spec)))
    parts = reshape(ct, _interleave(reps, shape), out_sharding=wide)
    return [reduce_sum_p.bind(parts, axes=axes, out_sharding=None)]


def _tile_batch(args: Values, dims: Values, *, reps: Axes) -> Any:
    (x,), (dim,) = args, dims
    return tile(x, (*reps[:dim], 1, *reps[dim:])), dim


def _tile_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, reps: Axes) -> str:
    aval = avals[0]
    wide = aval.update(shape=_interleave(reps, aval.shape))
    repeated = ctx.broadcast(x, aval, wide.shape, range(1, 2 * aval.ndim, 2))
    return reshape_text(ctx, repeated, wide, out_avals[0].shape)


def _tile_words(avals: Any, out_avals: Any, params: Params) -> Params:
    reps = params["reps"]
    return {"reps": (*reps, *[1] * (avals[0].ndim - len(reps)))}


tile_p = declare(
    "tile",
    abstract=_tile_abstract,
    numpy=np.tile,
    lower=_tile_lower,
    batch=_tile_batch,
    transpose=_tile_transpose,
    words=_tile_words,
)


def tile(operand: Any, reps: Ints) -> Any:
    """``operand`` repeated ``reps[i]`` times along each dimension ``i``."""
    return tile_p.bind(operand, reps=tuple(map(operator.index, reps)))


def _iota_abstract(*, dtype: np.dtype, shape: Shape, dimension: int, sharding: Any) -> ShapedArray:
    if dtypes.kind(dtype) not in NUM:
        raise TypeError(
            f"iota does not accept dtype {dtype_name(dtype)}. Accepted dtypes are subtypes of integer, "
            "floating, complexfloating."
        )
    if any(d < 0 for d in shape):
        raise TypeError(f"iota shape must have every element be nonnegative, got {shape}.")
    if not 0 <= dimension < len(shape):
        raise ValueError(
            f"iota dimension must be between 0 and len(shape), got dimension={dimension} for shape={shape}"
        )
    return ShapedArray(shape, dtype)


def _iota_numpy(dtype: np.dtype, shape: Shape, dimension: int, sharding: Any) -> Any:
    counts = np.arange(shape[dimension]).astype(dtype)
    if len(shape) == 1:
        return counts
    return _broadcast_numpy(counts, shape=shape, broadcast_dimensions=(dimension,), sharding=sharding)


def _iota_lower(
    ctx: Any, avals: Any, out_avals: Any, *, dtype: np.dtype, shape: Any, dimension: int, sharding: Any
) -> str:
    return ctx.emit(f"stablehlo.iota dim = {dimension} : {mlir_type(out_avals[0])}")


iota_p = declare(
    "iota", abstract=_iota_abstract, numpy=_iota_numpy, lower=_iota_lower, derivative=ZERO, sharding="sharding"
)


def broadcasted_iota(dtype: Any, shape: Ints, dimension: int, *, out_sharding: Any = None) -> Any:
    """An array of ``shape`` and sharding ``out_sharding``. Each element equals its index along ``dimension``."""
    dtype = dtypes.check_user_dtype(dtype, "broadcasted_iota", x64_enabled())
    if out_sharding is not None:
        out_sharding = meant_sharding(out_sharding, "broadcasted_iota")
    shape, dimension = canonical_shape(shape), operator.index(dimension)
    return iota_p.bind(dtype=dtype, shape=shape, dimension=dimension, sharding=out_sharding)


def iota(dtype: Any, size: int) -> Any:
    """The vector ``[0, 1, ..., size - 1]`` of ``dtype``."""
    return broadcasted_iota(dtype, (size,), 0)


def full(shape: Ints, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
    """An array of ``shape`` filled with the scalar ``fill_value``. By default it has the scalar's dtype and weak type.

    ``sharding`` is the array's sharding over a mesh with explicit axes.
    """
    shape = canonical_shape(shape)
    aval = get_aval(fill_value)
    if aval.shape:
        raise TypeError(f"full must be called with scalar fill_value, got fill_value.shape {aval.shape}.")
    if is_key(dtype):
        return _full_of_keys(shape, fill_value, dtype)
    if dtype is None:
        return broadcast(convert(fill_value, aval.dtype, aval.weak_type), shape, out_sharding=sharding)
    value = convert(fill_value, dtypes.check_user_dtype(dtype, "full", x64_enabled()))
    return broadcast(value, shape, out_sharding=sharding)


def _full_of_keys(shape: Shape, fill_value: Any, dtype: Any) -> Any:
    """Keys of ``shape``, equal to the key ``fill_value``. If it is a number, all words of the keys equal it."""
    if not is_key(get_aval(fill_value).dtype):
        return full_of(shape, fill_value, dtype)
    words = dtype.impl.key_shape
    dims = range(len(shape), len(shape) + len(words))
    return random_wrap_p.bind(
        broadcast_in_dim(random_unwrap_p.bind(fill_value), (*shape, *words), dims), impl=dtype.impl
    )


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Ints | None = None, sharding: Any = None) -> Any:
    """An array of ``x``'s shape and dtype (unless ``shape`` or ``dtype`` are given) filled with ``fill_value``.

    The array is weakly typed if ``x`` is and no dtype is given. Inside ``shard_map`` it varies along the axes of ``x``.
    ``x`` may be anything with a shape and a dtype. ``sharding`` is the array's sharding over a mesh with explicit axes.
    """
    given = shape is not None
    shape = getattr(x, "shape", None) if shape is None else canonical_shape(shape)
    if shape is None:
        shape = shape_of(x)
    if shape_of(fill_value):
        raise TypeError(f"full_like must be called with a scalar fill_value, got one of shape {shape_of(fill_value)}.")
    if dtype is not None:
        new, weak = dtypes.check_user_dtype(dtype, "full_like", x64_enabled()), False
    else:
        new, weak = dtypes.dtype_and_weak_type(x, x64_enabled())
    if is_key(new):
        return varying_like(_full_of_keys(canonical_shape(shape), fill_value, new), x)
    if sharding is None and not given and types.sharded_types_made and hasattr(x, "aval"):
        sharding = sharding_of_type(get_aval(x))
    return varying_like(broadcast(convert(fill_value, new, weak), shape, out_sharding=sharding), x)
