"""The raw notes of a full recorder, and the records that are built from them on demand.

A note is a tuple of integers and strings. Notes take a tenth of the time and less than half of the memory of records.
Many of their parts are shared, and the garbage collector does not track notes. A bind or scope has one note for its
beginning and one for its end; this encodes the nesting.
"""

from __future__ import annotations

from array import array
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

# A note's first element is its type: the sign of its moment, or OWN_RULE for the rule that a bind applies, which has no
# moment. The note of any other event is its record. After the type, a note has:
#   BIND: event, primitive, interpreter, its level, a bit mask of the operands that are its tracers, parameters; the
#     reason for this interpreter: an operand's index, its name (or the whole reason), its kind, the lower levels (None
#     with a whole reason); number of omitted operands, expression, line, cached function; then the operands
#   SCOPE: event, interpreter, its level, subject, stack, line
#   LEFT: index of the note of its beginning, event, number of results, not finite, error; then the first results
#   RULE and OWN_RULE: event, table, primitive, (name, file, line of its source), line
#   EQUATION: event, interpreter, its scope, primitive, parameters, line, number of operands; then
#     the operands, and the results and their types in turn
# An operand or result is its number, or (text, type) if it has none: see ``preview.worth_and_type``.
OWN_RULE = 64
MOST_EQUATION = 1000

Note = tuple[Any, ...]


class Notes:
    """The notes of one recording; ``end`` is the event after the last."""

    def __init__(self, notes: list[Any], lives: LifeTable, end: int) -> None:
        self.notes = notes
        self.lives = lives
        self.end = end
        self._timeline: Timeline | None = None

    def timeline(self) -> Timeline:
        """The moments, read on first use."""
        if self._timeline is None:
            self._timeline = self._read()
        return self._timeline

    def _read(self) -> Timeline:
        nodes = _Nodes(self.notes, self.lives)
        signs, ats, scopes = bytearray(), [], []
        begins, ends, rules = nodes.begins, nodes.ends, nodes.rules

        def begin(at: int, here: int) -> None:
            ats.append(at)
            begins.append(here)
            ends.append(-1)
            rules.append(-1)

        # the open notes: their indices, and the numbers of their records
        open_notes: list[int] = []
        open_numbers: list[int] = []

        def leave(end: int) -> int:
            """End the innermost open bind or scope, which has no LEFT note because an interrupt came first."""
            nodes.late[open_numbers.pop()] = end
            signs.append(LEFT + RAISED if self.notes[open_notes[-1]][0] == BIND else LEFT)
            return open_notes.pop()

        for here, note in enumerate(self.notes):
            if type(note) is not tuple:
                signs.append(event_sign(note))
                begin(note.at, here)
                continue
            sign = note[0]
            if sign == OWN_RULE:
                rules[open_numbers[-1]] = here
                continue
            if sign == LEFT:
                _, first, at, _, nonfinite, error, *_ = note
                if first not in open_notes[-1:]:
                    if first not in open_notes:
                        continue
                    while open_notes[-1] != first:
                        leave(at)
                open_notes.pop()
                ends[open_numbers.pop()] = here
                signs.append(LEFT + (RAISED if error else 0) + (NONFINITE if nonfinite else 0))
                continue
            if sign == EQUATION:
                scopes.append(note[3])
            elif sign != RULE:
                open_notes.append(here)
                open_numbers.append(len(begins))
            signs.append(sign)
            begin(note[1], here)
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
    """The records of a tree by number, made on demand."""

    timeline: Timeline

    def __init__(self, notes: list[Any], lives: LifeTable) -> None:
        super().__init__(0)
        self.notes = notes
        self.lives = lives
        # number of a record -> the index of its note, of the note of its end, and of the note of its rule; -1 if none
        self.begins = array("q")
        self.ends = array("q")
        self.rules = array("q")
        self.reasons: dict[Any, str] = {}
        # interned tuples of types: few of them differ
        self.kinds: dict[tuple[str, ...], tuple[str, ...]] = {}
        # number of a record whose end has no note -> the event of its end
        self.late: dict[int, int] = {}

    def all_read(self) -> None:
        """Called when all notes have been read."""
        self._made = [None] * len(self.begins)

    def make(self, index: int) -> Node:
        note = self.notes[self.begins[index]]
        if type(note) is not tuple:
            return note  # type: ignore[no-any-return]
        if note[0] == BIND:
            return self._bind(index, note)
        if note[0] == RULE:
            return self._rule(note)
        if note[0] == EQUATION:
            return self._equation(note)
        _, at, level, depth, subject, stack, place = note
        return ScopeRecord(at, self._left(index)[2], level, depth, subject, stack, self._children(index), place)

    def _left(self, index: int) -> Note:
        if index in self.late:
            return LEFT, 0, self.late[index], 0, False, "never ended"
        return self.notes[self.ends[index]]  # type: ignore[no-any-return]

    def _children(self, index: int) -> Any:
        place = self.timeline.start(index)
        return Children(self.timeline, place) if self.timeline.other(place) > place + 1 else ()

    def _bind(self, index: int, note: Note) -> BindRecord:
        _, at, primitive, level, depth, own, params, why, cut, expression, place, cached, *used = note
        _, _, end, count, nonfinite, error, *made = self._left(index)
        operands, args, in_types = self._values(used)
        results, outs, types = self._values(made)
        forcer, forced, kind, lower = why
        if cut:
            args.append(f"... {cut} more")
        rule = self.rules[index]
        return BindRecord(
            at,
            end,
            primitive,
            level,
            depth,
            tuple(args),
            tuple([self.lives.tracer(number) for i, number in enumerate(operands) if own >> i & 1]),
            params,
            preview.listed(outs, count) if outs else "",
            None if rule < 0 else self._rule(self.notes[rule]),
            place,
            error,
            self._children(index),
            forced if lower is None else self._reason(forcer, forced, kind, level, lower),
            forcer,
            types,
            operands,
            results,
            nonfinite,
            cached,
            in_types,
            expression,
        )

    def _reason(self, *why: Any) -> str:
        """``forcing.reason``, cached: there are few different ones."""
        found = self.reasons.get(why)
        if found is None:
            found = self.reasons[why] = reason(*why)
        return found

    def _values(self, noted: Sequence[Any]) -> tuple[tuple[int, ...], list[str], tuple[str, ...]]:
        """Numbers, texts and types of operands or results."""
        numbers, texts, types = [], [], []
        for each in noted:
            if type(each) is int:
                numbers.append(each)
                texts.append(self.lives.text(each))
                types.append(self.lives.type(each))
            else:
                worth, kind = each
                numbers.append(0)
                texts.append(worth if type(worth) is str else preview.float_text(worth))
                types.append(kind)
        kinds = tuple(types)
        return tuple(numbers), texts, self.kinds.setdefault(kinds, kinds)

    def _rule(self, note: Note) -> RuleRecord:
        _, at, table, primitive, (name, file, line), place = note
        return RuleRecord(at, table, primitive, name, file, line, place)

    def _equation(self, note: Note) -> EquationRecord:
        _, at, level, scope, primitive, params, place, count, *names = note
        operands, results = names[:count], names[count:]
        shown = " ".join([f"{name}={text}" for name, text in params])
        bound = " ".join([f"{name}:{kind}" for name, kind in zip(results[::2], results[1::2], strict=True)])
        text = f"{bound} = {primitive}{f'[{shown}]' if shown else ''} {' '.join(operands)}"
        return EquationRecord(at, level, scope, shortened(text, MOST_EQUATION), place, primitive)
