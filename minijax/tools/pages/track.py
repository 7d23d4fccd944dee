"""What a pane shows from moment to moment, stored as changes, because consecutive moments show nearly the same."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix


class Track:
    """The items that a pane shows, moment by moment. A pane is empty before the first moment.

    ``changes`` has an entry for each moment at which the items change: ``[moments since the previous change, items kept
    at the beginning, items removed after them, items added in their place ...]``.
    """

    def __init__(self) -> None:
        self.changes: list[list[int]] = []
        self._items: list[int] = []
        self._position = 0

    def show(self, position: int, items: Sequence[int]) -> None:
        """From the moment ``position`` on, the pane shows ``items``."""
        wanted, old = list(items), self._items
        if wanted == old:
            return
        kept = len(commonprefix((old, wanted)))
        end = len(commonprefix((old[kept:][::-1], wanted[kept:][::-1])))
        self.changes.append([position - self._position, kept, len(old) - end - kept, *wanted[kept : len(wanted) - end]])
        self._items, self._position = wanted, position
