"""``python -m tests.repl.fuzz --lines 10000``: generated lines, typed at the prompt and run as cells of IPython.

At the prompt each line goes through prompt_toolkit's pipe as a paste and Enter, so that validation, the loop and
printing are the real ones. What the validator refuses is also given to the session directly. A stepper that a line
opens gets keys one by one and is drawn after each; lines are interrupted at any moment, and the window changes its
size. One line of five goes to IPython. ``fuzz_watch`` checks the session after each line, and at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from unittest import mock

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.ansi_escape_sequences import REVERSE_ANSI_SEQUENCES
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.keys import Keys
from traitlets.config import Config

from minijax import errors
from minijax.ipython_ext.magics import magic_name
from minijax.repl import batch
from minijax.repl.app import App
from minijax.repl.browser import app as browser_app
from minijax.repl.browser.keys import KEYS as BROWSER_KEYS
from minijax.repl.drawing import width_of
from minijax.repl.fullscreen import FullScreen
from minijax.repl.stepper import app as stepper_app
from minijax.repl.stepper.keys import KEYS
from minijax.tools.commands.table import COMMANDS
from minijax.tools.documents.document import Document, Line
from minijax.tools.session import source
from minijax.tools.session.namespace import initial_names
from minijax.tools.session.result import Step
from minijax.tools.session.session import Outcome, Session
from tests.repl.fuzz_lines import SETUP, Lines
from tests.repl.fuzz_watch import INTERNAL, Report, Watch, nothing_is_left
from tests.repl.screen import RecordingOutput
from tests.repl.stops import files_of_the_caller

# A line that takes longer by the clock is interrupted, as by Ctrl-C, and a violation.
SECONDS = 180
# The share of lines that are interrupted somewhere, and of those typed to IPython.
INTERRUPTED, IPYTHON = 0.02, 0.2
# The number of lines of a session; the next session has the next seed. IPython's seeds are far from these.
SESSION, OTHER_LINES = 1000, 1_000_000
SIZES = ((80, 24), (120, 40), (200, 60), (40, 10), (20, 5), (1, 1), (9, 30), (300, 12), (100, 40))
# Keys that end a stepper are pressed at the end; Ctrl-Z would stop this process.
ENDING = ("q", "escape", "c-c", "c-d")
UNKNOWN = ("X", "é", "日", "🙂", "%", "\x01", "\x00", "\x1b[15~", "\x1b[200~pasted\ntext\x1b[201~", "~", "\x0c")
ANSWERS = ("sin", "f", "jvp:1", "f32[3]", "3", "2:1", "nothing", "é日🙂", "x" * 200, "(", "\\", " ")
# Keys that look at values and at origins are pressed more often.
LOOKING = ("\r", "\r", "\x7f", "t", "c", "v", "=", "W", "]", "[", "}", "{", "J", "4", "5", "6", "s", "n", "j", "k", "l")


def sent(name: str) -> str:
    """What a terminal sends for a key of the table."""
    named = {"space": " ", "enter": "\r", "tab": "\t", "backspace": "\x7f"}
    known = {key.value: key for key in Keys}
    return named[name] if name in named else REVERSE_ANSI_SEQUENCES.get(known.get(name, Keys.Any), name)


ALL_KEYS = tuple({
    sent(name): None for _, group in (*KEYS, *BROWSER_KEYS) for key in group for name in key.keys if name not in ENDING
})  # fmt: skip


class Alarm:
    """Ctrl-C after a while: planned, or because a line takes too long."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.line = ""
        self.planned = False
        self.before = signal.signal(signal.SIGALRM, self.rang)

    def set(self, line: str, seconds: float = 0.0) -> None:
        """Interrupt ``line`` after ``seconds``, if they are given; else once it has taken too long."""
        self.line = line
        self.planned = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds or SECONDS)

    def off(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def rang(self, number: int, frame: FrameType | None) -> None:
        if self.planned:
            self.report.interrupted += 1
            self.set(self.line)
        else:
            where = "".join(traceback.format_stack(frame)[-6:])
            self.report.violation(self.line, f"no answer within {SECONDS} s\n{where}")
        raise KeyboardInterrupt

    def close(self) -> None:
        self.off()
        signal.signal(signal.SIGALRM, self.before)


class Fuzzed(App):
    """The prompt, with ``lines`` typed at it, and checked after each."""

    def __init__(
        self, session: Session, keyboard: PipeInput, lines: Iterator[str], report: Report, alarm: Alarm, seed: int
    ) -> None:
        self.printed = RecordingOutput(100)
        self.size = Size(rows=40, columns=100)
        self.printed.get_size = lambda: self.size  # type: ignore[method-assign]
        super().__init__(session, history=InMemoryHistory(), input=keyboard, output=self.printed)
        self.keyboard = keyboard
        self.lines = lines
        self.report = report
        self.alarm = alarm
        self.random = random.Random(seed)
        self.generated = Lines(seed)
        self.watch = Watch(report, session)
        self._read = self.prompt.prompt
        self.prompt.prompt = self.next_input  # type: ignore[method-assign]

    def next_input(self, *args: Any, **named: Any) -> str:
        """Check what the last line left behind; type the next one, and read it."""
        self.alarm.off()
        self.check()
        left = named.get("default", "")
        if left and self.random.random() < 0.5:
            while source.status(left) == "incomplete":
                left += "\n" + source.next_indent(left)  # Enter on a block ends it
            return self.typed(left, "\r" * (left.count("\n") - named["default"].count("\n")), *args, **named)
        if left:
            self.keyboard.send_text("\x03")
            with contextlib.suppress(KeyboardInterrupt):
                self._read(*args, **named)
            named["default"] = ""
        line = next(self.lines, None)
        if line is None:
            self.keyboard.send_text("\x03\x04")
            return str(self._read(*args, **named))
        # what a paste makes of line breaks, and what ends one
        line = line.replace("\r\n", "\n").replace("\r", "\n").replace("\x1b[201~", "")
        typed = line.encode("utf-8", "replace").decode()
        return self.typed(line, f"\x1b[200~{typed}\x1b[201~", *args, **named)

    def typed(self, line: str, keys: str, *args: Any, **named: Any) -> str:
        """Read a line, which these keys write, with Enter behind them; a command may have written it already."""
        if self.random.random() < 0.03:
            columns, rows = self.random.choice(SIZES)
            self.size = Size(rows=max(rows, 10), columns=max(columns, 20))
        self.watch.before(line)
        self.alarm.set(line)
        if not line.strip():
            return line or " "
        # of the keys for a stepper some may be left
        self.keyboard.read_keys()
        self.keyboard.flush_keys()
        clear_typeahead(self.keyboard)
        self.keyboard.send_text(keys)
        if source.status(line) != "complete":
            # the validator keeps it on the line: cleared by Ctrl-C, it is given to the session itself
            self.keyboard.send_text("\r\x03")
            with contextlib.suppress(KeyboardInterrupt):
                self._read(*args, **named)
        else:
            self.keyboard.send_text("\x1b[F\r")
            line = str(self._read(*args, **named))
        if self.random.random() < INTERRUPTED:
            self.alarm.set(line, 10 ** self.random.uniform(-4, -0.5))
        return line

    def show_outcome(self, outcome: Outcome) -> None:
        if outcome.step is not None:
            self.alarm.set(self.watch.line)
        if outcome.error is not None:
            self.watch.failed(outcome.error)
        if not isinstance(outcome.error, KeyboardInterrupt):
            self.watch.look_at_value(outcome.value, outcome.error)
        super().show_outcome(outcome)

    def write(self, pieces: StyleAndTextTuples) -> None:
        self.watch.look_at_lines("".join(piece[1] for piece in pieces), self.columns())
        super().write(pieces)

    def stepped(self, outcome: Outcome, step: Step) -> Document:
        """The stepper, with keys pressed in it."""
        self.report.kinds["stepped"] += 1
        keys = iter([self.key() for _ in range(self.random.choice((0, 1, 5, 15, 40)))])
        run, size = FullScreen.run, self.size

        def pressing(stepping: FullScreen) -> str:
            stepping.application.after_render += lambda _: self.press(stepping, keys)
            return str(run(stepping))

        with (
            mock.patch.object(stepper_app, "compose", self.looked_at(stepper_app.compose)),
            mock.patch.object(browser_app, "compose", self.looked_at(browser_app.compose)),
            mock.patch.object(FullScreen, "run", pressing),
        ):
            shown = super().stepped(outcome, step)
        self.size = size
        return shown

    def key(self) -> str | tuple[int, int]:
        """A key, or a size to which the window changes."""
        kinds: tuple[Any, ...] = (SIZES, UNKNOWN, ALL_KEYS, LOOKING, [f"{self.random.randint(0, 300)}]"])
        (chosen,) = self.random.choices(kinds, (6, 6, 38, 45, 5))
        return self.random.choice(chosen)

    def press(self, stepping: FullScreen, keys: Iterator[str | tuple[int, int]]) -> None:
        """The next key, now that the screen after the last one is drawn."""
        self.watch.look_at_time(f"{self.watch.line[:100]}, a key")
        stepper: Any = stepping.model
        if stepper.message[1].startswith(tuple(f"no programs: {name}" for name in INTERNAL)):
            self.watch.violation(f"in the stepper: {stepper.message[1]}")
        if stepper.question is not None and self.random.random() < 0.9:
            words = self.random.choice((*ANSWERS, *(self.generated.one(w) for w in ("condition", "of_moment", "name"))))
            key: str | tuple[int, int] = words[:1] if stepper.question.single else words + "\r"
        else:
            key = next(keys, "\x03")
        self.report.keys += 1
        if isinstance(key, tuple):
            self.size = Size(rows=key[1], columns=key[0])
            stepping.application._on_resize()
        else:
            self.keyboard.send_text(key.encode("utf-8", "replace").decode())

    def looked_at(self, compose: Callable[[Any, int, int], list[Line]]) -> Callable[[Any, int, int], list[Line]]:
        """``compose``, whose screens must fit."""

        def composed(model: Any, columns: int, rows: int) -> list[Line]:
            lines = compose(model, columns, rows)
            if len(lines) != max(rows, 1) or max(map(width_of, lines)) > max(columns, 1):
                self.watch.violation(f"the screen does not fit {columns}x{rows}")
            if any(ord(c) < 32 or 127 <= ord(c) < 160 for each in lines for _, piece in each for c in piece):
                self.watch.violation("a control character on the screen")
            return lines

        return composed

    def check(self) -> None:
        # the bell rings where an answer's text has nothing to delete
        if (at := self.printed.printed().find("\x1b")) >= 0:
            self.watch.violation(f"an escape code reached the terminal: {self.printed.printed()[at : at + 60]!r}")
        self.printed.text = ""
        self.watch.after()


LAST = "from minijax import grad as _grad, numpy as _jnp\nfloat(_grad(_jnp.sin)(0.0))"


def lines_of(count: int, seed: int) -> Iterator[str]:
    yield from SETUP
    generated = Lines(seed)
    for _ in range(count - len(SETUP)):
        yield generated.line()


def type_into_prompt(count: int, seed: int, report: Report, alarm: Alarm) -> None:
    session = batch.new_session({})
    with create_pipe_input() as keyboard:
        app = Fuzzed(session, keyboard, lines_of(count, seed), report, alarm, seed)
        try:
            before = report.lines
            code = app.run()
            if code != 0 or report.lines < before + count:
                report.violation(app.watch.line, f"the session ended with {code}")
        except BaseException:
            report.violation(app.watch.line, f"the session died\n{traceback.format_exc()}")
        alarm.off()
    session.run_line("%pop --all")
    after = session.run_line(LAST)
    if after.value != 1.0:
        report.violation("", f"at the end, the gradient of sin at 0 is {after.value} {after.error!r}")


def type_into_ipython(count: int, seed: int, report: Report, alarm: Alarm) -> None:
    InteractiveShell.clear_instance()
    # its history would be a file, and a thread
    shell: Any = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "minijax")
    shell.run_cell("%panels on")
    # IPython shows lines around each frame, which takes most of the time of an error
    shell.run_line_magic("xmode", "Plain")
    shell.user_ns.update(initial_names())
    watch = Watch(report, shell.magics_manager.registry["MinijaxMagics"].session)
    for line in lines_of(count, seed):
        report.kinds["in IPython"] += 1
        alarm.set(line)
        watch.before(line)
        name = line.lstrip("%").split()[0] if line.startswith("%") and line.strip("% \n") else ""
        if name in COMMANDS:
            line = line.replace(name, magic_name(COMMANDS[name]), 1)
        try:
            with capture_output():
                done = shell.run_cell(line, store_history=True)
            if (error := done.error_before_exec or done.error_in_exec) is not None:
                watch.failed(error)
            watch.after()
        except BaseException as error:
            # else IPython's own: a line too deep to be compiled
            if any(errors.is_own_file(each.filename) for each in traceback.extract_tb(error.__traceback__)):
                report.violation(line, f"IPython let it through\n{traceback.format_exc()}")
        alarm.off()
    # in the history too: IPython looks at the last cell there for a semicolon, and that may be one without an end
    with capture_output():
        shell.run_cell("%pop --all", store_history=True)
        done = shell.run_cell(LAST, store_history=True)
    if done.result != 1.0:
        report.violation("", f"at the end, the gradient of sin at 0 is {done.result!r} in IPython")
    shell.run_line_magic("unload_ext", "minijax")
    InteractiveShell.clear_instance()


def fuzz(count: int, seed: int) -> Report:
    """Type ``count`` lines in all, in sessions with the seeds ``seed``, ``seed + 1``, and so on."""
    report = Report()
    here = os.getcwd()
    excluded = (*errors._excluded, *files_of_the_caller())
    alarm = Alarm(report)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            nothing_is_left(report),
            mock.patch.object(errors, "_excluded", excluded),
            mock.patch.object(sys, "stdin", io.StringIO()),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            errors._is_user.clear()
            os.chdir(folder)
            while report.lines < count:
                # the garbage collector, and %leaks, need not visit what earlier sessions and libraries have left
                gc.collect()
                gc.freeze()
                lines = min(count - report.lines, SESSION)
                in_ipython = int(lines * IPYTHON)
                type_into_prompt(lines - in_ipython, seed, report, alarm)
                type_into_ipython(in_ipython, seed + OTHER_LINES, report, alarm)
                seed += 1
    finally:
        gc.unfreeze()
        alarm.close()
        errors._is_user.clear()
        os.chdir(here)
    return report


def main(argv: list[str] | None = None) -> int:
    """Run, print the counts; 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.repl.fuzz", description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    # XLA reads it when it starts: some lines are about programs on a mesh
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    report = fuzz(options.lines, options.seed)
    print(report.text())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
