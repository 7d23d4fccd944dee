"""A full-screen program in a terminal: a prompt_toolkit application that draws the lines of a ``compose`` function.

The application uses the terminal's alternate screen, so earlier output is visible again after any kind of exit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prompt_toolkit import Application
from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, ConditionalContainer, HSplit, Layout, UIContent, UIControl, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.mouse_events import MouseEvent, MouseEventType
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import BaseStyle, Style, merge_styles

from minijax.core.records import NamedTuple
from minijax.repl.drawing import target_at
from minijax.repl.screen_model import Model
from minijax.repl.style import styled
from minijax.tools.documents.document import Line

# The style of the current line's bar if there are no colours.
STYLE = Style.from_dict({"mj-stepper-bar": "reverse bold"})
# Seconds to wait after Esc: the terminal may be sending a longer key sequence.
_ESCAPE_WAIT = 0.05
# Lines to scroll per step of the mouse wheel.
_WHEEL = {MouseEventType.SCROLL_UP: -3, MouseEventType.SCROLL_DOWN: 3}


class Console(NamedTuple):
    """A terminal: the style of the roles, the number of colours, prompt_toolkit's objects. None: as it finds them."""

    style: BaseStyle
    depth: ColorDepth | None = None
    input: Input | None = None
    output: Output | None = None


class _Screen(UIControl):
    """The whole screen, except the line where a question is asked."""

    def __init__(self, full: FullScreen) -> None:
        self.full = full
        self.shown: list[Line] = []

    def create_content(self, width: int, height: int) -> UIContent:
        self.shown = self.full.compose(self.full.model, width, height)
        lines = [styled(part for part in each if part[1]) for each in self.shown] or [[]]
        return UIContent(lines.__getitem__, len(lines), show_cursor=False)

    def is_focusable(self) -> bool:
        return True

    def mouse_handler(self, mouse_event: MouseEvent) -> object:
        """A click focuses a pane or selects the row under it; the wheel scrolls the pane under it, or the help."""
        model = self.full.model
        if model.question is not None:
            return NotImplemented
        pane, row = target_at(self.shown, mouse_event.position.x, mouse_event.position.y)
        lines = _WHEEL.get(mouse_event.event_type, 0)
        if lines or mouse_event.event_type == MouseEventType.MOUSE_UP:
            self.full.do(lambda: model.mouse(pane, row, lines))
        return None


class FullScreen:
    """A model on a terminal. ``compose`` draws the model for a number of columns and rows."""

    def __init__(self, model: Model, compose: Callable[[Any, int, int], list[Line]], console: Console) -> None:
        self.model = model
        self.compose = compose
        self.buffer = Buffer(multiline=False, accept_handler=self._answered, on_text_changed=self._typed)
        self.screen = Window(_Screen(self), always_hide_cursor=True)
        label = BeforeInput(lambda: [("class:mj-heading", f" {self._label()}: ")])
        self.line = Window(BufferControl(self.buffer, [label]), height=1)
        self.asking = Condition(lambda: model.question is not None)
        self.application: Application[None] = Application(
            Layout(HSplit([self.screen, ConditionalContainer(self.line, self.asking)]), self.screen),
            style=merge_styles([console.style, STYLE]),
            key_bindings=self._bindings(),
            full_screen=True,
            mouse_support=True,
            color_depth=console.depth,
            include_default_pygments_style=False,
            input=console.input,
            output=console.output,
        )
        self.application.ttimeoutlen = self.application.timeoutlen = _ESCAPE_WAIT

    def run(self) -> str:
        """Run until the user leaves or the model ends the run; return the reason, ``model.result``."""
        self.application.run()
        return self.model.result or "leave"

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        def add(name: str) -> None:
            @keys.add(name, filter=~self.asking, eager=True)
            def pressed(event: KeyPressEvent) -> None:
                self.do(lambda: self.model.press(name))

        for name in self.model.actions():
            add(name)

        @keys.add("escape", filter=self.asking, eager=True)
        @keys.add("c-c", filter=self.asking, eager=True)
        def cancel(event: KeyPressEvent) -> None:
            self.do(lambda: self.model.answer(""))

        @keys.add(Keys.Any, filter=~self.asking)
        def unknown(event: KeyPressEvent) -> None:
            pressed = event.key_sequence[0].key
            self.model.say(f"{getattr(pressed, 'value', pressed)} does nothing here; ? lists the keys", "muted")

        @keys.add(Keys.SIGINT)
        def interrupt(event: KeyPressEvent) -> None:
            self.model.result = "leave"
            event.app.exit()

        @keys.add("c-z", eager=True)
        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        @keys.add("c-l", eager=True)
        def redraw(event: KeyPressEvent) -> None:
            event.app.renderer.clear()

        return keys

    def do(self, action: Callable[[], object]) -> None:
        """Do an action, then show the question that it asked, or exit."""
        model, was_asked = self.model, self.model.question
        action()
        if model.question is not None and model.question is not was_asked:
            self.buffer.text = model.question.text
            self.buffer.cursor_position = len(self.buffer.text)
            get_app().layout.focus(self.line)
        elif model.question is None:
            get_app().layout.focus(self.screen)
        if model.result:
            self.application.exit()

    def _label(self) -> str:
        question = self.model.question
        return "" if question is None else question.fitting(self.application.output.get_size().columns)

    def _answered(self, buffer: Buffer) -> bool:
        text = buffer.text
        self.do(lambda: self.model.answer(text))
        return False

    def _typed(self, buffer: Buffer) -> None:
        question = self.model.question
        if question is not None and question.single and buffer.text:
            text = buffer.text[-1]
            buffer.reset()
            self.do(lambda: self.model.answer(text))
