"""Two parts of jaxlib's C++ for repeated calls: flattening trees, and passing NumPy arrays.

Flattening: 100 arrays in 20 containers take 6 us in C++ and 15 us in Python (:func:`flatten`). Small calls are
quicker without: see ``minijax.api.repeated``.

NumPy arguments: ``pjrt.put`` makes a Python-visible buffer for every one of them. The call path under ``jax.jit`` does
not, and takes half the time; :func:`host_call` borrows it. The object jaxlib makes (``PjitFunction``) keys its cache on
the tree and the types of the arguments. At the first call of each kind it calls *our* ``miss``, which makes an ordinary
call and returns how to repeat it. For arguments on the device, :meth:`~minijax.backend.pjrt.Executable.execute` is
faster: it takes 0.4 to 0.9 of jax's time, and this 1.2 to 1.4.

All this is private to jaxlib, so anything unexpected falls back to an ordinary call: :func:`host_call` returns None
if the object cannot be made, and a kind of call that cannot be fast goes through ``miss`` every time.
"""

from __future__ import annotations

import operator
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.backend.client import Runtime, jax_is_imported, runtime
from minijax.backend.pjrt import put
from minijax.core.array import Array, LiteralArray, get_aval
from minijax.core.named import NamedTuple
from minijax.pytree.core import Node, follow_registrations, tree_leaves

__all__ = ["FastPath", "fast_path", "flatten", "host_call", "is_status", "leaves", "x64_agrees"]


class FastPath(NamedTuple):
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


class _Results:
    """Stands for what a call returns: a node of jaxlib's, which it hands to ``finish`` with the result buffers."""

    __slots__ = ("count", "finish")

    def __init__(self, count: int, finish: Callable[[Sequence[Any]], Any]) -> None:
        self.count = count
        self.finish = finish

    def taken_apart(self) -> tuple[list[object], Callable[[Sequence[Any]], Any]]:
        return [object()] * self.count, self.finish


class _Registries:
    """jaxlib's view of what is a container: with arrays as leaves, and with the buffers in them as leaves."""

    def __init__(self, rt: Runtime) -> None:
        self.arrays = rt.xla.pytree.PyTreeRegistry()
        self.buffers = rt.xla.pytree.PyTreeRegistry()
        for cls in (Array, LiteralArray):
            # C++ reads the fields; an array that is not on the device has none, which is an AttributeError
            self.buffers.register_dataclass_node(cls, ["_buffer"], ["aval"])
        self.buffers.register_node(_Results, _Results.taken_apart, operator.call)
        self.x64 = None if jax_is_imported() else self._settings(rt)
        follow_registrations(self.register)

    def register(self, cls: type, node: Node) -> None:
        """Register a user's class of nodes with jaxlib."""
        for registry in (self.arrays, self.buffers):
            registry.register_node(cls, node.flatten, node.unflatten)

    @staticmethod
    def _settings(rt: Runtime) -> Any:
        """Give jaxlib the three settings its dispatch reads; jax replaces them when imported. Returns that for x64."""
        make, state = rt.xla.config.Config, rt.xla.jax_jit
        x64 = make("minijax_backend_x64", False, include_in_jit_key=True)
        state.set_enable_x64_state(x64)
        state.set_disable_jit_state(make("minijax_backend_no_jit", False, include_in_jit_key=True))
        state.set_post_hook_state(make("minijax_backend_post_hook", None))
        return x64

    def x64_agrees(self, wanted: bool) -> bool:
        """Whether jaxlib's dispatch converts 64-bit values as ``wanted`` on this thread: see :func:`x64_agrees`."""
        jax = sys.modules.get("jax")
        if jax is not None:
            return bool(jax.config.jax_enable_x64) == wanted
        if self.x64 is None or self.x64.value == wanted:
            return self.x64 is not None
        self.x64.set_local(wanted)
        return False


_lock = threading.Lock()
_made: _Registries | None = None


def _registries() -> _Registries:
    global _made
    if _made is None:
        with _lock:
            if _made is None:
                _made = _Registries(runtime())
    return _made


def flatten() -> Callable[[Any], tuple[list[Any], Any]]:
    """jaxlib's function from a tree to its leaves and its structure: hashable, comparable, with ``unflatten``.

    The meaning is that of ``pytree.tree_flatten``, but for keys of a dict that are equal and of different types; the
    errors are jaxlib's own.
    """
    return _registries().arrays.flatten


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree: jaxlib finds them, if it has been asked for anything before."""
    if _made is not None:
        try:
            return _made.arrays.flatten(tree)[0]
        except Exception:  # from the keys of a dict or a user's function: our errors say more
            pass
    return tree_leaves(tree)


def host_call(name: str, miss: Callable[..., tuple[Any, FastPath | None, bool]]) -> Callable[..., Any] | None:
    """``call(*args, **kwargs)``: run one-device programs on trees of NumPy values and arrays on the device.

    Args:
      name: what jaxlib's profiler calls the programs.
      miss: called with the arguments of a call of a new kind, or that C++ cannot make. Returns the result, a
        :func:`fast_path` for further calls of this kind or None, and False.

    Returns:
      The callable, or None if this jaxlib cannot do it. It raises what ``miss`` raises; errors of its own have a
      traceback without further frames: then it could not take the arguments, or the program failed.
    """
    rt = runtime()
    try:
        return rt.xla.pjit(name, None, miss, [], [], object(), _registries().buffers, _place)
    except (AttributeError, TypeError, RuntimeError):
        return None


# How XLA's own failures begin; what jaxlib's dispatch cannot take, it refuses in other words, and runs nothing.
_STATUS = r"[A-Z_]+: "


def is_status(error: Exception) -> bool:
    """Whether ``error``, which :func:`host_call`'s callable raised itself, is a failure of XLA's."""
    return re.match(_STATUS, str(error)) is not None


def _place(leaf: Any, sharding: Any, layout: Any) -> Any:
    return leaf if hasattr(leaf, "aval") else put(leaf)


def x64_agrees(wanted: bool) -> bool:
    """Whether jaxlib has converted 64-bit values as ``wanted`` in the call that ``miss`` makes.

    That depends on jax's setting if jax is imported, else on one of ours, which is set for the next calls of this
    thread. It is part of jaxlib's cache key. Call this first: other code may change the setting.
    """
    return _registries().x64_agrees(wanted)


def fast_path(
    program: Any,
    consts: Sequence[Any],
    leaves: Sequence[Any],
    in_avals: Sequence[Any],
    agrees: bool,
    finish: Callable[[Sequence[Any]], Any],
) -> FastPath | None:
    """How jaxlib repeats a call of ``program`` by itself; None if that would differ from an ordinary call.

    Args:
      program: an ``Executable`` for the default device, with at least one result.
      consts: buffers that it takes before the arguments.
      leaves: the arguments of the call just made; ``in_avals`` what they were taken for.
      agrees: what :func:`x64_agrees` said.
      finish: makes the call's value from the result buffers.
    """
    if not all([_as_is(leaf, aval, agrees) for leaf, aval in zip(leaves, in_avals, strict=True)]):
        return None
    sharding = runtime().sharding
    kept = [True] * len(leaves) if program.kept is None else [i in program.kept for i in range(len(leaves))]
    # the inputs are the constants, which come first, and the arguments
    n_in, n_out = len(consts) + len(leaves), len(program.out_avals)
    return FastPath(
        xla_executable=program.loaded,
        out_pytree_def=_registries().buffers.flatten(_Results(n_out, finish))[1],
        in_shardings=[sharding] * n_in,
        out_shardings=[sharding] * n_out,
        out_avals=list(program.out_avals),
        out_committed=[True] * n_out,
        kept_var_bitvec=[*[True] * len(consts), *kept],
        in_device_local_layouts=[None] * n_in,
        const_args=list(consts),
    )


_NUMBERS = (bool, int, float, complex)


def _as_is(leaf: Any, aval: Any, agrees: bool) -> bool:
    """Whether C++ converts ``leaf`` as we do; ``agrees``: it does for 64-bit values."""
    kind = type(leaf)
    if kind is Array or kind is LiteralArray:
        return True
    if kind in _NUMBERS:
        return agrees or kind is bool
    if kind is not np.ndarray and not isinstance(leaf, np.generic):
        return False
    dtype = leaf.dtype
    if not dtype.isnative or dtype.kind in "OSUMmV":
        return False
    return get_aval(leaf) is aval and (dtype is aval.dtype and dtype.itemsize < 8 or agrees)
