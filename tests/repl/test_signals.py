"""No interrupt is lost, even where Python alone would lose it. Modules load while the prompt is idle."""

from __future__ import annotations

import _thread
import signal
import sys
import threading

import pytest

from minijax.repl import interruptible
from minijax.repl.warm import Warmer


def test_an_interrupt_taken_by_another_thread_is_not_lost(monkeypatch):
    """Ctrl-C interrupts although another thread gets the signal, or XLA holds the GIL."""
    waits, ended = threading.Event(), threading.Event()

    class Waited(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout == interruptible.AGAIN:  # the thread has started, and this call waits for its work
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
    """Python only reports an exception in ``__del__``. The prompt raises the interrupt again, also during a wait."""

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


def test_warming_waits_until_the_prompt_is_idle():
    asked: list[float | None] = []

    class Touched(threading.Event):  # as if ten keys came, each before the idle time is over
        def wait(self, timeout: float | None = None) -> bool:
            asked.append(timeout)
            return len(asked) <= 10

    done: list[int] = []
    warmer = Warmer((lambda: done.append(len(asked)),), quiet=0.6)
    warmer.busy()
    assert warmer._touched.is_set()
    warmer._touched = Touched()
    warmer.start()
    warmer._thread.join(60)
    assert done == [11] and asked == [0.6] * 11


def test_warming_stops_between_steps():
    begun = threading.Event()

    def first() -> None:
        begun.set()
        warmer._stopped.wait(60)

    done: list[int] = []
    warmer = Warmer((first, lambda: done.append(2)), quiet=0.0)
    warmer.start()
    assert begun.wait(5)
    warmer.stop()
    assert not warmer._thread.is_alive() and done == [] and warmer.done == 1


def test_a_failing_warming_step_is_silent():
    for steps, done in ((lambda: 1 / 0, lambda: None), 0), ((lambda: None, lambda: None), 2):
        warmer = Warmer(steps, quiet=0.0)  # type: ignore[arg-type]
        warmer.start()
        warmer._thread.join(5)
        assert warmer.done == done
