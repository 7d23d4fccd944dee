"""Makes Ctrl-C work where Python alone would miss it.

XLA ignores signals, and Python handles none until XLA returns. So another thread calls XLA, and the prompt waits for it
in a way that a signal can interrupt. XLA then finishes in the background, and its result is dropped.

An interrupt in a finalizer is repeated, because Python drops the exception there. CPython 3.11 also overlooks one in a
hundred signals that arrive right after a print, until a thread has taken the interpreter's lock, so one takes it often.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from minijax.backend import pjrt

# Seconds until a dropped interrupt is repeated, and until an overlooked one is seen.
AGAIN = 0.1

_working: set[threading.Thread] = set()


def elsewhere(work: Callable[[], Any]) -> Any:
    """Run ``work()`` on another thread; return its result or raise its error. An interrupt does not stop the thread."""
    if threading.current_thread() is not threading.main_thread():
        return work()  # signals interrupt only the main thread
    results: list[Any] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            _working.discard(thread)
            done.set()

    thread = threading.Thread(target=run, name="minijax-compile", daemon=True)
    _working.add(thread)
    try:
        thread.start()  # waits until the thread runs, which may be after XLA has read the program
        # A signal that arrives while XLA holds the interpreter's lock wakes no thread, so the main thread polls.
        while not done.wait(AGAIN):
            pass
    except KeyboardInterrupt:
        # raise a new exception, whose traceback leads to the user's line and not into this module
        raise KeyboardInterrupt from None
    if errors:
        raise errors[0]
    return results[0]


def abandoned() -> bool:
    """Whether XLA still works on an interrupted call. If so, Python cannot shut down normally."""
    return bool(_working)


class _Nudge(threading.Thread):
    """Takes the interpreter's lock every ``AGAIN`` seconds while ``running`` is set, until ``leave()``."""

    def __init__(self) -> None:
        super().__init__(name="minijax-interrupts", daemon=True)
        self.running = threading.Event()
        self._left = False

    def run(self) -> None:
        while not self._left:
            self.running.wait()
            time.sleep(AGAIN)

    def leave(self) -> None:
        self._left = True
        self.running.set()


@contextlib.contextmanager
def session() -> Iterator[threading.Event]:
    """A context in which compilations can be interrupted. While the yielded event is set, no interrupt is lost."""
    before, pjrt.run_elsewhere = pjrt.run_elsewhere, elsewhere
    hook = sys.unraisablehook
    nudge = _Nudge()

    def unraisable(dropped: Any) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            # interrupt later, because here Python would drop it again; by a signal, because that also ends a sleep
            main = threading.main_thread().ident
            assert main is not None
            again = threading.Timer(AGAIN, signal.pthread_kill, (main, signal.SIGINT))
            again.daemon = True
            again.start()
        else:
            hook(dropped)

    sys.unraisablehook = unraisable
    nudge.start()
    try:
        yield nudge.running
    finally:
        nudge.leave()
        pjrt.run_elsewhere = before
        sys.unraisablehook = hook


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
