"""Which packages are written on JAX, read from their files: nothing is imported."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder

JAX = ("jax", "jaxlib")
# What packages on JAX register names in, once: the second copy of such a package has a second copy of it.
_REGISTRIES = ("absl",)
# minijax itself, and what says nothing of JAX's but is large: not worth reading.
_NEVER = frozenset({"minijax", "numpy", "scipy", "pytest", "_pytest", "IPython", "__main__"} | sys.stdlib_module_names)
_NAMES_JAX = re.compile(rb"^[ \t]*(?:import|from)[ \t]+jax(?:lib)?\b|^[ \t]*import[ \t].*,[ \t]*jax\b", re.MULTILINE)
# Statements that do not stand in a function: what is imported there, the package cannot do without.
_OUTER = re.compile(rb"^(?:from|import)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_known: dict[str, bool] = {}


def spec_of(name: str) -> ModuleSpec | None:
    """How the top-level module ``name`` would be imported."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):  # what is imported already may have no spec
        return PathFinder.find_spec(name)


def written_on_jax(name: str) -> bool:
    """Whether the top-level module or package ``name`` is JAX, or Python that imports JAX or another such package.

    A package with extension modules is not: those cannot be loaded twice, and hold on to what they were built for.
    """
    if name not in _known:
        _known[name] = name in (*JAX, *_REGISTRIES) or _found(name, frozenset())
    return _known[name]


def also(names: tuple[str, ...]) -> None:
    """Take these packages for written on JAX, whatever their files say."""
    _known.update(dict.fromkeys(names, True))


def _found(name: str, asking: frozenset[str]) -> bool:
    if name in _NEVER or name in asking:
        return False
    if name in _known:
        return _known[name]
    spec = spec_of(name)
    files = list(_sources(spec)) if spec is not None else []
    if any(path.endswith(tuple(EXTENSION_SUFFIXES)) for path in files):
        return False
    outer: set[str] = set()
    for path in files:
        try:
            with open(path, "rb") as file:
                text = file.read()
        except OSError:
            continue
        if _NAMES_JAX.search(text) and _imports_jax(text):
            return True
        outer.update(found.decode() for found in _OUTER.findall(text))
    return any(_found(each, asking | {name}) for each in sorted(outer - {name, *JAX}))


def _sources(spec: ModuleSpec) -> Iterator[str]:
    """The files of a module or package, but for its tests."""
    if spec.submodule_search_locations is None:
        if spec.has_location and spec.origin:
            yield spec.origin
        return
    for root in spec.submodule_search_locations:
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(each for each in folders if each not in ("tests", "test", "__pycache__"))
            for each in sorted(files):
                if each.endswith((".py", *EXTENSION_SUFFIXES)) and not each.endswith("_test.py"):
                    yield os.path.join(folder, each)


def _imports_jax(text: bytes) -> bool:
    """Whether a statement does, rather than an example in a docstring."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        if any(name.partition(".")[0] in JAX for name in names):
            return True
    return False
