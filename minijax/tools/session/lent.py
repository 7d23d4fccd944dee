"""User variables that the tour or an exercise replaces for a while, and then restores."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

_MISSING = object()


class LentNames:
    """The user's values of the replaced names. ``give_back`` restores them."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self.aside: dict[str, Any] = {}

    def borrow(self, names: Iterable[str], given: Mapping[str, Any]) -> list[str]:
        """Save the values of ``names`` and replace them by those in ``given``. Skip names that are saved already.

        Returns the names that had a value other than the one in ``given``.
        """
        space, differ = self.namespace, []
        for name in names:
            if name in self.aside:
                continue
            self.aside[name] = space.get(name, _MISSING)
            if name in space and not (name in given and space[name] is given[name]):
                differ.append(name)
            space.pop(name, None)
            if name in given:
                space[name] = given[name]
        return differ

    def give_back(self, given: Mapping[str, Any]) -> list[str]:
        """Restore the user's values. Returns the names whose values differ from those in ``given``."""
        returned = []
        for name, value in self.aside.items():
            if value is _MISSING:
                self.namespace.pop(name, None)
            else:
                self.namespace[name] = value
                if name not in given or given[name] is not value:
                    returned.append(name)
        self.aside = {}
        return returned


def names_in(code: str) -> tuple[dict[str, None], dict[str, None]]:
    """The names that Python code assigns and the names that it reads, each once, in order."""
    own: dict[str, None] = {}
    read: dict[str, None] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            (own if isinstance(node.ctx, ast.Store) else read)[node.id] = None
        elif isinstance(node, ast.alias):
            own[node.asname or node.name.partition(".")[0]] = None
        elif isinstance(node, ast.FunctionDef):
            own[node.name] = None
    return own, read
