"""Interrupts that Python would drop or overlook. ``test_terminal`` sends interrupts to the program in a terminal."""

from __future__ import annotations

import _thread
import signal
import sys
import threading

import pytest

from minijax.repl import interruptible


def test_an_interrupt_that_did_not_wake_the_main_thread_is_seen(monkeypatch):
    """One that another thread's handler took; so are those that come while XLA holds the interpreter's lock."""
    waits, ended = threading.Event(), threading.Event()

    class Waited(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout == interruptible.AGAIN:  # for the work, not any more for its thread to begin
                waits.set()
            return super().wait(timeout)

    def work() -> None:
        assert waits.wait(60), "nobody waits for the work"
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        ended.wait(60)

    monkeypatch.setattr(threading, "Event", Waited)
    try:
        with pytest.raises(KeyboardInterrupt), interruptible.session():
            interruptible.elsewhere(work)
        assert interruptible.abandoned()
    finally:
        ended.set()


def test_an_interrupt_in_a_finalizer_is_not_lost():
    """Python reports such an exception and drops it: the prompt repeats the interrupt, which ends a wait too."""

    class Closing:
        def __del__(self) -> None:
            _thread.interrupt_main()
            for _ in range(10):
                pass

    reports: list[object] = []
    before, sys.unraisablehook = sys.unraisablehook, reports.append
    try:
        with pytest.raises(KeyboardInterrupt), interruptible.session():
            Closing()
            assert threading.Event().wait(60), "nobody repeats the interrupt"
    finally:
        sys.unraisablehook = before
    assert reports == []
