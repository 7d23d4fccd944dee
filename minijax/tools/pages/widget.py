"""The stepping widget: a full recording as one self-contained piece of HTML, for notebooks and exported pages.

This module computes what each pane shows at each moment, with the same cursor and panes as the stepper in a terminal.
It stores the changes from one moment to the next. The script (``stepper.js``) applies them, forwards and
backwards, and shows the lines as text. A long recording has several compressed parts, which the script reads when they
are needed. The widget loads nothing. Without scripts, the page shows the tree as nested ``<details>``.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from minijax.tools.documents.document import Highlighter, line
from minijax.tools.documents.html import shown
from minijax.tools.pages.links import linked
from minijax.tools.pages.page import WITH_SCRIPTS, Texts, Track, bare_element, element, packed
from minijax.tools.pages.part import PagePart, PageSource
from minijax.tools.programs.links import LinkedPrograms
from minijax.tools.recording.cursor import ENTER, EVENT, LEAVE, Cursor
from minijax.tools.recording.log import record_line
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import ExecutableRecord, Recording, ScopeRecord
from minijax.tools.recording.timeline import Timeline, timeline
from minijax.tools.stepper.programs import at_moment
from minijax.tools.stepper.tree import record_around

# Maximum number of records in a notebook's widget. ``%export`` writes more.
MOST_RECORDS = 1500
# Maximum number of records of one recording on an exported page; JSON has no limit.
MOST_EXPORTED = 50_000
# Number of moments in a part.
MOMENTS_IN_PART = 1000
# Maximum depth of nested elements: HTML parsers flatten them if they are some hundreds deep.
MOST_NESTED = 100


class SteppedPage:
    """A recording as data for the script, in parts. ``header`` and ``part`` can be called in any order."""

    def __init__(self, recording: Recording, highlight: Highlighter | None, most: int, start: int) -> None:
        self.recording = recording
        self.most = most
        self.moments = timeline(recording)
        self.kept = moments_kept(self.moments, most, start)
        self.begin = max(bisect_right(self.kept, start) - 1, 0)
        self.source = PageSource(recording, highlight, self.kept)
        self.texts = Texts()
        signs = [self._sign(index) for index in self.kept]
        self.moves = "".join(signs)
        # for each moment on the page: how many records the page has up to and including this moment
        self._records = list(accumulate(sign in ("(", ".") for sign in signs))

    @property
    def parts(self) -> range:
        """The places on the page at which its parts begin."""
        return range(0, len(self.kept), MOMENTS_IN_PART)

    def part(self, begin: int) -> dict[str, Any]:
        """The part that begins at the place ``begin`` on the page, as JSON data."""
        with self.source.choices.first():
            part = PagePart(self.source, begin)
            for position in range(begin, min(begin + MOMENTS_IN_PART, len(self.kept))):
                index = self.kept[position]
                self.source.cursor.go(index)
                part.show(position, self.moments.begun_by(index) - self._records[position])
            return part.finish()

    @property
    def choices(self) -> list[dict[str, Any]]:
        """The choices of loops and vmaps in the parts that have been made so far."""
        return self.source.choices.data()

    def header(self) -> dict[str, Any]:
        """The data for the script apart from the parts."""
        programs = [each for each in self.recording.executables if isinstance(each.programs, LinkedPrograms)]
        selections = [Track() for _ in programs]
        for position, index in enumerate(self.kept) if programs else ():
            self.source.cursor.go(index)
            for each, track in zip(programs, selections, strict=True):
                assert isinstance(each.programs, LinkedPrograms)
                track.show(position, sorted(at_moment(each.programs, self.source.cursor).equations))
        self.source.cursor.go(self.kept[-1])
        return {
            "moves": self.moves,
            "start": self.begin,
            "note": self.note(self.moments.begun_by(self.kept[-1]) - self._records[-1]),
            "numbers": runs(self.kept),
            "last": len(self.moments) - 1,
            "choices": self.choices,
            **({"devices": True} if self.source.over_devices else {}),
            "programs": list(self.programs(programs, selections)),
        }

    def _sign(self, index: int) -> str:
        kind = self.moments.kind(index)
        return {ENTER: "(", LEAVE: ")", EVENT: "."}.get(kind, "")

    def note(self, left_out: int) -> int:
        """The number of a line that says how many records are missing from the page; -1 if no record is missing."""
        message = self.source.cursor.cut
        if left_out:
            total = len(self.moments.nodes)
            inside = self.kept[1:-1]
            rest = "%export FILE.html --recording writes more" if self.most < MOST_EXPORTED else "%step shows all"
            message = f"cut here: {left_out:,} of {total:,} records are missing; {rest}"
            message += f". This page holds moments {inside[0]:,} to {inside[-1]:,} of {len(self.moments) - 1:,}"
        return self.texts.line(line(("warning", message))) if message else -1

    def programs(self, compiled: list[ExecutableRecord], selections: list[Track]) -> Iterator[dict[str, Any]]:
        """The compiled programs, linked line by line, with the equations that are selected at each moment."""
        for executable, track in zip(compiled, selections, strict=True):
            assert isinstance(executable.programs, LinkedPrograms)
            title = f"{executable.name}: Python, jaxpr, StableHLO and HLO, line by line"
            made = linked(self.texts, executable.programs, self.source.highlight, title)
            yield made | {"selected": track.changes}


def payload(
    recording: Recording, highlight: Highlighter | None = None, most: int = MOST_RECORDS, start: int = 0
) -> dict[str, Any]:
    """The widget's data for the script, as JSON data in which ``parts`` are not yet compressed."""
    made = SteppedPage(recording, highlight, most, start)
    parts = [[begin, made.part(begin)] for begin in made.parts]
    return {**made.header(), "parts": parts, **made.texts.tables()}


def widget_html(
    recording: Recording,
    highlight: Highlighter | None = None,
    most: int = MOST_RECORDS,
    start: int = 0,
    in_page: bool = False,
    rename: Callable[[str], str] | None = None,
) -> str:
    """The widget of a full recording.

    Args:
      most: the maximum number of records; the page says how to see the rest.
      start: the moment that is shown first.
      in_page: leave out the style and the script, for a page that has them.
      rename: replaces names in the compressed texts.
    """
    made = bare_element if in_page else element
    data = payload(recording, highlight, most, start)
    data["parts"] = [[begin, packed(part, rename)] for begin, part in data["parts"]]
    return made(data, "".join(log_lines(recording, min(most, MOST_RECORDS), start)))


def log_lines(recording: Recording, most: int, start: int, instead: str = WITH_SCRIPTS) -> Iterator[str]:
    """The tree as text that can be folded, for pages without scripts. ``instead`` says how to get the stepper."""
    yield f"<pre>The log of this recording; {instead}</pre>"
    nested: list[int] = []  # the moments with an open <details>
    count = 0
    cursor = Cursor(recording)
    naming = naming_of(recording)
    for index in moments_kept(cursor.moments, most, start):
        moment = cursor.moments[index]
        if moment.node is None:
            continue
        if moment.kind == LEAVE:
            if nested and nested[-1] == moment.other:
                nested.pop()
                yield "</div></details>"
            continue
        count += 1
        done = not isinstance(moment.node, ScopeRecord)
        parts = record_line(moment.node, done, naming=naming, around=record_around(cursor, moment))
        text = html.escape(shown("".join(piece for _, piece in parts)))
        if moment.kind == ENTER and len(nested) < MOST_NESTED and moment.other != index + 1:
            nested.append(index)
            yield f"<details{' open' if moment.depth < 3 else ''}><summary>{text}</summary><div>"
        else:
            yield f"<pre>{text}</pre>"
    yield "</div></details>" * len(nested)
    left_out = len(cursor.moments.nodes) - count
    if left_out:
        yield f"<pre>... {left_out:,} more records</pre>"
    elif recording.truncated:
        yield f"<pre>{html.escape(recording.stopped)}</pre>"


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
