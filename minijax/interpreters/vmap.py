"""Batching: one run of a function on values with a batch axis replaces many runs without it.

In and out: values, some of which have a batch axis. Invariant: a tracer's ``aval`` is the logical type, without the
batch axis. Its ``val`` is the physical value, with the batch axis. A value without a batch axis is not a tracer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import structural
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, sharding_along_axis, stacked_type
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.refs import AbstractRef
from minijax.core.rules import Rule, RuleTable, bad_result
from minijax.core.trace import Trace, Tracer, records_below, state, under
from minijax.errors import source_info
from minijax.interpreters.stage import stage
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr

not_mapped = None

batching_rules = RuleTable(
    "vmap",
    "Batching rule for '{name}' not implemented",
    "add: minijax.interpreters.batching.primitive_batchers[primitive] = rule"
    "   # rule(args, dims, **params) -> (out, out_dim)",
)
# rule(axis_data, args, dims, **params), for primitives that need the mapped axis
axis_rules = RuleTable(
    "vmap (axis)",
    "Batching rule for '{name}' not implemented",
    "add: minijax.interpreters.batching.fancy_primitive_batchers[primitive] = rule",
)


class AxisData(NamedTuple):
    """The mapped axis of a vmap. ``spmd``: its mesh axes. ``division``: its sharding in the types of arrays."""

    name: Any
    size: int
    spmd: tuple[Any, ...] = ()
    division: Any = None


class BatchTracer(Tracer):
    """``val`` with its batch axis ``batch_dim``. ``aval`` is made at first use."""

    __slots__ = ("val", "batch_dim", "aval")

    aval: ShapedArray  # type: ignore[misc]

    def __init__(self, trace: Trace, val: Any, batch_dim: int) -> None:
        self._trace = trace
        self.val = val
        self.batch_dim = batch_dim

    def __getattr__(self, name: str) -> Any:
        if name != "aval":
            return self.__getattribute__(name)  # raises AttributeError
        aval = get_aval(self.val)
        d = self.batch_dim
        if type(aval) is not AbstractRef:
            found = aval.part(d)
        else:  # the type of a reference
            found = type(aval)(aval.shape[:d] + aval.shape[d + 1 :], aval.dtype, aval.weak_type)
        self.aval = found
        return found

    def _inside(self) -> Tracer | None:
        return self.val if isinstance(self.val, Tracer) else None

    def _level(self) -> tuple[str, Any]:
        size = get_aval(self.val).shape[self.batch_dim]
        return f"{self._trace.main!r} maps axis {self.batch_dim} of size {size}", self.val

    def __repr__(self) -> str:
        return f"VmapTracer(aval={self.aval}, batched={get_aval(self.val)})"


class BatchTrace(Trace):
    """Applies batching rules."""

    __slots__ = ("axis", "recorded")
    checks_leaks = True
    rules = batching_rules

    def __init__(self, main: Any) -> None:
        super().__init__(main)
        self.axis: AxisData = main.global_data
        self.recorded = records_below(main.level)

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values = []
        dims: list[int | None] = []
        for x in args:
            if type(x) is BatchTracer and x._trace is self:
                values.append(x.val)
                dims.append(x.batch_dim)
            else:
                values.append(x)
                dims.append(None)
        noting = self.recorded and state.source is None
        if noting:
            state.source = source_info(3)
        try:
            fancy = axis_rules.get(primitive)
            if fancy is not None:
                result = fancy(self.axis, values, dims, **params)
            else:
                result = batching_rules[primitive](values, dims, **params)
        finally:
            if noting:
                state.source = None
        try:
            out, out_dims = result
            if primitive.multiple_results:
                if out_dims is None or isinstance(out_dims, int):
                    out_dims = [out_dims] * len(out)
                return [self.box(o, d) for o, d in zip(out, out_dims, strict=True)]
        except (TypeError, ValueError) as error:
            table = batching_rules if fancy is None else axis_rules
            raise bad_result(table, primitive, result, "(out, out_dim)", error) from None
        return out if out_dims is None else BatchTracer(self, out, out_dims)

    def run_program(self, program: Any, args: Sequence[Any]) -> list[Any]:
        values, dims = zip(*map(self.unbox, args), strict=True)
        mapped, out_dims = program.mapped(self.axis, dims)
        if mapped.closed.consts and state.dynamic.level:  # run the rules, so that constants are staged too
            return program.evaluate(args)  # type: ignore[no-any-return]
        return [*map(self.box, mapped.run(values), out_dims)]

    def box(self, value: Any, dim: int | None) -> Any:
        """``value`` as this trace's tracer, or itself if it has no batch axis."""
        return value if dim is None else BatchTracer(self, value, dim)

    def unbox(self, x: Any) -> tuple[Any, int | None]:
        """The physical value and batch axis of ``x``."""
        if type(x) is BatchTracer and x._trace is self:
            return x.val, x.batch_dim
        return x, None

    def rule_of(self, primitive: Primitive) -> Rule | None:
        return axis_rules.get(primitive) or batching_rules.get(primitive)


def batch(
    fun: Callable[..., Sequence[Any]],
    axis: AxisData,
    values: Sequence[Any],
    dims: Sequence[int | None],
    name: str = "",
) -> tuple[list[Any], list[int | None]]:
    """Run flat ``fun`` with ``values`` batched along ``dims``. Returns physical outputs and their batch axes."""
    previous = state.axis_env

    def run_batched(main: Any) -> list[tuple[Any, int | None]]:
        trace = main.trace
        try:
            state.axis_env = (*previous, (axis.name, axis.size)) if axis.name is not None else previous
            outs = fun(*[trace.box(v, d) for v, d in zip(values, dims, strict=True)])
            return [trace.unbox(out) for out in outs]
        finally:
            state.axis_env = previous

    pairs = under(BatchTrace, "vmap", run_batched, axis, name)
    return [v for v, _ in pairs], [d for _, d in pairs]


def match_axis(value: Any, dim: int | None, size: int, dst: int, division: Any = None) -> Any:
    """``value`` with its batch axis at ``dst``. If it has none, it is broadcast with the sharding ``division``."""
    if dim is None:
        return structural.broadcast(value, size, dst, division)
    return structural.moveaxis(value, dim, dst)


def mapped_axis(args: Sequence[Any], dims: Sequence[int | None]) -> tuple[int, Any]:
    """The size of the mapped axis, and its sharding in the type of the first mapped argument."""
    aval, dim = next((get_aval(x), d) for x, d in zip(args, dims, strict=True) if d is not None)
    return aval.shape[dim], sharding_along_axis(aval, dim)


def bdim_at_front(value: Any, dim: int | None, size: int, division: Any = None) -> Any:
    """``value`` with its batch axis in front."""
    return match_axis(value, dim, size, 0, division)


def vmap_jaxpr(
    closed: ClosedJaxpr,
    axis: AxisData,
    dims: Sequence[int | None],
    out_front: Sequence[bool] | bool = False,
    at: int = 0,
) -> tuple[ClosedJaxpr, list[int | None]]:
    """The batched jaxpr and the batch axes of its outputs. ``out_front``: outputs whose batch axis moves to ``at``."""
    forced = [out_front] * len(closed.out_avals) if isinstance(out_front, bool) else list(out_front)
    key = ("vmap", axis, tuple(dims), tuple(forced), at)
    if key not in closed.memo:
        out_dims: list[int | None] = []

        def batched_jaxpr(*values: Any) -> list[Any]:
            outs, found = batch(lambda *xs: eval_closed(closed, *xs), axis, values, dims)
            out_dims[:] = [at if f else d for d, f in zip(found, forced, strict=True)]
            return [
                match_axis(out, d, axis.size, at, axis.division) if f else out
                for out, d, f in zip(outs, found, forced, strict=True)
            ]

        avals = [batched_aval(a, d, axis) for a, d in zip(closed.in_avals, dims, strict=True)]
        closed.memo[key] = stage(batched_jaxpr, avals, closed.jaxpr.debug_name, "vmap"), out_dims
    return closed.memo[key]


def batched_aval(aval: ShapedArray, dim: int | None, axis: AxisData) -> ShapedArray:
    """The physical type of a value of logical type ``aval``."""
    return aval if dim is None else stacked_type(aval, axis.size, dim, axis.division)
