"""Arrays put together of what lies, or is to lie, on devices: ``make_array_from_callback`` and its like.

One device has all of an array here, or each of several has (see ``core.shardings``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.api.devices import device_put
from minijax.backend import pjrt
from minijax.config import x64_enabled
from minijax.core.array import Array, as_array
from minijax.core.avals import ShapedArray
from minijax.core.dtypes import canonicalize_dtype
from minijax.core.layouts import Format
from minijax.core.shardings import Sharding, only_device
from minijax.core.trace import Tracer
from minijax.errors import UnexpectedTracerError
from minijax.ops.sharded import DeviceLayout, ShardedArray, devices_of, placed
from minijax.pytree import broadcast_prefix, tree_flatten, tree_unflatten

__all__ = [
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
]


def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[[Any], Any], dtype: Any = None
) -> Array:
    """An array of ``shape`` whose parts on this process's devices are ``data_callback(index)``.

    Args:
      shape: of the whole array.
      sharding: a ``Sharding`` or a ``Format``, on one device or with all of the array on each of several.
      data_callback: given the index of a part, a tuple of slices; returns what can be an array.
      dtype: what the parts must have.

    Raises:
      TypeError: ``sharding`` is none. ValueError: a part's shape or dtype is not the one expected.
      UnexpectedTracerError: the callback returned a tracer. NotImplementedError: a sharding that divides the array.
    """
    shape, name = tuple(shape), "make_array_from_callback"
    sharding = sharding.place_for(len(shape)) if isinstance(sharding, Format) else sharding
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"sharding should be an instance of `jax.sharding`. Got {sharding} of type {type(sharding)}. Wrap a device "
            "as sharding.SingleDeviceSharding(device)."
        )
    if not sharding.is_fully_replicated:
        only_device(sharding)  # refuses several
    part = data_callback((slice(None),) * len(shape))
    if isinstance(part, Tracer):
        raise UnexpectedTracerError(
            f"{name} puts values on a device, but its callback returned the tracer {part}. Call it outside of "
            "transformed functions."
        )
    array = as_array(part)
    _check(array, shape, dtype, sharding, name)
    return _on(sharding, array)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Any], *, dtype: Any = None
) -> Array:
    """The array of ``shape`` whose part on each of this process's devices is one of ``arrays``, which lie there.

    Raises:
      TypeError: ``arrays`` is no list or tuple, or holds something else than arrays. ValueError: a part's shape, dtype
      or device is not the one expected. NotImplementedError: a sharding that divides the array.
    """
    shape, name = tuple(shape), "make_array_from_single_device_arrays"
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"{name} `arrays` argument must be a list or tuple, but got {type(arrays)}.")
    if not arrays and dtype is None:
        raise ValueError(
            f"If the Array has no addressable shards, `dtype` must be provided via the `dtype` argument to {name}."
        )
    for each in arrays:
        if isinstance(each, Tracer):
            raise ValueError(f"{name} requires a list of concrete arrays as input, but got {each}.")
        if not isinstance(each, Array):
            raise TypeError(
                f"Unsupported type for elements in `arrays`: {type(each)}. Put each part on its device: device_put."
            )
        _check(each, sharding.shard_shape(shape), dtype, sharding, name)
    found = set().union(*map(devices_of, arrays))
    wanted = sharding.addressable_devices
    if found != wanted or len(arrays) != len(wanted):
        raise ValueError(
            f"Addressable devices and per-device arrays devices do not match: the sharding is for {_ids(wanted)}, and "
            f"{len(arrays)} arrays lie on {_ids(found)}. Put each part on its device with device_put."
        )
    if not sharding.is_fully_replicated:
        only_device(sharding)  # refuses several
    return _on(sharding, arrays[0])


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """The tree ``local_data`` of what this process has of arrays, as arrays that lie as ``sharding`` says.

    ``sharding`` may be a tree that is a prefix of ``local_data``, and so may ``global_shape``, which is for several
    processes: one alone has all of each array, and ValueError is raised if its shape is another one.
    """
    leaves, tree = tree_flatten(local_data)
    shapes = broadcast_prefix(global_shape, local_data, lambda x: x is None or isinstance(x, tuple))
    places = broadcast_prefix(sharding, local_data)
    for data, shape in zip(leaves, shapes, strict=True):
        if shape is not None and tuple(shape) != np.shape(data):
            raise ValueError(
                "When calling `make_array_from_process_local_data` on a single process, global_shape should be None or "
                f"equal to local_data.shape. Got global_shape={shape} and local_data.shape={np.shape(data)}."
            )
    return tree_unflatten(tree, map(device_put, leaves, places))


def _check(part: Array, shape: tuple[int, ...], dtype: Any, sharding: Sharding, name: str) -> None:
    """ValueError unless ``part`` is of this shape, and of ``dtype`` if that is given."""
    if dtype is not None and canonicalize_dtype(np.dtype(dtype), x64_enabled()) != part.dtype:
        raise ValueError(
            f"If `dtype` is provided to `{name}`, it must match the dtype of the addressable shards. Got dtype="
            f"{np.dtype(dtype)} and shard dtype={part.dtype}. Convert the parts first."
        )
    if part.shape != shape:
        raise ValueError(
            f"Expected shard shape {shape} doesn't match the single device array shape {part.shape}, of an array with "
            f"sharding {sharding}. Return the part that the index names."
        )


def _on(sharding: Sharding, array: Array) -> Array:
    """All of ``array`` on each device of ``sharding``."""
    aval = ShapedArray(array.shape, array.dtype)
    array = Array(array._value(), aval) if array.aval.weak_type else array
    if sharding.num_devices == 1:
        return placed(array, only_device(sharding))
    devices = tuple(sharding.devices_indices_map(array.shape))
    local = sum(map(pjrt.is_local, devices))
    pieces = pjrt.put_shards([np.asarray(array._value())] * local, devices, aval=aval, owned=True)
    return ShardedArray(pieces, aval, DeviceLayout(devices, None))


def _ids(devices: set[Any]) -> str:
    return f"devices {sorted(device.id for device in devices)}"
