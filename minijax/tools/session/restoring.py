"""Undo the stores of tracers into the user's objects by a command that only traces the user's program."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from minijax.core.avals import AnyArray
from minijax.core.trace import Tracer
from minijax.errors import is_user_file
from minijax.tools.session.static import instance_dict

# Maximum number of objects saved before a command.
MOST_OBJECTS = 5000
# Commands that run the user's program as it is: what it stores is the program's own doing.
RUNNING = ("step", "log", "run", "why", "timeit", "edit", "sh", "push", "pop", "tour")
_Saved = tuple[Any, dict[Any, Any]]


def saved(roots: Iterable[Any]) -> list[_Saved]:
    """The contents of the containers, instances and functions that ``roots`` lead to, each as a dict."""
    found: list[_Saved] = []
    seen: dict[int, Any] = {}
    todo = deque(roots)  # near objects come first, in case the limit is reached
    while todo and len(seen) < MOST_OBJECTS:
        each = todo.popleft()
        if id(each) in seen or isinstance(each, (AnyArray, np.ndarray, str, bytes, int, float, type, ModuleType)):
            continue
        seen[id(each)] = each
        inner: list[Any] = []
        if isinstance(each, FunctionType):
            if not is_user_file(each.__code__.co_filename):
                continue
            space = each.__globals__
            found.append((space, {name: space.get(name, found) for name in _names(each.__code__)}))
            inner = [value for value in found[-1][1].values() if value is not found]
            for cell in each.__closure__ or ():
                found.append((cell, dict(_items(cell))))
                inner += found[-1][1].values()
        elif isinstance(each, MethodType):
            inner = [each.__self__, each.__func__]
        elif type(each) is tuple:
            inner = [*each]
        container = each if type(each) in (dict, list) else instance_dict(each)
        found.append((container, dict(_items(container))))
        inner += found[-1][1].values()
        todo += inner
    return found


def restore(found: list[_Saved]) -> None:
    """Put back what stood in the saved containers where there is now a tracer whose transformation has ended."""
    for container, before in found:
        changed = {key for key, value in _items(container) if value is not before.get(key) and _is_dead(value)}
        if not changed:
            continue
        if isinstance(container, list):
            container[:] = before.values()
        elif isinstance(container, CellType):
            container.cell_contents = before[0]
        else:
            for key in changed:
                if before.get(key, found) is found:
                    del container[key]
                else:
                    container[key] = before[key]


def _items(container: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(container, CellType):
        try:
            yield 0, container.cell_contents
        except ValueError:  # an empty cell
            yield 0, None
    else:
        yield from list(container.items() if isinstance(container, dict) else enumerate(container))


def _is_dead(value: Any, depth: int = 3) -> bool:
    """Whether ``value`` is, or contains, a tracer whose transformation has ended."""
    if isinstance(value, Tracer):
        return not value._trace.main.alive
    if type(value) is dict:
        value = (*value.values(),)
    return depth > 0 and type(value) in (tuple, list) and any(_is_dead(each, depth - 1) for each in value)


def _names(code: CodeType) -> set[str]:
    """The global names that a function uses, including its inner functions."""
    return set(code.co_names).union(*[_names(each) for each in code.co_consts if isinstance(each, CodeType)])
