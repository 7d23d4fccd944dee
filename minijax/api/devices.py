"""Move arrays between the host and devices, and list the devices and the live arrays."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from minijax.backend import fastcall, pjrt
from minijax.core import dtypes, lazy
from minijax.core.array import Array, MeshArray, as_array, get_aval
from minijax.core.guards import asked_for, check_transfer, transfer_guards
from minijax.core.keys import is_key
from minijax.core.lazy import HigherModule
from minijax.core.trace import Tracer
from minijax.ops.call import default_place, to_buffer
from minijax.ops.sharded import PlacedArray, placed, there
from minijax.pytree import prefix_leaves, tree_flatten, tree_map, tree_unflatten

_reshard = HigherModule("reshard")
_shardings = HigherModule("shardings")


def device_put(x: Any, device: Any = None) -> Any:
    """Convert the leaves of ``x`` to arrays on ``device`` and commit them: computations with them run there.

    Returns ``x``'s tree with arrays of the leaves' shapes and dtypes (64-bit ones become 32-bit unless x64 is enabled).
    ``device`` may be a device, a sharding, a ``Format``, a ``PartitionSpec`` for the current mesh, or a tree of these
    that is a prefix of ``x``. With None, arrays stay where they are. ValueError for a sharding that does not divide an
    array evenly, TypeError for a leaf that is no array or number.
    """

    def put(leaf: Any, device: Any) -> Any:
        if hasattr(device, "place_for"):  # a Format
            device = device.place_for(np.ndim(leaf))
        if isinstance(leaf, Tracer):
            device = _shardings.concrete(device)
            if hasattr(device, "mesh"):
                if device.mesh.are_all_axes_explicit:
                    return _reshard.reshard(leaf, device)
                return lazy.public("minijax.ops.meshes.constraint", "with_sharding_constraint")(leaf, device)
            return placed(leaf, device)
        if transfer_guards and (device is not None or not isinstance(leaf, Array)):
            check_transfer("device_to_device" if isinstance(leaf, Array) else "host_to_device", get_aval(leaf), True)
        if device is not None:
            return placed(leaf, device)
        array = as_array(leaf)
        if array is not leaf and default_place() is not None:
            return there(placed(array, default_place()))
        if array.dtype != dtypes.float0:
            to_buffer(array)
        return array

    if not isinstance(device, (list, tuple, dict)):
        return tree_map(lambda leaf: put(leaf, device), x)
    leaves, tree = tree_flatten(x)
    return tree_unflatten(tree, map(put, leaves, prefix_leaves(device, x, name="device_put device")))


def device_get(x: Any) -> Any:
    """Convert the arrays of ``x`` to NumPy arrays; other leaves (numbers, tracers, random keys) stay unchanged."""

    def get(leaf: Any) -> Any:
        if isinstance(leaf, Tracer) or not hasattr(leaf, "__array__") or is_key(getattr(leaf, "dtype", None)):
            return leaf
        return np.asarray(leaf)

    if transfer_guards:
        with asked_for():
            return tree_map(get, x)
    return tree_map(get, x)


def block_until_ready(x: Any) -> Any:
    """Wait until every array in ``x`` has been computed; returns ``x``."""
    kind = type(x)
    if kind is MeshArray:  # the most frequent case: one array
        pjrt.block_until_ready(x._buffer)
        return x
    leaves = (x,) if kind is Array else fastcall.leaves(x)
    if leaves and type(leaves[0]) is MeshArray:
        held = [leaf._buffer for leaf in leaves if type(leaf) is MeshArray]
        if len(held) == len(leaves):
            pjrt.block_until_ready(held)
            return x
    buffers = []
    for leaf in leaves:
        if type(leaf) is Array:
            if hasattr(leaf, "_buffer"):
                buffers.append(leaf._buffer)
        elif type(leaf) is PlacedArray:
            leaf.block_until_ready()
        elif isinstance(leaf, Array) and leaf.on_device:
            buffers.append(leaf._buffer)
    if buffers:
        pjrt.block_until_ready(buffers)
    return x


def _of_platform(found: list[Any], backend: str | None) -> list[Any]:
    if backend is not None and backend != pjrt.platform():
        raise RuntimeError(f"Unknown backend {backend}: programs run on {pjrt.platform()!r} here.")
    return found


def devices(backend: str | None = None) -> list[Any]:
    """The devices of all processes. RuntimeError if ``backend`` names another platform."""
    return _of_platform(pjrt.devices(), backend)


def local_devices(process_index: int | None = None, backend: str | None = None) -> list[Any]:
    """The devices of one process, by default of this one. ValueError if there is no process of that number."""
    if process_index is None:
        return _of_platform(pjrt.local_devices(), backend)
    found = [device for device in devices(backend) if device.process_index == process_index]
    if not found:
        raise ValueError(f"Unknown process_index {process_index}: there are {pjrt.process_count()} processes.")
    return found


def device_count(backend: str | None = None) -> int:
    """The number of devices in all processes."""
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """The number of devices in this process."""
    return len(local_devices(backend=backend))


def process_index(backend: str | None = None) -> int:
    """This process's number in the cluster that ``minijax.distributed.initialize`` joined; 0 without a cluster."""
    _of_platform([], backend)
    return pjrt.process_index()


def process_count(backend: str | None = None) -> int:
    """The number of processes in the cluster that ``minijax.distributed.initialize`` joined; 1 without a cluster."""
    _of_platform([], backend)
    return pjrt.process_count()


def default_backend() -> str:
    """The platform of compiled functions: 'cpu', 'gpu', ..."""
    return pjrt.platform()


def live_arrays(platform: str | None = None) -> list[Any]:
    """List all live arrays, to find memory leaks. The search is slow. RuntimeError for another ``platform``."""
    _of_platform([], platform)
    # ``isinstance`` could run code of a proxy object; ``issubclass`` on its type does not
    return [x for x in gc.get_objects() if issubclass(type(x), Array)]
