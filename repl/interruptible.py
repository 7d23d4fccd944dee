"""Ctrl-C where Python alone would not hear it.

XLA does not look at signals, and Python handles none until XLA returns. So the prompt lets another thread call XLA and
waits for it, which a signal can interrupt. XLA then finishes in the background what nobody waits for any more.

Python handles a signal before the next line of Python that runs. While the garbage collector is at work that is often
a line of some object's finalizer, where an exception is reported and dropped. An interrupt that is lost so is repeated.

CPython can also overlook a signal that has come: with 3.11, one in a hundred that come right after something was
printed. It looks again when another thread has had the interpreter's lock; so one takes it now and then.
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

# Seconds after which an interrupt that was dropped is repeated, and one that was overlooked is seen.
AGAIN = 0.1

_working: set[threading.Thread] = set()


def elsewhere(work: Callable[[], Any]) -> Any:
    """What ``work()`` returns or raises; it runs on a thread of its own, and an interrupt leaves it there."""
    if threading.current_thread() is not threading.main_thread():
        return work()  # only the main thread is interrupted by signals
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
        thread.start()  # waits until the thread runs, which may be when XLA has read the program
        # A signal that came while XLA held the interpreter's lock wakes nobody: the main thread looks by itself.
        while not done.wait(AGAIN):
            pass
    except KeyboardInterrupt:
        # raised anew: the traceback leads to the user's line, and not into this machinery
        raise KeyboardInterrupt from None
    if errors:
        raise errors[0]
    return results[0]


def abandoned() -> bool:
    """Whether XLA is still at work on something that was interrupted: Python cannot then end in its usual way."""
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
    """While this lasts, compilations can be interrupted, and no interrupt is lost while the event it gives is set."""
    before, pjrt.run_elsewhere = pjrt.run_elsewhere, elsewhere
    hook = sys.unraisablehook
    nudge = _Nudge()

    def unraisable(dropped: Any) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            # not at once: that would be in here, and dropped again; as a signal, for it ends a sleep too
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
    """Write out what is buffered."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
