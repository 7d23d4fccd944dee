"""Where programs run: StableHLO text is compiled and executed by XLA through PJRT.

:mod:`minijax.backend.pjrt` holds everything; this package imports neither jaxlib nor jax until the first
buffer is made or the first program compiled. Importing it teaches :class:`minijax.core.array.Array` to fetch
device buffers.
"""

from minijax.backend.pjrt import (
    CompileError,
    DeviceOutOfMemoryError,
    Executable,
    ExecutionError,
    block_until_ready,
    buffer_device,
    buffer_shape_dtype,
    compile,
    delete,
    device_count,
    devices,
    is_deleted,
    is_ready,
    local_devices,
    memory_stats,
    platform,
    put,
    put_shards,
    shards,
    to_numpy,
    transfer,
)
from minijax.core.array import set_fetch

__all__ = [
    "CompileError",
    "DeviceOutOfMemoryError",
    "Executable",
    "ExecutionError",
    "block_until_ready",
    "buffer_device",
    "buffer_shape_dtype",
    "compile",
    "delete",
    "device_count",
    "devices",
    "is_deleted",
    "is_ready",
    "local_devices",
    "memory_stats",
    "platform",
    "put",
    "put_shards",
    "shards",
    "to_numpy",
    "transfer",
]

set_fetch(to_numpy)
