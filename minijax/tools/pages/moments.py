"""Chooses the moments of a recording that a page has, and finds the gaps between them."""

from __future__ import annotations

from minijax.tools.recording.timeline import Timeline


def moments_kept(known: Timeline, most: int, start: int) -> list[int]:
    """The moments on a page: those of the first ``most`` records. If ``start`` is later, the moments are those of the
    records around ``start`` and of the records that enclose these. The page always has the beginning and the end.
    """
    total = len(known.nodes)
    here = known.begun_by(min(max(start, 0), len(known) - 1)) - 1
    first = 0 if here < most else min(here - most // 2, total - most)
    around = list(known.around(known.start(first))) if first < total else []
    last = min(first + most, total) - 1
    kept = [0, *reversed(around)]
    entered = set(around)
    for index in range(known.start(first), known.start(last) + 1) if total else ():
        if known.other(index) >= index:
            entered.add(index)
            kept.append(index)
        elif known.other(index) in entered:
            kept.append(index)
    after = sorted(known.other(index) for index in entered if known.other(index) > kept[-1])
    return [*kept, *after, len(known) - 1]


def runs(kept: list[int]) -> list[list[int]]:
    """``[place on the page, moment]``, for the first moment and for each moment after a gap."""
    return [[place, index] for place, index in enumerate(kept) if not place or kept[place - 1] != index - 1]
