"""Stand-ins for terminals: an output in memory, and a pseudo-terminal with a screen."""

from __future__ import annotations

import copy
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pexpect
import pyte
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output

# Runs the minijax program with constant times, because times of different width would change where lines wrap.
STEADY = (
    "-c",
    "import sys; from minijax.tools.documents import words\n"
    "words.seconds_text.__code__ = (lambda seconds: '1.0 ms').__code__\n"
    "from minijax.repl.__main__ import main; sys.exit(main(sys.argv[1:]))",
)
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>78])")


class RecordingOutput(Vt100_Output):
    """prompt_toolkit's terminal output, kept in memory."""

    def __init__(self, columns: int = 80, rows: int = 40) -> None:
        self.text = ""
        self.drawn = threading.Condition()
        super().__init__(self, lambda: Size(rows=rows, columns=columns), term="xterm-256color")  # type: ignore[arg-type]

    encoding = "utf-8"

    @property
    def responds_to_cpr(self) -> bool:
        """Always False: no terminal answers cursor queries here, so with True every prompt would wait for a second."""
        return False

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("no file")

    def flush(self) -> None:
        with self.drawn:
            self.text += "".join(self._buffer)
            self._buffer = []
            self.drawn.notify_all()

    def printed(self) -> str:
        """The printed text without escape codes; lines end in plain line breaks."""
        return _ESCAPE.sub("", self.text).replace("\r\n", "\n").replace("\r", "\n")


class Screen(pyte.HistoryScreen):
    """pyte's screen with an alternate screen: leaving a full-screen program restores the text below it."""

    _hidden: tuple[object, ...] | None = None

    def set_mode(self, *modes: int, **kwargs: bool) -> None:
        super().set_mode(*modes, **kwargs)
        if kwargs.get("private") and 1049 in modes and self._hidden is None:
            self._hidden = (copy.deepcopy(self.buffer), copy.copy(self.cursor), self.history)
            self.history = self.history._replace(top=self.history.top.copy())
            self.erase_in_display(2)
            self.cursor_position()

    def reset_mode(self, *modes: int, **kwargs: bool) -> None:
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and 1049 in modes and self._hidden is not None:
            self.buffer, self.cursor, self.history = self._hidden  # type: ignore[assignment]
            self._hidden = None
            self.dirty.update(range(self.lines))

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """When rows no longer fit, keep the topmost ones in the history, as terminals do; pyte would drop them."""
        if lines is not None and not self.alternate:
            self.history.top.extend(copy.copy(self.buffer[row]) for row in range(self.lines - lines))
        super().resize(lines, columns)

    @property
    def alternate(self) -> bool:
        """Whether a full-screen program has the screen."""
        return self._hidden is not None


def _heed_signals() -> None:
    """Let these signals end the program, even if this process ignores them (``nohup``): it would inherit that."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class Terminal:
    """A program in a pseudo-terminal, with a screen that interprets its output."""

    def __init__(
        self,
        *arguments: str,
        columns: int = 80,
        rows: int = 40,
        env: dict[str, str] | None = None,
        program: Sequence[str] = ("-m", "minijax.repl"),
        cwd: str | None = None,
    ) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        environment |= {"TERM": "xterm-256color", **(env or {})}
        self.raw = ""
        self.closed = False
        self.number = 0  # the number of the last prompt that a call waited for
        self.screen = Screen(columns, rows, history=5000, ratio=1)
        self.stream = pyte.Stream(self.screen)
        self.process = pexpect.spawn(
            sys.executable,
            [*program, *arguments],
            cwd=cwd,
            dimensions=(rows, columns),
            env=environment,
            encoding="utf-8",
            preexec_fn=_heed_signals,
        )

    def pump(self, seconds: float) -> bool:
        """Read the program's next output and answer its cursor queries; False if there was none."""
        try:
            data = self.process.read_nonblocking(65536, seconds)
        except pexpect.TIMEOUT:
            return False
        except pexpect.EOF:
            self.closed = True
            return False
        asked = len(self.raw) - 3  # where to search for a query, whose beginning may have come with the previous output
        self.raw += data
        self.stream.feed(data)
        if "\x1b[6n" in self.raw[max(asked, 0) :]:
            cursor = self.screen.cursor
            self.process.send(f"\x1b[{cursor.y + 1};{cursor.x + 1}R")
        return True

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal and wait until the program has redrawn."""
        seen = len(self.raw)
        self.process.setwinsize(rows, columns)
        self.screen.resize(rows, columns)
        self.settle(seen)

    def send(self, text: str) -> None:
        self.process.send(text)

    def lines(self) -> list[str]:
        """The scrollback and the screen, as text."""
        shown = [self.screen.buffer[y] for y in range(self.screen.lines)]
        return [self._row(row) for row in (*self.screen.history.top, *shown)]

    @staticmethod
    def _row(row: dict[int, Any]) -> str:
        if not row:
            return ""
        # a wide character takes two cells, and the second one has no data
        return "".join(row[x].data if x in row else " " for x in range(max(row) + 1)).rstrip()

    def text(self) -> str:
        return "\n".join(self.lines()).rstrip()

    def is_at_work(self) -> bool:
        """Whether the main thread of the foreground program runs or is ready to run."""
        try:
            process = os.tcgetpgrp(self.process.child_fd)
            return Path(f"/proc/{process}/task/{process}/stat").read_text().rpartition(")")[2].split()[0] == "R"
        except OSError:
            return False

    def settle(self, seen: int = -1, quiet: float = 0.1) -> None:
        """Wait for more than ``seen`` characters of output in all, then until the program idles and writes nothing."""
        self.until(lambda _: len(self.raw) > seen)
        while not self.closed and (self.pump(quiet) or self.is_at_work()):
            pass

    def until(self, is_so: Callable[[str], bool], seconds: float = 60.0) -> str:
        """Wait until ``is_so(shown)`` is true for the text of the scrollback and the screen; return this text."""
        end = time.monotonic() + seconds
        shown = self.text()
        while not is_so(shown):
            assert time.monotonic() < end, f"the condition did not hold within {seconds} s:\n{shown}"
            assert not self.closed, f"the program ended:\n{shown}"
            if self.pump(0.05) or self.closed:  # reading the screen takes most of the time
                shown = self.text()
        return shown

    def wait_for(self, text: str) -> None:
        """Wait until the screen shows ``text``."""
        self.until(lambda shown: text in shown)

    def wait_for_last(self, text: str) -> None:
        """Wait until the last line that is not empty is ``text``."""
        self.until(lambda shown: shown.rpartition("\n")[2] == text)

    def wait_for_prompt(self, number: int) -> None:
        """Wait until the prompt with this number is on the screen: ``in [number]:``, or ``in [number] jvp:1 ›``."""
        self.wait_for(f"in [{number}]")
        self.number = number
        self.settle()

    def enter(self, line: str = "") -> str:
        """Type a line, wait for the next prompt, and return the screen from that line on."""
        self.send(line + "\r")
        self.wait_for_prompt(self.number + 1)
        return self.since(self.number - 1)

    def since(self, number: int) -> str:
        """The text after the last prompt with this number."""
        return self.text().rpartition(f"in [{number}]")[2]

    def leave(self) -> int:
        """Press Ctrl-D and return the exit code."""
        self.send("\x04")
        return self.ended()

    def until_end(self) -> None:
        """Wait until the program has ended and all its output is on the screen."""
        end = time.monotonic() + 60
        while not self.closed:
            assert time.monotonic() < end, f"the program still runs:\n{self.text()}"
            self.pump(0.1)
        self.process.wait()

    def ended(self) -> int:
        """Wait until the program has ended, and return its exit code."""
        self.until_end()
        self.process.close()
        code = self.process.exitstatus
        assert code is not None, f"killed by signal {self.process.signalstatus}"
        return code
