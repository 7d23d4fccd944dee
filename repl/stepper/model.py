"""The state of a stepper and the actions of its keys, without a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from minijax.repl.keyed import Question
from minijax.repl.stepper.looking import Looking
from minijax.repl.stepper.walking import Walking
from minijax.tools.programs.links import LinkedPrograms
from minijax.tools.recording import storage
from minijax.tools.recording.cursor import Cursor, SearchProgress
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import BindRecord, CacheRecord, Recording
from minijax.tools.session.result import Step
from minijax.tools.stepper import panes as stepping
from minijax.tools.stepper import programs
from minijax.tools.stepper.devices import has_devices, with_devices
from minijax.tools.stepper.programs import PROGRAM_PANES, Selection
from minijax.tools.stepper.tree import FOLD, past_repeated
from minijax.tools.values.conditions import ConditionError
from minijax.tools.xla.moments import compiled_call

# The panes of the two views: the moment, and the programs of the call.
MOMENT_PANES = tuple(stepping.PANES)
# The first pane's share of the height, in twentieths, if two are above one another.
SHARE, LEAST_SHARE, MOST_SHARE = 10, 4, 16
DEEPEST_FOLD = 99


class Stepper:
    """The state of a stepper: its position and what it displays.

    Attributes:
      rename: replaces places in a text by the front end's names; None if it has no names of its own.
      cursor: the position in the recording.
      moment_panes: the panes of a moment; 'devices' only if this recording has a program that several devices run.
      linked: the programs of the last compilation; None until there are programs, from the recording or on request.
      programs: whether the programs are shown instead of the moment's panes.
      selection: the equations that are marked in the programs.
      focus: the pane that the keys scroll; a small screen shows only this one.
      zoomed: whether the focused pane fills the screen.
      fold: the number of levels that the tree shows.
      share: the first pane's share of the height, in twentieths.
      message: (role, text), the response to the last key.
      question: the open question; None if there is none.
      values: the state of the values pane.
      walk: the moves from values to their origins.
      help: whether the help is shown, from line ``help_top`` on.
      result: '' while it runs; then 'leave', or an action for the plain terminal: 'retrace', 'programs' or 'stages'.
    """

    def __init__(self, step: Step, rename: Callable[[str], str] | None = None) -> None:
        self.step = step
        self.rename = rename
        self.cursor = Cursor(step.recording, step.position)
        over_devices = has_devices(step.recording)
        self.moment_panes = tuple(name for name in MOMENT_PANES if name != "devices" or over_devices)
        self.linked: LinkedPrograms | None = programs.recorded_programs(step.recording)
        self.programs = False
        self.selection = Selection()
        self.focus = "tree"
        self.zoomed = False
        self.fold = FOLD
        self.share = SHARE
        self.message: tuple[str, str] = ("", "")
        self.question: Question | None = None
        self.help = False
        self.help_top: int  # set when the help opens
        self.result = ""
        # the panes that had the focus, latest first: where panes share a place, the latest of them is shown
        self.seen: list[str] = []
        # pane -> (lines, columns) scrolled away from the position that shows the current line
        self.scrolled: dict[str, tuple[int, int]] = {}
        # the moments of the tree's rows in the last drawing
        self.tree_shown: tuple[int, ...] = ()
        # the number of lines in a pane in the last drawing: one page
        self.page = 10
        self.values = Looking(self)
        self.walk = Walking(self, self.values.named)
        # for interrupting searches in a terminal: a context around each search, and a function called during it
        self.searching: Callable[[], AbstractContextManager[object]] = nullcontext
        self.waiting: Callable[[], None] = lambda: None
        self.looked = SearchProgress()
        self.cursor.heed = self.heed
        self._last_find: tuple[str, Callable[[bool], bool | str]] | None = None
        missing = naming_of(step.recording).missing
        if step.note or missing:
            said = "; ".join(filter(None, (step.note, missing)))
            self.say(said if rename is None else rename(said))
        else:
            self.note_cached()

    @property
    def recording(self) -> Recording:
        return self.step.recording

    @property
    def panes(self) -> tuple[str, ...]:
        """The panes of the current view."""
        return PROGRAM_PANES if self.programs else self.moment_panes

    def say(self, text: str, role: str = "warning") -> None:
        """Show ``text`` until the next key."""
        self.message = (role, text)

    def before_key(self) -> None:
        """Clear the response to the last key."""
        self.message = ("", "")
        self.values.before_key()

    # --- moves
    # ------------------------------------------------------------------------------------------------------

    def move(self, moved: bool, otherwise: str) -> None:
        """After a move: scroll the panes to the current line. If the cursor did not move, say ``otherwise``."""
        if moved:
            self.scrolled.clear()
            self.values.moved()
            self.select_moment()
            self.note_cached()
        else:
            self.say(otherwise, "muted")

    def note_cached(self) -> None:
        """If a trace came from a cache, say that no Python ran."""
        node = self.cursor.moment.node
        if isinstance(node, BindRecord) and node.cached or isinstance(node, CacheRecord) and node.hit:
            again = "; R traces it again" if self.step.retrace is not None else ""
            self.say(f"this trace came from a cache: no Python ran{again}")

    @property
    def ended(self) -> str:
        """The message when the last moment is reached."""
        return f"{self.cursor.cut or 'this is the end'}; b goes back"

    def into(self) -> None:
        self.move(self.cursor.into(), self.ended)

    def over(self) -> None:
        past = past_repeated(self.cursor)
        self.move(self.cursor.go(past) if past else self.cursor.over(), self.ended)

    def out(self) -> None:
        self.move(self.cursor.out(), self.ended)

    def back(self) -> None:
        self.move(self.cursor.back(), "this is the beginning")

    def back_over(self) -> None:
        self.move(self.cursor.back_over(), "this is the beginning")

    def back_out(self) -> None:
        self.move(self.cursor.back_out(), "this is the beginning")

    def first(self) -> None:
        self.move(self.cursor.first(), "this is the beginning")

    def last(self) -> None:
        self.move(self.cursor.last(), self.ended)

    # --- finding
    # ----------------------------------------------------------------------------------------------------

    def find(self, said: str, finder: Callable[[bool], bool | str]) -> None:
        """Search with ``finder(backwards)``, which goes to the next place, and keep ``finder`` for ``again``.

        ``finder`` returns whether the cursor moved, or a text that says what could not be searched.
        """
        self._last_find = (said, finder)
        self.again()

    def offer(self, said: str, position: int) -> None:
        """Make the keys for the last search go to this moment."""

        def go(backwards: bool) -> bool:
            here = self.cursor.position
            return (position < here if backwards else position > here) and self.cursor.go(position)

        self._last_find = said, go

    def again(self, backwards: bool = False) -> None:
        """Repeat the last search."""
        if self._last_find is None:
            self.say("nothing has been searched for yet: / searches for words", "muted")
            return
        said, finder = self._last_find
        key = "the key . looks after it" if backwards else "the key , looks before it"
        self.looked = SearchProgress()
        try:
            with self.searching():
                moved = finder(backwards)
        except KeyboardInterrupt:
            self.say(f"stopped: {self.looked.text()}; the key . starts the search again")
            return
        except ConditionError as error:
            self.say(str(error), "error")
            return
        there = "before" if backwards else "after"
        if isinstance(moved, str):
            self.say(f"no {said} {there} this moment, as far as is known: {moved}")
        else:
            self.move(moved, f"no {said} {there} this moment; {key}")

    def heed(self, done: int, total: int) -> None:
        """Called during a search: update the progress; ``waiting`` raises KeyboardInterrupt to stop the search."""
        self.looked.report(done, total)
        self.waiting()

    def again_backwards(self) -> None:
        self.again(backwards=True)

    def search(self) -> None:
        self.ask("search", lambda words: self.find(repr(words), lambda back: self.cursor.search(words, back)))

    def to_primitive(self) -> None:
        def go(name: str) -> None:
            self.find(f"{name} operation", lambda back: self.cursor.to_bind(primitive=name, backwards=back))

        self.ask("next operation (its name, such as sin)", go)

    def to_level(self) -> None:
        def go(label: str) -> None:
            self.find(f"operation at {label}", lambda back: self.cursor.to_bind(level=label, backwards=back))

        self.ask("next operation at level (jvp or jvp:2)", go)

    def to_line(self) -> None:
        def go(line: str) -> None:
            self.find(f"operation of line {line}", lambda back: self.cursor.to_bind(place=line, backwards=back))

        self.ask("next operation of line (12 or file:12)", go)

    def to_shape(self) -> None:
        def go(shape: str) -> None:
            self.find(f"operation with {shape}", lambda back: self.cursor.to_bind(shape=shape, backwards=back))

        self.ask("next operation with type (f32[3] or [3])", go)

    def to_function(self) -> None:
        def go(name: str) -> None:
            self.find(f"function {name}", lambda back: stepping.to_function(self.cursor, name, back))

        self.ask("next work on function", go)

    def to_nonfinite(self) -> None:
        self.find("NaN or infinity", self.cursor.to_nonfinite)

    def to_error(self) -> None:
        self.find("error", self.cursor.to_error)

    # --- bookmarks
    # --------------------------------------------------------------------------------------------------

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

    # --- panes
    # ------------------------------------------------------------------------------------------------------

    def digit(self, number: int) -> None:
        """Focus the pane with this number. Keep the digits: if ``]`` follows, they are the number of an iteration."""
        self.values.typed_digit(number)
        if number:
            self.focus_on(number - 1)

    def focus_on(self, index: int) -> None:
        """Focus the pane with this number, from 0."""
        if index < len(self.panes):
            self.focus = self.panes[index]

    def click(self, pane: str, moment: str) -> None:
        """Focus a pane; in the tree, also go to the moment of the row."""
        if pane in self.panes and not self.help and self.values.viewer is None:
            self.focus = pane
            if moment:
                self.move(self.cursor.go(int(moment)), "this is the current moment")

    def wheel(self, pane: str, lines: int) -> None:
        """Focus and scroll the pane under the mouse."""
        if pane in self.panes and not self.help and self.values.viewer is None:
            self.focus = pane
        self.scroll(lines)

    def next_pane(self, step: int = 1) -> None:
        panes = self.panes
        self.focus = panes[(panes.index(self.focus) + step) % len(panes)]

    def previous_pane(self) -> None:
        self.next_pane(-1)

    def zoom(self) -> None:
        self.zoomed = not self.zoomed

    def larger(self) -> None:
        self.share = min(self.share + 1, MOST_SHARE)

    def smaller(self) -> None:
        self.share = max(self.share - 1, LEAST_SHARE)

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
        """Show the programs or the moment."""
        self.programs = shown
        self.focus = self.panes[0]
        self.scrolled.clear()
        self.select_moment()

    # --- the programs
    # ---------------------------------------------------------------------------------------------------

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

    def unfold(self) -> None:
        self.fold = min(self.fold + 1, DEEPEST_FOLD)
        self.say(f"the tree is unfolded {self.fold} levels deep", "muted")

    def fold_up(self) -> None:
        self.fold = max(self.fold - 1, 1)
        self.say(f"the tree is unfolded {self.fold} levels deep, and around the cursor", "muted")

    def take_key(self, action: Callable[[Stepper], None]) -> bool:
        """If the viewer of elements is open and uses this key, do the key's action there; return whether this is so."""
        move = VIEWER_MOVES.get(action) if self.values.viewer is not None else None
        if move is not None:
            move(self.values)
        return move is not None

    def scroll(self, lines: int = 0, columns: int = 0) -> None:
        """Scroll the focused pane or the help. In the pane of values, move the selection down by ``lines`` rows."""
        if self.help:
            self.help_top = max(self.help_top + lines, 0)
            return
        if self.values.viewer is not None:
            self.values.scroll(lines, columns)
            return
        if self.focus == "values" and lines and not self.programs:
            self.values.select(lines)
            return
        if self.programs and lines:
            self.select_line(lines)
            return
        down, right = self.scrolled.get(self.focus, (0, 0))
        self.scrolled[self.focus] = (down + lines, max(right + columns, 0))

    # --- the rest
    # ---------------------------------------------------------------------------------------------------

    def ask(self, label: str, answer: Callable[[str], None], single: bool = False, text: str = "") -> None:
        """Ask a question on the last line."""
        self.question = Question(label, answer, single, text)

    def answer(self, text: str) -> None:
        """Answer the question; an empty text cancels it."""
        question, self.question = self.question, None
        if question is not None and text.strip():
            question.answer(text if question.single else text.strip())

    def cancel(self) -> None:
        """Cancel the question."""
        self.question = None

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

    def toggle_help(self) -> None:
        self.help = not self.help
        self.help_top = 0

    def leave(self) -> None:
        """Close the innermost of question, help, viewer of elements, and stepper."""
        if self.question is not None:
            self.cancel()
        elif self.help:
            self.help = False
        elif self.values.viewer is not None:
            self.values.viewer = None
        else:
            self.result = "leave"


# key's action -> its action while the viewer of elements is open
VIEWER_MOVES: dict[Callable[[Stepper], None], Callable[[Looking], None]] = {
    Stepper.into: lambda values: values.scroll(0, 1),
    Stepper.back: lambda values: values.scroll(0, -1),
    Stepper.over: lambda values: values.scroll(1),
    Stepper.back_over: lambda values: values.scroll(-1),
    Stepper.first: lambda values: values.scroll(-(10**9), -(10**9)),
    Stepper.last: lambda values: values.scroll(10**9),
    Stepper.next_pane: lambda values: values.next_column(),
    Stepper.previous_pane: lambda values: values.next_column(-1),
}
