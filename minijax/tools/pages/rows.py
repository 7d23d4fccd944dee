"""The rows of the tree at consecutive moments, for a page with all moments.

The rows are those of ``tree_rows``. They are computed again only when other rows become visible.
"""

from __future__ import annotations

from typing import Any

from minijax.tools.documents.document import Line
from minijax.tools.recording.cursor import ENTER, Cursor
from minijax.tools.stepper.tree import FOLD, TreeWalk, taken

# Number of rows above the moment's row, and of rows below it.
REACH = 100
# In each direction, this many times ``2 * REACH`` rows are computed, so that the next moments need no new ones.
_AHEAD = 4


# A row: its moment, whether it is later than the cursor, whether its record has ended, the end and the number of the
# repeated steps in it, its depth, and whether it hides other rows. Rows that are equal have equal texts.
TreeRow = tuple[int, bool, bool, int, int, int, bool]


class PageTree:
    """The tree around a cursor that moves from moment to moment."""

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
