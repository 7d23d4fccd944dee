"""``minijax.sharding``: meshes and shardings as data. Arrays lie on one device, or as ``pmap`` divides them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.api.devices import devices as all_devices
from minijax.core.shardings import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

__all__ = [
    "AbstractMesh",
    "AxisType",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "get_abstract_mesh",
    "make_mesh",
]

P = PartitionSpec


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: Any = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """A mesh of the first devices, or of ``devices``, with these sizes and names of axes.

    Raises ValueError if there are too few devices.
    """
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
    """The mesh that is set: none can be here, so it is empty."""
    return AbstractMesh((), ())
