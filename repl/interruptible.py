"""Compilation that Ctrl-C interrupts.

XLA does not look at signals, and Python handles none until XLA returns. So the prompt lets another thread call XLA and
waits for it, which a signal can interrupt. XLA then finishes in the background what nobody waits for any more.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from minijax.backend import pjrt

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
        done.wait()
    except KeyboardInterrupt:
        # raised anew: the traceback leads to the user's line, and not into this machinery
        raise KeyboardInterrupt from None
    if errors:
        raise errors[0]
    return results[0]


def abandoned() -> bool:
    """Whether XLA is still at work on something that was interrupted: Python cannot then end in its usual way."""
    return bool(_working)


@contextlib.contextmanager
def compilation() -> Iterator[None]:
    """While this lasts, compilations can be interrupted."""
    before, pjrt.run_elsewhere = pjrt.run_elsewhere, elsewhere
    try:
        yield
    finally:
        pjrt.run_elsewhere = before


def flush() -> None:
    """Write out what is buffered."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
