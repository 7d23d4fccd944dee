"""The targets of XLA's custom calls that jaxlib brings along: LAPACK's routines, for the CPU.

Targets belong to the process, not to a client, so they serve jax's client too, and registering them again does no harm.
"""

from __future__ import annotations

import functools
import importlib

from minijax.backend.client import load


@functools.cache
def register_lapack() -> None:
    """Have XLA know LAPACK's routines. They are SciPy's, whose library this loads (0.1 s)."""
    _, xla_client = load()
    lapack = importlib.import_module("jaxlib.lapack")
    lapack._lapack.initialize()
    for platform, targets in lapack.registrations().items():
        for name, target, version in targets:
            xla_client.register_custom_call_target(name, target, platform=platform, api_version=version)
    for name in lapack.batch_partitionable_targets():  # a device may call them for its share of the batch
        xla_client.register_custom_call_as_batch_partitionable(name)
