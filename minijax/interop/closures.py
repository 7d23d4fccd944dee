"""What a function closes over while it is traced, taken out of it: to be given to it later, when the trace has ended.

In: a function, alone, in a partial or as a method of a tree, and which values are to come out. Out: the same with slots
in their place, and the values; ``filled`` puts others there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import CellType, FunctionType, MethodType
from typing import Any

from minijax.interop.values import jax_module


class Slot:
    """Where the value number ``index`` was."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


def hoisted(x: Any, is_wanted: Callable[[Any], bool]) -> tuple[Any, list[Any]]:
    """``x`` with slots for what functions in it close over, and the values; ``x`` itself if there are none.

    Raises:
      NotImplementedError: a compiled function closes over such a value: no copy of it can be made.
    """
    values: list[Any] = []
    slots: dict[int, Slot] = {}

    def slot_for(value: Any) -> Any:
        if not is_wanted(value):
            return value
        if id(value) not in slots:
            slots[id(value)] = Slot(len(values))
            values.append(value)
        return slots[id(value)]

    return _Copying(is_wanted, slot_for)(x), values


def filled(x: Any, values: Sequence[Any]) -> Any:
    """What ``hoisted`` gave, with ``values`` in the slots."""
    return _Copying(lambda y: type(y) is Slot, lambda y: values[y.index] if type(y) is Slot else y)(x)


class _Copying:
    """Copies of functions, and of the trees that they are in, with other values; what holds none stays what it is."""

    def __init__(self, is_wanted: Callable[[Any], bool], other: Callable[[Any], Any]) -> None:
        self.is_wanted, self.other = is_wanted, other
        self._holds: dict[int, bool] = {}
        self._copies: dict[int, Any] = {}

    def holds(self, x: Any) -> bool:
        """Whether there is a wanted value in ``x``; of a function that holds itself, its other values decide."""
        if self.is_wanted(x):
            return True
        if id(x) not in self._holds:
            inside = _inside(x)
            if not inside:
                return False
            self._holds[id(x)] = True  # met again below: a copy of the outer one needs one of this
            self._holds[id(x)] = any([self.holds(y) for y in inside])
        return self._holds[id(x)]

    def __call__(self, x: Any) -> Any:
        if not self.holds(x) or self.is_wanted(x):
            return self.other(x)
        if id(x) not in self._copies:
            copy = self._function(x) if isinstance(x, FunctionType) else self._container(x)
            self._copies[id(x)] = copy
        return self._copies[id(x)]

    def _function(self, fun: FunctionType) -> FunctionType:
        cells = tuple([CellType() for _ in fun.__closure__ or ()])
        copy = FunctionType(fun.__code__, fun.__globals__, fun.__name__, None, cells)
        self._copies[id(fun)] = copy  # before what is inside, where it may occur itself
        functools.update_wrapper(copy, fun, ("__module__", "__name__", "__qualname__", "__doc__"))
        copy.__dict__.pop("__wrapped__")
        copy.__defaults__, copy.__kwdefaults__ = self(fun.__defaults__), self(fun.__kwdefaults__)
        for cell, old in zip(cells, fun.__closure__ or (), strict=True):
            if _is_set(old):
                cell.cell_contents = self(old.cell_contents)
        return copy

    def _container(self, x: Any) -> Any:
        if isinstance(x, MethodType):
            return MethodType(self(x.__func__), self(x.__self__))
        if type(x) is functools.partial:
            keywords = {name: self(y) for name, y in x.keywords.items()}
            return functools.partial(self(x.func), *map(self, x.args), **keywords)
        leaves, tree = jax_module("tree_util").tree_flatten(x, is_leaf=lambda y: y is not x)
        if not _is_node(x):
            raise NotImplementedError(
                f"{x!r} closes over what is being traced, and is no function of Python's, of which a copy could be "
                "made. Pass the arrays as arguments."
            )
        return tree.unflatten(map(self, leaves))


def _inside(x: Any) -> list[Any]:
    if isinstance(x, FunctionType):
        closed = [cell.cell_contents for cell in x.__closure__ or () if _is_set(cell)]
        return [*closed, *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
    if isinstance(x, MethodType):
        return [x.__func__, x.__self__]
    if type(x) is functools.partial:
        return [x.func, *x.args, *x.keywords.values()]
    if _is_node(x):
        return list(jax_module("tree_util").tree_leaves(x, is_leaf=lambda y: y is not x))
    wrapped = getattr(x, "__wrapped__", None) if callable(x) and not isinstance(x, type) else None
    return [] if wrapped is None else [wrapped]


def _is_node(x: Any) -> bool:
    tree_util = jax_module("tree_util")
    return x is not None and not tree_util.treedef_is_leaf(tree_util.tree_structure(x, is_leaf=lambda y: y is not x))


def _is_set(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
