"""Build arrays from parts on devices: ``make_array_from_callback`` and similar functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.api.devices import device_put
from minijax.backend import spmd
from minijax.config import x64_enabled
from minijax.core.array import Array, MeshArray, as_array
from minijax.core.avals import ShapedArray
from minijax.core.dtypes import canonicalize_dtype, float0
from minijax.core.keys import is_key, words_of
from minijax.core.layouts import Format
from minijax.core.meshes import Mesh
from minijax.core.shardings import NamedSharding, Sharding, SingleDeviceSharding
from minijax.core.trace import Tracer
from minijax.errors import UnexpectedTracerError
from minijax.ops.sharded import devices_of, mesh_array, placed
from minijax.pytree import broadcast_prefix, tree_flatten, tree_unflatten


def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[[Any], Any], dtype: Any = None
) -> Array:
    """An array of ``shape`` whose parts on this process's devices are ``data_callback(index)``, one call per part.

    ``sharding``: a ``Sharding`` or a ``Format``. ``index``: a tuple of slices. ``dtype``: the expected dtype of parts.
    TypeError if ``sharding`` is neither, ValueError for a part of another type, UnexpectedTracerError for a tracer.
    """
    shape, name = tuple(shape), "make_array_from_callback"
    sharding = sharding.place_for(len(shape)) if isinstance(sharding, Format) else sharding
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"sharding should be an instance of `jax.sharding`. Got {sharding} of type {type(sharding)}. Wrap a device "
            "as sharding.SingleDeviceSharding(device)."
        )
    inner = sharding.shard_shape(shape)
    made: dict[Any, Array] = {}
    parts = []
    for index in sharding.addressable_devices_indices_map(shape).values():
        key = tuple((each.start, each.stop) for each in index)
        if key not in made:
            part = data_callback(index)
            if isinstance(part, Tracer):
                raise UnexpectedTracerError(
                    f"{name} puts values on a device, but its callback returned the tracer {part}. Call it outside of "
                    "transformed functions."
                )
            made[key] = as_array(part)
            _check(made[key], inner, dtype, sharding, name)
        parts.append(made[key])
    return _of_parts(shape, sharding, parts, dtype)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Any], *, dtype: Any = None
) -> Array:
    """The array of ``shape`` whose parts are ``arrays``, one on each of this process's devices.

    TypeError unless ``arrays`` is a list or tuple of arrays; ValueError for a part of wrong shape, dtype or device.
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
            f"{len(arrays)} arrays are on {_ids(found)}. Put each part on its device with device_put."
        )
    on = {device: each for each in arrays for device in devices_of(each)}
    return _of_parts(shape, sharding, [on[device] for device in sharding.local_devices], dtype)


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """Arrays with ``sharding``, made of ``local_data``, a tree of this process's parts.

    ``sharding`` and ``global_shape`` may be prefixes of ``local_data``. By default ``global_shape`` has room for the
    parts of all processes. ValueError for data that fits neither the whole array nor this process's parts.
    """
    leaves, tree = tree_flatten(local_data)
    shapes = broadcast_prefix(global_shape, local_data, lambda x: x is None or isinstance(x, tuple))
    places = broadcast_prefix(sharding, local_data)
    return tree_unflatten(tree, map(_from_local, leaves, shapes, places))


def _from_local(data: Any, shape: tuple[int, ...] | None, sharding: Any) -> Any:
    if shape is not None and sharding.is_fully_addressable and tuple(shape) != np.shape(data):
        raise ValueError(
            "When calling `make_array_from_process_local_data` on a single process, global_shape should be None or "
            f"equal to local_data.shape. Got global_shape={shape} and local_data.shape={np.shape(data)}."
        )
    if sharding.is_fully_addressable:
        return device_put(data, sharding)
    value = np.asarray(data)
    counts = sharding.tiles(value.ndim).shape[:-1]
    at = {place for place, device in enumerate(sharding.assignment) if device in sharding.addressable_devices}
    tiles = sharding.tiles(value.ndim)
    held = [part[:-1] for part in np.ndindex(tiles.shape) if int(tiles[part]) in at]
    # for each dimension, the indices of this process's parts
    mine = [sorted({part[dim] for part in held}) for dim in range(value.ndim)]
    if shape is None:
        shape = tuple(size * count // len(own) for size, count, own in zip(value.shape, counts, mine, strict=True))
    shape = tuple(shape)
    sizes = sharding.shard_shape(shape)

    def part_of(index: Any) -> Any:
        picked = []
        for dim, each in enumerate(index):
            if value.shape[dim] == shape[dim] or each == slice(None):
                picked.append(each)
            elif value.shape[dim] == sizes[dim] * len(mine[dim]):
                first = mine[dim].index(each.start // sizes[dim]) * sizes[dim]
                picked.append(slice(first, first + sizes[dim]))
            else:
                raise ValueError(
                    f"Local data of shape {value.shape} is neither all of an array of shape {shape} nor the parts of "
                    f"it that this process's devices have with {sharding}, along dimension {dim}."
                )
        return value[tuple(picked)]

    return make_array_from_callback(shape, sharding, part_of)


def host_local_to_global(x: Any, sharding: NamedSharding) -> Any:
    """The array with ``sharding`` from this process's part ``x``; a multi-process array passes unchanged."""
    if getattr(x, "dtype", None) == float0:
        return np.zeros(_whole_shape(x, sharding), float0)
    array = as_array(x)
    if type(array) is MeshArray and not array.device.is_fully_addressable:
        return array
    own = _own(sharding)
    aval = array.aval.update(shape=_whole_shape(array, sharding))
    inner = aval.update(shape=sharding.shard_shape(aval.shape))
    if type(array) is MeshArray and array.device.is_equivalent_to(own, array.ndim):
        return mesh_array(spmd.put_together(spmd.parts(array._buffer, inner), sharding, aval), aval, sharding)
    value = array._value()
    if is_key(aval.dtype):
        value = words_of(value, aval.dtype)
    value, places = np.asarray(value), own.devices_indices_map(array.shape)
    parts = [value[places[device]] for device in sharding.local_devices]
    return mesh_array(spmd.put_parts(parts, sharding, aval), aval, sharding)


def _own(sharding: NamedSharding) -> NamedSharding:
    """The sharding of this process's part of an array with ``sharding``."""
    mesh = sharding.mesh
    assert isinstance(mesh, Mesh), "arrays are on devices"
    return NamedSharding(mesh.local_mesh, sharding.spec)


def _whole_shape(x: Any, sharding: NamedSharding) -> tuple[int, ...]:
    """The shape over all processes of the array whose local part is ``x``."""
    own = _own(sharding)
    counts = sharding.tiles(len(x.shape)).shape[:-1]
    return tuple(size * count for size, count in zip(own.shard_shape(x.shape), counts, strict=True))


def global_to_host_local(x: Any) -> Any:
    """Return this process's part of a multi-process array, and other values unchanged."""
    if type(x) is not MeshArray or x.device.is_fully_addressable:
        return x
    own = _own(x.device)
    inner = x.aval.update(shape=x.device.shard_shape(x.aval.shape))
    pieces = spmd.parts(x._buffer, inner)
    counts = own.tiles(x.ndim).shape[:-1]
    aval = x.aval.update(shape=tuple(size * count for size, count in zip(inner.shape, counts, strict=True)))
    return mesh_array(spmd.put_together(pieces, own, aval), aval, own)


def _check(part: Array, shape: tuple[int, ...], dtype: Any, sharding: Sharding, name: str) -> None:
    """ValueError unless ``part`` has this shape, and this ``dtype`` if given."""
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


def _of_parts(shape: tuple[int, ...], sharding: Sharding, parts: Sequence[Array], dtype: Any) -> Array:
    """The array of ``shape`` from ``parts`` on this process's devices, in the order of the devices."""
    if not parts:
        aval = ShapedArray(shape, canonicalize_dtype(np.dtype(dtype), x64_enabled()))
    else:
        aval = ShapedArray(shape, parts[0].dtype)
    if isinstance(sharding, SingleDeviceSharding):
        only = parts[0]
        (device,) = sharding.assignment
        return placed(Array(only._value(), aval) if only.aval.weak_type else only, device)
    values = [part._value() for part in parts]
    if is_key(aval.dtype):
        values = [words_of(value, aval.dtype) for value in values]
    return mesh_array(spmd.put_parts([*map(np.asarray, values)], sharding, aval), aval, sharding)


def _ids(devices: set[Any]) -> str:
    return f"devices {sorted(device.id for device in devices)}"
