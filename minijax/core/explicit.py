"""Types that say how an array is divided over a mesh: those of meshes with axes of type ``Explicit``.

``ExplicitArray`` is a ``ShapedArray`` with a sharding, printed ``f32[8@x,4]``: its first dimension is divided along the
mesh's axis ``x``. Only explicit axes stand in types; along an axis of type ``Auto`` the compiler divides as it likes.

``f32[8,4]{U:x}`` is *unreduced* along ``x``: a sum over the axis that has not been taken yet, of which each device has
its part. ``f32[8,4]{R:x}`` is *reduced*: all have the same, and its cotangent is unreduced.

Invariant: a type names some explicit axis. What no axis divides has a plain ``ShapedArray`` for its type,
wherever it was made; so numbers, and arrays that every device has all of, are the same in every mode.

JAX infers the type of a result from such types, once for each signature: ``interop.sharded_types``. The first of these
types installs the hook that asks (``type_of_sharded``); until then no operation looks for them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from minijax.core import avals
from minijax.core.avals import ShapedArray
from minijax.core.late import HigherModule
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

# One entry of a spec: the axis, or axes, that divide a dimension; None if none does.
Part = Any
Spec = tuple[Part, ...]


# The axes along which values are unreduced, and along which they are reduced.
Sums = tuple[frozenset[Any], frozenset[Any]]
NO_SUMS: Sums = (frozenset(), frozenset())


class ExplicitArray(ShapedArray):
    """The type ``plain`` of values divided as ``sharding`` says, over an abstract mesh; interned.

    ``spec`` has an entry for each dimension, and names explicit axes only.
    """

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
        """The type with the given fields replaced. Of another shape it is divided only if ``sharding`` says how."""
        sharding = changes.pop("sharding", self.sharding)
        vma = changes.pop("vma", ())
        plain = self.plain.update(**changes)
        if plain.shape != self.shape and sharding is self.sharding:
            sharding = None
        return varying(divided_like(plain, sharding), vma)

    def _without(self, axis: int) -> ShapedArray:
        spec = (*self.spec[:axis], *self.spec[axis + 1 :])
        return divided(self.plain.part(axis), self.sharding.mesh, spec, (self.unreduced, self.reduced))

    def stacked(self, size: int, axis: int = 0) -> ShapedArray:
        """The type of ``size`` such values along a new ``axis``, which nothing divides."""
        spec = (*self.spec[:axis], None, *self.spec[axis:])
        return divided(self.plain.stacked(size, axis), self.sharding.mesh, spec, (self.unreduced, self.reduced))

    def to_cotangent_aval(self) -> ShapedArray:
        """The type of cotangents: what is reduced here is unreduced there."""
        aval = self.to_tangent_aval()
        return aval.update(sharding=self.sharding.with_spec(self.sharding.spec.of_cotangent()))

    def str_short(self, short_dtypes: bool = True) -> str:
        """``f32[8@x,4]``, as jaxprs print it."""
        name = self.plain.str_short(short_dtypes).partition("[")[0]
        sums = summed_text(self.sharding.mesh.axis_names, (), self.unreduced, self.reduced)
        return f"{name}[{','.join(map(_dimension_text, self.shape, self.spec))}]{sums}"


def _dimension_text(size: int, part: Part) -> str:
    axes = axes_of_part(part)
    return str(size) if not axes else f"{size}@{axes[0] if len(axes) == 1 else '(' + ','.join(axes) + ')'}"


def note_explicit() -> None:
    """Types may say how arrays are divided from now on."""
    if not avals.divisions_made:
        avals.note_divisions()
        abstract_hooks.append(type_of_sharded)


def type_of_sharded(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any], following: int) -> Any:
    """The result type(s) where the type of an operand, or a parameter, names explicit axes; None where none does.

    JAX infers how the results are sharded. An error names the operation, its operands' types and the user's line.
    """
    if primitive.takes_refs or not primitive.keeps_signatures:  # types of calls follow from their programs
        return None
    if "dst_sharding" in params:
        return _resharded(avals[0], params["dst_sharding"])
    said = params.get("out_sharding") or params.get("sharding")
    mesh = common_mesh(avals) or (said.mesh.abstract_mesh if isinstance(said, NamedSharding) else None)
    if mesh is None:
        return None
    out = infer_type(primitive, tuple(map(plain_type, avals)), params, following)
    outs = out if primitive.multiple_results else [out]
    typed = [
        redivided(each, mesh, spec_of(found), (found.unreduced, found.reduced))
        for each, found in zip(outs, result_types(primitive, avals, params, mesh), strict=True)
    ]
    return typed if primitive.multiple_results else typed[0]


def _resharded(aval: ShapedArray, wanted: NamedSharding) -> ShapedArray:
    """The type that ``reshard`` gives values of type ``aval``.

    ShardingTypeError where it would sum over some axes and leave the sum over others: XLA cannot do both at once.
    """
    before, after = aval.unreduced, wanted.spec.unreduced
    if before - after and after - before:
        raise ShardingTypeError(
            f"reshard: {aval.str_short()} is unreduced along {set(before)} and would be along {set(after)}, which is "
            "no one step. Take the sum first: sharding.reshard(x, P(...)) without unreduced axes."
        )
    return divided_like(aval, wanted)


def result_types(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any], mesh: AbstractMesh | None = None
) -> list[ShapedArray]:
    """The types of an operation's results over ``mesh``, by JAX. An error names the operation and the user's line."""
    try:
        return _sharded_types.result_types(primitive, avals, params, mesh)  # type: ignore[no-any-return]
    except (ShardingTypeError, NotImplementedError, ValueError, TypeError) as error:
        raise type(error)(_in_full(str(error), primitive, avals)) from None


def _in_full(message: str, primitive: Primitive, avals: Sequence[ShapedArray]) -> str:
    """``message``, with the operation, the types of its operands, what to do and the user's line."""
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


def meant_sharding(said: Any, function: str) -> NamedSharding | None:
    """What ``said``, the ``out_sharding`` of ``function``, means: see ``canonical_sharding``."""
    found = canonical_sharding(said, function)
    if found is not None:
        note_explicit()
    return found


def spec_of(aval: ShapedArray) -> Spec:
    """For each dimension the explicit axes that divide it, as the type ``aval`` says."""
    if type(aval) is VaryingArray:
        aval = aval.plain
    return aval.spec if type(aval) is ExplicitArray else (None,) * aval.ndim


def plain_type(aval: ShapedArray) -> ShapedArray:
    """The type ``aval`` of values of which nothing is said but shape and dtype; along which axes they vary stays."""
    if type(aval) is VaryingArray:
        return aval.over(plain_type(aval.plain))
    return aval.plain if type(aval) is ExplicitArray else aval


def mesh_of_type(aval: ShapedArray) -> AbstractMesh | None:
    """The mesh over which a value of this type is divided; None if the type says that nothing divides it."""
    if type(aval) is VaryingArray:
        aval = aval.plain
    return aval.sharding.mesh if type(aval) is ExplicitArray else None


def divided(plain: ShapedArray, mesh: AbstractMesh, spec: Iterable[Part], sums: Sums | None = None) -> ShapedArray:
    """The type ``plain`` of values divided over ``mesh`` along those axes of ``spec`` that are explicit.

    ``sums`` are the axes along which it is unreduced, and reduced; by default those of ``spec``.

    ValueError if a dimension is not divided evenly, or if one axis divides two of them.
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
    """What a type says of a dimension that ``part``, an entry of a spec, divides: the axes that are explicit."""
    if part is None:
        return None
    others = (*mesh.auto_axes, *mesh.manual_axes)
    names = [name for name in axes_of_part(part) if name not in others]
    return None if not names else names[0] if len(names) == 1 else tuple(names)


def redivided(
    aval: ShapedArray, mesh: AbstractMesh, spec: Iterable[Part], sums: Sums | None = None
) -> ShapedArray:
    """The type ``aval``, plain but for along what it varies, of values divided over ``mesh`` as ``spec`` says."""
    if type(aval) is VaryingArray:
        return aval.over(divided(aval.plain, mesh, spec, sums))
    return divided(aval, mesh, spec, sums)


def divided_like(aval: ShapedArray, sharding: Any) -> ShapedArray:
    """The type of arrays of type ``aval`` that lie as ``sharding`` says: only a ``NamedSharding`` stands in types."""
    plain = plain_type(aval)
    if type(sharding) is not NamedSharding or not sharding.mesh.any_explicit:
        return plain
    return redivided(plain, sharding.mesh, sharding.spec)


def sharding_like(aval: ShapedArray, *others: ShapedArray) -> NamedSharding | None:
    """How a value of type ``aval`` is divided, as an operation's parameter says it.

    Where nothing divides it, but the mesh is known from ``others``, that is said; None if no type names a mesh.
    """
    for each in (aval, *others):
        mesh = mesh_of_type(each)
        if mesh is not None:
            return NamedSharding(mesh, whole_spec(aval))
    return None


def whole_spec(aval: ShapedArray) -> PartitionSpec:
    """How values are divided along explicit axes, with the axes along which they are unreduced and reduced."""
    plain = aval.plain if type(aval) is VaryingArray else aval
    return PartitionSpec(*spec_of(plain), unreduced=plain.unreduced, reduced=plain.reduced)


def combined(types: Sequence[ShapedArray], ndim: int) -> NamedSharding | None:
    """How arrays of these types are divided together once they are repeated to one shape of ``ndim`` dimensions.

    Where they disagree, as the first of them; what one is reduced along, all are. None if no type names a mesh.
    """
    parts: list[Part] = [None] * ndim
    for aval in types:
        for place, part in enumerate(spec_of(aval), ndim - aval.ndim):
            parts[place] = part if parts[place] is None else parts[place]
    mesh, reduced = common_mesh(types), frozenset[Any]().union(*(aval.reduced for aval in types))
    return None if mesh is None else NamedSharding(mesh, PartitionSpec(*parts, reduced=reduced))


def common_mesh(types: Iterable[ShapedArray]) -> AbstractMesh | None:
    """The first mesh that one of these types names; None if none does."""
    return next((mesh for mesh in map(mesh_of_type, types) if mesh is not None), None)


def over_common_mesh(types: Sequence[ShapedArray], parts: Sequence[Part]) -> NamedSharding | None:
    """What ``parts`` say of each dimension, over the first mesh that these types name; None if none does."""
    mesh = common_mesh(types)
    return None if mesh is None else NamedSharding(mesh, PartitionSpec(*parts))


def check_whole(function: str, aval: ShapedArray, axes: Iterable[int]) -> None:
    """ShardingTypeError if one of these axes of a value of type ``aval`` is divided: its diagonal is then on none."""
    spec = spec_of(aval)
    if any(spec[axis] is not None for axis in axes):
        raise ShardingTypeError(
            f"{function}: the elements on a diagonal do not lie as those of {aval.str_short()} do, so how the result "
            "is divided does not follow. Bring it there whole first: sharding.reshard(x, P())."
        )


def divided_by_nothing(aval: ShapedArray, ndim: int) -> NamedSharding | None:
    """That nothing divides ``ndim`` dimensions over the mesh of type ``aval``, or the one set; None without one."""
    mesh = mesh_of_type(aval) or (None if current_mesh() else context.mesh)
    return None if mesh is None else NamedSharding(mesh.abstract_mesh, PartitionSpec(*[None] * ndim))


def stacked_over(aval: Any, size: int, axis: int, sharding: NamedSharding) -> Any:
    """The type of ``size`` values of type ``aval``, along a new ``axis`` that is divided as ``sharding`` says."""
    if type(aval) is AbstractRef:
        return AbstractRef(stacked_over(aval.inner_aval, size, axis, sharding))
    spec, mesh = spec_of(aval), sharding.mesh
    if context.mesh is not None and context.mesh.axis_names == mesh.axis_names:
        mesh = context.mesh  # what was mapped may have been divided along axes that are left to the compiler here
    return redivided(
        plain_type(aval).stacked(size, axis), mesh, (*spec[:axis], sharding.spec[0], *spec[axis:]),
        (aval.unreduced, aval.reduced),
    )  # fmt: skip


def equally_divided(a: Any, b: Any) -> bool:
    """Whether two types, of arrays or of references to them, say the same of how values are divided."""
    a, b = (each.inner_aval if type(each) is AbstractRef else each for each in (a, b))
    return (
        spec_of(a) == spec_of(b)
        and (a.unreduced, a.reduced) == (b.unreduced, b.reduced)
        and mesh_of_type(a) == mesh_of_type(b)
    )


def sharding_along(aval: Any, axis: int) -> NamedSharding | None:
    """How values of type ``aval`` are divided along ``axis``, as a sharding of one dimension; None if they are not."""
    aval = aval.inner_aval if type(aval) is AbstractRef else aval
    mesh, part = mesh_of_type(aval), spec_of(aval)[axis]
    return None if mesh is None or part is None else NamedSharding(mesh, PartitionSpec(part))
