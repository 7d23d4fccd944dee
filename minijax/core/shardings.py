"""Shardings as data: meshes of devices, which axis of an array is divided along which axis of a mesh, and what follows.

In: devices, names and sizes. Out: descriptions that can be compared, hashed and asked which device has which part. No
array is divided here: that ``device_put`` does, as far as it can.
"""

from __future__ import annotations

import enum
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

# Where devices keep arrays.
_MEMORY = "device"


class AxisType(enum.Enum):
    """Who divides arrays along an axis of a mesh: the compiler, the types of the program, or the program itself."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class PartitionSpec:
    """For each dimension of an array the axis of a mesh, or several, along which it is divided; None for whole ones.

    Dimensions beyond those named are whole. ``P("x", None, ("y", "z"))``.
    """

    UNCONSTRAINED = "UNCONSTRAINED"

    __slots__ = ("_parts",)

    def __init__(self, *partitions: Any) -> None:
        self._parts = tuple(tuple(part) if isinstance(part, list) else part for part in partitions)

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __getitem__(self, i: Any) -> Any:
        return self._parts[i]

    def __add__(self, other: PartitionSpec) -> PartitionSpec:
        return PartitionSpec(*self, *other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self._parts))}{',' * (len(self._parts) == 1)})"

    def __reduce__(self) -> Any:
        return PartitionSpec, self._parts


class AbstractMesh:
    """The names, sizes and types of a mesh's axes, without devices."""

    def __init__(self, axis_sizes: Sequence[int], axis_names: Sequence[str], axis_types: Any = None) -> None:
        self.axis_sizes, self.axis_names = tuple(axis_sizes), tuple(axis_names)
        self.axis_types = _types(axis_types, len(self.axis_names))
        if len(self.axis_sizes) != len(self.axis_names):
            raise ValueError(
                f"A mesh needs a name for each axis, but got sizes {self.axis_sizes} and names {self.axis_names}."
            )

    @property
    def shape_tuple(self) -> tuple[tuple[str, int], ...]:
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape(self) -> OrderedDict[str, int]:
        """The size of each axis by its name."""
        return OrderedDict(self.shape_tuple)

    @property
    def size(self) -> int:
        return int(np.prod(self.axis_sizes)) if self.axis_sizes else 0

    @property
    def empty(self) -> bool:
        return self.size == 0

    def __eq__(self, other: object) -> bool:
        if type(other) is not AbstractMesh:
            return NotImplemented
        return (self.shape_tuple, self.axis_types) == (other.shape_tuple, other.axis_types)

    def __hash__(self) -> int:
        return hash((self.shape_tuple, self.axis_types))

    def __repr__(self) -> str:
        return f"AbstractMesh({self._axes()}, axis_types={self._kinds()})"

    def _axes(self) -> str:
        return ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple) or "()"

    def _kinds(self) -> str:
        return f"({', '.join(map(repr, self.axis_types))}{',' * (len(self.axis_types) == 1)})"


def _types(given: Any, count: int) -> tuple[AxisType, ...]:
    if given is None:
        return (AxisType.Auto,) * count
    return tuple(given) if isinstance(given, (tuple, list)) else (given,) * count


class Mesh(AbstractMesh):
    """An array of devices whose axes have names."""

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None) -> None:
        devices = np.asarray(devices, dtype=object)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if devices.ndim != len(names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of its second argument "
                f"(`axis_names`), but got devices.ndim == {devices.ndim} and len(axis_names) == {len(names)}."
            )
        if len(set(names)) != len(names):
            raise ValueError(f"The axes of a mesh need different names, got {names}.")
        super().__init__(devices.shape, names, axis_types)
        self.devices = devices
        self.devices.flags.writeable = False

    @property
    def device_ids(self) -> np.ndarray:
        return np.vectorize(lambda device: device.id, otypes=[int])(self.devices)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mesh):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> Any:
        return self.axis_names, self.axis_sizes, self.axis_types, tuple(self.devices.flat)

    def __repr__(self) -> str:
        sizes, names = self.axis_sizes, self.axis_names
        return f"Mesh(axis_sizes={sizes}, axis_names={names}, axis_types={self._kinds()})"

    def __str__(self) -> str:
        return f"Mesh({self._axes()}, axis_types={self._kinds()})"


class Sharding:
    """Which part of an array lies on which device."""

    memory_kind: str | None = _MEMORY

    @property
    def device_set(self) -> set[Any]:
        return set(self._devices())

    @property
    def num_devices(self) -> int:
        return len(self.device_set)

    @property
    def addressable_devices(self) -> set[Any]:
        """Those of the devices that this process has."""
        return {device for device in self.device_set if device.process_index == device.client.process_index()}

    @property
    def is_fully_addressable(self) -> bool:
        return self.addressable_devices == self.device_set

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device has all of the array."""
        return self.num_devices == 1

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of each device's part of an array of ``global_shape``."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, tuple[slice, ...]]:
        """For each device the index of its part of an array of ``global_shape``."""
        return {device: (slice(None),) * len(global_shape) for device in self._devices()}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both put the same parts of arrays of ``ndim`` dimensions on the same devices."""
        # every dimension has a part for each of as many devices as there are, if they divide it at all
        shape = (len(self.device_set | other.device_set),) * ndim
        return self.devices_indices_map(shape) == other.devices_indices_map(shape)

    def _devices(self) -> Sequence[Any]:
        raise NotImplementedError


class SingleDeviceSharding(Sharding):
    """All of an array on one device."""

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


class NamedSharding(Sharding):
    """An array divided over a mesh, as ``spec`` says.

    Raises ValueError for an axis that the mesh does not have, or that divides two dimensions.
    """

    def __init__(self, mesh: Mesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        if not isinstance(mesh, AbstractMesh) or not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding expects a mesh and a PartitionSpec, got {mesh!r} and {spec!r}.")
        self.mesh, self.spec = mesh, spec
        self.memory_kind = memory_kind or _MEMORY
        used = Counter(name for names in map(_names, spec) for name in names)
        for name, times in used.items():
            if name not in mesh.axis_names:
                raise ValueError(f"Resource axis: {name} of {spec} is not found in mesh: {mesh.axis_names}.")
            if times > 1:
                raise ValueError(
                    "A single NamedSharding spec specification can map every mesh axis to at most one positional "
                    f"dimension, but {spec} has duplicate entries for `{name}`."
                )

    def _devices(self) -> Sequence[Any]:
        return list(self.mesh.devices.flat)

    @property
    def is_fully_replicated(self) -> bool:
        return all(self._count(names) == 1 for names in map(_names, self.spec))

    def _count(self, names: Sequence[str]) -> int:
        """Into how many parts these axes divide a dimension."""
        return int(np.prod([self.mesh.shape[name] for name in names], dtype=int))

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        if len(self.spec) > len(global_shape):
            raise ValueError(f"{self.spec} is for arrays of at least {len(self.spec)} dimensions, got {global_shape}.")
        parts = [self._count(names) for names in map(_names, self.spec)]
        parts += [1] * (len(global_shape) - len(parts))
        for axis, (size, count) in enumerate(zip(global_shape, parts, strict=True)):
            if size % count:
                raise ValueError(
                    f"Sharding {self} implies that array axis {axis} is partitioned {count} times, but the dimension "
                    f"size is {size} (full shape: {tuple(global_shape)}). Pad it to a multiple of {count}."
                )
        return tuple(size // count for size, count in zip(global_shape, parts, strict=True))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, tuple[slice, ...]]:
        sizes = self.shard_shape(global_shape)
        found = {}
        for place in np.ndindex(self.mesh.devices.shape):
            at = dict(zip(self.mesh.axis_names, place, strict=True))
            index = [slice(None)] * len(sizes)
            for axis, names in enumerate(map(_names, self.spec)):
                part = 0
                for name in names:
                    part = part * self.mesh.shape[name] + at[name]
                if self._count(names) > 1:
                    index[axis] = slice(part * sizes[axis], (part + 1) * sizes[axis])
            found[self.mesh.devices[place]] = tuple(index)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}, memory_kind={self.memory_kind})"


def _names(part: Any) -> tuple[str, ...]:
    """The axes of a mesh that divide one dimension."""
    if part is None or part == PartitionSpec.UNCONSTRAINED:
        return ()
    return part if isinstance(part, tuple) else (part,)


class _Context(threading.local):
    """The mesh that is set on one thread, None if none is."""

    mesh: Mesh | None = None


context = _Context()


def only_device(place: Any) -> Any:
    """The device that ``place`` means, which is a device, a sharding, or a ``PartitionSpec`` for the mesh that is set.

    NotImplementedError for one over several. ValueError for a ``PartitionSpec`` without a mesh.
    """
    if isinstance(place, PartitionSpec):
        if context.mesh is None:
            raise ValueError(f"Please set a mesh via `set_mesh` if a PartitionSpec is a place, as {place} is here.")
        place = NamedSharding(context.mesh, place)
    if not isinstance(place, Sharding):
        return place
    if place.num_devices > 1:
        raise NotImplementedError(
            f"{place} divides an array over {place.num_devices} devices. Arrays over several devices are made by pmap "
            "here: put the array on one of them, or map over its leading axis with pmap."
        )
    (device,) = place.device_set
    return device
