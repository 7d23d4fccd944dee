"""``replacing_jax()``: packages that were written on JAX run on minijax, as they stand."""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from minijax.interop.replaced import import_module, own_builtins, replaced_import
from minijax.interop.written_on_jax import also

_lock = threading.Lock()
# The names of the modules that opened the blocks that are open here, as their global names. Of this thread and task.
_open: ContextVar[tuple[dict[str, Any], ...]] = ContextVar("minijax_replacing", default=())
# How many blocks are open on all threads, and Python's own import functions while there are any.
_count = 0
_python_import: Any = builtins.__import__
_python_import_module: Any = importlib.import_module


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
        global _count, _python_import, _python_import_module
        with _lock:
            if not _count:
                _python_import, builtins.__import__ = builtins.__import__, _import
                _python_import_module, importlib.import_module = importlib.import_module, _import_module
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
            if not _count and builtins.__import__ is _import:
                builtins.__import__ = _python_import
            if not _count and importlib.import_module is _import_module:
                importlib.import_module = _python_import_module


def _is_of_a_block(names: Any) -> bool:
    """Whether code with these global names stands in a block that is open here."""
    blocks = _open.get()
    return bool(blocks) and (names.get("__spec__") is None or any(each is names for each in blocks))


def _import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    """``builtins.__import__`` while a block is open: the blocks' own imports are replaced, all others are Python's."""
    if _is_of_a_block(sys._getframe(1).f_globals if globals is None else globals):
        return replaced_import(name, globals, locals, fromlist, level, _python_import)
    return _python_import(name, globals, locals, fromlist, level)


def _import_module(name: str, package: str | None = None) -> Any:
    """``importlib.import_module`` while a block is open."""
    if _is_of_a_block(sys._getframe(1).f_globals):
        return import_module(name, package, _python_import_module)
    return _python_import_module(name, package)


def run_as_jax(namespace: dict[str, Any]) -> None:
    """Have the import statements of code that runs in ``namespace`` mean minijax, from now on."""
    namespace["__builtins__"] = own_builtins()
