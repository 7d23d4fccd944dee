"""A part of a page: some moments, and what each pane shows at each of them, stored as changes from one moment to the
next (``Track``). A part has all texts that it needs, so the script can read it without the other parts.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any

from minijax.ir import doc as pp
from minijax.tools.documents.document import Code, Highlighter, Line, Printout, Text, code_lines, line, split_lines
from minijax.tools.documents.words import plural, shortened
from minijax.tools.pages.choices import Choices, Varied
from minijax.tools.pages.page import MOST_LINES, Texts, Track
from minijax.tools.recording.cursor import END, LEAVE, Cursor
from minijax.tools.recording.log import outcome, record_line
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import BindRecord, Recording
from minijax.tools.stepper import origins, panes
from minijax.tools.stepper.devices import all_lines, devices_of, has_devices
from minijax.tools.stepper.tree import PageTree, TreeRow, past_repeated, record_around
from minijax.tools.values.moment import at_hand
from minijax.tools.values.table import NO_ARRAYS, PageEntry, PageTable

# Maximum number of lines of one piece without line numbers, and of equations of one jaxpr, on the page.
MOST_PROGRAM_LINES = 300
# Width of jaxprs and tables on the page, in columns.
WIDTH = 90
# A recording with more events gets no links to origins and uses, because finding them reads all events.
MOST_WALKED = 100_000
Draw = Callable[[], Text | Code | Printout]
PIECES = panes.PIECES | {"program": partial(panes.program_pieces, most=MOST_PROGRAM_LINES)}


class PageSource:
    """What all parts of a page share.

    Attributes:
      kept: the moments on the page.
      pages: moment on the page -> its place among ``kept``.
      walked: event of an operation -> its origins and its uses.
      over_devices: whether the page has a pane for devices.
    """

    def __init__(self, recording: Recording, highlight: Highlighter | None, kept: list[int]) -> None:
        self.recording = recording
        self.highlight = highlight
        self.cursor = Cursor(recording)
        self.known = at_hand(recording)
        self.table = None if self.known is None else PageTable(self.known, WIDTH)
        self.tree = PageTree(self.cursor)
        self.choices = Choices(self.known, recording.source)
        self.over_devices = bool(recording.devices) or self.known is not None and has_devices(recording)
        self.kept = kept
        self.pages = {index: position for position, index in enumerate(kept)}
        self.walked: dict[int, tuple[Sequence[origins.OriginChoice], Sequence[origins.OriginChoice]]] = {}


class PagePart(Texts):
    """Collects the script's data for the part that begins at the place ``begin`` on the page.

    An item of a pane is the number of a line, or a negative number: -1 for the first entry of ``blocks``, -2 for the
    second. An entry is ``[number of the first line (0: none), line, ...]``, or ``[choices, [item, ...]]`` with an item
    for each combination of choices; the last choice changes fastest. An item of the tree is a row's number: ``[line,
    depth, place of its moment (-1: none), whether closed]``.
    """

    def __init__(self, source: PageSource, begin: int) -> None:
        super().__init__()
        self.source = source
        self.begin = begin
        self.cursor, self.naming = source.cursor, naming_of(source.recording)
        self.blocks: list[Any] = []
        self.block_numbers: dict[tuple[int, ...], int] = {}
        # key of a piece -> its item, its number of lines, and what draws it
        self.items: dict[Hashable, tuple[int, int, Draw]] = {}
        # text of a program, or of a line of it -> its lines in colours
        self.coloured: dict[str, Sequence[Line]] = {}
        self.found: list[list[int]] = []
        self.rows: dict[tuple[int, int, int, int], int] = {}
        self.row_items: dict[Any, int] = {}
        self.states: dict[Any, tuple[list[int], dict[int, int]]] = {}
        self.tracks: dict[str, Track] = defaultdict(Track)
        # blocks that depend on choices, which ``finish`` draws for all choices
        self.open: list[Varied] = []

    # --- items

    def item(self, draw: Draw, choices: tuple[int, ...] = ()) -> tuple[int, int, Draw]:
        """The item for a block that depends on ``choices``, its number of lines at the first of them, and ``draw``."""
        drawn, count = self._drawn(draw())
        if not choices:
            return drawn, count, draw
        picks = [drawn]
        self.blocks.append([choices, picks])
        index = self.cursor.position

        def pick() -> None:
            self.cursor.go(index)
            picks.append(self._drawn(draw())[0])

        self.open.append(Varied(choices, pick))
        return -len(self.blocks), count, draw

    def _drawn(self, block: Text | Code | Printout) -> tuple[int, int]:
        first = 0
        lines: Iterable[Line]
        if isinstance(block, Text):
            lines = block.lines
        elif isinstance(block, Printout):
            lines = split_lines(pp.segments(block.doc, WIDTH))
        else:
            first = block.first
            # lines of a growing jaxpr, each an equation, are drawn again and again
            texts = block.text.split("\n") if block.language == "jaxpr" else [block.text]
            lines = itertools.chain.from_iterable(self._code(text, block.language) for text in texts)
        numbers = self.block(lines, MOST_LINES if first else MOST_PROGRAM_LINES)
        if len(numbers) == 1 and not first:
            return numbers[0], 1
        key = (first, *numbers)
        known = self.block_numbers.get(key)
        if known is None:
            self.blocks.append(list(key))
            known = self.block_numbers[key] = -len(self.blocks)
        return known, len(numbers)

    def _code(self, text: str, language: str) -> Sequence[Line]:
        known = self.coloured.get(text)
        if known is None:
            known = self.coloured[text] = tuple(code_lines(Code(text, language), self.source.highlight))
        return known

    def piece(self, piece: panes.Piece) -> tuple[int, int, Draw]:
        """The item of a piece, its number of lines, and what draws it."""
        known = self.items.get(piece.key)
        if known is None:
            choices = self.source.choices.union(piece.values) if piece.values else ()
            known = self.items[piece.key] = self.item(piece.draw, choices)
        return known

    # --- the panes at the cursor's moment

    def show(self, position: int, left_out: int) -> None:
        """Add the cursor's moment at the place ``position``; ``left_out`` earlier records are not on the page."""
        position -= self.begin
        items = [self.line(panes.moment_line(self.cursor.moment, self.naming, self.cursor.cut))]
        if left_out and self.cursor.moment.kind == END:
            items = []
        elif left_out:
            items.append(self.line(line(("warning", f"  · {plural(left_out, 'record')} before this left out"))))
        self.tracks["status"].show(position, items)
        self._tree(position)
        for name, pane in PIECES.items():
            self._pane(position, name, pane(self.cursor))
        self._values(position)
        self._offers(position)
        if self.source.over_devices:
            self._devices(position)
        self._walks(position)
        self.found.append(self._told())

    def _pane(self, position: int, name: str, pieces: Iterable[panes.Piece]) -> None:
        items: list[int] = []
        now: list[int] = []
        used: list[int] = []
        row = 0
        for piece in pieces:
            item, count, _ = self.items.get(piece.key) or self.piece(piece)
            items.append(item)
            if piece.now or piece.used:
                now += [row + each for each in piece.now]
                used += [row + each for each in piece.used]
            row += count
        self._shown(position, name, items, now, used)

    def _shown(self, position: int, name: str, items: list[int], now: list[int], used: Sequence[int] = ()) -> None:
        """From ``position`` on, a pane shows ``items``; its rows ``now`` and ``used`` are marked."""
        self.tracks[name].show(position, items)
        self.tracks[f"now {name}"].show(position, now)
        self.tracks[f"used {name}"].show(position, used)

    def _tree(self, position: int) -> None:
        rows, current = self.source.tree.rows()
        known = self.row_items
        items = [known[row] if row in known else self._row(row) for row in rows]
        self._shown(position, "tree", items, [current])
        past = past_repeated(self.cursor)
        self.tracks["past"].show(position, [self.nearest(past)] if past else [])

    def _row(self, row: TreeRow) -> int:
        position, *_, depth, closed = row
        key = self.line(self.source.tree.line(position)), depth, self.source.pages.get(position, -1), int(closed)
        found = self.row_items[row] = self.rows.setdefault(key, len(self.rows))
        return found

    def nearest(self, index: int) -> int:
        """The place on the page of the moment ``index``, or else of the next moment that is on the page."""
        return min(bisect_left(self.source.kept, index), len(self.source.kept) - 1)

    def _told(self) -> list[int]:
        """What a search looks at in this moment, as items."""
        node = self.cursor.moment.node
        if node is None:
            return []
        gave = outcome(node, self.naming) if isinstance(node, BindRecord) else ()
        came = [self.line(gave)] if gave else []
        if self.cursor.moment.kind == LEAVE:
            # the end of a bind shows the result, if this end has its own row
            if not isinstance(node, BindRecord) or not node.children:
                return []
            assigned = self.naming.assigned(node)
            return [self.line(line(("primitive", node.primitive), ("var", f" {assigned}" if assigned else ""))), *came]
        around = record_around(self.cursor, self.cursor.moment)
        label = self.line(record_line(node, False, naming=self.naming, around=around))
        return [label, *came, *[self.piece(each)[0] for each in panes.record_pieces(self.cursor, node)]]

    def _values(self, position: int) -> None:
        table, at = self.source.table, self.cursor.moment.at
        state = None if table is None else table.state(at)
        if state not in self.states:
            entries = [PageEntry(NO_ARRAYS)] if table is None else list(table.entries(at))
            rows = {each.row: i for i, each in enumerate(entries) if each.row >= 0}
            self.states[state] = [self._entry(each) for each in entries], rows
        items, rows = self.states[state]
        here = -1 if table is None else table.row(at)
        self._shown(position, "values", items, [rows[here]] if here in rows else [])

    def _entry(self, entry: PageEntry) -> int:
        draw = entry.draw
        if draw is None:
            return self.line(entry.line)
        return self.piece(panes.Piece(("value", entry.key), lambda: Text((draw(),)), (entry.number,)))[0]

    def _offers(self, position: int) -> None:
        """For each choice its number, a line with the current option, and a line with the number of options."""
        table, choices = self.source.table, self.source.choices
        at = self.cursor.moment.at
        here = [] if table is None else choices.here(self.cursor, table.named(at)[0], table.row(at))
        items = []
        for choice, number in here:
            items.append(choice)
            for key, draw in ("label", choices.label), ("count", choices.count):
                text = partial(_text_of, draw, choice, number)
                items.append(self.piece(panes.Piece((key, choice, number), text, (number,)))[0])
        self.tracks["offers"].show(position, items)

    def _devices(self, position: int) -> None:
        """The values on all devices. In a collective, also the parts that the chosen device receives."""
        moment = self.cursor.moment
        bind = self.cursor.state().bind
        done = bind is not None and moment.kind == LEAVE and moment.node is bind
        key = ("devices", *((bind.at, done) if bind is not None else ("between", position)))
        if key not in self.items:
            self.items[key] = self._device_item()
        item, count, _ = self.items[key]
        self._shown(position, "devices", [item] if count else [], [])

    def _device_item(self) -> tuple[int, int, Draw]:
        find = devices_of(self.cursor)
        shown = None if find is None else find()
        if find is None or shown is None:
            return 0, 0, lambda: Text(())
        choices = self.source.choices.union(column.number for column in shown.columns if column.number)
        met = shown.meeting is not None
        if not met:  # only in a collective do the lines depend on the chosen device
            listed = self.source.choices.listed
            choices = tuple(each for each in choices if listed[each].key != shown.mesh.key)

        def draw() -> Text:
            now = find()
            return Text(() if now is None else tuple(all_lines(now, WIDTH, met)))

        return self.item(draw, choices)

    def _walks(self, position: int) -> None:
        """Links to the operation's origins and to the uses of its results. A link is a name and a place on the page."""
        bind, walked, pages = self.cursor.state().bind, self.source.walked, self.source.pages
        known = None if bind is None else walked.get(bind.at)
        if known is None and bind is not None and self.source.recording.events <= MOST_WALKED:
            known = origins.sources(self.cursor), origins.uses(self.cursor, origins.results(self.cursor))
            walked[bind.at] = known
        for name, found in zip(("from", "to"), known or ((), ()), strict=True):
            items = []
            for each in found:
                if each.position in pages and pages[each.position] != position + self.begin:
                    items += [self.line(line(shortened(each.name))), pages[each.position]]
            self.tracks[name].show(position, items)

    def finish(self) -> dict[str, Any]:
        """The whole part as JSON data."""
        while self.open:
            wanted, self.open = self.open, []
            self.source.choices.draw(wanted)
        return {
            "tracks": {name: track.changes for name, track in self.tracks.items()},
            "blocks": self.blocks,
            "rows": list(self.rows),
            "found": self.found,
            **super().tables(),
        }


def _text_of(draw: Callable[[int, int], Any], choice: int, number: int) -> Text:
    return Text((line(("label", str(draw(choice, number)))),))
