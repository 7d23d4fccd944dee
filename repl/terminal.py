"""Restores the terminal, even if a signal ends the program at a prompt.

A prompt puts the terminal in raw mode, and a full screen hides the scrollback. prompt_toolkit undoes both on a regular
exit, but not after a SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

# Resets the modes that a prompt may have set: the alternate screen, bracketed paste, mouse reports, application cursor
# keys, styles, a hidden cursor, no wrapping.
_ORDERLY = "\x1b[?1049l\x1b[?2004l\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1l\x1b>\x1b[0m\x1b[?25h\x1b[?7h"
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def attributes() -> Any:
    """The terminal's attributes, or None if standard input is no terminal."""
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        return None


def restore(before: Any) -> None:
    """Restore the terminal's attributes to ``before``, and undo modes that were set by escape codes."""
    with contextlib.suppress(OSError, ValueError):
        # Do not write through sys.stdout: the signal may have interrupted a write to it.
        os.write(sys.stdout.fileno(), _ORDERLY.encode())
    if before is not None:
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """A context in which a signal that ends the program restores the terminal first.

    The context handles only signals that have no handler, and only on the main thread. The signal still ends the
    program as usual, so the parent process sees which signal it was.
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
    """A context in which Ctrl-C interrupts the main thread, although full screens treat Ctrl-C as a key.

    In this context, other handlers of the signal do not receive it.
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
