"""``minijax.experimental.multihost_utils``: exchange values among the processes of ``distributed.initialize``.

A single process gets its own values back. Several processes exchange arrays by a ``pmap`` over all devices, so all of
them must make the same calls in the same order.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from minijax.api.devices import devices, local_device_count, process_count, process_index
from minijax.api.pmap import pmap
from minijax.lax import all_gather
from minijax.tree_util import tree_leaves, tree_map

__all__ = [
    "assert_equal",
    "broadcast_one_to_all",
    "process_allgather",
    "reached_preemption_sync_point",
    "sync_global_devices",
]

_AXIS = "processes"


def _of_all(x: np.ndarray) -> np.ndarray:
    if process_count() == 1:
        return x[None]
    copies = np.broadcast_to(x, (local_device_count(), *x.shape))
    of_devices = np.asarray(pmap(lambda mine: all_gather(mine, _AXIS), axis_name=_AXIS)(copies)[0])
    owners = [device.process_index for device in devices()]
    return of_devices[[owners.index(process) for process in range(process_count())]]


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Collect ``in_tree``, a tree of arrays with the same shapes in every process, from all processes.

    The result is a tree of NumPy arrays, stacked along a new leading axis or, with ``tiled``, joined along the first
    axis. Numbers always get a new axis, unless there is only one process.
    """

    def gather(leaf: Any) -> np.ndarray:
        x = np.asarray(leaf)
        if not tiled:
            return _of_all(x)
        if process_count() == 1:
            return x
        return np.concatenate(list(_of_all(x if x.ndim else x[None])))

    return tree_map(gather, in_tree)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Send ``in_tree`` to all processes from process 0, or from the process whose ``is_source`` is true.

    The trees of all processes must have equal shapes.
    """
    if process_count() == 1:
        return tree_map(np.asarray, in_tree)
    source = process_index() == 0 if is_source is None else is_source

    def broadcast(leaf: Any) -> np.ndarray:
        x = np.asarray(leaf)
        given = _of_all(x if source else np.zeros_like(x))
        return given.sum(0, dtype=given.dtype)

    return tree_map(broadcast, in_tree)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError if processes differ in ``in_tree``. Its message begins with ``fail_message``."""
    gathered = process_allgather(in_tree)
    same = tree_map(lambda mine, all_of_them: bool(np.all(all_of_them == np.asarray(mine))), in_tree, gathered)
    if not all(tree_leaves(same)):
        raise AssertionError(
            f"{fail_message}. Expected: {gathered}; got: {in_tree}. All processes must pass equal values: "
            "compare how each process computes them."
        )


def sync_global_devices(name: str) -> None:
    """Wait for every process. Raise AssertionError if another process passed a different ``name``."""
    assert_equal(np.uint32(zlib.crc32(name.encode())), f"sync_global_devices name mismatch ('{name}')")


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether a process got a preemption notice and all processes have reached the step for saving.

    Return False in a single process. With several, raise RuntimeError, since minijax does not start XLA's preemption
    service.
    """
    if process_count() == 1:
        return False
    raise RuntimeError(
        "Preemption sync manager has not been initialized: minijax does not start one. Save after every N steps."
    )
