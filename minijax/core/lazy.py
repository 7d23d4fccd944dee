"""Lazy imports: modules that few programs use are imported at first use.

Each file costs a quarter of a millisecond at ``import minijax``. A package lists its late modules here. They are
imported when a name is missing in the package, and when all primitives must be known, for example to read a printed
program or to list rules.

A module that needs a higher module names the role of that module: ``HigherModule(role)``. ``minijax/__init__.py``, the
highest module, sets the modules of each role.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

# package or module -> its late modules
_late: dict[str, tuple[str, ...]] = {}
# other modules that define primitives
_defining: tuple[str, ...] = ()
_loaded: set[str] = set()


def later(package: str, *modules: str) -> None:
    """Take the names that ``package`` lacks from ``modules``, which are imported when such a name is needed."""
    _late[package] = modules


def defined_later(*modules: str) -> None:
    """Record that ``modules``, which are imported elsewhere, define primitives."""
    global _defining
    _defining += modules


def late_modules(package: str) -> tuple[str, ...]:
    return _late.get(package, ())


def is_late(package: str) -> bool:
    """Whether ``package`` has late modules that are not loaded."""
    return package in _late and package not in _loaded


def load(package: str, namespace: dict[str, Any], wanted: str | None = None) -> None:
    """Import the late modules of ``package``, and add their names to ``namespace``, until ``wanted`` is found."""
    complete = True
    for name in late_modules(package):
        if wanted in namespace:
            return
        module = importlib.import_module(name)
        if getattr(module.__spec__, "_initializing", False):  # being imported, and it needs another late module
            complete = False
            continue
        for public in getattr(module, "__all__", ()):
            namespace.setdefault(public, getattr(module, public))
    if complete:
        _loaded.add(package)


# role -> the modules that have it
_higher: dict[str, tuple[str, ...]] = {}


def set_higher_modules(modules: Mapping[str, str | tuple[str, ...]]) -> None:
    """Set the module, or the modules, of each role."""
    _higher.update({role: (found,) if isinstance(found, str) else found for role, found in modules.items()})


class HigherModule:
    """A higher module, known by its role. At first access all modules of the role are imported."""

    __slots__ = ("_first", "_role")

    def __init__(self, role: str) -> None:
        self._role = role
        self._first: ModuleType | None = None

    def load(self) -> ModuleType:
        """Import the modules of this role; returns the first."""
        if self._first is None:
            self._first, *_ = [importlib.import_module(module) for module in _higher[self._role]]
        return self._first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first or self.load(), name)


def public(module: str, name: str) -> Any:
    """``name`` from a lower module, which is imported only now because few programs need it."""
    return getattr(importlib.import_module(module), name)


def load_all() -> None:
    """Import every late module, so that all primitives and rules are known."""
    for package in list(_late):
        if package not in _loaded:
            load(package, vars(importlib.import_module(package)))
    for name in _defining:
        importlib.import_module(name)
