"""Meshes: arrays of devices whose axes have names, sizes and types; abstract meshes; the current mesh.

In: devices and names. Out: descriptions that can be compared and hashed. ``core.shardings`` has the shardings of arrays
over meshes.
"""

from __future__ import annotations

import enum
import functools
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.config import set_context_mesh
from minijax.core.records import NamedTuple
from minijax.errors import did_you_mean


class AxisType(enum.Enum):
    """Who decides the sharding over a mesh axis: the compiler (Auto), array types (Explicit), the program (Manual)."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class AbstractMesh:
    """The names, sizes and types of a mesh's axes, without devices. It may record the kind and platform of devices."""

    def __init__(
        self,
        axis_sizes: Sequence[int],
        axis_names: Sequence[str],
        axis_types: Any = None,
        *,
        device_kind: str | None = None,
        platform: str | None = None,
    ) -> None:
        self.axis_sizes, self.axis_names = tuple(axis_sizes), tuple(axis_names)
        self.device_kind, self.platform = device_kind, platform
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

    def count(self, names: Sequence[str]) -> int:
        """The number of parts of a dimension that is sharded over all these axes."""
        return math.prod(self.axis_sizes[self.axis_names.index(name)] for name in names)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The same mesh without devices."""
        return self

    def axes_of_type(self, kind: AxisType) -> tuple[str, ...]:
        """The names of the axes of one type."""
        return tuple(name for name, own in zip(self.axis_names, self.axis_types, strict=True) if own is kind)

    @functools.cached_property
    def auto_axes(self) -> tuple[str, ...]:
        """The names of the axes over which the compiler shards."""
        return self.axes_of_type(AxisType.Auto)

    @functools.cached_property
    def explicit_axes(self) -> tuple[str, ...]:
        """The names of the axes over which array types may be sharded."""
        return self.axes_of_type(AxisType.Explicit)

    @functools.cached_property
    def manual_axes(self) -> tuple[str, ...]:
        """The names of the axes along which each device runs its own program."""
        return self.axes_of_type(AxisType.Manual)

    @functools.cached_property
    def any_explicit(self) -> bool:
        """Whether array types may be sharded over some axis."""
        return AxisType.Explicit in self.axis_types

    @property
    def are_all_axes_auto(self) -> bool:
        return self._all(AxisType.Auto)

    @property
    def are_all_axes_explicit(self) -> bool:
        return self._all(AxisType.Explicit)

    @property
    def are_all_axes_manual(self) -> bool:
        return self._all(AxisType.Manual)

    def _all(self, kind: AxisType) -> bool:
        return bool(self.axis_types) and set(self.axis_types) == {kind}

    def update_axis_types(self, name_to_type: dict[str, AxisType]) -> AbstractMesh:
        """The same mesh, with other types of some axes."""
        names = self.axis_names
        kinds = tuple(name_to_type.get(name, own) for name, own in zip(names, self.axis_types, strict=True))
        return self if kinds == self.axis_types else self._with_types(kinds)

    def _with_types(self, kinds: tuple[AxisType, ...]) -> AbstractMesh:
        about = {"device_kind": self.device_kind, "platform": self.platform}
        return AbstractMesh(self.axis_sizes, self.axis_names, kinds, **about)

    def __eq__(self, other: object) -> bool:
        if type(other) is not AbstractMesh:
            return NotImplemented
        return self is other or self._about == other._about

    @functools.cached_property
    def _about(self) -> tuple[Any, ...]:
        return self.shape_tuple, self.axis_types, self.device_kind, self.platform

    def __hash__(self) -> int:
        return hash(self._about)

    def __repr__(self) -> str:
        # JAX prints this for a mesh without axes
        if not self.axis_names:
            return "Mesh()"
        device = ""
        if self.device_kind is not None:
            device = f", device_kind={self.device_kind}, num_cores=None, platform={self.platform}"
        return f"AbstractMesh({self._axes()}, axis_types={self._kinds()}{device})"

    def _axes(self) -> str:
        return ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple) or "()"

    def _kinds(self) -> str:
        return f"({', '.join(map(repr, self.axis_types))}{',' * (len(self.axis_types) == 1)})"


class SimulatedDevice(NamedTuple):
    """A device of an ``AbstractMesh``. Programs are compiled for it, but cannot run on it."""

    id: int

    @property
    def platform(self) -> str:
        return "cpu"


def simulated_devices(count: int) -> tuple[SimulatedDevice, ...]:
    """``count`` devices, in the order of their ids."""
    return tuple(map(SimulatedDevice, range(count)))


def are_simulated(devices: Sequence[Any]) -> bool:
    """Whether ``devices`` are simulated: a program can be compiled for them, but not run."""
    return type(devices[0]) is SimulatedDevice


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
        self._identity = (self.axis_names, self.axis_sizes, self.axis_types, tuple(devices.flat))
        self._hash = hash(self._identity)

    @property
    def device_ids(self) -> np.ndarray:
        return np.vectorize(lambda device: device.id, otypes=[int])(self.devices)

    @functools.cached_property
    def local_mesh(self) -> Mesh:
        """The mesh of this process's devices. ValueError if they are not a block of this mesh."""
        mine = np.vectorize(lambda each: each.process_index == each.client.process_index(), otypes=[bool])(self.devices)
        if mine.all():
            return self
        found = self.devices[np.ix_(*[np.unique(each) for each in np.nonzero(mine)])]
        if found.size != mine.sum():
            raise ValueError(f"This process's devices are no block of {self}: order the mesh's devices by process.")
        return Mesh(found, self.axis_names, self.axis_types)

    @functools.cached_property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without devices, as array types contain it."""
        first = self.devices.flat[0] if self.devices.size and self.axis_names else None
        about = {"device_kind": getattr(first, "device_kind", None), "platform": getattr(first, "platform", None)}
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types, **about)

    def _with_types(self, kinds: tuple[AxisType, ...]) -> Mesh:
        return Mesh(self.devices, self.axis_names, kinds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mesh):
            return NotImplemented
        return self is other or self._identity == other._identity

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        sizes, names = self.axis_sizes, self.axis_names
        return f"Mesh(axis_sizes={sizes}, axis_names={names}, axis_types={self._kinds()})"

    def __str__(self) -> str:
        return f"Mesh({self._axes()}, axis_types={self._kinds()})" if self.axis_names else "Mesh()"


def axis_hint(name: Any, mesh: AbstractMesh) -> str:
    """Advice for the unknown axis ``name`` of ``mesh``: `` Did you mean data?``."""
    return did_you_mean(name, mesh.axis_names) or " Name an axis that the mesh has."


NO_MESH = AbstractMesh((), ())


class _Context(threading.local):
    """The mesh that is set on this thread, or None. Programs are staged for it."""

    mesh: Mesh | None = None
    # the mesh of devices that equations of calls record as ``ctx_mesh``; auto_axes and explicit_axes do not change it
    named: Any = None

    def set(self, mesh: Any, named: Any = None) -> None:
        """Set ``mesh``, or None for no mesh. Equations of calls record ``named``, by default ``mesh``."""
        self.mesh, self.named = mesh, mesh if named is None else named
        set_context_mesh(mesh)

    @property
    def mesh_devices(self) -> tuple[Any, ...] | None:
        """The devices of the mesh, in order. None without a mesh."""
        return None if self.mesh is None else tuple(self.mesh.devices.flat)


context = _Context()
