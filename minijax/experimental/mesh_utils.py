"""``minijax.experimental.mesh_utils``: devices as an array for a ``Mesh``, by the mesh's shape; borrowed from JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.api.devices import devices as all_devices
from minijax.interop.values import jax_module

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, **options: Any) -> np.ndarray:
    """The devices (all of them by default) as an array of shape ``mesh_shape``, neighbours along its last axis.

    ``options`` are those of JAX, ``contiguous_submeshes`` and ``allow_split_physical_axes``, which only TPUs have.

    Raises:
      ValueError: the mesh does not have as many places as there are devices.
    """
    found = all_devices() if devices is None else devices
    made: np.ndarray = jax_module("experimental.mesh_utils").create_device_mesh(mesh_shape, found, **options)
    return made


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, **options: Any
) -> np.ndarray:
    """A mesh of meshes: devices that are near each other along the inner axes of each dimension, others outside.

    Devices are near if they have the same ``slice_index``, or with ``process_is_granule=True`` if they belong to one
    process. Each such group is a mesh of ``mesh_shape``, and the groups, sorted unless
    ``should_sort_granules_by_key`` is false, are laid out as ``dcn_mesh_shape``.

    Returns:
      An array of devices whose shape is the product of the two, dimension by dimension.

    Raises:
      ValueError: devices do not tell their group, or the numbers of groups and of devices do not fit.
    """
    found = all_devices() if devices is None else devices
    theirs = jax_module("experimental.mesh_utils").create_hybrid_device_mesh
    made: np.ndarray = theirs(mesh_shape, dcn_mesh_shape, found, **options)
    return made
