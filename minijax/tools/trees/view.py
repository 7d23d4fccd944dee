"""A key tree as a document: a line for each leaf with its type and figures; large branches are folded.

A terminal shows a fixed picture with a count of folded parts; an HTML page has interactive folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from types import FunctionType
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import Array
from minijax.core.records import Frozen
from minijax.core.trace import Tracer
from minijax.tools.documents.document import Block, Fitted, Foldable, Line, Section, Segment, Text, length, line, text
from minijax.tools.documents.words import bytes_text, decimal
from minijax.tools.recording import preview
from minijax.tools.trees.keys import TreePart, counts, is_array, joined_steps
from minijax.tools.trees.numbers import Budget, Numbers, fetched, numbers

# A container of arrays whose text has more lines than this is shown as a tree.
MOST_PLAIN = 6
# A container with this many parts is shown as a tree without formatting its text.
MANY_PARTS = 100
# Maximum number of lines of a tree: below an input, in an answer of ``%tree``, and on an HTML page.
MOST_LINES, MOST_ASKED, MOST_PAGED = 18, 200, 300
# Non-finite elements are counted in at most this many hidden leaves.
MOST_HIDDEN = 200
# Arrays with up to this many elements are shown in full.
MOST_VALUES = 6
# Maximum number of array elements that an HTML page prints behind folds.
MOST_PRINTED = 3000
# The width of an HTML page in characters.
_PAGE = 100
# The width of keys as a fraction of the page, and of types in characters.
_KEYS, _TYPES = 0.45, 18
_INDENT = 2


class Tree(Frozen):
    """A key tree to be shown.

    ``name`` is the user's expression for the value, used in the command that shows more; '' if there is none. ``depth``
    is the number of open levels, None for as many as fit. ``exact`` inspects all elements.
    """

    root: TreePart
    name: str = ""
    most: int = MOST_LINES
    depth: int | None = None
    exact: bool = False


class _Shown:
    """The display of one tree at any width: figures are computed once."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.budget = Budget(None) if tree.exact else Budget()
        self.known: dict[int, tuple[str, Line, Line, int]] = {}
        self.opened = _opened(tree)

    def facts(self, leaf: TreePart) -> tuple[str, Line, Line, int]:
        """Type, norm, further facts, and the number of non-finite elements (negative if counted in a sample)."""
        if id(leaf) not in self.known:
            self.known[id(leaf)] = _facts(leaf, self.budget, self.tree.exact)
        return self.known[id(leaf)]

    def hidden(self, parts: Iterable[TreePart]) -> Line:
        """A warning with the number of non-finite elements in hidden parts, from at most ``MOST_HIDDEN`` leaves."""
        leaves = list(islice(_leaves(parts), MOST_HIDDEN + 1))
        found = [self.facts(leaf)[3] for leaf in leaves[:MOST_HIDDEN]]
        wrong = sum(map(abs, found))
        some = "at least " if len(leaves) > MOST_HIDDEN or min(found, default=0) < 0 else ""
        return line(("warning", f" · {some}{wrong:,} not finite")) if wrong else ()


def _leaves(parts: Iterable[TreePart]) -> Iterator[TreePart]:
    for each in parts:
        if each.parts is None:
            yield each
        else:
            yield from _leaves(each.parts)


def plain_enough(value: Any, root: TreePart, columns: int, said: Callable[[], str]) -> bool:
    """Whether ``value`` is better shown as Python text, ``said()``: it holds no arrays and no array types, or its text
    has at most ``MOST_PLAIN`` lines of ``columns``.
    """
    if root.parts is None or not (root.arrays or root.types):
        return True
    if _parts_of(root, MANY_PARTS) >= MANY_PARTS:
        return False
    lines = said().split("\n")
    return sum(max(1, -(-len(each) // columns)) for each in lines) <= MOST_PLAIN


def _parts_of(part: TreePart, most: int) -> int:
    """The number of parts in ``part``, at most ``most``."""
    count = len(part.parts or ()) + (most if part.missing else 0)
    for each in part.parts or ():
        if count >= most:
            break
        count += _parts_of(each, most - count)
    return min(count, most)


def key_tree(tree: Tree) -> Block:
    """The tree under a title with its kind and size; a leaf is one line."""
    shown = _Shown(tree)
    if tree.root.parts is None:
        kind, norm, rest, _ = shown.facts(tree.root)
        key: Line = (("var", tree.root.key), ("", "  ")) if tree.root.key else ()
        return text((*key, *_facts_line(kind, norm, rest, 0, 0)))
    return Foldable(Fitted(lambda width: _drawn(shown, width)), lambda: _folding(shown))


def title(root: TreePart) -> Line:
    """The kind and size of a tree: ``dict of 2 · 6 arrays, 8,970 elements, 35.9 kB``."""
    said = counts([root])
    size = f", {bytes_text(root.nbytes)}" if root.arrays and not root.missing else ""
    return line(("heading", root.kind()), ("muted", f" · {said}{size}" if said else ""))


# --- which branches are open


def _opened(tree: Tree) -> set[int]:
    """The open branches: from the top, level by level, as far as there is room."""
    root = joined_steps(tree.root)[1]
    opened, room, level = {id(root)}, tree.most - len(root.parts or ()), [root]
    depth = 1
    while level and (tree.depth is None or depth < tree.depth):
        below = []
        for branch in level:
            for part in branch.parts or ():
                inner = joined_steps(part)[1]
                if inner.parts and (tree.depth is not None or len(inner.parts) <= room):
                    room -= len(inner.parts)
                    opened.add(id(inner))
                    below.append(inner)
        level, depth = below, depth + 1
    return opened


class _Entry(Frozen):
    """A line of a tree: ``part`` under ``key``. ``opened``: its parts follow. ``more``: parts merged into it."""

    level: int
    key: str
    part: TreePart
    opened: bool
    more: tuple[TreePart, ...] = ()


def _entries(shown: _Shown, branch: TreePart, level: int) -> Iterable[_Entry]:
    for each in branch.parts or ():
        key, part = joined_steps(each)
        opened = id(part) in shown.opened
        yield _Entry(level, key, part, opened)
        if opened:
            yield from _entries(shown, part, level + 1)


def _merged(entries: Iterable[_Entry]) -> Iterator[_Entry]:
    """The entries. Three or more consecutive folded branches with the same structure become one entry."""
    for (level, _), run in groupby(entries, key=lambda each: (each.level, _build(each))):
        first, *others = run
        if len(others) < 2 or first.opened or not first.part.parts:
            yield first
            yield from others
        else:
            yield _Entry(level, f"{first.key} … {others[-1].key}", first.part, False, tuple(e.part for e in others))


def _build(entry: _Entry) -> Any:
    """A key that is equal for folded branches with the same structure, and unique for other entries."""
    return _structure(entry.part) if entry.part.parts and not entry.opened else id(entry.part)


def _structure(part: TreePart) -> Any:
    """The nested types and keys of a part."""
    if part.parts is None:
        return array_type(part.value) if is_array(part.value) and part.elements else type(part.value).__name__
    return type(part.value), part.missing, tuple([(each.key, _structure(each)) for each in part.parts])


# --- in a terminal


def _drawn(shown: _Shown, width: int) -> tuple[Block, ...]:
    tree = shown.tree
    step, root = joined_steps(tree.root)
    entries = list(_entries(shown, root, 1))
    cut = entries[tree.most - 1 :] if len(entries) > tree.most else []
    kept = list(_merged(entries[: len(entries) - len(cut)]))
    head = title(tree.root)
    if step:  # the steps to the first branch with several parts
        head = (*head, ("muted", " · "), ("var", step))
    blocks: list[Block] = [text(head, hanging=_INDENT)]
    blocks += (block for _, found in _lines(shown, kept, width) for block in found)
    folded = [part for each in kept if each.part.parts and not each.opened for part in (each.part, *each.more)]
    rest = [each.part for each in cut if not each.opened]
    if cut or folded:
        blocks.append(text(_rest(shown, len(entries), folded, rest), hanging=_INDENT))
    return tuple(blocks)


def _rest(shown: _Shown, total: int, folded: list[TreePart], rest: list[TreePart]) -> Line:
    """The number of hidden parts, and the command that shows them."""
    tree, words = shown.tree, []
    if rest:
        words.append(f"{len(rest):,} more lines ({counts(rest)})" if counts(rest) else f"{len(rest):,} more lines")
    if folded:
        words.append(f"{len(folded)} folded")
    said = f"... {', '.join(words)}"
    wrong = shown.hidden(rest)
    if not tree.name:
        return (("muted", said), *wrong)
    command = f"%tree {tree.name}"
    if tree.most >= MOST_ASKED or tree.depth is not None:
        command += f" --depth {tree.depth + 1}" if folded and tree.depth is not None else ""
        command += f" --most {max(total + sum(_parts_of(each, 10_000) for each in folded), tree.most)}"
    return (("muted", said), *wrong, ("muted", ": "), ("keyword", command), ("muted", " shows them"))


def _lines(shown: _Shown, entries: list[_Entry], width: int) -> Iterator[tuple[_Entry, tuple[Text, ...]]]:
    """The lines of a tree with keys, types and norms in columns: one for each entry, two if its key is long."""
    leaves = [each for each in entries if each.part.parts is None]
    facts = {id(each.part): shown.facts(each.part) for each in leaves}
    bound = int(width * _KEYS)
    ends = [_INDENT * each.level + length(line(each.key)) for each in leaves]
    keys = max((end for end in ends if end <= bound), default=0)
    types = max((len(kind) for kind, *_ in facts.values() if len(kind) <= _TYPES), default=0)
    norms = max((length(norm) for _, norm, *_ in facts.values()), default=0)
    for each in entries:
        begin: Line = line(" " * (_INDENT * each.level), ("var", each.key))
        if each.part.parts is not None:
            said = "" if each.opened and type(each.part.value) in (dict, list, tuple) else f"  {each.part.kind()}"
            wrong: Line = ()
            if not each.opened:
                alike = (each.part, *each.more)
                said = f"  {len(alike)} × {each.part.kind()}" if each.more else said
                said += f" · {counts(alike)}" if counts(alike) else ""
                wrong = shown.hidden(alike)
            yield each, (text((*begin, ("muted", said), *wrong), hanging=_INDENT * each.level + 4),)
            continue
        kind, norm, rest, _ = facts[id(each.part)]
        row = _facts_line(kind, norm, rest, types, norms)
        above: tuple[Text, ...] = ()
        if length(begin) > keys:
            above, begin = (text(begin, hanging=_INDENT * each.level + 4),), ()
        yield each, (*above, text((*begin, ("", " " * (keys + 2 - length(begin))), *row), hanging=keys + 4))


def _facts_line(kind: str, norm: Line, rest: Line, types: int, norms: int) -> Line:
    """Type, norm and further facts in columns."""
    said: list[Segment] = []
    if kind:
        said.append(("type", f"{kind:<{types}}  "))
    if norm:
        said += [*norm, ("", " " * (max(norms - length(norm), 0) + 2))]
    return (*said, *rest)


# --- on a page


class _Room:
    """The number of parts and of array elements that still fit on a page."""

    def __init__(self) -> None:
        self.parts = MOST_PAGED
        self.elements = MOST_PRINTED


def _folding(shown: _Shown) -> tuple[Block, ...]:
    step, root = joined_steps(shown.tree.root)
    named = (("muted", " · "), ("var", step)) if step else ()
    return (Section((*title(shown.tree.root), *named), tuple(_paged(shown, root, _Room()))),)


def _paged(shown: _Shown, branch: TreePart, room: _Room) -> Iterable[Block]:
    """The parts of a branch: leaves as lines, branches as nested folds."""
    run: list[_Entry] = []
    parts = branch.parts or []
    for i, each in enumerate(parts):
        if room.parts <= 0:
            yield from _paged_leaves(shown, run, room)
            yield text(f"... {len(parts) - i:,} more ({counts(parts[i:])})", role="muted")
            return
        room.parts -= 1
        key, part = joined_steps(each)
        if part.parts:
            yield from _paged_leaves(shown, run, room)
            run = []
            said = f"  {part.kind()} · {counts([part])}" if counts([part]) else f"  {part.kind()}"
            inner = tuple(_paged(shown, part, room))
            yield Section((("var", key), ("muted", said), *shown.hidden([part])), inner, id(part) in shown.opened)
        else:
            run.append(_Entry(1, key, part, False))
    yield from _paged_leaves(shown, run, room)


def _paged_leaves(shown: _Shown, run: list[_Entry], room: _Room) -> Iterable[Block]:
    """Leaves as lines, indented by the width of a fold's mark. An array too large for one line becomes a fold."""
    for entry, blocks in _lines(shown, run, _PAGE):
        values = _values(entry.part, room)
        if values is None:
            yield from blocks
            continue
        yield from blocks[:-1]
        line_of_leaf = blocks[-1].lines[0]
        cut = line_of_leaf[0][1][_INDENT:] if line_of_leaf else ""
        yield Section((("", cut), *line_of_leaf[1:]), (text(values, wrap=False),), False)


def _values(leaf: TreePart, room: _Room) -> str | None:
    """The printed elements of an array too large for one line; None for other leaves, and if the page has no room."""
    if isinstance(leaf.value, Tracer) or not is_array(leaf.value) or not MOST_VALUES < leaf.elements <= room.elements:
        return None
    held, _ = fetched(leaf.value)
    if held is None:
        return None
    room.elements -= leaf.elements
    return np.array2string(held, separator=", ", max_line_width=_PAGE)


# --- facts about a leaf


def _facts(leaf: TreePart, budget: Budget, exact: bool) -> tuple[str, Line, Line, int]:
    value = leaf.value
    if leaf.said:
        return "", (), line(("muted", leaf.said)), 0
    if leaf.parts is not None:
        return "", (), line(("muted", f"empty {type(value).__name__}")), 0
    if not is_array(value):
        return *_other(value), 0
    if isinstance(value, Tracer):
        return preview.aval_text(value.aval), (), line(("level", preview.level_text(value))), 0
    kind = array_type(value)
    if not leaf.elements:
        return kind, (), line(("muted", "empty")), 0
    held, why = fetched(value, exact)
    if held is None:
        return kind, (), line(("muted", why)), 0
    found = numbers(held, budget)
    wrong = 0 if found is None else (found.nans + found.infs) * (-1 if found.sampled else 1)
    if held.size <= MOST_VALUES:
        return kind, (), line(("value", values_text(held))), wrong
    return (kind, (), (), 0) if found is None else (kind, norm_line(found), range_line(found), wrong)


def _other(value: Any) -> tuple[str, Line, Line]:
    """A leaf that is no array: a number, a name, a type without values, or another object."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        try:
            return f"{dtypes.short_name(value.dtype)}[{','.join(map(str, value.shape))}]", (), line(("muted", "a type"))
        except Exception:  # an object with similar attributes
            return "", (), line(("muted", type(value).__name__))
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return "", (), line(("literal", preview.value_text(value)))
    if isinstance(value, FunctionType):
        return "", (), line(("muted", f"function {value.__name__}"))
    return "", (), line(("muted", preview.value_text(value)))


def array_type(value: Any) -> str:
    """The type of an array: ``f32[8]``."""
    if isinstance(value, Array):
        return preview.aval_text(value.aval)
    try:
        name = dtypes.short_name(np.dtype(value.dtype))
    except (TypeError, ValueError):
        name = str(value.dtype)
    return f"{name}[{','.join(map(str, value.shape))}]"


def values_text(x: np.ndarray) -> str:
    """The values of a small array, on one line."""
    return " ".join(np.array2string(x, separator=", ", max_line_width=1000).split())


def norm_line(found: Numbers) -> Line:
    """``norm 12.31``; empty for integers and booleans."""
    if found.kind in "ib":
        return ()
    return line(("muted", "norm "), ("value", f"{'≈' if found.sampled else ''}{decimal(found.norm)}"))


def range_line(found: Numbers) -> Line:
    """``-0.31 … 0.29  30 of 32 finite: 2 nan``, with the sample size if there is one."""
    parts: list[Segment] = []
    if found.kind == "b":
        parts.append(("value", f"{found.high:,} of {found.seen:,} true"))
    elif found.low is not None:
        parts.append(("value", found.range()))
    if found.nans or found.infs:
        named = [f"{count:,} {name}" for count, name in ((found.nans, "nan"), (found.infs, "inf")) if count]
        finite = found.seen - found.nans - found.infs
        gap = "  " if parts else ""
        parts.append(("warning", f"{gap}{finite:,} of {found.seen:,} finite: {', '.join(named)}"))
    if found.sampled:
        parts.append(("muted", f"  from a sample of {found.seen:,}"))
    return tuple(parts)
