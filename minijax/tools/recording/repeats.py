"""Finds repeated records, such as the steps of a loop, so that a tree can show them in one row.

Two records are equal if they have the same line, primitive, interpreter and types, and equally many events inside. A
record with an error, a cache miss or a non-finite value equals no other, so that it stays visible.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence

from minijax.core.records import Frozen
from minijax.tools.recording.records import (
    BindRecord,
    CacheRecord,
    EquationRecord,
    JaxprRecord,
    PhaseRecord,
    Recording,
    RuleRecord,
    ScopeRecord,
    place_parts,
)
from minijax.tools.recording.timeline import ERROR, LEFT, NONFINITE, OTHER, RAISED, Timeline

# Shorter runs are shown one by one.
LEAST_TIMES = 3
# The most records in one step, and the most siblings that are compared.
MOST_IN_STEP = 100
MOST_SIBLINGS = 20_000
# The most lines above a step that are searched for the head of its loop.
_LONGEST_LOOP = 40


class Repeated(Frozen):
    """A run of equal steps: the moments at which they begin, the moment at which the last step ends, and a label."""

    starts: tuple[int, ...]
    end: int
    label: str


class Repeats:
    """The runs of equal steps in a recording. The runs inside a record are computed when they are first shown."""

    def __init__(self, recording: Recording, moments: Timeline) -> None:
        self.recording = recording
        self.moments = moments
        # moments that equal no other
        self.special = moments.marked(ERROR, *(LEFT + each for each in (RAISED, NONFINITE, RAISED + NONFINITE)))
        self.others = moments.marked(OTHER)
        self.known: dict[int, tuple[list[int], list[Repeated]]] = {}

    def around(self, position: int) -> Repeated | None:
        """The run of siblings that contains the record of a moment; None if no run does."""
        begins, runs = self.under(self.moments.parent(position))
        index = bisect_right(begins, position) - 1
        return runs[index] if index >= 0 and position < runs[index].end else None

    def under(self, parent: int) -> tuple[list[int], list[Repeated]]:
        """The starts of the runs of equal steps inside the record entered at ``parent`` (-1: the top), and the runs."""
        found = self.known.get(parent)
        if found is None:
            runs = list(self._runs(parent))
            found = self.known[parent] = [run.starts[0] for run in runs], runs
        return found

    def _runs(self, parent: int) -> list[Repeated]:
        siblings = []
        position, end = parent + 1, self.moments.other(parent) if parent >= 0 else len(self.moments) - 1
        if parent < 0:
            position = 1
        while position < end:
            siblings.append(position)
            if len(siblings) > MOST_SIBLINGS:
                return []
            position = self.moments.other(position) + 1
        numbers: dict[Hashable, int] = {}
        keys = [numbers.setdefault(self._key(each), len(numbers)) for each in siblings]
        siblings.append(end)
        out = []
        for first, period, times in runs_of(keys):
            last = first + period * times
            label = self._label(siblings[first : first + period])
            out.append(Repeated(tuple(siblings[first:last:period]), siblings[last], label))
        return out

    def _key(self, position: int) -> Hashable:
        """A key shared by equal records."""
        last = self.moments.other(position)
        if bisect_left(self.special, position) < bisect_right(self.special, last) or self._misses(position, last):
            return position, last
        node = self.moments.node(position)
        kind, size = type(node).__name__, last - position
        if isinstance(node, BindRecord):
            return kind, size, node.place, node.expression, node.primitive, node.level, node.in_types
        if isinstance(node, ScopeRecord):
            return kind, size, node.place, node.level, node.subject
        if isinstance(node, (RuleRecord, EquationRecord)):
            return kind, node.place, node.primitive
        if isinstance(node, (PhaseRecord, JaxprRecord)):
            return kind, node.name, getattr(node, "phase", ""), getattr(node, "equations", 0)
        return (kind, node.name, node.cache) if isinstance(node, CacheRecord) else (position, last)

    def _misses(self, first: int, last: int) -> bool:
        """Whether there is a cache miss between these moments."""
        among = self.others[bisect_left(self.others, first) : bisect_right(self.others, last)]
        return any(isinstance(node, CacheRecord) and not node.hit for node in map(self.moments.node, map(int, among)))

    def _label(self, step: Sequence[int]) -> str:
        """The label of a step: the loop around its lines, or else the function of its first line."""
        nodes = [self.moments.node(each) for each in step]
        places = [place_parts(getattr(node, "place", "")) for node in nodes]
        places = [each for each in places if each[0]]
        if not places:
            return ""
        inside = [each for each in places if each[2] == places[0][2]]
        loop = self._loop(inside[0][0], min(line for _, line, _ in inside))
        names = list(dict.fromkeys(name.rpartition(".")[2] for _, _, name in places))
        return loop or names[0] + ", …" * (len(names) > 1)

    def _loop(self, file: str, line: int) -> str:
        """The head of the innermost loop around a line: ``for x in xs``; '' if its function has none there."""
        text = self.recording.source_line(file, line)
        if text is None:
            return ""
        depth = len(text) - len(text.lstrip())
        for number in range(line, max(line - _LONGEST_LOOP, 0), -1):
            above = self.recording.source_line(file, number)
            if above is None:
                return ""
            words = above.strip()
            indent = len(above) - len(above.lstrip())
            if not words or (indent >= depth and number != line):
                continue
            depth = min(depth, indent)
            if words.startswith(("for ", "while ")):
                return words.partition(":")[0]
            if words.startswith(("def ", "class ", "@")):
                return ""
        return ""


def runs_of(keys: Sequence[int]) -> list[tuple[int, int, int]]:
    """The longest runs of equal steps in ``keys``, from left to right: (first index, keys per step, steps)."""
    out = []
    first = 0
    while first < len(keys):
        best = (0, 1)
        for period in range(1, min(MOST_IN_STEP, (len(keys) - first) // LEAST_TIMES) + 1):
            if keys[first] != keys[first + period]:
                continue
            end = first + period
            while end < len(keys) and keys[end] == keys[end - period]:
                end += 1
            times = (end - first) // period
            if times >= LEAST_TIMES and times * period > best[0]:
                best = (times * period, period)
        covered, period = best
        if covered:
            out.append((first, period, covered // period))
        first += covered or 1
    return out


def repeats_of(recording: Recording, moments: Timeline) -> Repeats:
    """The runs of a recording, cached in it."""
    found = recording.__dict__.get("_repeats")
    if not isinstance(found, Repeats):
        found = recording.__dict__["_repeats"] = Repeats(recording, moments)
    return found
