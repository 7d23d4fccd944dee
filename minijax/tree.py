"""``minijax.tree``: JAX's short names for the functions over pytrees (https://docs.jax.dev/en/latest/jax.tree.html).

The functions are those of :mod:`minijax.pytree`.
"""

from __future__ import annotations

from typing import Any

from minijax.pytree import tree_all as all
from minijax.pytree import tree_broadcast as broadcast
from minijax.pytree import tree_flatten as flatten
from minijax.pytree import tree_flatten_with_path as flatten_with_path
from minijax.pytree import tree_leaves as leaves
from minijax.pytree import tree_leaves_with_path as leaves_with_path
from minijax.pytree import tree_map as map
from minijax.pytree import tree_map_with_path as map_with_path
from minijax.pytree import tree_reduce as reduce
from minijax.pytree import tree_reduce_associative as reduce_associative
from minijax.pytree import tree_structure as structure
from minijax.pytree import tree_transpose as transpose
from minijax.pytree import tree_unflatten as unflatten

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]


def static(**kwargs: Any) -> Any:
    """``dataclasses.field`` for a field that ``register_dataclass`` treats as part of the structure."""
    import dataclasses  # imported here: it takes 2 ms, and few programs register dataclasses

    return dataclasses.field(**kwargs | {"metadata": {**(kwargs.get("metadata") or {}), "static": True}})
