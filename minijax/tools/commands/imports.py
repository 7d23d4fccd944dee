"""Completions for an unfinished import statement. Imports nothing and runs nothing."""

from __future__ import annotations

import importlib.machinery
import pkgutil
import re
import sys
from collections.abc import Iterable

from minijax.tools.session.static import static_names, static_value

# ``import numpy.li``, ``import os, sy``, ``from jax.nu``, ``from jax import nu``
IMPORTING = re.compile(
    r"(?:^|[\n;])[ \t]*(?:"
    r"import[ \t]+(?:[\w. \t]+,[ \t]*)*|"
    r"from[ \t]+(?P<source>\w[\w.]*)[ \t]+import[ \t]+(?:\w[\w \t]*,[ \t]*)*|"
    r"from[ \t]+"
    r")(?P<typed>\w[\w.]*|)$"
)


def importable(found: re.Match[str]) -> list[str]:
    """The names that complete a match of ``IMPORTING``."""
    source, typed = found["source"], found["typed"]
    if source is not None:
        module = sys.modules.get(source)
        names = {*modules(source), *(static_names(module) if module is not None else ())}
        listed: object = static_value(module, "__all__") if module is not None else None
        public = {name for name in listed if type(name) is str} if isinstance(listed, list | tuple) else set()
    else:
        names, public = set(modules(typed.rpartition(".")[0])), set()
    start = typed.rpartition(".")[2]
    shown = {name for name in names if start.startswith("_") or not name.startswith("_")}
    return sorted(name for name in public | shown if name.isidentifier())


def modules(package: str) -> Iterable[str]:
    """The modules in a package, or all top-level modules for ''."""
    if not package:
        return [*sys.builtin_module_names, *(each.name for each in pkgutil.iter_modules())]
    return [each.name for each in pkgutil.iter_modules(_folders(package))]


def _folders(package: str) -> list[str]:
    """The folders of a package, which may not be imported yet."""
    folders: list[str] | None = None
    for i, name in enumerate(parts := package.split(".")):
        loaded = sys.modules.get(".".join(parts[: i + 1]))
        found = static_value(loaded, "__path__") if loaded is not None else None
        if type(found) not in (list, tuple):
            spec = importlib.machinery.PathFinder.find_spec(name, folders)
            found = spec.submodule_search_locations if spec is not None else None
        if found is None:
            return []
        folders = [each for each in found if isinstance(each, str)]
    return folders or []
