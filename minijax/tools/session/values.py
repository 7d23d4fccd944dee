"""Print values as Python does, or as a key tree if that would take many lines."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from minijax.pytree import is_tree_node
from minijax.tools.documents.document import Block

COLOURS = re.compile(r"\x1b\[[\d;]*m")


def written(value: Any) -> str:
    """``repr(value)`` without colours: JAX colours its jaxprs wherever it finds a terminal or a notebook."""
    return COLOURS.sub("", repr(value))


def printed(value: Any, columns: int) -> str:
    """``repr(value)``; the lines of arrays are at most ``columns`` wide, and at most NumPy's ``linewidth``."""
    with np.printoptions(linewidth=min(columns, np.get_printoptions()["linewidth"])):
        # a dtype that does not fit on an array's last line goes below it; JAX's repr puts it beside the array
        return written(value).replace(",      dtype=", ",\n      dtype=")


def value_tree(value: Any, written: str, columns: int) -> Block | None:
    """A container of arrays that takes many lines of ``columns``, as a key tree; None for any other value.

    ``written`` is the user's expression for the value. The command that shows more of the value contains it.
    """
    if value is None or not is_tree_node(type(value)):
        return None
    from minijax.tools.trees.keys import taken_apart
    from minijax.tools.trees.view import Tree, key_tree, plain_enough

    root = taken_apart(value)
    if plain_enough(value, root, columns, lambda: printed(value, columns)):
        return None
    return key_tree(Tree(root, written))
