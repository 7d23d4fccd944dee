"""Collectives: operations across the instances of a mapped function, along named axes.

Under ``vmap(axis_name=...)`` a collective becomes an operation along the batch axis. Under ``pmap`` it is lowered to a
StableHLO collective between devices. ``axes`` of a reduction may also contain integers: dimensions of the
operand. vmap replaces the name of its axis by such a dimension.

The conventions are those of ``jax.lax`` in JAX 0.10: psum is its own transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.rules import Axes, Ints, Params, Rule, Values
from minijax.core.structural import full, moveaxis
from minijax.core.varying import mesh_axes, varies_along, vma_rules
from minijax.interpreters.evaluate import numpy_rules
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.named_axes import AxisPrimitive, axes_size, axis_users
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import AxisData, axis_rules, batching_rules
from minijax.ir.pretty import hide
from minijax.ir.typecheck import typecheck_rules
from minijax.lowering.lower import lowering_rules
from minijax.lowering.regions import monoid_region
from minijax.lowering.text import mlir_type
from minijax.ops.convert import convert
from minijax.ops.declare import same_aval, set_rules
from minijax.ops.dynamic import dynamic_slice_in_dim
from minijax.ops.elementwise import add_p, mul_p
from minijax.ops.index import GatherDimensionNumbers, GatherScatterMode, gather
from minijax.ops.nary import deflinear, eq_p
from minijax.ops.reduce import reduce_max_p, reduce_min_p, reduce_sum, reduce_sum_p
from minijax.ops.select import select
from minijax.ops.shape import broadcast_in_dim, expand_dims, full_like, iota, reshape, reshape_text, squeeze, transpose
from minijax.ops.slicing import slice_text

__all__ = [
    "all_gather_invariant_p",
    "all_gather_p",
    "all_to_all_p",
    "axis_index_p",
    "pbroadcast_p",
    "pmax_p",
    "pmin_p",
    "ppermute_p",
    "psum_p",
    "reduce_scatter_p",
]

Groups = tuple[Axes, ...] | None
AxisNames = tuple[Any, ...]
INT32 = np.dtype(np.int32)


def names_tuple(axis_name: Any) -> AxisNames:
    """``axis_name``, a name or a list or tuple of names, as a tuple."""
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def group_size(axis_name: Any, groups: Groups) -> int:
    """The number of instances in a group. NameError for an unbound name."""
    size = axes_size(names_tuple(axis_name))
    return size if groups is None else len(groups[0])


def _maps(axis: AxisData, names: Values) -> bool:
    """Whether a collective along ``names`` includes the mapped axis."""
    return axis.name is not None and axis.name in names


def _without(names: AxisNames, name: Any) -> AxisNames:
    return tuple(n for n in names if n != name)


def _no_groups(primitive: Primitive, groups: Groups) -> None:
    if groups is not None:
        raise NotImplementedError(
            f"axis_index_groups not supported in vmap collectives ({primitive.name}). Reshape the mapped axis into two "
            "and vmap twice, each with its own axis_name, or use pmap."
        )


def declare_collective(
    name: str, users: Rule, abstract: Rule, batch: Rule, lower: Rule, transpose: Rule | None = None
) -> Primitive:
    """Make a collective with all its rules. ``abstract`` runs at each call, to check that axis names are bound."""
    p = AxisPrimitive(name)
    p.keeps_signatures = False
    axis_users[p] = varies_along[p] = users
    vma_rules[p] = _still_varies

    def checked_abstract(*avals: ShapedArray, **params: Any) -> ShapedArray:
        axes_size(users(params))
        return abstract(*avals, **params)

    def typecheck(avals: tuple[ShapedArray, ...], params: Params) -> list[ShapedArray]:
        return [abstract(*avals, **params)]

    def unmapped_impl(*args: Any, **params: Any) -> Any:
        axes_size(users(params))
        raise RuntimeError(f"{name} must be used within a mapped context like vmap or pmap.")

    def axis_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
        return batch(p, axis, *args, *dims, **params)

    p.def_abstract_eval(checked_abstract)
    p.def_impl(unmapped_impl)
    typecheck_rules[p] = typecheck
    axis_rules[p] = axis_batch
    batching_rules.holes[p] = "its rule must know the mapped axis"
    lowering_rules[p] = lower
    if transpose is not None:
        deflinear(p, transpose)
    else:
        jvp_rules.holes[p] = "JAX has no derivative of it either"
        transpose_rules.holes[p] = "not linear"
    return p


def _names(params: Params) -> AxisNames:
    return names_tuple(params["axis_name"])


def _still_varies(vma: frozenset[Any], params: Params) -> frozenset[Any]:
    return vma


def replica_groups(mesh: Sequence[tuple[Any, int]], names: Values, groups: Groups = None) -> list[list[int]]:
    """The groups of devices of ``mesh`` (axis names and sizes) that communicate along ``names``."""
    ids = np.arange(int(np.prod([size for _, size in mesh]))).reshape([size for _, size in mesh])
    known = [name for name, _ in mesh]
    for name in names:
        if name not in known:
            raise NameError(f"unbound axis name: {name}")
    positions = [len(known) - 1 - known[::-1].index(name) for name in names]
    moved = np.moveaxis(ids, positions, range(-len(positions), 0))
    rows = moved.reshape(-1, int(np.prod([mesh[i][1] for i in positions]))).tolist()
    return rows if groups is None else [[row[i] for i in group] for row in rows for group in groups]


def _dense(rows: Sequence[Ints]) -> str:
    """Rows of integers as an attribute; short rows are padded with -1."""
    width = max(map(len, rows), default=0)
    filled = [[*row, *[-1] * (width - len(row))] for row in rows]
    return f"dense<{filled}> : tensor<{len(rows)}x{width}xi64>"


def _groups_text(ctx: Any, names: Any, groups: Groups, equal_in: str = "", by_partition: bool = True) -> str:
    """The attributes for a collective's groups. ``equal_in`` names a collective that needs groups of equal size."""
    rows = replica_groups(ctx.module.axes, names_tuple(names), groups)
    if equal_in and len(set(map(len, rows))) > 1:
        raise ValueError(f"{equal_in}: axis_index_groups must all be the same size, got {groups}.")
    return f"{CHANNEL}replica_groups = {_dense(rows)}{f', {BY_PARTITION}' * by_partition}"


# Attributes of a collective between the partitions of a program: its groups contain numbers of partitions.
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, "
BY_PARTITION = "use_global_device_ids"


def all_reduce_text(ctx: Any, op: str, aval: ShapedArray, x: str, names: Any, groups: Groups = None) -> str:
    """Write a reduction of ``x`` over all instances along ``names`` by StableHLO's ``op``."""
    region = monoid_region(ctx, op, aval.dtype)
    ty = mlir_type(aval)
    return ctx.emit(f'"stablehlo.all_reduce"({x}) <{{{_groups_text(ctx, names, groups)}}}> {region} : ({ty}) -> {ty}')


def _split_axes(axes: Values) -> tuple[AxisNames, Axes]:
    """Split ``axes`` into a tuple of names and a tuple of positions."""
    return tuple(a for a in axes if type(a) is not int), tuple(a for a in axes if type(a) is int)


def _named(params: Params) -> AxisNames:
    return _split_axes(params["axes"])[0]


def _reduce_abstract(x: ShapedArray, *, axes: AxisNames, axis_index_groups: Groups) -> ShapedArray:
    names, positions = _split_axes(axes)
    if axis_index_groups is not None and positions:
        raise ValueError(f"axis_index_groups can only be used with reductions over named axes, but got: {axes}")
    return ShapedArray(tuple(d for i, d in enumerate(x.shape) if i not in positions), x.dtype)


def _scaled(x: Any, size: int) -> Any:
    """``size`` times ``x``. The product with a Python number is weakly typed."""
    if type(x) in (int, float, complex):
        return x * size
    aval = get_aval(x)
    weak = aval.weak_type and aval.ndim == 0
    return mul_p.bind(full((), size, aval.dtype, weak), convert(x, None, weak))


def _declare_reduction(name: str, positional: Primitive, op: str, repeated: Rule, transpose: Rule | None) -> Primitive:
    def reduction_batch(
        p: Primitive, axis: AxisData, x: Any, d: int | None, *, axes: AxisNames, axis_index_groups: Groups
    ) -> Any:
        named = _maps(axis, axes)
        if named:
            _no_groups(p, axis_index_groups)
        rest = _without(axes, axis.name) if named else axes
        if d is None:
            out = p.bind(x, axes=rest, axis_index_groups=axis_index_groups) if rest else x
            return (repeated(out, axis.size) if named else out), None
        if not named and not _split_axes(axes)[1]:
            return p.bind(x, axes=axes, axis_index_groups=axis_index_groups), d
        x = moveaxis(x, d, 0)
        shifted = tuple(a + 1 if type(a) is int else 0 if named and a == axis.name else a for a in axes)
        return p.bind(x, axes=shifted, axis_index_groups=axis_index_groups), None if named else 0

    more = {positional.sharding_param: None} if positional.sharding_param else {}

    def reduction_lower(
        ctx: Any, avals: Any, out_avals: Any, x: str, *, axes: AxisNames, axis_index_groups: Groups
    ) -> str:
        names, positions = _split_axes(axes)
        (aval,), (out,) = avals, out_avals
        if positions:
            x = lowering_rules[positional](ctx, [aval], [out], x, axes=positions, **more)
        if not names:
            return x
        return all_reduce_text(ctx, op, out, x, names, axis_index_groups)

    def reduction_numpy(x: Any, *, axes: AxisNames, axis_index_groups: Groups) -> Any:
        return numpy_rules[positional](x, axes=axes, **more)

    p = declare_collective(name, _named, _reduce_abstract, reduction_batch, reduction_lower, transpose)
    # NumPy only sums over positions: abstract evaluation raises for names
    numpy_rules[p] = reduction_numpy
    p.refuses_keys = True
    return p


def psum_transpose(ct: Any, x: Any, *, axes: AxisNames, axis_index_groups: Groups) -> list[Any]:
    """The transpose of a sum over positions repeats ``ct``. A sum over names is its own transpose, as in JAX."""
    names, positions = _split_axes(axes)
    if positions:
        kept = [i for i in range(len(x.aval.shape)) if i not in positions]
        ct = broadcast_in_dim(ct, x.aval.shape, kept)
    return [psum_p.bind(ct, axes=names, axis_index_groups=axis_index_groups)]


def _all_equal(vma: frozenset[Any], params: Params) -> frozenset[Any]:
    """The rule for the varying axes of a reduction: along its axes the result no longer varies."""
    return vma.difference(_named(params))


psum_p = _declare_reduction("psum", reduce_sum_p, "add", _scaled, psum_transpose)
pmax_p = _declare_reduction("pmax", reduce_max_p, "maximum", lambda x, size: x, None)
pmin_p = _declare_reduction("pmin", reduce_min_p, "minimum", lambda x, size: x, None)
for _p in (psum_p, pmax_p, pmin_p):
    vma_rules[_p] = _all_equal


def _axis_index_abstract(*, axis_name: Any) -> ShapedArray:
    return ShapedArray((), INT32)


def axis_index_batch(p: Primitive, axis: AxisData, *, axis_name: Any) -> Any:
    """The index of an instance is a batched value: 0, 1, 2, ... along the batch axis."""
    if not _maps(axis, (axis_name,)):
        return p.bind(axis_name=axis_name), None
    return iota(INT32, axis.size), 0


def axis_index_lower(ctx: Any, avals: Any, out_avals: Any, *, axis_name: Any) -> str:
    """Compute a coordinate of the device from its number."""
    mesh = ctx.module.axes
    replica_groups(mesh, [axis_name])  # raises for an unbound name
    known = [name for name, _ in mesh]
    at = len(known) - 1 - known[::-1].index(axis_name)
    ty = "tensor<ui32>"
    unsigned = np.dtype(np.uint32)
    inner = int(np.prod([size for _, size in mesh[at + 1 :]]))

    def write(ctx: Any) -> str:
        index = ctx.emit(f"stablehlo.partition_id : {ty}")
        for op, number in (("divide", inner), ("remainder", mesh[at][1])):
            index = ctx.emit(f"stablehlo.{op} {index}, {ctx.scalar(number, unsigned)} : {ty}")
        return ctx.emit(f"stablehlo.convert {index} : ({ty}) -> tensor<i32>")  # type: ignore[no-any-return]

    left = [f'"{name}"' for name in known if name not in ctx.module.manual]
    if not left:
        return write(ctx)
    # XLA partitions the program over these axes; only code in a manual computation has a device number
    region = ctx.region()
    found = write(region)
    symbol = ctx.module.meshes.symbol(mesh)
    body = "\n".join([*region.lines, f"{region.indent}sdy.return {found} : tensor<i32>"])
    return ctx.emit(  # type: ignore[no-any-return]
        f"sdy.manual_computation() in_shardings=[] out_shardings=[<@{symbol}, []>] manual_axes={{{', '.join(left)}}} "
        f"() {{\n{body}\n{ctx.indent}}} : () -> tensor<i32>"
    )


axis_index_p = declare_collective("axis_index", _names, _axis_index_abstract, axis_index_batch, axis_index_lower)
vma_rules[axis_index_p] = lambda vma, params: mesh_axes(_names(params))


def _take(x: Any, indices: Ints, axis: int) -> Any:
    """The slices of ``x`` at the constants ``indices`` along ``axis``; an index out of bounds gives zeros."""
    shape = get_aval(x).shape
    offsets = tuple(i for i in range(len(shape)) if i != axis)
    numbers = GatherDimensionNumbers(offset_dims=offsets, collapsed_slice_dims=(axis,), start_index_map=(axis,))
    sizes = [1 if i == axis else n for i, n in enumerate(shape)]
    inside = all(0 <= i < shape[axis] for i in indices)
    mode = GatherScatterMode.PROMISE_IN_BOUNDS if inside else GatherScatterMode.FILL_OR_DROP
    starts = np.asarray(indices, INT32)[:, None]
    return gather(x, starts, numbers, sizes, mode=mode, fill_value=None if inside else 0)


def ppermute_batch(p: Primitive, axis: AxisData, x: Any, d: int | None, *, axis_name: AxisNames, perm: Any) -> Any:
    """Permute the batch axis. An instance without a source gets zeros."""
    if not _maps(axis, axis_name):
        return p.bind(x, axis_name=axis_name, perm=perm), d
    if len(axis_name) > 1:
        raise NotImplementedError(
            f"ppermute over several axes {axis_name}, with {axis.name!r} vmapped, is not supported: permute one axis."
        )
    size = axis.size
    _check_perm(perm, size)
    sources = [size] * size
    for source, destination in perm:
        sources[destination % size] = source % size
    if d is None:
        if size not in sources:
            return x, None
        x, d = broadcast_in_dim(x, (size, *get_aval(x).shape), range(1, get_aval(x).ndim + 1)), 0
    return _take(x, sources, d), d


def _check_perm(perm: Sequence[tuple[int, int]], size: int) -> None:
    for numbers in ([s % size for s, _ in perm], [d % size for _, d in perm]):
        if len(set(numbers)) != len(numbers):
            raise ValueError(f"ppermute sources and destinations must be unique, got {perm}.")


def ppermute_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, axis_name: AxisNames, perm: Any) -> str:
    groups = replica_groups(ctx.module.axes, axis_name)
    size = len(groups[0])
    _check_perm(perm, size)
    pairs = [[group[s % size], group[d % size]] for group in groups for s, d in perm]
    ty = mlir_type(avals[0])
    # an empty attribute needs an explicit shape
    text = _dense(pairs) if pairs else "dense<> : tensor<0x2xi64>"
    attributes = f"{CHANNEL}source_target_pairs = {text}"
    return ctx.emit(f'"stablehlo.collective_permute"({x}) <{{{attributes}}}> : ({ty}) -> {ty}')


def ppermute_transpose(ct: Any, x: Any, *, axis_name: AxisNames, perm: Any) -> list[Any]:
    return [ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((d, s) for s, d in perm))]


ppermute_p = declare_collective("ppermute", _names, same_aval, ppermute_batch, ppermute_lower, ppermute_transpose)


def pbroadcast_batch(p: Primitive, axis: AxisData, x: Any, d: int | None, *, axis_name: Any, source: int) -> Any:
    """All instances get the slice of ``source``, so the result has no batch axis."""
    names = names_tuple(axis_name)
    if not _maps(axis, names):
        return p.bind(x, axis_name=axis_name, source=source), d
    if len(names) > 1:
        raise NotImplementedError("pbroadcast over several axes, where one is vmapped, is not supported: use one axis.")
    if not 0 <= source < axis.size:
        raise ValueError(f"pbroadcast source {source} is outside the axis {axis.name!r} of size {axis.size}.")
    return (x, None) if d is None else (squeeze(_take(x, [source], d), [d]), None)


def pbroadcast_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, axis_name: Any, source: int) -> str:
    """Gather all values and select one: XLA has no collective_broadcast on CPUs."""
    (aval,) = avals
    size = len(replica_groups(ctx.module.axes, names_tuple(axis_name))[0])
    if not 0 <= source < size:
        raise ValueError(f"pbroadcast source {source} is outside the axis {axis_name!r} of size {size}.")
    gathered = ShapedArray((size, *aval.shape), aval.dtype)
    params = {"axis_name": axis_name, "axis_index_groups": None, "axis_size": size, "tiled": False}
    every = all_gather_lower(ctx, avals, [gathered], x, all_gather_dimension=0, **params)
    one = ShapedArray((1, *aval.shape), aval.dtype)
    kept = slice_text(ctx, every, gathered, one, [source, *[0] * aval.ndim], [source + 1, *aval.shape])
    return reshape_text(ctx, kept, one, aval.shape)


def pbroadcast_transpose(ct: Any, x: Any, *, axis_name: Any, source: int) -> list[Any]:
    (name,) = names_tuple(axis_name)
    is_source = eq_p.bind(axis_index_p.bind(axis_name=name), full((), source, INT32))
    total = psum_p.bind(ct, axes=(name,), axis_index_groups=None)
    return [select(is_source, total, full_like(total, 0))]


pbroadcast_p = declare_collective(
    "pbroadcast", _names, same_aval, pbroadcast_batch, pbroadcast_lower, pbroadcast_transpose
)


def _split_dim(x: Any, axis: int, factor: int) -> Any:
    shape = get_aval(x).shape
    return reshape(x, (*shape[:axis], factor, shape[axis] // factor, *shape[axis + 1 :]))


def _fold_dims(x: Any, axis: int) -> Any:
    """Merge dimensions ``axis`` and ``axis + 1``."""
    shape = get_aval(x).shape
    return reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _one_vmapped(p: Primitive, names: AxisNames) -> None:
    if len(names) > 1:
        raise NotImplementedError(
            f"{p.name} over several axes {names}, one of them vmapped, is not supported: apply it axis by axis."
        )


def all_gather_abstract(
    x: ShapedArray, *, all_gather_dimension: int, axis_size: int, tiled: bool, **params: Any
) -> ShapedArray:
    shape = list(x.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    return x.update(shape=tuple(shape))


def all_gather_batch(
    p: Primitive, axis: AxisData, x: Any, d: int | None, *, all_gather_dimension: int, axis_name: AxisNames,
    axis_size: int, tiled: bool, **groups: Groups,
) -> Any:  # fmt: skip
    """The batch axis becomes a dimension of the result."""
    at = all_gather_dimension
    if not _maps(axis, axis_name):
        if d is not None:
            at, d = (at + 1, d) if d <= at else (at, d if tiled else d + 1)
        params = {"axis_name": axis_name, "axis_size": axis_size, **groups}
        return p.bind(x, all_gather_dimension=at, tiled=tiled, **params), d
    _no_groups(p, groups.get("axis_index_groups"))
    _one_vmapped(p, axis_name)
    if d is None:
        shape = list(get_aval(x).shape)
        shape.insert(at, axis_size)
        out = broadcast_in_dim(x, shape, [i for i in range(len(shape)) if i != at])
    else:
        out = moveaxis(x, d, at)
    return (_fold_dims(out, at) if tiled else out), None


def all_gather_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, all_gather_dimension: int, axis_name: Any, axis_size: int,
    tiled: bool, axis_index_groups: Groups = None,
) -> str:  # fmt: skip
    (aval,), (out,) = avals, out_avals
    if not tiled:
        shape = (*aval.shape[:all_gather_dimension], 1, *aval.shape[all_gather_dimension:])
        x = reshape_text(ctx, x, aval, shape)
        aval = ShapedArray(shape, aval.dtype)
    groups = _groups_text(ctx, axis_name, axis_index_groups, "all_gather")
    return ctx.emit(
        f'"stablehlo.all_gather"({x}) <{{all_gather_dim = {all_gather_dimension} : i64, {groups}}}> : '
        f"({mlir_type(aval)}) -> {mlir_type(out)}"
    )


def all_gather_transpose(ct: Any, x: Any, *, all_gather_dimension: int, **params: Any) -> list[Any]:
    return [reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


all_gather_p = declare_collective(
    "all_gather", _names, all_gather_abstract, all_gather_batch, all_gather_lower, all_gather_transpose
)


def all_gather_invariant_transpose(
    ct: Any, x: Any, *, all_gather_dimension: int, axis_name: Any, axis_size: int, tiled: bool
) -> list[Any]:
    """Each instance takes its own slice of the cotangent of the shared result."""
    at, inner, index = all_gather_dimension, 1, full((), 0, INT32)
    for name in reversed(axis_name):
        index = add_p.bind(index, mul_p.bind(axis_index_p.bind(axis_name=name), full((), inner, INT32)))
        inner *= axes_size((name,))
    size = get_aval(ct).shape[at] // axis_size
    piece = dynamic_slice_in_dim(ct, mul_p.bind(index, full((), size, INT32)), size, at)
    return [piece if tiled else squeeze(piece, (at,))]


all_gather_invariant_p = declare_collective(
    "all_gather_invariant", _names, all_gather_abstract, all_gather_batch, all_gather_lower,
    all_gather_invariant_transpose,
)  # fmt: skip
vma_rules[all_gather_invariant_p] = lambda vma, params: vma.difference(_names(params))


def reduce_scatter_abstract(
    x: ShapedArray, *, scatter_dimension: int, axis_size: int, tiled: bool, **params: Any
) -> ShapedArray:
    shape = list(x.shape)
    size = shape[scatter_dimension]
    if tiled:
        if size % axis_size:
            raise ValueError(
                f"tiled reduce_scatter operand scatter dimension size {size} must be divisible by shard_count "
                f"{axis_size}"
            )
        shape[scatter_dimension] = size // axis_size
    else:
        if size != axis_size:
            raise ValueError(f"reduce_scatter operand scatter dimension size {size} must match shard count {axis_size}")
        del shape[scatter_dimension]
    return x.update(shape=tuple(shape))


def reduce_scatter_batch(
    p: Primitive, axis: AxisData, x: Any, d: int | None, *, scatter_dimension: int, axis_name: AxisNames,
    axis_size: int, tiled: bool, **groups: Groups,
) -> Any:  # fmt: skip
    """Sum along the batch axis; the scattered dimension becomes the batch axis."""
    at = scatter_dimension
    if not _maps(axis, axis_name):
        if d is not None:
            # with ``tiled=False`` the result loses the scattered dimension, which may precede the batch axis
            at, d = (at + 1, d) if d <= at else (at, d if tiled else d - 1)
        params = {"axis_name": axis_name, "axis_size": axis_size, **groups}
        return p.bind(x, scatter_dimension=at, tiled=tiled, **params), d
    _no_groups(p, groups.get("axis_index_groups"))
    _one_vmapped(p, axis_name)
    if d is None:
        strong = convert(x, None, False)
        summed = mul_p.bind(strong, full((), axis_size, get_aval(strong).dtype))
    else:
        summed = reduce_sum(x, [d])
    return (_split_dim(summed, at, axis_size) if tiled else summed), at


def reduce_scatter_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, scatter_dimension: int, axis_name: AxisNames, axis_size: int,
    tiled: bool, axis_index_groups: Groups = None,
) -> str:  # fmt: skip
    (aval,), (out,) = avals, out_avals
    shape = list(aval.shape)
    shape[scatter_dimension] //= axis_size
    scattered = ShapedArray(tuple(shape), aval.dtype)
    groups = _groups_text(ctx, axis_name, axis_index_groups, "psum_scatter")
    region = monoid_region(ctx, "add", aval.dtype)
    result = ctx.emit(
        f'"stablehlo.reduce_scatter"({x}) <{{{groups}, scatter_dimension = {scatter_dimension} : i64}}> {region} : '
        f"({mlir_type(aval)}) -> {mlir_type(scattered)}"
    )
    return result if tiled else reshape_text(ctx, result, scattered, out.shape)


def reduce_scatter_transpose(ct: Any, x: Any, *, scatter_dimension: int, **params: Any) -> list[Any]:
    return [all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


reduce_scatter_p = declare_collective(
    "reduce_scatter", _names, reduce_scatter_abstract, reduce_scatter_batch, reduce_scatter_lower,
    reduce_scatter_transpose,
)  # fmt: skip
reduce_scatter_p.refuses_keys = True


def all_to_all_abstract(
    x: ShapedArray, *, split_axis: int, concat_axis: int, axis_size: int, **params: Any
) -> ShapedArray:
    shape = list(x.shape)
    shape[split_axis] //= axis_size
    shape[concat_axis] *= axis_size
    return ShapedArray(tuple(shape), x.dtype)


def all_to_all_batch(
    p: Primitive, axis: AxisData, x: Any, d: int | None, *, axis_name: Any, split_axis: int, concat_axis: int,
    axis_index_groups: Groups, axis_size: int, tiled: bool,
) -> Any:  # fmt: skip
    """Exchange the batch axis with the pieces of the split axis."""
    params = {"axis_index_groups": axis_index_groups, "tiled": tiled}
    names = names_tuple(axis_name)
    if not _maps(axis, names):
        if d is not None:
            split_axis, concat_axis = split_axis + (d <= split_axis), concat_axis + (d <= concat_axis)
        dims = {"split_axis": split_axis, "concat_axis": concat_axis}
        return p.bind(x, axis_name=axis_name, axis_size=axis_size, **dims, **params), d
    _no_groups(p, axis_index_groups)
    if d is None:
        shape = get_aval(x).shape
        x, d = broadcast_in_dim(x, (axis.size, *shape), range(1, len(shape) + 1)), 0
    if len(names) == 1:
        return _exchanged(x, d, axis.size, split_axis, concat_axis)
    # The number of an instance has three parts: along the names before the vmapped axis, along this axis, and along the
    # names after it. Each part is exchanged alone. The pieces are collected in three leading dimensions.
    at = names.index(axis.name)
    major, minor = names[:at], names[at + 1 :]
    n_major, n_minor = axes_size(major), axes_size(minor)
    x = expand_dims(moveaxis(x, d, 0), (0, 2))
    split, concat = split_axis + 3, concat_axis + 3
    if major:
        x = p.bind(x, axis_name=major, split_axis=split, concat_axis=0, axis_size=n_major, **params)
    x = _split_dim(x, split, axis.size)
    new = split
    concat += split <= concat
    split += 1
    if minor:
        x = p.bind(x, axis_name=minor, split_axis=split, concat_axis=2, axis_size=n_minor, **params)
    x = _fold_dims(_fold_dims(x, 0), 0)
    return _fold_dims(moveaxis(x, 0, concat - 3), concat - 3), new - 3


def _exchanged(x: Any, d: int, size: int, split: int, concat: int) -> tuple[Any, int]:
    if split != concat:
        return _split_dim(_fold_dims(moveaxis(x, d, concat), concat), split, size), split
    at = split + (d <= split)
    pieces = _split_dim(x, at, size)
    batch = d + (at <= d)
    swapped = list(range(get_aval(pieces).ndim))
    swapped[at], swapped[batch] = batch, at
    return _fold_dims(transpose(pieces, swapped), at), d


def all_to_all_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, axis_name: Any, split_axis: int, concat_axis: int,
    axis_index_groups: Groups, axis_size: int, tiled: bool,
) -> str:  # fmt: skip
    groups = _groups_text(ctx, axis_name, axis_index_groups, "all_to_all", by_partition=False)
    if axis_size == 1:
        return x
    return ctx.emit(
        f'"stablehlo.all_to_all"({x}) <{{split_dimension = {split_axis} : i64, concat_dimension = {concat_axis} : i64, '
        f"split_count = {axis_size} : i64, {groups}}}> : ({mlir_type(avals[0])}) -> {mlir_type(out_avals[0])}"
    )


def all_to_all_transpose(ct: Any, x: Any, *, split_axis: int, concat_axis: int, **params: Any) -> list[Any]:
    return [all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


all_to_all_p = declare_collective(
    "all_to_all", _names, all_to_all_abstract, all_to_all_batch, all_to_all_lower, all_to_all_transpose
)
# ``axis_size`` is not printed: JAX has no such parameter


def all_to_all_read(params: Params, in_avals: Any, out_avals: Any) -> Params:
    """Compute ``axis_size``, which is not printed, from the types. KeyError if they do not determine it."""
    split = params["split_axis"]
    if split == params["concat_axis"]:
        raise KeyError("axis_size")
    return {**params, "axis_size": in_avals[0].shape[split] // max(out_avals[0].shape[split], 1)}


set_rules(all_to_all_p, shown=hide("axis_size"), parse=all_to_all_read)
