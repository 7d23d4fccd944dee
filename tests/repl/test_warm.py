"""What is loaded while the user thinks: in quiet moments, in steps, and stopped at once."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from minijax.repl.warm import Warmer
from tests.repl.screen import Terminal


def test_every_step_in_order():
    done: list[int] = []
    warmer = Warmer((lambda: done.append(1), lambda: done.append(2)), quiet=0.01)
    warmer.start()
    warmer._thread.join(5)
    assert done == [1, 2] and warmer.done == 2


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


def test_stopped_before_it_began():
    Warmer().stop()
    warmer = Warmer(quiet=60)
    warmer.start()
    warmer.stop()
    assert not warmer._thread.is_alive() and warmer.done == 0


def test_a_step_that_fails_is_silent():
    warmer = Warmer((lambda: 1 / 0, lambda: None), quiet=0.0)  # type: ignore[arg-type, return-value]
    warmer.start()
    warmer._thread.join(5)
    assert warmer.done == 0


def until_jaxlib_is_loaded(terminal: Terminal) -> None:
    """While nobody types: until the program has a library of jaxlib's in its memory."""
    maps = Path(f"/proc/{terminal.process.pid}/maps")
    end = time.monotonic() + 60
    while "/jaxlib/" not in maps.read_text():
        assert time.monotonic() < end, f"jaxlib is not loaded within a minute:\n{terminal.text()}"
        assert terminal.process.isalive(), terminal.text()
        terminal.pump(0.02)


@pytest.mark.parametrize(("warm", "loaded"), [("true", "True"), ("false", "False")])
def test_at_a_terminal(tmp_path: Path, warm: str, loaded: str):
    (tmp_path / "minijax").mkdir()
    (tmp_path / "minijax" / "config.toml").write_text(f"warm = {warm}\n")
    terminal = Terminal(env={"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    terminal.wait_for_prompt(1)
    if warm == "true":
        until_jaxlib_is_loaded(terminal)
    terminal.type("import sys, threading; 'minijax-warm' in [each.name for each in threading.enumerate()]", 2)
    terminal.type("[name in sys.modules for name in ('jaxlib', 'jax')]", 3)
    assert f"out[2]: [{loaded}, False]" in terminal.text()
    if warm == "false":
        assert "out[1]: False" in terminal.text()  # nor will it be: nobody is there to do it
    # the compiler's modules are there, but nothing has been decided about devices
    terminal.type("from minijax.backend import client; client.started() is None", 4)
    assert "out[3]: True" in terminal.text()
    assert terminal.leave() == 0


def test_leaving_at_once(tmp_path: Path):
    terminal = Terminal(env={"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    terminal.wait_for_prompt(1)
    until_jaxlib_is_loaded(terminal)  # its modules, of which there are many, are being so
    assert terminal.leave() == 0
    assert "Traceback" not in terminal.text()
