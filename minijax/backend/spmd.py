"""Arrays and programs over several devices, by jaxlib: describes shardings for XLA, puts shards and gathers them.

Only ``parts`` imports jax, because the method of jaxlib that it calls does.
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


# sharding -> jaxlib's object for it
_known: dict[Sharding, Any] = {}
MOST_KNOWN = 4096


def xla_sharding(sharding: Sharding) -> Any:
    """jaxlib's object for ``sharding``, for arrays of any rank."""
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
    """The array of type ``aval`` with the shards ``arrays``, one per local device, in order. Keys are raw words."""
    rt = runtime()
    if aval.dtype == dtypes.float0:
        # on devices, float0 is an unused array of booleans
        arrays, aval = [np.zeros(part.shape, bool) for part in arrays], aval.update(dtype=np.dtype(bool))
    try:
        # with ``rt.copying`` jaxlib would call a function that it does not have
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
    """Put a NumPy value of type ``aval`` on the devices of ``sharding``. It must not change: its memory may be used."""
    if is_key(aval.dtype):
        value = words_of(value, aval.dtype)
    value = np.asarray(value)
    if sharding.is_fully_replicated:
        return put_parts([value] * len(sharding.local_devices), sharding, aval)
    places = sharding.devices_indices_map(aval.shape)
    return put_parts([value[places[device]] for device in sharding.local_devices], sharding, aval)


def placer(sharding: Sharding, aval: ShapedArray) -> Callable[[Any, bool], Buffer]:
    """``put_over`` as a function of a value and ``owned`` (see ``pjrt.put``). ``aval`` must not be a type of keys."""
    rt, devices, lies = runtime(), list(sharding.local_devices), xla_sharding(sharding)
    found = sharding.addressable_devices_indices_map(aval.shape)
    places = None if sharding.is_fully_replicated else [found[device] for device in devices]
    count = len(devices)

    def place(value: Any, owned: bool) -> Buffer:
        if not owned:  # with ``rt.copying`` jaxlib would call a function that it does not have
            value = np.array(value)
        values = [value] * count if places is None else [value[at] for at in places]
        try:
            return rt.put(aval, lies, values, devices, True, False, rt.aliasing, True)
        except rt.error as error:
            raise put_error(error, values[0]) from None

    return place


def parts(buffer: Buffer, aval: ShapedArray) -> list[Buffer]:
    """The shards of a buffer over several devices, as one-device buffers of type ``aval``, without a copy."""
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
    """The buffer of an array of type ``aval`` made of this process's shards, in order of devices, without a copy."""
    if sharding.num_devices == 1:
        return pieces[0]
    return runtime().xla.ArrayImpl(physical_aval(aval), xla_sharding(sharding), list(pieces), True, True)


def gather(buffer: Buffer, sharding: Sharding, aval: ShapedArray) -> Any:
    """Wait for a buffer over several devices; return its value, read-only. RuntimeError if this process lacks parts."""
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
            if value.size:  # XLA replicates an array without elements, whatever its sharding
                for device, piece in zip(sharding.local_devices, pieces, strict=True):
                    value[places[device]] = to_numpy(piece)
            value.flags.writeable = False
    except rt.error as error:
        raise runtime_error(error, "fetching a buffer") from None
    return keys_of(value, aval.dtype) if is_key(aval.dtype) else value


class Partitioning:
    """How a program is partitioned over ``devices``: the caller's shardings and, once it is compiled, XLA's choices.

    ``mesh``: the mesh whose axes describe XLA's choices, or None. ``ins``, ``outs``: shardings; None means that XLA
    chooses. ``first``: sharding and rank of the first argument; a result with equal tiles gets this sharding.
    ``named``: for each result, whether its spec has an entry for each dimension if the result is replicated.
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
        """For each argument, and for each result, whether XLA chooses its sharding."""
        return [each is None for each in self.ins], [each is None or _partly_free(each) for each in self.outs]

    @property
    def simulated(self) -> bool:
        """Whether the devices are simulated, for an abstract mesh."""
        return are_simulated(self.devices)

    def results(self, loaded: Any, out_avals: Sequence[ShapedArray]) -> list[Any]:
        """Store XLA's choices for the program ``loaded``. Return jaxlib's result shardings, [] if simulated."""
        if None in self.ins:
            # XLA's description of a replicated argument does not contain the argument's rank
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
    """``sharding`` as JAX writes it: for keys, or if ``named`` and replicated, its spec has an entry per dimension."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    if not (is_key(aval.dtype) and sharding.mesh.size > 1 or named and sharding.is_fully_replicated):
        return sharding
    return sharding.with_spec(sharding.spec.padded(aval.ndim))


def _partly_free(sharding: Sharding) -> bool:
    return PartitionSpec.UNCONSTRAINED in getattr(sharding, "spec", ())


def _tiles(rt: Runtime, op: Any, count: int, ndim: int | None) -> np.ndarray:
    """``Sharding.tiles`` for XLA's sharding ``op``. ``ndim``: the number of dimensions; None: as many as ``op`` has."""
    hlo = None if op is None else rt.xla_client.HloSharding.from_proto(op)
    if hlo is None or count == 1 or hlo.is_replicated():
        return np.arange(count).reshape((1,) * (ndim or 0) + (-1,))
    if not hlo.is_tiled():
        raise RuntimeError(f"XLA chose a sharding that minijax has no name for: {hlo}.")
    dims = hlo.tile_assignment_dimensions()
    rank = len(dims) - hlo.replicate_on_last_tile_dim() if ndim is None else ndim
    # the words of a key are one more dimension of ``dims``, which is never sharded
    return np.asarray(hlo.tile_assignment_devices()).reshape(*dims[:rank], -1)
