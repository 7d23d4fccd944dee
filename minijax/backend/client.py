"""The PJRT client of this process, made at first use.

jaxlib alone can make a client for its built-in platform; importing jax takes ten times as long. Accelerators need
plugins, which only jax can find. So jax is imported only if necessary. If it is imported already, its default backend
is used. Otherwise, if ``JAX_PLATFORMS`` begins with the built-in platform, or is not set and no plugin is installed,
jaxlib makes the client. In all other cases jax is imported. ``JAX_PLATFORMS`` and ``JAX_NUM_CPU_DEVICES`` mean what
they mean to jax (https://docs.jax.dev/en/latest/config_options.html).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.config import config, note_devices

# The one platform jaxlib can run without a plugin.
BUILT_IN = "cpu"

# If one of these environment variables is set, jax makes the client: this module does not support them.
_ASK_JAX = ("JAX_PLATFORM_NAME", "JAX_XLA_BACKEND", "PJRT_NAMES_AND_LIBRARY_PATHS")


class Runtime:
    """One PJRT client: jaxlib's module ``xla``, the ``client``, all ``devices``, and those of this process.

    ``from_jax``: whether jax made the client. ``copying`` and ``aliasing`` are options of ``put``: with ``copying`` it
    copies a host array before it returns, with ``aliasing`` the buffer uses the array's memory.
    """

    def __init__(self, xla: Any, xla_client: Any, client: Any, from_jax: bool) -> None:
        self.xla = xla
        self.xla_client = xla_client
        self.client = client
        self.from_jax = from_jax
        self.devices: list[Any] = list(client.devices())
        self.local_devices: list[Any] = list(client.local_devices())
        self.put = xla.batched_device_put
        self.wait = xla.batched_block_until_ready
        self.copying = xla.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
        self.aliasing = xla.HostBufferSemantics.ZERO_COPY
        self.error: type[Exception] = xla.JaxRuntimeError
        self._one, self._many = _sharding_classes(xla, xla_client)
        self._on_one = {device: self._one(device) for device in self.local_devices}
        self.process_count = 1 + max(device.process_index for device in self.devices)
        self.default_device = self.local_devices[0]
        self.default_list = [self.default_device]
        self.sharding = self._on_one[self.default_device]

    def on(self, device: Any) -> Any:
        """The sharding that puts a whole array on ``device``. ValueError if the device belongs to another process."""
        try:
            return self._on_one[device]
        except (KeyError, TypeError):
            known = ", ".join(map(str, self.local_devices))
            raise ValueError(f"{device!r} is not a local device of this process. Choose one of: {known}.") from None

    def spread(self, devices: Sequence[Any], hlo_sharding: Callable[[int], Any]) -> Any:
        """The sharding over ``devices`` whose XLA description for ``ndim`` dimensions is ``hlo_sharding(ndim)``."""
        found = self._many(list(devices), self.xla_client.HloSharding.replicate())
        found._to_xla_hlo_sharding = functools.cache(hlo_sharding)
        return found

    def compile_options(self, assignment: Any) -> Any:
        """Compile options for the devices whose ids are ``assignment[replicas, partitions]``."""
        num_replicas, num_partitions = assignment.shape
        if self.from_jax:
            backend = importlib.import_module("jax.extend.backend")
            return backend.get_compile_options(num_replicas, num_partitions, assignment, backend=self.client)
        options = self.xla.CompileOptions()
        options.num_replicas = num_replicas
        options.num_partitions = num_partitions
        options.device_assignment = self.xla.DeviceAssignment.create(assignment)
        return options

    def spmd_options(self, ids: Sequence[int], free_in: Sequence[bool], free_out: Sequence[bool]) -> Any:
        """Compile options for one program over devices with these ``ids``. XLA chooses the shardings marked as free."""
        options = self.compile_options(np.array([ids]))
        build = options.executable_build_options
        build.num_replicas, build.num_partitions = 1, len(ids)
        build.device_assignment = options.device_assignment
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
        build.allow_spmd_sharding_propagation_to_parameters = list(free_in)
        build.allow_spmd_sharding_propagation_to_output = list(free_out)
        # without use_spmd_partitioning XLA refuses the program, without shardy it ignores the shardings in the text
        assert build.use_spmd_partitioning and build.use_shardy_partitioner
        return options


def _sharding_classes(xla: Any, xla_client: Any) -> tuple[Any, Any]:
    """Subclasses of jaxlib's shardings with the methods that its C++ calls; jax adds these when imported."""
    # number of dimensions (NumPy allows 64) -> sharding; a dictionary saves 60 ns per transfer
    by_rank = dict.fromkeys(range(65), xla_client.HloSharding.replicate())
    members = {"memory_kind": None, "_to_xla_hlo_sharding": staticmethod(by_rank.__getitem__)}
    return (
        type("OnOneDevice", (xla.SingleDeviceSharding,), members),
        type("OnManyDevices", (xla.GSPMDSharding,), members),
    )


def jax_is_imported() -> bool:
    return sys.modules.get("jax") is not None


def plugin_installed() -> bool:
    """Whether a PJRT plugin might be installed, found without importing anything.

    A plugin is a module in the namespace package ``jax_plugins``, or a package with an entry point of that name, or
    libtpu. Reading entry points by hand takes 3 ms, ``importlib.metadata`` 40 ms.
    """
    if importlib.util.find_spec("jax_plugins") is not None or importlib.util.find_spec("libtpu") is not None:
        return True
    for folder in dict.fromkeys(sys.path):
        try:
            entries = [e.path for e in os.scandir(folder or ".") if e.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for entry in entries:
            try:
                with open(os.path.join(entry, "entry_points.txt"), "rb") as file:
                    if b"[jax_plugins]" in file.read():
                        return True
            except OSError:
                continue
    return False


def jaxlib_suffices() -> bool:
    """Whether jaxlib can make the requested client without jax."""
    if jax_is_imported() or any(os.environ.get(name) for name in _ASK_JAX):
        return False
    wanted = os.environ.get("JAX_PLATFORMS", "")
    if wanted:
        # minijax uses only the first platform in the list
        return wanted.split(",")[0].strip() == BUILT_IN
    return not plugin_installed()


def load() -> tuple[Any, Any]:
    """Import jaxlib's extension module and its ``xla_client``: the part of the start that needs no client."""
    # jaxlib reads this variable once, when loaded; without it new clients log their devices to stderr. jax sets it too.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    return importlib.import_module("jaxlib._jax"), importlib.import_module("jaxlib.xla_client")


def _start() -> Runtime:
    """Make the client. As in jax, a platform that cannot be started raises RuntimeError."""
    if before_start is not None:
        before_start()
    alone = membership is not None or jaxlib_suffices()
    xla, xla_client = load()
    count = config.read("num_cpu_devices")
    note_devices()
    if not alone:
        jax = importlib.import_module("jax")
        if count != -1 and jax.config.jax_num_cpu_devices == -1:
            jax.config.update("jax_num_cpu_devices", count)
        client = importlib.import_module("jax.extend.backend").get_backend()
        return Runtime(xla, xla_client, client, from_jax=True)
    options: dict[str, Any] = {"num_devices": count if count is not None and count > 0 else None}
    if membership is not None:
        options |= {
            "distributed_client": membership.connection,
            "node_id": membership.process_id,
            "num_nodes": membership.num_processes,
            "collectives": xla.make_gloo_tcp_collectives(distributed_client=membership.connection),
        }
    client = xla_client.make_cpu_client(**options)
    return Runtime(xla, xla_client, client, from_jax=False)


# A client has about one thread per device. With more devices a process may reach its limit on threads.
MOST_SIMULATED = 4096


def simulated(count: int) -> Runtime:
    """A separate client with ``count`` simulated devices. Each takes a thread and 120 kB. ValueError beyond 4,096."""
    if count > MOST_SIMULATED:
        raise ValueError(
            f"a mesh of {count} devices cannot be simulated: the maximum is {MOST_SIMULATED}. Make its axes smaller."
        )
    xla, xla_client = load()
    return Runtime(xla, xla_client, xla_client.make_cpu_client(num_devices=count), from_jax=False)


_lock = threading.Lock()
_runtime: Runtime | None = None

# set by backend.distributed if this process must join other processes before it makes a client
before_start: Callable[[], None] | None = None

# set by backend.distributed if jaxlib alone, without jax, joins this process with other processes
membership: Any = None


def runtime() -> Runtime:
    """The runtime of this process. The first call makes it."""
    global _runtime
    if _runtime is None:
        with _lock:
            if _runtime is None:
                _runtime = _start()
    return _runtime


def started() -> Runtime | None:
    """The runtime, or None if nothing has used it yet."""
    return _runtime
