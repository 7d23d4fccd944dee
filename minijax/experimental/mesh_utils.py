"""``minijax.experimental.mesh_utils``: arrays of devices for a ``Mesh``, by the shape of the mesh."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.api.devices import devices as all_devices

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """The devices (all of them by default) as an array of shape ``mesh_shape``, neighbours along its last axis.

    On GPUs they are sorted by number. The two options are about the network of a TPU, of which nothing is known here:
    they change nothing on other platforms, and TPUs keep the order in which XLA lists them.

    Raises:
      ValueError: the mesh does not have as many places as there are devices.
    """
    found = list(all_devices() if devices is None else devices)
    shape = tuple(map(operator.index, mesh_shape))
    if math.prod(shape) != len(found):
        raise ValueError(
            f"Number of devices {len(found)} must equal the product of mesh_shape {shape}. Pass as many devices as the "
            "mesh has places."
        )
    if found[-1].platform == "gpu":
        found.sort(key=lambda device: device.id)
    return _array(found).reshape(shape)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """A mesh of meshes: devices that are near each other along the inner axes of each dimension, others outside.

    Devices are near if they have the same ``slice_index``, or with ``process_is_granule`` if they belong to one
    process. Each such group is a mesh of ``mesh_shape``, and the groups, sorted unless
    ``should_sort_granules_by_key`` is false, are laid out as ``dcn_mesh_shape``.

    Returns:
      An array of devices whose shape is the product of the two, dimension by dimension.

    Raises:
      ValueError: devices do not tell their group, or the numbers of groups and of devices do not fit.
    """
    found = list(all_devices() if devices is None else devices)
    attribute = "process_index" if process_is_granule else "slice_index"
    if not hasattr(found[0], attribute):
        raise ValueError(
            f"Device {found[0]} does not have attribute {attribute}. See the option process_is_granule: True groups "
            "devices by their process."
        )
    groups: dict[int, list[Any]] = {}
    for device in found:
        groups.setdefault(getattr(device, attribute), []).append(device)
    keys = sorted(groups) if should_sort_granules_by_key else list(groups)
    outer = tuple(map(operator.index, dcn_mesh_shape))
    if math.prod(outer) != len(keys):
        raise ValueError(
            f"Number of slices {len(keys)} must equal the product of dcn_mesh_shape {outer}. Pass a shape with a place "
            "for each slice."
        )
    inner = [create_device_mesh(mesh_shape, groups[key]) for key in keys]
    size = max(len(outer), inner[0].ndim)
    outer = (1,) * (size - len(outer)) + outer
    inner_shape = (1,) * (size - inner[0].ndim) + inner[0].shape
    # dimensions (outer 0, inner 0, outer 1, inner 1, ...), of which each pair becomes one
    blocks = np.stack([each.reshape(inner_shape) for each in inner]).reshape(outer + inner_shape)
    pairs = [axis for i in range(size) for axis in (i, size + i)]
    return blocks.transpose(pairs).reshape([a * b for a, b in zip(outer, inner_shape, strict=True)])


def _array(devices: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(devices), object)
    array[:] = devices
    return array
