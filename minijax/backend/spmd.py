"""Arrays and programs over several devices, as jaxlib takes them: what a sharding is to XLA, parts put and gathered.

In: ``core.shardings``. Out: buffers over the devices of a sharding, whose ``aval`` is that of the whole array. Nothing
here imports jax but ``parts``, which jaxlib imports it for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.backend.client import Runtime, runtime
from minijax.backend.failures import deleted_error, put_error, runtime_error
from minijax.backend.pjrt import Buffer, Device, buffer_device, to_numpy
from minijax.core import dtypes
from minijax.core.avals import ShapedArray, physical_aval
from minijax.core.keys import is_key, keys_of, words_of
from minijax.core.meshes import are_simulated
from minijax.core.shardings import (
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    TiledSharding,
    named_like,
)

__all__ = ["Division", "gather", "parts", "put_over", "put_parts", "xla_sharding"]


def _hlo_sharding(rt: Runtime, sharding: Sharding, ndim: int) -> Any:
    """XLA's description of ``sharding`` for arrays of ``ndim`` dimensions."""
    tiles = sharding.tiles(ndim)
    if tiles.shape[-1] == tiles.size:
        return rt.xla_client.HloSharding.replicate()
    op = rt.xla_client.OpSharding()
    op.type = rt.xla_client.OpSharding.Type.OTHER
    replicated = tiles.shape[-1] > 1
    op.tile_assignment_dimensions = list(tiles.shape if replicated else tiles.shape[:-1])
    op.tile_assignment_devices = [*map(int, tiles.flat)]
    op.replicate_on_last_tile_dim = replicated
    return rt.xla_client.HloSharding.from_proto(op)


# sharding -> what jaxlib takes for it; as many as have been used
_known: dict[Sharding, Any] = {}
MOST_KNOWN = 4096


def xla_sharding(sharding: Sharding) -> Any:
    """The object of jaxlib's for ``sharding``, which says how an array of any rank is divided."""
    found = _known.get(sharding)
    if found is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        rt, devices = runtime(), sharding.assignment
        if len(devices) == 1:
            found = rt.on(devices[0])
        else:
            found = rt.spread(devices, lambda ndim: _hlo_sharding(rt, sharding, ndim))
        _known[sharding] = found
    return found


def put_parts(arrays: Sequence[Any], sharding: Sharding, aval: ShapedArray) -> Buffer:
    """The array of type ``aval`` of which ``arrays`` are the parts on this process's devices, in their order.

    Args:
      arrays: NumPy arrays that nobody writes to any more; words, if ``aval`` is of keys.
      sharding: over all devices.
    """
    rt = runtime()
    if aval.dtype == dtypes.float0:
        # on devices they are booleans that nobody reads
        arrays, aval = [np.zeros(part.shape, bool) for part in arrays], aval.update(dtype=np.dtype(bool))
    try:
        # with other semantics jaxlib calls a function that it has not been given
        return rt.put(
            physical_aval(aval),
            xla_sharding(sharding),
            list(arrays),
            list(sharding.local_devices),
            True,
            False,
            rt.aliasing,
            True,
        )
    except rt.error as error:
        raise put_error(error, arrays[0]) from None


def put_over(value: Any, sharding: Sharding, aval: ShapedArray) -> Buffer:
    """The NumPy value of an array of type ``aval``, to which nobody writes, divided as ``sharding`` says."""
    if is_key(aval.dtype):
        value = words_of(value, aval.dtype)
    value = np.asarray(value)
    if sharding.is_fully_replicated:
        return put_parts([value] * len(sharding.local_devices), sharding, aval)
    places = sharding.devices_indices_map(aval.shape)
    return put_parts([value[places[device]] for device in sharding.local_devices], sharding, aval)


def placer(sharding: Sharding, aval: ShapedArray) -> Callable[[Any, bool], Buffer]:
    """``put_over`` for many NumPy values of one type, of no keys: what does not depend on the value is found once.

    With the second argument the caller promises that nobody writes to the value any more.
    """
    rt, devices, lies = runtime(), list(sharding.local_devices), xla_sharding(sharding)
    found = sharding.addressable_devices_indices_map(aval.shape)
    places = None if sharding.is_fully_replicated else [found[device] for device in devices]
    count = len(devices)

    def place(value: Any, owned: bool) -> Buffer:
        if not owned:  # with other semantics jaxlib calls a function that it has not been given
            value = np.array(value)
        values = [value] * count if places is None else [value[at] for at in places]
        try:
            return rt.put(aval, lies, values, devices, True, False, rt.aliasing, True)
        except rt.error as error:
            raise put_error(error, values[0]) from None

    return place


def parts(buffer: Buffer, aval: ShapedArray) -> list[Buffer]:
    """The one-device buffers, of parts of type ``aval``, of a buffer over several devices; a copy of nothing."""
    rt = runtime()
    if buffer.is_deleted():
        raise deleted_error(buffer)
    if hasattr(buffer._sharding, "_device"):
        return [buffer]
    aval = physical_aval(aval)
    result = []
    for piece in buffer._arrays:
        device = buffer_device(piece)
        result.append(rt.put(aval, rt.on(device), [piece], [device], True, False, rt.copying, True))
    return result


def put_together(pieces: Sequence[Buffer], sharding: Sharding, aval: ShapedArray) -> Buffer:
    """The buffer of an array of type ``aval`` of those on this process's devices, in their order; a copy of nothing."""
    if sharding.num_devices == 1:
        return pieces[0]
    return runtime().xla.ArrayImpl(physical_aval(aval), xla_sharding(sharding), list(pieces), True, True)


def gather(buffer: Buffer, sharding: Sharding, aval: ShapedArray) -> Any:
    """The NumPy value of a buffer over several devices; it may be read only. Waits for it.

    RuntimeError if other processes have parts of it that this one has not.
    """
    shape = physical_aval(aval).shape
    whole = aval.update(shape=sharding.shard_shape(aval.shape))
    if not (sharding.is_fully_addressable or sharding.is_fully_replicated):
        raise RuntimeError(
            "Fetching value for `jax.Array` that spans non-addressable (non process local) devices is not possible. "
            "Look at its addressable_shards, or gather it first with "
            "`experimental.multihost_utils.process_allgather`."
        )
    rt = runtime()
    try:
        pieces = parts(buffer, whole)
        if sharding.is_fully_replicated:
            value = to_numpy(pieces[0])
        else:
            places = sharding.devices_indices_map(aval.shape)
            value = np.empty(shape, physical_aval(aval).dtype)
            if value.size:  # of an array without elements XLA keeps all on every device, whatever was asked
                for device, piece in zip(sharding.local_devices, pieces, strict=True):
                    value[places[device]] = to_numpy(piece)
            value.flags.writeable = False
    except rt.error as error:
        raise runtime_error(error, "fetching a buffer") from None
    return keys_of(value, aval.dtype) if is_key(aval.dtype) else value


class Division:
    """How a program is divided among devices: what its caller says of it and, once it is compiled, what XLA chose.

    Attributes:
      devices: in the order of the program's partitions.
      mesh: over which XLA's choices are described; None if the caller has named none.
      ins, outs: the sharding of each argument and result; None, until it is compiled, for what XLA chooses.
      first: the sharding of the first argument, if it was named, and the number of its dimensions: a result of as
        many that lies likewise is said to lie so.
      named: which results have a type that names the mesh, so that all their dimensions are.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        mesh: Any,
        ins: Sequence[Sharding | None],
        outs: Sequence[Sharding | None],
        first: tuple[Sharding, int] | None = None,
        named: Sequence[bool] = (),
    ) -> None:
        self.devices = tuple(devices)
        self.mesh = mesh
        self.ins = list(ins)
        self.outs = list(outs)
        self.first = first
        self.named = [*named] or [False] * len(self.outs)

    @property
    def free(self) -> tuple[list[bool], list[bool]]:
        """Which arguments and results XLA may divide as it likes."""
        return [each is None for each in self.ins], [each is None or _partly_free(each) for each in self.outs]

    @property
    def simulated(self) -> bool:
        """Whether the devices are those of a mesh without devices."""
        return are_simulated(self.devices)

    def results(self, loaded: Any, out_avals: Sequence[ShapedArray]) -> list[Any]:
        """Note what XLA chose for the program ``loaded``; returns what jaxlib takes for the results' shardings.

        Nothing is returned if the devices are simulated: there will be no results.
        """
        if None in self.ins:
            # the arguments' ranks are not known to XLA's description if it is "all of it everywhere"
            found = loaded.get_parameter_shardings()
            self.ins = [
                self._chosen(None if found is None else found[i], None) if each is None else each
                for i, each in enumerate(self.ins)
            ]
        found = loaded.get_output_shardings() if None in self.outs else None
        self.outs = [
            _written(self._chosen(None if found is None else found[i], aval.ndim) if each is None else each, aval, name)
            for i, (each, aval, name) in enumerate(zip(self.outs, out_avals, self.named, strict=True))
        ]
        return [] if self.simulated else [*map(xla_sharding, self.outs)]  # type: ignore[arg-type]

    def _chosen(self, op: Any, ndim: int | None) -> Sharding:
        tiles = _tiles(runtime(), op, len(self.devices), ndim)
        if self.mesh is None:
            return SingleDeviceSharding(*self.devices) if len(self.devices) == 1 else TiledSharding(self.devices, tiles)
        found = named_like(self.mesh, tiles)
        if self.first is not None and self.first[1] == ndim and self.first[0].is_equivalent_to(found, ndim):
            return self.first[0]
        return found


def _written(sharding: Sharding, aval: ShapedArray, named: bool) -> Sharding:
    """``sharding`` as JAX writes it for a result of type ``aval``: of keys over devices all dimensions are named.

    So are those of others that lie whole on each device, if they are ``named``.
    """
    if not isinstance(sharding, NamedSharding):
        return sharding
    if not (is_key(aval.dtype) and sharding.mesh.size > 1 or named and sharding.is_fully_replicated):
        return sharding
    return sharding.with_spec(sharding.spec.padded(aval.ndim))


def _partly_free(sharding: Sharding) -> bool:
    return PartitionSpec.UNCONSTRAINED in getattr(sharding, "spec", ())


def _tiles(rt: Runtime, op: Any, count: int, ndim: int | None) -> np.ndarray:
    """``Sharding.tiles`` of what XLA calls ``op``, for arrays of ``ndim`` dimensions, or of as many as it says."""
    hlo = None if op is None else rt.xla_client.HloSharding.from_proto(op)
    if hlo is None or count == 1 or hlo.is_replicated():
        return np.arange(count).reshape((1,) * (ndim or 0) + (-1,))
    if not hlo.is_tiled():
        raise RuntimeError(f"XLA has placed an array in a way that has no name here: {hlo}.")
    dims = hlo.tile_assignment_dimensions()
    rank = len(dims) - hlo.replicate_on_last_tile_dim() if ndim is None else ndim
    # the words of a key are not divided
    return np.asarray(hlo.tile_assignment_devices()).reshape(*dims[:rank], -1)
