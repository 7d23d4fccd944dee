"""The stepping widget: a full recording as one self-contained piece of HTML, for notebooks and exported pages.

Python renders each record once, as lines of (role, text); the script (``stepper.js``) puts the lines of a moment
together as ``Cursor.state`` does, and writes them as text nodes. What it shows equals the panes of ``stepping`` at
every moment (a test compares all of them), so the widget and the terminal's stepper tell the same. Nothing is loaded
from outside. Where scripts are off, the tree is there as nested ``<details>``.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from minijax.ir import doc as pp
from minijax.tools.documents.document import Code, Highlighter, Line, code_lines, line, split_lines
from minijax.tools.documents.html import shown
from minijax.tools.pages.links import linked
from minijax.tools.pages.page import Texts, bare_element, element
from minijax.tools.programs.links import LinkedPrograms
from minijax.tools.recording import panels
from minijax.tools.recording.cursor import ENTER, LEAVE, Moment, loose_rules, moments
from minijax.tools.recording.log import outcome, record_line
from minijax.tools.recording.records import (
    BindRecord,
    CacheRecord,
    EquationRecord,
    ErrorRecord,
    ExecutableRecord,
    JaxprRecord,
    LifeRecord,
    ModuleRecord,
    Node,
    Recording,
    RuleRecord,
    ScopeRecord,
    place_parts,
)
from minijax.tools.stepper import panes

# Records that a notebook's widget holds; ``%export`` writes all of them.
MOST_RECORDS = 1500
# Of one jaxpr or module no more lines than this are put into the page.
MOST_PROGRAM_LINES = 300
# Columns for which jaxprs are laid out.
WIDTH = 90
# HTML parsers flatten elements nested deeper than some hundreds.
MOST_NESTED = 100

# What a record is to the script: see ``stepper.js``.
_BIND, _SCOPE, _EQUATION, _EVENT, _PROGRAM, _OTHER = range(6)


class _Payload(Texts):
    """Collects what the script needs."""

    def __init__(self, recording: Recording, highlight: Highlighter | None, most: int) -> None:
        super().__init__()
        self.recording = recording
        self.highlight = highlight
        self.most = most
        self.sources: dict[tuple[str, int], tuple[int, list[int]]] = {}
        self.places: dict[str, int] = {}
        self.place_rows: list[list[int]] = []
        self.rules: dict[tuple[str, ...], int] = {}
        self.rule_rows: list[list[Any]] = []

    def code(self, text: str, language: str) -> Iterator[Line]:
        return code_lines(Code(text.rstrip("\n"), language), self.highlight)

    def source(self, file: str, number: int) -> int:
        """The number of the kept lines of ``file`` that line ``number`` is among; -1 if they were not kept."""
        return self.kept(panes.kept_source(self.recording, file, number))

    def kept(self, kept: Code | None) -> int:
        """The number of some lines; -1 for None."""
        if kept is None:
            return -1
        key = (kept.text, kept.first)
        if key not in self.sources:
            self.sources[key] = (len(self.sources), self.block(self.code(kept.text, "python")))
        return self.sources[key][0]

    def place(self, place: str) -> int:
        """The number of a place; -1 for what is none."""
        file, number, function = place_parts(place)
        if not file:
            return -1
        if place not in self.places:
            self.places[place] = len(self.places)
            heading = "".join(text for _, text in panes.place_line(file, number, function))
            self.place_rows.append([self.string(heading), self.source(file, number), number])
        return self.places[place]

    def rule(self, rule: RuleRecord | None) -> int:
        """The number of a rule; -1 for None."""
        if rule is None:
            return -1
        key = (rule.table, rule.primitive, rule.name, rule.file, str(rule.line))
        if key not in self.rules:
            self.rules[key] = len(self.rules)
            head = [self.line(each) for each in panes.rule_heading(rule)]
            self.rule_rows.append([head, self.kept(panes.rule_source(self.recording, rule))])
        return self.rules[key]

    def node(self, node: Node, loose: RuleRecord | None) -> list[Any]:
        """``[kind, at, end, line, place, details, what belongs to the kind, the rule applied there without a bind]``"""
        kind, end, details, extra = _OTHER, 0, [], []  # type: int, int, list[int], list[Any]
        if isinstance(node, BindRecord):
            kind, end = _BIND, node.end
            before, after = list(panes.bind_lines(node, False)), list(panes.bind_lines(node, True))
            details = self.block(before)
            operands = [number for number in node.operands if number]
            gave = self.line(outcome(node)) if outcome(node) else -1
            extra = [self.block(after[len(before) :]), self.rule(node.rule), operands, self.string(node.level), gave]
            extra.append(self.string(node.primitive))
        elif isinstance(node, ScopeRecord):
            kind, end = _SCOPE, node.end
            stack = [self.string(label) for label in node.stack]
            subject = node.subject.partition(" at ")[0]
            extra = [node.depth, stack, self.string(node.level), self.string(f" for {subject}" if subject else "")]
        elif isinstance(node, EquationRecord):
            kind = _EQUATION
            shown_as = self.block(self.code(" ".join(node.text.split()), "jaxpr"))[0]
            extra = [node.scope, shown_as, self.string(node.primitive)]
        elif isinstance(node, CacheRecord | ErrorRecord):
            kind, details = _EVENT, self.block(panes.event_lines(node))
        elif isinstance(node, JaxprRecord | ModuleRecord | ExecutableRecord):
            kind, extra = _PROGRAM, self.block(self.program(node), MOST_PROGRAM_LINES)
        place = self.place(getattr(node, "place", ""))
        return [kind, node.at, end, self.line(record_line(node, False)), place, details, extra, self.rule(loose)]

    def program(self, node: JaxprRecord | ModuleRecord | ExecutableRecord) -> Iterator[Line]:
        """A finished program under its title."""
        if isinstance(node, JaxprRecord):
            yield panels.jaxpr_title(node)
            doc = node.document(most=MOST_PROGRAM_LINES)
            if doc is not None:
                yield from split_lines(pp.segments(doc, WIDTH))
        elif isinstance(node, ModuleRecord):
            yield line(("heading", f"StableHLO of {node.name}"))
            yield from self.code(node.text, "stablehlo")
        else:
            yield line(("heading", f"optimised program of {node.name}"))
            yield from self.code(node.text, "hlo")

    def programs(self) -> Iterator[dict[str, Any]]:
        """The programs of what was compiled, linked, with the equations of every place that was passed."""
        for executable in self.recording.executables:
            if isinstance(executable.programs, LinkedPrograms):
                title = f"{executable.name}: Python, jaxpr, StableHLO and HLO, line by line"
                found = linked(self, executable.programs, self.highlight, title)
                for place, number in self.places.items():
                    file, at, _ = place_parts(place)
                    if equations := executable.programs.at_line(at, file):
                        found["at"][number] = list(equations)
                yield found

    def life(self, life: LifeRecord) -> list[Any]:
        """``[scope, born, died, line, number]``"""
        return [life.scope, life.born, life.died, self.line(panes.life_line(life, False)), life.tracer.id]

    def collect(self, start: int) -> dict[str, Any]:
        """Everything, as JSON knows it."""
        moves: list[str] = []
        nodes: list[list[Any]] = []
        begun: set[int] = set()  # the moments at which the records that are kept were entered
        left_out = last = 0
        known = moments(self.recording)
        for index, (moment, rule) in enumerate(zip(known, loose_rules(known), strict=True)):
            if moment.node is None:
                continue
            if moment.kind == LEAVE:
                if moment.other in begun:
                    moves.append(")")
            elif len(nodes) >= self.most:
                left_out += 1
            else:
                nodes.append(self.node(moment.node, rule))
                last = moment.at
                moves.append("(" if moment.kind == ENTER else ".")
                if moment.kind == ENTER:
                    begun.add(index)
        note = -1
        if left_out:
            total = len(nodes) + left_out
            said = f"cut here: {left_out:,} of {total:,} records are missing; %export FILE.html --recording writes more"
            note = self.line(line(("warning", said)))
        elif self.recording.truncated:
            note = self.line(line(("warning", self.recording.stopped)))
        return {
            "moves": "".join(moves),
            "nodes": nodes,
            "base": [self.string(label) for label in self.recording.base],
            "lives": [self.life(life) for life in self.recording.lives if not left_out or life.born <= last],
            "end": self.recording.events + 1,
            "start": start,
            "note": note,
            "mostTracers": panes.MOST_TRACERS,
            "mostEquations": panes.MOST_EQUATIONS,
            "programs": list(self.programs()),
            "places": self.place_rows,
            "rules": self.rule_rows,
            # each as the number of its first line, and its lines
            "sources": [[first, lines] for (_, first), (_, lines) in self.sources.items()],
            **self.tables(),
        }


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
    return made(payload(recording, highlight, most, start), "".join(_static(recording, most)))


def _static(recording: Recording, most: int) -> Iterator[str]:
    """The tree as text that folds, for where scripts are off."""
    yield "<pre>The log of this recording; where scripts are on, a stepper stands here.</pre>"
    nested: list[int] = []  # the moments whose <details> is open
    count = left_out = 0
    for index, moment in enumerate(moments(recording)):
        if moment.node is None:
            continue
        if moment.kind == LEAVE:
            if nested and nested[-1] == moment.other:
                nested.pop()
                yield "</div></details>"
            continue
        if count >= most:
            left_out += 1
            continue
        count += 1
        text = html.escape(shown("".join(piece for _, piece in _static_line(moment))))
        if moment.kind == ENTER and len(nested) < MOST_NESTED and moment.other != index + 1:
            nested.append(index)
            yield f"<details{' open' if moment.depth < 3 else ''}><summary>{text}</summary><div>"
        else:
            yield f"<pre>{text}</pre>"
    yield "</div></details>" * len(nested)
    if left_out:
        yield f"<pre>... {left_out:,} more records</pre>"
    elif recording.truncated:
        yield f"<pre>{html.escape(recording.stopped)}</pre>"


def _static_line(moment: Moment) -> Line:
    assert moment.node is not None
    return record_line(moment.node, not isinstance(moment.node, ScopeRecord))
