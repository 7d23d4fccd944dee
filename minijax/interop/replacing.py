"""``replacing_jax()``: packages that were written on JAX run on minijax, as they stand."""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from minijax.interop.replaced import own_builtins, replaced_import, replaced_module
from minijax.interop.written_on_jax import also

_lock = threading.Lock()
# The names of the modules that opened the blocks that are open here, as their global names. Of this thread and task.
_open: ContextVar[tuple[dict[str, Any], ...]] = ContextVar("minijax_replacing", default=())
# How many blocks are open on all threads, and the import functions that stand in for others while there are any.
_count = 0
_hooks: list[_Hook] = []


class _Hook:
    """A function of a module's with another in its place. It may stay under one that somebody puts over it, so it has
    its own original, to which it leads when no block is open.
    """

    def __init__(self, module: Any, name: str, made: Callable[[Any], Any]) -> None:
        self._module, self._name, self._original = module, name, getattr(module, name)
        self._function = made(self._original)
        setattr(module, name, self._function)

    def remove(self) -> None:
        """Put the original back, unless somebody else has replaced the function meanwhile."""
        if getattr(self._module, self._name) is self._function:
            setattr(self._module, self._name, self._original)


class replacing_jax:
    """A block whose import statements mean minijax where they say ``jax``, also in the packages that they import::

        with minijax.interop.replacing_jax():
            import jax.numpy as jnp
            import optax  # runs on minijax from now on, and so does what it imports, now and later

    What is replaced is JAX and every package or module that imports it, at whatever depth, if it is pure Python.
    It is another copy of the package: ``sys.modules["optax"]`` and code that holds the real one stay as they are, and
    its own module name is ``minijax.interop.replaced.optax``, by which its classes are pickled. Import statements
    (and calls of ``importlib.import_module``) count that stand in the file, or at the prompt, that opens the block, or
    in code that belongs to no module, on the same thread.

    Args:
      packages: further packages to replace, which do not import JAX but take what it gives.
    """

    def __init__(self, *packages: str) -> None:
        also(packages)
        self._names = sys._getframe(1).f_globals

    def __enter__(self) -> None:
        global _count
        with _lock:
            if not _count:
                _hooks[:] = [_Hook(builtins, "__import__", _importing), _Hook(importlib, "import_module", _by_name)]
            _count += 1
        _open.set((*_open.get(), self._names))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _count
        blocks = list(_open.get())
        for place in reversed(range(len(blocks))):
            if blocks[place] is self._names:
                del blocks[place]
                break
        _open.set(tuple(blocks))
        with _lock:
            _count -= 1
            if not _count:
                for hook in _hooks:
                    hook.remove()


def _is_of_a_block(names: Any) -> bool:
    """Whether code with these global names stands in a block that is open here."""
    blocks = _open.get()
    return bool(blocks) and (names.get("__spec__") is None or any(each is names for each in blocks))


def _importing(original: Any) -> Any:
    """``builtins.__import__`` while a block is open: the blocks' imports are replaced, others are for ``original``."""

    def __import__(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if _is_of_a_block(sys._getframe(1).f_globals if globals is None else globals):
            return replaced_import(name, globals, locals, fromlist, level, original)
        return original(name, globals, locals, fromlist, level)

    return __import__


def _by_name(original: Any) -> Any:
    """``importlib.import_module`` while a block is open."""

    def import_module(name: str, package: str | None = None) -> Any:
        if _is_of_a_block(sys._getframe(1).f_globals):
            return replaced_module(name, package, original)
        return original(name, package)

    return import_module


def run_as_jax(namespace: dict[str, Any]) -> None:
    """Have the import statements of code that runs in ``namespace`` mean minijax, from now on."""
    namespace["__builtins__"] = own_builtins()
