"""Sums over devices that are not taken yet, inside ``shard_map``: collectives and casts from and to such values.

A value that is *unreduced* along an axis is the sum over it of what the devices hold. One that is *reduced* is the same
on all of them, and its cotangent is unreduced: so the sum of gradients is taken where the program says it, once.

=========================  ======================  ================================
primitive                  from, to                its transpose
=========================  ======================  ================================
unreduced_psum             unreduced, shared       preduced
preduced                   shared, reduced         unreduced_psum
vary_unreduced_cast_p      varying, unreduced      reduced_vary_cast_p
reduced_vary_cast_p        reduced, varying        vary_unreduced_cast_p
unreduced_reduce_scatter   unreduced, varying      all_gather_reduced
all_gather_reduced         varying, reduced        unreduced_reduce_scatter
=========================  ======================  ================================

Types say which axes (``core.varying``). JAX infers them for all operations: ``interop.sharded_types``.
"""

from __future__ import annotations

from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.varying import makes_sums, reduced_vary_cast_p, varies_along, vma_rules
from minijax.interpreters.evaluate import numpy_rules
from minijax.interpreters.named_axes import AxisPrimitive, axes_size, axis_users
from minijax.interpreters.vmap import AxisData, axis_rules, batching_rules
from minijax.ir.typecheck import typecheck_rules
from minijax.lowering.lower import lowering_rules
from minijax.ops.nary import deflinear
from minijax.ops.parallel import (
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

__all__ = [
    "all_gather_reduced_p", "preduced_p", "reduced_vary_cast_p", "unreduced_psum_p", "unreduced_reduce_scatter_p",
    "vary_unreduced_cast_p",
]  # fmt: skip

unreduced_psum_p = AxisPrimitive("unreduced_psum")
preduced_p = Primitive("preduced")
vary_unreduced_cast_p = Primitive("vary_unreduced_cast_p")

# primitive -> what its operand is along the axes, and what its result is
STATES: dict[Primitive, tuple[str, str]] = {
    unreduced_psum_p: ("unreduced", "invarying"),
    preduced_p: ("invarying", "reduced"),
    vary_unreduced_cast_p: ("varying", "unreduced"),
    reduced_vary_cast_p: ("reduced", "varying"),
}


def axes_of(params: dict[str, Any]) -> tuple[Any, ...]:
    """The axes along which an equation of these primitives changes what a value is."""
    return params["axes"] if "axes" in params else params["axis_name"]  # type: ignore[no-any-return]


def state_of(aval: ShapedArray, axes: tuple[Any, ...], function: str) -> str:
    """What values of a type are along ``axes``: varying, unreduced, reduced or invarying. ValueError if not one."""
    kinds = {"varying": aval.vma, "unreduced": aval.unreduced, "reduced": aval.reduced}
    found = {next((kind for kind, own in kinds.items() if axis in own), "invarying") for axis in axes}
    if len(found) > 1:
        raise ValueError(
            f"jax.lax.{function} can only accept axis_name which corresponds to one of varying, unreduced, reduced or "
            f"invarying state of the input. Got input type: {aval.str_short()}, axes: {axes} and input state: "
            f"{sorted(found)}. Name the axes of one of these only, and call it again for the others."
        )
    return found.pop()


def _one_type(x: ShapedArray, *, axes: tuple[Any, ...]) -> ShapedArray:
    axes_size(axes)  # raises for an unbound name
    return x


def _changed(primitive: Primitive) -> Any:
    """The rule for the axes along which the result varies."""
    before, after = STATES[primitive]

    def rule(vma: frozenset[Any], params: dict[str, Any]) -> frozenset[Any]:
        axes = axes_of(params)
        return vma.difference(axes) if before == "varying" else vma.union(axes) if after == "varying" else vma

    return rule


def _check_batch(p: Primitive, axis: AxisData) -> None:
    """NotImplementedError under a vmap, as in JAX. Where the devices are examples, axes have the mesh's names."""
    if axis.name is None:
        raise NotImplementedError(
            f"{p.name} under vmap is not implemented. Take the sum without it (lax.psum of what varies), or give it "
            "arrays with one more dimension."
        )


def _batch(p: Primitive) -> Any:
    def batch(axis: AxisData, args: Any, dims: Any, *, axes: tuple[Any, ...]) -> Any:
        (x,), (d,) = args, dims
        _check_batch(p, axis)
        if axis.name is not None and axis.name in axes:  # where the devices are examples
            axes = tuple(name for name in axes if name != axis.name)
            if p is unreduced_psum_p:
                x, d = axis_rules[psum_p](axis, (x,), (d,), axes=(axis.name,), axis_index_groups=None)
        return p.bind(x, axes=axes) if axes else x, d

    return batch


def _typecheck(avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> list[ShapedArray]:
    return [avals[0]]


def _same_text(ctx: Any, avals: Any, out_avals: Any, x: str, *, axes: tuple[Any, ...]) -> str:
    return x


def _same_value(x: Any, *, axes: tuple[Any, ...]) -> Any:
    return x


def _transposed_to(other: Primitive) -> Any:
    def transpose(ct: Any, x: Any, *, axes: tuple[Any, ...]) -> list[Any]:
        return [other.bind(ct, axes=axes)]

    return transpose


for _p, _other in (
    (unreduced_psum_p, preduced_p), (preduced_p, unreduced_psum_p),
    (vary_unreduced_cast_p, reduced_vary_cast_p), (reduced_vary_cast_p, vary_unreduced_cast_p),
):  # fmt: skip
    _p.keeps_signatures = False
    _p.def_abstract_eval(_one_type)
    typecheck_rules[_p] = _typecheck
    batching_rules.holes[_p] = "its rule must know the mapped axis"
    axis_rules[_p] = _batch(_p)
    vma_rules[_p] = _changed(_p)
    makes_sums.add(_p)
    deflinear(_p, _transposed_to(_other))
    if _p is not unreduced_psum_p:
        lowering_rules[_p] = _same_text
        numpy_rules[_p] = _same_value

axis_users[unreduced_psum_p] = axes_of
unreduced_psum_p.refuses_keys = True


@unreduced_psum_p.def_impl
def unreduced_psum_impl(x: Any, *, axes: tuple[Any, ...]) -> Any:
    axes_size(axes)  # raises for an unbound name
    raise RuntimeError("unreduced_psum must be used within a mapped context like shard_map.")


def unreduced_psum_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, axes: tuple[Any, ...]) -> str:
    return all_reduce_text(ctx, "add", out_avals[0], x, axes)


lowering_rules[unreduced_psum_p] = unreduced_psum_lower


# ------------------------------------------------------------------------------------------- pieces


def all_gather_reduced_transpose(ct: Any, x: Any, *, all_gather_dimension: int, **params: Any) -> list[Any]:
    return [unreduced_reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


def unreduced_reduce_scatter_transpose(ct: Any, x: Any, *, scatter_dimension: int, **params: Any) -> list[Any]:
    return [all_gather_reduced_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


def unreduced_reduce_scatter_batch(
    p: Primitive, axis: AxisData, x: Any, d: int | None, *, scatter_dimension: int, axis_name: tuple[Any, ...],
    axis_size: int, tiled: bool,
) -> Any:  # fmt: skip
    """As ``reduce_scatter``, which has groups."""
    _check_batch(p, axis)
    sizes = {"axis_name": axis_name, "axis_size": axis_size, "tiled": tiled}
    return reduce_scatter_batch(
        _Groupless(p), axis, x, d, scatter_dimension=scatter_dimension, axis_index_groups=None, **sizes  # type: ignore[arg-type]
    )


class _Groupless:
    """A collective without groups, for a rule of one that has them."""

    def __init__(self, primitive: Primitive) -> None:
        self.primitive, self.name = primitive, primitive.name

    def bind(self, x: Any, *, axis_index_groups: None, **params: Any) -> Any:
        return self.primitive.bind(x, **params)


def unreduced_reduce_scatter_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, scatter_dimension: int, axis_name: tuple[Any, ...], axis_size: int,
    tiled: bool,
) -> str:  # fmt: skip
    sizes = {"axis_name": axis_name, "axis_size": axis_size, "tiled": tiled}
    return reduce_scatter_lower(
        ctx, avals, out_avals, x, scatter_dimension=scatter_dimension, axis_index_groups=None, **sizes  # type: ignore[arg-type]
    )


def all_gather_reduced_batch(p: Primitive, axis: AxisData, x: Any, d: int | None, **params: Any) -> Any:
    _check_batch(p, axis)
    return all_gather_batch(p, axis, x, d, **params)


all_gather_reduced_p = declare_collective(
    "all_gather_reduced", axes_of, all_gather_abstract, all_gather_reduced_batch, all_gather_lower,
    all_gather_reduced_transpose,
)  # fmt: skip
unreduced_reduce_scatter_p = declare_collective(
    "unreduced_reduce_scatter", axes_of, reduce_scatter_abstract, unreduced_reduce_scatter_batch,
    unreduced_reduce_scatter_lower, unreduced_reduce_scatter_transpose,
)  # fmt: skip
unreduced_reduce_scatter_p.refuses_keys = True
STATES[all_gather_reduced_p] = ("varying", "reduced")
STATES[unreduced_reduce_scatter_p] = ("unreduced", "varying")
for _p in (all_gather_reduced_p, unreduced_reduce_scatter_p):
    vma_rules[_p] = _changed(_p)
    makes_sums.add(_p)
    del varies_along[_p]  # what they are given says itself what it is along the axes
