"""Pytree nodes known to only one of the two libraries, packed as a node that both know.

In: the arguments or results of a JAX function that minijax calls, or of a minijax function that JAX calls. Out: the
same with a ``Packed`` for each instance of a borrowed class, and for each node registered only with minijax.
JAX's code sees instances of JAX's class; minijax sees instances of minijax's subclass of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.records import NamedTuple
from minijax.interop.values import jax_module
from minijax.pytree import FlattenedIndexKey, GetAttrKey, PyTreeDef, is_tree_node, register_pytree_node, tree_flatten

# JAX's class -> minijax's, and the reverse
classes: dict[type, type] = {}
originals: dict[type, type] = {}


class Fields(NamedTuple):
    """How to rebuild an instance of a borrowed class: JAX's class and the attribute names."""

    theirs: type
    names: Sequence[str]


class Packed:
    """A packed node: ``children``, and ``home``, which is its ``Fields`` or the tree definition of this node alone."""

    __slots__ = ("children", "home")

    def __init__(self, children: Sequence[Any], home: Fields | PyTreeDef) -> None:
        self.children, self.home = children, home


def _flatten(x: Packed) -> tuple[Sequence[Any], Any]:
    return x.children, x.home


@functools.cache
def _tree_map() -> Callable[..., Any]:
    """JAX's ``tree_map``, with ``Packed`` registered."""
    tree_util = jax_module("tree_util")
    tree_util.register_pytree_node(Packed, _flatten, lambda home, children: Packed(children, home))
    return tree_util.tree_map  # type: ignore[no-any-return]


def _flatten_with_keys(x: Packed) -> tuple[Sequence[Any], Any]:
    home, numbers = x.home, range(len(x.children))
    keys = list(map(GetAttrKey, home.names) if isinstance(home, Fields) else map(FlattenedIndexKey, numbers))
    return list(zip(keys, x.children, strict=True)), home


register_pytree_node(Packed, _flatten, lambda home, children: Packed(children, home), _flatten_with_keys)


def fields_of(x: Any) -> dict[str, Any]:
    """The attributes of an instance of a borrowed class, by name."""
    if isinstance(x, tuple):
        names: Sequence[str] = x._fields  # type: ignore[attr-defined]
        return dict(zip(names, tuple.__iter__(x), strict=True))  # ``len`` may be borrowed
    slots = [name for cls in type(x).__mro__ for name in vars(cls).get("__slots__", ()) if hasattr(x, name)]
    return {name: getattr(x, name) for name in slots} | getattr(x, "__dict__", {})


def made(cls: type, fields: dict[str, Any]) -> Any:
    """Make an instance of ``cls`` with these attributes."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, fields.values())
    x = object.__new__(cls)
    set_fields(x, fields)
    return x


def set_fields(x: Any, fields: dict[str, Any]) -> None:
    """Set these attributes, also on a frozen instance."""
    for name, value in fields.items():
        object.__setattr__(x, name, value)


def packed_instance(x: Any, pack: Callable[[Any], Any]) -> Packed:
    """Pack an instance of a borrowed class (minijax's or JAX's); ``pack`` packs its attributes."""
    fields = fields_of(x)
    return Packed(list(map(pack, fields.values())), Fields(originals.get(type(x), type(x)), tuple(fields)))


def packed_node(x: Any, pack: Callable[[Any], Any]) -> Packed | None:
    """Pack ``x`` if its class is a pytree node for minijax but not for JAX; else None."""
    if isinstance(x, tuple) or not is_tree_node(type(x)) or jax_module("tree_util").is_tree_node(type(x)):
        return None
    children, home = tree_flatten(x, is_leaf=lambda y: y is not x)
    _tree_map()
    return Packed(list(map(pack, children)), home)


def pack(tree: Any) -> Any:
    """Pack every node in ``tree`` that JAX does not know."""

    def packed(x: Any) -> Any:
        if is_instance(x):
            return packed_instance(x, pack)
        return packed_node(x, pack) or x

    return _tree_map()(packed, tree, is_leaf=lambda x: is_instance(x) or isinstance(x, Exception))


def is_instance(x: Any) -> bool:
    """Whether ``x`` is an instance of a borrowed class, minijax's or JAX's."""
    return type(x) in classes or type(x) in originals


def unpack_for_jax(tree: Any) -> Any:
    """Unpack ``tree`` to instances of JAX's classes; nodes that JAX does not know stay packed."""
    return _unpacked(tree, lambda theirs: theirs, lambda children, home: Packed(children, home))


def unpack(tree: Any) -> Any:
    """Unpack ``tree`` to instances of minijax's classes and nodes registered with minijax."""
    return _unpacked(tree, lambda theirs: classes[theirs], lambda children, home: home.unflatten(children))


def _unpacked(tree: Any, class_of: Callable[[type], type], node: Callable[[list[Any], Any], Any]) -> Any:
    def unpacked(x: Any) -> Any:
        if type(x) is not Packed:
            return x
        children = [_unpacked(child, class_of, node) for child in x.children]
        if isinstance(x.home, Fields):
            return made(class_of(x.home.theirs), dict(zip(x.home.names, children, strict=True)))
        return node(children, x.home)

    return _tree_map()(unpacked, tree, is_leaf=lambda x: type(x) is Packed or isinstance(x, Exception))
