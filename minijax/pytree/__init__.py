"""Pytrees: nested containers taken apart into leaves and a tree definition, and put together again.

The meaning is that of ``jax.tree_util`` (https://docs.jax.dev/en/latest/pytrees.html), written in Python. All names of
the family are here; its members are

- ``keys``: key paths;
- ``core``: tree definitions, kinds of node, flatten and unflatten;
- ``nodes``: registration, ``Partial``;
- ``prefix``: prefixes (``in_axes``), differences, and their explanation;
- ``trees``: functions over whole trees (``tree_map`` and its family).
"""

from __future__ import annotations

from minijax.pytree.core import (
    LEAF,
    IsLeaf,
    Leaf,
    PyTreeDef,
    Tree,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    tree_flatten,
    tree_leaves,
    tree_structure,
    tree_unflatten,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)
from minijax.pytree.keys import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    SequenceKey,
    keystr,
)
from minijax.pytree.nodes import (
    Partial,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)
from minijax.pytree.prefix import (
    TreeDifference,
    broadcast_prefix,
    explain_prefix_mismatch,
    explain_tree_diff,
    prefix_leaves,
    tree_broadcast,
    tree_diff,
)
from minijax.pytree.trees import (
    all_leaves,
    flatten_with_path,
    tree_all,
    tree_flatten_with_path,
    tree_leaves_with_path,
    tree_map,
    tree_map_with_path,
    tree_reduce,
    tree_reduce_associative,
    tree_transpose,
)

__all__ = [
    "LEAF",
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "IsLeaf",
    "KeyEntry",
    "KeyPath",
    "Leaf",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "Tree",
    "TreeDifference",
    "all_leaves",
    "broadcast_prefix",
    "explain_prefix_mismatch",
    "explain_tree_diff",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "flatten_with_path",
    "is_tree_node",
    "keystr",
    "prefix_leaves",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_diff",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]
