"""Places arrays on one device or shards them over several, and moves arrays between devices.

A ``core.array.MeshArray`` has a sharding, and results computed from it stay on its devices.
"""

from __future__ import annotations

from typing import Any

from minijax.backend import pjrt
from minijax.core import lazy
from minijax.core.array import HELD, Array, CommittedArray, MeshArray, as_array, device_array
from minijax.core.avals import ShapedArray
from minijax.core.lazy import HigherModule
from minijax.core.trace import Tracer
from minijax.ops.call import default_place, to_buffer

_partitioned = HigherModule("partitioned_programs")

_HOST: Any = Array.__dict__["_np"]
_DEVICE: Any = Array.__dict__["_buffer"]


class Shard:
    """One device's part of an array: ``data`` is ``array[index]``, or None for another process's device. ``replica_id``
    numbers the devices that hold equal parts."""

    __slots__ = ("device", "index", "replica_id", "data")

    def __init__(self, device: Any, index: tuple[slice | int, ...], replica_id: int, data: Array | None) -> None:
        self.device = device
        self.index = index
        self.replica_id = replica_id
        self.data = data

    def __repr__(self) -> str:
        where = f"device={self.device!r}, index={self.index}, replica_id={self.replica_id}"
        return f"Shard({where}, data={self.data})"


class PlacedArray(Array):
    """An uncommitted array on a ``default_device`` other than the first device."""

    __slots__ = ("there", "place")

    there: Any
    place: Any

    def __init__(self, there: Any, aval: ShapedArray, place: Any) -> None:
        self.there = there
        self.aval = aval
        self.place = place

    # The slots ``_np`` and ``_buffer`` of an Array; here they are filled at first use.

    @property
    def _np(self) -> Any:  # type: ignore[override]
        try:
            return _HOST.__get__(self)
        except AttributeError:
            value = CommittedArray(self.there, self.aval, self.place)._value()
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

    def block_until_ready(self) -> PlacedArray:
        """Wait until this array has been computed; return it."""
        pjrt.block_until_ready(self.there)
        return self


def there(x: Any) -> Any:
    """Return a ``CommittedArray`` as an uncommitted array on its device, and anything else unchanged."""
    if type(x) is not CommittedArray:
        return x  # unchanged too: an array over a mesh stays committed
    return PlacedArray(x._buffer, x.aval, x.device)


def on_device(buffer: Any, aval: ShapedArray, device: Any) -> Array:
    """The array in ``buffer`` on ``device``: committed, unless there is only one device."""
    if len(pjrt.local_devices()) == 1:
        return device_array(buffer, aval)
    pjrt.note_committed()
    return CommittedArray(buffer, aval, device)


def placed(x: Any, place: Any) -> Any:
    """``x`` as an array on ``place``, a device or a sharding. A tracer is returned unchanged."""
    if isinstance(x, Tracer):
        return x
    array = as_array(x)
    if not hasattr(place, "platform"):
        sharding = lazy.public("minijax.core.shardings", "concrete")(place)
        if not isinstance(sharding, lazy.public("minijax.core.shardings", "SingleDeviceSharding")):
            return over_mesh(array, sharding)
        (place,) = sharding.assignment
    if type(array) is MeshArray:
        array = Array(array._value(), array.aval)
    return on_device(pjrt.transfer(to_buffer(array), place), array.aval, place)


def mesh_array(buffer: Any, aval: ShapedArray, sharding: Any) -> MeshArray:
    pjrt.note_committed()
    return MeshArray(buffer, aval, sharding)


def over_mesh(x: Array, sharding: Any) -> MeshArray:
    """``x`` with ``sharding``; ``x`` itself if this is its sharding. ValueError if it does not divide a dimension."""
    sharding.shard_shape(x.aval.shape)
    spec = getattr(sharding, "spec", None)
    if spec is not None and spec.unreduced:
        raise NotImplementedError(
            f"An array cannot be placed with unreduced axes, as in {sharding}. Place it without them, then call "
            "sharding.reshard."
        )
    if type(x) is MeshArray:
        if x.device.is_equivalent_to(sharding, x.aval.ndim):
            return x if x.device == sharding else mesh_array(x._buffer, x.aval, sharding)
        if not x.device.is_fully_addressable:
            return _partitioned.moved(x, sharding)  # type: ignore[no-any-return]
    value = x._value()
    return mesh_array(lazy.public("minijax.backend.spmd", "put_over")(value, sharding, x.aval), x.aval, sharding)


def sharding_of(x: Array) -> Any:
    """The sharding of ``x``. An array on the host has the sharding of the device where it would be put."""
    if type(x) is MeshArray:
        return x.device
    return lazy.public("minijax.core.shardings", "SingleDeviceSharding")(device_of(x))


def addressable_shards(x: Array) -> list[Shard]:
    """The parts of ``x`` on this process's devices."""
    if type(x) is MeshArray:
        return [shard for shard in global_shards(x) if shard.data is not None]
    return [Shard(device_of(x), (slice(None),) * x.ndim, 0, x)]


def global_shards(x: Array) -> list[Shard]:
    """The parts of ``x`` on all devices. Parts of other processes have no data."""
    if type(x) is not MeshArray:
        return addressable_shards(x)
    sharding, shape = x.device, x.aval.shape
    plain = lazy.public("minijax.core.explicit", "plain_type")(x.aval)  # one device's part is not sharded
    inner = plain.update(shape=sharding.shard_shape(shape))
    buffers = lazy.public("minijax.backend.spmd", "parts")(x._buffer, inner)
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
    """Part number ``index`` of the parts of ``x`` on this process's devices."""
    data = addressable_shards(x)[index].data
    assert data is not None, "an addressable shard has data"
    return data


def is_fully_addressable(x: Array) -> bool:
    """Whether this process has every part of ``x``."""
    return type(x) is not MeshArray or x.device.is_fully_addressable


def is_fully_replicated(x: Array) -> bool:
    """Whether each device of ``x`` has the whole array."""
    return type(x) is not MeshArray or x.device.is_fully_replicated


def devices_of(x: Array) -> set[Any]:
    """The devices of the array."""
    return set(x.assignment) if type(x) is MeshArray else {device_of(x)}


def device_of(x: Array) -> Any:
    """The device of ``x``, or its sharding over several devices. A host array has the device where it would be put."""
    if type(x) is MeshArray:
        return x.device if len(x.assignment) > 1 else x.assignment[0]
    if type(x) is PlacedArray:
        return x.place
    if x.on_device:
        return pjrt.buffer_device(x._buffer)
    return default_place() or pjrt.local_devices()[0]


def is_committed(x: Array) -> bool:
    """Whether the array is committed to its device or sharding."""
    return type(x) in HELD
