"""The tree of a recording as lines. Only rows around the cursor are computed, however long the recording is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator
from typing import Any

from minijax.core.records import Frozen
from minijax.tools.documents.document import MARK, Line, Segment, line
from minijax.tools.recording.cursor import BEGIN, END, ENTER, EVENT, LEAVE, Cursor, Moment
from minijax.tools.recording.log import MOST_INDENT, left_line, record_line, repeated_line
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import BindRecord, Node, ScopeRecord
from minijax.tools.recording.repeats import repeats_of

# Away from the cursor, the tree is folded at this depth.
FOLD = 6
# Number of rows above the moment's row, and of rows below it.
REACH = 100
# In each direction, this many times ``2 * REACH`` rows are computed, so that the next moments need no new ones.
_AHEAD = 4


# A row: its moment, whether it is later than the cursor, whether its record has ended, the end and the number of the
# repeated steps in it, its depth, and whether it hides other rows. Rows that are equal have equal texts.
TreeRow = tuple[int, bool, bool, int, int, int, bool]


class Rows(Frozen):
    """Lines of the tree, the moment of each line, and the index of the cursor's line."""

    lines: tuple[Line, ...]
    positions: tuple[int, ...]
    current: int


def tree_rows(cursor: Cursor, before: int, after: int, fold: int = FOLD) -> Rows:
    """The line of the cursor's moment, with up to ``before`` lines above and ``after`` below it.

    If one side has fewer lines, the other side gets more.
    """
    walk = TreeWalk(cursor, fold)
    here = walk.row_of(cursor.position)
    above = list(taken(walk.backwards(here), before + after))
    below = list(taken(walk.forwards(here), before + after))
    up = max(before, before + after - len(below))
    positions = [*reversed(above[:up]), here]
    positions += below[: before + after + 1 - len(positions)]
    lines = tuple(walk.line(position, position == here) for position in positions)
    return Rows(lines, tuple(positions), positions.index(here))


def taken(walk: Iterator[int], most: int) -> Iterator[int]:
    """The first ``most`` rows of a walk."""
    for _, each in zip(range(most), walk, strict=False):
        yield each


def record_around(cursor: Cursor, moment: Moment) -> Node | None:
    """The record around the moment's record; None at the top."""
    return cursor.moments[moment.parent].node if moment.parent >= 0 else None


def past_repeated(cursor: Cursor) -> int:
    """The end of the repeated steps that share the cursor's row; 0 if the row shows a single record."""
    return TreeWalk(cursor, FOLD).closed(cursor.position)[1]


class TreeWalk:
    """The rows of the tree. An unfolded record has a row for entering it and, if it has children, one for leaving it.
    Any other record has one row. Equal repeated steps share a row: one for the steps before the cursor, one for the
    steps after it. A cursor at the beginning of a step belongs to the later row.
    """

    def __init__(self, cursor: Cursor, fold: int) -> None:
        self.cursor = cursor
        self.moments = cursor.moments
        self.fold = fold
        self.naming = naming_of(cursor.recording)
        self.repeats = repeats_of(cursor.recording, cursor.moments)
        # the records around the cursor, unfolded at any depth
        self.open = dict.fromkeys(cursor.moments.around(cursor.position))

    def unfolded(self, entered: int) -> bool:
        """Whether the rows inside the record entered at this moment are visible."""
        moment = self.moments[entered]
        return moment.other > entered + 1 and (moment.depth < self.fold or entered in self.open)

    def closed(self, position: int) -> tuple[int, int, int, str]:
        """The repeated steps that share a row with ``position``: their beginning, their end, their number and their
        label. (0, 0, 0, '') if the record at ``position`` has its own row.
        """
        run = self.repeats.around(position) if 0 < position < len(self.moments) - 1 else None
        if run is not None:
            now, starts = self.cursor.position, run.starts
            first, last = 0, len(starts)
            if starts[0] <= now < run.end:
                here = bisect_right(starts, now) - 1
                own = starts[here]
                if position < own:
                    last = here
                elif now == own:
                    first = here
                else:
                    # the step around the cursor stays unfolded
                    first = here + 1
            end = run.end if last == len(starts) else starts[last]
            if last - first > 1 and starts[first] <= position < end:
                return starts[first], end, last - first, run.label
        return 0, 0, 0, ""

    def row_of(self, position: int) -> int:
        """The moment of the row that shows ``position``."""
        begin = self.closed(position)[0]
        if begin:
            return begin
        moment = self.moments[position]
        return moment.other if moment.kind == LEAVE and not self.unfolded(moment.other) else position

    def forwards(self, position: int) -> Iterator[int]:
        """The rows after the row at ``position``."""
        while True:
            moment = self.moments[position]
            skip = moment.kind == ENTER and not self.unfolded(position)
            _, end, *_ = self.closed(position)
            position = end or (moment.other + 1 if skip else position + 1)
            if position >= len(self.moments):
                return
            yield position

    def backwards(self, position: int) -> Iterator[int]:
        """The rows before the row at ``position``, nearest first."""
        while position > 0:
            position = self.row_of(position - 1)
            yield position

    def line(self, position: int, here: bool) -> Line:
        """The row of a moment. Rows after the cursor are muted and show no results."""
        moment = self.moments[position]
        mark: Segment = ("current", MARK) if here else ("", " ")
        indent: Segment = ("muted", "  " * min(moment.depth, MOST_INDENT))
        return (mark, indent, *self.content(moment, position))

    def content(self, moment: Moment, position: int) -> Line:
        """The text of a moment's row."""
        _, end, times, label = self.closed(position)
        if times:
            segments = self.repeated(label, times, position, end)
        else:
            segments = (*self.text(moment, position), *self.folded(moment, position))
        if position > self.cursor.position:
            segments = (("muted", "".join(piece for _, piece in segments)),)
        return segments

    def shape(self) -> Hashable:
        """A key that is equal at two moments if both show the same rows; the text of the rows may differ."""
        now, opened = self.cursor.position, []
        for each in (now, *self.open):
            run = self.repeats.around(each) if 0 < each < len(self.moments) - 1 else None
            if run is not None and run.starts[0] <= now < run.end:
                here = bisect_right(run.starts, now)
                opened.append((run.starts[0], here, run.starts[here - 1] == now))
        deep = [each for each in self.open if self.moments.depth(each) >= self.fold]
        return tuple(deep), tuple(opened)

    def repeated(self, label: str, times: int, position: int, end: int) -> Line:
        """The row of repeated steps: ``layer ×100  + 700 inside``."""
        following = end - (end - position) // times * (times - 1)
        text = repeated_line(self.moments, position, following, self.naming, label)
        return (*text, ("heading", f" ×{times}"), ("muted", f"  + {end - position} inside"))

    def text(self, moment: Moment, position: int) -> Line:
        node, now = moment.node, self.cursor.position
        if moment.kind == BEGIN:
            source = self.cursor.recording.source
            return line(("heading", "begin"), ("muted", f"  {source}" if source else ""))
        if moment.kind == END or node is None:
            cut = self.cursor.cut
            return line(("warning", cut)) if cut else line(("heading", "end"))
        if moment.kind == EVENT:
            return record_line(node)
        if moment.kind == LEAVE:
            if isinstance(node, ScopeRecord):
                return line(("muted", "└ "), ("level", node.level), ("muted", " ended"))
            assert isinstance(node, BindRecord)
            return left_line(node, self.naming, record_around(self.cursor, moment), position <= now)
        # entered: an unfolded record has a separate row for its result
        done = not self.unfolded(position) and moment.other <= now
        around = record_around(self.cursor, moment)
        return record_line(node, done and isinstance(node, BindRecord), naming=self.naming, around=around)

    def folded(self, moment: Moment, position: int) -> Line:
        """The number of moments that a folded record hides."""
        if moment.kind != ENTER or self.unfolded(position) or moment.other == position + 1:
            return ()
        assert isinstance(moment.node, (BindRecord, ScopeRecord))
        return line(("muted", f"  + {moment.other - position - 1} inside"))


class PageTree:
    """The rows of ``tree_rows`` around a cursor that moves from moment to moment, for a page with all moments. They are
    computed again only when other rows become visible.
    """

    def __init__(self, cursor: Cursor, reach: int = REACH) -> None:
        self.cursor = cursor
        self.reach = reach
        self.walk = TreeWalk(cursor, FOLD)
        self._shape: Any = None
        self._listed: list[tuple[int, int, int, int, int, bool]] = []
        self._places: dict[int, int] = {}
        self._whole = (False, False)

    def rows(self) -> tuple[list[TreeRow], int]:
        """The rows around the cursor, and the index of the cursor's row among them."""
        walk = TreeWalk(self.cursor, FOLD)
        shape, here = walk.shape(), walk.row_of(self.cursor.position)
        if shape != self._shape or not self._reaches(here):
            self._shape = shape
            self._look(walk, here)
        else:
            self.walk = walk
        place, most = self._places[here], 2 * self.reach
        above, below = min(place, most), min(len(self._listed) - 1 - place, most)
        above = min(above, max(self.reach, most - below))
        first = place - above
        now = self.cursor.position
        rows = [
            (position, position > now, other <= now, end, times, depth, closed)
            for position, other, end, times, depth, closed in self._listed[first : place + 1 + min(below, most - above)]
        ]
        return rows, above

    def line(self, position: int) -> Line:
        """The text of a row, without mark and indent."""
        return self.walk.content(self.cursor.moments[position], position)

    def _reaches(self, here: int) -> bool:
        place, most = self._places.get(here, -1), 2 * self.reach
        top, bottom = self._whole
        return place >= 0 and (top or place >= most) and (bottom or len(self._listed) - 1 - place >= most)

    def _look(self, walk: TreeWalk, here: int) -> None:
        self.walk = walk
        many = 2 * self.reach * _AHEAD
        above, below = list(taken(walk.backwards(here), many)), list(taken(walk.forwards(here), many))
        self._whole = len(above) < many, len(below) < many
        positions = [*reversed(above), here, *below]
        self._places = {position: place for place, position in enumerate(positions)}
        self._listed = [self._row(position) for position in positions]

    def _row(self, position: int) -> Any:
        moments = self.cursor.moments
        _, end, times, _ = self.walk.closed(position)
        moment = moments[position]
        folded = moment.kind == ENTER and moment.other > position + 1 and not self.walk.unfolded(position)
        # if a record has only one row, this row shows the record's end too
        other = moment.other if moment.kind == ENTER and not self.walk.unfolded(position) else len(moments)
        return position, other, end, times, moment.depth, bool(times) or folded
