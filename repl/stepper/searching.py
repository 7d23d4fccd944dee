"""The moves and searches of a stepper: what it and its parts, the values and the walks, do with the cursor."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from minijax.repl.screen_model import Model
from minijax.tools.recording.cursor import Cursor, SearchProgress
from minijax.tools.recording.records import Recording
from minijax.tools.session.result import Step
from minijax.tools.values.conditions import ConditionError

# Goes to the next or, given True, the previous place. Returns whether the cursor moved, or why it cannot be known.
Finder = Callable[[bool], bool | str]


class Searching(Model):
    """A full screen with a cursor in a recording."""

    def __init__(self, step: Step, rename: Callable[[str], str] | None = None) -> None:
        super().__init__("tree", rename)
        self.step = step
        self.cursor = Cursor(step.recording, step.position)
        self.cursor.heed = self.heed
        # for interrupting searches in a terminal: a context around each search, and a function called during it
        self.searching: Callable[[], AbstractContextManager[object]] = nullcontext
        self.waiting: Callable[[], None] = lambda: None
        self.looked = SearchProgress()
        self._last_find: tuple[str, Finder] | None = None

    @property
    def recording(self) -> Recording:
        return self.step.recording

    def move(self, moved: bool, otherwise: str) -> None:
        """After a move: show the current lines. If the cursor did not move, say ``otherwise``."""
        if moved:
            self.moved()
        else:
            self.say(otherwise, "muted")

    def moved(self) -> None:
        """Called when the cursor has moved."""

    def find(self, said: str, finder: Finder) -> None:
        """Search, and keep ``finder`` for ``again``."""
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
