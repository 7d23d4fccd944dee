"""``minijax.experimental.mesh_utils``: arrange devices for a ``Mesh`` of a given shape; borrowed from JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.api.devices import devices as all_devices
from minijax.interop.values import jax_module

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, **options: Any) -> np.ndarray:
    """Arrange the devices (default: all) in an array of ``mesh_shape``, with neighbouring devices along its last axis.

    ``options`` are JAX's, which only TPUs use. ValueError if the mesh size differs from the number of devices.
    """
    found = all_devices() if devices is None else devices
    made: np.ndarray = jax_module("experimental.mesh_utils").create_device_mesh(mesh_shape, found, **options)
    return made


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, **options: Any
) -> np.ndarray:
    """A mesh of meshes: nearby devices along the inner axes of each dimension, distant ones along the outer axes.

    Devices are near if they have the same ``slice_index``, or with ``process_is_granule=True`` the same process. Each
    group of near devices is a mesh of ``mesh_shape``. The groups form a mesh of ``dcn_mesh_shape``, sorted unless
    ``should_sort_granules_by_key`` is false. The result's shape is the product of the two, dimension by dimension.

    ValueError if a device has no ``slice_index``, or if the sizes of the groups or of the meshes do not fit.
    """
    found = all_devices() if devices is None else devices
    theirs = jax_module("experimental.mesh_utils").create_hybrid_device_mesh
    made: np.ndarray = theirs(mesh_shape, dcn_mesh_shape, found, **options)
    return made
