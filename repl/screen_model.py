"""What all full screens have: panes, keys, questions, a message and the help. It needs no terminal.

A model's table of keys has one row for each line of the help: the keys as shown, what they do, and prompt_toolkit's
names of the keys with their actions. The key bindings and the help follow from this table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from minijax.core.records import Frozen
from minijax.repl.drawing import ends, fitted, padded, ruled
from minijax.tools.documents.document import Line, line, wrapped

Action = Callable[[Any], object]
# keys as shown, help, {names of keys, separated by spaces: action}
KeyRow = tuple[str, str, dict[str, Action]]
# heading -> its rows
Keys = dict[str, tuple[KeyRow, ...]]

# columns reserved for an answer
_ANSWER = 16
# The least columns for a help in two columns, and for descriptions beside the keys.
_WIDE, _BESIDE = 110, 54
# The columns of the keys in the help.
_KEYS = 20
# The keys that scroll the help: by lines, and by pages.
_LINES = {"down": 1, "j": 1, "up": -1, "k": -1}
_PAGES = {"pagedown": 1, "space": 1, "pageup": -1}
# The current line is at 1/3 of a pane's height.
_ABOVE = 3
# the end of the last line
_HINT = "? keys  q leaves "


class Asked(Frozen):
    """A question on the last line.

    Attributes:
      label: the question; it may end with an example in brackets, or with two spaces and the choices.
      answer: called with the answer.
      single: whether the answer is one character.
      text: the initial text of the answer.
    """

    label: str
    answer: Callable[[str], None]
    single: bool = False
    text: str = ""

    def fits(self, columns: int) -> bool:
        return len(self.label) + _ANSWER <= columns

    def fitting(self, columns: int) -> str:
        """The label, without its example or choices if they leave no room for an answer."""
        if self.fits(columns):
            return self.label
        return self.label.partition("  " if "  " in self.label else " (")[0]


class Model:
    """The state of a full screen.

    Attributes:
      keys: the table of keys.
      notes: the lines below the keys in the help.
      panes: the names of the panes.
      rename: replaces places in a text by the front end's names for them.
      focus: the pane that receives the keys. A small screen shows only this one.
      zoomed: whether the focused pane fills the screen.
      help: whether the help is shown, from line ``help_top`` on.
      message: (role, text), the response to the last key.
      question: the open question, or None.
      result: why the full screen ended; '' while it runs.
      scrolled: pane -> (lines, columns) scrolled away from the position that shows the pane's cursor.
      page: the number of lines of a pane in the last drawing.
    """

    keys: Keys = {}
    notes: tuple[str, ...] = ()
    panes: tuple[str, ...] = ()

    def __init__(self, focus: str, rename: Callable[[str], str] | None = None) -> None:
        self.rename: Callable[[str], str] = rename or str
        self.focus = focus
        self.zoomed = self.help = False
        self.help_top = 0
        self.message: tuple[str, str] = ("", "")
        self.question: Asked | None = None
        self.result = ""
        self.scrolled: dict[str, tuple[int, int]] = {}
        self.page = 10

    def actions(self) -> dict[str, Action]:
        rows = itertools.chain(*self.keys.values())
        return {name: action for _, _, bound in rows for name, action in by_key(bound).items()}

    def press(self, key: str) -> None:
        """Do a key's action. While the help is open, keys scroll it, and all others close it. Esc closes a message."""
        said = self.message[1]
        self.before_key()
        if key == "escape" and said and not self.help:
            return
        if not self.help:
            self.act(key)
        elif key in _LINES or key in _PAGES:
            self.scroll_help(_LINES.get(key, 0) + _PAGES.get(key, 0) * self.a_page())
        else:
            self.help = False

    def act(self, key: str) -> None:
        self.actions()[key](self)

    def before_key(self) -> None:
        self.message = ("", "")

    def say(self, text: str, role: str = "warning") -> None:
        """Show ``text`` until the next key."""
        self.message = (role, text)

    def ask(self, label: str, answer: Callable[[str], None], single: bool = False, text: str = "") -> None:
        self.question = Asked(label, answer, single, text)

    def answer(self, text: str) -> None:
        """Answer the question; an empty text cancels it."""
        question, self.question = self.question, None
        if question is not None and text.strip():
            question.answer(text if question.single else text.strip())

    def leave(self) -> None:
        self.result = "leave"

    def toggle_help(self) -> None:
        self.help, self.help_top = not self.help, 0

    def scroll_help(self, lines: int) -> None:
        self.help_top = max(self.help_top + lines, 0)

    def zoom(self) -> None:
        self.zoomed = not self.zoomed

    def digit(self, number: int) -> None:
        """Focus the pane with this number, from 1."""
        if 1 <= number <= len(self.panes):
            self.focus = self.panes[number - 1]
        else:
            self.say(f"there is no pane {number}", "muted")

    def next_pane(self, step: int = 1) -> None:
        self.focus = self.panes[(self.panes.index(self.focus) + step) % len(self.panes)]

    def again(self, backwards: bool = False) -> None:
        """Repeat the last search."""

    def mouse(self, pane: str, row: str, lines: int = 0) -> None:
        """A click on a row of a pane ('' on its title), or ``lines`` of the wheel over the pane."""
        self.before_key()
        if self.help:
            self.scroll_help(lines)
        elif lines:
            self.wheel(pane, lines)
        else:
            self.click(pane, row)

    def click(self, pane: str, row: str) -> None: ...

    def wheel(self, pane: str, lines: int) -> None: ...

    def a_page(self) -> int:
        """The lines that PgDn scrolls."""
        return max(self.page - 1, 1)

    def top(self, pane: str, row: int, count: int, rows: int) -> int:
        """The first of a pane's ``count`` lines to show: the cursor's ``row`` is visible, unless one has scrolled."""
        down, right = self.scrolled.get(pane, (0, 0))
        most = max(count - rows, 0)
        natural = min(max(row - rows // _ABOVE, 0), most)
        top = min(max(natural + down, 0), most)
        # limit an offset that is past the end, so that the next key scrolls back immediately
        self.scrolled[pane] = (top - natural, right)
        return top

    def help_lines(self, columns: int) -> Iterator[Line]:
        """The help, in two columns if there is room."""
        wide = columns >= _WIDE
        room = columns // 2 - 1 if wide else columns
        groups = [[*self._group_lines(heading, room), ()] for heading in self.keys]
        parts = [groups[:i] for i in range(1, len(groups))]
        if wide and parts:
            heights = [(sum(map(len, part)), sum(map(len, groups[len(part) :]))) for part in parts]
            left = parts[heights.index(min(heights, key=max))]
            both = itertools.chain(*left), itertools.chain(*groups[len(left) :])
            for a, b in itertools.zip_longest(*both, fillvalue=()):
                yield (*fitted(a, columns // 2, fill=True), *b)
        else:
            yield from itertools.chain(*groups)
        for each in self.notes:
            yield from wrapped(line(("muted", f" {each}")), columns, 1)

    def _group_lines(self, heading: str, columns: int) -> Iterator[Line]:
        """A group of keys in the help."""
        beside = columns >= _BESIDE
        yield line(("heading", f" {heading}"))
        for shown, said, _ in self.keys[heading]:
            gap = " " * (_KEYS - 2 - len(shown) if beside else 2)
            yield from wrapped(line(("primitive", f"  {shown}"), gap, said), columns, _KEYS if beside else 4)


def by_key(bound: dict[str, Action]) -> dict[str, Action]:
    """The actions of single keys, for actions of several."""
    return {name: action for names, action in bound.items() for name in names.split()}


def both(forward: str, backward: str, move: Callable[[Any, int], object], step: int = 1) -> dict[str, Action]:
    """Keys that move forwards, and keys that move backwards."""
    return {forward: lambda model: move(model, step), backward: lambda model: move(model, -step)}


def _digit(number: int) -> Action:
    return lambda model: model.digit(number)


AGAIN = both(".", ",", lambda model, step: model.again(step < 0))
PANE_KEYS = both("tab", "s-tab", Model.next_pane) | {str(number): _digit(number) for number in range(10)}
ALONE: KeyRow = ("z", "the pane alone, or all again", {"z": Model.zoom})
ENDS: tuple[KeyRow, ...] = (
    ("? F1", "this help", {"? f1": Model.toggle_help}),
    ("Ctrl-Z Ctrl-L", "suspend (fg comes back), draw anew", {}),
    ("q Esc Ctrl-C", "leave", {"q escape c-c c-d": lambda model: model.leave()}),
)


def framed(
    model: Model,
    columns: int,
    rows: int,
    head: Line,
    body: Callable[[Any, int, int], list[Line]],
    foot: Callable[[Any, int, int], list[Line]],
) -> list[Line]:
    """A screen of ``rows`` lines: a head (from 8 lines on), ``body`` or the help, and a foot of a third at most.

    The hint at ``?`` is at the end of the last line, if there is room.
    """
    columns, rows = max(columns, 1), max(rows, 1)
    first, *below = [(("", " "), *each) for each in foot(model, columns, max(rows // 3, 1))]
    below[-1] = ends(below[-1], (("muted", _HINT),), columns)
    lower = [first, *below][: max(rows - 1, 0)]
    above = [head] if rows >= 8 else []
    room = rows - len(above) - len(lower)
    between = help_pane(model, columns, room) if model.help else body(model, columns, room)
    return [fitted(each, columns) for each in (*above, *between, *lower)][:rows]


def help_pane(model: Model, columns: int, rows: int) -> list[Line]:
    """The help, scrolled to its line ``help_top``."""
    lines = list(model.help_lines(columns))
    model.help_top = min(model.help_top, max(len(lines) - rows + 1, 0))
    model.page = rows
    return padded([ruled("keys · ? closes · j k scroll", columns, True), *lines[model.help_top :]], rows)
