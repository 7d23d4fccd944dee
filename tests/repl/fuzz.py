"""``python -m tests.repl.fuzz --lines 10000 --seed 1``: generated lines typed into one session of the prompt.

Each line goes through prompt_toolkit's pipe as a paste and Enter, so that validation, the loop and printing are the
real ones; what the validator refuses is also given to the session directly. A stepper that a line opens is sent keys
one by one, and drawn after each; lines are interrupted at any moment, and the window changes its size. Of five lines
one goes to IPython instead. ``fuzz_watch`` says what must hold after each line, and at the end.
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
import time
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any
from unittest import mock

from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.input.typeahead import clear_typeahead

from minijax import errors
from minijax.repl import batch
from minijax.repl.app import App
from minijax.tools.documents.document import Document
from minijax.tools.session import source
from minijax.tools.session.result import Step
from minijax.tools.session.session import Outcome, Session
from tests.repl.fuzz_ipython import Notebook
from tests.repl.fuzz_keys import SIZES, Presser
from tests.repl.fuzz_lines import SETUP, Lines
from tests.repl.fuzz_watch import Report, Watch, nothing_is_left
from tests.repl.screen import RecordingOutput
from tests.repl.stops import _files_of_the_caller as files_of_the_caller

# A line that takes longer by the clock is interrupted, as by Ctrl-C, and a violation.
SECONDS = 180
# The share of lines that are interrupted somewhere, and of those typed to IPython.
INTERRUPTED, IPYTHON = 0.02, 0.2
# The share of calls that a command has watched and that are made by themselves too.
COMPARED = 1.0
# So many lines are typed in a session; the next has the next seed. IPython's lines have seeds that are far from these.
SESSION, OTHER_LINES = 1000, 1_000_000


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
            self.report.slow.append(self.line)
            where = "".join(traceback.format_stack(frame)[-6:])
            self.report.violation(self.line, f"no answer within {SECONDS} s\n{where}")
        raise KeyboardInterrupt

    def close(self) -> None:
        self.off()
        signal.signal(signal.SIGALRM, self.before)


class Fuzzed(App):
    """The prompt, with somebody typing ``lines``, and looking at everything after each."""

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
        self.watch = Watch(report, session)
        self._read = self.prompt.prompt
        self.prompt.prompt = self.next_input  # type: ignore[method-assign]

    @property
    def current(self) -> str:
        return self.watch.line

    def next_input(self, *args: Any, **named: Any) -> str:
        """Look at what the last line left behind; type the next one, and read it."""
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
        """As always; and looked at."""
        if outcome.step is not None:
            self.alarm.set(self.current)
        if outcome.error is not None:
            self.watch.failed(outcome.error)
        if self.random.random() < COMPARED and not isinstance(outcome.error, KeyboardInterrupt):
            self.watch.look_at_value(outcome.value, outcome.error)
        super().show_outcome(outcome)

    def write(self, pieces: StyleAndTextTuples) -> None:
        """As always; and looked at."""
        self.watch.look_at_lines("".join(piece[1] for piece in pieces), self.columns())
        super().write(pieces)

    def stepped(self, outcome: Outcome, step: Step) -> Document:
        """The stepper, with keys pressed in it."""
        self.report.kinds["stepped"] += 1
        with Presser(self.random, self.watch, self.keyboard, self):
            return super().stepped(outcome, step)

    def check(self) -> None:
        """Whether everything is where it should be."""
        # the bell rings where an answer's text has nothing to delete
        if (at := self.printed.printed().find("\x1b")) >= 0:
            self.watch.violation(f"an escape code reached the terminal: {self.printed.printed()[at : at + 60]!r}")
        self.printed.text = ""
        self.watch.after()


def type_into_prompt(count: int, seed: int, report: Report, alarm: Alarm) -> None:
    """``count`` generated lines, typed at the prompt."""
    generated = Lines(seed)

    def lines() -> Iterator[str]:
        yield from SETUP
        for _ in range(count - len(SETUP)):
            yield generated.line()

    session = batch.new_session({})
    with create_pipe_input() as keyboard:
        app = Fuzzed(session, keyboard, lines(), report, alarm, seed)
        try:
            before = report.lines
            code = app.run()
            if code != 0 or report.lines < before + count:
                report.violation(app.current, f"the session ended with {code}")
        except BaseException:
            report.violation(app.current, f"the session died\n{traceback.format_exc()}")
        alarm.off()
    session.run_line("%pop --all")
    after = session.run_line("from minijax import grad as _grad, numpy as _jnp\nfloat(_grad(_jnp.sin)(0.0))")
    if after.value != 1.0:
        report.violation("", f"at the end, the gradient of sin at 0 is {after.value} {after.error!r}")


def type_into_ipython(count: int, seed: int, report: Report, alarm: Alarm) -> None:
    """``count`` generated lines, run as cells."""
    generated = Lines(seed)
    with Notebook(report) as notebook:
        for line in (*SETUP, *(generated.line() for _ in range(count - len(SETUP)))):
            alarm.set(line)
            try:
                notebook.run(line)
            except BaseException as error:
                # else IPython's own: a line too deep to be compiled
                if any(errors.is_own_file(each.filename) for each in traceback.extract_tb(error.__traceback__)):
                    report.violation(line, f"IPython let it through\n{traceback.format_exc()}")
            alarm.off()
        notebook.end()


def fuzz(count: int, seed: int) -> Report:
    """Type ``count`` lines in all, in sessions with the seeds ``seed``, ``seed + 1``, and so on."""
    report = Report()
    here, began, cpu = os.getcwd(), time.monotonic(), time.process_time()
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
    report.seconds, report.cpu = time.monotonic() - began, time.process_time() - cpu
    return report


def main(argv: list[str] | None = None) -> int:
    """Run, print the counts; 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.repl.fuzz", description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--told", action="store_true", help="also list what commands said of mistakes")
    options = parser.parse_args(argv)
    # of XLA, which has not begun: some lines are about programs on a mesh
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    report = fuzz(options.lines, options.seed)
    print(report.text())
    if options.told:
        print(*report.told.values(), sep="\n")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
