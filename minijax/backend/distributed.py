"""Several processes as one machine: each process has some of the devices, and programs run on all devices.

Process 0 runs XLA's coordination service. The PJRT client made afterwards knows the devices of all processes; on CPUs,
collectives use Gloo over TCP. If jaxlib alone cannot make the client, ``jax.distributed`` makes jax's client.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import sys
from typing import Any, NoReturn

from minijax.backend import client
from minijax.core.records import NamedTuple


class Membership(NamedTuple):
    """This process's membership. ``service`` is the coordination service in process 0, None in other processes."""

    service: Any
    connection: Any
    process_id: int
    num_processes: int


_by_jax = False

# The environment that ``python -m minijax.distributed`` gives each process besides JAX_COORDINATOR_ADDRESS: the number
# of processes, its own number, and its parent's id (so that grandchildren do not count).
NUM_PROCESSES, PROCESS_ID, LAUNCHER = "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "MINIJAX_LAUNCHER"


def launched() -> bool:
    """Whether ``python -m minijax.distributed`` started this process."""
    return os.environ.get(LAUNCHER) == str(os.getppid())


def _told(name: str, given: int | None) -> int | None:
    """Return ``given``. If it is None, return the number in the environment variable ``name``, or None."""
    text = os.environ.get(name, "")
    return int(text) if given is None and text.isdecimal() else given


def _checked(coordinator: str | None, count: int | None, process: int | None) -> None:
    if coordinator is None:
        raise ValueError("coordinator_address should be defined: pass 'host:port' of process 0.")
    if count is None:
        raise ValueError("Number of processes must be defined: pass num_processes.")
    if process is None:
        raise ValueError("The process id of the current process must be defined: pass process_id.")
    for name, value in (("process_id", process), ("num_processes", count)):
        if not isinstance(value, int):
            raise TypeError(f"{name} must be an int. Got {name}={value} of type {type(value)}.")
    if not 0 <= process < count:
        raise ValueError(
            "process_id and num_processes must be nonnegative, with process_id < num_processes. "
            f"Got process_id={process}, num_processes={count}."
        )


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
) -> None:
    """Join ``num_processes`` processes into one machine. All of them must call it, before anything runs on a device.

    ``devices()`` then lists the devices of all processes. All processes make the same calls of ``pmap`` in the same
    order, each with the slices for its own devices.

    ``coordinator_address``: ``host:port`` of process 0, JAX_COORDINATOR_ADDRESS by default; ``num_processes``:
    JAX_NUM_PROCESSES by default; ``process_id``: from 0, JAX_PROCESS_ID by default; ``coordinator_bind_address``: where
    process 0 listens, all interfaces by default. The timeouts are in seconds. The first limits the wait until all
    processes have joined. The last limits the wait until all have left. A process that is silent for
    ``heartbeat_timeout_seconds`` counts as dead, and XLA ends the other processes.

    RuntimeError if called twice, or after something ran on a device. ValueError if an argument is missing or has a
    wrong value.
    """
    global _by_jax
    if client.started() is not None:
        raise RuntimeError(
            "minijax.distributed.initialize() must be called before anything runs on a device: that includes compiling "
            "a function, device_put, and asking for devices(). Call it first."
        )
    if is_initialized():
        raise RuntimeError("distributed.initialize should only be called once.")
    coordinator_address = coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS")
    num_processes, process_id = _told(NUM_PROCESSES, num_processes), _told(PROCESS_ID, process_id)
    timeouts = {
        "heartbeat_timeout_seconds": heartbeat_timeout_seconds,
        "shutdown_timeout_seconds": shutdown_timeout_seconds,
    }
    implementation = os.environ.get("JAX_CPU_COLLECTIVES_IMPLEMENTATION", "gloo")
    if not client.jaxlib_suffices() or implementation != "gloo":
        # jax finds missing arguments in the environments of known clusters
        jax = importlib.import_module("jax")
        jax.distributed.initialize(
            coordinator_address,
            num_processes,
            process_id,
            initialization_timeout=initialization_timeout,
            coordinator_bind_address=coordinator_bind_address,
            **timeouts,
        )
        _by_jax = True
        return
    _checked(coordinator_address, num_processes, process_id)
    assert coordinator_address is not None and num_processes is not None and process_id is not None
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    xla = importlib.import_module("jaxlib._jax")
    service = None
    if process_id == 0:
        bind_address = coordinator_bind_address or os.environ.get("JAX_COORDINATOR_BIND_ADDRESS")
        service = xla.get_distributed_runtime_service(
            bind_address or "[::]:" + coordinator_address.rsplit(":", 1)[1],
            num_processes,
            heartbeat_timeout=heartbeat_timeout_seconds,
            shutdown_timeout=shutdown_timeout_seconds,
        )
    connection = xla.get_distributed_runtime_client(
        coordinator_address,
        process_id,
        init_timeout=initialization_timeout,
        use_compression=True,
        heartbeat_timeout=heartbeat_timeout_seconds,
    )
    connection.connect()
    client.membership = Membership(service, connection, process_id, num_processes)
    atexit.register(_leave)


def _join() -> None:
    """Join the other processes before the client is made, if this process was launched as one of several."""
    if not is_initialized():
        initialize()


# The status that a launched process passed to ``sys.exit``. None and 0 mean success.
_exit_code: Any = None


def _exit(code: Any = None, /) -> NoReturn:
    """Replaces ``sys.exit`` in a launched process, and remembers the exit status."""
    global _exit_code
    _exit_code = code
    raise SystemExit(code)


def _leave() -> None:
    """At exit, wait for the other processes. A launched process that has failed exits without waiting."""
    if not (launched() and (_exit_code or hasattr(sys, "last_value"))):
        shutdown()
    elif client.membership is not None:
        for each in client.membership[:2]:  # closing them takes five seconds, so they stay open
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


if launched():
    client.before_start = _join
    sys.exit = _exit


def is_initialized() -> bool:
    """Whether this process has joined other processes."""
    return _by_jax or client.membership is not None


def shutdown() -> None:
    """Leave the other processes, and wait until they leave too. If there are none, do nothing."""
    global _by_jax
    if _by_jax:
        _by_jax = False
        importlib.import_module("jax").distributed.shutdown()
    member = client.membership
    if member is not None:
        client.membership = None
        atexit.unregister(_leave)
        member.connection.shutdown()
        if member.service is not None:
            member.service.shutdown()
