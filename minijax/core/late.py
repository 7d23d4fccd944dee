"""Modules that few programs use, and that are imported when somebody asks for what they define.

Every program pays for ``import minijax``, and every file of it costs a quarter of a millisecond. A package names its
late modules here; they are imported when a name is asked for that the package does not have yet, and whenever all
primitives have to be known: to read a printed program, to list rules.

A module that needs a higher one says in which role, as a ``HigherModule``, and names no module.
``minijax/__init__.py``, the highest of all, says which module has each role.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

# package or module -> its late modules
_late: dict[str, tuple[str, ...]] = {}
# further modules that define primitives
_defining: tuple[str, ...] = ()
_loaded: set[str] = set()


def later(package: str, *modules: str) -> None:
    """``package`` gives the names of ``modules``, too, once they are needed."""
    _late[package] = modules


def defined_later(*modules: str) -> None:
    """``modules``, which are imported by those who use them, define primitives."""
    global _defining
    _defining += modules


def late_modules(package: str) -> tuple[str, ...]:
    """The late modules of ``package``."""
    return _late.get(package, ())


def is_late(package: str) -> bool:
    """Whether ``package`` has modules that have not been asked for."""
    return package in _late and package not in _loaded


def load(package: str, namespace: dict[str, Any], wanted: str | None = None) -> None:
    """Import the late modules of ``package``, whose globals are ``namespace``, and give it the names they export.

    One after another, and no more of them once there is the name ``wanted``.
    """
    complete = True
    for name in late_modules(package):
        if wanted in namespace:
            return
        module = importlib.import_module(name)
        if getattr(module.__spec__, "_initializing", False):  # it is being imported, and asks for another's name
            complete = False
            continue
        for public in getattr(module, "__all__", ()):
            namespace.setdefault(public, getattr(module, public))
    if complete:
        _loaded.add(package)


# role -> the modules that have it
_higher: dict[str, tuple[str, ...]] = {}


def set_higher_modules(modules: Mapping[str, str | tuple[str, ...]]) -> None:
    """Say which module has each role, or which modules have it."""
    _higher.update({role: (found,) if isinstance(found, str) else found for role, found in modules.items()})


class HigherModule:
    """A module in a role that a lower module needs: ``_eager = HigherModule("eager_over_meshes")``, ``_eager.made(x)``.

    It is imported when it is first asked for something, with all others of its role.
    """

    __slots__ = ("_first", "_role")

    def __init__(self, role: str) -> None:
        self._role = role
        self._first: ModuleType | None = None

    def load(self) -> ModuleType:
        """Import the modules of this role, and give the first."""
        if self._first is None:
            self._first, *_ = [importlib.import_module(module) for module in _higher[self._role]]
        return self._first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first or self.load(), name)


def public(module: str, name: str) -> Any:
    """What ``module`` gives under ``name``: a lower module that few programs need, imported at the first use."""
    return getattr(importlib.import_module(module), name)


def load_all() -> None:
    """Import every late module, so that each primitive and each rule is known."""
    for package in list(_late):
        if package not in _loaded:
            load(package, vars(importlib.import_module(package)))
    for name in _defining:
        importlib.import_module(name)
