"""Splits a value into branches and leaves, each with its key. It does not read the contents of leaves.

Containers are pytrees and instances of data classes. The latter may hold arrays although transformations treat them
as leaves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from minijax.core.array import Array
from minijax.core.trace import Tracer
from minijax.pytree import DictKey, GetAttrKey, flatten_one_level_with_keys, is_tree_node
from minijax.tools.documents.words import shortened

# Beyond these limits the tree is truncated, and says so.
MOST_PARTS = 20_000
MOST_LEVELS = 60
# Maximum characters of a key.
LONGEST_KEY = 48


class TreePart:
    """A branch or a leaf of a tree.

    Attributes:
      key: the step from the branch to this part: ``['w']``, ``[0]``, ``.mu``. Steps through single-part branches are
          joined: ``['params']['Dense_0']``.
      value: the object at this place.
      parts: the parts of a branch; None for a leaf.
      arrays, elements, nbytes: totals over the part and all parts inside it.
      types: the number of leaves inside that are array types without values.
      cut: how many of a branch's own parts were left out.
      missing: the number of parts that were left out or not split, counting this part and all levels inside it.
      said: the reason why a container is shown as a leaf.
    """

    __slots__ = ("arrays", "cut", "elements", "key", "missing", "nbytes", "parts", "said", "types", "value")

    def __init__(self, key: str, value: Any) -> None:
        self.key = key
        self.value = value
        self.parts: list[TreePart] | None = None
        self.arrays = self.elements = self.nbytes = self.types = self.cut = self.missing = 0
        self.said = ""

    def kind(self) -> str:
        """The kind of a container: ``dict of 3``, ``ScaleByAdamState``."""
        cls = type(self.value)
        if cls in (dict, list, tuple):
            return f"{cls.__name__} of {len(self.value)}" if self.value else f"empty {cls.__name__}"
        return cls.__name__


def is_array(value: Any) -> bool:
    """Whether a leaf is an array of minijax, NumPy or JAX, or a tracer."""
    if isinstance(value, (Array, Tracer, np.ndarray, np.generic)):
        return True
    # an array of real JAX; checked by name to avoid importing JAX
    return type(value).__module__.startswith("jax") and hasattr(value, "dtype") and hasattr(value, "devices")


def is_container(value: Any) -> bool:
    """Whether ``value`` can hold arrays."""
    if value is None or isinstance(value, (Array, Tracer, np.ndarray)):
        return False
    return is_tree_node(type(value)) or _is_data(value)


def _is_data(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def taken_apart(value: Any) -> TreePart:
    """``value`` as a tree."""
    return _Walk().part("", value, 0)


class _Walk:
    def __init__(self) -> None:
        self.left = MOST_PARTS
        self.around: dict[int, str] = {}  # the enclosing containers, with their kinds

    def part(self, key: str, value: Any, level: int) -> TreePart:
        """The part for ``value``, with all parts inside it."""
        self.left -= 1
        found = TreePart(key, value)
        if not is_container(value):
            self._weigh(found)
            return found
        if id(value) in self.around:
            found.said = f"the {self.around[id(value)]} around it, again"
            return found
        if level > MOST_LEVELS:
            found.missing, found.said = 1, f"{found.kind()}, too deep to be shown"
            return found
        try:
            children = _children(value)
        except Exception as error:  # from the user's flatten function
            found.said = f"{found.kind()} cannot be taken apart: {type(error).__name__}"
            return found
        self.around[id(value)] = found.kind()
        found.parts = []
        for step, child in children:
            if self.left <= 0:
                found.cut = found.missing = len(children) - len(found.parts)
                break
            found.parts.append(self.part(key_text(step), child, level + 1))
        del self.around[id(value)]
        for each in found.parts:
            found.arrays += each.arrays
            found.elements += each.elements
            found.nbytes += each.nbytes
            found.types += each.types
            found.missing += each.missing
        return found

    def _weigh(self, leaf: TreePart) -> None:
        value = leaf.value
        if not is_array(value):
            leaf.types = int(type(value).__name__ == "ShapeDtypeStruct")  # minijax's or JAX's
            return
        leaf.arrays = 1
        shape = value.aval.shape if isinstance(value, (Array, Tracer)) else value.shape
        leaf.elements = int(np.prod(shape, dtype=np.int64)) if shape else 1
        dtype = value.aval.dtype if isinstance(value, (Array, Tracer)) else value.dtype
        leaf.nbytes = leaf.elements * getattr(dtype, "itemsize", 0)


def _children(value: Any) -> list[tuple[Any, Any]]:
    """The keys and children of a container; a dictionary keeps its own order."""
    if type(value) is dict:
        return [(DictKey(key), child) for key, child in value.items()]
    if not is_tree_node(type(value)):
        names = [field.name for field in dataclasses.fields(value)]
        return [(GetAttrKey(name), getattr(value, name)) for name in names if hasattr(value, name)]
    return list(flatten_one_level_with_keys(value)[0])


def key_text(step: Any) -> str:
    """A step in Python syntax."""
    try:
        return shortened(str(step), LONGEST_KEY)
    except Exception:  # the key's __repr__ is user code
        return f"[{type(getattr(step, 'key', step)).__name__}]"


def joined_steps(part: TreePart) -> tuple[str, TreePart]:
    """Follow branches with a single part: the joined steps, and the first branch with several parts or the leaf."""
    key = part.key
    while part.parts is not None and len(part.parts) == 1 and not part.cut:
        part = part.parts[0]
        key += part.key
    middle = LONGEST_KEY // 2
    return (key if len(key) <= LONGEST_KEY + 3 else f"{key[:middle]}...{key[-middle:]}"), part


def found_at(tree: TreePart, path: str) -> TreePart | None:
    """The part at ``path``, written as keys are shown: ``['l1']['w']``, ``.mu[0]``, with either kind of quotes."""
    wanted = path.replace('"', "'")
    if not wanted:
        return tree
    for each in tree.parts or ():
        key = each.key.replace('"', "'")
        if wanted.startswith(key):
            inner = found_at(each, wanted[len(key) :])
            if inner is not None:
                return inner
    return None


def paths(tree: TreePart, before: str = "") -> Iterator[str]:
    """The paths of all parts."""
    for each in tree.parts or ():
        yield before + each.key
        yield from paths(each, before + each.key)


def counts(parts: Iterable[TreePart]) -> str:
    """``6 arrays, 8,970 elements``, and the number of parts left out."""
    listed = list(parts)
    arrays, missing = sum(each.arrays for each in listed), sum(each.missing for each in listed)
    said = [_many(arrays, "array"), _many(sum(each.elements for each in listed), "element")] if arrays else []
    if missing:
        said.append(f"{_many(missing, 'part')} not counted")
    return ", ".join(said)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
