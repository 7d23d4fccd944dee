"""What a pane shows from moment to moment, stored as changes, because consecutive moments show nearly the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# The size of the shortest hunk as text: two numbers, and 1 for the brackets.
_SMALLEST_HUNK = 3


class Track:
    """The items that a pane shows, moment by moment.

    ``changes`` has an entry for each moment at which the items change. The entry begins with the number of moments
    since the previous change. All items of the pane follow, or, if that is shorter, hunks. A hunk is ``[items kept
    since the previous hunk, items removed, items added ...]``. A pane is empty before the first moment.
    """

    def __init__(self) -> None:
        self.changes: list[list[int | list[int]]] = []
        self._items: list[int] = []
        self._position = 0

    def show(self, position: int, items: Sequence[int]) -> None:
        """From the moment ``position`` on, the pane shows ``items``."""
        wanted = list(items)
        if wanted == self._items:
            return
        # compare the sizes of both forms as text: 1 for each number or pair of brackets
        size = len(wanted)
        found = list(hunks(self._items, wanted)) if size > _SMALLEST_HUNK else []
        change: Sequence[int | list[int]] = found if found and sum(len(each) + 1 for each in found) < size else wanted
        self.changes.append([position - self._position, *change])
        self._items = wanted
        self._position = position


def hunks(old: Sequence[int], new: Sequence[int]) -> Iterator[list[int]]:
    """The hunks that turn ``old`` into ``new``: see ``Track``.

    A hunk ends at the nearest item that ``old`` and ``new`` have in common. This fits panes, in which one moment
    changes only one or two rows, far from each other.
    """
    i = j = kept = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and old[i] == new[j]:
            i, j, kept = i + 1, j + 1, kept + 1
            continue
        taken, put = _until_common(old[i:], new[j:])
        yield [kept, taken, *new[j : j + put]]
        i, j, kept = i + taken, j + put, 0


def _until_common(old: Sequence[int], new: Sequence[int]) -> tuple[int, int]:
    """How many items of ``old`` and of ``new`` come before the nearest common item; all of them if there is none."""
    seen_old: dict[int, int] = {}
    seen_new: dict[int, int] = {}
    for k in range(max(len(old), len(new))):
        if k < len(old):
            seen_old.setdefault(old[k], k)
        if k < len(new):
            seen_new.setdefault(new[k], k)
        if k < len(old) and old[k] in seen_new:
            return k, seen_new[old[k]]
        if k < len(new) and new[k] in seen_old:
            return seen_old[new[k]], k
    return len(old), len(new)
