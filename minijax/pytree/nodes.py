"""Registration of pytree nodes: the public functions, ``Partial``, OrderedDict and defaultdict."""

from __future__ import annotations

import collections
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from minijax.pytree.core import Node, register_node
from minijax.pytree.keys import DictKey, GetAttrKey, KeyEntry

__all__ = [
    "Partial",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
]

_Class = TypeVar("_Class", bound=type)


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]] | None = None,
) -> None:
    """Register ``nodetype``: its instances become nodes, instances of subclasses do not. ValueError if done twice.

    ``flatten_func(x) -> (children, auxiliary data)``; the auxiliary data must be hashable and support ``==``.
    ``unflatten_func(auxiliary data, children) -> x`` must accept any objects as children. ``flatten_with_keys_func``
    gives ``(key entry, child)`` pairs as children.
    """
    for function in (flatten_func, unflatten_func):
        if not callable(function):
            raise TypeError(f"register_pytree_node wants functions to flatten and unflatten, got {function!r}.")
    register_node(nodetype, Node(nodetype.__name__, flatten_func, unflatten_func, flatten_with_keys_func))


def register_pytree_node_class(cls: _Class) -> _Class:
    """Class decorator: register a class with a method ``tree_flatten`` and a classmethod ``tree_unflatten``."""
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Like :func:`register_pytree_node`; ``flatten_with_keys`` gives ``(key entry, child)`` pairs and auxiliary data.

    Without ``flatten_func``, pytrees are flattened by ``flatten_with_keys``, and the key entries are dropped.
    """

    def flatten_without_keys(tree: Any) -> tuple[tuple[Any, ...], Any]:
        pairs, aux = flatten_with_keys(tree)
        return tuple([child for _, child in pairs]), aux

    register_pytree_node(nodetype, flatten_func or flatten_without_keys, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: _Class) -> _Class:
    """Class decorator: like :func:`register_pytree_node_class`, with a method ``tree_flatten_with_keys``."""
    flatten = operator.methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None
    with_keys = operator.methodcaller("tree_flatten_with_keys")
    register_pytree_with_keys(cls, with_keys, cls.tree_unflatten, flatten)  # type: ignore[attr-defined]
    return cls


def register_dataclass(
    nodetype: _Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> _Class:
    """Register a dataclass (or a class that behaves like one) by its fields; usable as a decorator.

    ``data_fields`` are children, ``meta_fields`` are hashable auxiliary data. Without both, all fields are data except
    those declared with ``field(metadata=dict(static=True))``. ``drop_fields`` are left out. TypeError if only one of
    ``data_fields`` and ``meta_fields`` is given, or neither for a class that is not a dataclass. ValueError if the two
    overlap, if a field of the dataclass is in neither, or if the class is already registered.
    """
    # Imported here: the import takes 3 ms, and few programs need it.
    import dataclasses

    if (data_fields is None) != (meta_fields is None):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields must both be specified when either is "
            f"specified. Got {data_fields=} {meta_fields=}."
        )
    if data_fields is None or meta_fields is None:
        if not dataclasses.is_dataclass(nodetype):
            raise TypeError(
                "register_dataclass: data_fields and meta_fields are required when nodetype is not a "
                f"dataclass. Got {nodetype=}."
            )
        fields = dataclasses.fields(nodetype)
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    data, meta = tuple(data_fields), tuple(meta_fields)
    if dataclasses.is_dataclass(nodetype):
        wanted = {f.name for f in dataclasses.fields(nodetype) if f.init} - set(drop_fields)
        missing, unexpected = wanted - {*data, *meta}, {*data, *meta} - wanted
        if missing or unexpected:
            raise ValueError(
                "data_fields and meta_fields must include all dataclass fields with ``init=True`` and only "
                "them."
                + (f" Missing fields: {sorted(missing)}. Add them to drop_fields to leave them out." if missing else "")
                + (f" Unexpected fields: {unexpected}." if unexpected else "")
            )
    if overlap := set(data) & set(meta):
        raise ValueError(f"data_fields and meta_fields must not overlap. Overlapping fields: {overlap}.")

    keys = tuple([GetAttrKey(name) for name in data])

    def flatten(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple([getattr(x, name) for name in data]), tuple([getattr(x, name) for name in meta])

    def flatten_with_keys(x: Any) -> tuple[Any, tuple[Any, ...]]:
        children, aux = flatten(x)
        return tuple(zip(keys, children, strict=True)), aux

    def unflatten(aux: tuple[Any, ...], children: Sequence[Any]) -> Any:
        return nodetype(**dict(zip(data, children, strict=True)), **dict(zip(meta, aux, strict=True)))

    register_node(nodetype, Node(nodetype.__name__, flatten, unflatten, flatten_with_keys), "dataclass PyTreeDef")
    return nodetype


def register_static(cls: _Class) -> _Class:
    """Class decorator: instances become nodes without leaves, as parts of the structure. They must be hashable."""

    def flatten_static(x: Any) -> tuple[tuple[()], Any]:
        return (), x

    def unflatten_static(x: Any, _children: Any) -> Any:
        return x

    register_pytree_with_keys(cls, flatten_static, unflatten_static)
    return cls


class _SharedCallable:
    """Wraps a ``functools.partial`` inside a :class:`Partial`, so that Python does not merge the two into one.

    It equals the wrapped partial, and has the same hash.
    """

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __eq__(self, other: object) -> bool:
        return bool(self.fun == (other.fun if isinstance(other, _SharedCallable) else other))

    def __repr__(self) -> str:
        return f"_SharedCallable({self.fun!r})"


class Partial(functools.partial):
    """``functools.partial`` as a node: the bound arguments are children, the function is auxiliary data.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.tree_util.Partial.html
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Partial:
        if isinstance(func, functools.partial):
            func = _SharedCallable(func)
        return super().__new__(cls, func, *args, **kwargs)


def _unflatten_partial(func: Callable[..., Any], children: Any) -> Partial:
    return Partial(func, *children[0], **children[1])


def _ordered_dict_with_keys(x: Any) -> tuple[Any, Any]:
    return tuple([(DictKey(key), value) for key, value in x.items()]), tuple(x)


def _unflatten_ordered_dict(keys: Any, children: Any) -> Any:
    return collections.OrderedDict(zip(keys, children, strict=True))


def _defaultdict_with_keys(x: Any) -> tuple[Any, Any]:
    keys = tuple(sorted(x))
    return tuple([(DictKey(key), x[key]) for key in keys]), (x.default_factory, keys)


def _unflatten_defaultdict(aux: Any, children: Any) -> Any:
    return collections.defaultdict(aux[0], zip(aux[1], children, strict=True))


register_pytree_node(Partial, lambda x: ((x.args, x.keywords), x.func), _unflatten_partial)
register_pytree_with_keys(collections.OrderedDict, _ordered_dict_with_keys, _unflatten_ordered_dict)
register_pytree_with_keys(collections.defaultdict, _defaultdict_with_keys, _unflatten_defaultdict)
