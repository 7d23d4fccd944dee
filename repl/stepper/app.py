"""The stepper in a terminal: searches that Ctrl-C stops, and what runs on the plain terminal between two screens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from minijax.repl.browser.screen import browse
from minijax.repl.fullscreen import Console, FullScreen
from minijax.repl.stepper.model import Stepper
from minijax.repl.stepper.screen import compose
from minijax.repl.terminal import interruptible_screen
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import Recording
from minijax.tools.session.result import Browse, Step
from minijax.tools.session.session import Session
from minijax.tools.stepper import panes
from minijax.tools.xla import moments

# During a search: seconds between two looks at the keyboard, and seconds after which progress is shown.
_ASK_EVERY = 0.1
_TOLD_AFTER = 0.5


class StepperApp(FullScreen):
    """A stepper on a terminal. ``run`` returns 'leave', or an action for the plain terminal."""

    def __init__(self, stepper: Stepper, console: Console) -> None:
        super().__init__(stepper, compose, console)
        self.stepper = stepper
        stepper.searching, stepper.waiting = self._searching, self._waiting
        # the start of the search, the last read of the keyboard, and the keys typed meanwhile
        self._began = self._asked = 0.0
        self._ahead: list[KeyPress] = []

    @contextmanager
    def _searching(self) -> Iterator[None]:
        """A context for a search: Ctrl-C and Esc end it, and other keys wait until it ends."""
        self._began = self._asked = time.monotonic()
        try:
            with interruptible_screen():
                yield
        finally:
            self.application.key_processor.feed_multiple(self._ahead)
            self._ahead = []

    def _waiting(self) -> None:
        """Called during a search: read the keyboard at intervals, and show progress. Esc raises KeyboardInterrupt."""
        now = time.monotonic()
        if now - self._asked < _ASK_EVERY:
            return
        self._asked = now
        keyboard = self.application.input
        for press in keyboard.read_keys() or keyboard.flush_keys():
            if press.key in (Keys.ControlC, Keys.Escape):
                raise KeyboardInterrupt
            self._ahead.append(press)
        if now - self._began > _TOLD_AFTER:
            self.stepper.say(f"searching: {self.stepper.looked.text()}; Esc or Ctrl-C stops it", "muted")
            self.application.renderer.render(self.application, self.application.layout)


def opened(
    session: Session, step: Step | Browse, console: Console, rename: Callable[[str], str] | None = None
) -> tuple[Recording | None, BaseException | None]:
    """Open a full screen on ``step`` until the user leaves. Return the stepper's last recording, and its call's error.

    ``rename`` applies the front end's names for places to a text.
    """
    if isinstance(step, Browse):
        browse(step, console, rename)
        return None, None
    recording, error = run(step, console, rename)
    if recording is not step.recording:
        session.restore()
        session.remember(recording)
    return recording, error


def run(
    step: Step, console: Console, rename: Callable[[str], str] | None = None
) -> tuple[Recording, BaseException | None]:
    """Step through ``step``. Return the last recording, and the exception that ended it if the stepper made it."""
    error = None
    stepper = Stepper(step, rename)
    while True:
        wanted = StepperApp(stepper, console).run()
        stepper.result = ""
        # User code runs on the plain terminal, where it can print and be interrupted.
        try:
            if wanted == "retrace" and step.retrace is not None:
                recording, error = step.retrace()
                earlier, stepper = stepper, Stepper(step.replace(recording=recording, position=0, note=""), rename)
                stepper.values.watches = earlier.values.watches
                lost = stepper.cursor.take_marks(earlier.cursor)
                if error is not None:
                    panes.to_failure(stepper.cursor)
                gone = f"; no such moment for bookmark {' '.join(lost)}" if lost else ""
                stepper.say(f"recorded again, without cached traces{gone}", "good")
            elif wanted == "programs" and step.programs is not None:
                stepper.linked = step.programs()
                stepper.show_programs(True)
            elif wanted == "stages":
                browse(_stages(stepper), console, rename)
            else:
                return stepper.recording, error
        except KeyboardInterrupt:
            stepper.say("interrupted; this is the recording as it was")
        except Exception as problem:
            stepper.say(f"no {wanted}: {type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}")


def _stages(stepper: Stepper) -> Browse:
    """The stages of the compiled call at the moment, or of the whole call, with the moment's line chosen."""
    run_there = moments.compiled_call(stepper.cursor)
    if run_there is not None:
        found = moments.call_stages(run_there, naming_of(stepper.recording))
        title, note = f"jit({run_there.params['name']})", ""
    else:
        assert stepper.step.stages is not None
        found, title = stepper.step.stages(), stepper.recording.source
        note = "no compiled program is called at this moment: this is the whole call, as jit would compile it"
    return Browse(found, title, note, moments.spot_at(stepper.cursor, found))
