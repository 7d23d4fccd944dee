"""The stepping widget: a full recording as one self-contained piece of HTML, for notebooks and exported pages.

What each pane shows at each moment is computed here, with the cursor and the panes of the terminal's stepper, and kept
as the changes from one moment to the next (``track``); the script (``stepper.js``) applies them, forwards and
backwards, and writes the lines as text nodes. Nothing is loaded from outside. Where scripts are off, the tree is there
as nested ``<details>``.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from minijax.ir import doc as pp
from minijax.tools.documents.document import Code, Highlighter, Line, code_lines, line, split_lines
from minijax.tools.documents.html import shown
from minijax.tools.documents.words import plural, shortened
from minijax.tools.pages.links import linked
from minijax.tools.pages.page import Texts, bare_element, element
from minijax.tools.pages.track import Track
from minijax.tools.programs.links import LinkedPrograms
from minijax.tools.recording.cursor import END, ENTER, LEAVE, Cursor, Moment, State
from minijax.tools.recording.log import outcome, record_line
from minijax.tools.recording.naming import Naming, naming_of
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
    ScopeRecord,
    place_parts,
)
from minijax.tools.recording.timeline import Timeline
from minijax.tools.stepper import idle, origins, panes
from minijax.tools.stepper.backward import backward_lines
from minijax.tools.stepper.programs import at_moment
from minijax.tools.stepper.tree import record_around
from minijax.tools.values.moment import at_hand
from minijax.tools.values.table import NO_ARRAYS, PageTable

# Records that a notebook's widget holds; ``%export`` writes all of them.
MOST_RECORDS = 1500
# Of one jaxpr or module no more lines than this are put into the page.
MOST_PROGRAM_LINES = 300
# Columns for which jaxprs are laid out.
WIDTH = 90
# Past so many events a page does not tell where values came from: that takes a pass over all of them.
MOST_WALKED = 100_000
# HTML parsers flatten elements nested deeper than some hundreds.
MOST_NESTED = 100


class _EquationList:
    """The list, with its number, of the equations of a jaxpr that is being built, from the ``begin``-th on."""

    def __init__(self, number: int, begin: int) -> None:
        self.number = number
        self.begin = begin
        self.list = [begin + 1]

    @property
    def end(self) -> int:
        """The index of the first equation that is not among them yet."""
        return self.begin + len(self.list) - 1


def around_bind(state: State) -> Node | None:
    """The record around the operation of a state."""
    for outer, inner in zip((None, *state.path), state.path, strict=False):
        if inner is state.bind:
            return outer
    return None


class _Payload(Texts):
    """Collects what the script needs.

    An item of a pane is a line, by its number, or a part of one of the lists of lines: -1 for the first part, -2 for
    the second. A part is ``[list, from, to]``, a list ``[the number that its first line bears (0: none), line, ...]``.
    """

    def __init__(self, recording: Recording, highlight: Highlighter | None, most: int) -> None:
        super().__init__()
        self.recording = recording
        self.cursor = Cursor(recording)
        self.naming = naming_of(recording)
        self.known = at_hand(recording)
        self.table = None if self.known is None else PageTable(self.known, WIDTH)
        self.highlight = highlight
        self.most = most
        self.lists: list[list[int]] = []
        self.listed: dict[tuple[int, ...], int] = {}
        self.parts: dict[tuple[int, int, int], int] = {}
        self.sources: dict[tuple[str, int], int] = {}
        self.places: dict[tuple[str, str], tuple[list[int], list[int], list[int]]] = {}
        self.growing: dict[int, _EquationList] = {}
        # what was made once of records, by their identity, and these: those of a file are made when they are asked for
        self.alive: list[Any] = []
        self.nodes: dict[int, list[int]] = {}
        self.lives: dict[int, int] = {}
        self.rules: dict[int, int] = {}
        self.views: dict[tuple[int, ...], int] = {}
        self.tracks: dict[str, Track] = defaultdict(Track)
        # what operations came from and what uses them, by their identity; the page's index of a moment
        self.walked: dict[int, tuple[Sequence[origins.OriginChoice], Sequence[origins.OriginChoice]]] = {}
        self.pages: dict[int, int] = {}

    # --- lines and parts

    def code(self, text: str, language: str) -> Iterator[Line]:
        return code_lines(Code(text, language), self.highlight)

    def part(self, listed: int, start: int, end: int) -> int:
        """The item that is a part of a list."""
        return -1 - self.parts.setdefault((listed, start, end), len(self.parts))

    def listing(self, lines: list[int], first: int = 0) -> int:
        """The number of a list of lines."""
        key = (first, *lines)
        if key not in self.listed:
            self.listed[key] = len(self.lists)
            self.lists.append(list(key))
        return self.listed[key]

    def kept(self, code: Code) -> int:
        """Kept lines of a file, numbered."""
        key = (code.text, code.first)
        if key not in self.sources:
            lines = self.block(self.code(code.text, "python"))
            self.sources[key] = self.part(self.listing(lines, code.first), 0, len(lines))
        return self.sources[key]

    def node(self, node: Node, around: Node | None) -> list[int]:
        """Of a record inside ``around``: ``[its line in the tree, what it came to (-1: nothing), the list of what else
        it tells (-1: nothing), how many of that it tells from the beginning]``
        """
        known = self.nodes.get(id(node))
        if known is None:
            gave, listed, begun = -1, -1, 0
            own: list[int] = []
            if isinstance(node, BindRecord):
                gave = self.line(outcome(node, self.naming)) if outcome(node, self.naming) else -1
                begun = len(list(panes.bind_lines(node, False, self.naming, self.known)))
                own = self.block(panes.bind_lines(node, True, self.naming, self.known))
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
        """The name that a search finds where a bind is left, if that has a row of its own; else -1."""
        if isinstance(node, BindRecord) and node.children:
            assigned = self.naming.assigned(node)
            return self.line(line(("primitive", node.primitive), ("var", f" {assigned}" if assigned else "")))
        return -1

    # --- what the panes show at the cursor's moment

    def show(self, position: int, left_out: int) -> None:
        """The moment is the page's one with this index; ``left_out`` records before it are not in the page."""
        said = [self.line(each) for each in panes.moment_parts(self.cursor.moment, self.naming, self.cursor.cut)]
        if left_out and self.cursor.moment.kind == END:
            said = [self.note(left_out)]
        elif left_out:
            said.append(self.line(line(("warning", f"  · {plural(left_out, 'record')} before this left out"))))
        self.tracks["status"].show(position, said)
        self._source(position)
        self._operation(position)
        self._stack(position)
        self._program(position)
        self._values(position)
        self._walks(position)

    def _values(self, position: int) -> None:
        at = self.cursor.moment.at
        lines = [NO_ARRAYS] if self.table is None else self.table.lines(at)
        self.tracks["values"].show(position, [self.line(each) for each in lines])

    def _walks(self, position: int) -> None:
        """What the current operation came from, and what uses its results: names, and the page's moments of each."""
        bind = self.cursor.state().bind
        known = self.walked.get(id(bind))
        if known is None and bind is not None and self.recording.events <= MOST_WALKED:
            self.alive.append(bind)
            known = origins.sources(self.cursor), origins.uses(self.cursor, origins.results(self.cursor))
            self.walked[id(bind)] = known
        for name, choices in zip(("from", "to"), known or ((), ()), strict=True):
            items = []
            for each in choices:
                if each.position in self.pages and self.pages[each.position] != position:
                    items += [self.line(line(shortened(each.name))), self.pages[each.position]]
            self.tracks[name].show(position, items)

    def _source(self, position: int) -> None:
        near = idle.near_place(self.cursor)
        if near not in self.places:
            said, place = near
            self.places[near] = self.place(said, *place_parts(place))
        for name, items in zip(("heading", "source", "here"), self.places[near], strict=True):
            self.tracks[name].show(position, items)

    def place(self, said: str, file: str, number: int, function: str) -> tuple[list[int], list[int], list[int]]:
        """The heading of a place, the source around it, and which of its rows is the place's."""
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
        """The last operation, or the next, where none is under way."""
        said, near, done = idle.near_operation(self.cursor)
        if near is None or near.node is None:
            return [self.line(panes.NO_OPERATION)]
        _, _, listed, begun = self.node(near.node, record_around(self.cursor, near))
        end = len(self.lists[listed]) - 1 if done else begun
        return [self.line(idle.operation_said(said)), self.part(listed, 0, end)]

    def rule(self, state: State) -> int:
        """The number of what the pane of rules shows."""
        # a rule is applied to one operation, or to none
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
        # the row of the level that works, and those of the tracers that it is given
        self.tracks["marks"].show(position, [working, *used])

    def life(self, life: LifeRecord) -> int:
        if id(life) not in self.lives:
            self.alive.append(life)
            self.lives[id(life)] = self.line((("", "    "), *panes.life_line(life, self.naming, self.known)))
        return self.lives[id(life)]

    def _program(self, position: int) -> None:
        state, node = self.cursor.state(), self.cursor.moment.node
        backward = backward_lines(self.cursor)
        items = [self.line(each) for each in backward]
        newest = [i for i, each in enumerate(backward) if any(role == "current" for role, _ in each)]
        rows = len(items)
        if isinstance(node, JaxprRecord | ModuleRecord | ExecutableRecord):
            lines = self.block(self.finished(node), MOST_PROGRAM_LINES)
            items.append(self.part(self.listing(lines), 0, len(lines)))
            rows += len(lines)
        for program in panes.growing_programs(state):
            equations, first = program.program.equations, program.earlier
            items.append(self.line(program.heading))
            if first:
                items.append(self.line(panes.earlier_line(first)))
            growing = self.growing.get(program.program.scope)
            if growing is None or first > growing.end:
                # the equations between are shown at no moment of this page
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
            items = [self.line(each) for each in idle.program_said(self.cursor)]
            last = idle.near_program(self.cursor)
            if last is not None:
                lines = self.block(self.finished(last), MOST_PROGRAM_LINES)
                items.append(self.part(self.listing(lines), 0, len(lines)))
        self.tracks["program"].show(position, items)
        self.tracks["newest"].show(position, newest)

    def finished(self, node: JaxprRecord | ModuleRecord | ExecutableRecord) -> Iterator[Line]:
        """A finished program under its title."""
        yield panes.finished_title(node)
        for each in panes.finished_program(node, MOST_PROGRAM_LINES):
            if isinstance(each, Code):
                yield from self.code(each.text, each.language)
            else:
                yield from split_lines(pp.segments(each.doc, WIDTH))

    # --- all of it

    def collect(self, start: int) -> dict[str, Any]:
        """Everything, as JSON knows it."""
        programs = [each for each in self.recording.executables if isinstance(each.programs, LinkedPrograms)]
        selections = [Track() for _ in programs]
        moves: list[str] = []
        nodes: list[list[int]] = []
        left_out = begin = 0
        kept = moments_kept(self.cursor.moments, self.most, start)
        self.pages = {index: position for position, index in enumerate(kept)}
        for position, index in enumerate(kept):
            moment = self.cursor.moments[index]
            node = moment.node
            if node is not None and moment.kind == LEAVE:
                moves.append(")")
            elif node is not None:
                nodes.append([*self.node(node, record_around(self.cursor, moment))[:3], self.own_row(node)])
                moves.append("(" if moment.kind == ENTER else ".")
            if index <= start:
                begin = position
            left_out = self.cursor.moments.begun_by(index) - len(nodes)
            self.cursor.go(index)
            self.show(position, left_out)
            for each, track in zip(programs, selections, strict=True):
                assert isinstance(each.programs, LinkedPrograms)
                track.show(position, sorted(at_moment(each.programs, self.cursor).equations))
        return {
            "moves": "".join(moves),
            "nodes": nodes,
            "start": begin,
            "note": self.note(left_out),
            "tracks": {name: track.changes for name, track in self.tracks.items()},
            "programs": list(self.programs(programs, selections)),
            "lists": self.lists,
            "parts": list(self.parts),
            "views": list(self.views),
            **self.tables(),
        }

    def note(self, left_out: int) -> int:
        """The line that says what is not in the page; -1 if everything is."""
        said = self.cursor.cut
        if left_out:
            total = len(self.cursor.moments.nodes)
            said = f"cut here: {left_out:,} of {total:,} records are missing; %export FILE.html --recording writes more"
        return self.line(line(("warning", said))) if said else -1

    def programs(self, compiled: list[ExecutableRecord], selections: list[Track]) -> Iterator[dict[str, Any]]:
        """The programs of what was compiled, linked, with the equations that are selected at each moment."""
        for executable, track in zip(compiled, selections, strict=True):
            assert isinstance(executable.programs, LinkedPrograms)
            title = f"{executable.name}: Python, jaxpr, StableHLO and HLO, line by line"
            yield linked(self, executable.programs, self.highlight, title) | {"selected": track.changes}


def payload(
    recording: Recording, highlight: Highlighter | None = None, most: int = MOST_RECORDS, start: int = 0
) -> dict[str, Any]:
    """What the widget's script computes its panes from, as JSON knows it."""
    return _Payload(recording, highlight, most).collect(start)


def widget_html(
    recording: Recording,
    highlight: Highlighter | None = None,
    most: int = MOST_RECORDS,
    start: int = 0,
    in_page: bool = False,
) -> str:
    """The widget of ``recording``, which must be a full one.

    Args:
      most: how many records it holds; the page says how to see the rest.
      start: the moment that is shown at first.
      in_page: leaves out the style and the script, for a page that has them.
    """
    made = bare_element if in_page else element
    return made(payload(recording, highlight, most, start), "".join(_static(recording, most, start)))


def moments_kept(known: Timeline, most: int, start: int) -> list[int]:
    """The moments that a page has: those of ``most`` records, the first ones, or, if ``start`` is after them, those
    around it and of what these are inside of; always the beginning and the end.
    """
    total = len(known.nodes)
    here = known.begun_by(min(max(start, 0), len(known) - 1)) - 1
    first = 0 if here < most else min(here - most // 2, total - most)
    around = []
    parent = known.parent(known.start(first)) if first < total else -1
    while parent >= 0:
        around.append(parent)
        parent = known.parent(parent)
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


def _static(recording: Recording, most: int, start: int) -> Iterator[str]:
    """The tree as text that folds, for where scripts are off."""
    yield "<pre>The log of this recording; where scripts are on, a stepper stands here.</pre>"
    nested: list[int] = []  # the moments whose <details> is open
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
        said = _static_line(moment, naming, record_around(cursor, moment))
        text = html.escape(shown("".join(piece for _, piece in said)))
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


def _static_line(moment: Moment, naming: Naming, around: Node | None) -> Line:
    assert moment.node is not None
    return record_line(moment.node, not isinstance(moment.node, ScopeRecord), naming=naming, around=around)
