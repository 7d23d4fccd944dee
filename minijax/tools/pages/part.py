"""A part of a page: some moments, and what each pane shows at each of them, stored as changes from one moment to the
next (``track``). A part has all texts that it needs, so the script can read it without the other parts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from minijax.ir import doc as pp
from minijax.tools.documents.document import Code, Highlighter, Line, code_lines, line, split_lines
from minijax.tools.documents.words import plural, shortened
from minijax.tools.pages.choices import Choices, Drawing, Varied
from minijax.tools.pages.page import Texts
from minijax.tools.pages.rows import PageTree, TreeRow
from minijax.tools.pages.track import Track
from minijax.tools.recording.cursor import END, LEAVE, Cursor, State
from minijax.tools.recording.log import outcome, record_line
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import (
    BindRecord,
    CacheRecord,
    ErrorRecord,
    ExecutableRecord,
    JaxprRecord,
    LifeRecord,
    ModuleRecord,
    Node,
    Recording,
    place_parts,
)
from minijax.tools.stepper import idle, origins, panes
from minijax.tools.stepper.backward import at_cursor, backward_lines
from minijax.tools.stepper.devices import all_lines, devices_of, has_devices
from minijax.tools.stepper.tree import past_repeated, record_around
from minijax.tools.values.moment import at_hand
from minijax.tools.values.table import NO_ARRAYS, PageEntry, PageTable

# Maximum number of lines of one jaxpr or module on the page.
MOST_PROGRAM_LINES = 300
# Width of jaxprs and tables on the page, in columns.
WIDTH = 90
# Another device's view may have this many lines more than the first device's view.
MORE_LINES = 2
# A recording with more events gets no links to origins and uses, because finding them reads all events.
MOST_WALKED = 100_000


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
        self.naming = naming_of(recording)
        self.known = at_hand(recording)
        self.table = None if self.known is None else PageTable(self.known, WIDTH)
        self.tree = PageTree(self.cursor)
        self.choices = Choices(self.known, recording.source)
        self.over_devices = bool(recording.devices) or self.known is not None and has_devices(recording)
        self.kept = kept
        self.pages = {index: position for position, index in enumerate(kept)}
        self.walked: dict[int, tuple[Sequence[origins.OriginChoice], Sequence[origins.OriginChoice]]] = {}


class _EquationList:
    """The equations of a jaxpr in progress, from the index ``begin`` on. ``number`` is this list's number."""

    def __init__(self, number: int, begin: int) -> None:
        self.number = number
        self.begin = begin
        self.list = [begin + 1]

    @property
    def end(self) -> int:
        """The index of the equation after the last one in the list."""
        return self.begin + len(self.list) - 1


def around_bind(state: State) -> Node | None:
    """The record that encloses the current operation of a state; None if no record does."""
    for outer, inner in zip((None, *state.path), state.path, strict=False):
        if inner is state.bind:
            return outer
    return None


class PagePart(Texts):
    """Collects the script's data for the part that begins at the place ``begin`` on the page.

    An item of a pane is the number of a line, or a negative number for several lines of a list: -1 means the first
    entry of ``parts``, -2 the second. An entry is ``[list, from, to]``. A list is ``[first line number (0: none), line,
    ...]``. An item of the tree is a row's number: ``[line, depth, place of its moment (-1: none), whether closed]``.
    """

    def __init__(self, source: PageSource, begin: int) -> None:
        super().__init__()
        self.source = source
        self.begin = begin
        self.cursor, self.naming, self.known = source.cursor, source.naming, source.known
        self.recording = source.recording
        self.lists: list[list[int]] = []
        self.listed: dict[tuple[int, ...], int] = {}
        self.parts: dict[tuple[int, int, int], int] = {}
        self.sources: dict[tuple[str, int], int] = {}
        self.places: dict[tuple[str, str], tuple[list[int], list[int], list[int]]] = {}
        self.growing: dict[int, _EquationList] = {}
        self.printed: dict[int, list[int]] = {}  # the lines of finished programs
        self.found: list[list[int]] = []
        self.rows: dict[tuple[int, int, int, int], int] = {}
        self.row_items: dict[Any, int] = {}
        # items computed once per record, by the record's id; ``alive`` holds the records, so that no id is reused
        self.alive: list[Any] = []
        self.nodes: dict[int, list[int]] = {}
        self.lives: dict[int, int] = {}
        self.rules: dict[int, int] = {}
        self.blocks: dict[int, list[int]] = {}
        self.entries: dict[Any, int] = {}
        self.states: dict[Any, tuple[list[int], dict[int, int]]] = {}
        self.offers: dict[Any, list[int]] = {}
        self.views: dict[tuple[int, ...], int] = {}
        self.device_items: dict[Any, list[int]] = {}
        self.tracks: dict[str, Track] = defaultdict(Track)
        # lines that depend on choices, which ``finish`` draws for all choices
        self.open: list[Varied] = []

    # --- lines and parts

    def code(self, text: str, language: str) -> Iterator[Line]:
        return code_lines(Code(text, language), self.source.highlight)

    def part(self, listed: int, start: int, end: int) -> int:
        """The item for the lines from ``start`` to ``end`` of the list number ``listed``."""
        return -1 - self.parts.setdefault((listed, start, end), len(self.parts))

    def listing(self, lines: list[int], first: int = 0) -> int:
        """The number of a list of lines."""
        key = (first, *lines)
        if key not in self.listed:
            self.listed[key] = len(self.lists)
            self.lists.append(list(key))
        return self.listed[key]

    def depending(self, choices: tuple[int, ...], lines: Iterable[Line], make: Drawing) -> list[int]:
        """The numbers of ``lines``, which depend on ``choices``. ``make`` draws them for other choices."""
        if not choices:
            return [self.line(each) for each in lines]
        made = [self.varied(choices) for _ in lines]
        self.open.append(Varied(choices, [picks for _, picks in made], make))
        return [number for number, _ in made]

    def kept(self, code: Code) -> int:
        """The item for recorded source lines of a file, with their line numbers."""
        key = (code.text, code.first)
        if key not in self.sources:
            lines = self.block(self.code(code.text, "python"))
            self.sources[key] = self.part(self.listing(lines, code.first), 0, len(lines))
        return self.sources[key]

    def node(self, node: Node, around: Node | None) -> list[int]:
        """For a record inside the record ``around``: ``[its line in the tree, its result (-1: none), the list of its
        details (-1: none), how many of the details are known when it begins]``.
        """
        known = self.nodes.get(id(node))
        if known is None:
            gave, listed, begun = -1, -1, 0
            own: list[int] = []
            if isinstance(node, BindRecord):
                gave = self.line(outcome(node, self.naming)) if outcome(node, self.naming) else -1
                begun = len(list(panes.bind_lines(node, False, self.naming, self.known)))
                choices = self.source.choices.union((*node.operands, *node.results))
                details = list(panes.bind_lines(node, True, self.naming, self.known))
                own = self.depending(choices, details, lambda: panes.bind_lines(node, True, self.naming, self.known))
            elif isinstance(node, CacheRecord | ErrorRecord):
                own = self.block(panes.event_lines(node))
                begun = len(own)
            if own:
                listed = self.listing(own)
            shown = record_line(node, False, naming=self.naming, around=around)
            self.alive.append(node)
            known = self.nodes[id(node)] = [self.line(shown), gave, listed, min(begun, len(own))]
        return known

    def own_row(self, node: Node) -> int:
        """The line that a search looks at for the end of a bind, if this end has its own row; else -1."""
        if isinstance(node, BindRecord) and node.children:
            assigned = self.naming.assigned(node)
            return self.line(line(("primitive", node.primitive), ("var", f" {assigned}" if assigned else "")))
        return -1

    # --- the panes at the cursor's moment

    def show(self, position: int, left_out: int) -> None:
        """Add the cursor's moment at the place ``position``; ``left_out`` earlier records are not on the page."""
        position -= self.begin
        items = [self.line(each) for each in panes.moment_parts(self.cursor.moment, self.naming, self.cursor.cut)]
        if left_out and self.cursor.moment.kind == END:
            items = []
        elif left_out:
            items.append(self.line(line(("warning", f"  · {plural(left_out, 'record')} before this left out"))))
        self.tracks["status"].show(position, items)
        self._tree(position)
        self._source(position)
        self._operation(position)
        self._stack(position)
        self._program(position)
        self._values(position)
        self._offers(position)
        if self.source.over_devices:
            self._devices(position)
        self._walks(position)
        self.found.append(self._told())

    def _tree(self, position: int) -> None:
        rows, current = self.source.tree.rows()
        known = self.row_items
        items = [known[row.key] if row.key in known else self._row(row) for row in rows]
        self.tracks["tree"].show(position, items)
        past = past_repeated(self.cursor)
        self.tracks["row"].show(position, [current, *([self.nearest(past)] if past else [])])

    def _row(self, row: TreeRow) -> int:
        number = self.line(self.source.tree.line(row))
        key = number, row.depth, self.source.pages.get(row.position, -1), int(row.closed)
        found = self.row_items[row.key] = self.rows.setdefault(key, len(self.rows))
        return found

    def nearest(self, index: int) -> int:
        """The place on the page of the moment ``index``, or else of the next moment that is on the page."""
        return min(bisect_left(self.source.kept, index), len(self.source.kept) - 1)

    def _told(self) -> list[int]:
        """What a search looks at in this moment: numbers of lines, and lists as -1 (the first), -2 (the second), ..."""
        moment = self.cursor.moment
        if moment.node is None:
            return []
        around = record_around(self.cursor, moment)
        label, gave, listed, _ = self.node(moment.node, around)
        came = [gave] if gave >= 0 else []
        if moment.kind == LEAVE:
            # the end of a bind shows the result, if this end has its own row
            own = self.own_row(moment.node)
            return [own, *came] if own >= 0 else []
        return [label, *came, *([-1 - listed] if listed >= 0 else [])]

    def _values(self, position: int) -> None:
        table, at = self.source.table, self.cursor.moment.at
        state = None if table is None else table.state(at)
        if state not in self.states:
            entries = [PageEntry(NO_ARRAYS)] if table is None else table.entries(at)
            drawn = list(entries)
            rows = {each.row: i for i, each in enumerate(drawn) if each.row >= 0}
            self.states[state] = [self._entry(each) for each in drawn], rows
        items, rows = self.states[state]
        self.tracks["values"].show(position, items)
        here = -1 if table is None else table.row(at)
        self.tracks["value"].show(position, [rows[here]] if here in rows else [])

    def _entry(self, entry: PageEntry) -> int:
        choices = self.source.choices.of(entry.number)
        draw = entry.draw
        if draw is None or not choices:
            return self.line(entry.line)
        if entry.key not in self.entries:
            (self.entries[entry.key],) = self.depending(choices, [entry.line], lambda: [draw()])
        return self.entries[entry.key]

    def _offers(self, position: int) -> None:
        """For each choice its number, a line with the current option, and a line with the number of options."""
        table, choices = self.source.table, self.source.choices
        at = self.cursor.moment.at
        here = [] if table is None else choices.here(self.cursor, table.named(at)[0], table.row(at))
        items = []
        for choice, number in here:
            key = choice, number
            if key not in self.offers:

                def draw(choice: int = choice, number: int = number) -> Iterable[Line]:
                    return line(("label", choices.label(choice, number))), line(str(choices.count(choice, number)))

                self.offers[key] = [choice, *self.depending(choices.of(number), draw(), draw)]
            items += self.offers[key]
        self.tracks["offers"].show(position, items)

    def _devices(self, position: int) -> None:
        """The values on all devices. In a collective, also the parts that the chosen device receives."""
        moment = self.cursor.moment
        bind = self.cursor.state().bind
        done = bind is not None and moment.kind == LEAVE and moment.node is bind
        key = (bind.at, done) if bind is not None else ("between", position)
        if key not in self.device_items:
            self.device_items[key] = self._device_lines()
        self.tracks["devices"].show(position, self.device_items[key])

    def _device_lines(self) -> list[int]:
        find = devices_of(self.cursor)
        shown = None if find is None else find()
        if find is None or shown is None:
            return []
        own = [n for column in shown.columns for n in column.numbers]
        choices = self.source.choices.union(own)
        met = shown.meeting is not None
        if not met:  # only in a collective do the lines depend on the chosen device
            listed = self.source.choices.listed
            choices = tuple(each for each in choices if listed[each].key != shown.mesh.key)

        def draw() -> Iterable[Line]:
            now = find()
            return () if now is None else all_lines(now, WIDTH, met)

        lines = list(draw())
        # another device may need more lines
        return self.depending(choices, [*lines, *[()] * MORE_LINES] if choices else lines, draw)

    def _walks(self, position: int) -> None:
        """Links to the operation's origins and to the uses of its results. A link is a name and a place on the page."""
        bind, walked, pages = self.cursor.state().bind, self.source.walked, self.source.pages
        known = None if bind is None else walked.get(bind.at)
        if known is None and bind is not None and self.recording.events <= MOST_WALKED:
            known = origins.sources(self.cursor), origins.uses(self.cursor, origins.results(self.cursor))
            walked[bind.at] = known
        for name, found in zip(("from", "to"), known or ((), ()), strict=True):
            items = []
            for each in found:
                if each.position in pages and pages[each.position] != position + self.begin:
                    items += [self.line(line(shortened(each.name))), pages[each.position]]
            self.tracks[name].show(position, items)

    def _source(self, position: int) -> None:
        near = idle.near_place(self.cursor)
        if near not in self.places:
            which, place = near
            self.places[near] = self.place(which, *place_parts(place))
        for name, items in zip(("heading", "source", "here"), self.places[near], strict=True):
            self.tracks[name].show(position, items)

    def place(self, said: str, file: str, number: int, function: str) -> tuple[list[int], list[int], list[int]]:
        """The heading for a place in the source, the source around it, and the row of the place in that source."""
        if not file:
            return [], [self.line(panes.NO_LINE)], []
        heading = [self.line(panes.place_heading(said, file, number, function))]
        kept = panes.kept_source(self.recording, file, number)
        if kept is None:
            return heading, [self.line(panes.NO_SOURCE)], []
        return heading, [self.kept(kept)], [number - kept.first]

    def _operation(self, position: int) -> None:
        state, node = self.cursor.state(), self.cursor.moment.node
        items = []
        event = node if isinstance(node, CacheRecord | ErrorRecord) else None
        around = state.path[-1] if event is not None and state.path else None
        for each, outer in ((event, around), (state.bind, around_bind(state))):
            if each is not None:
                _, _, listed, begun = self.node(each, outer)
                done = each is node and state.moment.kind == LEAVE
                items.append(self.part(listed, 0, len(self.lists[listed]) - 1 if done else begun))
        if not items and state.rule is None:
            items = self._near_operation()
        self.tracks["operation"].show(position, items)
        self.tracks["rule"].show(position, [self.rule(state)])

    def _near_operation(self) -> list[int]:
        """At a moment between operations, an item for the last operation, or else for the next one."""
        which, near, done = idle.near_operation(self.cursor)
        if near is None or near.node is None:
            return [self.line(panes.NO_OPERATION)]
        _, _, listed, begun = self.node(near.node, record_around(self.cursor, near))
        end = len(self.lists[listed]) - 1 if done else begun
        return [self.line(idle.operation_said(which)), self.part(listed, 0, end)]

    def rule(self, state: State) -> int:
        """The number of the rule pane's content."""
        # the content depends only on the rule, which belongs to at most one operation
        rule = state.rule
        if id(rule) not in self.rules:
            self.alive.append(rule)
            items = [self.line(each) for each in panes.rule_heading(state)]
            source = panes.rule_source(self.recording, rule)
            if source is not None:
                items.append(self.kept(source))
            self.rules[id(rule)] = self.views.setdefault(tuple(items), len(self.views))
        return self.rules[id(rule)]

    def _stack(self, position: int) -> None:
        state = self.cursor.state()
        numbers = panes.used_tracers(state.bind)
        items: list[int] = []
        working, used = -1, []
        for level in panes.stack_levels(state):
            if level.working:
                working = len(items)
            items.append(self.line(level.heading))
            if level.older:
                items.append(self.line(panes.older_line(level.older)))
            used += [len(items) + i for i, life in enumerate(level.tracers) if life.tracer.id in numbers]
            items += [self.life(life) for life in level.tracers]
        self.tracks["stack"].show(position, items)
        # the rows of the active level and of the tracers that the operation uses
        self.tracks["marks"].show(position, [working, *used])

    def life(self, life: LifeRecord) -> int:
        if id(life) not in self.lives:
            self.alive.append(life)
            choices = self.source.choices.of(life.tracer.id)
            (self.lives[id(life)],) = self.depending(choices, self._life(life), lambda: self._life(life))
        return self.lives[id(life)]

    def _life(self, life: LifeRecord) -> list[Line]:
        return [(("", "    "), *panes.life_line(life, self.naming, self.known))]

    def _backward(self) -> tuple[list[int], list[Line]]:
        """The backward pass: items for its lines, and the lines themselves."""
        backward = at_cursor(self.cursor)
        if backward is None:
            return [], []
        lines = backward_lines(self.cursor)
        if id(lines) not in self.blocks:
            # drawn once for all moments with the same content
            self.alive.append(lines)
            numbers = [ct.number for step in backward.recorded.steps[:1] for ct in step.given]
            choices = self.source.choices.union(numbers)
            self.blocks[id(lines)] = self.depending(choices, lines, self._there(lambda: backward_lines(self.cursor)))
        return self.blocks[id(lines)], lines

    def _there(self, draw: Drawing) -> Drawing:
        """A function that moves the cursor back to this moment and calls ``draw``."""
        index = self.cursor.position

        def there() -> Iterable[Line]:
            self.cursor.go(index)
            return draw()

        return there

    def _program(self, position: int) -> None:
        state, node = self.cursor.state(), self.cursor.moment.node
        items, backward = self._backward()
        items = list(items)
        newest = [i for i, each in enumerate(backward) if any(role == "current" for role, _ in each)]
        rows = len(items)
        if isinstance(node, JaxprRecord | ModuleRecord | ExecutableRecord):
            lines = self.finished(node)
            items.append(self.part(self.listing(lines), 0, len(lines)))
            rows += len(lines)
        for program in panes.growing_programs(state):
            equations, first = program.program.equations, program.earlier
            items.append(self.line(program.heading))
            if first:
                items.append(self.line(panes.earlier_line(first)))
            growing = self.growing.get(program.program.scope)
            if growing is None or first > growing.end:
                # the equations in between are shown at no moment of this page
                growing = self.growing[program.program.scope] = _EquationList(len(self.lists), first)
                self.lists.append(growing.list)
            for equation in equations[growing.end :]:
                growing.list += self.block(self.code(panes.equation_text(equation), "jaxpr"))
            begin, end = first - growing.begin, len(equations) - growing.begin
            items.append(self.part(growing.number, begin, end))
            rows += 1 + bool(first) + end - begin
            if program.just_added:
                newest.append(rows - 1)
        if not items:
            lines_shown = idle.program_said(self.cursor)
            tracers = state.tracers[-1] if len(lines_shown) > 1 and state.tracers else ()
            choices = self.source.choices.union([life.tracer.id for life in tracers])
            items = self.depending(choices, lines_shown, self._there(lambda: idle.program_said(self.cursor)))
            last = idle.near_program(self.cursor)
            if last is not None:
                lines = self.finished(last)
                items.append(self.part(self.listing(lines), 0, len(lines)))
        self.tracks["program"].show(position, items)
        self.tracks["newest"].show(position, newest)

    def finished(self, node: JaxprRecord | ModuleRecord | ExecutableRecord) -> list[int]:
        """The lines of a finished program after its title. They are computed once, because many moments show them."""
        known = self.printed.get(node.at)
        if known is None:
            known = self.printed[node.at] = self.block(self._finished(node), MOST_PROGRAM_LINES)
        return known

    def _finished(self, node: JaxprRecord | ModuleRecord | ExecutableRecord) -> Iterator[Line]:
        yield panes.finished_title(node)
        for each in panes.finished_program(node, MOST_PROGRAM_LINES):
            if isinstance(each, Code):
                yield from self.code(each.text, each.language)
            else:
                yield from split_lines(pp.segments(each.doc, WIDTH))

    def finish(self) -> dict[str, Any]:
        """The whole part as JSON data."""
        while self.open:
            wanted, self.open = self.open, []
            self.source.choices.draw(self, wanted)
        return {
            "tracks": {name: track.changes for name, track in self.tracks.items()},
            "lists": self.lists,
            "parts": list(self.parts),
            "views": list(self.views),
            "rows": list(self.rows),
            "found": self.found,
            **super().tables(),
        }
