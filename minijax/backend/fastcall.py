"""Two private parts of jaxlib's C++ for repeated calls: flattening trees, and passing NumPy arrays.

jaxlib flattens 100 arrays in 20 containers in 6 us; Python takes 15 us. jaxlib's call path for ``jax.jit`` passes NumPy
arguments to a program in half the time that our own call takes (:func:`host_call`). This call path has a cache. Its
keys are the tree and types of the arguments. For a new key, jaxlib calls our ``miss``, which makes an ordinary call and
returns how to repeat it (:class:`FastPath`). Calls that jaxlib cannot repeat stay ordinary calls.
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
from minijax.core.records import NamedTuple
from minijax.pytree.core import Node, follow_registrations, tree_leaves

__all__ = ["FastPath", "fast_path", "flatten", "host_call", "is_status", "leaves", "x64_agrees"]


class FastPath(NamedTuple):
    """The fields that jaxlib reads, by these names, to repeat a call in C++."""

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
    """A call's result as a node of jaxlib's tree: to unflatten it, jaxlib calls ``finish`` with the buffers."""

    __slots__ = ("count", "finish")

    def __init__(self, count: int, finish: Callable[[Sequence[Any]], Any]) -> None:
        self.count = count
        self.finish = finish

    def taken_apart(self) -> tuple[list[object], Callable[[Sequence[Any]], Any]]:
        return [object()] * self.count, self.finish


class _Registries:
    """Two registries of containers. In ``arrays``, our arrays are leaves; in ``buffers``, each contains its buffer."""

    def __init__(self, rt: Runtime) -> None:
        self.arrays = rt.xla.pytree.PyTreeRegistry()
        self.buffers = rt.xla.pytree.PyTreeRegistry()
        for cls in (Array, LiteralArray):
            # C++ reads the field ``_buffer``. A host array has none: AttributeError, then an ordinary call is made
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
        """Create the three settings that jaxlib's dispatch reads until jax is imported. Return the setting for x64."""
        make, state = rt.xla.config.Config, rt.xla.jax_jit
        x64 = make("minijax_backend_x64", False, include_in_jit_key=True)
        state.set_enable_x64_state(x64)
        state.set_disable_jit_state(make("minijax_backend_no_jit", False, include_in_jit_key=True))
        state.set_post_hook_state(make("minijax_backend_post_hook", None))
        return x64

    def x64_agrees(self, wanted: bool) -> bool:
        """Whether jaxlib's dispatch uses the x64 setting ``wanted`` on this thread: see :func:`x64_agrees`."""
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
    """jaxlib's function that flattens a tree. Its errors, and its order of dict keys of mixed types, are not ours."""
    return _registries().arrays.flatten


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, found by jaxlib if it is loaded."""
    if _made is not None:
        try:
            return _made.arrays.flatten(tree)[0]
        except Exception:  # for a dict's keys, or from a user's function: the errors of ``tree_leaves`` are clearer
            pass
    return tree_leaves(tree)


def host_call(name: str, miss: Callable[..., tuple[Any, FastPath | None, bool]]) -> Callable[..., Any] | None:
    """Return ``call(*args, **kwargs)``, which runs one-device programs on trees of NumPy values and device arrays.
    Return None if this jaxlib cannot make it.

    ``name`` is for jaxlib's profiler. jaxlib calls ``miss`` for arguments with a new tree or new types. ``miss`` makes
    the call, and returns the result, a :func:`fast_path` (None: stay with ordinary calls) and False. If an exception
    has one frame in its traceback, ``call`` itself raised it: the arguments were refused, or the program failed.
    """
    rt = runtime()
    try:
        return rt.xla.pjit(name, None, miss, [], [], object(), _registries().buffers, _place)
    except (AttributeError, TypeError, RuntimeError):
        return None


# A failure inside XLA has a message that begins with a status code. If jaxlib's dispatch refuses the arguments, nothing
# runs, and the message has no status code.
_STATUS = r"[A-Z_]+: "


def is_status(error: Exception) -> bool:
    """Whether ``error``, raised by :func:`host_call`'s callable itself, is a failure of XLA."""
    return re.match(_STATUS, str(error)) is not None


def _place(leaf: Any, sharding: Any, layout: Any) -> Any:
    return leaf if hasattr(leaf, "aval") else put(leaf)


def x64_agrees(wanted: bool) -> bool:
    """Whether jaxlib uses the x64 setting ``wanted`` in the current call. ``miss`` calls this first.

    jaxlib follows jax's setting if jax is imported. Otherwise it follows ours, which is set here for the next calls.
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
    """How jaxlib repeats a call of ``program`` on ``consts`` and ``leaves``. None if jaxlib's result would differ from
    that of our call.

    ``agrees``: from :func:`x64_agrees`. ``finish`` makes the call's value from the result buffers.
    """
    if not all([_as_is(leaf, aval, agrees) for leaf, aval in zip(leaves, in_avals, strict=True)]):
        return None
    sharding = runtime().sharding
    kept = [True] * len(leaves) if program.kept is None else [i in program.kept for i in range(len(leaves))]
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
    """Whether C++ converts ``leaf`` as minijax does. ``agrees``: whether both use the same x64 setting."""
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
