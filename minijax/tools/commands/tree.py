"""The commands that show the parts of a value, and its sharding: %tree, %shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.core.trace import Tracer
from minijax.errors import did_you_mean
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import Document, document, line, text
from minijax.tools.documents.words import shortened
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.session.source import parse_expression
from minijax.tools.session.targets import refuse_local
from minijax.tools.trees.keys import TreePart, found_at, is_array, paths, taken_apart
from minijax.tools.trees.view import MOST_ASKED, Tree, key_tree
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

# Maximum number of elements of an array that is printed in full.
MOST_PRINTED = 10_000


def run_tree(session: Session, args: Arguments) -> Result:
    name = args["expr"]
    node = parse_expression("tree", name)
    refuse_local(session, "tree", name)
    root = taken_apart(session.unwrapped(session.evaluate(node, {})))
    if root.parts is None and (callable(root.value) or isinstance(root.value, Iterator)):
        kind, title = type(root.value).__name__, shortened(name.strip())
        call = f"{title}(3.0)" if callable(root.value) else f"list({title})"
        raise UsageError(f"%tree: {title} is of type {kind}, which holds no arrays: %tree {call} shows its result")
    path = args["leaf"]
    if path is not None:
        root, name = _part(root, name, path), f"{name} --leaf {path}"
        if root.parts is None:
            return Result(_leaf(session, root, name), root.value)
    tree = Tree(root, name, args["most"] or MOST_ASKED, args["depth"], args["exact"])
    return Result(document(key_tree(tree)), NOTHING)


def _part(root: TreePart, name: str, path: str) -> TreePart:
    """The part of the tree at ``path``. UsageError if there is none."""
    found = found_at(root, path.strip())
    if found is None:
        hint = did_you_mean(path, paths(root)) or f" %tree {name} shows what there is"
        raise UsageError(f"%tree --leaf {path}: there is nothing at {path} in {name}.{hint}")
    if found is not root:
        found.key = path.strip()
    return found


def _leaf(session: Session, leaf: TreePart, name: str) -> Document:
    """A leaf as a block; an array of up to ``MOST_PRINTED`` elements in full."""
    head = document(key_tree(Tree(leaf, exact=True)))
    if not is_array(leaf.value):
        return head
    if leaf.elements > MOST_PRINTED:
        more = f"{leaf.elements:,} elements, corners only; print(np.asarray(_)[...]) shows a part"
        return head + _printed(session, leaf.value) + document(text(line(("muted", more))))
    with np.printoptions(threshold=MOST_PRINTED):
        return head + _printed(session, leaf.value)


def _printed(session: Session, value: Any) -> Document:
    return session.value_document(value)


def run_shards(session: Session, args: Arguments) -> Result:
    # imported late: only arrays over several devices need it
    from minijax.tools.values import shards

    name = args["expr"]
    node = parse_expression("shards", name)
    refuse_local(session, "shards", name)
    root = taken_apart(session.unwrapped(session.evaluate(node, {})))
    leaves = [(path, leaf) for path, leaf in _arrays(root, "") if hasattr(leaf, "sharding")]
    if not leaves:
        if isinstance(root.value, Tracer):
            problem = f"{shortened(name.strip())} is a tracer, and only arrays are on devices"
            raise UsageError(f"%shards: {problem}: %pop closes the level, %hlo --partitioned shows a program's parts")
        kind, called = type(root.value).__name__, shortened(name.strip())
        if callable(root.value):
            problem = f"{called} is of type {kind}, and only arrays are on devices: %shards {called}(x) shows where"
            more = f"its result is, %hlo {called}(x) --partitioned what each device does"
            raise UsageError(f"%shards: {problem} {more}")
        problem = f"{called} is of type {kind}, which has nothing on a device"
        raise UsageError(f"%shards: {problem}: %shards jnp.asarray(x) shows where an array is")
    if len(leaves) == 1 and root.parts is None:
        return Result(document(*shards.blocks(name.strip(), root.value)), root.value)
    return Result(document(shards.table(leaves)), NOTHING)


def _arrays(part: TreePart, path: str) -> Iterator[tuple[str, Any]]:
    """The arrays in ``part``, each after its path."""
    for each in part.parts if part.parts is not None else ():
        yield from _arrays(each, path + each.key)
    if part.parts is None and is_array(part.value):
        yield path, part.value


COMMANDS = (
    Command(
        "shards",
        (Param("expr", "text", "an array, or a container of arrays", required=True),),
        "Which device has which part of an array: a picture, or a table for three dimensions or more.\n"
        "A container of arrays has a line for each leaf: its sharding, and its bytes on each device.",
        "%shards jnp.ones((4, 8))",
        run_shards,
        group="watch",
    ),
    Command(
        "tree",
        (
            Param("expr", "text", "a value, such as params or _", required=True),
            Param("leaf", "expression", "show the value at this path in full: ['l1']['w']"),
            Param("depth", "int", "how many levels to open"),
            Param("most", "int", "how many lines to show at most"),
            Param("exact", "flag", "look at every element of large arrays too"),
        ),
        "A nested container of arrays as a tree of keys: type, norm and range of each leaf.\n"
        "Large branches are folded, and say how much is in them. Elements that are not finite are counted. Very large "
        "arrays are sampled: the summary is of 65,536 elements, and the line says so.",
        "%tree {'w': jnp.ones((4, 8)), 'b': jnp.zeros(8)}",
        run_tree,
        group="watch",
    ),
)
