"""The memory of a compiled program: its allocations, the place and the lifetime of each value, and the peak.

These come from two files of XLA's dump, the buffer assignment and the live ranges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from minijax.core.records import Frozen

_ALLOCATION = r"allocation (\d+): size (\d+)(?:, (.*?))?:"
_VALUE = r" value: <\d+ (\S+?)(\{[\d,]*\})?(?: \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\): (.*)"
_RANGE = r"    (\S+?)(\{[\d,]*\}):(\d+)-(\d+)"
_ORDER = r"    (\d+):(\S+)"
_PEAK = r"  Live ranges at (\d+) \(peak\):"
_LIVE = r"    (\S+?)(\{[\d,]*\}): (\d+) bytes \(cumulative: (\d+) bytes\)"
# A word in XLA's description of an allocation -> its kind. The first match counts.
_KINDS = (
    ("parameter", "argument"),
    ("thread-local", "scratch"),
    ("constant", "constant"),
    ("output shape", "result"),
    ("maybe-live-out", "result"),
    ("preallocated-temp", "temporary"),
)


class HeldValue(Frozen):
    """A value in memory. ``name``: the instruction that computes the value. ``part``: the value's index ('{0}') if the
    instruction returns a tuple, else ''.

    ``begin`` and ``end`` are positions in the order of execution, or -1 if XLA does not give them."""

    name: str
    part: str
    bytes: int
    offset: int
    type: str
    begin: int = -1
    end: int = -1


class Allocation(Frozen):
    """An allocation and the values in it. Values with different lifetimes may share the same place."""

    number: int
    bytes: int
    kind: str
    held: tuple[HeldValue, ...]


class Memory(Frozen):
    """The memory plan. ``order`` lists the instructions in the order of execution; all sizes are in bytes.

    ``peak`` is the position in ``order`` with the most live bytes, -1 if unknown; ``live`` has the names and sizes of
    the values there, largest first. ``reported``: the peak without preallotted memory, as the executable reports it.
    """

    allocations: tuple[Allocation, ...] = ()
    order: tuple[str, ...] = ()
    peak: int = -1
    live: tuple[tuple[str, int], ...] = ()
    reported: int | None = None

    @property
    def live_bytes(self) -> int:
        """The number of bytes in use at the peak. A result in the memory of a donated argument does not count twice."""
        places = {held.name + held.part: (each.number, held.offset) for each in self.allocations for held in each.held}
        most: dict[object, int] = {}
        for name, size in self.live:
            place = places.get(name, name)
            most[place] = max(most.get(place, 0), size)
        return sum(most.values())

    @property
    def at(self) -> str:
        """The name of the instruction at the peak; '' if unknown."""
        return self.order[self.peak] if 0 <= self.peak < len(self.order) else ""

    def total(self, kind: str) -> int:
        """The allocated bytes of a kind: 'argument', 'result', 'temporary', 'constant' or 'scratch'."""
        return sum(each.bytes for each in self.allocations if each.kind == kind)


def read_memory(assignment: str, live: str, reported: Any) -> Memory:
    """Parse XLA's texts. ``reported`` is the executable's own memory analysis, or None."""
    ranges: dict[tuple[str, str], tuple[int, int]] = {}
    order: list[str] = []
    most: list[tuple[str, int]] = []
    peak = -1
    for row in live.split("\n"):
        if found := re.fullmatch(_ORDER, row):
            order.append(found[2])
        elif found := re.fullmatch(_RANGE, row):
            ranges[found[1], _part(found[2])] = int(found[3]), int(found[4])
        elif found := re.fullmatch(_PEAK, row):
            peak = int(found[1])
        elif found := re.fullmatch(_LIVE, row):
            most.append((found[1] + _part(found[2]), int(found[3])))
    stated = getattr(reported, "peak_memory_in_bytes", None)
    return Memory(tuple(_allocations(assignment, ranges)), tuple(order), peak, tuple(most), stated)


def _part(braces: str | None) -> str:
    return "" if braces in (None, "{}") else str(braces)


def _allocations(assignment: str, ranges: dict[tuple[str, str], tuple[int, int]]) -> Iterator[Allocation]:
    head: re.Match[str] | None = None
    values: list[HeldValue] = []
    for row in (*assignment.split("\n"), ""):
        begins = re.fullmatch(_ALLOCATION, row)
        if (begins is not None or not row) and head is not None:
            yield Allocation(int(head[1]), int(head[2]), _kind(head[3] or ""), tuple(values))
            head, values = None, []
        if begins is not None:
            head = begins
        elif found := re.fullmatch(_VALUE, row):
            begin, end = ranges.get((found[1], _part(found[2])), (-1, -1))
            values.append(HeldValue(found[1], _part(found[2]), int(found[3]), int(found[4]), found[5], begin, end))


def _kind(words: str) -> str:
    return next((ours for theirs, ours in _KINDS if theirs in words), "memory")
