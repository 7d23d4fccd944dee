"""The values pane of a stepper: the selected value, its elements, loop iterations, vmap examples, watches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from minijax.core.records import NamedTuple
from minijax.repl.stepper.searching import Searching
from minijax.tools.documents.document import Document, Line, Segment, Text, document
from minijax.tools.documents.words import shortened
from minijax.tools.stepper.backward import at_cursor
from minijax.tools.stepper.origins import moment_of
from minijax.tools.values import grid
from minijax.tools.values.brief import brief, numpy_of
from minijax.tools.values.devices import place_in_mesh
from minijax.tools.values.expressions import Evaluated, evaluate
from minijax.tools.values.moment import Ledger, LoopShown, Unknown, Worth, ledger
from minijax.tools.values.table import COLUMNS, Named, loop_text, named_until, row_until, value_row, values_pane

# Search this many rows back for a loop or a vmap.
_BACK = 200
# At most this many characters of a watched expression are shown.
_LABEL = 24
# At most this many characters of an expression's value are shown.
_ANSWER = 200


class Viewer(NamedTuple):
    """The viewer of a value's elements: the value, the chosen column of its row, and the visible part."""

    named: Named
    column: str
    place: grid.GridPlace


class Looking:
    """The values pane of a stepper.

    Attributes:
      selected: the index of the selected row among all named values; -1 selects the row that changed last.
      viewer: the elements shown instead of the panes; None if the panes are shown.
      watches: the expressions shown at every moment.
    """

    def __init__(self, stepper: Searching) -> None:
        self.stepper = stepper
        self.selected = -1
        self.viewer: Viewer | None = None
        self.watches: list[str] = []
        # the digits typed last, and the pane that had the focus before the digits
        self._digits = ""
        self._focus_before = ""
        self._keep_digits = False

    @property
    def known(self) -> Ledger:
        return ledger(self.stepper.recording)

    @property
    def at(self) -> int:
        return self.stepper.cursor.moment.at

    def pane(self, columns: int) -> Document:
        """The lines of the watches, then the table of values."""
        table = values_pane(self.stepper.cursor, columns, self.selected)
        if not self.watches:
            return table
        lines = [self._watch_line(each, columns) for each in self.watches]
        return document(Text(tuple(lines), wrap=False)) + table

    def _watch_line(self, expression: str, columns: int) -> Line:
        now = evaluate(self.known, self.at, expression)
        label = shortened(expression, _LABEL)
        mark: Segment = ("current", "* ") if self._changed(expression, now) else ("", "  ")
        said = now.line(max(columns - len(label) - 5, 8))
        if now.error:
            error = "no value yet" if now.later is not None else now.error
            said = (("muted", shortened(error, max(columns - len(label) - 5, 8))),)
        return (("linked", mark[1]), ("label", label), ("muted", " = "), *said)

    def _changed(self, expression: str, now: Evaluated) -> bool:
        """Whether the value of a watched expression differs from its value at the moment before."""
        cursor = self.stepper.cursor
        if not cursor.position:
            return False
        before = evaluate(self.known, cursor.moments[cursor.position - 1].at, expression)
        if bool(before.error) != bool(now.error):
            return not now.error
        return not now.error and not _same(before.value, now.value)

    def named(self) -> Named | None:
        """The selected value; None if nothing has a name yet."""
        every = named_until(self.known, self.at)
        return every[self._row()] if every else None

    def _row(self) -> int:
        """The index of the selected row."""
        return self.selected if self.selected >= 0 else row_until(self.known, self.at)

    def select(self, lines: int) -> None:
        count = len(named_until(self.known, self.at))
        if count:
            self.selected = min(max(self._row() + lines, 0), count - 1)

    def view(self) -> None:
        named = self.named()
        if named is None:
            self.stepper.say("no variable has a value yet", "muted")
            return
        self.viewer = Viewer(named, "primal", grid.GridPlace())
        found = self._viewed()
        if not isinstance(found, Worth):
            self.viewer = None
            why = found.reason if isinstance(found, Unknown) else "there is none at this moment"
            self.stepper.say(f"no value of {named.name}: {why}", "muted")

    def _viewed(self) -> Worth | Unknown | None:
        assert self.viewer is not None
        row = value_row(self.known, self.viewer.named, self.at, self.at)
        return row.known[self.viewer.column]

    def scroll(self, lines: int, columns: int = 0, slices: int = 0) -> None:
        """Scroll the elements, or show another slice of an array with more than two axes."""
        found = None if self.viewer is None else self._viewed()
        if self.viewer is None or not isinstance(found, Worth):
            return
        value, (slice, top, left) = numpy_of(found.array), self.viewer.place
        step = columns // 8 if abs(columns) >= 8 else columns
        place = grid.within(value, grid.GridPlace(slice + slices, top + lines, left + step))
        self.viewer = self.viewer._replace(place=place)
        if slices and grid.slices(value) == 1:
            self.stepper.say("the array has at most two axes: there is one slice", "muted")

    def next_column(self, step: int = 1) -> None:
        """Show the next column among primal, tangent and cotangent whose value is known."""
        assert self.viewer is not None
        row = value_row(self.known, self.viewer.named, self.at, self.at)
        there = [column for column in COLUMNS if isinstance(row.known[column], Worth)]
        if len(there) < 2:
            self.stepper.say("the value has no tangent and no cotangent here", "muted")
            return
        here = there.index(self.viewer.column)
        self.viewer = self.viewer._replace(column=there[(here + step) % len(there)])

    def viewer_lines(self, columns: int, rows: int) -> list[Line]:
        """The elements: a title, a summary, and the part that fits."""
        assert self.viewer is not None
        found = self._viewed()
        named, column, place = self.viewer
        title: Line = (("heading", f"━ {named.name}"), ("muted", f" · {column} "))
        if not isinstance(found, Worth):
            return [title, (("muted", "no value"),)]
        value = numpy_of(found.array)
        _, said = grid.slice_of(value, place.slice) if value.size else (value, "")
        if said:
            title = (*title, ("label", f"{said} "), ("muted", f"slice {place.slice} of {grid.slices(value)} "))
        summary = brief(found.array, columns - 2, len(found.axes))
        hint: Line = (("muted", "arrows scroll · [ ] slices · Tab primal, tangent, cotangent · q closes"),)
        body = grid.grid_lines(value, place, columns, rows - 3)
        return [title, (("", " "), *summary), *body[: rows - 3], *[()] * (rows - 3 - len(body)), hint]

    def typed_digit(self, number: int) -> None:
        """Keep a digit in case ``]`` follows: it then belongs to the number of an iteration."""
        if not self._digits:
            self._focus_before = self.stepper.focus
        self._digits += str(number)
        self._keep_digits = True

    def before_key(self) -> None:
        """Called before each key: drop the digits unless the last key was a digit."""
        if not self._keep_digits:
            self._digits = ""
        self._keep_digits = False

    def iterate(self, step: int) -> None:
        """Choose the next iteration of the selected value's loop; after digits, the iteration with that number."""
        if self.viewer is not None and not self._digits:
            self.scroll(0, 0, step)
            return
        if len(self._digits) == 1 and self._focus_before != self.stepper.focus == "values":
            self._digits = ""  # the digit chose this pane, so it is not the number of an iteration
        number = int(self._digits) if self._digits else None
        if number is not None:
            self.stepper.focus, self._digits = self._focus_before, ""
        loop = self._loop()
        if loop is None:
            self.stepper.say("no variable of a loop is known here", "muted")
            return
        wanted = loop.index + step if number is None else number
        index = min(max(wanted, 0), max(loop.count - 1, 0))
        self.known.iterations[loop.key] = index
        now = loop.replace(index=index, where=place_in_mesh(loop.axes, index))
        self.stepper.say(f"{loop_text(now)} · [ ] for others", "muted")

    def _loop(self) -> LoopShown | None:
        backward = at_cursor(self.stepper.cursor)
        if self.selected < 0 and backward is not None and (around := backward.loops()):
            return around[-1]
        for named in self._near():
            if loops := self.known.loops(named.number):
                return loops[-1]
        return None

    def _near(self) -> Iterator[Named]:
        """The selected value and the values before it, latest first; if none is selected, also the latest values."""
        every = named_until(self.known, self.at)
        for here in dict.fromkeys([self._row(), *([len(every) - 1] if self.selected < 0 else [])]):
            yield from (every[place] for place in range(here, max(here - _BACK, -1), -1))

    def next_example(self, step: int) -> None:
        """Choose the next example of the selected value's innermost vmap. A step back from the first shows all."""
        found = self._vmap()
        if found is None:
            self.stepper.say("no value here is mapped", "muted")
            return
        label, size = found
        index = self.known.examples.get(label, -1) + step
        if index < 0:
            self.known.examples.pop(label, None)
            self.stepper.say(f"all {size} examples of {label}", "muted")
        else:
            self.known.examples[label] = min(index, size - 1)
            self.stepper.say(f"example {min(index, size - 1)} of {size} of {label} · {{ }} for others", "muted")

    def _vmap(self) -> tuple[str, int] | None:
        with self.known.chosen(self.known.iterations, {}):
            for named in self._near():
                found = self.known.primal(named.number)
                if isinstance(found, Worth) and found.axes:
                    last = len(found.axes) - 1
                    return found.axes[last], found.array.aval.shape[last]
        return None

    def ask_expression(self) -> None:
        def say(expression: str) -> None:
            found = evaluate(self.known, self.at, expression)
            if found.error:
                self.stepper.say(found.error + self._first(found), "error" if found.later is None else "warning")
            else:
                self.stepper.say(f"{expression} = {''.join(piece for _, piece in found.line(_ANSWER))}", "good")

        self.stepper.ask("= (an expression in the names of this moment)", say)

    def _first(self, found: Evaluated) -> str:
        """If a name has no value yet, say at which step it gets one, and offer a key that goes there."""
        if found.later is None:
            return ""
        position = moment_of(self.stepper.cursor, found.later.life.born)
        self.stepper.offer(f"value of {found.later.name}", position)
        return f"; its first value is at step {position}: the key . goes there"

    def ask_watch(self) -> None:
        def watch(expression: str) -> None:
            if expression in self.watches:
                self.watches.remove(expression)
                self.stepper.say(f"{expression} is no longer watched", "good")
                return
            try:
                compile(expression, "<watch>", "eval")
            except (SyntaxError, ValueError) as error:
                self.stepper.say(f"{type(error).__name__}: {getattr(error, 'msg', error)}", "error")
                return
            self.watches.append(expression)
            found = evaluate(self.known, self.at, expression)
            if found.unknown:
                self.stepper.say(f"{expression} is watched, but {found.error}")
                return
            first = f"; {found.error}{self._first(found)}" if found.later is not None else ""
            ends = "W with the same expression stops this"
            self.stepper.say(f"{expression} is watched in the values pane{first or f'; {ends}'}", "good")

        self.stepper.ask("watch (an expression; enter it again to stop)", watch)


def _same(a: object, b: object) -> bool:
    try:
        return bool(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True))
    except Exception:  # values that cannot be compared count as changed
        return False
