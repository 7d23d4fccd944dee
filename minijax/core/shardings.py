"""Shardings as data: which dimension of an array is sharded over which axis of a mesh (``core.meshes``).

In: devices, meshes and specs. Out: comparable, hashable descriptions of the part of an array on each device.
No array is sharded here. Invariant: ``tiles(ndim)`` gives the part of each device of the ``assignment``.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minijax.core.meshes import (
    NO_MESH,
    AbstractMesh,
    AxisType,
    Mesh,
    are_simulated,
    axis_hint,
    context,
    simulated_devices,
)
from minijax.core.records import NamedTuple
from minijax.core.structural import UNSPECIFIED
from minijax.pytree import tree_leaves

# The kind of memory in which devices keep arrays.
_MEMORY = "device"


class Free:
    """``PartitionSpec.UNCONSTRAINED``: the compiler chooses how a dimension is sharded."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "_UNCONSTRAINED"


_UNCONSTRAINED = Free()


class PartitionSpec:
    """The mesh axis or axes over which each dimension of an array is sharded: None if it is not sharded.

    Dimensions without an entry are not sharded either. Example: ``P("x", None, ("y", "z"))``.

    Args:
      partitions: the entries.
      unreduced: a set of explicit axes. The array is the sum of the devices' values over them; it is not computed yet.
      reduced: a set of explicit axes along which devices have equal values. The cotangent is unreduced along them.

    ValueError if two of these contain the same axis, TypeError if ``unreduced`` or ``reduced`` is not a set.
    """

    UNCONSTRAINED: Any = _UNCONSTRAINED

    __slots__ = ("_parts", "unreduced", "reduced")

    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __init__(self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()) -> None:
        self._parts = tuple(map(_part, partitions))
        self.unreduced, self.reduced = unreduced, reduced
        if unreduced or reduced or type(unreduced) is not frozenset or type(reduced) is not frozenset:
            self._check_sums()

    def _check_sums(self) -> None:
        for name in ("unreduced", "reduced"):
            axes = getattr(self, name)
            if not isinstance(axes, (set, frozenset)):
                raise TypeError(
                    f"{name} argument of PartitionSpec should be of type `frozenset` or `set`. Got {axes!r} of type "
                    f"{type(axes).__name__}: name the axes of the mesh in a set, such as {{'x'}}."
                )
            if None in axes:
                raise ValueError(f"{name} cannot contain None: all its elements should be axes of the mesh.")
            setattr(self, name, frozenset(axes))
            both = axes.intersection(axes_of_spec(self))
            if both:
                raise ValueError(
                    f"partitions cannot overlap with {name} axes passed to PartitionSpec. Got partitions: "
                    f"{self._parts} and {name} axes: {set(axes)}. Leave {both} out of one of them."
                )
        if self.unreduced & self.reduced:
            raise ValueError(
                "`unreduced` and `reduced` argument to PartitionSpec cannot overlap. Got unreduced: "
                f"{set(self.unreduced)} and reduced: {set(self.reduced)}. Leave an axis out of one of them."
            )

    @property
    def partitions(self) -> tuple[Any, ...]:
        return self._parts

    def update(self, partitions: Any = None, unreduced: Any = None, reduced: Any = None) -> PartitionSpec:
        """A copy with the given fields replaced."""
        return PartitionSpec(
            *(self._parts if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    def padded(self, ndim: int) -> PartitionSpec:
        """The spec with an entry for each of ``ndim`` dimensions."""
        return self.update([*self._parts, *[None] * (ndim - len(self._parts))])

    def permuted(self, order: Sequence[int]) -> PartitionSpec:
        """The spec of the array after its dimensions are permuted by ``order``."""
        return self.update([self._parts[d] for d in order])

    def of_cotangent(self) -> PartitionSpec:
        """The spec of the cotangent: reduced axes become unreduced, and unreduced axes reduced."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced) if self.unreduced or self.reduced else self

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __getitem__(self, i: Any) -> Any:
        return self._parts[i]

    def __add__(self, other: Any) -> PartitionSpec:
        """The entries of this spec, then those of ``other``, a spec or a tuple."""
        if not isinstance(other, PartitionSpec):
            return self.update((*self, *other)) if isinstance(other, tuple) else NotImplemented
        sums = {"unreduced": self.unreduced | other.unreduced, "reduced": self.reduced | other.reduced}
        return PartitionSpec(*self, *other, **sums)

    def __radd__(self, other: Any) -> PartitionSpec:
        return self.update((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def index(self, part: Any) -> int:
        """The first dimension whose entry is ``part``. ValueError if there is none."""
        return self._parts.index(_part(part))

    def count(self, part: Any) -> int:
        """The number of dimensions whose entry is ``part``."""
        return self._parts.count(_part(part))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> Any:
        return (self._parts, self.unreduced, self.reduced) if self.unreduced or self.reduced else self._parts

    def __repr__(self) -> str:
        parts = [*map(repr, self._parts)]
        for name in ("unreduced", "reduced"):
            if getattr(self, name):
                parts.append(f"{name}={set(getattr(self, name))!r}")
        return f"P({', '.join(parts)}{',' * (len(self._parts) == len(parts) == 1)})"

    def __reduce__(self) -> Any:
        if self.unreduced or self.reduced:
            return functools.partial(PartitionSpec, unreduced=self.unreduced, reduced=self.reduced), self._parts
        return PartitionSpec, self._parts


def _part(given: Any) -> Any:
    """One dimension's entry in canonical form: a sequence of one axis becomes the axis, an empty sequence None."""
    if not isinstance(given, (list, tuple)):
        return given
    return tuple(given) if len(given) > 1 else given[0] if given else None


class IndivisibleError(ValueError):
    """A dimension is not divisible by the sizes of the mesh axes over which it is sharded."""


class DuplicateSpecError(Exception):
    """A spec names one axis of a mesh twice. As in JAX, this is not a ValueError."""

    def __init__(self, message: str, mesh: AbstractMesh, pspec: PartitionSpec) -> None:
        super().__init__(message)
        self.message, self.mesh, self.pspec = message, mesh, pspec


def check_axes_once(spec: PartitionSpec, mesh: AbstractMesh) -> None:
    """DuplicateSpecError if ``spec`` names one mesh axis twice."""
    for name, times in Counter(axes_of_spec(spec)).items():
        if times > 1:
            raise DuplicateSpecError(
                "A single NamedSharding spec specification can map every mesh axis to at most one positional "
                f"dimension, but {spec} has duplicate entries for `{name}`. Leave out all but one.",
                mesh,
                spec,
            )


class Sharding:
    """The devices of an array, and the part on each device."""

    memory_kind: str | None = _MEMORY
    # whether the mesh has no devices, so the sharding describes parts but no places
    abstract = False

    @functools.cached_property
    def assignment(self) -> tuple[Any, ...]:
        """The devices, in the order that programs use."""
        return tuple(self._devices())

    @property
    def device_set(self) -> set[Any]:
        return set(self.assignment)

    @property
    def num_devices(self) -> int:
        return len(self.assignment)

    @property
    def addressable_devices(self) -> set[Any]:
        """The devices of this process."""
        return set(self.local_devices)

    @functools.cached_property
    def local_devices(self) -> tuple[Any, ...]:
        """The devices of this process, in order."""
        return tuple(device for device in self.assignment if device.process_index == device.client.process_index())

    @property
    def is_fully_addressable(self) -> bool:
        return len(self.local_devices) == len(self.assignment)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device has all of the array."""
        return self.num_devices == 1

    def tiles(self, ndim: int) -> np.ndarray:
        """An array of positions in ``assignment``.

        Its axis ``d`` numbers the parts of dimension ``d``. Its last axis numbers the devices that have the same part.
        """
        return np.arange(self.num_devices).reshape((1,) * ndim + (-1,))

    def check_ndim(self, ndim: int) -> None:
        """ValueError if the sharding is not for arrays of ``ndim`` dimensions."""

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of each device's part. IndivisibleError if a dimension is not divisible by its mesh axes."""
        shape = tuple(global_shape)
        self.check_ndim(len(shape))
        counts = self.tiles(len(shape)).shape[:-1]
        for axis, (size, count) in enumerate(zip(shape, counts, strict=True)):
            if size % count:
                raise IndivisibleError(
                    f"Sharding {self} implies that array axis {axis} is partitioned {count} times, but the dimension "
                    f"size is {size} (full shape: {shape}). Pad it to a multiple of {count}."
                )
        return tuple(size // count for size, count in zip(shape, counts, strict=True))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, tuple[slice, ...]]:
        """For each device the index of its part of an array of ``global_shape``."""
        sizes = self.shard_shape(global_shape)
        tiles = self.tiles(len(sizes))
        counts = tiles.shape[:-1]
        found: dict[int, tuple[slice, ...]] = {}
        for *part, place in np.ndindex(tiles.shape):
            found[int(tiles[(*part, place)])] = tuple(
                slice(i * size, (i + 1) * size) if count > 1 else slice(None)
                for i, size, count in zip(part, sizes, counts, strict=True)
            )
        return {device: found[i] for i, device in enumerate(self.assignment)}

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, tuple[slice, ...]]:
        """``devices_indices_map`` for the devices of this process."""
        found = self.devices_indices_map(global_shape)
        return {device: found[device] for device in self.local_devices}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both put the same parts of arrays of ``ndim`` dimensions on the same devices."""
        if self is other:
            return True
        described = self.abstract or other.abstract
        if self.num_devices == other.num_devices if described else self.assignment == other.assignment:
            ours, theirs = self.tiles(ndim), other.tiles(ndim)
            return ours.shape == theirs.shape and bool((_sorted(ours) == _sorted(theirs)).all())
        return not described and self.device_set == other.device_set and self._parts(ndim) == other._parts(ndim)

    def _parts(self, ndim: int) -> dict[Any, tuple[int, ...]]:
        """For each device the position of its part among all parts, then the shape of ``tiles``."""
        tiles = self.tiles(ndim)
        return {self.assignment[tiles[at]]: (*at[:-1], *tiles.shape) for at in np.ndindex(tiles.shape)}

    def _devices(self) -> Sequence[Any]:
        raise NotImplementedError


def _sorted(tiles: np.ndarray) -> np.ndarray:
    """``tiles`` with the devices of each part sorted."""
    return np.sort(tiles, axis=-1)


class SingleDeviceSharding(Sharding):
    """The sharding that puts a whole array on one device."""

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        self._device = device
        self.memory_kind = memory_kind or _MEMORY

    def _devices(self) -> Sequence[Any]:
        return (self._device,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self._device == other._device

    def __hash__(self) -> int:
        return hash(self._device)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"


class TiledSharding(Sharding):
    """A sharding that only its ``tiles`` describe, since no spec does. The compiler may choose one for a result."""

    def __init__(self, devices: Sequence[Any], tiles: np.ndarray) -> None:
        self._given = tuple(devices)
        self._tiles = tiles
        self._key = (self._given, tiles.shape, tiles.tobytes())

    def _devices(self) -> Sequence[Any]:
        return self._given

    @property
    def is_fully_replicated(self) -> bool:
        return self._tiles.shape[-1] == self._tiles.size

    def tiles(self, ndim: int) -> np.ndarray:
        return super().tiles(ndim) if self.is_fully_replicated else self._tiles

    def check_ndim(self, ndim: int) -> None:
        if not self.is_fully_replicated and ndim != self._tiles.ndim - 1:
            raise ValueError(f"{self} is for arrays of {self._tiles.ndim - 1} dimensions, not of {ndim}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TiledSharding) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        ids = [self._given[i].id for i in self._tiles.flat]
        return f"TiledSharding(parts={self._tiles.shape[:-1]}, devices={ids})"


class NamedSharding(Sharding):
    """The sharding over ``mesh`` that ``spec`` describes. With an ``AbstractMesh``, programs are only compiled.

    ValueError for an axis that the mesh lacks, DuplicateSpecError for an axis that shards two dimensions.
    """

    def __init__(self, mesh: AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        if not isinstance(mesh, AbstractMesh) or not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding expects a mesh and a PartitionSpec, got {mesh!r} and {spec!r}.")
        self.mesh, self.spec = mesh, spec
        self.abstract = not isinstance(mesh, Mesh)
        self.memory_kind = memory_kind or _MEMORY
        for name in axes_of_spec(spec):
            if name not in mesh.axis_names:
                raise ValueError(
                    f"Resource axis: {name} of {spec} is not found in mesh: {mesh.axis_names}.{axis_hint(name, mesh)}"
                )
        check_axes_once(spec, mesh)
        if spec.unreduced or spec.reduced:
            _check_summed(mesh, spec)
        self._hash = hash((mesh, spec))
        self._tiles: dict[int, np.ndarray] = {}

    def _devices(self) -> Sequence[Any]:
        if not isinstance(self.mesh, Mesh):
            raise ValueError(
                f"{self} has no devices: no array can have it. Take a Mesh of devices, or lower and compile for it, "
                "which needs none: jit(f).lower(ShapeDtypeStruct(shape, dtype, sharding=...)).compile()."
            )
        return list(self.mesh.devices.flat)

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    def over(self, devices: Sequence[Any]) -> NamedSharding:
        """The same sharding over ``devices`` in place of the ``AbstractMesh``; ``self`` if its mesh has devices."""
        if not self.abstract:
            return self
        array = np.empty(len(devices), object)
        array[:] = devices
        mesh = self.mesh
        made = Mesh(array.reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)
        return NamedSharding(made, self.spec, memory_kind=self.memory_kind)

    def with_spec(self, spec: Any) -> NamedSharding:
        """The same mesh with ``spec``, a ``PartitionSpec`` or its entries."""
        return NamedSharding(self.mesh, spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec))

    def with_memory_kind(self, kind: str) -> NamedSharding:
        """The same sharding in another memory of the devices."""
        return NamedSharding(self.mesh, self.spec, memory_kind=kind)

    @property
    def is_fully_replicated(self) -> bool:
        return not self.spec.unreduced and all(self.count(names) == 1 for names in map(axes_of_part, self.spec))

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        spec = getattr(other, "spec", None)
        return self.spec.unreduced == getattr(spec, "unreduced", frozenset()) and super().is_equivalent_to(other, ndim)

    def count(self, names: Sequence[str]) -> int:
        """The number of parts of a dimension that is sharded over these axes."""
        return self.mesh.count(names)

    def check_ndim(self, ndim: int) -> None:
        if len(self.spec) > ndim:
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least {len(self.spec)}, but was applied to a "
                f"value of rank {ndim}. Name no more dimensions than there are."
            )

    def tiles(self, ndim: int) -> np.ndarray:
        found = self._tiles.get(ndim)
        if found is None:
            found = self._tiles[ndim] = self._tiled(ndim)
        return found

    def _tiled(self, ndim: int) -> np.ndarray:
        mesh = self.mesh
        parts = [*map(axes_of_part, self.spec)][:ndim]
        parts += [()] * (ndim - len(parts))
        named = [name for names in parts for name in names]
        order = [mesh.axis_names.index(name) for name in named]
        order += [i for i, name in enumerate(mesh.axis_names) if name not in named]
        places = np.arange(mesh.size).reshape(mesh.axis_sizes).transpose(order)
        return places.reshape(*map(self.count, parts), -1)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, NamedSharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return NamedSharding, (self.mesh, self.spec)

    def __repr__(self) -> str:
        if type(self.mesh) is AbstractMesh:  # no device, so no memory
            return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec})"
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}, memory_kind={self.memory_kind})"


def _check_summed(mesh: AbstractMesh, spec: PartitionSpec) -> None:
    """ValueError unless reduced and unreduced axes are explicit axes of ``mesh``."""
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    for kind, axes in (("Unreduced", spec.unreduced), ("Reduced", spec.reduced)):
        for name in axes:
            if name not in kinds:
                raise ValueError(
                    f"{kind} axes {name} is not found in mesh.axis_names={mesh.axis_names}. Got pspec={spec}."
                    f"{axis_hint(name, mesh)}"
                )
            if kinds[name] is not AxisType.Explicit:
                raise ValueError(
                    f"{kind} axes can only refer to mesh axes that is of type `Explicit`. Got {kind.lower()} axes: "
                    f"{set(axes)} and mesh: {mesh}. Make the mesh with axis_types=AxisType.Explicit."
                )


def named_like(mesh: AbstractMesh, tiles: np.ndarray) -> Sharding:
    """The sharding over ``mesh`` that has these ``tiles``: a ``NamedSharding`` if some spec describes it."""
    ndim = tiles.ndim - 1
    part_of = np.empty((mesh.size, ndim), int)
    for at in np.ndindex(tiles.shape):
        part_of[tiles[at]] = at[:-1]
    grid = part_of.reshape(*mesh.axis_sizes, ndim)
    origin = (0,) * len(mesh.axis_sizes)
    spec = []
    for dim in range(ndim):
        # the part changes along the axes that shard the dimension; outer axes take the larger steps
        steps = [
            (int(grid[(*origin[:i], 1, *origin[i + 1 :])][dim]) - int(grid[origin][dim]), name)
            for i, (name, size) in enumerate(mesh.shape_tuple)
            if size > 1
        ]
        spec.append(tuple(name for step, name in sorted(steps, key=lambda each: -each[0]) if step))
    while spec and not spec[-1]:
        spec.pop()
    devices = mesh._identity[-1] if isinstance(mesh, Mesh) else simulated_devices(mesh.size)
    try:
        found = NamedSharding(mesh, PartitionSpec(*spec))
    except DuplicateSpecError:  # one axis would shard two dimensions
        return TiledSharding(devices, tiles)
    ours = found.tiles(ndim)
    same = ours.shape == tiles.shape and bool((_sorted(ours) == _sorted(tiles)).all())
    return found if same else TiledSharding(devices, tiles)


def check_divides(sharding: NamedSharding, shape: Sequence[int]) -> None:
    """ValueError unless each dimension of ``shape`` is divisible by the sizes of its mesh axes."""
    for axis, (size, part) in enumerate(zip(shape, sharding.spec, strict=False)):
        count = sharding.count(axes_of_part(part))
        if size % count:
            raise ValueError(
                f"Sharding spec {tuple(sharding.spec)} implies that array axis {axis} is partitioned {count} times, "
                f"but does not evenly divide the dimension size {size}. Got shape: {tuple(shape)} and sharding "
                f"{sharding}. Pad the array to a multiple of {count}."
            )


def replicated(ndim: int) -> NamedSharding:
    """The replicated sharding of ``ndim`` dimensions over the current mesh."""
    mesh = NO_MESH if context.mesh is None else context.mesh.abstract_mesh
    return NamedSharding(mesh, PartitionSpec(*[None] * ndim))


def mesh_of(shardings: Sequence[Any]) -> AbstractMesh | None:
    """The mesh of the first ``NamedSharding`` among ``shardings``, preferably one with devices."""
    meshes = [each.mesh for each in shardings if isinstance(each, NamedSharding)]
    return next((mesh for mesh in meshes if isinstance(mesh, Mesh)), meshes[0] if meshes else None)


class Placement(NamedTuple):
    """A program's devices, and the shardings of its arguments and results. For None, XLA chooses one over ``mesh``."""

    devices: tuple[Any, ...]
    mesh: AbstractMesh | None
    ins: tuple[Sharding | None, ...]
    outs: tuple[Sharding | None, ...]

    @property
    def simulated(self) -> bool:
        """Whether the devices are those of an ``AbstractMesh``. The program can be compiled for them, but not run."""
        return are_simulated(self.devices)

    @property
    def everywhere(self) -> Sharding:
        """The sharding that puts the whole array on each of the devices."""
        if self.mesh is not None:
            return NamedSharding(self.mesh, PartitionSpec())
        return TiledSharding(self.devices, np.arange(len(self.devices)))


def axes_of_part(part: Any) -> tuple[str, ...]:
    """The mesh axes that ``part``, the entry of one dimension in a spec, names."""
    if part is None or part is _UNCONSTRAINED:
        return ()
    return part if isinstance(part, tuple) else (part,)


def axes_of_spec(spec: PartitionSpec) -> list[str]:
    """The mesh axes that shard any dimension, in the order of the dimensions."""
    return [name for part in spec for name in axes_of_part(part)]


def check_said(sharding: Any, function: str, argument: str) -> None:
    """TypeError unless each leaf of the tree ``sharding`` is a spec or something that ``as_sharding`` accepts."""
    for each in tree_leaves(sharding):
        if not isinstance(each, PartitionSpec):
            as_sharding(each, function, argument)


def as_sharding(sharding: Any, function: str, argument: str) -> Any:
    """``sharding``, the ``argument`` of ``function``, as a Sharding or UNSPECIFIED. TypeError for other objects."""
    if sharding is None or sharding is UNSPECIFIED or isinstance(sharding, Sharding):
        return UNSPECIFIED if sharding is None else sharding
    if not isinstance(sharding, PartitionSpec):
        raise TypeError(
            f"{argument} leaf specifications are expected to be PartitionSpec instances or None, but got {sharding}. "
            f"Give {function} shardings, such as sharding.NamedSharding(mesh, sharding.PartitionSpec('x'))."
        )
    if context.mesh is None:
        raise RuntimeError(
            f"{function} requires a non-empty mesh in context if you are passing `PartitionSpec`s to {argument}, as "
            f"{sharding} is. Set one with set_mesh(mesh), or pass NamedSharding(mesh, spec)."
        )
    return NamedSharding(context.mesh, sharding)


def concrete(place: Any) -> Any:
    """``place`` as a device or a sharding. A ``PartitionSpec`` needs a current mesh, else ValueError."""
    if not isinstance(place, PartitionSpec):
        return place
    if context.mesh is None:
        raise ValueError(f"Please set a mesh via `set_mesh` if a PartitionSpec is a place, as {place} is here.")
    return NamedSharding(context.mesh, place)


def canonical_sharding(sharding: Any, function: str) -> NamedSharding | None:
    """``sharding``, the ``out_sharding`` of ``function``, over its abstract mesh. None if there is no sharding or mesh.

    TypeError for other objects. ValueError if no mesh is set, if ``sharding`` has another mesh, or if it names
    axes that are not explicit.
    """
    if sharding is None or (isinstance(sharding, NamedSharding) and sharding.mesh.empty):
        return None
    mesh = None if context.mesh is None else context.mesh.abstract_mesh
    if isinstance(sharding, PartitionSpec):
        if mesh is None:
            raise ValueError(
                f"Using PartitionSpec when you are not under a mesh context is not allowed. Please pass {function} a "
                f"NamedSharding, or set a mesh with set_mesh(mesh). Got {sharding}"
            )
        sharding = NamedSharding(mesh, sharding)
    if not isinstance(sharding, NamedSharding):
        raise TypeError(
            f"`out_sharding` argument of {function} only supports instances of `NamedSharding` or `PartitionSpec`. Got "
            f"{sharding} of type: {type(sharding)}"
        )
    own = sharding.mesh.abstract_mesh
    if mesh is not None and own != mesh and not (own.are_all_axes_auto and mesh.are_all_axes_auto):
        raise ValueError(
            f"Context mesh {mesh} should match the mesh of sharding {own} passed to {function}. Set that mesh around "
            "the call, with set_mesh."
        )
    for name in axes_of_spec(sharding.spec):
        if name not in own.explicit_axes:
            kind = own.axis_types[own.axis_names.index(name)]
            raise ValueError(
                f"PartitionSpec passed to {function} cannot contain axis names that are of type Auto or Manual. Got "
                f"PartitionSpec: {sharding.spec} with axis name: {name} of type: {kind}. Use "
                "lax.with_sharding_constraint for them."
            )
    return NamedSharding(own, sharding.spec)
