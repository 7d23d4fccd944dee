"""Primitives inside ``shard_map`` that change the state of a value along mesh axes: casts and collectives.

A value *varies* along an axis if devices may hold different values. It is *unreduced* if it is the sum of the devices'
values, and this sum has not been computed yet. It is *reduced* if all devices hold the same value and its cotangent is
unreduced. Otherwise it is *invarying*. With reduced values the program itself decides where gradients are summed.

=========================  ======================  ================================
primitive                  from, to                its transpose
=========================  ======================  ================================
pvary                      invarying, varying      psum_invariant
psum_invariant             varying, invarying      pvary
unreduced_psum             unreduced, invarying    preduced
preduced                   invarying, reduced      unreduced_psum
vary_unreduced_cast_p      varying, unreduced      reduced_vary_cast_p
reduced_vary_cast_p        reduced, varying        vary_unreduced_cast_p
unreduced_reduce_scatter   unreduced, varying      all_gather_reduced
all_gather_reduced         varying, reduced        unreduced_reduce_scatter
=========================  ======================  ================================

Types name the axes of each state (``core.varying``). JAX infers the states of results (``interop.sharded_types``).
"""

from __future__ import annotations

from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.rules import Params, Rule
from minijax.core.varying import makes_sums, pvary_p, reduced_vary_cast_p, varies_along, vma_rules
from minijax.interpreters.evaluate import numpy_rules
from minijax.interpreters.named_axes import AxisPrimitive, axes_size, axis_users
from minijax.interpreters.vmap import AxisData, axis_rules, batching_rules
from minijax.lowering.lower import lowering_rules
from minijax.ops.declare import set_rules
from minijax.ops.nary import deflinear
from minijax.ops.parallel import (
    AxisNames,
    all_gather_abstract,
    all_gather_batch,
    all_gather_lower,
    all_reduce_text,
    declare_collective,
    psum_p,
    reduce_scatter_abstract,
    reduce_scatter_batch,
    reduce_scatter_lower,
)

psum_invariant_p = AxisPrimitive("psum_invariant")
unreduced_psum_p = AxisPrimitive("unreduced_psum")
preduced_p = Primitive("preduced")
vary_unreduced_cast_p = Primitive("vary_unreduced_cast_p")

# primitive -> the state of its operand along the axes, the state of its result, and the primitive of its transpose
ELEMENTWISE: dict[Primitive, tuple[str, str, Primitive]] = {
    pvary_p: ("invarying", "varying", psum_invariant_p),
    psum_invariant_p: ("varying", "invarying", pvary_p),
    unreduced_psum_p: ("unreduced", "invarying", preduced_p),
    preduced_p: ("invarying", "reduced", unreduced_psum_p),
    vary_unreduced_cast_p: ("varying", "unreduced", reduced_vary_cast_p),
    reduced_vary_cast_p: ("reduced", "varying", vary_unreduced_cast_p),
}


def axes_of(params: Params) -> AxisNames:
    """The axes along which an equation of these primitives changes the state of a value."""
    return params["axes"] if "axes" in params else params["axis_name"]  # type: ignore[no-any-return]


def state_of(aval: ShapedArray, axes: AxisNames, function: str) -> str:
    """The state of a value along ``axes``: varying, unreduced, reduced or invarying. ValueError if states differ."""
    kinds = {"varying": aval.vma, "unreduced": aval.unreduced, "reduced": aval.reduced}
    found = {next((kind for kind, own in kinds.items() if axis in own), "invarying") for axis in axes}
    if len(found) > 1:
        raise ValueError(
            f"jax.lax.{function} can only accept axis_name which corresponds to one of varying, unreduced, reduced or "
            f"invarying state of the input. Got input type: {aval.str_short()}, axes: {axes} and input state: "
            f"{sorted(found)}. Name only axes of one state, and call it again for the other axes."
        )
    return found.pop()


def _vma_rule(before: str, after: str) -> Any:
    """The rule for the set of axes along which the result varies."""

    def rule(vma: frozenset[Any], params: Params) -> frozenset[Any]:
        axes = axes_of(params)
        return vma.difference(axes) if before == "varying" else vma.union(axes) if after == "varying" else vma

    return rule


def _check_batch(p: Primitive, axis: AxisData) -> None:
    """NotImplementedError under a vmap without a name, as in JAX."""
    if axis.name is None:
        raise NotImplementedError(
            f"{p.name} under vmap is not implemented. Apply lax.psum to the varying value instead, or pass arrays "
            "with one more dimension."
        )


def _declare_elementwise(p: Primitive, before: str, after: str, transposed: Primitive) -> None:
    """Set the rules of a primitive that changes states along ``axes`` and keeps shapes."""
    makes_sum = isinstance(p, AxisPrimitive)

    def batch(axis: AxisData, args: Any, dims: Any, *, axes: AxisNames) -> Any:
        (x,), (d,) = args, dims
        if p in makes_sums:
            _check_batch(p, axis)
        if axis.name is not None and axis.name in axes:
            axes = tuple(name for name in axes if name != axis.name)
            if makes_sum:
                x, d = axis_rules[psum_p](axis, (x,), (d,), axes=(axis.name,), axis_index_groups=None)
        return p.bind(x, axes=axes) if axes else x, d

    def transpose(ct: Any, x: Any, *, axes: AxisNames) -> list[Any]:
        return [transposed.bind(ct, axes=axes)]

    def refuse(x: Any, *, axes: AxisNames) -> Any:
        axes_size(axes)  # raises for an unbound name
        raise RuntimeError(f"{p.name} must be used within a mapped context like shard_map.")

    def lower_sum(ctx: Any, avals: Any, out_avals: Any, x: str, *, axes: AxisNames) -> str:
        return all_reduce_text(ctx, "add", out_avals[0], x, axes)

    p.keeps_signatures = False
    p.def_abstract_eval(_one_type)
    batching_rules.holes[p] = "its rule must know the mapped axis"
    set_rules(p, axis_batch=batch, typecheck=_typecheck)
    vma_rules[p] = _vma_rule(before, after)
    deflinear(p, transpose)
    if makes_sum:
        axis_users[p] = axes_of
        p.refuses_keys = True
        p.def_impl(refuse)
        lowering_rules[p] = lower_sum
    else:
        lowering_rules[p] = _same_text
        numpy_rules[p] = _same_value


def _one_type(x: ShapedArray, *, axes: AxisNames) -> ShapedArray:
    axes_size(axes)  # raises for an unbound name
    return x


def _typecheck(avals: tuple[ShapedArray, ...], params: Params) -> list[ShapedArray]:
    return [avals[0]]


def _same_text(ctx: Any, avals: Any, out_avals: Any, x: str, *, axes: AxisNames) -> str:
    return x


def _same_value(x: Any, *, axes: AxisNames) -> Any:
    return x


makes_sums.update((unreduced_psum_p, preduced_p, vary_unreduced_cast_p, reduced_vary_cast_p))
varies_along[psum_invariant_p] = axes_of
for _p, _about in ELEMENTWISE.items():
    _declare_elementwise(_p, *_about)


def all_gather_reduced_transpose(ct: Any, x: Any, *, all_gather_dimension: int, **params: Any) -> list[Any]:
    return [unreduced_reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


def unreduced_reduce_scatter_transpose(ct: Any, x: Any, *, scatter_dimension: int, **params: Any) -> list[Any]:
    return [all_gather_reduced_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


def _named_batch(rule: Rule) -> Rule:
    """The batching rule ``rule`` for a vmap with a name."""

    def named_batch(p: Primitive, axis: AxisData, x: Any, d: int | None, **params: Any) -> Any:
        _check_batch(p, axis)
        return rule(p, axis, x, d, **params)

    return named_batch


all_gather_reduced_p = declare_collective(
    "all_gather_reduced", axes_of, all_gather_abstract, _named_batch(all_gather_batch), all_gather_lower,
    all_gather_reduced_transpose,
)  # fmt: skip
unreduced_reduce_scatter_p = declare_collective(
    "unreduced_reduce_scatter", axes_of, reduce_scatter_abstract, _named_batch(reduce_scatter_batch),
    reduce_scatter_lower, unreduced_reduce_scatter_transpose,
)  # fmt: skip
unreduced_reduce_scatter_p.refuses_keys = True
vma_rules[all_gather_reduced_p] = _vma_rule("varying", "reduced")
vma_rules[unreduced_reduce_scatter_p] = _vma_rule("unreduced", "varying")
for _p in (all_gather_reduced_p, unreduced_reduce_scatter_p):
    makes_sums.add(_p)
    del varies_along[_p]  # the operand is not cast to varying: it must be in the right state
