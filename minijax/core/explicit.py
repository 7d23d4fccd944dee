"""Types with a sharding: the types of arrays over a mesh with axes of type ``Explicit``.

``ExplicitArray`` is a ``ShapedArray`` with a sharding. In ``f32[8@x,4]``, the first dimension is sharded over the
mesh axis ``x``. A type names explicit axes only. The compiler decides how arrays are sharded over ``Auto`` axes.

``f32[8,4]{U:x}`` is *unreduced* over ``x``: each device has one term of a sum that is not computed yet.
``f32[8,4]{R:x}`` is *reduced*: all devices have the same value, and its cotangent is unreduced.

Invariant: an ``ExplicitArray`` names at least one explicit axis. The type of a replicated array is a plain
``ShapedArray``, so numbers and replicated arrays have the same type with and without a mesh.

JAX infers the result types, once for each signature: ``interop.sharded_types``. The first such type installs the hook
that asks JAX (``type_of_sharded``). Before that, operations do not test for these types.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from minijax.core import avals
from minijax.core.avals import ShapedArray
from minijax.core.lazy import HigherModule
from minijax.core.meshes import AbstractMesh, context
from minijax.core.primitive import Primitive, abstract_hooks, infer_type
from minijax.core.refs import AbstractRef
from minijax.core.shardings import NamedSharding, PartitionSpec, axes_of_part, canonical_sharding, check_divides
from minijax.core.trace import state
from minijax.core.varying import VaryingArray, current_mesh, note_summed, summed_text, varying
from minijax.errors import ShardingTypeError, source_info, summarize

# JAX infers how results are sharded.
_sharded_types = HigherModule("sharded_types")

_interned: weakref.WeakValueDictionary[Any, ExplicitArray] = weakref.WeakValueDictionary()

# One entry of a spec: the mesh axis or axes over which a dimension is sharded, or None.
Part = Any
Spec = tuple[Part, ...]


# The unreduced axes and the reduced axes.
Sums = tuple[frozenset[Any], frozenset[Any]]
NO_SUMS: Sums = (frozenset(), frozenset())


class ExplicitArray(ShapedArray):
    """The interned type ``plain`` with ``sharding``; ``spec`` has an entry per dimension and only explicit axes."""

    __slots__ = ("plain", "sharding", "spec", "unreduced", "reduced")

    plain: ShapedArray
    spec: Spec

    def __new__(cls, plain: ShapedArray, sharding: NamedSharding) -> ExplicitArray:  # type: ignore[misc]
        found = _interned.get((plain, sharding))
        if found is not None:
            return found
        note_explicit()
        self = object.__new__(cls)
        self.shape, self.dtype, self.weak_type = plain.shape, plain.dtype, plain.weak_type
        self.ndim = plain.ndim
        self.plain, self.sharding, self.spec = plain, sharding, tuple(sharding.spec)  # type: ignore[misc]
        self.zero = self.mlir = self.unmapped = None
        self.unreduced, self.reduced = sharding.spec.unreduced, sharding.spec.reduced
        self.size = plain.size
        if self.unreduced or self.reduced:
            note_summed()
        return _interned.setdefault((plain, sharding), self)

    def __reduce__(self) -> Any:
        return (ExplicitArray, (self.plain, self.sharding))

    def update(self, **changes: Any) -> ShapedArray:
        """The type with the given fields replaced. A type of another shape is sharded only if ``sharding`` is given."""
        sharding = changes.pop("sharding", self.sharding)
        vma = changes.pop("vma", ())
        plain = self.plain.update(**changes)
        if plain.shape != self.shape and sharding is self.sharding:
            sharding = None
        return varying(type_with_sharding(plain, sharding), vma)

    def _without(self, axis: int) -> ShapedArray:
        spec = (*self.spec[:axis], *self.spec[axis + 1 :])
        return sharded_type(self.plain.part(axis), self.sharding.mesh, spec, (self.unreduced, self.reduced))

    def stacked(self, size: int, axis: int = 0) -> ShapedArray:
        """The type of ``size`` such values along a new ``axis``, which is not sharded."""
        spec = (*self.spec[:axis], None, *self.spec[axis:])
        return sharded_type(self.plain.stacked(size, axis), self.sharding.mesh, spec, (self.unreduced, self.reduced))

    def to_cotangent_aval(self) -> ShapedArray:
        """The type of cotangents: reduced axes become unreduced, and unreduced axes reduced."""
        aval = self.to_tangent_aval()
        return aval.update(sharding=self.sharding.with_spec(self.sharding.spec.of_cotangent()))

    def str_short(self, short_dtypes: bool = True) -> str:
        name = self.plain.str_short(short_dtypes).partition("[")[0]
        sums = summed_text(self.sharding.mesh.axis_names, (), self.unreduced, self.reduced)
        return f"{name}[{','.join(map(_dimension_text, self.shape, self.spec))}]{sums}"


def _dimension_text(size: int, part: Part) -> str:
    axes = axes_of_part(part)
    return str(size) if not axes else f"{size}@{axes[0] if len(axes) == 1 else '(' + ','.join(axes) + ')'}"


def note_explicit() -> None:
    """From now on, look for shardings in types."""
    if not avals.sharded_types_made:
        avals.note_sharded_types()
        abstract_hooks.append(type_of_sharded)


def type_of_sharded(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any], following: int) -> Any:
    """The result type(s), inferred by JAX, if a type or parameter names explicit axes; else None."""
    if primitive.takes_refs or not primitive.keeps_signatures:  # result types of calls follow from their programs
        return None
    if "dst_sharding" in params:
        return _resharded(avals[0], params["dst_sharding"])
    sharding = params.get("out_sharding") or params.get("sharding")
    mesh = common_mesh(avals) or (sharding.mesh.abstract_mesh if isinstance(sharding, NamedSharding) else None)
    if mesh is None:
        return None
    out = infer_type(primitive, tuple(map(plain_type, avals)), params, following)
    outs = out if primitive.multiple_results else [out]
    typed = [
        resharded_type(each, mesh, spec_of(found), (found.unreduced, found.reduced))
        for each, found in zip(outs, result_types(primitive, avals, params, mesh), strict=True)
    ]
    return typed if primitive.multiple_results else typed[0]


def _resharded(aval: ShapedArray, wanted: NamedSharding) -> ShapedArray:
    """The result type of ``reshard``; ShardingTypeError if it would both add and remove unreduced axes."""
    before, after = aval.unreduced, wanted.spec.unreduced
    if before - after and after - before:
        raise ShardingTypeError(
            f"reshard: {aval.str_short()} is unreduced along {set(before)}, and its result would be unreduced along "
            f"{set(after)}: it needs two steps. Take the sum first: sharding.reshard(x, P(...)) without unreduced axes."
        )
    return type_with_sharding(aval, wanted)


def result_types(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any], mesh: AbstractMesh | None = None
) -> list[ShapedArray]:
    """The types of an operation's results over ``mesh``, from JAX. Errors name the operation and the user's line."""
    try:
        return _sharded_types.result_types(primitive, avals, params, mesh)  # type: ignore[no-any-return]
    except (ShardingTypeError, NotImplementedError, ValueError, TypeError) as error:
        raise type(error)(_in_full(str(error), primitive, avals)) from None


def _in_full(message: str, primitive: Primitive, avals: Sequence[ShapedArray]) -> str:
    """``message`` with the operation, the types of its operands, a next step and the user's line."""
    if not message.startswith(f"{primitive.name}:"):
        message = f"{primitive.name}: {message}"
    message = message.rstrip(" .") + "."
    types = [aval.str_short() for aval in avals]
    if not all(text in message for text in types):
        message += f" Types of the operands: {', '.join(types)}."
    if "out_sharding" not in message:
        message += " Reshard one operand first, with sharding.reshard."
    source = state.source or source_info()
    return message if source is None else f"{message} It happened at {summarize(source)}."


def meant_sharding(sharding: Any, function: str) -> NamedSharding | None:
    """``sharding``, the ``out_sharding`` of ``function``, in canonical form: see ``canonical_sharding``."""
    found = canonical_sharding(sharding, function)
    if found is not None:
        note_explicit()
    return found


def spec_of(aval: ShapedArray) -> Spec:
    """The explicit axes over which the type ``aval`` shards each dimension."""
    if type(aval) is VaryingArray:
        aval = aval.plain
    return aval.spec if type(aval) is ExplicitArray else (None,) * aval.ndim


def plain_type(aval: ShapedArray) -> ShapedArray:
    """The type ``aval`` without its sharding. The axes along which values vary stay."""
    if type(aval) is VaryingArray:
        return aval.over(plain_type(aval.plain))
    return aval.plain if type(aval) is ExplicitArray else aval


def mesh_of_type(aval: ShapedArray) -> AbstractMesh | None:
    """The mesh that this type names. None for a plain type."""
    if type(aval) is VaryingArray:
        aval = aval.plain
    return aval.sharding.mesh if type(aval) is ExplicitArray else None


def sharded_type(plain: ShapedArray, mesh: AbstractMesh, spec: Iterable[Part], sums: Sums | None = None) -> ShapedArray:
    """``plain``, sharded over the explicit axes of ``spec``. By default ``sums`` are the unreduced and reduced axes of
    ``spec``. ValueError if a dimension cannot be divided evenly.
    """
    abstract = mesh.abstract_mesh
    parts = [explicit_part(abstract, part) for part in spec]
    if sums is None:
        sums = (spec.unreduced, spec.reduced) if isinstance(spec, PartitionSpec) else NO_SUMS
    unreduced, reduced = (axes and axes.intersection(abstract.explicit_axes) for axes in sums)
    if not any(part is not None for part in parts) and not unreduced and not reduced:
        return plain
    parts += [None] * (plain.ndim - len(parts))
    sharding = NamedSharding(abstract, PartitionSpec(*parts, unreduced=unreduced, reduced=reduced))
    check_divides(sharding, plain.shape)
    return ExplicitArray(plain, sharding)


def explicit_part(mesh: AbstractMesh, part: Part) -> Part:
    """The explicit axes in ``part``, an entry of a spec."""
    if part is None:
        return None
    others = (*mesh.auto_axes, *mesh.manual_axes)
    names = [name for name in axes_of_part(part) if name not in others]
    return None if not names else names[0] if len(names) == 1 else tuple(names)


def resharded_type(
    aval: ShapedArray, mesh: AbstractMesh, spec: Iterable[Part], sums: Sums | None = None
) -> ShapedArray:
    """The type ``aval``, which has no sharding yet, sharded over ``mesh`` as in ``spec``. Varying axes stay."""
    if type(aval) is VaryingArray:
        return aval.over(sharded_type(aval.plain, mesh, spec, sums))
    return sharded_type(aval, mesh, spec, sums)


def type_with_sharding(aval: ShapedArray, sharding: Any) -> ShapedArray:
    """The type ``aval`` with ``sharding``. Only a ``NamedSharding`` becomes part of a type."""
    plain = plain_type(aval)
    if type(sharding) is not NamedSharding or not sharding.mesh.any_explicit:
        return plain
    return resharded_type(plain, sharding.mesh, sharding.spec)


def sharding_like(aval: ShapedArray, *others: ShapedArray) -> NamedSharding | None:
    """The sharding in the type ``aval``, else a replicated one over the mesh of ``others``; None without a mesh."""
    for each in (aval, *others):
        mesh = mesh_of_type(each)
        if mesh is not None:
            return NamedSharding(mesh, whole_spec(aval))
    return None


def whole_spec(aval: ShapedArray) -> PartitionSpec:
    """The spec of the type ``aval``, with its unreduced and reduced axes."""
    plain = aval.plain if type(aval) is VaryingArray else aval
    return PartitionSpec(*spec_of(plain), unreduced=plain.unreduced, reduced=plain.reduced)


def combined(types: Sequence[ShapedArray], ndim: int) -> NamedSharding | None:
    """The sharding of arrays broadcast to ``ndim`` dimensions. The first type that shards a dimension decides it.
    None without a mesh.
    """
    parts: list[Part] = [None] * ndim
    for aval in types:
        for place, part in enumerate(spec_of(aval), ndim - aval.ndim):
            parts[place] = part if parts[place] is None else parts[place]
    mesh, reduced = common_mesh(types), frozenset[Any]().union(*(aval.reduced for aval in types))
    return None if mesh is None else NamedSharding(mesh, PartitionSpec(*parts, reduced=reduced))


def common_mesh(types: Iterable[ShapedArray]) -> AbstractMesh | None:
    """The first mesh that one of these types names; None if there is none."""
    return next((mesh for mesh in map(mesh_of_type, types) if mesh is not None), None)


def over_common_mesh(types: Sequence[ShapedArray], parts: Sequence[Part]) -> NamedSharding | None:
    """The sharding ``P(*parts)`` over the first mesh that these types name. None if there is none."""
    mesh = common_mesh(types)
    return None if mesh is None else NamedSharding(mesh, PartitionSpec(*parts))


def check_unsharded(function: str, aval: ShapedArray, axes: Iterable[int]) -> None:
    """ShardingTypeError if one of these axes of the type ``aval`` is sharded: its diagonal has no defined sharding."""
    spec = spec_of(aval)
    if any(spec[axis] is not None for axis in axes):
        raise ShardingTypeError(
            f"{function}: the diagonal of {aval.str_short()} would have an undefined sharding. "
            "Replicate the operand first: sharding.reshard(x, P())."
        )


def replicated_sharding(aval: ShapedArray, ndim: int) -> NamedSharding | None:
    """A replicated sharding of ``ndim`` dimensions over the mesh of ``aval``, or over the current mesh, if any."""
    mesh = mesh_of_type(aval) or (None if current_mesh() else context.mesh)
    return None if mesh is None else NamedSharding(mesh.abstract_mesh, PartitionSpec(*[None] * ndim))


def stacked_over(aval: Any, size: int, axis: int, sharding: NamedSharding) -> Any:
    """The type of ``size`` values of type ``aval`` along a new ``axis``, which is sharded as in ``sharding``."""
    if type(aval) is AbstractRef:
        return AbstractRef(stacked_over(aval.inner_aval, size, axis, sharding))
    spec, mesh = spec_of(aval), sharding.mesh
    if context.mesh is not None and context.mesh.axis_names == mesh.axis_names:
        mesh = context.mesh  # the compiler may shard over some of these axes
    return resharded_type(
        plain_type(aval).stacked(size, axis), mesh, (*spec[:axis], sharding.spec[0], *spec[axis:]),
        (aval.unreduced, aval.reduced),
    )  # fmt: skip


def equally_sharded(a: Any, b: Any) -> bool:
    """Whether two types, of arrays or of references to arrays, name the same sharding."""
    a, b = (each.inner_aval if type(each) is AbstractRef else each for each in (a, b))
    return (
        spec_of(a) == spec_of(b)
        and (a.unreduced, a.reduced) == (b.unreduced, b.reduced)
        and mesh_of_type(a) == mesh_of_type(b)
    )


def sharding_along(aval: Any, axis: int) -> NamedSharding | None:
    """The sharding of the dimension ``axis`` alone. None if the dimension is not sharded."""
    aval = aval.inner_aval if type(aval) is AbstractRef else aval
    mesh, part = mesh_of_type(aval), spec_of(aval)[axis]
    return None if mesh is None or part is None else NamedSharding(mesh, PartitionSpec(part))
