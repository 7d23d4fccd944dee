"""The terminal is given back as it was found, also when a signal ends the program while a prompt is shown.

At a prompt the terminal is in raw mode, and a full screen hides the scrollback. prompt_toolkit undoes that when it
is left in an orderly way; a SIGTERM is not orderly.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

try:
    import termios
except ImportError:  # no such terminals on this system
    termios = None  # type: ignore[assignment]

# What a prompt may have turned on: the alternate screen, bracketed paste, mouse reports, application cursor keys,
# styles; and what it may have turned off: the cursor, wrapping.
_ORDERLY = "\x1b[?1049l\x1b[?2004l\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1l\x1b>\x1b[0m\x1b[?25h\x1b[?7h"
_SIGNALS = tuple(
    number for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if (number := getattr(signal, name, None)) is not None
)


def attributes() -> Any:
    """How the terminal is set, or None if standard input is none."""
    if termios is None:
        return None
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        return None


def restore(before: Any) -> None:
    """Set the terminal as ``before``, which ``attributes`` gave, and undo what escape codes did."""
    with contextlib.suppress(OSError, ValueError):
        # Not through sys.stdout: the signal may have come while that was writing.
        os.write(sys.stdout.fileno(), _ORDERLY.encode())
    if termios is not None and before is not None:
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """While this lasts, a signal that ends the program restores the terminal first.

    Only signals that nobody handles yet are taken, only on the main thread, and they end the program as they always
    do: whoever started it sees which signal it was.
    """
    before = attributes()
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        restore(before)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    taken = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def interruptible_screen() -> Iterator[None]:
    """While this lasts, Ctrl-C interrupts what the main thread does, although a full screen takes it for a key.

    Whoever else waits for the signal does not hear of it.
    """
    before = attributes()
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    handler, waked = signal.getsignal(signal.SIGINT), signal.set_wakeup_fd(-1)
    heard = [*before[:3], before[3] | termios.ISIG, *before[4:]]
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, heard)
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)
        signal.set_wakeup_fd(waked)
