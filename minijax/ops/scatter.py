"""Updating an array at indices: ``scatter``, and variants that combine the updates with the old elements.

``scatter`` writes the slices that ``gather`` reads, with the same dimension numbers. An update whose slice is not fully
inside the operand is dropped. With mode CLIP the slice is moved inside instead.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import as_array, get_aval
from minijax.core.avals import ShapedArray, sharding_of_type
from minijax.core.lists import safe_zip
from minijax.core.primitive import Primitive, abstract_eval
from minijax.core.records import NamedTuple
from minijax.core.rules import Axes, Dims, Ints, Params, Rule, Shape, Values
from minijax.core.structural import UndefinedPrimal, Zero, full, instantiate_zeros, zero_tangent
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import AxisData, bdim_at_front, mapped_axis, vmap_jaxpr
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from minijax.ir.pretty import opened, parse_rules, readable
from minijax.lowering.lower import lower_eqns
from minijax.lowering.regions import region_text
from minijax.lowering.text import mlir_type, scalar_type
from minijax.ops.declare import declare
from minijax.ops.elementwise import add_p, const, div_p, eq_p, max_p, min_p, mul_p, neg_p, sub_p
from minijax.ops.index import (
    GatherDimensionNumbers,
    GatherScatterMode,
    batched_numbers,
    check_numbers,
    flat_positions,
    gather,
    gather_p,
    index_dtype,
    numbers_text,
    start_bounds,
)
from minijax.ops.nary import check_same_dtypes, in_lax, nary_jvp
from minijax.ops.select import select
from minijax.ops.shape import full_like, iota, reshape, shape_of

__all__ = [
    "ScatterDimensionNumbers",
    "scatter",
    "scatter_add",
    "scatter_add_p",
    "scatter_apply",
    "scatter_max",
    "scatter_max_p",
    "scatter_min",
    "scatter_min_p",
    "scatter_mul",
    "scatter_mul_p",
    "scatter_p",
    "scatter_sub",
    "scatter_sub_p",
]

add = add_p.bind
div = div_p.bind
eq = eq_p.bind
mul = mul_p.bind
neg = neg_p.bind


class ScatterDimensionNumbers(NamedTuple):
    """How a scatter maps dimensions of the updates and indices to those of the operand. A gather that reads the same
    slices has the same values in its ``GatherDimensionNumbers``.

    Attributes:
      update_window_dims: the dimensions of the updates that run over a slice.
      inserted_window_dims: the dimensions of the operand, with slice size 1, that the updates lack.
      scatter_dims_to_operand_dims: for each element of an index vector, the operand's dimension that it indexes.
      operand_batching_dims: dimensions of the operand that are indexed together with ...
      scatter_indices_batching_dims: ... these dimensions of the indices.
    """

    update_window_dims: Axes
    inserted_window_dims: Axes
    scatter_dims_to_operand_dims: Axes
    operand_batching_dims: Axes = ()
    scatter_indices_batching_dims: Axes = ()


readable(ScatterDimensionNumbers)


def _slice_sizes(shape: Ints, numbers: ScatterDimensionNumbers, updates: Ints) -> Shape:
    """The size of one slice in each dimension of an operand of ``shape``, given the updates' shape."""
    sizes = iter(updates[d] for d in numbers.update_window_dims)
    skipped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    return tuple(1 if d in skipped else next(sizes) for d in range(len(shape)))


def _scatter_abstract(
    operand: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    **params: Any,
) -> ShapedArray:
    window, inserted, _, batching, index_batching = dimension_numbers
    rank = max(indices.ndim - 1, 0) + len(window)
    if indices.ndim and updates.ndim != rank:
        raise TypeError(f"Updates tensor must be of rank {rank}; got {updates.ndim}.")
    check_numbers("scatter", operand, indices, dimension_numbers, rank)
    check_same_dtypes("scatter", (operand, updates))
    size = len(window) + len(inserted) + len(batching)
    if operand.ndim != size:
        raise TypeError(f"Scatter op has window of size {size}; doesn't match operand of rank {operand.ndim}.")
    widest = [n for d, n in enumerate(operand.shape) if d not in inserted and d not in batching]
    for d, limit in safe_zip(window, widest):
        if updates.shape[d] > limit:
            raise TypeError(
                "Bounds of the window dimensions of updates must not exceed the bounds of the corresponding dimensions "
                f"of operand. For dimension {d}, updates bound is {updates.shape[d]}, operand bound is {limit}."
            )
    outer = [d for d in range(rank) if d not in window]
    for d, n in zip(outer, indices.shape, strict=False):
        if updates.shape[d] != n:
            raise TypeError(
                "Bounds of the scatter dimensions of updates must be the same as the bounds of the corresponding "
                f"dimensions of scatter indices. For scatter dimension {d}, updates bound is {updates.shape[d]}, "
                f"indices bound is {n}."
            )
    return operand


Combine = Callable[[Any, Any, Any], None]


def _scatter_numpy(combine: Combine | None) -> Rule:
    """The NumPy rule. ``combine(out, positions, updates)`` changes the flat ``out``. ``scatter`` has no ``combine``."""

    def scatter_numpy(
        operand: Any,
        indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        mode: GatherScatterMode,
        update_jaxpr: Jaxpr | None,
        update_consts: Values,
        **params: Any,
    ) -> Any:
        shape = operand.shape
        out = np.array(operand).reshape(-1)
        if not updates.size or not out.size:
            return out.reshape(shape)
        sizes = _slice_sizes(shape, dimension_numbers, updates.shape)
        clip = mode == GatherScatterMode.CLIP
        positions, inside = flat_positions(shape, indices, dimension_numbers, sizes, updates.ndim, clip)
        positions = np.broadcast_to(positions, updates.shape)
        if inside is None:
            positions, updates = positions.reshape(-1), updates.reshape(-1)
        else:
            inside = np.broadcast_to(inside, updates.shape)
            positions, updates = positions[inside], updates[inside]
        if combine is not None:
            combine(out, positions, updates)
        elif update_jaxpr is None:
            out[positions] = updates
        else:
            _apply_numpy(out, positions, ClosedJaxpr(update_jaxpr, update_consts))
        return out.reshape(shape)

    return scatter_numpy


def _apply_numpy(out: Any, positions: Any, closed: ClosedJaxpr) -> None:
    """Apply the unary function at ``positions``; at a repeated position, apply it as often as the position occurs."""
    order = np.argsort(positions, kind="stable")
    ordered = positions[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if ordered.size else ordered
    counts = np.diff(np.append(starts, ordered.size))
    round_ = np.arange(ordered.size) - np.repeat(starts, counts)
    for i in range(int(counts.max(initial=0))):
        chosen = ordered[round_ == i]
        values = as_array(out[chosen])
        batched, _ = vmap_jaxpr(closed, AxisData(None, chosen.size), (0, 0))
        (result,) = eval_closed(batched, values, values)
        out[chosen] = np.asarray(result)


def _flags(params: Params) -> Params:
    """The parameters of a scatter that say how indices are used."""
    return {name: params[name] for name in ("indices_are_sorted", "unique_indices", "mode")}


def _sizes_of(x: Any) -> Shape:
    return x.aval.shape if type(x) is UndefinedPrimal else shape_of(x)


def _linear_jvp(primitive: Primitive) -> Rule:
    """The jvp rule of a scatter that is linear in operand and updates together."""

    def scatter_linear_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
        operand, indices, updates = primals
        t_operand, _, t_updates = tangents
        out = primitive.bind(operand, indices, updates, **params)
        if type(t_operand) is Zero and type(t_updates) is Zero:
            return out, zero_tangent(out)
        moved = primitive.bind(instantiate_zeros(t_operand), indices, instantiate_zeros(t_updates), **params)
        return out, moved

    return scatter_linear_jvp


def _transposer(to_operand: Rule, to_updates: Rule) -> Callable[..., list[Any]]:
    """The transpose rule, from functions that give the cotangents: ``to_operand(ct, indices, updates, **params)`` and
    ``to_updates(ct, operand, indices, shape, **params)``. ``shape`` is the shape of the updates."""

    def scatter_transpose(ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        assert type(indices) is not UndefinedPrimal, "a scatter is not linear in its indices"
        linear = [type(x) is UndefinedPrimal for x in (operand, updates)]
        ct_operand = to_operand(ct, indices, updates, **params) if linear[0] else None
        ct_updates = to_updates(ct, operand, indices, _sizes_of(updates), **params) if linear[1] else None
        return [ct_operand, None, ct_updates]

    return scatter_transpose


def _gather_slices(
    x: Any,
    indices: Any,
    updates: Ints,
    numbers: ScatterDimensionNumbers,
    mode: GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:
    """The slices of ``x`` that a scatter with updates of shape ``updates`` would overwrite."""
    sizes = _slice_sizes(shape_of(x), numbers, updates)
    return gather(x, indices, GatherDimensionNumbers(*numbers), sizes, mode=mode, fill_value=fill_value)


def _gathered_ct(
    ct: Any, operand: Any, indices: Any, updates: Ints, *, dimension_numbers: Any, mode: Any, **params: Any
) -> Any:
    return _gather_slices(ct, indices, updates, dimension_numbers, mode, 0)


def _same_ct(ct: Any, indices: Any, updates: Any, **params: Any) -> Any:
    return ct


def _gather_transpose(
    ct: Any, operand: Any, indices: Any, *, dimension_numbers: GatherDimensionNumbers, **params: Any
) -> list[Any]:
    assert type(operand) is UndefinedPrimal, "a gather is linear in its operand only"
    zeros = full(operand.aval.shape, 0, get_aval(ct).dtype, sharding=sharding_of_type(operand.aval, get_aval(ct)))
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    return [scatter_add(zeros, indices, ct, numbers, **_flags(params)), None]


transpose_rules[gather_p] = _gather_transpose
transpose_rules.holes.pop(gather_p)


def _scatter_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
    """Where updates overlap, one wins, and only its tangent counts. To find it, the updates' numbers are scattered."""
    if params["update_jaxpr"] is not None:
        raise NotImplementedError("scatter_apply JVP not implemented")
    operand, indices, updates = primals
    t_operand, _, t_updates = tangents
    if type(t_operand) is Zero and type(t_updates) is Zero:
        out = scatter_p.bind(operand, indices, updates, **params)
        return out, zero_tangent(out)
    t_operand, t_updates = instantiate_zeros(t_operand), instantiate_zeros(t_updates)
    if params["unique_indices"]:
        return (
            scatter_p.bind(operand, indices, updates, **params),
            scatter_p.bind(t_operand, indices, t_updates, **params),
        )
    numbers = params["dimension_numbers"]
    keep = _flags(params)
    aval = get_aval(updates)
    ids_shape = [1 if d in numbers.update_window_dims else n for d, n in enumerate(aval.shape)]
    count = math.prod(ids_shape)
    dtype = index_dtype((count,), signed=False)
    ids = add(reshape(iota(dtype, count), ids_shape), full(aval.shape, 1, dtype, sharding=sharding_of_type(aval)))
    nothing = full(shape_of(operand), 0, dtype, sharding=sharding_of_type(get_aval(operand)))
    winners = scatter(nothing, indices, ids, numbers, **keep)
    seen = _gather_slices(winners, indices, aval.shape, numbers)

    def masked(old: Any, new: Any) -> Any:
        """Two arrays: ``old`` where nothing was written, and ``new`` where updates were kept. The rest is zero."""
        untouched = select(eq(winners, full_like(winners, 0)), old, full_like(old, 0))
        return untouched, select(eq(ids, seen), new, full_like(new, 0))

    kept, put = masked(operand, updates)
    t_kept, t_put = masked(t_operand, t_updates)
    return (scatter_add(kept, indices, put, numbers, **keep), scatter_add(t_kept, indices, t_put, numbers, **keep))


def _zeroed_ct(ct: Any, indices: Any, updates: Any, *, unique_indices: bool, **params: Any) -> Any:
    if not unique_indices:
        raise NotImplementedError("scatter transpose is only implemented where unique_indices=True")
    aval = updates.aval if type(updates) is UndefinedPrimal else get_aval(updates)
    zeros = full(aval.shape, 0, get_aval(ct).dtype, sharding=sharding_of_type(aval, get_aval(ct)))
    return scatter_p.bind(ct, indices, zeros, unique_indices=True, **params)


def _put_ct(ct: Any, *args: Any, unique_indices: bool, **params: Any) -> Any:
    if not unique_indices:
        raise NotImplementedError("scatter transpose is only implemented where unique_indices=True")
    return _gathered_ct(ct, *args, **params)


def _negated_ct(*args: Any, **params: Any) -> Any:
    return neg(_gathered_ct(*args, **params))


def _multiplied_ct(ct: Any, indices: Any, updates: Any, **params: Any) -> Any:
    return scatter_mul_p.bind(ct, indices, updates, **params)


_MUL_UNIQUE = "scatter_mul gradients are only implemented if `unique_indices=True`"


def _scaled_ct(ct: Any, operand: Any, *args: Any, unique_indices: bool, **params: Any) -> Any:
    if not unique_indices:
        raise NotImplementedError(_MUL_UNIQUE)
    return _gathered_ct(mul(ct, operand), operand, *args, **params)


def _factor_derivative(
    g: Any, ans: Any, operand: Any, indices: Any, updates: Any, *, dimension_numbers: Any, **params: Any
) -> Any:
    if not params["unique_indices"]:
        raise NotImplementedError(_MUL_UNIQUE)
    zeros = full_like(operand, 0)
    return mul(operand, scatter_add(zeros, indices, g, dimension_numbers, **_flags(params)))


def _extremum_jvp(primitive: Primitive) -> Rule:
    """The tangent is the mean of the tangents of those updates and old values that equal the extremum."""

    def scatter_extremum_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
        operand, indices, updates = primals
        t_operand, _, t_updates = tangents
        out = primitive.bind(operand, indices, updates, **params)
        if type(t_operand) is Zero and type(t_updates) is Zero:
            return out, zero_tangent(out)
        t_operand, t_updates = instantiate_zeros(t_operand), instantiate_zeros(t_updates)
        numbers = params["dimension_numbers"]

        def seen(x: Any) -> Any:
            return _gather_slices(x, indices, shape_of(updates), numbers)

        def plus_one(x: Any) -> Any:
            return add(x, const(x, 1.0))

        def inverse(x: Any) -> Any:
            return div(const(x, 1.0), x)

        before, after = seen(operand), seen(out)
        attains, retained = eq(updates, after), eq(before, after)
        zeros = full_like(operand, 0)
        hits = select(attains, full_like(updates, 1), full_like(updates, 0))
        attaining = seen(scatter_add(zeros, indices, hits, numbers))
        present = seen(scatter_add(full_like(operand, 0), indices, full_like(updates, 1), numbers))
        share = select(retained, inverse(plus_one(attaining)), inverse(attaining))
        of_updates = select(attains, share, full_like(updates, 0))
        of_operand = select(retained, inverse(plus_one(attaining)), full_like(attaining, 0))
        of_operand = div(add(const(updates, -1.0), of_operand), present)
        change = add(mul(seen(t_operand), of_operand), mul(t_updates, of_updates))
        return out, scatter_add(t_operand, indices, change, numbers, **_flags(params))

    return scatter_extremum_jvp


def _scatter_batch(primitive: Primitive) -> Rule:
    def scatter_batch(args: Values, dims: Dims, **params: Any) -> Any:
        operand, indices, updates = args
        axis = mapped_axis(args, dims)
        operand, updates = bdim_at_front(operand, dims[0], *axis), bdim_at_front(updates, dims[2], *axis)
        if dims[1] is not None:
            indices = bdim_at_front(indices, dims[1], *axis)
        params["dimension_numbers"] = batched_numbers(params["dimension_numbers"], True, dims[1] is not None)
        return primitive.bind(operand, indices, updates, **params), 0

    return scatter_batch


_STABLEHLO_FIELDS = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
)


def _clamp_text(ctx: Any, indices: str, aval: ShapedArray, bounds: Ints) -> str:
    """Write ``indices``, clamped to the range from 0 to ``bounds``. Return the name of the result."""
    most = dtypes.iinfo(aval.dtype).max
    vector, ty = ShapedArray((len(bounds),), aval.dtype), mlir_type(aval)
    high = ctx.constant(np.array([min(b, most) for b in bounds], aval.dtype), vector)
    # the bounds fit the type of the indices already, but JAX's programs contain this minimum
    high = ctx.emit(f"stablehlo.minimum {high}, {ctx.full(most, vector)} : {mlir_type(vector)}")
    if aval.ndim > 1:
        high = ctx.broadcast(high, vector, aval.shape, [aval.ndim - 1])
    return ctx.emit(f"stablehlo.clamp {ctx.full(0, aval)}, {indices}, {high} : ({ty}, {ty}, {ty}) -> {ty}")


def _scatter_words(avals: Any, out_avals: Any, params: Params) -> Params:
    """The parameters for random keys stored as integers (words). An update contains all words of its keys."""
    updates, numbers = avals[2], params["dimension_numbers"]
    window, *others = numbers
    words = avals[0].ndim - len(window) - len(others[0]) - len(others[2])
    window = (*window, *range(updates.ndim - words, updates.ndim))
    return {**params, "dimension_numbers": ScatterDimensionNumbers(window, *others)}


def _scatter_lower(
    ctx: Any,
    avals: Any,
    out_avals: Any,
    operand: str,
    indices: str,
    updates: str,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    update_jaxpr: Jaxpr | None,
    update_consts: Values,
) -> str:
    aval, index_aval, update_aval = avals
    if mode == GatherScatterMode.CLIP:
        sizes = _slice_sizes(aval.shape, dimension_numbers, update_aval.shape)
        indices = _clamp_text(ctx, indices, index_aval, start_bounds(aval.shape, dimension_numbers, sizes))

    def combine(inner: Any, old: str, new: str) -> Sequence[str]:
        if update_jaxpr is None:
            return [new]
        consts = [inner.constant(np.asarray(c), get_aval(c)) for c in update_consts]
        return lower_eqns(inner, update_jaxpr, consts, [old, new])

    scalar = scalar_type(aval.dtype)
    region = region_text(ctx, [scalar, scalar], combine, [scalar])
    numbers = numbers_text("scatter", _STABLEHLO_FIELDS, dimension_numbers, index_aval.ndim - 1)
    is_sorted, unique = (str(bool(f)).lower() for f in (indices_are_sorted, unique_indices))
    op = (
        f'"stablehlo.scatter"({operand}, {indices}, {updates}) <{{scatter_dimension_numbers = {numbers}, '
        f"indices_are_sorted = {is_sorted}, unique_indices = {unique}}}> {region}"
    )
    return ctx.emit(f"{op} : ({', '.join(map(mlir_type, avals))}) -> {mlir_type(out_avals[0])}")


def _scatter_primitive(name: str, combine: Combine | None, jvp: Any, transpose: Any) -> Primitive:
    """Make a scatter primitive. ``jvp(primitive)`` returns its jvp rule; ``transpose`` is a transpose rule or None."""
    p = Primitive(name)
    declare(
        p,
        abstract=_scatter_abstract,
        numpy=_scatter_numpy(combine),
        lower=_scatter_lower,
        batch=_scatter_batch(p),
        jvp=jvp(p),
        transpose=transpose,
        words=_scatter_words,
    )
    parse_rules[p] = opened("update_jaxpr")
    return p


def _mul_jvp(primitive: Primitive) -> Any:
    return nary_jvp(
        primitive, [lambda g, ans, x, i, y, **params: primitive.bind(g, i, y, **params), None, _factor_derivative]
    )


scatter_p = _scatter_primitive("scatter", None, lambda p: _scatter_jvp, _transposer(_zeroed_ct, _put_ct))
scatter_add_p = _scatter_primitive("scatter-add", np.add.at, _linear_jvp, _transposer(_same_ct, _gathered_ct))
scatter_sub_p = _scatter_primitive("scatter-sub", np.subtract.at, _linear_jvp, _transposer(_same_ct, _negated_ct))
scatter_mul_p = _scatter_primitive("scatter-mul", np.multiply.at, _mul_jvp, _transposer(_multiplied_ct, _scaled_ct))
scatter_min_p = _scatter_primitive("scatter-min", np.minimum.at, _extremum_jvp, None)
scatter_max_p = _scatter_primitive("scatter-max", np.maximum.at, _extremum_jvp, None)


@functools.lru_cache(maxsize=256)
def _update_jaxpr(primitive: Primitive, dtype: np.dtype) -> Jaxpr:
    """The jaxpr that combines two scalars by ``primitive``. TypeError if ``primitive`` does not take ``dtype``."""
    aval = ShapedArray((), dtype)
    a, b, out = Var(aval), Var(aval), Var(abstract_eval(primitive, (aval, aval), {}))
    return Jaxpr([], [a, b], [out], [JaxprEqn(primitive, [a, b], {}, [out])])


def _bind(
    scatter_primitive: Primitive,
    combine: Primitive | None,
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: str | GatherScatterMode | None,
    update: ClosedJaxpr | None = None,
) -> Any:
    jaxpr: Jaxpr | None = None
    consts: tuple[Any, ...] = ()
    if combine is not None:
        jaxpr = _update_jaxpr(combine, get_aval(operand).dtype)
    elif update is not None:
        jaxpr, consts = update.jaxpr, tuple(update.consts)
    return scatter_primitive.bind(
        operand,
        scatter_indices,
        updates,
        update_jaxpr=jaxpr,
        update_consts=consts,
        dimension_numbers=dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=GatherScatterMode.from_any(mode),
    )


def _scatter_function(primitive: Primitive, combine: Primitive | None, doc: str) -> Rule:
    """Make the function of ``lax`` that combines updates with an array by ``primitive``."""

    def function(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Any:
        flags = (indices_are_sorted, unique_indices, mode)
        return _bind(primitive, combine, operand, scatter_indices, updates, dimension_numbers, *flags)

    return in_lax(function, primitive.name.replace("-", "_"), doc)  # type: ignore[no-any-return]


scatter = _scatter_function(
    scatter_p,
    None,
    """``operand`` with the slices at the integers ``scatter_indices[..., :]`` replaced by those of ``updates``.

    The last axis of ``scatter_indices`` holds one index vector: entry i is the start along dimension
    ``dimension_numbers.scatter_dims_to_operand_dims[i]``. ``updates`` has the operand's dtype, the other axes of
    ``scatter_indices``, and at ``update_window_dims`` the slice's axes. The result has the operand's shape and dtype.
    If several updates change one element, one of them wins. ``mode`` decides for slices out of bounds: 'drop' (the
    default) skips them, 'clip' moves them inside.
    Raises TypeError or ValueError if shapes, dtypes and dimension numbers do not fit.
    """,
)
_COMBINED = "``operand`` with its slices at ``scatter_indices`` {} the slices of ``updates``; see ``scatter``."
scatter_add = _scatter_function(scatter_add_p, add_p, _COMBINED.format("increased by"))
scatter_sub = _scatter_function(scatter_sub_p, sub_p, _COMBINED.format("decreased by"))
scatter_mul = _scatter_function(scatter_mul_p, mul_p, _COMBINED.format("multiplied by"))
scatter_min = _scatter_function(scatter_min_p, min_p, _COMBINED.format("limited to at most"))
scatter_max = _scatter_function(scatter_max_p, max_p, _COMBINED.format("limited to at least"))


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Ints = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """``operand`` with ``func``, from scalar to scalar, applied to the elements at ``scatter_indices``.

    ``update_shape`` is the shape that updates would have; see ``scatter``. The result cannot be differentiated.
    """
    dtype = get_aval(operand).dtype
    unused = full(tuple(update_shape), 0, dtype)
    aval = ShapedArray((), dtype)
    update = stage(lambda x, y: [func(x)], [aval, aval], getattr(func, "__name__", "function"))
    flags = (indices_are_sorted, unique_indices, mode)
    return _bind(scatter_p, None, operand, scatter_indices, unused, dimension_numbers, *flags, update)
