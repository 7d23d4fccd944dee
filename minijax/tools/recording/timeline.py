"""The moments of a recording, in order. Each takes one byte; a ``Moment`` is created when it is read.

A moment's byte is its *sign*: the kind of its record, and whether the record begins or ends here. Records are numbered
in the order in which they begin. Depths, nesting and matching moments follow from the signs, without a walk over a
tree. The signs are computed from the recorder's notes, and a file stores them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minijax.core.records import NamedTuple
from minijax.tools.recording.lazily import LikeTuple
from minijax.tools.recording.records import (
    BindRecord,
    EquationRecord,
    ErrorRecord,
    JaxprRecord,
    LifeRecord,
    Node,
    PhaseRecord,
    Recording,
    RuleRecord,
    ScopeRecord,
)

# The kinds of moments; BEGIN and END, the first and last moments of a cursor, have no record.
BEGIN, ENTER, LEAVE, EVENT, END = "begin", "enter", "leave", "event", "end"

# The signs. The exit of a bind has one of four signs: it may have raised, and its result may be not finite.
OUTSIDE, OTHER, BIND, SCOPE, RULE, EQUATION, PHASE, JAXPR, ERROR = range(9)
LEFT, RAISED, NONFINITE = 16, 1, 2
MOST_SIGN = LEFT + RAISED + NONFINITE

_EVENTS = {RuleRecord: RULE, EquationRecord: EQUATION, PhaseRecord: PHASE, JaxprRecord: JAXPR, ErrorRecord: ERROR}
_KINDS = {OUTSIDE: BEGIN, BIND: ENTER, SCOPE: ENTER} | dict.fromkeys(range(LEFT, MOST_SIGN + 1), LEAVE)


def event_sign(record: Any) -> int:
    """The sign of a record that has no records inside."""
    return _EVENTS.get(type(record), OTHER)


def left_sign(record: Any) -> int:
    """The sign of the exit of a bind or scope."""
    if type(record) is not BindRecord:
        return LEFT
    return LEFT + (RAISED if record.error else 0) + (NONFINITE if record.nonfinite else 0)


class Moment(NamedTuple):
    """One moment: its ``kind``, its record, the number of open records around it, and its event ``at``.

    ``parent`` is the index of the ENTER moment of the innermost enclosing record (-1 at the top). ``other`` is the
    index of the matching LEAVE or ENTER moment, or the moment's own index if it is neither.
    """

    kind: str
    node: Node | None
    depth: int
    parent: int
    other: int
    at: int


class SavedNames(NamedTuple):
    """The slow results of ``naming.Naming``: they need the whole recording. A file stores them."""

    expressions: dict[int, str]
    lettered: dict[tuple[int, str], int]
    cotangents: dict[int, str]
    words: str


class Timeline(Sequence[Moment]):
    """The moments of a recording. ``signs`` has the signs of the moments between the beginning and the end, ``nodes``
    the records in the order in which they begin, and ``end`` is the event at the end of the recording.

    ValueError if the signs do not form a tree with this number of records.
    """

    def __init__(self, signs: bytes | bytearray, nodes: Sequence[Node | None], end: int) -> None:
        self.nodes = nodes
        self.end = end
        self.signs = bytes([OUTSIDE]) + bytes(signs) + bytes([OUTSIDE])
        known = np.frombuffer(self.signs, np.uint8)
        entered = (known == BIND) | (known == SCOPE)
        left = known >= LEFT
        after = np.cumsum(entered.view(np.int8) - left.view(np.int8), dtype=np.int32)
        strange = ((known > ERROR) & (known < LEFT)) | (known > MOST_SIGN)
        if after.min() < 0 or after[-1] or strange.any() or (known[1:-1] == OUTSIDE).any():
            raise ValueError("the moments do not form a tree")
        depths = after - entered
        # sorted by depth, then by index, each entry is directly followed by its exit
        ends = np.flatnonzero(entered | left)
        ends = ends[np.argsort(_narrow(depths[ends]), kind="stable")]
        others = np.arange(len(known), dtype=np.int32)
        others[ends[0::2]] = ends[1::2]
        others[ends[1::2]] = ends[0::2]
        numbers = np.cumsum(~left, dtype=np.int32) - 2  # the beginning has no record
        numbers[left] = numbers[others[left]]
        if len(nodes) != len(known) - 2 - np.count_nonzero(left):
            raise ValueError("the number of records does not match the moments")
        self._depths, self._others, self._numbers = integers(depths), integers(others), integers(numbers)
        self._parents = integers(_parents(depths, np.flatnonzero(entered)))
        self._loose: tuple[Any, Any] | None = None
        self._starts: Any = None
        # only for a recording from a file: the fields of all equations and lives that cursors need, and the results of
        # ``naming.Naming``
        self.columns: dict[str, Any] = {}
        self.names: Callable[[], SavedNames] | None = None
        self._ats: Any = None

    def __len__(self) -> int:
        return len(self.signs)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple([self[i] for i in range(*index.indices(len(self.signs)))])
        size = len(self.signs)
        if not -size <= index < size:
            raise IndexError(index)
        index %= size
        node = self.node(index)
        kind = self.kind(index)
        at = 0 if kind == BEGIN else self.end if node is None else node.end if kind == LEAVE else node.at  # type: ignore[union-attr]
        return Moment(kind, node, self._depths[index], self.parent(index), self._others[index], at)

    def __iter__(self) -> Iterator[Moment]:
        return map(self.__getitem__, range(len(self.signs)))

    def kind(self, index: int) -> str:
        """The kind of a moment."""
        return _KINDS.get(self.signs[index], EVENT) if index < len(self.signs) - 1 else END

    def node(self, index: int) -> Node | None:
        """The record of a moment."""
        return self.nodes[self._numbers[index]] if 0 < index < len(self.signs) - 1 else None

    def number(self, index: int) -> int:
        """The number of a moment's record; negative for the beginning, undefined for the end."""
        return self._numbers[index]

    def other(self, index: int) -> int:
        """The index of the matching exit of an entry, or of the matching entry of an exit; otherwise ``index``."""
        return self._others[index]

    def parent(self, index: int) -> int:
        """The index of the entry of the innermost record around a moment; -1 at the top."""
        return self._parents[index]

    def depth(self, index: int) -> int:
        """The number of open records around a moment."""
        return self._depths[index]

    def around(self, index: int) -> Iterator[int]:
        """The indices of the entries of the records around a moment, innermost first."""
        parent = self._parents[index]
        while parent >= 0:
            yield parent
            parent = self._parents[parent]

    def start(self, number: int) -> int:
        """The moment at which the record with this number begins."""
        return int(self._all_starts()[number])

    def begun_by(self, index: int) -> int:
        """The number of records that have begun up to a moment, including the moment's own record."""
        return int(np.searchsorted(self._all_starts(), index, side="right"))

    def _all_starts(self) -> Any:
        if self._starts is None:
            known = np.frombuffer(self.signs, np.uint8)
            self._starts = np.flatnonzero((known < LEFT) & (known != OUTSIDE))
        return self._starts

    def ats(self) -> Any:
        """The events at which the records begin, in order."""
        if self._ats is None:
            known = self.columns.get("ats")
            self._ats = np.array([node.at for node in self.nodes], np.int64) if known is None else known  # type: ignore[union-attr]
        return self._ats

    def begun(self, at: int) -> Iterator[Node]:
        """The path to the last record that begins by event ``at``: those around it, outermost first, then itself."""
        number = int(np.searchsorted(self.ats(), at, side="right")) - 1
        around = [self.start(number)] if number >= 0 else []
        while around and self._parents[around[-1]] >= 0:
            around.append(self._parents[around[-1]])
        for index in reversed(around):
            yield self.nodes[self._numbers[index]]  # type: ignore[misc]

    def marked(self, *signs: int) -> Any:
        """The indices of the moments with one of these signs, as an array."""
        table = np.zeros(256, bool)
        table[list(signs)] = True
        return np.flatnonzero(table[np.frombuffer(self.signs, np.uint8)])

    def loose_rule(self, index: int) -> RuleRecord | None:
        """The rule of a backward pass that is being applied at a moment, outside of any bind.

        A rule applies until the next rule, phase or jaxpr directly inside the same record. None if no rule applies,
        and at the beginning and the end.
        """
        if not 0 < index < len(self.signs) - 1:
            return None
        if self._loose is None:
            places = self.marked(RULE, PHASE, JAXPR)
            keys = (np.asarray(self._parents)[places] + 1) * len(self.signs) + places
            order = np.argsort(keys, kind="stable")
            self._loose = keys[order], places[order]
        keys, places = self._loose
        wanted = (self.parent(index) + 1) * len(self.signs)
        found = int(np.searchsorted(keys, wanted + index, side="right"))
        if not found or keys[found - 1] < wanted:
            return None
        node = self.node(int(places[found - 1]))
        return node if isinstance(node, RuleRecord) else None

    def equation_scopes(self) -> Any:
        """The scope of each equation, in order."""
        known = self.columns.get("equations")
        return [self.node(i).scope for i in self.marked(EQUATION)] if known is None else known  # type: ignore[union-attr]


class Children(Sequence[Any]):
    """The records directly inside the record that begins at the moment ``entered`` (0: the top of the tree)."""

    __slots__ = ("timeline", "entered")

    def __init__(self, known: Timeline, entered: int) -> None:
        self.timeline = known
        self.entered = entered

    def _end(self) -> int:
        return self.timeline.other(self.entered) if self.entered else len(self.timeline) - 1

    def _places(self) -> Iterator[int]:
        place, end = self.entered + 1, self._end()
        while place < end:
            yield place
            place = self.timeline.other(place) + 1

    def __bool__(self) -> bool:
        return self._end() > self.entered + 1

    def __len__(self) -> int:
        return sum(1 for _ in self._places())

    def __iter__(self) -> Iterator[Any]:
        return map(self.timeline.node, self._places())

    def __reversed__(self) -> Iterator[Any]:
        place = self._end() - 1
        while place > self.entered:
            yield self.timeline.node(place)
            place = self.timeline.other(place) - 1

    def __getitem__(self, index: Any) -> Any:
        found = list(self._places())[index]
        return tuple(map(self.timeline.node, found)) if isinstance(index, slice) else self.timeline.node(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Children, tuple)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self)} records>"


def integers(array: Any) -> Any:
    """The integers of an array as a memoryview, which reads one item faster than an array does."""
    return memoryview(array.tobytes()).cast(array.dtype.char)


def _parents(depths: Any, entered: Any) -> Any:
    """The entry of the innermost record around each moment; -1 at the top."""
    # keys: -1 for the top, then the entries, sorted by the depth inside them, then by index
    size = len(depths)
    keys = (depths[entered].astype(np.int64) + 1) * size + entered
    keys = keys[np.argsort(_narrow(depths[entered]), kind="stable")]
    keys = np.concatenate(([-1], keys))
    wanted = depths.astype(np.int64) * size
    return keys[np.searchsorted(keys, wanted + np.arange(size)) - 1] - wanted


def _narrow(depths: Any) -> Any:
    """``depths`` as 16-bit integers if they fit, because NumPy sorts these in one pass."""
    return depths.astype(np.int16) if depths.max(initial=0) < 1 << 15 else depths


def timeline(recording: Recording) -> Timeline:
    """The moments of ``recording``, from its recorder's notes or from its tree."""
    found: Timeline | Callable[[], Timeline] | None = recording.__dict__.get("_timeline")
    if found is None:
        found = recording.__dict__["_timeline"] = _walked(recording)
    elif not isinstance(found, Timeline):  # the recorder's notes, not read yet
        found = recording.__dict__["_timeline"] = found()
    return found


def _walked(recording: Recording) -> Timeline:
    signs = bytearray()
    nodes: list[Node | None] = []
    todo: list[tuple[Node, bool]] = [(node, False) for node in reversed(recording.tree)]
    while todo:
        node, entered = todo.pop()
        if entered:
            signs.append(left_sign(node))
            continue
        nodes.append(node)
        if isinstance(node, (BindRecord, ScopeRecord)):
            signs.append(BIND if isinstance(node, BindRecord) else SCOPE)
            todo.append((node, True))
            todo += [(child, False) for child in reversed(node.children)]
        else:
            signs.append(event_sign(node))
    return Timeline(signs, nodes, recording.events + 1)


class Indices:
    """Items grouped by scope: ``of(scope)`` returns the indices of the items in that scope, in order.

    ``scopes`` has the scope of each item. ``order``, if given, is the sort key within a scope.
    """

    def __init__(self, scopes: Any, order: Any = None) -> None:
        scopes = np.asarray(scopes, np.int64)
        by = np.argsort(scopes, kind="stable") if order is None else np.lexsort((order, scopes))
        self._order = by
        self._scopes = scopes[by]

    def of(self, scope: int) -> Any:
        """An array of indices."""
        begin, end = np.searchsorted(self._scopes, (scope, scope + 1))
        return self._order[begin:end]


class Picked(LikeTuple):
    """The items that ``get`` returns for the indices ``places``, without a copy."""

    __slots__ = ("get", "places")

    def __init__(self, get: Callable[[int], Any], places: Any) -> None:
        self.get = get
        self.places = places if isinstance(places, memoryview) else integers(places)

    def first(self, count: int) -> Picked:
        """The first ``count`` items."""
        return Picked(self.get, self.places[:count])

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple([self.get(i) for i in self.places[index]])
        return self.get(self.places[index])

    def up_to(self, place: int) -> int:
        """The number of items with an index up to ``place``."""
        return bisect_right(self.places, place)


# The scope of arrays that no user variable held. No view shows them.
HIDDEN = -(2**53)


def life_columns(recording: Recording, known: Timeline) -> tuple[Any, Any, Any]:
    """The scopes, births and deaths of all lives of ``recording``."""
    if "deaths" in known.columns:
        return known.columns["lives"], known.columns["births"], known.columns["deaths"]
    columns = getattr(recording.lives, "columns", None)
    if columns is not None:
        return columns()  # type: ignore[no-any-return]
    # whole rows: reading half a million records field by field would be slow
    rows = [life.values() for life in recording.lives]
    scope, born, died, tracer, name = map(LifeRecord._names.index, ("scope", "born", "died", "tracer", "name"))
    scopes = [row[scope] if row[name] or ":" in row[tracer].level else HIDDEN for row in rows]
    births, deaths = [row[born] for row in rows], [row[died] for row in rows]
    return np.array(scopes, np.int64), np.array(births, np.int64), np.array(deaths, np.int64)
