"""``minijax.sharding``: meshes and shardings.

Along ``Auto`` axes the compiler chooses how results are sharded. ``Explicit`` axes are part of an array's type, as in
``f32[8@x,4]``, and these types determine how results are sharded (``reshard``, ``auto_axes``, ``explicit_axes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.api.devices import devices as all_devices
from minijax.api.explicit import auto_axes, explicit_axes, use_abstract_mesh
from minijax.backend import pjrt
from minijax.core.meshes import AbstractMesh, AxisType, Mesh, context
from minijax.core.shardings import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from minijax.core.trace import state
from minijax.ops.meshes.reshard import reshard

__all__ = [
    "AbstractMesh",
    "AxisType",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_mesh",
    "make_mesh",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
]

P = PartitionSpec


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: Any = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """A mesh of the first devices, or of ``devices``, with these axes. ValueError if there are too few devices."""
    if len(axis_shapes) != len(axis_names):
        raise ValueError(
            f"make_mesh needs a name for each axis, but got axis_shapes={tuple(axis_shapes)} and "
            f"axis_names={tuple(axis_names)}. Give the same number of both."
        )
    found = list(all_devices() if devices is None else devices)
    size = int(np.prod(axis_shapes, dtype=int))
    if len(found) < size:
        raise ValueError(
            f"Number of devices {len(found)} must be >= the product of mesh_shape {tuple(axis_shapes)}. Start the "
            f"program with JAX_NUM_CPU_DEVICES={size}, or make a smaller mesh."
        )
    array = np.empty(size, object)
    array[:] = found[:size]
    return Mesh(array.reshape(tuple(axis_shapes)), tuple(axis_names), axis_types or AxisType.Explicit)


def get_abstract_mesh() -> AbstractMesh:
    """The names and sizes of the axes of the mesh that is set; an empty mesh if none is set."""
    return AbstractMesh((), ()) if context.mesh is None else context.mesh.abstract_mesh


def get_mesh() -> Mesh:
    """The mesh that is set on this thread; an empty mesh if none is set. ValueError inside a transformation."""
    _refuse_traced("get_mesh", " Maybe you want `sharding.get_abstract_mesh()`?")
    return Mesh(np.empty((), object), ()) if context.mesh is None else context.mesh


class set_mesh:  # noqa: N801, as JAX names it
    """Set the mesh of this thread, from now on or for a ``with`` block; None for no mesh.

    Jitted functions then run on the mesh's devices. ValueError for an object that is no mesh, for ``Manual`` axes, or
    inside a transformation.
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ValueError(f"Expected mesh of type `sharding.Mesh`. Got {type(mesh)}. Make one with make_mesh.")
        _refuse_traced("set_mesh", " Set it around the call.")
        if mesh is not None and AxisType.Manual in mesh.axis_types:
            raise ValueError(f"mesh {mesh} contains manual axes which is not allowed when using `set_mesh`.")
        self.outer = context.mesh
        _set(mesh)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_exc_info: object) -> None:
        _set(self.outer)


def _set(mesh: Mesh | None) -> None:
    context.set(mesh)
    if mesh is not None:
        pjrt.note_committed()


def _refuse_traced(name: str, advice: str) -> None:
    if len(state.stack) > 1:
        raise ValueError(f"`{name}` can only be used outside of `jax.jit` and other transformations.{advice}")
