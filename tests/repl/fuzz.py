"""``python -m tests.repl.fuzz --lines 10000 --seed 1``: generated lines typed into one session of the prompt.

Each line goes through prompt_toolkit's pipe as a paste and Enter, so that validation, the loop and printing are the
real ones; what the validator refuses is also given to the session directly. After each line the session must still be
there, and the interpreter stack be at the pushed levels.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Any

from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.base import PipeInput

from minijax import errors
from minijax.core.trace import state
from minijax.repl import batch
from minijax.repl.app import App
from minijax.tools.documents.document import Document
from minijax.tools.session import source
from minijax.tools.session.result import Step
from minijax.tools.session.session import Outcome, Session
from tests.repl.fuzz_lines import SETUP, Lines
from tests.repl.screen import RecordingOutput

# A line that takes longer is interrupted, as by Ctrl-C, and counted.

SECONDS = 20
INTERNAL = (
    "AssertionError",
    "AttributeError",
    "IndexError",
    "JaxRuntimeError",
    "KeyError",
    "SystemError",
    "UnboundLocalError",
)
STEPPER_KEYS = ("i", "o", "u", "b", "\x1b[A", "\x1b[B", "\t", "G", "g", "?", "?", "!", "e", "+", "-", "j", "k", "R")


class Report:
    """What a run found."""

    def __init__(self) -> None:
        self.lines = 0
        self.kinds: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.slow: list[str] = []
        # exceptions that look as if minijax, and not the line, were at fault
        self.suspicious: dict[str, str] = {}
        self.violations: list[str] = []
        self.seconds = 0.0
        self.deepest = 0

    def text(self) -> str:
        """The counts, then what went wrong."""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.most_common())
        errors = ", ".join(f"{name} {count:,}" for name, count in self.errors.most_common(12))
        out = [
            f"{self.lines:,} lines in {self.seconds:.0f} s: {kinds}",
            f"{sum(self.errors.values()):,} ended in an error: {errors}",
            f"levels pushed at once: up to {self.deepest}; lines interrupted after {SECONDS} s: {len(self.slow)}",
            *(f"  slow: {line[:200]!r}" for line in self.slow[:10]),
            f"kinds of error that only a mistake in minijax should raise: {len(self.suspicious)}",
            *(f"  {error}: {line[:300]!r}" for error, line in self.suspicious.items()),
            f"violations: {len(self.violations)}",
            *self.violations[:20],
        ]
        return "\n".join(out)


class Fuzzed(App):
    """The prompt, with somebody typing ``lines``, and looking at the stack after each."""

    def __init__(self, session: Session, keyboard: PipeInput, lines: Iterator[str], report: Report, seed: int) -> None:
        self.printed = RecordingOutput(100)
        super().__init__(session, history=InMemoryHistory(), input=keyboard, output=self.printed)
        self.keyboard = keyboard
        self.lines = lines
        self.report = report
        self.random = random.Random(seed)
        self.current = ""
        self.last: BaseException | None = None
        self._read = self.prompt.prompt
        self.prompt.prompt = self.next_input  # type: ignore[method-assign]

    def next_input(self, *args: Any, **named: Any) -> str:
        """Look at what the last line left behind; type the next one, and read it."""
        self.check()
        line = next(self.lines, None)
        if line is None:
            self.keyboard.send_text("\x03\x04")
            return str(self._read(*args, **named))
        # what a paste makes of line breaks, and what ends one
        line = line.replace("\r\n", "\n").replace("\r", "\n").replace("\x1b[201~", "")
        self.current = line
        self.report.lines += 1
        status = source.status(line)
        self.report.kinds["commands" if source.is_command(line) else f"{status} Python"] += 1
        if not line.strip():
            return line or " "
        typed = line.encode("utf-8", "replace").decode()
        # Ctrl-U: of the keys for the stepper some may be left
        self.keyboard.send_text(f"\x15\x1b[200~{typed}\x1b[201~")
        if status != "complete":
            # the validator keeps it on the line: cleared by Ctrl-C, it is given to the session itself
            self.keyboard.send_text("\r\x03")
            with contextlib.suppress(KeyboardInterrupt):
                self._read(*args, **named)
            return line
        self.keyboard.send_text("\x1b[F\r")

        return str(self._read(*args, **named))

    def show_outcome(self, outcome: Outcome) -> None:
        """As always; and counted."""
        if outcome.error is not None:
            self.report.errors[type(outcome.error).__name__] += 1
            self.suspect(outcome.error)
        super().show_outcome(outcome)

    def suspect(self, error: BaseException) -> None:
        """Note an error of a kind that is not for users, raised by minijax's own code."""
        if type(error).__name__ in INTERNAL and error.__traceback__ is not None:
            innermost = traceback.extract_tb(error.__traceback__)[-1]
            if not errors.is_user_file(innermost.filename):
                where = f"{os.path.basename(innermost.filename)}:{innermost.lineno} {type(error).__name__}: {error}"
                self.report.suspicious.setdefault(where[:200], self.current)

    def stepped(self, outcome: Outcome, step: Step) -> Document:
        """The stepper, with a few keys pressed in it."""
        keys = [self.random.choice(STEPPER_KEYS) for _ in range(self.random.randint(0, 6))]
        self.keyboard.send_text("".join(keys) + "q" * 3)
        self.report.kinds["stepped"] += 1
        return super().stepped(outcome, step)

    def check(self) -> None:
        """Whether everything is where it should be."""
        levels = self.session.levels
        expected = [state.stack[0], *(main for level in levels for main in level.mains)]
        self.report.deepest = max(self.report.deepest, len(levels))
        problems = []
        if state.stack != expected:
            problems.append(f"the stack is {[main.label for main in state.stack]} with {len(levels)} levels pushed")
        if not levels and state.dynamic is not state.stack[0].trace:
            problems.append("something is still staging")
        if state.source is not None:
            problems.append("a source line is still noted")
        printed = self.printed.printed()
        if "\x1b" in printed or "\x07" in printed:
            problems.append("a control character reached the terminal")
        self.printed.text = ""
        for problem in problems:
            self.report.violations.append(f"after {self.current[:300]!r}: {problem}")
        if problems:
            self.session.restore()


def fuzz(count: int, seed: int) -> Report:
    """Type ``count`` lines into a session."""
    report = Report()
    generated = Lines(seed)

    def lines() -> Iterator[str]:
        yield from SETUP
        for _ in range(count):
            # each line has its own time; the alarm is as good as Ctrl-C
            signal.alarm(SECONDS)
            yield generated.line()
        signal.alarm(0)

    def interrupt(number: int, frame: FrameType | None) -> None:
        report.slow.append(app.current)
        signal.alarm(SECONDS)
        raise KeyboardInterrupt

    session = batch.new_session({})
    here = os.getcwd()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        create_pipe_input() as keyboard,
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        os.chdir(folder)
        app = Fuzzed(session, keyboard, lines(), report, seed)
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            code = app.run()
            if code != 0 or report.lines < count:
                report.violations.append(f"the session ended with {code} after {app.current[:300]!r}")
        except BaseException:
            report.violations.append(f"the session died of {app.current[:300]!r}\n{traceback.format_exc()}")
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
            os.chdir(here)
    session.run_line("%pop --all")
    after = session.run_line("from minijax import grad as _grad, numpy as _jnp\nfloat(_grad(_jnp.sin)(0.0))")
    if after.value != 1.0:
        report.violations.append(f"at the end, the gradient of sin at 0 is {after.value} {after.error!r}")
    report.seconds = time.monotonic() - began
    return report


def main(argv: list[str] | None = None) -> int:
    """Run, print the counts; 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.repl.fuzz", description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    report = fuzz(options.lines, options.seed)
    print(report.text())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
