"""Pytrees: nested containers that are flattened to leaves and a tree definition, and rebuilt from them.

The semantics are those of ``jax.tree_util`` (https://docs.jax.dev/en/latest/pytrees.html), written in Python.
"""

from minijax.pytree.core import *
from minijax.pytree.core import LEAF as LEAF
from minijax.pytree.core import IsLeaf as IsLeaf
from minijax.pytree.core import Leaf as Leaf
from minijax.pytree.core import Tree as Tree
from minijax.pytree.core import flatten_call as flatten_call
from minijax.pytree.core import tree_of_leaves as tree_of_leaves
from minijax.pytree.keys import *
from minijax.pytree.nodes import *
from minijax.pytree.prefix import *
from minijax.pytree.prefix import TreeDifference as TreeDifference
from minijax.pytree.prefix import broadcast_prefix as broadcast_prefix
from minijax.pytree.prefix import explain_prefix_mismatch as explain_prefix_mismatch
from minijax.pytree.prefix import explain_tree_diff as explain_tree_diff
from minijax.pytree.prefix import prefix_leaves as prefix_leaves
from minijax.pytree.prefix import tree_diff as tree_diff
from minijax.pytree.trees import *
from minijax.pytree.trees import flatten_with_path as flatten_with_path
