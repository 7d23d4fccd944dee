"""``shard_map`` as a primitive: every device of a mesh runs one program on its part of the operands.

Parameters, as in JAX: ``mesh``; ``in_specs`` and ``out_specs``, a ``PartitionSpec`` for each operand and result;
``jaxpr``, the program of one device; ``newly_manual_axes``, the mesh axes along which this program runs on each device
(XLA's partitioner shards over the other axes); and ``check_vma``, whether types in the jaxpr say along which axes
values vary (``core.varying``).

The equation is lowered to ``sdy.manual_computation``. Evaluation compiles a program of this one equation.

With ``check_vma``, ``pvary`` casts a value that all devices share, and its transpose ``psum_invariant`` sums over the
devices. Without ``check_vma``, types do not say what is shared. Then the cotangent of a result is divided by the number
of devices that share it, and the cotangent of a shared operand is summed over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minijax.backend import pjrt
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, cotangent_type
from minijax.core.explicit import plain_type, resharded_type, spec_of
from minijax.core.lists import chosen, partition, safe_zip
from minijax.core.rules import Dims, Flags, Params, Shape, Values
from minijax.core.shardings import NamedSharding, PartitionSpec, Sharding, axes_of_part, axes_of_spec
from minijax.core.structural import full
from minijax.core.trace import state
from minijax.core.varying import CHECKED, manual, ordered, pvary, summed, varying
from minijax.interpreters.jvp import jvp_jaxpr, with_zeros
from minijax.interpreters.named_axes import AxisPrimitive, axes_of, axis_binders, bound_axes
from minijax.interpreters.partial_eval import dce_call, partial_eval_jaxpr, split_now
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import call_operands, operand_cotangents, transpose_jaxpr
from minijax.interpreters.vmap import AxisData, batching_rules, vmap_jaxpr
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var
from minijax.ir.typecheck import same_type
from minijax.lowering.lower import lower_eqns
from minijax.lowering.shardings import spec_text
from minijax.lowering.text import mlir_type
from minijax.ops.declare import set_rules
from minijax.ops.elementwise import div_p
from minijax.ops.meshes import sums  # noqa: F401  (the rules of pvary and psum_invariant)
from minijax.ops.meshes.partitioned import evaluate_over_mesh, names_shardings
from minijax.ops.parallel import psum_p
from minijax.ops.shape import broadcast_in_dim, squeeze
from minijax.ops.subjaxprs import nonzeros

shard_map_p = AxisPrimitive("shard_map", multiple_results=True)
shard_map_p.keeps_signatures = False
axis_binders[shard_map_p] = lambda params: params["newly_manual_axes"]
batching_rules.holes[shard_map_p] = "its rule must know the mapped axis"


def _scaled(aval: ShapedArray, spec: PartitionSpec, mesh: Any, divide: bool) -> Shape:
    shape = list(aval.shape)
    for i, part in enumerate(spec):
        count = mesh.count(axes_of_part(part))
        shape[i] = shape[i] // count if divide else shape[i] * count
    return tuple(shape)


def inner_aval(aval: ShapedArray, spec: PartitionSpec, mesh: Any, checked: bool) -> ShapedArray:
    """The type of one device's part of a value. The part is still sharded over axes that ``spec`` does not name."""
    plain = plain_type(aval)
    made = plain.update(shape=_scaled(aval, spec, mesh, divide=True))
    if plain is not aval:
        named = axes_of_spec(spec)
        left = [tuple(name for name in axes_of_part(part) if name not in named) for part in spec_of(aval)]
        made = resharded_type(made, mesh, left)
    return summed(varying(made, {*made.vma, *axes_of_spec(spec)}), aval.unreduced, aval.reduced) if checked else made


def outer_aval(aval: ShapedArray, spec: PartitionSpec, mesh: Any, manual_axes: frozenset[Any]) -> ShapedArray:
    """The type of the whole value, sharded over explicit axes of ``spec`` and of ``aval``, the type of a part."""
    plain = plain_type(aval)
    made = plain.update(shape=_scaled(aval, spec, mesh, divide=False))
    if made.vma or made.unreduced or made.reduced:
        made = summed(varying(made, made.vma.difference(manual_axes)), (), ())
    if not mesh.any_explicit:
        return made
    put_together = [*map(axes_of_part, spec), *[()] * (aval.ndim - len(spec))]
    within = map(axes_of_part, spec_of(aval))
    parts = [(*a, *b) for a, b in safe_zip(put_together, within)]
    return resharded_type(made, mesh, parts, (spec.unreduced, spec.reduced))


@contextmanager
def on_each_device(mesh: Any, axes: frozenset[Any], check_vma: bool) -> Iterator[None]:
    """Within the block, the program of one device is traced, and collectives may name the axes of the mesh."""
    sizes = [(name, size) for name, size in mesh.shape_tuple if name in axes]
    pjrt.note_committed()  # compiled calls look for placements from now on
    if check_vma:
        sizes.append((CHECKED, 1))
    with bound_axes(sizes), manual(mesh, axes, check_vma):
        yield


def inside(params: Params) -> Any:
    """``on_each_device`` with the parameters of an equation."""
    return on_each_device(params["mesh"], params["newly_manual_axes"], params["check_vma"])


@shard_map_p.def_abstract_eval
def shard_map_abstract(*avals: ShapedArray, **params: Any) -> list[ShapedArray]:
    mesh, axes = params["mesh"], params["newly_manual_axes"]
    outs = safe_zip(params["jaxpr"].out_avals, params["out_specs"])
    return [outer_aval(aval, spec, mesh, axes) for aval, spec in outs]


@shard_map_p.def_impl
def shard_map_impl(*args: Any, **params: Any) -> list[Any]:
    return evaluate_over_mesh(shard_map_p, args, params)  # type: ignore[no-any-return]


def named_by_shard_map(params: Params) -> list[Sharding]:
    """A sharding whose mesh has the devices of the program."""
    mesh = params["mesh"]
    return [NamedSharding(mesh, PartitionSpec())]


names_shardings[shard_map_p] = named_by_shard_map


def shard_map_typecheck(avals: tuple[ShapedArray, ...], params: Params) -> list[ShapedArray]:
    with inside(params):
        for aval, spec, inner in safe_zip(avals, params["in_specs"], params["jaxpr"].in_avals):
            if not same_type(inner_aval(aval, spec, params["mesh"], params["check_vma"]), inner):
                raise TypeError(f"a part of {aval.str_short()} by {spec} is not {inner.str_short()}")
    return shard_map_abstract(*avals, **params)


def _bind(args: Values, params: Params, **changes: Any) -> list[Any]:
    return shard_map_p.bind(*args, **{**params, **changes})


def _chosen(flags: Flags, items: Values) -> tuple[Any, ...]:
    return tuple(chosen(flags, items))


def shard_map_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
    in_specs, out_specs = params["in_specs"], params["out_specs"]
    nonzero, given = nonzeros(tangents)
    with inside(params):
        jvp_of, nonzero_out = jvp_jaxpr(params["jaxpr"], nonzero)
    outs = _bind(
        [*primals, *given],
        params,
        jaxpr=jvp_of,
        in_specs=(*in_specs, *_chosen(nonzero, in_specs)),
        out_specs=(*out_specs, *_chosen(nonzero_out, out_specs)),
    )
    return with_zeros(outs, nonzero_out)


def _with_dimension(spec: PartitionSpec, at: int | None, part: Any = None) -> PartitionSpec:
    """``spec`` with ``part`` for a new dimension at position ``at``. If ``at`` is None, there is no new dimension."""
    if at is None:
        return spec
    # as in JAX, an unsharded new dimension beyond the end of ``spec`` is written directly after the parts of ``spec``
    parts = [*spec, *([] if part is None else [None] * (at - len(spec)))]
    return spec.update([*parts[:at], part, *parts[at:]])


def shard_map_batch(axis: AxisData, args: Values, dims: Dims, **params: Any) -> Any:
    """Each device maps its part: the batch axis is one more dimension, sharded if vmap has ``spmd_axis_name``."""
    sharded = [name for name in axis.spmd if name in params["newly_manual_axes"]]
    part = None if not sharded else sharded[0] if len(sharded) == 1 else tuple(sharded)
    if sharded and axis.name in axes_of(shard_map_p, params):
        raise NotImplementedError(
            f"Inside shard_map a collective over {axis.name!r} sees one device's part of that axis, because vmap "
            f"shards it along {part!r} (spmd_axis_name). Leave spmd_axis_name out of vmap."
        )
    size = axis.size // math.prod(params["mesh"].shape[name] for name in sharded)
    # inside, a name that is also a mesh axis means the mesh axis
    inner = AxisData(None if axis.name in params["newly_manual_axes"] else axis.name, size)
    jaxpr = params["jaxpr"]
    with inside(params):
        if sharded and params["check_vma"]:
            jaxpr = _varying_inputs(jaxpr, dims, sharded)
        batched, out_dims = vmap_jaxpr(jaxpr, inner, dims, bool(sharded))
    outs = _bind(
        args,
        params,
        jaxpr=batched,
        in_specs=tuple(_with_dimension(spec, d, part) for spec, d in safe_zip(params["in_specs"], dims)),
        out_specs=tuple(_with_dimension(spec, d, part) for spec, d in safe_zip(params["out_specs"], out_dims)),
    )
    return outs, out_dims


def _varying_inputs(jaxpr: ClosedJaxpr, dims: Dims, axes: Values) -> ClosedJaxpr:
    """Stage ``jaxpr`` again with other input types: the mapped inputs also vary along ``axes``."""
    avals = [aval if d is None else varying(aval, aval.vma.union(axes)) for aval, d in safe_zip(jaxpr.in_avals, dims)]
    return stage(lambda *values: eval_closed(jaxpr, *values), avals, jaxpr.jaxpr.debug_name)


def _residual_spec(aval: ShapedArray, params: Params) -> PartitionSpec:
    """The spec of a residual. Residuals that may differ between devices are stacked along the first dimension."""
    mesh, axes = params["mesh"], params["newly_manual_axes"]
    over = [name for name in mesh.axis_names if name in (aval.vma & axes if params["check_vma"] else axes)]
    states = {"unreduced": aval.unreduced, "reduced": aval.reduced} if params["check_vma"] else {}
    return PartitionSpec(*[over[0] if len(over) == 1 else tuple(over)] * bool(over), **states)


def shard_map_partial_eval_jaxpr(eqn: JaxprEqn, unknown_in: Flags) -> Any:
    """The known and the unknown equation. The residuals are the first results of the known equation and the last
    operands of the unknown one. If a residual is an operand of the known equation, the unknown equation takes this
    operand instead."""
    params = eqn.params
    closed: ClosedJaxpr = params["jaxpr"]
    key = ("shard_map partial_eval", tuple(unknown_in))
    with inside(params):
        if key not in closed.memo:
            closed.memo[key] = _split(closed, unknown_in)
        known, unknown, unknown_out, passed_on = closed.memo[key]
        inner_residuals = known.out_avals[: len(known.out_avals) - unknown_out.count(False)]
        made_specs = [_residual_spec(aval, params) for aval in inner_residuals]
        mesh, axes = params["mesh"], params["newly_manual_axes"]
        made = [Var(outer_aval(aval, spec, mesh, axes)) for aval, spec in safe_zip(inner_residuals, made_specs)]
    known_in, later_in = partition(unknown_in, eqn.invars)
    known_out, later_out = partition(unknown_out, eqn.outvars)
    in_specs, later_in_specs = partition(unknown_in, params["in_specs"])
    out_specs, later_out_specs = partition(unknown_out, params["out_specs"])
    others, other_specs = iter(made), iter(made_specs)
    residuals = [next(others) if at is None else known_in[at] for at in passed_on]
    res_specs = [next(other_specs) if at is None else in_specs[at] for at in passed_on]

    def call(jaxpr: ClosedJaxpr, ins: list[Any], outs: list[Any], specs: list[Any], specs_out: list[Any]) -> JaxprEqn:
        own = {"jaxpr": jaxpr, "in_specs": tuple(specs), "out_specs": tuple(specs_out)}
        return JaxprEqn(shard_map_p, ins, {**params, **own}, outs, eqn.source)

    now = call(known, known_in, [*made, *known_out], in_specs, [*made_specs, *out_specs])
    then = call(unknown, [*later_in, *residuals], later_out, [*later_in_specs, *res_specs], later_out_specs)
    return ([now] if now.outvars else []), [then]


def _split(closed: ClosedJaxpr, unknown_in: Flags) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[int | None]]:
    """Split ``closed`` into a known program, which returns residuals and known outputs, and an unknown one, which takes
    unknown inputs and residuals. Also return which outputs are unknown, and for each residual the number of the known
    input that it equals (None if it is computed). A computed scalar gets a dimension, along which the residuals of the
    devices are stacked."""
    known, unknown, unknown_out, n_res = partial_eval_jaxpr(closed, unknown_in)
    n_out = len(known.out_avals) - n_res
    number = {v: i for i, v in enumerate(known.jaxpr.invars)}
    passed_on = [None if type(v) is Literal else number.get(v) for v in known.jaxpr.outvars[n_out:]]
    scalar = [at is None and not aval.shape for at, aval in safe_zip(passed_on, known.out_avals[n_out:])]

    def first(*values: Any) -> list[Any]:
        outs = eval_closed(known, *values)
        found = [broadcast_in_dim(x, (1,), ()) if s else x for x, s in safe_zip(outs[n_out:], scalar)]
        return [*[x for x, at in safe_zip(found, passed_on) if at is None], *outs[:n_out]]

    def second(*values: Any) -> list[Any]:
        n = len(values) - n_res
        residuals = [squeeze(x, [0]) if s else x for x, s in safe_zip(values[n:], scalar)]
        return eval_closed(unknown, *residuals, *values[:n])

    name = closed.jaxpr.debug_name
    res_avals = [aval.update(shape=(1,)) if s else aval for aval, s in safe_zip(known.out_avals[n_out:], scalar)]
    now = stage(first, known.in_avals, name, "partial_eval")
    then = stage(second, [*unknown.in_avals[n_res:], *res_avals], name, "partial_eval")
    return now, then, unknown_out, passed_on


def shard_map_dce(eqn: JaxprEqn, used: Flags) -> JaxprEqn:
    return dce_call(eqn, used, ["in_specs"], ["out_specs"])


def shard_map_transpose(cts: Values, *args: Any, **params: Any) -> list[Any]:
    """Run the transposed program on each device, on its part of the cotangents."""
    linear, nonzero, known, given = call_operands(cts, args)
    jaxpr = params["jaxpr"]
    linear_specs = tuple(spec.of_cotangent() for spec in _chosen(linear, params["in_specs"]))
    ct_specs = tuple(spec.of_cotangent() for spec in _chosen(nonzero, params["out_specs"]))
    mesh, axes, checked = params["mesh"], params["newly_manual_axes"], params["check_vma"]
    key = ("shard_map transpose", tuple(linear), tuple(nonzero), linear_specs, ct_specs, mesh, axes, checked)
    if key not in jaxpr.memo:
        with inside(params):
            jaxpr.memo[key] = _transposed(jaxpr, linear, nonzero, linear_specs, ct_specs, params)
    transposed, arrives = jaxpr.memo[key]
    found = _bind(
        [*given, *known],
        params,
        jaxpr=transposed,
        in_specs=(*ct_specs, *partition(linear, params["in_specs"])[0]),
        out_specs=_chosen(arrives, linear_specs),
    )
    return operand_cotangents(args, arrives, found)


def _transposed(
    jaxpr: ClosedJaxpr,
    linear: Flags,
    nonzero: Flags,
    linear_specs: Sequence[PartitionSpec],
    ct_specs: Sequence[PartitionSpec],
    params: Params,
) -> tuple[ClosedJaxpr, list[bool]]:
    """The program from cotangents and known operands to cotangents, and which linear operands get a cotangent."""
    ct_avals = tuple(map(cotangent_type, _chosen(nonzero, jaxpr.out_avals)))
    transposed, arrives = transpose_jaxpr(jaxpr, linear, nonzero, ct_avals)
    n_known = len(transposed.in_avals) - len(ct_avals)
    n_cts = len(ct_avals)
    out_specs = _chosen(arrives, linear_specs)
    in_avals = tuple(map(cotangent_type, _chosen(linear, jaxpr.in_avals)))
    out_avals = _chosen(arrives, in_avals)
    axes = params["newly_manual_axes"]
    sizes = params["mesh"].shape
    source = state.source  # the equations added here get the source line of the ``shard_map``

    def missing(spec: PartitionSpec) -> tuple[Any, ...]:
        """The axes that ``spec`` does not name."""
        return ordered(axes.difference(axes_of_spec(spec)))

    def shared(ct: Any, spec: PartitionSpec) -> Any:
        count = math.prod(sizes[name] for name in missing(spec))
        return ct if count == 1 else div_p.bind(ct, full((), count, get_aval(ct).dtype))

    def summed(ct: Any, spec: PartitionSpec) -> Any:
        over = missing(spec)
        return psum_p.bind(ct, axes=over, axis_index_groups=None) if over else ct

    def of_unchecked(*values: Any) -> list[Any]:
        state.source = source
        cts = [*map(shared, values[:n_cts], ct_specs)]
        return [*map(summed, eval_closed(transposed, *values[n_cts:], *cts), out_specs)]

    def of_checked(*values: Any) -> list[Any]:
        """Cast cotangents to vary along the axes of their operands."""
        state.source = source
        outs = eval_closed(transposed, *values[n_cts:], *values[:n_cts])
        return [pvary(out, aval.vma) for out, aval in safe_zip(outs, out_avals)]

    ins = [*transposed.in_avals[n_known:], *transposed.in_avals[:n_known]]
    return stage(of_checked if params["check_vma"] else of_unchecked, ins, jaxpr.jaxpr.debug_name, "transpose"), arrives


def shard_map_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, **params: Any) -> list[str]:
    """Write ``sdy.manual_computation``, whose region is the program of one device."""
    mesh, axes, jaxpr = params["mesh"], params["newly_manual_axes"], params["jaxpr"]
    if not axes:  # an enclosing ``shard_map`` runs the program on each device already
        consts = [ctx.constant(c, v.aval) for c, v in safe_zip(jaxpr.consts, jaxpr.jaxpr.constvars)]
        return lower_eqns(ctx, jaxpr.jaxpr, consts, names)
    module = ctx.module
    free = len(axes) < len(mesh.axis_names)  # XLA may shard over the other axes

    def texts(specs: Sequence[PartitionSpec], types: Sequence[ShapedArray]) -> str:
        return ", ".join(spec_text(module.meshes, mesh, spec, aval.ndim, free) for spec, aval in safe_zip(specs, types))

    inner = ctx.region()
    start = ctx.counter[0]
    ctx.counter[0] = start + len(names)
    arguments = [f"%{start + i}" for i in range(len(names))]
    outer = module.axes, module.manual
    module.axes, module.manual = mesh.shape_tuple, module.manual | axes
    try:
        consts = [inner.constant(c, v.aval) for c, v in safe_zip(jaxpr.consts, jaxpr.jaxpr.constvars)]
        outs = lower_eqns(inner, jaxpr.jaxpr, consts, arguments)
    finally:
        module.axes, module.manual = outer
    inner_types = [*map(mlir_type, jaxpr.out_avals)]
    signature = ", ".join(f"{n}: {mlir_type(a)}" for n, a in safe_zip(arguments, jaxpr.in_avals))
    manual_text = ", ".join(f'"{name}"' for name in mesh.axis_names if name in axes)
    results = f" {', '.join(outs)} : {', '.join(inner_types)}" if outs else ""
    out_types = ", ".join(map(mlir_type, out_avals))
    body = "\n".join([*inner.lines, f"{inner.indent}sdy.return{results}"])
    return ctx.emit_many(
        f"sdy.manual_computation({', '.join(names)}) in_shardings=[{texts(params['in_specs'], avals)}] "
        f"out_shardings=[{texts(params['out_specs'], out_avals)}] manual_axes={{{manual_text}}} ({signature}) {{\n"
        f"{body}\n{ctx.indent}}} : ({', '.join(map(mlir_type, avals))}) -> "
        f"{out_types if len(out_avals) == 1 else f'({out_types})'}",
        len(out_avals),
    )


set_rules(
    shard_map_p,
    jvp=shard_map_jvp,
    axis_batch=shard_map_batch,
    transpose=shard_map_transpose,
    partial_eval=split_now(shard_map_p),
    partial_eval_jaxpr=shard_map_partial_eval_jaxpr,
    dce=shard_map_dce,
    lower=shard_map_lower,
    typecheck=shard_map_typecheck,
)
