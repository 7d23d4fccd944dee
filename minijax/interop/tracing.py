"""Tracing by JAX in our circumstances: our precision, our named axes, our mesh.

In: a function of JAX arrays and the types of its arguments. Out: its ``ClosedJaxpr`` of JAX's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minijax.config import matmul_precision, trace_key, x64_enabled
from minijax.core.trace import state
from minijax.interop.values import jax_module, mesh_now

# What of JAX's configuration the program of a function depends on, besides what ours decides.
_JAX_SETTINGS = (
    *("jax_default_prng_impl", "jax_threefry_partitionable", "jax_default_matmul_precision"),
    *("jax_numpy_dtype_promotion", "jax_numpy_rank_promotion", "jax_enable_custom_prng", "jax_disable_jit"),
)


def settings() -> tuple[Any, ...]:
    """All of both configurations, and our named axes, that the program of a function depends on."""
    config = jax_module().config
    mesh = jax_module("sharding").get_abstract_mesh()
    return (trace_key(), state.axis_env, mesh, *[getattr(config, name) for name in _JAX_SETTINGS])


@contextlib.contextmanager
def circumstances() -> Iterator[None]:
    """While it is open, JAX computes with the bits that we compute with, and with our precision if we set one."""
    jax = jax_module()
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.enable_x64(x64_enabled()))
        if matmul_precision() is not None:
            stack.enter_context(jax.default_matmul_precision(matmul_precision()))
        yield


def make_jaxpr(fun: Callable[..., Any], specs: Sequence[Any]) -> Any:
    """JAX's ``ClosedJaxpr`` of ``fun`` at arguments of types ``specs``, inside the axes that are named here."""
    axes = [(name, size) for name, size in state.axis_env if name is not None]
    with circumstances(), mesh_now():
        return jax_module().make_jaxpr(fun, axis_env=axes or None)(*specs)
