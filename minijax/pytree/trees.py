"""Functions on whole trees: map, reduce, transpose, and versions with key paths."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from minijax.pytree.core import (
    LEAF,
    IsLeaf,
    Leaf,
    PyTreeDef,
    Tree,
    build,
    children_of,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    keys_of,
    kinds,
    make_treedef,
    says_leaf,
    tree_flatten,
    tree_leaves,
    tree_structure,
)
from minijax.pytree.keys import KeyPath
from minijax.pytree.nodes import register_dataclass, register_pytree_node
from minijax.pytree.prefix import explain_prefix_mismatch

__all__ = [
    "all_leaves",
    "default_registry",
    "tree_all",
    "tree_flatten_with_path",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_transpose",
]


def tree_map(f: Callable[..., Any], tree: Tree, *rest: Tree, is_leaf: IsLeaf | None = None) -> Tree:
    """Apply ``f`` to each leaf of ``tree`` and the subtrees of ``rest`` at the same place.

    ValueError unless ``tree`` is a prefix of each tree in ``rest``.

    The result has the structure of ``tree``. None is a node without leaves, so ``f`` does not get it.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": None}, {"a": 2, "b": None})
    {'a': 3, 'b': None}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return build(treedef, [f(leaf) for leaf in leaves], 0)
    columns = [_matching(treedef, tree, other, "tree_map tree", is_leaf) for other in rest]
    return build(treedef, list(map(f, leaves, *columns)), 0)


def _matching(treedef: PyTreeDef, tree: Tree, other: Tree, name: str, is_leaf: Any) -> list[Tree]:
    try:
        return treedef.flatten_up_to(other)
    except ValueError as error:
        explanation = explain_prefix_mismatch(tree, other, name, is_leaf)
        raise (error if explanation is None else ValueError(explanation)) from None


def tree_all(tree: Tree, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether every element is a leaf."""
    items = list(iterable)
    if is_leaf is None:
        return all([kinds[type(item)] is None for item in items])
    leaves = tree_leaves(items, is_leaf)
    return len(leaves) == len(items) and all(a is b for a, b in zip(items, leaves, strict=True))


_MISSING: Any = object()


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Tree,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """``functools.reduce`` over the leaves. TypeError for a tree without leaves and without ``initializer``."""
    leaves = tree_leaves(tree, is_leaf)
    return (
        functools.reduce(function, leaves)
        if initializer is _MISSING
        else functools.reduce(function, leaves, initializer)
    )


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Tree,
    *,
    identity: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Reduce the leaves pairwise, as a balanced tree of operations; ``operation`` must be associative."""
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is _MISSING:
            raise TypeError("Must specify identity for parallel reduction of empty sequence.")
        return identity
    return _reduce_halves(operation, leaves)


def _reduce_halves(operation: Callable[[Any, Any], Any], leaves: list[Leaf]) -> Any:
    if len(leaves) == 1:
        return leaves[0]
    middle = len(leaves) // 2
    return operation(_reduce_halves(operation, leaves[:middle]), _reduce_halves(operation, leaves[middle:]))


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Tree) -> Tree:
    """Turn an outer tree of inner trees into an inner tree of outer trees. TypeError for another structure.

    >>> tree_transpose(tree_structure([0, 0]), tree_structure((0, 0, 0)), [(1, 2, 3), (4, 5, 6)])
    ([1, 4], [2, 5], [3, 6])
    """
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    inner, outer = inner_treedef.num_leaves, outer_treedef.num_leaves
    if treedef.num_leaves != inner * outer:
        raise TypeError(f"Mismatch\n{treedef}\n != \n{outer_treedef.compose(inner_treedef)}")
    return inner_treedef.unflatten([outer_treedef.unflatten(leaves[i::inner]) for i in range(inner)])


def tree_flatten_with_path(
    tree: Tree, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Leaf]], PyTreeDef]:
    """Like :func:`tree_flatten`; each leaf comes with its key path."""
    out: list[tuple[KeyPath, Leaf]] = []
    return out, _flatten_with_path(tree, (), is_leaf, is_leaf_takes_path, out)


def _flatten_with_path(
    tree: Tree,
    path: KeyPath,
    is_leaf: Callable[..., bool] | None,
    takes_path: bool,
    out: list[tuple[KeyPath, Leaf]],
) -> PyTreeDef:
    kind = kinds[type(tree)]
    stop = is_leaf is not None and says_leaf(is_leaf(path, tree) if takes_path else is_leaf(tree))
    if stop or kind is None:
        out.append((path, tree))
        return LEAF
    children, aux = children_of(tree, kind)
    defs = [
        _flatten_with_path(child, (*path, key), is_leaf, takes_path, out)
        for key, child in zip(keys_of(tree, kind, children, aux), children, strict=True)
    ]
    return make_treedef(type(tree), aux, tuple(defs))


def tree_leaves_with_path(
    tree: Tree, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Leaf]]:
    """The leaves of a tree, each with its key path."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Tree,
    *rest: Tree,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Tree:
    """Like :func:`tree_map`, with the key path as the first argument of ``f``."""
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    plain = None if is_leaf_takes_path else is_leaf
    columns = [_matching(treedef, tree, other, "tree_map_with_path tree", plain) for other in rest]
    return treedef.unflatten([f(path, leaf, *more) for (path, leaf), *more in zip(pairs, *columns, strict=True)])


flatten_with_path = tree_flatten_with_path


def _if_node(one_level: Callable[[Tree], Any]) -> Callable[[Tree], Any]:
    return lambda tree: one_level(tree) if is_tree_node(type(tree)) else None


# The only registry of node types, as in JAX. Its functions ``flatten_one_level*`` return None for a leaf.
default_registry = SimpleNamespace(
    flatten=lambda tree, leaf_predicate=None: tree_flatten(tree, leaf_predicate),
    flatten_with_path=lambda tree, leaf_predicate=None: tree_flatten_with_path(tree, leaf_predicate),
    flatten_one_level=_if_node(flatten_one_level),
    flatten_one_level_with_keys=_if_node(flatten_one_level_with_keys),
    is_node=is_tree_node,
    register_node=register_pytree_node,
    register_dataclass_node=register_dataclass,
)
