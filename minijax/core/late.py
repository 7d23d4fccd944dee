"""Modules that few programs use, and that are imported when somebody asks for what they define.

Every program pays for ``import minijax``, and every file of it costs a quarter of a millisecond. A package names its
late modules here; they are imported when a name is asked for that the package does not have yet, and whenever all
primitives have to be known: to read a printed program, to list rules.
"""

from __future__ import annotations

import importlib
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


def fill(*modules: str) -> None:
    """Import ``modules``, which put their rules into the table of a module below them; for who looks them up there."""
    for name in modules:
        importlib.import_module(name)


def public(package: str, name: str) -> Any:
    """What ``package`` gives under ``name``: for a module of it that is below the one which defines that."""
    return getattr(importlib.import_module(package), name)


def load_all() -> None:
    """Import every late module, so that each primitive and each rule is known."""
    for package in list(_late):
        if package not in _loaded:
            load(package, vars(importlib.import_module(package)))
    for name in _defining:
        importlib.import_module(name)
