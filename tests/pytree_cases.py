"""Classes and trees that the tests of pytrees share, registered with minijax and with JAX."""

from __future__ import annotations

import collections
import dataclasses
import enum
from typing import Any, NamedTuple

import jax.tree_util as jtu
import numpy as np

from minijax import pytree


class Point(NamedTuple):
    x: Any
    y: Any


class OtherPoint(NamedTuple):
    x: Any
    y: Any


class Color(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Box:
    """A custom node with one child and auxiliary data."""

    def __init__(self, child, aux):
        self.child, self.aux = child, aux

    def __eq__(self, other):
        return isinstance(other, Box) and (self.child, self.aux) == (other.child, other.aux)

    def __hash__(self):
        return hash(self.aux)

    def tree_flatten(self):
        return (self.child,), self.aux

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(children[0], aux)


@dataclasses.dataclass
class Layer:
    weights: Any
    bias: Any
    name: str = dataclasses.field(default="dense", metadata=dict(static=True))


@dataclasses.dataclass(frozen=True)
class Static:
    value: int


class ListLike(list):
    """A subclass of list, which is a leaf: only the builtin list itself is a container."""


class DictLike(dict):
    pass


class TupleLike(tuple):
    pass


for module in (jtu, pytree):
    module.register_pytree_node_class(Box)
    module.register_dataclass(Layer)
    module.register_static(Static)

TREES = {
    "leaf": 1,
    "none": None,
    "empty tuple": (),
    "empty list": [],
    "empty dict": {},
    "three": (1, 2.0, np.ones(3)),
    "five": (1, 2, 3, 4, 5),
    "dict sorted": {"a": 1, "b": 2},
    "dict unsorted": {"b": 1, "a": (2, [3])},
    "dict of three": {"c": 1, "a": 2, "b": 3},
    "dict of four": {"d": 1, "c": 1, "a": 2, "b": {}},
    "dict of six": dict(zip("fabecd", range(6), strict=True)),
    "tuple keys": {(1, 2): 3, (0, 5): 4},
    "quote in key": {"a'b": 1},
    "enumeration keys": {Color.RED: 1, Color.BLUE: 2},
    "namedtuple": Point(1, (2, None)),
    "ordered dict": collections.OrderedDict([("b", 1), ("a", [2])]),
    "default dict": collections.defaultdict(list, b=1, a=2),
    "default dict without factory": collections.defaultdict(None, {}),
    "custom": Box(1, "aux"),
    "custom of custom": Box({"a": Box((1, 2), 3)}, ("x", 1)),
    "dataclass": Layer(np.ones(2), None, "first"),
    "dataclasses": [Layer(1, 2), Layer((3,), {}, "b")],
    "static": [Static(1), 5],
    "subclasses": [ListLike([1]), DictLike(a=1), TupleLike((1,))],
}
IDS = list(TREES)
ALL = list(TREES.values())


def same(a, b):
    """Whether trees have equal containers and leaves. Arrays must be the same objects."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Layer):
        return same(vars(a), vars(b))
    if isinstance(a, Box):
        return same(vars(a), vars(b))
    return a is b or (not isinstance(a, np.ndarray) and a == b)
