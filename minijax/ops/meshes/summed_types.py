"""Along which axes results are unreduced and reduced: one rule for each primitive.

The same rules are those of explicit types and of ``shard_map``, as JAX's are.

In: the operands' types and the parameters. Out: the two sets of axes, or an error of JAX's kind where the sum over
devices has to be taken first. Imported with the first type that has such axes: until then nobody looks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from minijax.core import structural
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.explicit import NO_SUMS, Sums, common_mesh, spec_of
from minijax.core.primitive import Primitive, bind_hooks
from minijax.core.shardings import NamedSharding, PartitionSpec, axes_of_part
from minijax.core.varying import current_mesh, pvary_p, set_sums_of_results, varies_along
from minijax.errors import ShardingTypeError
from minijax.ops import checkpoint, convert, dot, dynamic, elementwise, nary, reduce, select, slicing
from minijax.ops.meshes.reshard import reshard_p
from minijax.ops.meshes.sums import STATES, axes_of

Types = Sequence[ShapedArray]
Rule = Callable[[Primitive, Types, dict[str, Any]], Sums]


def _text(avals: Types) -> str:
    return " and ".join(aval.str_short() for aval in avals)


def _refuse(primitive: Primitive, avals: Types, what: str, action: str) -> NoReturn:
    raise ShardingTypeError(f"{primitive.name}: {what} Got {_text(avals)}. {action}")


_TAKE = "Take the sum first: sharding.reshard(x, P(...)), or lax.psum inside shard_map."


def _no_rule(primitive: Primitive, avals: Types) -> NoReturn:
    unreduced = any(aval.unreduced for aval in avals)
    action = _TAKE if unreduced else "Bring it first where it is neither: sharding.reshard(x, P(...))."
    word = "unreduced" if unreduced else "reduced"
    raise NotImplementedError(f"{word} rule for {primitive.name} is not implemented. Got {_text(avals)}. {action}")


def _named(aval: ShapedArray) -> frozenset[Any]:
    """The axes along which devices hold parts, or different values."""
    return aval.vma.union(name for part in spec_of(aval) for name in axes_of_part(part))


def _names_of_mesh(avals: Types) -> frozenset[Any]:
    mesh = common_mesh(avals) or current_mesh()
    return frozenset(() if mesh is None else mesh.axis_names)


def _reduced(primitive: Primitive, avals: Types) -> frozenset[Any]:
    """The axes along which all operands are reduced."""
    found = {aval.reduced for aval in avals if aval.reduced}
    if len(found) > 1:
        _refuse(primitive, avals, "All inputs should be reduced across the same mesh axes.", "Reshard one of them.")
    if not found:
        return frozenset()
    (reduced,) = found
    if len(avals) > 1:
        for aval in avals:
            said = aval.unreduced | aval.reduced
            if (_names_of_mesh(avals) - _named(aval) - said) & reduced:
                _refuse(
                    primitive, avals,
                    "Inputs cannot be replicated on the same axes that another input is reduced on: their cotangents "
                    f"differ. {aval.str_short()} is replicated on {set(reduced)}.",
                    f"Say that it is reduced too: sharding.reshard(x, P(reduced={set(reduced)})).",
                )  # fmt: skip
            if _named(aval) & reduced:
                _refuse(
                    primitive, avals,
                    "Inputs cannot be sharded/varying on the same axes that another input is reduced on: "
                    f"{aval.str_short()} is on {set(reduced)}.",
                    "Reshard the one that is reduced to be sharded along them: sharding.reshard(x, P(...)).",
                )  # fmt: skip
    return reduced


def _any(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    """Elementwise: what is computed of parts of a sum is no part of the result's."""
    reduced = _reduced(primitive, avals)
    if any(aval.unreduced for aval in avals):
        _no_rule(primitive, avals)
    return frozenset(), reduced


def _add(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    reduced = _reduced(primitive, avals)
    x, y = (aval.unreduced for aval in avals)
    if x and y and x != y:
        _refuse(primitive, avals, "lhs and rhs must be unreduced along the same mesh axes.", _TAKE)
    if bool(x) != bool(y):
        which, other = ("lhs", "rhs") if x else ("rhs", "lhs")
        _refuse(
            primitive, avals,
            f"{which} is unreduced while {other} is not, which would be added on every device.",
            f"Take the sum of {which} first: sharding.reshard({which}, P(...)), or lax.psum inside shard_map.",
        )  # fmt: skip
    return x, reduced


def _mul(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    reduced = _reduced(primitive, avals)
    x, y = avals
    if x.unreduced and y.unreduced:
        _refuse(primitive, avals, "lhs and rhs cannot be both unreduced: a product of sums is no sum.", _TAKE)
    if not x.unreduced and not y.unreduced:
        return frozenset(), reduced
    (sums, other), names = ((x, y), ("LHS", "RHS")) if x.unreduced else ((y, x), ("RHS", "LHS"))
    if sums.unreduced != other.reduced:
        _refuse(
            primitive, avals, f"{names[1]} should be reduced along the same axes {names[0]} is unreduced on.",
            f"Say that it is: sharding.reshard(x, P(reduced={set(sums.unreduced)})).",
        )  # fmt: skip
    return sums.unreduced, frozenset()


def _kept(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    """The result is what the first operand is."""
    return avals[0].unreduced, avals[0].reduced


def _said(params: dict[str, Any]) -> Any:
    said = params.get("out_sharding") or params.get("sharding")
    return said.spec if isinstance(said, NamedSharding) else None


def _broadcast(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    spec = _said(params)
    return _kept(primitive, avals, params) if spec is None else (spec.unreduced, spec.reduced)


def _convert(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    spec, aval = _said(params), avals[0]
    return (getattr(spec, "unreduced", None) or aval.unreduced, getattr(spec, "reduced", None) or aval.reduced)


def _dot(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    if any(aval.unreduced for aval in avals):
        _refuse(primitive, avals, "lhs or rhs cannot be unreduced.", _TAKE)
    spec = _said(params)
    if spec is None or not spec.unreduced:
        return NO_SUMS
    dims, _ = params["dimension_numbers"]
    lhs, rhs = (tuple(spec_of(aval)[d] for d in own) for aval, own in zip(avals, dims, strict=True))
    if lhs != rhs:
        _refuse(
            primitive, avals,
            "lhs and rhs contracting dims should be sharded identically when out_sharding mentions unreduced axes, but "
            f"are {lhs} and {rhs}.", "Bring one to the other's sharding first, with sharding.reshard.",
        )  # fmt: skip
    named = frozenset(name for part in lhs for name in axes_of_part(part))
    if spec.unreduced != named:
        _refuse(
            primitive, avals,
            f"out_sharding's unreduced axes, {set(spec.unreduced)}, should be those of the contracting dims, {lhs}.",
            f"Say out_sharding=P(..., unreduced={set(named) or '{}'}).",
        )  # fmt: skip
    return spec.unreduced, frozenset()


def _reduce_sum(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    (aval,), spec = avals, _said(params)
    if spec is None or not spec.unreduced:
        return aval.unreduced, aval.reduced
    parts = spec_of(aval)
    summed = aval.unreduced.union(name for d in params["axes"] for name in axes_of_part(parts[d]))
    if not spec.unreduced <= summed:
        _refuse(
            primitive, avals,
            f"out_sharding's unreduced axes, {set(spec.unreduced)}, should be among those of the dimensions that are "
            f"summed over, {set(summed) or '{}'}.", "Name these, or leave the others out.",
        )  # fmt: skip
    return spec.unreduced, aval.reduced


def _reshape(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    (aval,), spec = avals, _said(params)
    for word, own in (("unreduced", aval.unreduced), ("reduced", aval.reduced)):
        if spec is not None and getattr(spec, word) != own:
            raise ValueError(
                f"out_sharding passed to reshape must be {word} over the same mesh axes as the operand. Got "
                f"out_sharding: {spec} and operand type: {aval.str_short()}. Reshard before or after it."
            )
    return aval.unreduced, aval.reduced


def _refused(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    """As JAX, which has no rule for it."""
    if any(aval.unreduced or aval.reduced for aval in avals):
        _no_rule(primitive, avals)
    return NO_SUMS


def _alike(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    found = []
    for word in ("unreduced", "reduced"):
        said = {own for aval in avals if (own := getattr(aval, word))}
        if len(said) > 1:
            _refuse(primitive, avals, f"All operands should be {word} along the same mesh axes.", _TAKE)
        found.append(said.pop() if said else frozenset())
    return found[0], found[1]


def _add_any(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    x, y = avals
    if (x.unreduced, x.reduced) != (y.unreduced, y.reduced):
        _refuse(primitive, avals, "Cotangents of one value must be unreduced along the same mesh axes.", _TAKE)
    return x.unreduced, x.reduced


def _select(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    # a constant among the cases says nothing of sums
    said = next((aval for aval in avals[1:] if aval.unreduced or aval.reduced), avals[1])
    return said.unreduced, said.reduced


def _dynamic_slice(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    if avals[0].unreduced:
        _no_rule(primitive, avals)
    return frozenset(), avals[0].reduced


def _dynamic_update_slice(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    operand, update = avals[:2]
    if (operand.unreduced, operand.reduced) != (update.unreduced, update.reduced):
        _refuse(primitive, avals[:2], "operand and update must be unreduced and reduced along the same axes.", _TAKE)
    return operand.unreduced, operand.reduced


def _of_state(primitive: Primitive, avals: Types, params: dict[str, Any]) -> Sums:
    """What a cast, or a collective that is one too, makes of its operand."""
    (aval,), axes = avals, frozenset(axes_of(params))
    before, after = STATES[primitive]
    own = {"varying": aval.vma, "unreduced": aval.unreduced, "reduced": aval.reduced}
    wrong = axes - own[before] if before in own else axes & frozenset().union(*own.values())
    if wrong:
        raise ValueError(
            f"{primitive.name} makes {after} of {before} values: the input has to be {before} along {tuple(axes)}. Got "
            f"{aval.str_short()}. Cast it first: lax.pcast(x, axes, to=...)."
        )
    unreduced = aval.unreduced - axes if before == "unreduced" else aval.unreduced
    reduced = aval.reduced - axes if before == "reduced" else aval.reduced
    return unreduced | axes if after == "unreduced" else unreduced, reduced | axes if after == "reduced" else reduced


_rules: dict[Primitive, Rule] = {
    elementwise.add_p: _add,
    elementwise.mul_p: _mul,
    elementwise.integer_pow_p: _refused,
    convert.convert_element_type_p: _convert,
    dot.dot_general_p: _dot,
    reduce.reduce_sum_p: _reduce_sum,
    nary.reshape_p: _reshape,
    structural.broadcast_in_dim_p: _broadcast,
    select.select_n_p: _select,
    dynamic.dynamic_slice_p: _dynamic_slice,
    dynamic.dynamic_update_slice_p: _dynamic_update_slice,
    slicing.concatenate_p: _alike,
    slicing.stack_p: _alike,
    structural.add_any_p: _add_any,
    **dict.fromkeys(STATES, _of_state),
    **dict.fromkeys(
        (
            slicing.unstack_p, slicing.split_p, slicing.pad_p, slicing.slice_p, structural.squeeze_p,
            structural.transpose_p, convert.reduce_precision_p, convert.copy_p, convert.stop_gradient_p,
            checkpoint.name_p, checkpoint.optimization_barrier_p,
        ),
        _kept,
    ),
}  # fmt: skip


def sums_of(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any]) -> Sums:
    """The axes along which results of an operation are unreduced, and those along which they are reduced."""
    rule = _rules.get(primitive)
    if rule is not None:
        return rule(primitive, avals, params)
    if primitive in nary.elementwise_primitives:
        return _any(primitive, avals, params)
    if primitive in varies_along or primitive is pvary_p:
        axes = frozenset(axes_of(params) if primitive is pvary_p else varies_along[primitive](params))
        for word in ("unreduced", "reduced"):
            if any(getattr(aval, word) & axes for aval in avals):
                raise ValueError(
                    f"{primitive.name} cannot accept args which are {word}. Got {_text(avals)} and axes={set(axes)}. "
                    "Cast it first: lax.pcast(x, axes, to='varying'), or lax.psum takes a sum."
                )
        return _alike(primitive, avals, params)
    if any(aval.unreduced or aval.reduced for aval in avals) or _said(params) is not None and _said_sums(params):
        _no_rule(primitive, avals)
    return NO_SUMS


def _said_sums(params: dict[str, Any]) -> bool:
    spec = _said(params)
    return bool(spec.unreduced or spec.reduced)


def reduced_scalars(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    """``args``, of which a number beside a value of an explicit type that is reduced is so too, as JAX has it."""
    if len(args) != 2 or primitive not in nary.elementwise_primitives:
        return args
    avals = [*map(get_aval, args)]
    mesh = common_mesh(avals)
    reduced = avals[0].reduced | avals[1].reduced
    if mesh is None or not reduced or not mesh.are_all_axes_explicit:
        return args
    said = NamedSharding(mesh, PartitionSpec(reduced=reduced))
    return tuple(
        reshard_p.bind(x, dst_sharding=said, concrete_mesh=None)
        if not aval.ndim and not (aval.unreduced or aval.reduced)
        else x
        for x, aval in zip(args, avals, strict=True)
    )


set_sums_of_results(sums_of)
bind_hooks.append(reduced_scalars)
