"""What a full recorder notes as it goes, and the records that are made of that when somebody looks.

Notes are tuples of integers and strings, one for each event: to make one takes a tenth of what its record takes, and
many of their parts are shared. What begins and ends has two notes, which tell the nesting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.tools.documents.words import shortened
from minijax.tools.recording import preview
from minijax.tools.recording.forcing import reason
from minijax.tools.recording.lazily import Lazy
from minijax.tools.recording.lives import LifeTable
from minijax.tools.recording.records import BindRecord, EquationRecord, Node, RuleRecord, ScopeRecord
from minijax.tools.recording.timeline import (
    BIND,
    EQUATION,
    LEFT,
    NONFINITE,
    RAISED,
    RULE,
    Children,
    Timeline,
    event_sign,
)

# The first element of a note says what it is of: the sign of its moment, or OWN_RULE of the rule that a bind applies,
# which is no moment. Any other event's note is its record. The others are:
#   BIND: event, primitive, interpreter, its level, operands, ``Odd`` operands, those that are the interpreter's own,
#     parameters, why this interpreter, how many operands are not told, expression, line, cached function
#   SCOPE: event, interpreter, its level, subject, stack, line
#   LEFT: which note began it, event, results, ``Odd`` results, how many there are, not finite, error
#   RULE and OWN_RULE: event, table, primitive, (name, file, line of its source), line
#   EQUATION: event, interpreter, its scope, primitive, parameters, operands, results with types, line
OWN_RULE = 64
MOST_EQUATION = 1000

# Of operands or results that have no number: at which index, what (see ``preview.worth_and_type``), type.
Odd = tuple[tuple[int, Any, str], ...]
Note = tuple[Any, ...]


class Notes:
    """The notes of one recording; ``end`` is the event after the last."""

    def __init__(self, notes: list[Any], lives: LifeTable, end: int) -> None:
        self.notes = notes
        self.lives = lives
        self.end = end
        self._timeline: Timeline | None = None

    def timeline(self) -> Timeline:
        """The moments."""
        if self._timeline is None:
            self._timeline = self._read()
        return self._timeline

    def _read(self) -> Timeline:
        nodes = _Nodes(self.notes, self.lives)
        signs, ats, scopes = bytearray(), [], []
        begins, ends, rules = nodes.begins, nodes.ends, nodes.rules
        # what is open: which note began it, and the number of its record
        open_notes: list[int] = []
        open_numbers: list[int] = []

        def leave(end: int) -> int:
            """What began last ends, without a note: an interrupt came between two of the recorder's own steps."""
            nodes.late[open_numbers.pop()] = end
            signs.append(LEFT + RAISED if self.notes[open_notes[-1]][0] == BIND else LEFT)
            return open_notes.pop()

        for place, note in enumerate(self.notes):
            if type(note) is not tuple:
                signs.append(event_sign(note))
                ats.append(note.at)
                begins.append(place)
                continue
            sign = note[0]
            if sign == OWN_RULE:
                rules[open_numbers[-1]] = place
                continue
            if sign == LEFT:
                first = note[1]
                if first not in open_notes[-1:]:
                    if first not in open_notes:
                        continue
                    while open_notes[-1] != first:
                        leave(note[2])
                open_notes.pop()
                ends[open_numbers.pop()] = place
                signs.append(LEFT + (RAISED if note[7] else 0) + (NONFINITE if note[6] else 0))
                continue
            if sign == EQUATION:
                scopes.append(note[3])
            elif sign != RULE:
                open_notes.append(place)
                open_numbers.append(len(begins))
            signs.append(sign)
            ats.append(note[1])
            begins.append(place)
        while open_notes:
            leave(self.end - 1)
        nodes.all_read()
        known = nodes.timeline = Timeline(signs, nodes, self.end)
        known.columns = {"ats": np.array(ats, np.int64), "equations": np.array(scopes, np.int64)}
        return known


class NotedTree(Children):
    """The records at the top of a recording's tree."""

    __slots__ = ("notes",)

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.entered = 0

    @property
    def timeline(self) -> Timeline:  # type: ignore[override]
        return self.notes.timeline()

    def __bool__(self) -> bool:
        return bool(self.notes.notes)


class _Nodes(Lazy):
    """The records of a tree by their numbers."""

    timeline: Timeline

    def __init__(self, notes: list[Any], lives: LifeTable) -> None:
        super().__init__(0)
        self.notes = notes
        self.lives = lives
        # number -> the note that it begins with; those of its end and of the rule that it applies, if there are such
        self.begins: list[int] = []
        self.ends: dict[int, int] = {}
        self.rules: dict[int, int] = {}
        # number -> the event of an end that was not noted
        self.late: dict[int, int] = {}

    def all_read(self) -> None:
        """All notes have been read."""
        self._made = [None] * len(self.begins)

    def make(self, index: int) -> Node:
        note = self.notes[self.begins[index]]
        if type(note) is not tuple:
            return note  # type: ignore[no-any-return]
        sign = note[0]
        if sign == BIND:
            return self._bind(index, note)
        if sign == RULE:
            return _rule(note)
        if sign == EQUATION:
            return _equation(note)
        _, at, level, depth, subject, stack, place = note
        return ScopeRecord(at, self._left(index)[2], level, depth, subject, stack, self._children(index), place)

    def _left(self, index: int) -> Note:
        if index in self.late:
            return (LEFT, 0, self.late[index], (), (), 0, False, "never ended")
        note: Note = self.notes[self.ends[index]]
        return note

    def _children(self, index: int) -> Any:
        place = self.timeline.start(index)
        return Children(self.timeline, place) if self.timeline.other(place) > place + 1 else ()

    def _bind(self, index: int, note: Note) -> BindRecord:
        _, at, primitive, level, depth, operands, odd, own, params, forced, cut, expression, place, cached = note
        _, _, end, results, odd_results, count, nonfinite, error = self._left(index)
        args, in_types = self._told(operands, odd)
        outs, types = self._told(results, odd_results)
        if cut:
            args.append(f"... {cut} more")
        rule = self.rules.get(index)
        return BindRecord(
            at,
            end,
            primitive,
            level,
            depth,
            tuple(args),
            tuple(map(self.lives.tracer, own)),
            params,
            preview.listed(outs, count) if outs else "",
            None if rule is None else _rule(self.notes[rule]),
            place,
            error,
            self._children(index),
            forced[1] if len(forced) == 2 else reason(*forced),
            forced[0],
            tuple(types),
            operands,
            results,
            nonfinite,
            cached,
            tuple(in_types),
            expression,
        )

    def _told(self, numbers: Sequence[int], odd: Odd) -> tuple[list[str], list[str]]:
        """Texts and types of operands or results."""
        texts = [self.lives.text(number) if number else "" for number in numbers]
        types = [self.lives.type(number) if number else "" for number in numbers]
        for index, worth, kind in odd:
            texts[index] = worth if type(worth) is str else preview.float_text(worth)
            types[index] = kind
        return texts, types


def _rule(note: Note) -> RuleRecord:
    _, at, table, primitive, said, place = note
    name, file, line = said
    return RuleRecord(at, table, primitive, name, file, line, place)


def _equation(note: Note) -> EquationRecord:
    _, at, level, scope, primitive, params, operands, results, place = note
    shown = " ".join([f"{name}={text}" for name, text in params])
    bound = " ".join([f"{name}:{kind}" for name, kind in results])
    text = f"{bound} = {primitive}{f'[{shown}]' if shown else ''} {' '.join(operands)}"
    return EquationRecord(at, level, scope, shortened(text, MOST_EQUATION), place, primitive)
