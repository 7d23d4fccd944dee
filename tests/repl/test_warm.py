"""Modules are loaded while nobody types, in steps, and loading stops at once."""

from __future__ import annotations

import threading

from minijax.repl.warm import Warmer


def test_it_waits_until_nobody_types():
    asked: list[float | None] = []

    class Touched(threading.Event):  # ten keys, each before the time is over
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


def test_stopped_between_steps():
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


def test_a_step_that_fails_is_silent():
    for steps, done in ((lambda: 1 / 0, lambda: None), 0), ((lambda: None, lambda: None), 2):
        warmer = Warmer(steps, quiet=0.0)  # type: ignore[arg-type]
        warmer.start()
        warmer._thread.join(5)
        assert warmer.done == done
