"""``replacing_jax``, and the packages that it loaded: ``minijax.interop.replaced.optax`` is Optax on minijax.

Python's own import system loads submodules of this module: packages written on JAX from their installed files, and
``jax`` from ``jax_modules``. So Python handles reloading, pickling by module name and circular imports, and
``sys.modules["optax"]`` does not change. The loaded modules get builtins whose ``__import__`` maps ``jax`` and
``optax`` to submodules of this module, also in import statements that run later. The code is compiled from the
original file, so tracebacks and ``inspect`` work.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from types import CodeType, ModuleType, TracebackType
from typing import Any

from minijax.interop import jax_modules
from minijax.interop.jax_modules import JAX, also, spec_of, written_on_jax

PREFIX = __name__ + "."
# No folder has this name. The finder in ``sys.path_importer_cache`` loads the modules of a path that ends in it.
_MARK = "<minijax>"


class _Loader(SourceFileLoader):
    """Runs a module with builtins whose ``__import__`` is minijax's."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = own_builtins()
        super().exec_module(module)

    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code, in which constants equal to the module's original name become ``fullname``."""
        code, name = super().get_code(fullname), fullname.removeprefix(PREFIX)
        return code if code is None or "." not in name else _renamed(code, name, fullname)


def _renamed(code: CodeType, name: str, fullname: str) -> CodeType:
    """Replace the constant ``name`` by ``fullname``, because packages compare it with a class's ``__module__``."""
    constants = tuple(
        fullname
        if each == name and type(each) is str
        else _renamed(each, name, fullname)
        if isinstance(each, CodeType)
        else each
        for each in code.co_consts
    )
    same = all(new is old for new, old in zip(constants, code.co_consts, strict=True))
    return code if same else code.replace(co_consts=constants)


class _Folder(FileFinder):
    """Finds the modules in a package's folder."""

    def __init__(self, path: str) -> None:
        super().__init__(path, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_Loader, SOURCE_SUFFIXES))

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find as Python's ``FileFinder`` does, but give subpackages minijax's path entries."""
        return _placed(super().find_spec(fullname, target))


class _Top:
    """Finds top-level packages that are written on JAX."""

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find the package of this name, if it is written on JAX."""
        name = fullname.removeprefix(PREFIX)
        if name in JAX:
            return _Jax().find_spec(fullname)
        found = spec_of(name) if written_on_jax(name) else None
        if found is None:
            return None
        if found.loader is None:  # folders without an __init__.py
            spec = ModuleSpec(fullname, None)
        elif found.has_location and found.origin and found.origin.endswith(tuple(SOURCE_SUFFIXES)):
            loader = _Loader(fullname, found.origin)
            made = importlib.util.spec_from_file_location(fullname, found.origin, loader=loader)
            assert made is not None
            spec = made
        else:
            raise ImportError(f"{name} is not loaded from a Python file, so minijax cannot take JAX's place in it")
        spec.submodule_search_locations = found.submodule_search_locations
        return _placed(spec)

    def invalidate_caches(self) -> None:
        """Do nothing: there is no cache."""


class _Jax:
    """Finds JAX's modules, made by ``jax_modules``."""

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        name = fullname.removeprefix(PREFIX)
        if not jax_modules.exists(name):
            return None
        spec = ModuleSpec(fullname, self)  # type: ignore[arg-type]
        spec.submodule_search_locations = [_JAX_PLACE]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return jax_modules.JaxModule(spec.name, spec.name.removeprefix(PREFIX))

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has no code."""

    def invalidate_caches(self) -> None:
        """Do nothing: there is no cache."""


def _entry(folder: str, finder: Any) -> str:
    entry = os.path.join(folder, _MARK)
    sys.path_importer_cache.setdefault(entry, finder)
    return entry


def place_of(folder: str) -> str:
    """A ``__path__`` entry for ``folder``. The modules in it run with minijax in place of JAX."""
    return _entry(folder, _Folder(folder))


def _placed(spec: ModuleSpec | None) -> ModuleSpec | None:
    if spec is not None and spec.submodule_search_locations is not None:
        folders = [folder.removesuffix(os.sep + _MARK) for folder in spec.submodule_search_locations]
        spec.submodule_search_locations = [place_of(folder) for folder in folders]
    return spec


__path__ = [_entry(os.path.splitext(os.path.abspath(__file__))[0], _Top())]
_JAX_PLACE = _entry(os.path.join(os.path.dirname(os.path.abspath(__file__)), "jax"), _Jax())


def replaced_import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
    python: Any = None,
) -> Any:
    """``builtins.__import__`` that imports minijax in place of JAX; ``python`` imports everything else."""
    python = python or builtins.__import__
    top = name.partition(".")[0]
    if not level and top == "importlib":
        module = python(name, globals, locals, fromlist, 0)  # ``name`` may be a module below ``importlib``
        return module if fromlist and name != top else _importlib
    if level or not written_on_jax(top):
        return python(name, globals, locals, fromlist, level)
    try:
        module = python(PREFIX + name, None, None, tuple(fromlist or ()), 0)
    except ModuleNotFoundError as error:
        raise _not_found(error) from None
    if not fromlist:
        return sys.modules.get(PREFIX + top) or importlib.import_module(PREFIX + top)
    if isinstance(module, jax_modules.JaxModule):
        jax_modules.check_names(module, fromlist)
    return module


def _not_found(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error for a missing module, with the name that the user imported."""
    name = error.name or ""
    if not name.startswith(PREFIX):
        return error
    name = name.removeprefix(PREFIX)
    return ModuleNotFoundError(jax_modules.no_module(name), name=name)


def replaced_module(name: str, package: str | None = None, python: Any = None) -> ModuleType:
    """``importlib.import_module`` that imports minijax in place of JAX; ``python`` imports everything else."""
    python = python or importlib.import_module
    if name.startswith(".") or not written_on_jax(name.partition(".")[0]):
        module: ModuleType = python(name, package)
        return module
    try:
        python(PREFIX + name)
    except ModuleNotFoundError as error:
        raise _not_found(error) from None
    return sys.modules[PREFIX + name]


class _Importlib(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(importlib, name)


_importlib = _Importlib("importlib")
_importlib.__dict__["import_module"] = replaced_module
_own_builtins: dict[str, Any] = {}


def own_builtins() -> dict[str, Any]:
    """Python's builtins, with an ``__import__`` that maps ``jax`` to minijax."""
    _own_builtins.update(vars(builtins), __import__=replaced_import)
    return _own_builtins


_lock = threading.Lock()
# The globals of the modules that have open ``replacing_jax`` blocks, for each thread and task.
_open: ContextVar[tuple[dict[str, Any], ...]] = ContextVar("minijax_replacing", default=())
# The number of open blocks on all threads, and the hooks that replace import functions while a block is open.
_count = 0
_hooks: list[_Hook] = []


class _Hook:
    """Replaces a function of a module by ``made(original)`` until ``remove``."""

    def __init__(self, module: Any, name: str, made: Callable[[Any], Any]) -> None:
        self._module, self._name, self._original = module, name, getattr(module, name)
        self._function = made(self._original)
        setattr(module, name, self._function)

    def remove(self) -> None:
        """Put the original back, unless someone else has replaced the function in the meantime."""
        if getattr(self._module, self._name) is self._function:
            setattr(self._module, self._name, self._original)


class replacing_jax:
    """A block whose import statements load minijax for ``jax``, also in the packages that they import::

        with minijax.interop.replacing_jax():
            import jax.numpy as jnp
            import optax  # runs on minijax from now on, and so does what it imports, now and later

    The block replaces JAX and every pure-Python package or module that imports it, directly or not. The result is
    another copy of the package: ``sys.modules["optax"]`` and code that imported the real one do not change. The copy's
    module name is ``minijax.interop.replaced.optax``, under which its classes are pickled. The block affects import
    statements (and calls of ``importlib.import_module``) in the file or prompt that opens it, or in code that belongs
    to no module, on the same thread.

    Args:
    packages: names of packages that do not import JAX but take its objects; they are replaced too.
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
    """Whether import statements in code with the globals ``names`` are replaced."""
    blocks = _open.get()
    return bool(blocks) and (names.get("__spec__") is None or any(each is names for each in blocks))


def _importing(original: Any) -> Any:
    """``builtins.__import__`` while a block is open: in the blocks' files it loads minijax, elsewhere ``original``."""

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
    """Make import statements in ``namespace`` load minijax from now on."""
    namespace["__builtins__"] = own_builtins()
