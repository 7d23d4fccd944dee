"""Public modules borrow JAX's functions for the names that they do not define.

minijax knows these names without importing jax. The first use of such a name loads ``_interop``, which imports jax.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from minijax.core import lazy
from minijax.core.lazy import HigherModule

_interop = HigherModule("borrowing")

# The largest number of similar names in an error.
_MOST_NEAR = 3
# Names that are borrowed but not listed: JAX will drop ``lpmn`` and ``lpmn_values``, and ``geqrf_p`` is private in JAX.
_UNLISTED = {"scipy.special": ("lpmn", "lpmn_values"), "lax.linalg": ("geqrf_p",)}


def borrowing(namespace: dict[str, Any], *late_modules: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of the public module with globals ``namespace``.

    A missing name comes from ``late_modules``, else from JAX's module of the same name, and is stored in ``namespace``.
    If JAX has no such name either, an AttributeError suggests similar names.
    """
    module = namespace["__name__"]
    lazy.later(module, *late_modules)

    def module_getattr(name: str) -> Any:
        if f"{module}.{name}" in late_modules:  # ``from minijax.numpy import padding``
            return importlib.import_module(f"{module}.{name}")
        if names_of(f"{module}.{name}"):
            return _module(f"{module}.{name}")
        if lazy.is_late(module) and (name == "__all__" or not name.startswith("_")):
            lazy.load(module, namespace, None if name == "__all__" else name)
            if name in namespace:
                return namespace[name]
        if late_modules and name == "__all__":  # import * looks for it
            own = {public for public, x in namespace.items() if public[0] != "_" and type(x) is not ModuleType}
            return sorted(own | set(names_of(module)))
        if name.startswith("_"):  # Python and its tools look for these in every module
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        if name not in (*names_of(module), *_UNLISTED.get(module.removeprefix("minijax."), ())):
            import difflib  # 2 ms, only for mistakes

            near = difflib.get_close_matches(name, {*namespace, *names_of(module)}, _MOST_NEAR)
            instead = f" Did you mean {' or '.join(near)}?" if near else ""
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}, and neither has JAX.{instead}", name=name
            )
        namespace[name] = borrow(module, name)
        return namespace[name]

    def module_dir() -> list[str]:
        if lazy.is_late(module):
            lazy.load(module, namespace)
        public = set(names_of(module))
        return sorted(public | {name for name, x in namespace.items() if type(x) is not ModuleType})

    return module_getattr, module_dir


@functools.cache
def borrow(module: str, name: str) -> Any:
    """JAX's ``name`` from the module that corresponds to ``module``, wrapped for our arrays."""
    return _interop.borrowed_name(module, name)


def borrowed_primitive(name: str) -> Any:
    """JAX's primitive called ``name``, as a primitive with rules derived from JAX's; None if JAX has none."""
    return _interop.borrowed_primitive(name)


def names_of(module: str) -> tuple[str, ...]:
    """The public names of JAX's module that corresponds to ``module``; () if there is none."""
    return public_names().get(module.removeprefix("minijax."), ())


@functools.cache
def public_names() -> dict[str, tuple[str, ...]]:
    """The names of each of JAX's modules (``numpy.linalg``), from ``jax_names.txt``."""
    lines = (Path(__file__).parent / "jax_names.txt").read_text(encoding="utf-8").splitlines()
    modules = [line.partition(": ") for line in lines if not line.startswith("#")]
    return {module: tuple(names.split()) for module, _, names in modules}


def _module(whole: str) -> ModuleType:
    """Our module ``whole`` if it has a file, else a module that borrows all of JAX's names (``scipy.stats.norm``)."""
    if whole in sys.modules:
        return sys.modules[whole]
    return importlib.import_module(whole) if _has_file(whole) else _made(whole)


def make_modules_below(package: str) -> None:
    """Make modules for JAX's modules below ``package`` that have no file here, so that they can be imported."""
    for module in public_names():
        whole = f"minijax.{module}"
        if whole.startswith(f"{package}.") and not _has_file(whole):
            _made(whole)


def _has_file(whole: str) -> bool:
    path = Path(__file__).parents[1].joinpath(*whole.split(".")[1:])
    return path.with_suffix(".py").exists() or path.is_dir()


def _made(whole: str) -> ModuleType:
    made = ModuleType(whole, "Borrowed from JAX, name by name.")
    vars(made)["__getattr__"], vars(made)["__dir__"] = borrowing(vars(made))
    return sys.modules.setdefault(whole, made)
