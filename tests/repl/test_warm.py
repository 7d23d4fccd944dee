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
    done: list[float] = []
    warmer = Warmer((lambda: done.append(time.monotonic()),), quiet=0.6)
    warmer.start()
    for _ in range(10):
        time.sleep(0.03)
        warmer.busy()
    last = time.monotonic()
    warmer._thread.join(5)
    assert done and done[0] >= last + 0.5


def test_stopped_between_steps():
    begun, go_on = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        go_on.wait(5)

    done: list[int] = []
    warmer = Warmer((first, lambda: done.append(2)), quiet=0.0)
    warmer.start()
    assert begun.wait(5)
    threading.Timer(0.1, go_on.set).start()
    warmer.stop()
    assert not warmer._thread.is_alive() and done == [] and warmer.done == 1


def test_stopped_before_it_began():
    Warmer().stop()
    warmer = Warmer(quiet=60)
    warmer.start()
    begin = time.monotonic()
    warmer.stop()
    assert time.monotonic() - begin < 1 and warmer.done == 0


def test_a_step_that_fails_is_silent():
    warmer = Warmer((lambda: 1 / 0, lambda: None), quiet=0.0)  # type: ignore[arg-type, return-value]
    warmer.start()
    warmer._thread.join(5)
    assert warmer.done == 0


@pytest.mark.parametrize(("warm", "loaded"), [("true", "True"), ("false", "False")])
def test_at_a_terminal(tmp_path: Path, warm: str, loaded: str):
    (tmp_path / "minijax").mkdir()
    (tmp_path / "minijax" / "config.toml").write_text(f"warm = {warm}\n")
    terminal = Terminal(env={"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    terminal.wait_for_prompt(1)
    for number in range(1, 10):
        terminal.pump(2.5)  # the user thinks: long enough, unless the machine is busy
        terminal.type("import sys; [name in sys.modules for name in ('jaxlib', 'jax')]", number + 1)
        if f"[{loaded}, False]" in terminal.text():
            break
    else:
        pytest.fail(f"jaxlib and jax are loaded: never [{loaded}, False]\n{terminal.text()}")
    # the compiler's modules are there, but nothing has been decided about devices
    terminal.type("from minijax.backend import client; client.started() is None", number + 2)
    assert f"out[{number + 1}]: True" in terminal.text()
    assert terminal.leave() == 0


def test_leaving_at_once(tmp_path: Path):
    terminal = Terminal(env={"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    terminal.wait_for_prompt(1)
    terminal.pump(0.45)  # about when loading begins
    begin = time.monotonic()
    assert terminal.leave() == 0
    assert time.monotonic() - begin < 5 and "Traceback" not in terminal.text()
