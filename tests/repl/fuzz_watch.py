"""What ``fuzz`` checks after each line of a session, and at the end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from prompt_toolkit.application import Application
from prompt_toolkit.utils import get_cwidth

from minijax import Array, errors
from minijax.core.trace import state
from minijax.tools.session import source
from minijax.tools.session.session import Session
from minijax.tools.usage import UsageError
from minijax.tree_util import tree_leaves
from tests.repl.fuzz_lines import CALLS

# The most CPU seconds of a line or of a key.
MOST_SECONDS = 10.0
# The most megabytes that a session may grow by, and the most files that it may keep open.
MOST_GROWTH, MOST_FILES = 3000, 40
# Exceptions that only a mistake in minijax raises, unless the text is one that JAX has too.
INTERNAL = (
    "AssertionError",
    "AttributeError",
    "IndexError",
    "JaxRuntimeError",
    "KeyError",
    "SystemError",
    "UnboundLocalError",
)
KNOWN_TEXTS = (
    "No JVP defined for custom_jvp function",
    "No VJP defined for custom_vjp function",
    "Too many indices",
    "only integers, slices",
    "in result_shape_dtypes has no attribute",
    "and neither has JAX",
    "module 'minijax",
)
# Exceptions that the tools may raise because of what a line asks for.
TOLD = (UsageError, SyntaxError, KeyboardInterrupt, RecursionError, MemoryError, SystemExit)
# Commands whose value is that of the call they record.
_WATCHED = re.compile(r"%(?:step|log|values) (.*?)(?: (?:--iteration \d+|--retrace|--text|--verbose|--most 5)\s*)*$")
_TOOLS = ("tools", "repl", "ipython_ext")
_ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")


class Report:
    """What a run found."""

    def __init__(self) -> None:
        self.lines = self.keys = self.interrupted = 0
        # the line that is being run
        self.current = ""
        self.kinds: Counter[str] = Counter()
        self.commands: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.violations: list[str] = []
        self.slowest = (0.0, "")

    def violation(self, line: str, what: str) -> None:
        """Note what is wrong after a line; of the same kind once."""
        kind = re.sub(r"\d+", "0", what)[:160]
        if not any(re.sub(r"\d+", "0", each).endswith(kind) for each in self.violations):
            self.violations.append(f"after {line[:400]!r}: {what}")
        self.kinds["violation"] += 1

    def text(self) -> str:
        """The counts, then what went wrong."""

        def counted(counter: Counter[str]) -> str:
            return ", ".join(f"{count:,} {name}" for name, count in counter.most_common(20))

        out = [
            f"{self.lines:,} lines: {counted(self.kinds)}",
            f"commands: {counted(self.commands)}",
            f"errors: {counted(self.errors)}",
            f"{self.keys:,} keys in steppers; {self.interrupted} lines interrupted",
            f"the slowest took {self.slowest[0]:.1f} s of CPU: {self.slowest[1][:200]!r}",
            f"violations: {len(self.violations)}",
            *self.violations[:40],
        ]
        return "\n".join(out)


def _same(value: Any, expected: Any) -> bool:
    """Whether two trees of numbers are the same, up to rounding; what holds none is not compared."""
    mine, theirs = tree_leaves(value), tree_leaves(expected)
    if not all(isinstance(each, (Array, float, int, np.ndarray, np.generic)) for each in theirs):
        return True
    return len(mine) == len(theirs) and all(
        np.allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5, equal_nan=True)
        for a, b in zip(mine, theirs, strict=True)
    )


def resident() -> int:
    """The megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def fault(error: BaseException) -> str:
    """Where and how minijax failed, if ``error`` is a mistake of its own and not of the line's."""
    frames = traceback.extract_tb(error.__traceback__)
    if frames and f"{os.sep}IPython{os.sep}" in frames[-1].filename:
        return ""  # its own magics'
    if len(frames) > 1 and frames[-1].name == "__getattr__" and frames[-2].filename.startswith("<"):
        return ""  # the line asked for an attribute that there is not
    for frame in reversed(frames):
        if frame.filename.startswith("<"):
            return ""
        if errors.is_own_file(frame.filename):
            break
    else:
        return ""
    if frame is frames[-1] and re.search(r"\bfun\(\*", frame.line or ""):
        return ""  # what the line has watched is not written in Python, or does not take these arguments
    folder = os.path.relpath(frame.filename, os.path.dirname(os.path.dirname(errors.__file__))).split(os.sep)
    name = type(error).__name__
    tools = any(part in _TOOLS for part in folder[:2])
    if "__repr__ returned non-string" in str(error):
        return ""  # of the line's own class
    if tools:
        own = not isinstance(error, TOLD) and name != "UsageError"  # IPython has one too
    else:
        own = name in INTERNAL and not any(text in str(error) for text in KNOWN_TEXTS)
    return f"{os.sep.join(folder)}:{frame.lineno} {name}: {str(error)[:300]}" if own else ""


class Watch:
    """Looks at a session before and after each line.

    Args:
      session: whose lines are watched.
      restore: puts the session right again after a violation.
    """

    def __init__(self, report: Report, session: Session) -> None:
        self.report = report
        self.session = session
        self.line = ""
        self.names: dict[str, Any] = {}
        self.began = time.process_time()

    def before(self, line: str) -> None:
        """A line is about to be typed."""
        self.line = self.report.current = line
        self.names = dict(self.session.namespace)
        self.began = time.process_time()
        report = self.report
        report.lines += 1
        status = source.status(line)
        command = source.is_command(line)
        report.kinds["commands" if command else f"{status} Python"] += 1
        if command:
            name = source.as_command(line).lstrip().split(None, 1)[0][:20]
            report.commands[name if name.isascii() else "%other"] += 1

    def failed(self, error: BaseException) -> None:
        """The line ended in an error."""
        self.report.errors[type(error).__name__] += 1
        if at := fault(error):
            self.violation(at)

    def violation(self, what: str) -> None:
        self.report.violation(self.line, what)

    def look_at_value(self, value: Any, error: BaseException | None) -> None:
        """A call that a command has watched gives what it gives by itself, or raises the same."""
        found = _WATCHED.match(self.line)
        if found is None or found[1] not in CALLS or self.session.levels or isinstance(error, TOLD):
            return
        self.report.kinds["compared"] += 1
        try:
            expected = eval(found[1], dict(self.session.namespace))
        except Exception as raised:
            if type(raised) is not type(error):
                self.violation(f"raises {raised!r:.100} by itself, and {error!r:.100} under the command")
            return
        if error is not None or not _same(value, expected):
            self.violation(f"is {expected!r:.100} by itself, and {error or value!r:.100} under the command")

    def after(self) -> None:
        """Whether everything is where it should be."""
        levels = self.session.levels
        expected = [state.stack[0], *(main for level in levels for main in level.mains)]
        before = self.report.kinds["violation"]
        if state.stack != expected:
            self.violation(f"the stack is {[main.label for main in state.stack]} with {len(levels)} levels pushed")
        if not levels and state.dynamic is not state.stack[0].trace:
            self.violation("something is still staging")
        if state.source is not None:
            self.violation("a source line is still noted")
        self.look_at_names()
        self.look_at_time(self.line)
        if self.report.kinds["violation"] != before:
            self.session.restore()

    def look_at_names(self) -> None:
        """A command leaves the user's names as they were: what levels call their inputs comes and goes with these."""
        words = source.as_command(self.line).lstrip().split(None, 1) if source.is_command(self.line) else []
        again = words[:1] == ["%step"] and "(" not in self.line  # of what failed last, which may name things
        if not words or words[0] in ("%push", "%pop", "%tour", "%run", "%sh") or again:
            return
        now = self.session.namespace
        changed = [n for n in {*now, *self.names} if now.get(n, now) is not self.names.get(n, now)]
        wrong = sorted(n for n in changed if not n.startswith("_") and n not in ("In", "Out", "exit", "quit"))
        if wrong:
            self.violation(f"{words[0]} changed the names {wrong[:5]}")

    def look_at_time(self, what: str) -> None:
        """Note the slowest, and what took too long."""
        took = time.process_time() - self.began
        self.began = time.process_time()
        if took > self.report.slowest[0]:
            self.report.slowest = (took, what)
        # IPython's %timeit asks for up to seven rounds of two seconds
        if took > MOST_SECONDS and "%timeit" not in what:
            self.violation(f"took {took:.1f} s of CPU: {what[:100]!r}")

    def look_at_lines(self, shown: str, columns: int) -> None:
        """What is shown is no wider than the terminal, and says nothing of memory addresses to who asked a command."""
        for each in shown.split("\n"):
            if get_cwidth(each) > columns:
                self.violation(f"a line of {get_cwidth(each)} columns on a screen of {columns}: {each[:120]!r}")
                break
        if controls := [c for c in shown if (ord(c) < 32 or 127 <= ord(c) < 160) and c not in "\n\t"]:
            self.violation(f"control characters {controls[:5]} are shown")
        if source.is_command(self.line) and (found := _ADDRESS.search(shown)):
            self.violation(f"an address in memory is shown: {shown[max(found.start() - 80, 0) : found.end()]!r}")
        if source.is_command(self.line) and "Traceback (most recent call last)" in shown:
            self.violation("a traceback as Python writes it")


@contextlib.contextmanager
def nothing_is_left(report: Report) -> Iterator[None]:
    """Whoever runs in here leaves no thread, file or temporary file, and raises nothing where nobody hears it."""
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    started = resident()

    def unheard(what: Any) -> None:
        # a generated line's own: a finalizer, or an interrupt in one
        half_made = getattr(what, "object", None) is asyncio.BaseEventLoop.__del__ and report.interrupted
        # asyncio closes a loop also where an interrupt came while it was being made
        if not issubclass(what.exc_type, (KeyboardInterrupt, *([AttributeError] if half_made else []))):
            where = getattr(what, "object", what)
            report.violation(report.current, f"unheard {what.exc_type.__name__}: {what.exc_value} in {where!r}")

    def warned(message: Any, *rest: Any, **named: Any) -> None:
        if "the observer" in str(message):
            report.violation(report.current, str(message))

    def in_the_loop(app: Any, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        said = "".join(traceback.format_exception(error)[-8:]) if error else str(context)
        report.violation(report.current, f"a key's work raised\n{said}")
        if app.is_running:
            app.exit()

    folder = tempfile.mkdtemp()
    hooks = sys.unraisablehook, threading.excepthook, Application._handle_exception, tempfile.tempdir
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = warned
        sys.unraisablehook, threading.excepthook = unheard, unheard
        Application._handle_exception = in_the_loop  # type: ignore[method-assign]
        tempfile.tempdir = folder
        try:
            yield
        finally:
            sys.unraisablehook, threading.excepthook = hooks[:2]
            Application._handle_exception = hooks[2]  # type: ignore[method-assign]
            tempfile.tempdir = hooks[3]
    # IPython's own %edit removes its folders as the process ends
    if left := [name for name in os.listdir(folder) if not name.startswith("ipython_edit_")]:
        report.violation("", f"temporary files are left: {left[:5]}")
    else:
        shutil.rmtree(folder)
    end = time.monotonic() + 5
    for each in set(threading.enumerate()) - threads:
        each.join(max(end - time.monotonic(), 0.1))
    # callbacks of XLA's run on threads of its own, which Python has met
    if left := [each.name for each in set(threading.enumerate()) - threads if not each.name.startswith("Dummy")]:
        report.violation("", f"threads are left: {left[:5]}")
    gc.collect()
    if (more := len(os.listdir("/proc/self/fd")) - files) > MOST_FILES:
        report.violation("", f"{more} files are left open")
    if (grown := resident() - started) > MOST_GROWTH:
        report.violation("", f"memory grew by {grown} MB")
