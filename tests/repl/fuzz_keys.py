"""Keys for ``fuzz`` to press in the stepper and the browser of stages: one after the other, the screen drawn and looked
at after each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any
from unittest import mock

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.ansi_escape_sequences import REVERSE_ANSI_SEQUENCES
from prompt_toolkit.keys import Keys

from minijax.repl.browser import app as browser_app
from minijax.repl.browser.keys import KEYS as BROWSER_KEYS
from minijax.repl.drawing import width_of
from minijax.repl.fullscreen import FullScreen
from minijax.repl.stepper import app as stepper_app
from minijax.repl.stepper.keys import KEYS
from minijax.tools.documents.document import Line
from tests.repl.fuzz_programs import CONDITIONS, EXPRESSIONS, NUMBERS, PROGRAMS, Looks
from tests.repl.fuzz_watch import INTERNAL, Watch

if TYPE_CHECKING:
    from prompt_toolkit.input.base import PipeInput

    from tests.repl.fuzz import Fuzzed

SIZES = ((80, 24), (120, 40), (200, 60), (40, 10), (20, 5), (1, 1), (9, 30), (300, 12), (100, 40))
# What ends a stepper is pressed at the end, and Ctrl-Z would stop this process.
ENDING = ("q", "escape", "c-c", "c-d")
UNKNOWN = (
    "X", "é", "日", "🙂", "%", "\t", "\x01", "\x00", "\x1b[15~", "\x1b[200~pasted\ntext\x1b[201~", "y", "~", "\x0c",
)  # fmt: skip
# What is asked for by these keys, and what may be answered; the others ask for words.
WORDS = (
    "sin", "mul", "f", "jvp", "jvp:1", "f32[3]", "[]", "3", "2:1", "nothing", "é日🙂", "x" * 200, "(", "\\", "*", " ",
)  # fmt: skip
# The keys that look at values and at origins come more often than a table's one in sixty.
LOOKING = ("\r", "\r", "\x7f", "t", "c", "v", "=", "W", "]", "[", "}", "{", "J", "4", "5", "6", "s", "n", "j", "k", "l")


def pressed(name: str) -> str:
    """What a terminal sends for a key of the table."""
    named = {"space": " ", "enter": "\r", "tab": "\t", "backspace": "\x7f"}
    if name in named:
        return named[name]
    known = {key.value: key for key in Keys}
    return REVERSE_ANSI_SEQUENCES[known[name]] if name in known else name


GROUPS = (*KEYS, *BROWSER_KEYS)
ALL_KEYS = tuple(
    {pressed(name): None for _, group in GROUPS for key in group for name in key.keys if name not in ENDING}
)


def answer(chance: random.Random, looks: Looks) -> str:
    """Something to answer a question with."""
    program = chance.choice(PROGRAMS)
    kind = chance.random()
    if kind < 0.3:
        return looks.filled(CONDITIONS, program)
    if kind < 0.6:
        return looks.filled(EXPRESSIONS, program)
    if kind < 0.8:
        return looks.name(program)
    return chance.choice((*WORDS, *NUMBERS))


def plan(chance: random.Random, looks: Looks) -> Iterator[str | tuple[int, int]]:
    """Keys one after the other, and sizes to which the window is drawn in between."""
    for _ in range(chance.choice((0, 1, 5, 15, 40))):
        kind = chance.random()
        if kind < 0.06:
            yield chance.choice(SIZES)
        elif kind < 0.12:
            yield chance.choice(UNKNOWN)
        elif kind < 0.5:
            yield chance.choice(ALL_KEYS)
        elif kind < 0.55:
            yield str(chance.randint(0, 300)) + chance.choice("]n")
        else:
            yield chance.choice(LOOKING)


class Presser:
    """Presses keys in every stepper and browser that is opened while this lasts, and looks at each screen."""

    def __init__(self, chance: random.Random, watch: Watch, keyboard: PipeInput, app: Fuzzed) -> None:
        self.random = chance
        self.watch = watch
        self.keyboard = keyboard
        self.app = app
        self.looks = Looks(chance)
        self.keys = plan(chance, self.looks)
        self.pressed: list[str | tuple[int, int]] = []
        self.patches = (
            mock.patch.object(stepper_app, "compose", self.looked_at(stepper_app.compose)),
            mock.patch.object(browser_app, "compose", self.looked_at(browser_app.compose)),
            mock.patch.object(FullScreen, "run", self.run_with(FullScreen.run)),
        )

    def __enter__(self) -> Presser:
        self.size = self.app.size
        for each in self.patches:
            each.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for each in self.patches:
            each.stop()
        self.app.size = self.size

    def violation(self, what: str) -> None:
        self.watch.violation(f"in the stepper after {self.pressed[-12:]}: {what}")

    def run_with(self, run: Any) -> Any:
        def pressing(stepping: FullScreen) -> str:
            stepping.application.after_render += lambda _: self.press(stepping)
            return str(run(stepping))

        return pressing

    def press(self, stepping: FullScreen) -> None:
        """The next key, now that the last one's screen is drawn."""
        self.watch.look_at_time(f"{self.watch.line[:100]} {self.pressed[-1:]}")
        stepper: Any = stepping.model
        if stepper.message[1].startswith(tuple(f"no programs: {name}" for name in INTERNAL)):
            self.violation(stepper.message[1])
        if stepper.question is not None and self.random.random() < 0.9:
            typed: str | tuple[int, int] = answer(self.random, self.looks) + "\r"
            if stepper.question.single:
                typed = self.random.choice("1234567890abé日")
        else:
            typed = next(self.keys, "\x03")
        self.pressed.append(typed)
        self.watch.report.keys += 1
        if isinstance(typed, tuple):
            self.app.size = Size(rows=typed[1], columns=typed[0])
            stepping.application._on_resize()
        else:
            self.keyboard.send_text(typed.encode("utf-8", "replace").decode())

    def looked_at(self, compose: Callable[[Any, int, int], list[Line]]) -> Callable[[Any, int, int], list[Line]]:
        """``compose``, whose screens are looked at."""

        def composed(model: Any, columns: int, rows: int) -> list[Line]:
            lines = compose(model, columns, rows)
            self.look(lines, columns, rows)
            return lines

        return composed

    def look(self, lines: list[Line], columns: int, rows: int) -> None:
        """The screen must fit."""
        if len(lines) != max(rows, 1):
            self.violation(f"{len(lines)} lines on a screen of {columns}x{rows}")
        for each in lines:
            if width_of(each) > max(columns, 1):
                self.violation(f"{width_of(each)} columns on a screen of {columns}x{rows}: {each!r}"[:300])
            if any(ord(c) < 32 or 127 <= ord(c) < 160 for _, piece in each for c in piece):
                self.violation(f"a control character on the screen: {each!r}"[:300])
