"""Arrays that lie on several devices, one shard on each: as ``pmap`` returns them, or as a sharding says.

A ``ShardedArray`` is what ``pmap`` returns: whoever asks for its value or its one-device buffer gets it, gathered once.
A ``pmap`` that wants just these shards on just these devices takes them as they are. A ``core.array.MeshArray`` lies as
its sharding says, and so does what is computed with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.backend import pjrt
from minijax.core import late
from minijax.core.array import HELD, Array, CommittedArray, MeshArray, as_array, device_array
from minijax.core.avals import ShapedArray
from minijax.core.keys import is_key, keys_of
from minijax.core.named import NamedTuple
from minijax.core.trace import Tracer
from minijax.ops.call import default_place, set_uncommit, to_buffer

_HOST: Any = Array.__dict__["_np"]
_DEVICE: Any = Array.__dict__["_buffer"]


class DeviceLayout(NamedTuple):
    """Where an array lies: one slice along ``axis`` on each of ``devices``, or with ``axis`` None all of it on each."""

    devices: tuple[Any, ...]
    axis: int | None

    @property
    def device_set(self) -> set[Any]:
        return set(self.devices)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return all(map(pjrt.is_local, self.devices))

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device has all of the array."""
        return self.axis is None or len(self.devices) == 1


class Shard:
    """One device's part of an array: ``data`` is ``array[index]``, None if the device is another process's.

    ``replica_id`` counts the devices that have the same part.
    """

    __slots__ = ("device", "index", "replica_id", "data")

    def __init__(self, device: Any, index: tuple[slice | int, ...], replica_id: int, data: Array | None) -> None:
        self.device = device
        self.index = index
        self.replica_id = replica_id
        self.data = data

    def __repr__(self) -> str:
        where = f"device={self.device!r}, index={self.index}, replica_id={self.replica_id}"
        return f"Shard({where}, data={self.data})"


class ShardedArray(Array):
    """An array of type ``aval`` in ``pieces``, one PJRT buffer over the devices of ``layout``.

    Along a layout's axis each shard is one element thick and lacks that dimension. With several processes the array
    is what this process has of it.
    """

    __slots__ = ("pieces", "layout")

    pieces: Any
    layout: DeviceLayout

    def __init__(self, pieces: Any, aval: ShapedArray, layout: DeviceLayout) -> None:
        self.pieces = pieces
        self.aval = aval
        self.layout = layout

    # The two slots of an Array, filled at first need: nobody who reads them must know of shards.

    @property
    def _np(self) -> Any:  # type: ignore[override]
        try:
            return _HOST.__get__(self)
        except AttributeError:
            value = self._gather()
            _HOST.__set__(self, value)
            return value

    @property
    def _buffer(self) -> Any:  # type: ignore[override]
        try:
            return _DEVICE.__get__(self)
        except AttributeError:
            buffer = pjrt.put(self._np, aval=self.aval, owned=True)
            _DEVICE.__set__(self, buffer)
            return buffer

    def _gather(self) -> np.ndarray:
        parts = pjrt.shards(self.pieces)
        if self.layout.axis is None:
            value = pjrt.to_numpy(parts[0])
        else:
            value = np.stack([pjrt.to_numpy(part) for part in parts], self.layout.axis)
            value.flags.writeable = False
        return keys_of(value, self.aval.dtype) if is_key(self.aval.dtype) else value

    @property
    def on_host(self) -> bool:
        try:
            _HOST.__get__(self)
        except AttributeError:
            return False
        return True

    @property
    def on_device(self) -> bool:
        return True

    def forget_host_copy(self) -> None:
        """Drop what was gathered: the shards were donated."""
        for slot in (_HOST, _DEVICE):
            try:
                slot.__delete__(self)
            except AttributeError:
                pass

    def block_until_ready(self) -> ShardedArray:
        """Wait until every shard has been computed; returns the array."""
        pjrt.block_until_ready(self.pieces)
        return self

    def shard_arrays(self) -> list[Array]:
        """The shards of this process, each an ``Array`` on its device, without the sharded dimension."""
        shape, axis = self.aval.shape, self.layout.axis
        inner = self.aval if axis is None else self.aval.update(shape=shape[:axis] + shape[axis + 1 :])
        return [on_device(part, inner, pjrt.buffer_device(part)) for part in pjrt.shards(self.pieces)]


class PlacedArray(ShardedArray):
    """An array that lies on another device than the first because that was the default, and that may be moved."""

    __slots__ = ()


def there(x: Any) -> Any:
    """The committed array ``x`` as one that lies where it does and is not committed; anything else as it is."""
    if type(x) is not CommittedArray:
        return x  # what lies over a mesh stays there
    return PlacedArray(pjrt.assemble([x._buffer], [x.device], x.aval), x.aval, DeviceLayout((x.device,), None))


set_uncommit(there)


def on_device(buffer: Any, aval: ShapedArray, device: Any) -> Array:
    """The array in ``buffer``, which the user knows to be on ``device``; with one device that is no choice."""
    if len(pjrt.local_devices()) == 1:
        return device_array(buffer, aval)
    pjrt.note_committed()
    return CommittedArray(buffer, aval, device)


def placed(x: Any, place: Any) -> Any:
    """``x`` as an array on ``place``, a device or a sharding; a tracer as it is."""
    if isinstance(x, Tracer):
        return x
    array = as_array(x)
    if not hasattr(place, "platform"):
        sharding = late.public("minijax.core.shardings", "concrete")(place)
        if not isinstance(sharding, late.public("minijax.core.shardings", "SingleDeviceSharding")):
            return over_mesh(array, sharding)
        (place,) = sharding.assignment
    if type(array) is MeshArray:
        array = Array(array._value(), array.aval)
    return on_device(pjrt.transfer(to_buffer(array), place), array.aval, place)


def mesh_array(buffer: Any, aval: ShapedArray, sharding: Any) -> MeshArray:
    """The array in ``buffer``, which lies as ``sharding`` says."""
    pjrt.note_committed()
    return MeshArray(buffer, aval, sharding)


def over_mesh(x: Array, sharding: Any) -> MeshArray:
    """``x`` divided as ``sharding`` says; itself if it lies so. ValueError if it cannot be divided evenly."""
    sharding.shard_shape(x.aval.shape)
    if type(x) is MeshArray:
        if x.device.is_equivalent_to(sharding, x.aval.ndim):
            return x if x.device == sharding else mesh_array(x._buffer, x.aval, sharding)
        if not x.device.is_fully_addressable:
            return late.public("minijax.ops.meshes.partitioned", "moved")(x, sharding)  # type: ignore[no-any-return]
    value = x._value()
    return mesh_array(late.public("minijax.backend.spmd", "put_over")(value, sharding, x.aval), x.aval, sharding)


def sharding_of(x: Array) -> Any:
    """The sharding of ``x``; an array on the host counts as lying on the device it would be put on."""
    if type(x) is MeshArray:
        return x.device
    layout = layout_of(x)
    if len(layout.devices) > 1:
        return layout
    return late.public("minijax.core.shardings", "SingleDeviceSharding")(layout.devices[0])


def layout_of(x: Array) -> DeviceLayout:
    """The devices that ``x`` lies on; an array on the host counts as lying on the device it would be put on."""
    if isinstance(x, ShardedArray):
        return x.layout
    if type(x) is MeshArray:
        return DeviceLayout(x.assignment, None)
    if x.on_device:
        return DeviceLayout((pjrt.buffer_device(x._buffer),), None)
    return DeviceLayout((default_place() or pjrt.local_devices()[0],), None)


def addressable_shards(x: Array) -> list[Shard]:
    """The parts of ``x`` on this process's devices."""
    if type(x) is MeshArray:
        return [shard for shard in global_shards(x) if shard.data is not None]
    layout = layout_of(x)
    local = [device for device in layout.devices if pjrt.is_local(device)]
    everything: tuple[slice | int, ...] = (slice(None),) * x.ndim
    if not isinstance(x, ShardedArray):
        return [Shard(local[0], everything, 0, x)]
    axis = layout.axis
    parts = x.shard_arrays()
    if axis is None:
        return [Shard(device, everything, i, part) for i, (device, part) in enumerate(zip(local, parts, strict=True))]
    places = [(*everything[:axis], i, *everything[axis + 1 :]) for i in range(len(parts))]
    return [Shard(device, place, 0, part) for device, place, part in zip(local, places, parts, strict=True)]


def global_shards(x: Array) -> list[Shard]:
    """The parts of ``x`` on all devices; of those of other processes, without their data."""
    if type(x) is not MeshArray:
        return addressable_shards(x)
    sharding, shape = x.device, x.aval.shape
    inner = x.aval.update(shape=sharding.shard_shape(shape))
    buffers = late.public("minijax.backend.spmd", "parts")(x._buffer, inner)
    held = {
        device: CommittedArray(buffer, inner, device)
        for device, buffer in zip(sharding.local_devices, buffers, strict=True)
    }
    met: dict[Any, int] = {}
    found = []
    for device, index in sharding.devices_indices_map(shape).items():
        part = tuple((each.start, each.stop) for each in index)
        found.append(Shard(device, index, met.get(part, 0), held.get(device)))
        met[part] = met.get(part, 0) + 1
    return found


def addressable_data(x: Array, index: int) -> Array:
    """The part of ``x`` on this process's device number ``index`` of those that have one."""
    data = addressable_shards(x)[index].data
    assert data is not None, "of an addressable shard"
    return data


def is_fully_addressable(x: Array) -> bool:
    """Whether this process has all of ``x``."""
    return layout_of(x).is_fully_addressable


def is_fully_replicated(x: Array) -> bool:
    """Whether each of its devices has all of ``x``."""
    return x.device.is_fully_replicated if type(x) is MeshArray else layout_of(x).is_fully_replicated


def place_shards(x: Any, axis: int | None, devices: Sequence[Any], inner: ShapedArray, repeat: int = 1) -> Any:
    """The buffer over ``devices`` that holds slice ``i`` of ``x`` along ``axis`` on the i-th (all of it if None).

    Args:
      x: an ``Array`` of canonical dtype, or a ``ShardedArray`` whose shards stay where they are if they fit.
      axis: the axis that is spread over the devices.
      devices: those of the program, in order; ``x`` has a slice for each local one.
      inner: the type of a slice.
      repeat: how many neighbouring devices get the same slice.
    """
    if isinstance(x, ShardedArray) and repeat == 1 and x.layout == (tuple(devices), axis):
        return x.pieces
    known = isinstance(x, Array) and (x.on_host or is_key(x.aval.dtype))
    value = np.asarray(x._value() if known else x)
    count = sum(map(pjrt.is_local, devices))
    if axis is None:
        return pjrt.put_shards([value] * count, devices, aval=inner, owned=True)
    slices = [value[(slice(None),) * axis + (i,)] for i in range(count // repeat)]
    # a slice of one dimension less may be a NumPy scalar
    arrays = [np.asarray(part) for part in slices for _ in range(repeat)]
    return pjrt.put_shards(arrays, devices, aval=inner, owned=True)


def devices_of(x: Array) -> set[Any]:
    """The devices that the array lies on."""
    return layout_of(x).device_set


def device_of(x: Array) -> Any:
    """The device that the array lies on; over a mesh its sharding, as ``pmap`` returns it the first one."""
    return x.device if type(x) is MeshArray and len(x.assignment) > 1 else layout_of(x).devices[0]


def is_committed(x: Array) -> bool:
    """Whether the array is where the user put it, and what is computed with it stays there."""
    return type(x) in HELD or isinstance(x, ShardedArray) and not isinstance(x, PlacedArray)
