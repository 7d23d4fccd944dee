"""How values are printed: as Python prints them, or as a key tree where that would take many lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.pytree import is_tree_node
from minijax.tools.documents.document import Block


def printed(value: Any, columns: int) -> str:
    """``repr(value)``, its arrays on lines of at most ``columns``, or of NumPy's ``linewidth`` where that is less."""
    with np.printoptions(linewidth=min(columns, np.get_printoptions()["linewidth"])):
        # a type that does not fit into an array's last line stands below it, not beside it as in JAX's repr
        return repr(value).replace(",      dtype=", ",\n      dtype=")


def value_tree(value: Any, written: str, columns: int) -> Block | None:
    """A container of arrays that takes many lines of ``columns``, as a key tree; None for anything else.

    ``written`` is how the user writes the value, for the command that shows more of it.
    """
    if value is None or not is_tree_node(type(value)):
        return None
    # only needed once a container is shown
    from minijax.tools.trees.keys import taken_apart
    from minijax.tools.trees.view import Tree, key_tree, plain_enough

    root = taken_apart(value)
    if plain_enough(value, root, columns, lambda: printed(value, columns)):
        return None
    return key_tree(Tree(root, written))
