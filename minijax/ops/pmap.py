"""``pmap`` as a primitive: one program run at once on several devices, each on its slice of the mapped operands.

The jaxpr is compiled once, as a StableHLO module of as many replicas as the axis has instances; collectives along the
axis are talk between the devices. Inside another program (jit of pmap, pmap of pmap) the call is written into that
program, which is then itself replicated: every replica takes its own slice, and the slices of the results are gathered.

Parameters: ``axis_name``; ``axis_size``, the instances in this process, and ``global_axis_size``, those in all;
``in_axes`` and ``out_axes``, for each operand and result the axis that is mapped or None; ``name``; ``jaxpr``, of one
instance; ``donated_invars``; and ``devices``, or None for the first ones.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.backend import pjrt
from minijax.core import dtypes, observe
from minijax.core.array import Array, as_array, get_aval
from minijax.core.avals import ShapedArray
from minijax.core.guards import check, guards
from minijax.core.lists import partition
from minijax.core.structural import Zero, full
from minijax.core.trace import check_alive
from minijax.interpreters.jvp import jvp_jaxpr, jvp_rules, with_zeros
from minijax.interpreters.named_axes import AxisPrimitive, axis_binders, bound_axes, replicas_needed, replication
from minijax.interpreters.partial_eval import (
    dce_call,
    dce_rules,
    partial_eval_jaxpr,
    partial_eval_jaxpr_rules,
    partial_eval_rules,
    split_now,
)
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import call_operands, operand_cotangents, transpose_jaxpr, transpose_rules
from minijax.interpreters.vmap import AxisData, axis_rules, batching_rules, vmap_jaxpr
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Var
from minijax.ir.pretty import Params, parse_rules, pp_rules
from minijax.ir.typecheck import same_type, typecheck_rules
from minijax.lowering.lower import lower_closed, lower_places, lowering_rules, passed_consts
from minijax.lowering.text import mlir_type
from minijax.ops.elementwise import div_p
from minijax.ops.parallel import all_gather_lower, axis_index_lower, psum_p
from minijax.ops.shape import reshape_text
from minijax.ops.sharded import DeviceLayout, ShardedArray, place_shards

Axes = tuple[int | None, ...]

pmap_p = AxisPrimitive("pmap", multiple_results=True)
pmap_p.keeps_signatures = False
axis_binders[pmap_p] = lambda params: (params["axis_name"],)
batching_rules.holes[pmap_p] = "its rule must know the mapped axis"


def removed(aval: ShapedArray, axis: int | None) -> ShapedArray:
    """The type of one instance's slice."""
    return aval if axis is None else aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])


def inserted(aval: ShapedArray, axis: int | None, size: int) -> ShapedArray:
    """The type of ``size`` slices side by side."""
    return aval if axis is None else aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


@pmap_p.def_abstract_eval
def pmap_abstract(
    *avals: ShapedArray, jaxpr: ClosedJaxpr, axis_size: int, out_axes: Axes, **params: Any
) -> list[ShapedArray]:
    return [inserted(aval, axis, axis_size) for aval, axis in zip(jaxpr.out_avals, out_axes, strict=True)]


def pmap_typecheck(avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> list[ShapedArray]:
    for aval, axis, inner in zip(avals, params["in_axes"], params["jaxpr"].in_avals, strict=True):
        if axis is not None and aval.shape[axis] != params["axis_size"]:
            raise TypeError(f"pmap over {params['axis_size']} instances of axis {axis} of {aval.str_short()}")
        if not same_type(removed(aval, axis), inner):
            raise TypeError(f"a slice of {aval.str_short()} along {axis} is not {inner.str_short()}")
    return pmap_abstract(*avals, **params)


typecheck_rules[pmap_p] = pmap_typecheck


def pmap_shown(eqn: JaxprEqn, printer: Any) -> Params:
    """The parameters that always tell something, and the others where they do."""
    params = dict(eqn.params)
    if params["global_axis_size"] == params["axis_size"]:
        del params["global_axis_size"]
    if params["devices"] is None:
        del params["devices"]
    if not any(params["donated_invars"]):
        del params["donated_invars"]
    return sorted(params.items())


def pmap_read(params: dict[str, Any], in_avals: Sequence[Any], out_avals: Sequence[Any]) -> dict[str, Any]:
    """The inverse of ``pmap_shown``."""
    hidden = {"devices": None, "donated_invars": (False,) * len(in_avals), "global_axis_size": params["axis_size"]}
    return {**hidden, **params}


pp_rules[pmap_p] = pmap_shown
parse_rules[pmap_p] = pmap_read


# ---------------------------------------------------------------------------------------------- evaluation


def _origin(
    closed: weakref.ref[ClosedJaxpr], name: str, donated: Sequence[bool], replicas: int, axes: Sequence[tuple[Any, int]]
) -> Any:
    """What a program was compiled from: the jaxpr and its module's places. None if the jaxpr is gone."""
    alive = closed()
    if alive is None:
        return None
    return alive, lower_places(alive, name, donated, replicas, platform=pjrt.platform, host_callbacks=[], axes=axes)


class PmapProgram:
    """A jaxpr of one instance, compiled for ``count`` replicas, and its constants on all their devices."""

    def __init__(self, closed: ClosedJaxpr, params: dict[str, Any]) -> None:
        size, name = params["global_axis_size"], params["name"]
        # how many replicas each instance has: more than one if it has a pmap inside
        self.repeat = replicas_needed(closed)
        count = size * self.repeat
        self.name = name
        self.closed = closed
        self.devices = pjrt.program_devices(count, params["devices"])
        self.in_axes: Axes = params["in_axes"]
        self.out_axes: Axes = params["out_axes"]
        self.out_avals = pmap_abstract(**params)
        donated = params["donated_invars"]
        self.donated = [i for i, d in enumerate(donated) if d]
        callbacks: list[Any] = []
        axes = [(params["axis_name"], size)]
        if guards:
            check("compiled", name, lambda: "its program is run for the first time")
        with observe.timed("lower", name, closed.memo.get("missed")):
            self.text = lower_closed(
                closed,
                name,
                donated,
                replicas=count,
                platform=pjrt.platform,
                host_callbacks=callbacks,
                axes=axes,
            )
        if observe.on_lowered:
            observe.emit(observe.on_lowered, name, self.text)
        with observe.timed("compile", name, closed.memo.get("missed")):
            self.executable = pjrt.compile(
                self.text,
                name=name,
                out_avals=closed.out_avals,
                num_replicas=count,
                device_assignment=self.devices,
                host_callbacks=callbacks,
            )
        self.const_buffers = [
            place_shards(as_array(check_alive(c)), None, self.devices, v.aval)
            for c, v, passed in zip(closed.consts, closed.jaxpr.constvars, passed_consts(closed), strict=True)
            if passed
        ]
        # the devices that hold the results: of an instance's replicas, which all compute the same, the first
        holders = tuple(self.devices[:: self.repeat])
        self.layouts = [DeviceLayout(holders, axis) for axis in self.out_axes]
        self.executable.origin = functools.partial(_origin, weakref.ref(closed), name, donated, count, axes)
        if observe.on_compiled:
            observe.emit(observe.on_compiled, name, self.executable)

    def __call__(self, *args: Any) -> list[Any]:
        """Run; the results stay on the devices."""
        buffers = list(self.const_buffers)
        for x, axis, aval in zip(args, self.in_axes, self.closed.in_avals, strict=True):
            array = as_array(check_alive(x))
            buffers.append(place_shards(array, axis, self.devices, aval, self.repeat if axis is not None else 1))
        with observe.timed("run", self.name):
            outs = self.executable.execute(buffers)
            if observe.on_phase or observe.on_executed:
                pjrt.block_until_ready(outs)
        for i in self.donated:
            if isinstance(args[i], ShardedArray):
                args[i].forget_host_copy()
        if observe.on_executed:
            observe.emit(observe.on_executed, self.name, self.executable, len(buffers), len(outs))
        return [*map(self._result, outs, self.closed.out_avals, self.out_avals, self.layouts)]

    def _result(self, buffer: Any, inner: ShapedArray, aval: ShapedArray, layout: DeviceLayout) -> Any:
        if inner.dtype == dtypes.float0:
            return np.zeros(aval.shape, dtypes.float0)
        if self.repeat > 1:
            buffer = pjrt.assemble(pjrt.shards(buffer)[:: self.repeat], layout.devices, inner)
        return ShardedArray(buffer, aval, layout)


def pmap_program(params: dict[str, Any]) -> PmapProgram:
    """The compiled program of a ``pmap`` with these parameters, made once."""
    closed = params["jaxpr"]
    key = ("pmap", *[value for name, value in sorted(params.items()) if name != "jaxpr"])
    program = closed.memo.get(key)
    if program is None:
        program = closed.memo[key] = PmapProgram(closed, params)
    return program


@pmap_p.def_impl
def pmap_impl(*args: Any, **params: Any) -> list[Array]:
    return pmap_program(params)(*args)


# ---------------------------------------------------------------------------------------------- transformations


def _bind(args: Sequence[Any], params: dict[str, Any], **changes: Any) -> list[Any]:
    """The call with another jaxpr; its operands are not donated any more."""
    changed = {**params, **changes}
    changed["donated_invars"] = (False,) * len(changed["in_axes"])
    return pmap_p.bind(*args, **changed)


def _chosen(flags: Sequence[bool], axes: Sequence[int | None]) -> Axes:
    return tuple(axis for axis, flag in zip(axes, flags, strict=True) if flag)


def pmap_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    jaxpr, in_axes, out_axes = params["jaxpr"], params["in_axes"], params["out_axes"]
    nonzero = [type(t) is not Zero for t in tangents]
    with bound_axes([(params["axis_name"], params["global_axis_size"])]):
        jvp_of, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
    given = [t for t in tangents if type(t) is not Zero]
    outs = _bind(
        [*primals, *given],
        params,
        jaxpr=jvp_of,
        in_axes=(*in_axes, *_chosen(nonzero, in_axes)),
        out_axes=(*out_axes, *_chosen(nonzero_out, out_axes)),
    )
    return with_zeros(outs, nonzero_out)


jvp_rules[pmap_p] = pmap_jvp


def pmap_batch(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """The batch axis goes into the instances; the mapped axes make room for it."""
    if axis.name == params["axis_name"]:
        # inside, the name is that of the inner axis
        axis = AxisData(None, axis.size)
    pairs = zip(params["in_axes"], dims, strict=True)
    # where the mapped axis and the batch axis are when both are there
    placed = [(a if a is None or d is None else a + (a >= d), d) for a, d in pairs]
    inner_dims = [d if a is None or d is None else d - (a < d) for a, d in placed]
    with bound_axes([(params["axis_name"], params["global_axis_size"])]):
        batched, inner_out = vmap_jaxpr(params["jaxpr"], axis, inner_dims)
    # batch axes stay where they are, counted without the mapped axis if that comes behind them
    outs = list(zip(params["out_axes"], inner_out, strict=True))
    out_axes = tuple(a if a is None or d is None else a + (d < a) for a, d in outs)
    out_dims = [d if a is None or d is None else d + (d >= a) for a, d in outs]
    return _bind(args, params, jaxpr=batched, in_axes=tuple(a for a, _ in placed), out_axes=out_axes), out_dims


axis_rules[pmap_p] = pmap_batch


def pmap_partial_eval_jaxpr(eqn: JaxprEqn, unknown_in: Sequence[bool]) -> Any:
    """Two calls; residuals go from one to the other as they are, a slice of a leading axis on each device."""
    params = eqn.params
    closed: ClosedJaxpr = params["jaxpr"]
    key = ("partial_eval", tuple(unknown_in))
    if key not in closed.memo:
        closed.memo[key] = partial_eval_jaxpr(closed, unknown_in)
    known_jaxpr, unknown_jaxpr, unknown_out, n_res = closed.memo[key]
    size = params["axis_size"]
    inner_residuals = known_jaxpr.out_avals[len(known_jaxpr.out_avals) - n_res :]
    residuals = [Var(inserted(aval, 0, size)) for aval in inner_residuals]
    known_in, later_in = partition(unknown_in, eqn.invars)
    known_out, later_out = partition(unknown_out, eqn.outvars)
    in_axes, later_in_axes = partition(unknown_in, params["in_axes"])
    out_axes, later_out_axes = partition(unknown_out, params["out_axes"])

    def call(jaxpr: ClosedJaxpr, ins: list[Any], outs: list[Any], axes: list[Any], axes_out: list[Any]) -> JaxprEqn:
        donated = (False,) * len(ins)
        own = {"jaxpr": jaxpr, "in_axes": tuple(axes), "out_axes": tuple(axes_out), "donated_invars": donated}
        return JaxprEqn(pmap_p, ins, {**params, **own}, outs, eqn.source)

    zeros = [0] * n_res
    now = call(known_jaxpr, known_in, [*known_out, *residuals], in_axes, [*out_axes, *zeros])
    then = call(unknown_jaxpr, [*residuals, *later_in], later_out, [*zeros, *later_in_axes], later_out_axes)
    return ([now] if now.outvars else []), [then]


partial_eval_jaxpr_rules[pmap_p] = pmap_partial_eval_jaxpr
partial_eval_rules[pmap_p] = split_now(pmap_p)


def pmap_dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    return dce_call(eqn, used, ["in_axes", "donated_invars"], ["out_axes"])


dce_rules[pmap_p] = pmap_dce


def pmap_transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    """Cotangents of what all instances share are summed over them; that of a result all share is a share each."""
    linear, nonzero, known, given = call_operands(cts, args)
    jaxpr, name, size = params["jaxpr"], params["axis_name"], params["global_axis_size"]
    linear_axes = [axis for axis, lin in zip(params["in_axes"], linear, strict=True) if lin]
    ct_axes = _chosen(nonzero, params["out_axes"])
    key = ("pmap transpose", tuple(linear), tuple(nonzero), tuple(linear_axes), ct_axes, name, size)
    if key not in jaxpr.memo:
        with bound_axes([(name, size)]):
            jaxpr.memo[key] = _transposed(jaxpr, linear, nonzero, linear_axes, ct_axes, name, size)
    transposed, arrives = jaxpr.memo[key]
    found = _bind(
        [*known, *given],
        params,
        jaxpr=transposed,
        in_axes=(*partition(linear, params["in_axes"])[0], *ct_axes),
        out_axes=_chosen(arrives, linear_axes),
    )
    return operand_cotangents(args, arrives, found)


def _transposed(
    jaxpr: ClosedJaxpr,
    linear: Sequence[bool],
    nonzero: Sequence[bool],
    linear_axes: Sequence[int | None],
    ct_axes: Sequence[int | None],
    name: Any,
    size: int,
) -> tuple[ClosedJaxpr, list[bool]]:
    ct_avals = [aval for aval, nz in zip(jaxpr.out_avals, nonzero, strict=True) if nz]
    transposed, nonzero_out = transpose_jaxpr(jaxpr, linear, nonzero, ct_avals)
    out_axes = _chosen(nonzero_out, linear_axes)
    if all(axis is not None for axis in (*out_axes, *ct_axes)):
        return transposed, nonzero_out
    n_known = len(transposed.in_avals) - len(ct_axes)

    def with_shared(*values: Any) -> list[Any]:
        cts = [
            ct if axis is not None else div_p.bind(ct, full((), size, get_aval(ct).dtype))
            for ct, axis in zip(values[n_known:], ct_axes, strict=True)
        ]
        outs = eval_closed(transposed, *values[:n_known], *cts)
        return [
            out if axis is not None else psum_p.bind(out, axes=(name,), axis_index_groups=None)
            for out, axis in zip(outs, out_axes, strict=True)
        ]

    return stage(with_shared, transposed.in_avals, jaxpr.jaxpr.debug_name, "transpose"), nonzero_out


transpose_rules[pmap_p] = pmap_transpose


# ---------------------------------------------------------------------------------------------- inside a program


def pmap_replicas(params: dict[str, Any]) -> int:
    """How many replicas a program must have that contains this call."""
    return params["global_axis_size"] * replicas_needed(params["jaxpr"])


replication[pmap_p] = pmap_replicas


def pmap_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, **params: Any) -> list[str]:
    """Every replica takes its slice, calls the function, and gathers the slices of the results from the others."""
    axis_name, size, jaxpr = params["axis_name"], params["axis_size"], params["jaxpr"]
    if params["global_axis_size"] != size:
        raise NotImplementedError("pmap over the devices of several processes cannot be part of another program.")
    module = ctx.module
    outer = module.axes
    module.axes = (*outer, (axis_name, size))
    assert module.replicas % math.prod(n for _, n in module.axes) == 0, "the program was given enough replicas"
    try:
        index = axis_index_lower(ctx, (), (), axis_name=axis_name)
        slices = [*map(lambda *operand: _slice(ctx, index, *operand), names, avals, params["in_axes"])]
        symbol = module.function(jaxpr, params["name"])
        ins, outs = ", ".join(map(mlir_type, jaxpr.in_avals)), ", ".join(map(mlir_type, jaxpr.out_avals))
        results = ctx.emit_many(f"func.call @{symbol}({', '.join(slices)}) : ({ins}) -> ({outs})", len(out_avals))
        shared = {"axis_name": axis_name, "axis_index_groups": None, "axis_size": size, "tiled": False}
        return [
            result if axis is None else all_gather_lower(ctx, [i], [o], result, all_gather_dimension=axis, **shared)
            for result, i, o, axis in zip(results, jaxpr.out_avals, out_avals, params["out_axes"], strict=True)
        ]
    finally:
        module.axes = outer


def _slice(ctx: Any, index: str, x: str, aval: ShapedArray, axis: int | None) -> str:
    """Element ``index`` of ``x`` along ``axis``."""
    if axis is None:
        return x
    zero = ctx.scalar(0, np.dtype(np.int32))
    starts = [index if i == axis else zero for i in range(aval.ndim)]
    one = aval.update(shape=(*aval.shape[:axis], 1, *aval.shape[axis + 1 :]))
    types = ", ".join([mlir_type(aval), *["tensor<i32>"] * aval.ndim])
    operands = ", ".join([x, *starts])
    text = f"stablehlo.dynamic_slice {operands}, sizes = [{', '.join(map(str, one.shape))}] : ({types})"
    return reshape_text(ctx, ctx.emit(f"{text} -> {mlir_type(one)}"), one, removed(aval, axis).shape)


lowering_rules[pmap_p] = pmap_lower
