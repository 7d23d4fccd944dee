"""Stand-ins for terminals: an output that remembers, and a program in a pseudo-terminal with a screen."""

from __future__ import annotations

import os
import re
import sys
import time

import pexpect
import pyte
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output

PROMPT = re.compile(r"in \[\d+\]: ")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>78])")


class RecordingOutput(Vt100_Output):
    """prompt_toolkit's terminal output, kept in memory."""

    def __init__(self, columns: int = 80, rows: int = 40) -> None:
        self.text = ""
        super().__init__(self, lambda: Size(rows=rows, columns=columns), term="xterm-256color")  # type: ignore[arg-type]

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("no file")

    def flush(self) -> None:
        self.text += "".join(self._buffer)
        self._buffer = []

    def printed(self) -> str:
        """What was printed, without escape codes; lines end in plain line breaks."""
        return _ESCAPE.sub("", self.text).replace("\r\n", "\n").replace("\r", "\n")


class Terminal:
    """A program in a pseudo-terminal, with a screen that understands what it writes."""

    def __init__(self, *arguments: str, columns: int = 80, rows: int = 40, env: dict[str, str] | None = None) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        environment |= {"TERM": "xterm-256color", **(env or {})}
        self.raw = ""
        self.screen = pyte.HistoryScreen(columns, rows, history=5000, ratio=1)
        self.stream = pyte.Stream(self.screen)
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "minijax.repl", *arguments],
            dimensions=(rows, columns),
            env=environment,
            encoding="utf-8",
            timeout=30,
        )

    def pump(self, seconds: float = 0.2) -> None:
        """Take in what the program writes, and answer its questions about the cursor."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                data = self.process.read_nonblocking(65536, 0.02)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                return
            self.raw += data
            self.stream.feed(data)
            if "\x1b[6n" in data:
                cursor = self.screen.cursor
                self.process.send(f"\x1b[{cursor.y + 1};{cursor.x + 1}R")

    def send(self, text: str) -> None:
        self.process.send(text)

    def lines(self) -> list[str]:
        """The scrollback and the screen, as text."""
        width = self.screen.columns
        above = ["".join(row[x].data for x in range(width)).rstrip() for row in self.screen.history.top]
        return above + [line.rstrip() for line in self.screen.display]

    def text(self) -> str:
        return "\n".join(self.lines()).rstrip()

    def wait_for(self, text: str, seconds: float = 30.0) -> None:
        """Until the screen shows ``text``."""
        end = time.monotonic() + seconds
        while text not in self.text():
            assert time.monotonic() < end, f"no {text!r} within {seconds} s on\n{self.text()}"
            assert self.process.isalive() or text in self.text(), f"it ended:\n{self.text()}"
            self.pump(0.05)

    def wait_for_prompt(self, number: int) -> None:
        """Until the prompt ``in [number]:`` is the last thing on the screen."""
        self.wait_for(f"in [{number}]:")
        self.pump(0.1)

    def type(self, line: str, number: int) -> None:
        """Type a line; until the prompt of ``number`` comes."""
        self.send(line + "\r")
        self.wait_for_prompt(number)

    def leave(self) -> int:
        """Ctrl-D; the exit code."""
        self.send("\x04")
        return self.ended()

    def ended(self) -> int:
        """The exit code, once the program has ended."""
        end = time.monotonic() + 20
        while self.process.isalive() and time.monotonic() < end:
            self.pump(0.1)
        self.pump(0.1)
        self.process.close()
        code = self.process.exitstatus
        assert code is not None, f"killed by signal {self.process.signalstatus}"
        return code
