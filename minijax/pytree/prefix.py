"""Prefixes of trees, differences between trees, and JAX's error texts about both.

A prefix of a tree becomes the tree when its leaves are replaced by subtrees: ``in_axes=(0, None)`` is a prefix of the
arguments ``({'w': w, 'b': b}, x)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minijax.pytree.core import (
    NONE,
    IsLeaf,
    PyTreeDef,
    Tree,
    children_of,
    keys_of,
    kinds,
    same_data,
    says_leaf,
    tree_structure,
)
from minijax.pytree.keys import KeyEntry, KeyPath, keystr

__all__ = ["tree_broadcast"]


class _Placeholder:
    """The leaf of a tree that is made from a structure alone."""

    def __repr__(self) -> str:
        return "*"


_PLACEHOLDER = _Placeholder()


def _example(tree_or_def: Any) -> Tree:
    """Return a structure as a tree of placeholders. Return any other object unchanged: it is a tree already."""
    if isinstance(tree_or_def, PyTreeDef):
        return tree_or_def.unflatten([_PLACEHOLDER] * tree_or_def.num_leaves)
    return tree_or_def


def prefix_leaves(
    prefix_tree: Tree,
    full: Tree | PyTreeDef,
    *,
    is_leaf: IsLeaf | None = None,
    none_is_leaf: bool = True,
    name: str = "prefix",
) -> list[Any]:
    """Broadcast the leaves of a prefix to the leaves of a full tree, or of its structure, as for ``in_axes``.

    ``is_leaf`` says which nodes of the prefix are leaves. With ``none_is_leaf`` None is a leaf too; otherwise it is a
    node. Errors call the prefix ``name``. ValueError with the key path and both types if ``prefix_tree`` is no prefix.
    """
    stop = _none_stops(is_leaf) if none_is_leaf else is_leaf
    treedef = full if isinstance(full, PyTreeDef) else tree_structure(full)
    out: list[Any] = []
    if _spread(prefix_tree, treedef, stop, out):
        return out
    raise ValueError(explain_prefix_mismatch(prefix_tree, full, name, stop))


def _none_stops(is_leaf: IsLeaf | None) -> IsLeaf:
    if is_leaf is None:
        return is_none
    return lambda x: x is None or is_leaf(x)


def is_none(x: Any) -> bool:
    """An ``is_leaf`` function that makes None a leaf."""
    return x is None


def _spread(prefix: Tree, treedef: PyTreeDef, is_leaf: IsLeaf | None, out: list[Any]) -> bool:
    kind = kinds[type(prefix)]
    if kind is None or (is_leaf is not None and says_leaf(is_leaf(prefix))):
        out.extend([prefix] * treedef.num_leaves)
        return True
    if type(prefix) is not treedef._type:
        return False
    children, aux = children_of(prefix, kind)
    if len(children) != len(treedef._children) or not same_data(aux, treedef._aux):
        return False
    return all([_spread(a, b, is_leaf, out) for a, b in zip(children, treedef._children, strict=True)])


def broadcast_prefix(prefix_tree: Tree, full_tree: Tree, is_leaf: IsLeaf | None = None) -> list[Any]:
    """:func:`prefix_leaves` with None as a node. The name and the order of arguments are the same as in JAX."""
    return prefix_leaves(
        prefix_tree, full_tree, is_leaf=is_leaf, none_is_leaf=False, name="broadcast_prefix prefix_tree"
    )


def tree_broadcast(prefix_tree: Tree, full_tree: Tree, is_leaf: IsLeaf | None = None) -> Tree:
    """The leaves of the prefix, broadcast to a tree with the structure of the full tree."""
    return tree_structure(full_tree).unflatten(broadcast_prefix(prefix_tree, full_tree, is_leaf))


class TreeDifference(NamedTuple):
    """A place where two trees have different structures."""

    path: KeyPath
    first: str
    second: str
    reason: str


def tree_diff(a: Tree | PyTreeDef, b: Tree | PyTreeDef) -> list[TreeDifference]:
    """The topmost places where two trees, or the trees of two structures, differ in structure."""
    out: list[TreeDifference] = []
    _diff((), _example(a), _example(b), out)
    return out


def explain_tree_diff(
    a: Tree | PyTreeDef, b: Tree | PyTreeDef, first: str = "the first", second: str = "the second"
) -> str:
    """One line per difference, such as ``"['w'] is a list of length 2 in the first and ..."``. '' without any."""
    return "\n".join(
        f"  * {keystr(path) or 'the root'} is {one} in {first} and {other} in {second}, so {reason}"
        for path, one, other, reason in tree_diff(a, b)
    )


def _type_text(tree: Tree) -> str:
    return "a pytree leaf" if tree is _PLACEHOLDER else str(type(tree))


def _is_strict_leaf(tree: Tree, is_leaf: IsLeaf | None) -> bool:
    return kinds[type(tree)] is None or (is_leaf is not None and says_leaf(is_leaf(tree)))


def _node(tree: Tree) -> tuple[Sequence[Any], Any, list[KeyEntry]]:
    """The children, the auxiliary data and the key entries of a node."""
    kind = kinds[type(tree)]
    assert kind is not None
    children, aux = children_of(tree, kind)
    return children, aux, keys_of(tree, kind, children, aux)


def _key_words(keys: list[Any]) -> str:
    return " ".join(str(key._value) if hasattr(key, "_value") else str(key) for key in keys)


def _only_on_one_side(first: list[Any], second: list[Any]) -> list[Any]:
    """The keys that only one of the two lists contains: first those of ``first``, then those of ``second``."""
    return [key for key in first if key not in second] + [key for key in second if key not in first]


def _diff(path: KeyPath, a: Tree, b: Tree, out: list[TreeDifference]) -> None:
    if kinds[type(a)] is None and kinds[type(b)] is None:
        return
    if type(a) is not type(b):
        out.append(TreeDifference(path, _type_text(a), _type_text(b), "their Python types differ"))
        return
    (children, aux, keys), (others, other_aux, other_keys) = _node(a), _node(b)
    name = type(a).__name__
    if len(children) != len(others):
        if isinstance(a, (list, tuple)):
            texts = f"{name} of length {len(children)}", f"{name} of length {len(others)}"
            reason = "the lengths do not match"
        else:
            texts = f"{type(a)} with {_count(children)}", f"{type(a)} with {_count(others)}"
            odd = " ".join(repr(getattr(key, "key", key)) for key in _only_on_one_side(keys, other_keys))
            reason = "the numbers of children do not match, with the symmetric difference of key sets: {" + odd + "}"
        out.append(TreeDifference(path, *texts, reason))
        return
    if not same_data(aux, other_aux):
        texts = f"{type(a)} with pytree metadata {aux}", f"{type(a)} with pytree metadata {other_aux}"
        out.append(TreeDifference(path, *texts, "the pytree node metadata does not match"))
        return
    for key, child, other in zip(keys, children, others, strict=True):
        _diff((*path, key), child, other, out)


def _count(children: Any) -> str:
    return f"{len(children)} child{'' if len(children) == 1 else 'ren'}"


def explain_prefix_mismatch(
    prefix: Tree, full: Tree | PyTreeDef, name: str, is_leaf: IsLeaf | None = None
) -> str | None:
    """Explain why ``prefix``, called ``name``, is no prefix of ``full``, a tree or a structure.

    Return None if it is a prefix.
    """
    return _explain((), prefix, _example(full), name, is_leaf)


def _explain(path: KeyPath, prefix: Tree, full: Tree, name: str, is_leaf: IsLeaf | None) -> str | None:
    if _is_strict_leaf(prefix, is_leaf):
        return None
    where = f"at key path\n    {name}{keystr(path)}\n"
    subtree = f"At that key path, the prefix pytree {name} has a subtree of type"
    if type(prefix) is not type(full):
        hint = ""
        if kinds[type(prefix)] is NONE:
            hint = "\nNone is a node without leaves here; it does not match a subtree."
        return (
            f"pytree structure error: different types {where}{subtree}\n    {type(prefix)}\n"
            "but at the same key path the full pytree has a subtree of different type\n"
            f"    {_type_text(full)}.{hint}"
        )
    (children, aux, keys), (others, other_aux, other_keys) = _node(prefix), _node(full)
    if len(children) != len(others):
        if isinstance(prefix, (list, tuple)):
            type_name = type(prefix).__name__
            return (
                f"pytree structure error: different lengths of {type_name} {where}{subtree} {type_name} "
                f"of length {len(children)}, but the full pytree has a subtree of the same type but of "
                f"length {len(others)}."
            )
        return (
            f"pytree structure error: different numbers of pytree children {where}{subtree}\n"
            f"    {type(prefix)}\n"
            f"with {len(children)} child keys\n    {_key_words(keys)}\n"
            "but at the same key path the full pytree has a subtree of the same type but with "
            f"{len(others)} child keys\n    {_key_words(other_keys)}\n"
            "so the symmetric difference on key sets is\n"
            f"    {_key_words(_only_on_one_side(keys, other_keys))}"
        )
    if not same_data(aux, other_aux):
        return (
            f"pytree structure error: different pytree metadata {where}{subtree}\n    {type(prefix)}\n"
            f"with metadata\n    {aux}\n"
            "but at the same key path the full pytree has a subtree of the same type but with metadata\n"
            f"    {other_aux}"
        )
    for key, child, other in zip(keys, children, others, strict=True):
        found = _explain((*path, key), child, other, name, is_leaf)
        if found is not None:
            return found
    return None
