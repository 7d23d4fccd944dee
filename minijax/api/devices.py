"""Moving arrays between the host and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.backend import pjrt
from minijax.core.array import Array, as_array, device_array
from minijax.core.trace import Tracer
from minijax.ops.call import to_buffer
from minijax.pytree import tree_flatten, tree_map


def device_put(x: Any, device: Any = None) -> Any:
    """The leaves of ``x`` as arrays on ``device`` (the first one by default)."""

    def put(leaf: Any) -> Any:
        if isinstance(leaf, Tracer):
            return leaf
        array = as_array(leaf)
        buffer = to_buffer(array)
        if device is None:
            return array
        return device_array(pjrt.transfer(buffer, device), array.aval)

    return tree_map(put, x)


def device_get(x: Any) -> Any:
    """The arrays of ``x`` as NumPy arrays; leaves that are none (numbers, tracers) as they are."""

    def get(leaf: Any) -> Any:
        if isinstance(leaf, Tracer) or not hasattr(leaf, "__array__"):
            return leaf
        return np.asarray(leaf)

    return tree_map(get, x)


def block_until_ready(x: Any) -> Any:
    """Wait until every array in ``x`` has been computed; returns ``x``."""
    for leaf in tree_flatten(x)[0]:
        if isinstance(leaf, Array) and leaf.on_device:
            pjrt.block_until_ready(leaf._buffer)
    return x


def devices() -> list[Any]:
    """The devices that XLA has."""
    return pjrt.devices()


def device_count() -> int:
    """How many devices XLA has."""
    return pjrt.device_count()


def default_backend() -> str:
    """The platform arrays are computed on by compiled functions: 'cpu', 'gpu', ..."""
    return pjrt.platform()
