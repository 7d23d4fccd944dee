"""``reshard``: an operation that returns its operand with the sharding ``dst_sharding``.

The parameters are not printed, because the types of operand and result show them:

- ``dst_sharding``: the sharding of the result, over an abstract mesh.
- ``concrete_mesh``: the mesh of devices that the caller gave, or None for the mesh that is set.
- ``operand_mesh``: the abstract mesh of the operand, or None. The compiler shards the operand and its cotangent over
  the Auto axes of that mesh.
"""

from __future__ import annotations

from typing import Any

from minijax.backend import pjrt
from minijax.core.array import CommittedArray, MeshArray, as_array, get_aval
from minijax.core.avals import ShapedArray
from minijax.core.explicit import common_mesh, meant_sharding, mesh_of_type, sharding_like, spec_of
from minijax.core.meshes import AbstractMesh, Mesh, context
from minijax.core.primitive import Primitive
from minijax.core.rules import Dims, Params, Values
from minijax.core.shardings import NamedSharding, PartitionSpec, Sharding, mesh_of
from minijax.core.structural import batched_sharding
from minijax.core.trace import Tracer
from minijax.core.varying import current_mesh
from minijax.interpreters.evaluate import commits_itself, constraints
from minijax.interpreters.vmap import AxisData
from minijax.ir.parse_meshes import read_resharded
from minijax.ir.pretty import hide
from minijax.ops.declare import operand_lower, set_rules
from minijax.ops.meshes.known_mesh import is_over_mesh
from minijax.ops.meshes.partitioned import evaluate_over_mesh, names_shardings
from minijax.ops.nary import deflinear, elementwise_primitives
from minijax.ops.sharded import over_mesh
from minijax.pytree import prefix_leaves, tree_flatten, tree_unflatten

reshard_p = Primitive("reshard")
commits_itself.add(reshard_p)
constraints.append(reshard_p)


def _placed(params: Params) -> list[Sharding]:
    """A list of the result's sharding over devices, from an equation's parameters. [] without a mesh of devices."""
    sharding, mesh = params["dst_sharding"], params["concrete_mesh"] or context.mesh
    return [] if mesh is None else [NamedSharding(mesh, sharding.spec)]


names_shardings[reshard_p] = _placed


@reshard_p.def_abstract_eval
def reshard_abstract(
    x: ShapedArray, *, dst_sharding: NamedSharding, concrete_mesh: Any, operand_mesh: Any = None
) -> ShapedArray:
    return x  # ``core.explicit`` adds the sharding to the type of the result


@reshard_p.def_impl
def reshard_impl(x: Any, **params: Any) -> Any:
    wanted = _placed(params)
    if not isinstance(x, CommittedArray) and wanted and wanted[0].spec.unreduced:  # type: ignore[attr-defined]
        # XLA would treat an operand without a sharding as unreduced too: it would add up all devices' copies
        mesh, spec = wanted[0].mesh, wanted[0].spec  # type: ignore[attr-defined]
        x = over_mesh(as_array(x), NamedSharding(mesh, spec.update(unreduced=frozenset())))
    if type(x) is MeshArray and wanted and wanted[0].mesh.are_all_axes_explicit:  # type: ignore[attr-defined]
        if mesh_of([x.device]) != mesh_of(wanted):  # the types of the meshes' axes differ
            return over_mesh(x, wanted[0])
    return evaluate_over_mesh(reshard_p, [x], params)


def reshard_transpose(
    ct: Any, x: Any, *, dst_sharding: NamedSharding, concrete_mesh: Any, operand_mesh: Any = None
) -> list[Any]:
    """Reshard the cotangent to the operand's sharding."""
    mesh, spec = operand_mesh or dst_sharding.mesh, PartitionSpec(*spec_of(x.aval))
    back = sharding_like(x.aval) or NamedSharding(mesh, spec)
    return [reshard_p.bind(ct, dst_sharding=back, concrete_mesh=concrete_mesh, operand_mesh=dst_sharding.mesh)]


deflinear(reshard_p, reshard_transpose)


def reshard_batch(axis: AxisData, args: Values, dims: Dims, *, dst_sharding: Any, **meshes: Any) -> Any:
    """The mapped axis gets its sharding from the call of vmap, because the operand's type need not contain it."""
    (x,), (dim,) = args, dims
    assert dim is not None, "one operand, which is mapped"
    part = None if axis.division is None else axis.division.spec[0]
    return reshard_p.bind(x, dst_sharding=batched_sharding(dst_sharding, dim, part), **meshes), dim


# every operation's lowering gives its result the sharding in its type, so reshard needs no lowering of its own


def resharded_to_mesh_of(scalar: Any, examples: Values) -> Any:
    """``scalar``, resharded to the mesh of ``examples`` or the current mesh. Unchanged if all examples are concrete."""
    if not any([isinstance(x, Tracer) and x.to_concrete_value() is None for x in examples]):
        return scalar
    mesh = common_mesh(map(get_aval, examples)) or (None if current_mesh() else context.mesh)
    if mesh is None or not mesh.any_explicit:
        return scalar
    return reshard_p.bind(scalar, dst_sharding=NamedSharding(mesh.abstract_mesh, PartitionSpec()), concrete_mesh=None)


def resharded_like(x: Any, example: Any) -> Any:
    """``x``, resharded like ``example`` if ``example`` is a tracer; otherwise ``x`` itself."""
    sharding = sharding_like(get_aval(example)) if isinstance(example, Tracer) else None
    return x if sharding is None else reshard_p.bind(x, dst_sharding=sharding, concrete_mesh=None)


def resharded_if_over_no_mesh(x: Any, aval: ShapedArray) -> Any:
    """``x`` with the sharding of ``aval``, if ``x`` is over no mesh and has ``aval``'s shape. Tracers are unchanged."""
    mesh = mesh_of_type(aval)
    if mesh is None or isinstance(x, Tracer) or is_over_mesh(x) or get_aval(x).shape != aval.shape:
        return x
    return reshard_p.bind(x, dst_sharding=sharding_like(aval), concrete_mesh=None)


def reduced_scalars(primitive: Primitive, args: tuple[Any, ...], params: Params) -> tuple[Any, ...]:
    """A hook of ``bind`` for ``args`` of an operation: a scalar beside a reduced value becomes reduced, as in JAX."""
    if len(args) != 2 or primitive not in elementwise_primitives:
        return args
    avals = [*map(get_aval, args)]
    mesh = common_mesh(avals)
    reduced = avals[0].reduced | avals[1].reduced
    if mesh is None or not reduced or not mesh.are_all_axes_explicit:
        return args
    sharding = NamedSharding(mesh, PartitionSpec(reduced=reduced))
    return tuple(
        reshard_p.bind(x, dst_sharding=sharding, concrete_mesh=None)
        if not aval.ndim and not (aval.unreduced or aval.reduced)
        else x
        for x, aval in zip(args, avals, strict=True)
    )


# these parameters are hidden, because the printed types of operand and result show them
set_rules(
    reshard_p,
    axis_batch=reshard_batch,
    lower=operand_lower,
    shown=hide("dst_sharding", "concrete_mesh", "operand_mesh"),
    parse=read_resharded,
)


def reshard(xs: Any, out_shardings: Any) -> Any:
    """``xs``, resharded to ``out_shardings``, which become part of their types.

    Args:
      xs: a pytree of arrays.
      out_shardings: a ``NamedSharding``, a ``PartitionSpec`` for the mesh that is set, or a tree of these that is a
      prefix of ``xs``.

    Raises:
      ValueError: no sharding is given, no mesh is set, or a dimension is not a multiple of its mesh axes.
    """
    return resharded(xs, out_shardings, context.mesh)


def resharded(xs: Any, out_shardings: Any, mesh: AbstractMesh | None) -> Any:
    """``reshard(xs, out_shardings)`` for ``mesh``, whose axes may have any type."""
    leaves, tree = tree_flatten(xs)
    wanted = prefix_leaves(out_shardings, xs, name="reshard out_shardings")
    return tree_unflatten(tree, [_resharded(x, sharding, mesh) for x, sharding in zip(leaves, wanted, strict=True)])


def _resharded(x: Any, sharding: Any, operand_mesh: AbstractMesh | None) -> Any:
    wanted, ndim = meant_sharding(sharding, "reshard"), get_aval(x).ndim
    if wanted is None:
        raise ValueError(
            "Reshard should only be used with out_shardings which are non-None and have a non-empty mesh. Got sharding "
            f"{sharding}. Set a mesh with set_mesh(mesh), or pass NamedSharding(mesh, spec)."
        )
    wanted.check_ndim(ndim)
    wanted = wanted.with_spec(wanted.spec.padded(ndim))
    pjrt.note_committed()
    mesh = sharding.mesh if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh) else None
    before = None if operand_mesh is None else operand_mesh.abstract_mesh
    return reshard_p.bind(x, dst_sharding=wanted, concrete_mesh=mesh, operand_mesh=before)
