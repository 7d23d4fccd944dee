"""``python -m tests.repl.fuzz --sessions 10``: generated lines, typed at the prompt.

Each line goes through prompt_toolkit's pipe as a paste and Enter, so that validation, the loop and printing are the
real ones. The session itself runs what the validator refuses. A stepper that a line opens gets keys one by one and is
drawn after each; the window changes its size. The session is checked after each line.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.ansi_escape_sequences import REVERSE_ANSI_SEQUENCES
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.keys import Keys
from prompt_toolkit.utils import get_cwidth

from minijax import errors
from minijax.core.trace import state
from minijax.repl import batch
from minijax.repl.app import App
from minijax.repl.browser import app as browser_app
from minijax.repl.browser.keys import KEYS as BROWSER_KEYS
from minijax.repl.drawing import width_of
from minijax.repl.fullscreen import FullScreen
from minijax.repl.stepper import app as stepper_app
from minijax.repl.stepper.keys import KEYS
from minijax.tools.documents.document import Document, Line
from minijax.tools.session import source
from minijax.tools.session.result import Step
from minijax.tools.session.session import Outcome, Session
from minijax.tools.usage import UsageError
from tests.repl.screen import RecordingOutput
from tests.repl.stops import files_of_the_caller
from tests.tools.lines import BAD, GOOD, SETUP

SIZES = ((80, 24), (120, 40), (200, 60), (40, 10), (20, 5), (1, 1), (9, 30), (300, 12), (100, 40))
# Keys that end a stepper are pressed at the end; Ctrl-Z would stop this process.
ENDING = ("q", "escape", "c-c", "c-d")
UNKNOWN = ("X", "é", "日", "🙂", "%", "\x01", "\x00", "\x1b[15~", "\x1b[200~pasted\ntext\x1b[201~", "~", "\x0c")
ANSWERS = ("sin", "f", "jvp:1", "f32[3]", "3", "2:1", "nothing", "é日🙂", "x" * 200, "(", "\\", " ", "x > 1", "nan(x)",
           "line 2", "x became NaN", "x.shape changed", "x ** 9 ** 9 > 1", "x.sum() + 1", "1 / 0")  # fmt: skip
# Keys that look at values and at origins are pressed more often.
LOOKING = ("\r", "\r", "\x7f", "t", "c", "v", "=", "W", "]", "[", "}", "{", "J", "4", "5", "6", "s", "n", "j", "k", "l")
# Exceptions that only a mistake in minijax raises, unless the text is one that JAX has too.
INTERNAL = ("AssertionError", "AttributeError", "IndexError", "JaxRuntimeError", "KeyError", "UnboundLocalError")
KNOWN_TEXTS = re.compile(
    "No J?VJ?P defined for custom|Too many indices|only integers, slices|has no attribute|__repr__ returned non-string"
)
# Exceptions that the tools may raise because of what a line asks for.
TOLD = (UsageError, SyntaxError, KeyboardInterrupt, RecursionError, MemoryError, SystemExit)
# Commands that change the names of the session.
_NAMING = ("%push", "%pop", "%tour", "%run", "%sh")
_ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")


def sent(name: str) -> str:
    """What a terminal sends for a key of the table."""
    named = {"space": " ", "enter": "\r", "tab": "\t", "backspace": "\x7f"}
    known = {key.value: key for key in Keys}
    return named[name] if name in named else REVERSE_ANSI_SEQUENCES.get(known.get(name, Keys.Any), name)


ALL_KEYS = tuple({
    sent(name): None for _, group in (*KEYS, *BROWSER_KEYS) for key in group for name in key.keys if name not in ENDING
})  # fmt: skip


class Report:
    """What a run found; ``kinds`` counts lines by command or kind, and errors by their type."""

    def __init__(self) -> None:
        self.lines = self.keys = 0
        self.current = ""
        self.kinds: Counter[str] = Counter()
        self.violations: list[str] = []

    def violation(self, what: str) -> None:
        """Note what is wrong after the current line; of the same kind once."""
        kind = re.sub(r"\d+", "0", what)[:160]
        if not any(re.sub(r"\d+", "0", each).endswith(kind) for each in self.violations):
            self.violations.append(f"after {self.current[:400]!r}: {what}")

    def text(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.kinds.most_common(60))
        head = f"{self.lines:,} lines, {self.keys:,} keys in steppers; {counts}"
        return "\n".join((head, f"violations: {len(self.violations)}", *self.violations[:40]))


def fault(error: BaseException) -> str:
    """Where and how minijax failed, if ``error`` is a mistake of its own and not of the line's."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith("<") or KNOWN_TEXTS.search(str(error)):
            return ""
        if errors.is_own_file(frame.filename):
            in_tools = re.search(r"(tools|repl|ipython_ext)/", frame.filename)
            own = not isinstance(error, TOLD) if in_tools else type(error).__name__ in INTERNAL
            return f"{frame.filename}:{frame.lineno} {error!r:.300}" if own else ""
    return ""


class Fuzzed(App):
    """The prompt, with ``lines`` typed at it, and checked after each."""

    def __init__(self, session: Session, keyboard: PipeInput, lines: Iterator[str], report: Report, seed: int) -> None:
        self.printed = RecordingOutput(100)
        self.size = Size(rows=40, columns=100)
        self.printed.get_size = lambda: self.size  # type: ignore[method-assign]
        super().__init__(session, history=InMemoryHistory(), input=keyboard, output=self.printed)
        self.keyboard = keyboard
        self.lines = lines
        self.report = report
        self.line = ""
        self.names: dict[str, Any] = {}
        self.random = random.Random(seed)
        self._read = self.prompt.prompt
        self.prompt.prompt = self.next_input  # type: ignore[method-assign]

    # --- typing ---

    def next_input(self, *args: Any, **named: Any) -> str:
        """Check what the last line left behind; type the next one, and read it."""
        self.check()
        if named.get("default"):  # a command has written a line: it is cleared
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
        self.line = self.report.current = line
        self.names = dict(self.session.namespace)
        status = source.status(line)
        self.report.kinds[(*self.command(), f"{status} Python")[0][:20]] += 1
        self.report.lines += 1
        if not line.strip():
            return line or " "
        # of the keys for a stepper some may be left
        self.keyboard.read_keys()
        self.keyboard.flush_keys()
        clear_typeahead(self.keyboard)
        self.keyboard.send_text(f"\x1b[200~{line.encode('utf-8', 'replace').decode()}\x1b[201~")
        if status == "complete":
            self.keyboard.send_text("\x1b[F\r")
            return str(self._read(*args, **named))
        # the validator keeps it on the line: cleared by Ctrl-C, it is given to the session itself
        self.keyboard.send_text("\r\x03")
        with contextlib.suppress(KeyboardInterrupt):
            self._read(*args, **named)
        return line

    def command(self) -> list[str]:
        """The line's first word, if the line is a command."""
        return source.as_command(self.line).lstrip().split(None, 1)[:1] if source.is_command(self.line) else []

    def stepped(self, outcome: Outcome, step: Step) -> Document:
        """The stepper, with keys pressed in it."""
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
        stepper: Any = stepping.model
        if stepper.message[1].startswith(tuple(f"no programs: {name}" for name in INTERNAL)):
            self.report.violation(f"in the stepper: {stepper.message[1]}")
        if stepper.question is not None and self.random.random() < 0.9:
            words = self.random.choice(ANSWERS)
            key: str | tuple[int, int] = words[:1] if stepper.question.single else words + "\r"
        else:
            key = next(keys, "\x03")
        self.report.keys += 1
        if isinstance(key, tuple):
            self.size = Size(rows=key[1], columns=key[0])
            stepping.application._on_resize()
        else:
            self.keyboard.send_text(key.encode("utf-8", "replace").decode())

    # --- checking ---

    def show_outcome(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.report.kinds[type(outcome.error).__name__] += 1
            if at := fault(outcome.error):
                self.report.violation(at)
        super().show_outcome(outcome)

    def write(self, pieces: StyleAndTextTuples) -> None:
        """What is shown is no wider than the terminal; a command shows no address in memory."""
        shown = "".join(piece[1] for piece in pieces)
        if max(map(get_cwidth, shown.split("\n"))) > self.columns():
            self.report.violation(f"a line is wider than {self.columns()}: {shown[:120]!r}")
        if any((ord(c) < 32 or 127 <= ord(c) < 160) and c not in "\n\t" for c in shown):
            self.report.violation(f"control characters are shown: {shown[:120]!r}")
        if self.command() and (_ADDRESS.search(shown) or "Traceback (most recent call last)" in shown):
            self.report.violation(f"an address in memory, or Python's traceback, is shown: {shown[:300]!r}")
        super().write(pieces)

    def looked_at(self, compose: Callable[[Any, int, int], list[Line]]) -> Callable[[Any, int, int], list[Line]]:
        """``compose``, whose screens must fit."""

        def composed(model: Any, columns: int, rows: int) -> list[Line]:
            lines = compose(model, columns, rows)
            if len(lines) != max(rows, 1) or max(map(width_of, lines)) > max(columns, 1):
                self.report.violation(f"the screen does not fit {columns}x{rows}")
            if any(ord(c) < 32 or 127 <= ord(c) < 160 for each in lines for _, piece in each for c in piece):
                self.report.violation("a control character on the screen")
            return lines

        return composed

    def check(self) -> None:
        """Whether the terminal, the stack of interpreters and the names are as they should be after a line."""
        before = len(self.report.violations)
        if "\x1b" in self.printed.printed():
            self.report.violation("an escape code reached the terminal")
        self.printed.text = ""
        levels = self.session.levels
        expected = [state.stack[0], *(main for level in levels for main in level.mains)]
        if state.stack != expected:
            self.report.violation(f"the stack is {[main.label for main in state.stack]} with {len(levels)} levels")
        if not levels and state.dynamic is not state.stack[0].trace or state.source is not None:
            self.report.violation("something is still staging, or a source line is still noted")
        self.look_at_names()
        if len(self.report.violations) != before:
            self.session.restore()

    def look_at_names(self) -> None:
        """A command leaves the user's names as they were."""
        words = self.command()
        again = words == ["%step"] and "(" not in self.line  # of what failed last, which may name things
        if not words or words[0] in _NAMING or again:
            return
        now = self.session.namespace
        changed = [n for n in {*now, *self.names} if now.get(n, now) is not self.names.get(n, now)]
        wrong = sorted(n for n in changed if not n.startswith("_") and n not in ("In", "Out", "exit", "quit"))
        if wrong:
            self.report.violation(f"{words[0]} changed the names {wrong[:5]}")


# Lines of every command, good and bad, but for those that take long or run other lines; and Python.
COMMANDS = tuple(
    line for line, _ in (*GOOD, *BAD) if not line.startswith(("%tour", "%time", "%compare", "%gallery", "%run", "%sh"))
)
CALLS = ("grad(f)(3.0)", "vmap(grad(f))(v)", "vmap(jit(fails))(v)", "jit(grad(grüße))(2.)", "vmap(grad(loop))(v)")
FORMS = ("%step {}", "%step {} --retrace", "%passes {} --open", "%values {}", "%origin {}")
STEPS = tuple(form.format(call) for call in CALLS for form in FORMS)
PYTHON = (
    *CALLS, "jit(noisy)(2.)", "x = 5;", "f??", "x ** y ** z",
    "raise KeyboardInterrupt", "raise RecursionError", "raise BaseException('x')", "yield x", "await x", "?x", "%", "",
    "class C:\n    def __repr__(self): return 3\n\nC()", "def loop(n): return loop(n + 1)\nloop(0)\n", "for i in v:",
    "leaked = []; jit(lambda x: leaked.append(x) or x)(1.); leaked[0] + 1", "try:\n    1 / 0\nfinally:\n    z = 1\n",
    "'" + "long text " * 2000 + "'", "(" * 300 + "x" + ")" * 300, "%" + "a" * 5000, " + ".join(["x"] * 2000), "del f",
    "%tree {'日本語🙂': v, 'a\\nb': x, '\\x1b[31m': x, 'long' * 60: [v] * 3}", "%%jaxpr x=f32[3]\ny = (\n",
)  # fmt: skip
NOISE = (
    "\x00", "\x07", "\x1b[2J", "\x1b]0;title\x07", "\r", "\t", "\u202e", "\ufeff", "🙂", "日本", "é", "\x7f", "\x85",
    "'", '"', '"""', "(", ")", "[", "{", "}", ":", "=", "%", "%%", "?", "\\", "#", ";", "--", "@", "\n", "\n    ", " ",
)  # fmt: skip
# What every session begins with, and is given again now and then: lines may have deleted or changed it.
BEGIN = (
    *SETUP,
    "def fails(x):\n    mid = sin(x)\n    return mid + jnp.ones(4)\n",
    "def grüße(größe):\n    λ = sin(größe) * 2.\n    return λ\n",
    "def noisy(x):\n    debug.print('{} 日', x)\n    return x * 2.\n",
    "def loop(c): return lax.scan(lambda c, a: (c * a + 1., sin(c)), c, jnp.arange(3.))[1].sum()",
    "%x64 off",
    "%pop --all",
)
LAST = "from minijax import grad as _grad, numpy as _jnp\nfloat(_grad(_jnp.sin)(0.0))"


def lines_of(count: int, seed: int) -> Iterator[str]:
    """That many lines, the same for the same seed; every fourth is one of ``BEGIN``, some are damaged."""
    yield from BEGIN
    rng = random.Random(seed)
    for number in range(count - len(BEGIN)):
        line = rng.choice(rng.choice((PYTHON, COMMANDS, STEPS)))
        if number % 4 == 0:
            line = BEGIN[number // 4 % len(BEGIN)]
        elif rng.random() < 0.15:
            at = rng.randrange(len(line) + 1)
            line = line[:at] + rng.choice(("", *NOISE)) + line[at + rng.randrange(2) :]
        yield line


@contextlib.contextmanager
def nothing_unheard(report: Report) -> Iterator[None]:
    """No exception is raised where it goes unheard, and no thread is left."""
    threads = set(threading.enumerate())

    def unheard(what: Any) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):  # of a generated line
            report.violation(f"unheard {what.exc_type.__name__}: {what.exc_value} in {getattr(what, 'object', what)!r}")

    def in_the_loop(app: Any, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        said = "".join(traceback.format_exception(error)[-8:]) if error else str(context)
        report.violation(f"a key's work raised\n{said}")
        if app.is_running:
            app.exit()

    with (
        mock.patch.object(sys, "unraisablehook", unheard),
        mock.patch.object(threading, "excepthook", unheard),
        mock.patch.object(Application, "_handle_exception", in_the_loop),
    ):
        yield
    for each in set(threading.enumerate()) - threads:
        each.join(5.0)
    # XLA's callbacks run on threads of its own, which Python has met
    if left := [each.name for each in set(threading.enumerate()) - threads if not each.name.startswith("Dummy")]:
        report.violation(f"threads are left: {left[:5]}")


def fuzz(count: int, seed: int) -> Report:
    """Type ``count`` lines in one session."""
    report, session, here = Report(), batch.new_session({}), os.getcwd()
    errors._is_user.clear()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            nothing_unheard(report),
            mock.patch.object(errors, "_excluded", (*errors._excluded, *files_of_the_caller())),
            mock.patch.object(sys, "stdin", io.StringIO()),
            contextlib.redirect_stdout(io.StringIO()),
            create_pipe_input() as keyboard,
        ):
            os.chdir(folder)
            app = Fuzzed(session, keyboard, lines_of(count, seed), report, seed)
            try:
                code = app.run()
                if code != 0 or report.lines < count:
                    report.violation(f"the session ended with {code}")
            except BaseException:
                report.violation(f"the session died\n{traceback.format_exc()}")
            session.run_line("%pop --all")
            after = session.run_line(LAST)
            if after.value != 1.0:
                report.violation(f"at the end, the gradient of sin at 0 is {after.value} {after.error!r}")
    finally:
        errors._is_user.clear()
        os.chdir(here)
    return report


def main(argv: list[str] | None = None) -> int:
    """Run, print the counts; 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.repl.fuzz", description=__doc__)
    parser.add_argument("--sessions", type=int, default=10, help="of a thousand lines")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    # XLA reads it when it starts: some lines are about programs on a mesh
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    failed = 0
    for seed in range(options.seed, options.seed + options.sessions):
        report = fuzz(1000, seed)
        print(f"seed {seed}: {report.text()}", flush=True)
        failed += bool(report.violations)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
