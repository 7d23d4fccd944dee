"""The stepper in a terminal: a full-screen prompt_toolkit application around ``screen.compose``.

The application draws on the terminal's alternate screen, so that what was printed before is there again when it ends,
however it ends. ``run`` is what the prompt calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prompt_toolkit import Application
from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, ConditionalContainer, HSplit, Layout, UIContent, UIControl, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.mouse_events import MouseEvent, MouseEventType
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import BaseStyle, Style, merge_styles

from minijax.repl.stepper.keys import KEYS
from minijax.repl.stepper.model import Stepper
from minijax.repl.stepper.screen import compose, target_at
from minijax.repl.terminal import interruptible_screen
from minijax.tools.documents.document import Line
from minijax.tools.recording.records import Recording
from minijax.tools.session.result import Step
from minijax.tools.stepper import panes

# Without colours the bar still differs from everything else.
STYLE = Style.from_dict({"mj-stepper-bar": "reverse bold"})
# After Esc the terminal may be sending a longer key: so long is waited for the rest, in seconds.
_ESCAPE_WAIT = 0.05
# During a search the keyboard is asked every so many seconds, and after so many the screen says how far it has come.
_ASK_EVERY = 0.1
_TOLD_AFTER = 0.5


# How many lines a turn of the wheel scrolls.
_WHEEL = {MouseEventType.SCROLL_UP: -3, MouseEventType.SCROLL_DOWN: 3}


class _Screen(UIControl):
    """Everything but the line that asks."""

    def __init__(self, stepper: Stepper, press: Callable[[Callable[[Stepper], None]], None]) -> None:
        self.stepper = stepper
        self.press = press
        self.shown: list[Line] = []

    def create_content(self, width: int, height: int) -> UIContent:
        self.shown = compose(self.stepper, width, height)
        lines = [styled(each) for each in self.shown]
        return UIContent(lambda i: lines[i] if i < len(lines) else [], max(len(lines), 1), show_cursor=False)

    def is_focusable(self) -> bool:
        return True

    def mouse_handler(self, mouse_event: MouseEvent) -> object:
        """A click gives a pane the focus, or goes to a row of the tree; the wheel scrolls what is below it."""
        if self.stepper.question is not None:
            return NotImplemented
        place = mouse_event.position
        pane, moment = target_at(self.shown, place.x, place.y)
        lines = _WHEEL.get(mouse_event.event_type)
        if lines is not None:
            self.press(lambda stepper: stepper.wheel(pane, lines))
        elif mouse_event.event_type == MouseEventType.MOUSE_UP:
            self.press(lambda stepper: stepper.click(pane, moment))
        return None


def styled(each: Line) -> StyleAndTextTuples:
    """A line of the screen as prompt_toolkit draws it; its text has no control characters any more."""
    return [(f"class:mj-{role}" if role else "", piece) for role, piece in each if piece]


class StepperApp:
    """One stepper on one terminal.

    Args:
      stepper: what is stepped through.
      style: of the roles.
      depth: how many colours there are; None for what the terminal says.
      input, output: prompt_toolkit's; the terminal if None.
    """

    def __init__(
        self,
        stepper: Stepper,
        style: BaseStyle,
        depth: ColorDepth | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.stepper = stepper
        self.buffer = Buffer(multiline=False, accept_handler=self._answered, on_text_changed=self._typed)
        self.screen = Window(_Screen(stepper, self._press), always_hide_cursor=True)
        label = BeforeInput(lambda: [("class:mj-heading", f" {self._label()}: ")])
        self.line = Window(BufferControl(self.buffer, [label]), height=1)
        layout = Layout(HSplit([self.screen, ConditionalContainer(self.line, self._asking())]), self.screen)
        self.application: Application[None] = Application(
            layout,
            style=merge_styles([style, STYLE]),
            key_bindings=self._bindings(),
            full_screen=True,
            mouse_support=True,
            color_depth=depth,
            include_default_pygments_style=False,
            input=input,
            output=output,
        )
        stepper.searching, stepper.waiting = self._searching, self._waiting
        # when a search began and when the keyboard was asked last, and what was typed meanwhile
        self._began = self._asked = 0.0
        self._ahead: list[KeyPress] = []
        self.application.ttimeoutlen = _ESCAPE_WAIT
        self.application.timeoutlen = _ESCAPE_WAIT

    def run(self) -> str:
        """Until the user leaves ('leave'), or something is to be done without the screen ('retrace', 'programs')."""
        self.application.run()
        return self.stepper.result or "leave"

    # --- keys
    # ----------------------------------------------------------------------------------------------------

    def _asking(self) -> Condition:
        return Condition(lambda: self.stepper.question is not None)

    def _bindings(self) -> KeyBindings:
        asking = self._asking()
        keys = KeyBindings()

        def add(name: str, action: Callable[[Stepper], None]) -> None:
            @keys.add(name, filter=~asking, eager=True)
            def pressed(event: KeyPressEvent) -> None:
                self._press(action)

        for _, group in KEYS:
            for key in group:
                for name in key.keys:
                    add(name, key.action)

        @keys.add("escape", filter=asking, eager=True)
        @keys.add("c-c", filter=asking, eager=True)
        def cancel(event: KeyPressEvent) -> None:
            self._press(Stepper.leave)

        @keys.add(Keys.Any, filter=~asking)
        def unknown(event: KeyPressEvent) -> None:
            pressed = event.key_sequence[0].key
            self.stepper.say(f"{getattr(pressed, 'value', pressed)} does nothing here; ? lists the keys", "muted")

        @keys.add(Keys.SIGINT)
        def interrupt(event: KeyPressEvent) -> None:
            self.stepper.result = "leave"
            event.app.exit()

        @keys.add("c-z", eager=True)
        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        @keys.add("c-l", eager=True)
        def redraw(event: KeyPressEvent) -> None:
            event.app.renderer.clear()

        return keys

    def _press(self, action: Callable[[Stepper], None]) -> None:
        """Do what a key stands for, and go to what it asks or ends."""
        stepper = self.stepper
        stepper.before_key()
        was_asked = stepper.question
        if stepper.help and action not in (Stepper.leave, Stepper.toggle_help) and not _scrolls(action, stepper):
            stepper.help = False
        elif stepper.help or not stepper.take_key(action):
            action(stepper)
        if stepper.question is not None and stepper.question is not was_asked:
            self.buffer.text = stepper.question.text
            self.buffer.cursor_position = len(self.buffer.text)
            get_app().layout.focus(self.line)
        elif stepper.question is None:
            get_app().layout.focus(self.screen)
        if stepper.result:
            self.application.exit()

    # --- a search that takes long
    # ---------------------------------------------------------------------------------------

    @contextmanager
    def _searching(self) -> Iterator[None]:
        """A search: Ctrl-C and Esc end it, and other keys wait for its end."""
        self._began = self._asked = time.monotonic()
        try:
            with interruptible_screen():
                yield
        finally:
            self.application.key_processor.feed_multiple(self._ahead)
            self._ahead = []

    def _waiting(self) -> None:
        """Ask the keyboard now and then: KeyboardInterrupt if the search is to end. Of a long one the screen tells."""
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

    def _label(self) -> str:
        question = self.stepper.question
        return "" if question is None else question.fitting(self.application.output.get_size().columns)

    def _answered(self, buffer: Buffer) -> bool:
        text = buffer.text
        self._press(lambda stepper: stepper.answer(text))
        return False

    def _typed(self, buffer: Buffer) -> None:
        """One character answers a question for one."""
        question = self.stepper.question
        if question is not None and question.single and buffer.text:
            text = buffer.text[-1]
            buffer.reset()
            self._press(lambda stepper: stepper.answer(text))


def _scrolls(action: Callable[[Stepper], None], stepper: Stepper) -> bool:
    """Whether a key scrolls, which it does in the help too."""
    return any(key.action is action and key.keys[0] in ("j", "k", "pagedown", "pageup") for _, g in KEYS for key in g)


def run(
    step: Step,
    style: BaseStyle,
    depth: ColorDepth | None = None,
    input: Input | None = None,
    output: Output | None = None,
    rename: Callable[[str], str] | None = None,
) -> tuple[Recording, BaseException | None]:
    """Step through ``step`` until the user leaves; ``rename`` gives a text with the front end's names for places.

    What the user was stepping through at the end, and the exception that ended that recording if it was made meanwhile.
    """
    error = None
    stepper = Stepper(step, rename)
    while True:
        wanted = StepperApp(stepper, style, depth, input, output).run()
        stepper.result = ""
        # What runs the user's code runs in the terminal as it was before: there it can print and be interrupted.
        try:
            if wanted == "retrace" and step.retrace is not None:
                recording, error = step.retrace()
                earlier, stepper = stepper, Stepper(Step(recording, 0, step.retrace, step.programs), rename)
                stepper.values.watches = earlier.values.watches
                lost = stepper.cursor.take_marks(earlier.cursor)
                if error is not None:
                    panes.to_failure(stepper.cursor)
                gone = f"; no such moment for bookmark {' '.join(lost)}" if lost else ""
                stepper.say(f"recorded again, every trace made anew{gone}", "good")
            elif wanted == "programs" and step.programs is not None:
                stepper.linked = step.programs()
                stepper.show_programs(True)
            else:
                return stepper.recording, error
        except KeyboardInterrupt:
            stepper.say("interrupted; this is the recording as it was")
        except Exception as problem:
            stepper.say(f"no programs: {type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}")
