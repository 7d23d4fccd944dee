"""``sharding_constraint``: the identity, whose result gets the sharding ``sharding``. It is its own transpose.

Parameters: ``sharding``; ``unconstrained_dims``, the dimensions whose sharding the compiler chooses; ``layout`` and
``context_mesh``, which jaxprs print as in JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.backend import pjrt
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.explicit import whole_spec
from minijax.core.meshes import NO_MESH, context
from minijax.core.primitive import Primitive
from minijax.core.rules import Dims
from minijax.core.shardings import NamedSharding, PartitionSpec, Sharding, as_sharding, axes_of_spec
from minijax.core.trace import Tracer
from minijax.interpreters.evaluate import commits_itself, constraints
from minijax.interpreters.vmap import AxisData
from minijax.lowering.shardings import constrained
from minijax.ops.declare import set_rules
from minijax.ops.meshes.partitioned import evaluate_over_mesh, names_shardings
from minijax.ops.nary import deflinear
from minijax.pytree import prefix_leaves, tree_flatten, tree_unflatten

__all__ = ["sharding_constraint_p", "with_sharding_constraint"]

sharding_constraint_p = Primitive("sharding_constraint")
commits_itself.add(sharding_constraint_p)
constraints.append(sharding_constraint_p)
names_shardings[sharding_constraint_p] = lambda params: [params["sharding"]]


@sharding_constraint_p.def_abstract_eval
def constraint_abstract(x: ShapedArray, **params: Any) -> ShapedArray:
    return x


@sharding_constraint_p.def_impl
def constraint_impl(x: Any, **params: Any) -> Any:
    params["sharding"].shard_shape(get_aval(x).shape)  # raises for unequal parts; only a compiler can pad
    outs = () if params["unconstrained_dims"] else [params["sharding"]]
    return evaluate_over_mesh(sharding_constraint_p, [x], params, outs)


def constraint_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    return [sharding_constraint_p.bind(ct, **params)]


deflinear(sharding_constraint_p, constraint_transpose)


def constraint_batch(axis: AxisData, args: Sequence[Any], dims: Dims, **params: Any) -> Any:
    """Batch the constraint. Without ``spmd_axis_name`` the compiler chooses the sharding of the batch axis."""
    (x,), (dim,) = args, dims
    assert dim is not None, "one operand, which is mapped"
    sharding, free = params["sharding"], params["unconstrained_dims"]
    if axis.spmd and not isinstance(sharding, NamedSharding):
        raise ValueError(
            "Only `jax.lax.with_sharding_constraint` with `jax.sharding.NamedSharding` as an input can be transformed "
            f"with spmd_axis_name, got {sharding}. Leave spmd_axis_name out of vmap, or pass a NamedSharding."
        )
    if isinstance(sharding, NamedSharding):
        if {*axes_of_spec(sharding.spec)}.intersection(axis.spmd):
            raise ValueError(
                f"vmap spmd_axis_name {axis.spmd} cannot appear in with_sharding_constraint spec, but got spec "
                f"{sharding.spec}. Leave the axis out of one of them."
            )
        parts = [*sharding.spec, *[None] * (get_aval(x).ndim - 1 - len(sharding.spec))]
        parts.insert(dim, axis.spmd or PartitionSpec.UNCONSTRAINED)
        while axis.spmd and parts[-1] is None:  # as JAX writes it
            parts.pop()
        sharding = sharding.with_spec(parts)
    shifted = {each + (each >= dim) for each in free}
    free = frozenset(shifted if axis.spmd else shifted | {dim})
    return sharding_constraint_p.bind(x, **{**params, "sharding": sharding, "unconstrained_dims": free}), dim


def constraint_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, sharding: Any, **params: Any) -> str:
    return constrained(ctx, x, avals[0], sharding)


set_rules(sharding_constraint_p, axis_batch=constraint_batch, lower=constraint_lower)


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """``x`` with the given ``shardings``. In a jitted function it constrains the compiler, elsewhere it moves ``x``.

    Args:
      x: a pytree of arrays.
      shardings: a ``Sharding``, a ``PartitionSpec`` for the mesh that is set, or None for no constraint; or a tree of
        these that is a prefix of ``x``.

    Raises:
      ValueError: a sharding is for more dimensions than an array has. IndivisibleError: outside of jitted functions, a
        sharding does not divide an array evenly. RuntimeError: a ``PartitionSpec`` without a mesh.
      TypeError: ``shardings`` has an entry that is not a sharding.
    """
    leaves, tree = tree_flatten(x)
    wanted = prefix_leaves(shardings, x, name="with_sharding_constraint shardings")
    return tree_unflatten(tree, [*map(_constrained, leaves, wanted)])


def _asserted(x: Any, aval: Any, sharding: NamedSharding) -> Any:
    """Return ``x`` if its type has ``sharding``. Otherwise raise AssertionError."""
    wanted = sharding.spec.padded(aval.ndim)
    own = whole_spec(aval)
    if own != wanted:
        raise AssertionError(
            "`with_sharding_constraint` acts as an assert when all axes of mesh are of type `Explicit`. The array "
            f"sharding: {own} did not match the sharding provided: {wanted}. Please use `jax.sharding.reshard` to "
            "shard your input to the sharding you want."
        )
    return x


def _check_auto(sharding: NamedSharding) -> None:
    """Raise ValueError if ``sharding`` names axes that are not Auto."""
    if not {*axes_of_spec(sharding.spec)} <= {*sharding.mesh.auto_axes}:
        raise ValueError(
            "The spec of NamedSharding passed to with_sharding_constraint can only refer to Auto axes of the mesh. Got "
            f"spec={sharding.spec} and mesh={sharding.mesh.abstract_mesh}. You probably meant to use `reshard` API?"
        )


def _constrained(x: Any, wanted: Any) -> Any:
    sharding = as_sharding(wanted, "with_sharding_constraint", "shardings")
    if not isinstance(sharding, Sharding):
        return x
    aval = get_aval(x)
    sharding.check_ndim(aval.ndim)
    if isinstance(sharding, NamedSharding):
        if context.mesh is not None and context.mesh.are_all_axes_explicit:
            return _asserted(x, aval, sharding)
        _check_auto(sharding)
        if sharding.mesh.are_all_axes_explicit and isinstance(x, Tracer):
            return x  # the sharding names no axis, and the type of ``x`` has a sharding already
    if isinstance(wanted, PartitionSpec) and isinstance(sharding, NamedSharding) and isinstance(x, Tracer):
        sharding = NamedSharding(sharding.mesh.abstract_mesh, sharding.spec)
    pjrt.note_committed()
    spec = getattr(sharding, "spec", ())
    free = frozenset(i for i, part in enumerate(spec) if part is PartitionSpec.UNCONSTRAINED)
    mesh = NO_MESH if context.mesh is None else context.mesh.abstract_mesh
    return sharding_constraint_p.bind(x, sharding=sharding, layout=None, context_mesh=mesh, unconstrained_dims=free)
