"""Two implementations of reverse mode side by side: linearize, and the tutorial's jvp with partial evaluation.

The comparison shows the recordings of both for one call of a gradient, line by line. Lines are paired if they show the
same operation on primals or on tangents, the same equation, or the same rule.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.config import use_direct_linearize
from minijax.pytree import tree_leaves
from minijax.tools.documents.document import Block, Columns, Line, Pair, Row, joined, line, text
from minijax.tools.documents.words import plural
from minijax.tools.recording.log import MOST_INDENT, record_line
from minijax.tools.recording.panels import stack_line
from minijax.tools.recording.recorder import record
from minijax.tools.recording.records import (
    BindRecord,
    EquationRecord,
    Node,
    PhaseRecord,
    Recording,
    RuleRecord,
    ScopeRecord,
)

# The interpreters that process primals, and the one that processes tangents, in either implementation.
_OF_PRIMALS = ("linearize", "jvp")
_OF_TANGENTS = "partial_eval"


def ways(call: Callable[[], Any], most: int) -> tuple[list[Block], tuple[Recording, Recording]]:
    """Run ``call`` both ways; return the comparison, of at most ``most`` records each, and the recordings.

    Both ways ignore cached traces, so both do the same work.
    """
    value, direct = record(use_direct_linearize(True)(call), retrace=True)
    other, tutorial = record(use_direct_linearize(False)(call), retrace=True)
    titles = [
        line(("heading", title), ("muted", f" · {plural(recording.bind_count, 'bind')}"))
        for title, recording in (("linearize", direct), ("the tutorial's way", tutorial))
    ]
    rows = _paired(direct, tutorial, most)
    blocks: list[Block] = [Columns((titles[0], titles[1]), lambda width: rows)]
    longest = max(sum(1 for _ in recording.walk()) for recording in (direct, tutorial))
    if longest > most:
        blocks.append(text(f"the first {most} records of each (--most {longest} shows all)", role="muted"))
    for title, recording in (("direct", direct), ("tutorial", tutorial)):
        counts = joined(" · ", [("", f"{label} {count}") for label, count in recording.binds])
        blocks.append(Row(title, (stack_line(recording.stack), counts)))
    programs = [[str(each.document()) for each in r.jaxprs if each.kind == "linear"] for r in (direct, tutorial)]
    said = "the same linear program, equation for equation" if programs[0] == programs[1] else "linear programs differ"
    values = zip(tree_leaves(value), tree_leaves(other), strict=True)
    same = all(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True) for a, b in values)
    blocks.append(Row("both", (line(f"{said}; {'the same value' if same else 'the values differ'}"),)))
    return blocks, (direct, tutorial)


def _paired(direct: Recording, tutorial: Recording, most: int) -> list[Pair]:
    """The records of both ways as rows, with paired records side by side."""
    left, right = ([*recording.walk()][:most] for recording in (direct, tutorial))
    ours, theirs = ([_key(node) for _, node in each] for each in (left, right))
    out: list[Pair] = []
    for tag, i, to_i, j, to_j in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            out += [_pair(a, b) for a, b in zip(left[i:to_i], right[j:to_j], strict=True)]
        else:
            out += [Pair("-", _line(*a)) for a in left[i:to_i]]
            out += [Pair("+", (), _line(*b)) for b in right[j:to_j]]
    return out


def _pair(left: tuple[int, Node], right: tuple[int, Node]) -> Pair:
    """Two records as a row, marked if they differ in more than indentation and duration."""
    ours, theirs = _line(*left), _line(*right)
    return Pair(" " if isinstance(left[1], PhaseRecord) or ours[1:] == theirs[1:] else "~", ours, theirs)


def _line(depth: int, node: Node) -> Line:
    return (("", "  " * min(depth, MOST_INDENT)), *record_line(node, brief=False))


def _key(node: Node) -> tuple[Any, ...]:
    """The same key for two records that show the same operation, even by different interpreters."""
    if isinstance(node, BindRecord):
        return BindRecord, node.primitive, _about(node)
    if isinstance(node, ScopeRecord):
        label = node.level.partition(":")[0]
        return ScopeRecord, "primals" if label in _OF_PRIMALS else label
    if isinstance(node, (EquationRecord, RuleRecord)):
        return type(node), node.primitive
    return type(node), getattr(node, "phase", "")


def _about(bind: BindRecord) -> str:
    """'tangents' or 'primals', depending on the operands of the operation; otherwise its interpreter's label."""
    label = bind.level.partition(":")[0]
    if label == _OF_TANGENTS or any(" tangent " in argument for argument in bind.args):
        return "tangents"
    return "primals" if label in _OF_PRIMALS else label
