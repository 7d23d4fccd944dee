"""The table *name, primal, tangent, cotangent* of the variables known at a moment, in program order."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from minijax.core.array import Array
from minijax.core.records import NamedTuple
from minijax.tools.documents.document import MARK, Document, Line, Segment, Text, document, length, line, padded
from minijax.tools.documents.words import shortened
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.records import BindRecord, LifeRecord, ScopeRecord, place_parts
from minijax.tools.recording.timeline import timeline
from minijax.tools.values.brief import brief, summary, type_of
from minijax.tools.values.moment import Found, Ledger, LoopShown, Unknown, Worth, ledger
from minijax.tools.values.sharing import shared_with

# The most rows of one table. It shows the latest rows, and how many rows are hidden.
MOST_ROWS = 60
# The same for a page, which has a table for every moment.
MOST_PAGE_ROWS = 30
# If a recording has more values than this, its table only considers the latest of them. For a recording from a
# file the limit is lower.
MOST_LIVES = 50_000
MOST_LIVES_LOADED = 5_000
# Time limit in seconds for one table. After this time, a row is only computed when it is selected.
MOST_SECONDS = 1.0
NOT_NOW: dict[str, Found] = {"primal": Unknown("takes long: select it"), "tangent": None, "cotangent": None}
# A recording from a file gets no table if it has more events than this. Files only have small values, as text.
MOST_EVENTS_WITHOUT = 100_000
NO_VALUES = line(("muted", "no variable has a value yet"))
NO_ARRAYS = line(("warning", "opened from a file: values are in the process that recorded them"))
# The columns of a table; the least width of a column.
COLUMNS = ("primal", "tangent", "cotangent")
_NARROWEST = 8
# The most characters of a value as JSON data.
MOST_TEXT = 200
# The most characters of ``y`` in the note ``with y`` after a cotangent: ``y`` is a value with the same sum.
MOST_SHARED = 8


class Named(NamedTuple):
    """A value with a name. ``variable``: whether the name is a variable. ``scope``: where it was created. ``function``:
    the user's function where it was created, '' if it is the function of the scope. ``since``: the event by which the
    variable held it.
    """

    number: int
    name: str
    variable: bool
    life: LifeRecord
    scope: ScopeRecord | None
    function: str = ""
    since: int = -1


class ValueRow(NamedTuple):
    """A row: ``known`` has the value for each column. ``new``: whether the moment created or changed it. ``shared``:
    the name of another value whose cotangent is part of the same sum.
    """

    named: Named
    known: dict[str, Found]
    new: bool
    shared: str = ""


class TableRows(NamedTuple):
    """All values named until a moment. ``shown``: the latest rows, or those around row ``selected``; ``first``: the
    index of the first row shown. ``more``: a very long recording has earlier values that are not in ``named``.
    """

    named: Sequence[Named]
    first: int
    shown: Sequence[ValueRow]
    more: bool = False
    selected: int = -1


def named_values(known: Ledger) -> Sequence[Named]:
    """All named values, in order of creation."""
    found: Sequence[Named] | None = known.__dict__.get("_named")
    if found is None:
        found = tuple(_named(known, known.recording.lives))
        known.__dict__["_named"] = found
    return found


def stored_values(known: Ledger) -> Sequence[Named]:
    """All values of variables, in the order of the stores: a value once for each variable that held it."""
    found: Sequence[Named] | None = known.__dict__.get("_stored")
    if found is None:
        stores = [(named, *store) for named in named_values(known) if named.variable for store in named.life.stores]
        stores.sort(key=lambda store: store[2])
        found = tuple([named._replace(name=name, since=since) for named, name, since in stores])
        known.__dict__["_stored"] = found
    return found


def _named(known: Ledger, some: Sequence[LifeRecord]) -> Iterator[Named]:
    """The values in ``some`` that have a name."""
    # of values that one event made, those inside of transformations come before the variable that got the result
    lives = sorted(some, key=lambda life: (life.born, _since(life), life.tracer.id))
    moments = timeline(known.recording)
    # values inside a named tracer: an argument would otherwise be listed twice, as itself and as the tracer
    held = {(number, life.born) for life in lives if life.name for number in life.tracer.holds}
    for life in lives:
        number = life.tracer.id
        name = life.name or known.naming.expressions.get(number, "")
        if not name or name == "_" or ((number, life.born) in held and _is_array(life)):
            continue
        # an array belongs to the scope that is running, a tracer to the scope of its transformation
        own = [node for node in moments.begun(life.scope) if node.at == life.scope] if life.scope > 0 else []
        around = [*moments.begun(life.born), *own]
        scopes = [node for node in around if isinstance(node, ScopeRecord) and (node.end >= life.born or node in own)]
        function = life.function
        if function and (not scopes or _subject(scopes[-1]) != function):
            # a caller's variable gets the value after some transformations have ended: it belongs to none of these
            scopes = [node for node in scopes if node.end >= _since(life) or node in own]
        elif not function and any(isinstance(node, BindRecord) and number in node.results for node in around):
            function = place_parts(life.place)[2].rpartition(".")[2]
        scope = scopes[-1] if scopes else None
        if function in (_subject(scope), "<module>"):
            function = ""
        yield Named(number, name, bool(life.name), life, scope, function)


def _since(life: LifeRecord) -> int:
    """The event by which the variable with the shown name held the value."""
    return next((at for each, at in life.stores if each == life.name), life.born)


def _subject(scope: ScopeRecord | None) -> str:
    """The function of a scope: ``<module>`` outside of all transformations."""
    return "<module>" if scope is None else scope.subject.partition(" at ")[0]


def _most_lives(known: Ledger) -> int:
    return MOST_LIVES if known.recording.has_values else MOST_LIVES_LOADED


class _Changes:
    """The events at which cotangents arrive, in order, each with the indices of the rows that it changes."""

    def __init__(self, known: Ledger, rows: Sequence[Named]) -> None:
        self.rows = rows
        places: dict[Any, list[int]] = {}
        for place, named in enumerate(rows):
            places.setdefault(known.summed(named.number), []).append(place)
        found = [(at, places[var]) for at, var in known.changes() if var in places]
        found.sort()
        self.events = [at for at, _ in found]
        self.places = [each for _, each in found]

    def row(self, count: int, at: int) -> int:
        """The index of the row, of the first ``count``, that changed last: it was created, or got a cotangent."""
        last = bisect_right(self.events, at) - 1
        if last >= 0 and count and self.events[last] > self.rows[count - 1].life.born:
            # if several rows share this cotangent, such as ``y`` and ``y - 1.0``, take the last of them
            return self.places[last][bisect_right(self.places[last], count - 1) - 1]
        return count - 1


def _changes(known: Ledger, rows: Sequence[Named]) -> _Changes:
    found: _Changes | None = known.__dict__.get("_changed_rows")
    if found is None or found.rows is not rows:
        found = known.__dict__["_changed_rows"] = _Changes(known, rows)
    return found


def row_until(known: Ledger, at: int) -> int:
    """At event ``at``, the index of the row that was created, or got a cotangent, last. -1 if there is none."""
    return _changes(known, named_values(known)).row(len(named_until(known, at)), at)


def _latest(known: Ledger, at: int) -> tuple[Sequence[Named], int, bool]:
    """For a very long recording: the named values around event ``at``, how many of these exist by then, and whether
    earlier values are left out.
    """
    lives = known.recording.lives
    # values are named in blocks; this block and the one before are kept for the next moments
    size = _most_lives(known) // 10
    block = bisect_right(lives, at, key=lambda life: life.born) // size
    blocks = known.__dict__.setdefault("_blocks", {})
    if block not in blocks:
        blocks.clear()
        blocks[block] = tuple(_named(known, lives[max(block - 1, 0) * size : (block + 1) * size]))
    found: Sequence[Named] = blocks[block]
    return found, bisect_right(found, at, key=_born), block > 1


def _is_array(life: LifeRecord) -> bool:
    return ":" not in life.tracer.level


def named_until(known: Ledger, at: int) -> Sequence[Named]:
    """All named values created by event ``at``."""
    every = named_values(known)
    return every[: bisect_right(every, at, key=_born)]


def rows_at(known: Ledger, at: int, before: int, selected: int = -1, most: int = MOST_ROWS) -> TableRows:
    """The rows at event ``at``. Rows that changed after event ``before`` are new. Row ``selected`` is always shown; if
    negative, it is the row that was created, or got a cotangent, last.
    """
    if len(known.recording.lives) <= _most_lives(known):
        every, more = named_values(known), False
        count = bisect_right(every, at, key=_born)
    else:
        every, count, more = _latest(known, at)
    if selected < 0:
        selected = _changes(known, every).row(count, at)
    return rows_of(known, every[:count], at, before, most, selected)._replace(more=more, selected=selected)


def rows_of(
    known: Ledger, chosen: Sequence[Named], at: int, before: int, most: int = MOST_ROWS, selected: int = -1
) -> TableRows:
    """The rows of the values ``chosen`` at event ``at``."""
    count = len(chosen)
    first = max(count - most, 0)
    if 0 <= selected < count:
        first = min(first, max(selected - most // 2, 0))
    # the newest rows come first, because time is limited and these rows are in view
    end = time.monotonic() + MOST_SECONDS
    shown = []
    for place in range(min(first + most, count) - 1, first - 1, -1):
        late = before >= 0 and time.monotonic() > end and place != selected
        named = chosen[place]
        shown.append(ValueRow(named, NOT_NOW, False) if late else value_row(known, named, at, before))
    return TableRows(chosen, first, shown[::-1])


def rows_data(known: Ledger, rows: TableRows) -> list[dict[str, Any]]:
    """The rows as JSON data."""
    out = []
    for row in rows.shown:
        named = row.named
        data: dict[str, Any] = {"name": named.name, "variable": named.variable, "place": named.life.place}
        data["level"] = named.life.tracer.level
        data["iterations"] = [loop.index for loop in known.loops(named.number)]
        for column in COLUMNS:
            data[column] = _found_data(row.known[column])
        if row.shared:
            data["cotangent"]["with"] = row.shared
        out.append(data)
    return out


def _found_data(found: Found) -> dict[str, Any] | None:
    if found is None:
        return None
    if isinstance(found, Unknown):
        return {"unknown": found.reason}
    data: dict[str, Any] = {"type": type_text(found), "examples": list(found.axes)}
    data["text"] = "".join(text for _, text in brief(found.array, MOST_TEXT, len(found.axes), typed=False))
    if (counted := summary(found.array).numbers) is not None:
        data |= {"nans": counted.nans, "infs": counted.infs}
    return data


def type_text(found: Worth) -> str:
    """The type as text: ``f32[3]``, or ``8× f32[3]`` for eight examples."""
    return type_of(found.array, len(found.axes))


def _born(named: Named) -> int:
    return named.life.born


def value_row(known: Ledger, named: Named, at: int, before: int) -> ValueRow:
    """The row of one value."""
    number = named.number
    found = {
        "primal": known.primal(number),
        "tangent": known.tangent(number),
        "cotangent": known.cotangent(number, at),
    }
    new = before >= 0 and (named.life.born > before or known.arrived(number, before, at))
    shared = shared_with(known, number) if isinstance(found["cotangent"], Worth) else ""
    return ValueRow(named, {key: picked(known, value) for key, value in found.items()}, new, shared)


def picked(known: Ledger, found: Found) -> Found:
    """The value restricted to the chosen examples."""
    if not isinstance(found, Worth) or not any(label in known.examples for label in found.axes):
        return found
    value, aval = np.asarray(found.array._value()), found.array.aval
    place, left = 0, []
    for label in found.axes:
        size = aval.shape[place]
        if label in known.examples:
            value = value[(slice(None),) * place + (min(known.examples[label], size - 1),)]
            aval = aval.update(shape=(*aval.shape[:place], *aval.shape[place + 1 :]))
        else:
            left.append(label)
            place += 1
    return Worth(Array(value, aval), tuple(left))


# --- as a document
# ---------------------------------------------------------------------------------------------------------


def values_pane(cursor: Cursor, columns: int = 100, selected: int = -1) -> Document:
    """The values known at the cursor's moment, the latest last. The row with index ``selected`` is marked."""
    if not cursor.recording.has_values and cursor.recording.events > MOST_EVENTS_WITHOUT:
        return document(Text((NO_ARRAYS,)))
    known = ledger(cursor.recording)
    before = cursor.moments[cursor.position - 1].at if cursor.position else -1
    rows = rows_at(known, cursor.moment.at, before, selected)
    if not rows.shown:
        return document(Text((NO_VALUES,)))
    note = (NO_ARRAYS,) if known.elsewhere else ()
    return document(Text((*note, *table_lines(known, rows, columns, rows.selected)), wrap=False))


def table_lines(known: Ledger, rows: TableRows, columns: int, selected: int = -1) -> Iterator[Line]:
    """The lines of a table: column names, then the rows, with a line above each group of rows from one function."""
    names = [row.named.name if row.named.variable else shortened(row.named.name, 40) for row in rows.shown]
    there = [c for c in COLUMNS if c == "primal" or any(row.known[c] is not None for row in rows.shown)]
    # if there is only one column, long names get more room: x @ w1 and x @ w1 + b1 must look different
    most = columns // (3 if len(there) == 1 else 4)
    width = max(min(max(length(line(name)) for name in names), max(most, 10)), 4)
    room = max((columns - width - 4 - 2 * (len(there) - 1)) // len(there), _NARROWEST)
    yield _heading(there, width, room)
    if rows.more:
        yield line(("muted", f"  ... {rows.first} or more earlier" if rows.first else "  ... the latest of very many"))
    elif rows.first:
        yield line(("muted", f"  ... {rows.first} earlier"))
    last: Any = 0
    for index, (row, name) in enumerate(zip(rows.shown, names, strict=True), rows.first):
        scope = row.named.scope
        loops = known.loops(row.named.number)
        examples = _examples(known, row.named.number)
        function = row.named.function
        group = (None if scope is None else scope.at, loops, examples), function
        if last and group[0] == last[0] and function != last[1] and scope is not None:
            # a call or a return within the same scope
            where = function or scope.subject.partition(" at ")[0] or scope.level
            yield line(("muted", "  in "), ("function", where))
        elif group != last and (scope is not None or last or function):
            yield _group_line(scope, loops, examples, function)
        last = group
        yield _row_line(row, name, there, width, room, index == selected)


def _heading(there: Sequence[str], width: int, room: int) -> Line:
    cells = "  ".join(name.ljust(room) for name in there)
    return line(("heading", f"  {'name'.ljust(width)}  {cells}".rstrip()))


def _examples(known: Ledger, number: int) -> tuple[str, ...]:
    """``example 3 of vmap:1`` for each vmap with a chosen example."""
    if not known.examples:
        return ()
    vmaps = known.vmaps(number)
    return tuple([_example(known, label, size) for label, size in vmaps.items() if label in known.examples])


def _example(known: Ledger, label: str, size: int) -> str:
    return f"example {min(known.examples[label], size - 1)} of {label}"


def _group_line(
    scope: ScopeRecord | None, loops: Sequence[LoopShown], examples: Sequence[str], function: str = ""
) -> Line:
    """The heading of a group of rows: ``step · scan:2 · iteration 1 of 10``, ``cell in step · scan:2 · ...``."""
    if scope is None:
        at_top = ("muted", " at top level") if function else ("muted", "top level")
        return (("", "  "), *line(("function", function), at_top))
    out: list[Segment] = [("", "  "), ("function", function)] if function else [("", "  ")]
    subject = scope.subject.partition(" at ")[0]
    if function:
        out.append(("muted", " in "))
    if subject:
        out += [("function", subject), ("muted", " · ")]
    out.append(("level", scope.level))
    if loops:
        out += [("muted", " · "), ("label", loops_text(loops))]
    for said in examples:
        out += [("muted", " · "), ("label", said)]
    return tuple(out)


def loops_text(loops: Sequence[LoopShown]) -> str:
    """The text ``iteration 1 of 10``; for nested loops ``iteration 1 of 10, in it turn 0 of 3``."""
    return ", in it ".join(map(loop_text, loops))


# kind of a loop -> the word for one iteration, if the word is not ``iteration``
_TURN_OF = {"while": "turn", "shard_map": "device"}


def loop_text(loop: LoopShown) -> str:
    """``iteration 1 of 10``, ``device 3 of 8 (data=1, model=1)``"""
    return f"{_TURN_OF.get(loop.kind, 'iteration')} {loop.index} of {loop.count}{loop.where and f' ({loop.where})'}"


def _row_line(row: ValueRow, name: str, there: Sequence[str], width: int, room: int, selected: bool) -> Line:
    mark: Segment = ("current", MARK + " ") if selected else ("good", "+ ") if row.new else ("", "  ")
    role = "var" if row.named.variable else "muted"
    # cut the start: paths of leaves in one tree differ at the end
    cut = f"...{name[3 - width :]}" if row.named.variable and len(name) > width > 3 else shortened(name, width)
    out: list[Segment] = [mark, (role, padded(cut, width))]
    for column in there:
        note = f" with {shortened(row.shared, MOST_SHARED)}" if row.shared and column == "cotangent" else ""
        cell = cell_line(row.known[column], room - len(note))
        cell += (("muted", note),) if note else ()
        out += [("", "  "), *cell, ("", " " * max(room - length(cell), 0))]
    return tuple(out)


class PageEntry(NamedTuple):
    """A line of a page's table. ``draw`` draws it again for the chosen iterations and examples. ``number``: the number
    of its value, or 0. Lines with equal text have equal ``key``. ``row``: its value's index among all named values.
    """

    line: Line
    number: int = 0
    draw: Callable[[], Line] | None = None
    key: Any = None
    row: int = -1


class PageTable:
    """The tables of all moments, for one page. A row is drawn once, and again when a cotangent arrives. Values that
    take long to compute are left out, and their row says so.
    """

    def __init__(self, known: Ledger, columns: int) -> None:
        self.known = known
        self.long = len(known.recording.lives) > _most_lives(known)
        every = () if self.long else named_values(known)
        kinds = {named.life.tracer.level.partition(":")[0] for named in every} or set(COLUMNS)
        self.there = [
            "primal",
            *(["tangent"] if "jvp" in kinds else []),
            *(["cotangent"] if known.recording.backward else []),
        ]
        longest = max((len(named.name) for named in every), default=columns if self.long else 4)
        self.width = min(longest, columns // 4)
        self.room = (columns - self.width - 4 - 2 * (len(self.there) - 1)) // len(self.there)
        self.rows: dict[Any, Line] = {}
        self.groups: dict[Any, tuple[Any, Line]] = {}
        # the events at which cotangents may change: only then do existing rows change
        steps = [step.at for record in known.recording.backward for step in record.steps]
        self.changes = sorted({*steps, *(record.begun for record in known.recording.backward)})

    def named(self, at: int) -> tuple[Sequence[Named], int, bool]:
        """The named values, how many of them exist by event ``at``, and whether earlier values are left out."""
        if self.long:
            return _latest(self.known, at)
        every = named_values(self.known)
        return every, bisect_right(every, at, key=_born), False

    def row(self, at: int) -> int:
        """The index of the row that was created, or got a cotangent, last; -1 if there is none."""
        every, count, _ = self.named(at)
        return _changes(self.known, every).row(count, at)

    def state(self, at: int) -> Any:
        """A key for the table at event ``at``: equal keys mean equal tables."""
        every, count, _ = self.named(at)
        return count, every[count - 1].number if count else 0, bisect_right(self.changes, at)

    def entries(self, at: int) -> Iterator[PageEntry]:
        """The lines of the table at event ``at``."""
        every, count, more = self.named(at)
        if not count:
            yield PageEntry(NO_VALUES)
            return
        yield PageEntry(_heading(self.there, self.width, self.room))
        first = max(count - MOST_PAGE_ROWS, 0)
        if first or more:
            said = f"  ... {first} or more earlier" if more else f"  ... {first} earlier"
            yield PageEntry(line(("muted", said)))
        last: Any = 0
        for place, named in enumerate(every[first:count], first):
            group, said_line = self._group(named)
            if group != last and (named.scope is not None or last or named.function):
                yield PageEntry(said_line, named.number, partial(self._group_said, named), ("in", named.number))
            last = group
            key = named.number, self.known.arrivals(named.number, at)
            yield PageEntry(self._row(named, at, key), named.number, partial(self._row, named, at, key), key, place)

    def lines(self, at: int) -> Iterator[Line]:
        """The table at event ``at``, for the chosen iterations and examples."""
        return (entry.line for entry in self.entries(at))

    def _looked_at(self) -> Any:
        return tuple(sorted(self.known.iterations.items())), tuple(sorted(self.known.examples.items()))

    def _group(self, named: Named) -> tuple[Any, Line]:
        state = named.number, self._looked_at()
        found = self.groups.get(state)
        if found is None:
            with self.known.glances():
                loops, scope = self.known.loops(named.number), named.scope
                examples = _examples(self.known, named.number)
            key = None if scope is None else scope.at, loops, examples, named.function
            found = self.groups[state] = key, _group_line(scope, loops, examples, named.function)
        return found

    def _group_said(self, named: Named) -> Line:
        return self._group(named)[1]

    def _row(self, named: Named, at: int, key: tuple[int, int]) -> Line:
        state = *key, self._looked_at()
        if state not in self.rows:
            with self.known.glances():
                row = value_row(self.known, named, at, -1)
            self.rows[state] = _row_line(row, named.name, self.there, self.width, self.room, False)
        return self.rows[state]


def cell_line(found: Found, room: int) -> Line:
    """A value, or the reason why it is missing, in ``room`` characters."""
    if found is None:
        return ()
    if isinstance(found, Unknown):
        return (("muted", shortened(found.reason, room)),)
    return brief(found.array, room, len(found.axes))
