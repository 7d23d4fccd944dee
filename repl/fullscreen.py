"""A full-screen program in a terminal: a prompt_toolkit application that draws the lines of a ``compose`` function.

The application uses the terminal's alternate screen, so earlier output is visible again after any kind of exit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from prompt_toolkit import Application
from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, ConditionalContainer, HSplit, Layout, UIContent, UIControl, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.mouse_events import MouseEvent, MouseEventType
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import BaseStyle, Style, merge_styles

from minijax.repl.drawing import target_at
from minijax.repl.keyed import Key, Question
from minijax.tools.documents.document import Line

# The style of the current line's bar if there are no colours.
STYLE = Style.from_dict({"mj-stepper-bar": "reverse bold"})
# Seconds to wait after Esc: the terminal may be sending a longer key sequence.
_ESCAPE_WAIT = 0.05
# Lines to scroll per step of the mouse wheel.
_WHEEL = {MouseEventType.SCROLL_UP: -3, MouseEventType.SCROLL_DOWN: 3}


class Keyed(Protocol):
    """The model of a full screen; its keys call its methods.

    Attributes:
      question: the open question; None if there is none.
      help: whether the help is shown.
      result: the reason why the full screen ended; '' while it runs.
    """

    question: Question | None
    help: bool
    result: str

    def say(self, text: str, role: str = "warning") -> None: ...

    def before_key(self) -> None: ...

    def take_key(self, action: Callable[[Any], None]) -> bool: ...

    def answer(self, text: str) -> None: ...

    def leave(self) -> None: ...

    def toggle_help(self) -> None: ...

    def click(self, pane: str, row: str) -> None: ...

    def wheel(self, pane: str, lines: int) -> None: ...


class _Screen(UIControl):
    """The whole screen, except the line where a question is asked."""

    def __init__(
        self,
        model: Keyed,
        compose: Callable[[int, int], list[Line]],
        press: Callable[[Callable[[Any], None]], None],
    ) -> None:
        self.model = model
        self.compose = compose
        self.press = press
        self.shown: list[Line] = []

    def create_content(self, width: int, height: int) -> UIContent:
        self.shown = self.compose(width, height)
        lines = [styled(each) for each in self.shown] or [[]]
        return UIContent(lines.__getitem__, len(lines), show_cursor=False)

    def is_focusable(self) -> bool:
        return True

    def mouse_handler(self, mouse_event: MouseEvent) -> object:
        """A click focuses a pane or selects the row under it; the wheel scrolls the pane under it."""
        if self.model.question is not None:
            return NotImplemented
        place = mouse_event.position
        pane, row = target_at(self.shown, place.x, place.y)
        lines = _WHEEL.get(mouse_event.event_type)
        if lines is not None:
            self.press(lambda model: model.wheel(pane, lines))
        elif mouse_event.event_type == MouseEventType.MOUSE_UP:
            self.press(lambda model: model.click(pane, row))
        return None


def styled(each: Line) -> StyleAndTextTuples:
    """A line of the screen in prompt_toolkit's form; its text has no control characters."""
    return [(f"class:mj-{role}" if role else "", piece) for role, piece in each if piece]


class FullScreen:
    """A model on a terminal.

    Args:
      model: the state to show.
      compose: draws the model for a number of columns and rows.
      keys: the keys, under headings.
      style: the style of the roles.
      depth: the number of colours; None to ask the terminal.
      input, output: prompt_toolkit's objects; None for the terminal.
    """

    def __init__(
        self,
        model: Keyed,
        compose: Callable[[int, int], list[Line]],
        keys: Sequence[tuple[str, tuple[Key, ...]]],
        style: BaseStyle,
        depth: ColorDepth | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.model = model
        self.keys = keys
        self.buffer = Buffer(multiline=False, accept_handler=self._answered, on_text_changed=self._typed)
        self.screen = Window(_Screen(model, compose, self._press), always_hide_cursor=True)
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
        self.application.ttimeoutlen = _ESCAPE_WAIT
        self.application.timeoutlen = _ESCAPE_WAIT

    def run(self) -> str:
        """Run until the user leaves or the model ends the run; return the reason, ``model.result``."""
        self.application.run()
        return self.model.result or "leave"

    # --- keys
    # ----------------------------------------------------------------------------------------------------

    def _asking(self) -> Condition:
        return Condition(lambda: self.model.question is not None)

    def _bindings(self) -> KeyBindings:
        asking = self._asking()
        keys = KeyBindings()

        def add(name: str, action: Callable[[Any], None]) -> None:
            @keys.add(name, filter=~asking, eager=True)
            def pressed(event: KeyPressEvent) -> None:
                self._press(action)

        for _, group in self.keys:
            for key in group:
                for name in key.keys:
                    add(name, key.action)

        @keys.add("escape", filter=asking, eager=True)
        @keys.add("c-c", filter=asking, eager=True)
        def cancel(event: KeyPressEvent) -> None:
            self._press(type(self.model).leave)

        @keys.add(Keys.Any, filter=~asking)
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

    def _press(self, action: Callable[[Any], None]) -> None:
        """Do a key's action, then show the question that it asked, or exit."""
        model = self.model
        model.before_key()
        was_asked = model.question
        own = (type(model).leave, type(model).toggle_help)
        if model.help and action not in own and not self._scrolls(action):
            model.help = False
        elif model.help or not model.take_key(action):
            action(model)
        if model.question is not None and model.question is not was_asked:
            self.buffer.text = model.question.text
            self.buffer.cursor_position = len(self.buffer.text)
            get_app().layout.focus(self.line)
        elif model.question is None:
            get_app().layout.focus(self.screen)
        if model.result:
            self.application.exit()

    def _scrolls(self, action: Callable[[Any], None]) -> bool:
        """Whether a key scrolls; such keys also work in the help."""
        scrolling = ("j", "k", "pagedown", "pageup")
        return any(key.action is action and {*key.keys} & {*scrolling} for _, group in self.keys for key in group)

    def _label(self) -> str:
        question = self.model.question
        return "" if question is None else question.fitting(self.application.output.get_size().columns)

    def _answered(self, buffer: Buffer) -> bool:
        text = buffer.text
        self._press(lambda model: model.answer(text))
        return False

    def _typed(self, buffer: Buffer) -> None:
        """Answer a question that takes one character."""
        question = self.model.question
        if question is not None and question.single and buffer.text:
            text = buffer.text[-1]
            buffer.reset()
            self._press(lambda model: model.answer(text))
