"""Finds the iterations of loops, so that a tree can show equal ones in one row.

An iteration is found by its lines: the records of one come from the same lines, in the same order, as those of the
next. Two iterations are equal if their records also have the same primitives, types and names. A record with an error,
a cache miss or a non-finite value equals no other, so that it stays visible.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence

from minijax.core.records import Frozen
from minijax.tools.recording.naming import naming_of
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
        spots = _numbered([self._spot(each) for each in siblings])
        exact = _numbered([self._key(each) for each in siblings])
        siblings.append(end)
        out = []

        def add(first: int, period: int, times: int) -> None:
            step = siblings[first : first + period]
            starts = tuple(siblings[first : first + period * times : period])
            out.append(Repeated(starts, siblings[first + period * times], self._label(step)))

        for first, period, times in runs_of(spots, self._line_of(siblings)):
            iterations = [tuple(exact[first + i * period :][:period]) for i in range(times)]
            place = first
            for _, equal in itertools.groupby(iterations):
                count = len(list(equal))
                if count >= LEAST_TIMES:
                    add(place, period, count)
                else:
                    # the loops inside an iteration
                    for begin in range(place, place + count * period, period):
                        for inner, length, often in runs_of(exact[begin : begin + period]):
                            add(begin + inner, length, often)
                place += count * period
        return out

    def _spot(self, position: int) -> Hashable:
        """A key shared by the records of one line: those of all iterations of a loop."""
        node = self.moments.node(position)
        kind = type(node).__name__
        if isinstance(node, BindRecord):
            return kind, node.place, node.expression, node.primitive, node.level
        if isinstance(node, ScopeRecord):
            return kind, node.place, node.level, node.subject
        if isinstance(node, (RuleRecord, EquationRecord)):
            return kind, node.place, node.primitive
        if isinstance(node, (PhaseRecord, JaxprRecord)):
            return kind, node.name, getattr(node, "phase", ""), getattr(node, "equations", 0)
        return (kind, node.name, node.cache) if isinstance(node, CacheRecord) else position

    def _key(self, position: int) -> Hashable:
        """A key shared by equal records of one line."""
        last = self.moments.other(position)
        if bisect_left(self.special, position) < bisect_right(self.special, last) or self._misses(position, last):
            return position
        node = self.moments.node(position)
        if isinstance(node, EquationRecord):
            return self._spot(position), *re.findall(r":(\S+)", node.text.partition(" = ")[0])
        if not isinstance(node, BindRecord):
            return self._spot(position)
        # parts of a container are the same for all iterations: ``acc[0]`` and ``acc[1]``
        names = [re.split(r"\W", each)[0] for each in naming_of(self.recording).results(node)]
        return self._spot(position), node.in_types, node.types, tuple(names)

    def _line_of(self, siblings: Sequence[int]) -> Callable[[int], tuple[str, int]]:
        """A function from the index of a sibling to its function and its line."""

        def line_of(index: int) -> tuple[str, int]:
            node = self.moments.node(siblings[index])
            _, line, function = place_parts(getattr(node, "place", ""))
            # a backward pass goes from the last line to the first
            return ("", 0) if isinstance(node, RuleRecord) else (function, line)

        return line_of

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


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    """A number for each key; equal keys have equal numbers."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _rotation(first: int, period: int, line_of: Callable[[int], tuple[str, int]]) -> int:
    """How many records after ``first`` an iteration begins: at its first line, if its lines are of one function."""
    lines = [line_of(first + i) for i in range(period)]
    if len({function for function, _ in lines}) > 1:
        return 0
    begins = [i for i in range(period) if lines[i] == min(lines) and lines[i - 1] != lines[i]]
    return begins[0] if len(begins) == 1 else 0


def runs_of(keys: Sequence[int], line_of: Callable[[int], tuple[str, int]] | None = None) -> list[tuple[int, int, int]]:
    """The longest runs of equal steps in ``keys``, from left to right: (first index, keys per step, steps).
    ``line_of`` tells the line of each key, so that steps begin at the first line of a loop.
    """
    out = []
    first = 0
    while first < len(keys):
        best = (0, 1, 0)
        for period in range(1, min(MOST_IN_STEP, (len(keys) - first) // LEAST_TIMES) + 1):
            if keys[first] != keys[first + period]:
                continue
            end = first + period
            while end < len(keys) and keys[end] == keys[end - period]:
                end += 1
            times = (end - first) // period
            if times >= LEAST_TIMES and times * period > best[0]:
                best = (times * period, period, end)
        covered, period, end = best
        if covered:
            turned = 0 if line_of is None else _rotation(first, period, line_of)
            times = (end - first - turned) // period
            if times >= LEAST_TIMES:
                out.append((first + turned, period, times))
                first, covered = first + turned, times * period
        first += covered or 1
    return out


def repeats_of(recording: Recording, moments: Timeline) -> Repeats:
    """The runs of a recording, cached in it."""
    found = recording.__dict__.get("_repeats")
    if not isinstance(found, Repeats):
        found = recording.__dict__["_repeats"] = Repeats(recording, moments)
    return found
