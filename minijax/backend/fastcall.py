"""The call path under ``jax.jit``, borrowed: jaxlib takes NumPy arrays over and runs a program, in C++.

``pjrt.put`` makes a Python-visible buffer for every NumPy argument; jaxlib's own dispatch does not, and takes
half the time for it: 1.0 of what jax's own jit takes for 1, 10 or 100 NumPy arguments, where put and execute
take 1.5 to 2.3. With arguments that are on the device already there is nothing to gain: there
:meth:`~minijax.backend.pjrt.Executable.execute` takes 0.7 to 0.9 of jax's time, and this 1.05 to 1.2.

The object jaxlib makes (``PjitFunction``) keys its cache on the types of the arguments. At the first call of
each kind it asks *our* ``miss``, which runs the program the ordinary way and says how to do it next time. All
this is private to jaxlib, so whatever is unexpected falls back to the ordinary way: :func:`make_fast_call`
returns None if the object cannot be made, and a kind of call that cannot be fast goes through ``miss`` every
time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minijax.backend.client import Runtime, jax_is_imported

__all__ = ["make_fast_call"]


class _FastPath(NamedTuple):
    """What jaxlib reads, by these names, to repeat a call without asking."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[Any]
    const_args: Sequence[Any]


_lock = threading.Lock()
_registry: Any = None


def _prepare(rt: Runtime) -> Any:
    """The registry of containers for flat calls: lists and tuples only.

    Also gives jaxlib the three settings its dispatch reads, unless jax has. jax replaces them when imported.
    """
    global _registry
    if _registry is None:
        with _lock:
            if _registry is None:
                if not jax_is_imported():
                    make, state = rt.xla.config.Config, rt.xla.jax_jit
                    # 64 bits are on: whoever calls has converted dtypes already.
                    state.set_enable_x64_state(make("minijax_backend_x64", True, include_in_jit_key=True))
                    state.set_disable_jit_state(
                        make("minijax_backend_no_jit", False, include_in_jit_key=True)
                    )
                    state.set_post_hook_state(make("minijax_backend_post_hook", None))
                _registry = rt.xla.pytree.PyTreeRegistry()
    return _registry


def _keeps_64_bits() -> bool:
    """Whether jaxlib's dispatch takes 64-bit NumPy arrays as they are: jax's setting, if jax is imported.

    It is part of jaxlib's cache key, so asking once per miss is enough.
    """
    jax = sys.modules.get("jax")
    return True if jax is None else bool(jax.config.jax_enable_x64)


def make_fast_call(
    rt: Runtime,
    name: str,
    loaded: Any,
    sharding: Any,
    out_avals: Sequence[Any],
    python_call: Callable[[Sequence[Any]], list[Any]],
    put: Callable[[Any], Any],
) -> Callable[..., list[Any]] | None:
    """``call(*leaves)``: run a one-device program on buffers or NumPy arrays, in C++ if possible.

    Args:
      rt: the runtime.
      name: what jaxlib's profiler calls the program.
      loaded: jaxlib's loaded executable.
      sharding: that of all arguments and results: everything on the program's device.
      out_avals: the types of the results.
      python_call: the ordinary way: takes leaves, returns buffers, raises the exceptions of this package.
      put: takes a leaf, returns a buffer on the program's device.

    Returns:
      A callable that returns a list of buffers and raises ``rt.error`` for failures, or None if this jaxlib
      cannot do it.
    """
    avals = list(out_avals)

    def miss(*leaves: Any) -> tuple[list[Any], _FastPath | None, bool]:
        outs = python_call(leaves)
        if not _keeps_64_bits() and any(leaf.dtype.itemsize >= 8 for leaf in map(_typed, leaves)):
            return outs, None, False
        count = len(leaves)
        fast = _FastPath(
            xla_executable=loaded,
            out_pytree_def=registry.flatten(list(outs))[1],
            in_shardings=[sharding] * count,
            out_shardings=[sharding] * len(avals),
            out_avals=avals,
            out_committed=[True] * len(avals),
            kept_var_bitvec=[True] * count,
            in_device_local_layouts=[None] * count,
            const_args=[],
        )
        return outs, fast, False

    def place(leaf: Any, sharding: Any, layout: Any) -> Any:
        return put(leaf)

    try:
        registry = _prepare(rt)
        return rt.xla.pjit(name, None, miss, [], [], object(), registry, place)
    except (AttributeError, TypeError, RuntimeError):
        return None


def _typed(leaf: Any) -> Any:
    """Whatever knows the dtype of a leaf: a buffer's aval, or the NumPy array itself."""
    return getattr(leaf, "aval", leaf)
