"""The state of a stepper and the actions of its keys, without a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable

from minijax.repl.screen_model import AGAIN, ALONE, ENDS, PANE_KEYS, Action, Keys, both, by_key
from minijax.repl.stepper.looking import Looking
from minijax.repl.stepper.searching import Searching
from minijax.repl.stepper.walking import Walking
from minijax.tools.programs.links import LinkedPrograms
from minijax.tools.recording import storage
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import BindRecord, CacheRecord
from minijax.tools.session.result import Step
from minijax.tools.stepper import panes as stepping
from minijax.tools.stepper import programs
from minijax.tools.stepper.devices import has_devices, with_devices
from minijax.tools.stepper.programs import PROGRAM_PANES, Selection
from minijax.tools.stepper.tree import FOLD, past_repeated
from minijax.tools.xla.moments import compiled_call

# The first pane's share of the height, in twentieths, if two are above one another.
SHARE, LEAST_SHARE, MOST_SHARE = 10, 4, 16
DEEPEST_FOLD = 99
# the moves that end at the beginning
_BACKWARDS = ("back", "back_over", "back_out", "first")


def _go(keys: str, way: str) -> dict[str, Action]:
    return {keys: lambda stepper: stepper.go(way)}


def _find(key: str, label: str, said: str, finder: Callable[[Cursor, str, bool], bool]) -> dict[str, Action]:
    """A key that asks for a text, and goes to the next moment that ``finder`` finds for it."""

    def ask(stepper: Searching) -> None:
        def find(text: str) -> None:
            stepper.find(said.format(text), lambda back: finder(stepper.cursor, text, back))

        stepper.ask(label, find)

    return {key: ask}


def _find_bind(key: str, label: str, said: str, name: str) -> dict[str, Action]:
    """A key that asks for the ``name`` of an operation: a property that ``Cursor.to_bind`` knows."""
    return _find(key, label, said, lambda cursor, text, back: cursor.to_bind(backwards=back, **{name: text}))


class Stepper(Searching):
    """A stepper: its position and what it displays.

    Attributes:
      cursor: the position in the recording.
      moment_panes: the panes of a moment; 'devices' only if this recording has a program that several devices run.
      linked: the programs of the last compilation; None until there are programs, from the recording or on request.
      programs: whether the programs are shown instead of the moment's panes.
      selection: the equations that are marked in the programs.
      fold: the number of levels that the tree shows.
      share: the first pane's share of the height, in twentieths.
      values: the state of the values pane.
      walk: the moves from values to their origins.
      result: '' while it runs; then 'leave', or an action for the plain terminal: 'retrace', 'programs' or 'stages'.
    """

    notes = (
        "▶ the current moment · muted lines lie ahead · • what the current operation is given",
        "mouse: a click goes to a row of the tree or chooses a pane, the wheel scrolls; with Shift it selects text",
    )

    def __init__(self, step: Step, rename: Callable[[str], str] | None = None) -> None:
        super().__init__(step, rename)
        over_devices = has_devices(step.recording)
        self.moment_panes = tuple(name for name in stepping.PANES if name != "devices" or over_devices)
        self.linked: LinkedPrograms | None = programs.recorded_programs(step.recording)
        self.programs = False
        self.selection = Selection()
        self.fold = FOLD
        self.share = SHARE
        # the panes that had the focus, latest first: where panes share a place, the latest of them is shown
        self.seen: list[str] = []
        # the moments of the tree's rows in the last drawing
        self.tree_shown: tuple[int, ...] = ()
        self.values = Looking(self)
        self.walk = Walking(self, self.values.named)
        missing = naming_of(step.recording).missing
        if step.note or missing:
            said = "; ".join(filter(None, (step.note, missing)))
            self.say(self.rename(said))
        else:
            self.note_cached()

    @property
    def panes(self) -> tuple[str, ...]:  # type: ignore[override]
        return PROGRAM_PANES if self.programs else self.moment_panes

    def before_key(self) -> None:
        super().before_key()
        self.values.before_key()

    def act(self, key: str) -> None:
        """Do a key's action. While the elements of a value are shown, some keys scroll them."""
        move = VIEWER_KEYS.get(key) if self.values.viewer is not None else None
        if move is None:
            super().act(key)
        else:
            move(self.values)

    def leave(self) -> None:
        """Close the viewer of elements; without one, the stepper."""
        if self.values.viewer is None:
            super().leave()
        self.values.viewer = None

    def go(self, way: str) -> None:
        """Move by a method of the cursor; ``over`` skips equal steps that the tree shows as one row."""
        past = past_repeated(self.cursor) if way == "over" else None
        moved = self.cursor.go(past) if past else getattr(self.cursor, way)()
        ended = f"{self.cursor.cut or 'this is the end'}; b goes back"
        self.move(moved, "this is the beginning" if way in _BACKWARDS else ended)

    def moved(self) -> None:
        self.scrolled.clear()
        self.values.selected = -1  # the row of the latest change
        self.select_moment()
        self.note_cached()

    def note_cached(self) -> None:
        """If a trace came from a cache, say that no Python ran."""
        node = self.cursor.moment.node
        if isinstance(node, BindRecord) and node.cached or isinstance(node, CacheRecord) and node.hit:
            again = "; R traces it again" if self.step.retrace is not None else ""
            self.say(f"this trace came from a cache: no Python ran{again}")

    def mark(self) -> None:
        def keep(name: str) -> None:
            self.cursor.mark(name)
            self.say(f"bookmark {name} is here; ' {name} comes back", "good")

        self.ask("bookmark this moment as (a letter)", keep, single=True)

    def to_mark(self) -> None:
        def go(name: str) -> None:
            if name not in self.cursor.bookmarks:
                known = " ".join(sorted(self.cursor.bookmarks))
                self.say(f"no bookmark {name}; " + (f"there are {known}" if known else "m makes one"))
            else:
                self.move(self.cursor.to_mark(name), f"bookmark {name} is here")

        known = " ".join(sorted(self.cursor.bookmarks)) or "none yet: m makes one"
        self.ask(f"to bookmark ({known})", go, single=True)

    def digit(self, number: int) -> None:
        """Focus the pane with this number. Keep the digits: if ``]`` follows, they are the number of an iteration."""
        self.values.typed_digit(number)
        if 1 <= number <= len(self.panes):
            self.focus = self.panes[number - 1]

    def click(self, pane: str, row: str) -> None:
        """Focus a pane; in the tree, also go to the moment of the row."""
        if pane in self.panes and self.values.viewer is None:
            self.focus = pane
            if row:
                self.move(self.cursor.go(int(row)), "this is the current moment")

    def wheel(self, pane: str, lines: int) -> None:
        """Focus and scroll the pane under the mouse."""
        self.click(pane, "")
        self.scroll(lines)

    def scroll(self, lines: int = 0, columns: int = 0) -> None:
        """Scroll the focused pane. In the pane of values, move the selection down by ``lines`` rows."""
        if self.values.viewer is not None:
            self.values.scroll(lines, columns)
        elif self.programs and lines:
            self.select_line(lines)
        elif self.focus == "values" and lines:
            self.values.select(lines)
        else:
            down, right = self.scrolled.get(self.focus, (0, 0))
            self.scrolled[self.focus] = (down + lines, max(right + columns, 0))

    def resize(self, twentieths: int) -> None:
        self.share = min(max(self.share + twentieths, LEAST_SHARE), MOST_SHARE)

    def unfold(self, levels: int) -> None:
        self.fold = min(max(self.fold + levels, 1), DEEPEST_FOLD)
        around = ", and around the cursor" if levels < 0 else ""
        self.say(f"the tree is unfolded {self.fold} levels deep{around}", "muted")

    def toggle_programs(self) -> None:
        if self.programs:
            self.show_programs(False)
        elif self.linked is not None:
            self.show_programs(True)
        elif self.step.programs is None:
            made = "is of a line, not of one call," if self.step.retrace is not None else "was opened, not made here,"
            self.say(f"this recording {made} and holds no compiled program")
        else:
            self.result = "programs"

    def browse(self) -> None:
        """Request the stages of the compiled call at the moment, or of the whole call."""
        if self.step.stages is None and compiled_call(self.cursor) is None:
            self.say("no compiled program is called here: go into a call of one, such as jit")
        else:
            self.result = "stages"

    def show_programs(self, shown: bool) -> None:
        self.programs = shown
        self.focus = self.panes[0]
        self.scrolled.clear()
        self.select_moment()

    def select_moment(self) -> None:
        """Mark the equations of the cursor's moment."""
        if self.programs and self.linked is not None:
            self.selection = programs.at_moment(self.linked, self.cursor)

    def program_index(self, name: str) -> int:
        """The index of the program in the pane ``name``."""
        assert self.linked is not None
        return programs.pane_index(self.linked, name, self.selection, self.cursor.state().place)

    def select_line(self, lines: int) -> None:
        """In the focused program, move the selection this many lines down."""
        assert self.linked is not None
        pane = self.program_index(self.focus)
        if pane < 0:
            return
        shown = self.linked.panes[pane]
        if self.selection.pane == pane:
            here = self.selection.index
        else:
            here = next(iter(shown.with_equations(self.selection.equations)), 0) - (lines > 0)
        index = min(max(here + lines, 0), len(shown.lines) - 1)
        self.selection = programs.at_line(self.linked, pane, index)
        self.scrolled.clear()

    def save(self) -> None:
        def write(path: str) -> None:
            path = os.path.expanduser(path)
            if os.path.exists(path):
                self.say(f"{path} is there already: choose another name", "error")
                return
            try:
                storage.save(with_devices(self.recording), path)
            except OSError as error:
                self.say(f"not saved to {path}: {error.strerror or error}", "error")
            else:
                self.say(f"saved: %step --file {path} opens it again", "good")

        self.ask("save the recording as", write, text="recording.json")

    def retrace(self) -> None:
        if self.step.retrace is None:
            self.say("this recording was opened, not made here: there is no call to run again")
        else:
            self.result = "retrace"

    def toggle_names(self) -> None:
        """Switch jaxprs between the user's names and JAX's letters."""
        self.cursor.named = not self.cursor.named
        self.say("jaxprs with your names" if self.cursor.named else "jaxprs with JAX's letters", "muted")

    keys: Keys = {
        "Step": (
            ("→ s i Space", "into: the next moment", _go("right s i space", "into")),
            ("↓ n o", "over: to the end of this call, or past equal steps (×100)", _go("down n o", "over")),
            ("u", "out: to where the enclosing call ends", _go("u", "out")),
            ("← b", "back: the moment before", _go("left b", "back")),
            ("↑ N O", "back over: to where this call began", _go("up N O", "back_over")),
            ("U", "back out: to where the enclosing call began", _go("U", "back_out")),
            ("Home g", "to the beginning", _go("home g", "first")),
            ("End G", "to the end", _go("end G", "last")),
        ),
        "Where from, where to": (
            ("Enter", "to where an operand or value came from", {"enter": lambda s: s.walk.to_origin()}),
            ("t", "to where a result or value is used", {"t": lambda s: s.walk.to_use()}),
            ("Backspace", "back to where Enter or t went from", {"backspace": lambda s: s.walk.return_()}),
        ),
        "Find": (
            ("/", "words: names, values, types, files", _find("/", "search", "{!r}", Cursor.search)),
            (
                "P",
                "next operation of a name",
                _find_bind("P", "next operation (its name, such as sin)", "{} operation", "primitive"),
            ),
            (
                "L",
                "next operation at a level",
                _find_bind("L", "next operation at level (jvp or jvp:2)", "operation at {}", "level"),
            ),
            (
                ":",
                "next operation of a line",
                _find_bind(":", "next operation of line (12 or file:12)", "operation of line {}", "place"),
            ),
            (
                "F",
                "next work on a function",
                _find("F", "next work on function", "function {}", stepping.to_function),
            ),
            (
                "S",
                "next operation with a type or shape",
                _find_bind("S", "next operation with type (f32[3] or [3])", "operation with {}", "shape"),
            ),
            ("c", "next moment where a condition holds: h.max() > 10", {"c": lambda s: s.walk.ask_condition()}),
            ("!", "next NaN or infinity", {"!": lambda s: s.find("NaN or infinity", s.cursor.to_nonfinite)}),
            ("e", "next error", {"e": lambda s: s.find("error", s.cursor.to_error)}),
            (". ,", "the last search again, backwards", AGAIN),
            ("m", "bookmark this moment", {"m": mark}),
            ("'", "to a bookmark", {"'": to_mark}),
        ),
        "Panes": (
            ("Tab 1…6", "next pane, or the one with this number; Shift-Tab: previous", PANE_KEYS),
            ("j k", "scroll down, up", both("j", "k", scroll)),
            ("l h", "scroll right, left", both("l", "h", lambda s, columns: s.scroll(0, columns), 8)),
            ("PgDn PgUp", "scroll by a page", both("pagedown", "pageup", lambda s, n: s.scroll(n * s.a_page()))),
            ALONE,
            ("+ -", "more or less room for the first pane", both("+", "-", resize)),
            ("> <", "unfold the tree deeper, less deep", both(">", "<", unfold)),
            ("J", "jaxprs with your names, or JAX's letters", {"J": toggle_names}),
            ("p", "programs: Python, jaxpr, StableHLO, optimised", {"p": toggle_programs}),
            ("x", "what XLA made of the call here: passes, machine code", {"x": browse}),
        ),
        "Values": (
            ("v", "elements of the selected value", {"v": lambda s: s.values.view()}),
            ("=", "an expression in the names here", {"=": lambda s: s.values.ask_expression()}),
            ("W", "watch an expression, or no more", {"W": lambda s: s.values.ask_watch()}),
            ("] [", "next, previous iteration; 7] goes to 7", both("]", "[", lambda s, n: s.values.iterate(n))),
            (
                "} {",
                "next, previous example of a vmap, or all",
                both("}", "{", lambda s, n: s.values.next_example(n)),
            ),
        ),
        "Other": (
            ("R", "run again without cached traces", {"R": retrace}),
            ("w", "save the recording to a file", {"w": save}),
            *ENDS,
        ),
    }


# the keys while the elements of a value are shown
VIEWER_KEYS = by_key(
    both("right s i space", "left b", lambda values, columns: values.scroll(0, columns))
    | both("down n o", "up N O", Looking.scroll)
    | both("end G", "home g", lambda values, far: values.scroll(far, min(far, 0)), 10**9)
    | both("tab", "s-tab", Looking.next_column)
)
