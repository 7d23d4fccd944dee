"""The program in a real pseudo-terminal: a session as a person would have it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repl.screen import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    program = Terminal(env={"XDG_STATE_HOME": str(tmp_path)})
    yield program
    program.process.close(force=True)


def test_a_session(terminal: Terminal, tmp_path: Path):
    terminal.wait_for_prompt(1)
    assert "minijax 0." in terminal.lines()[0] and "Ctrl-D leaves" in terminal.lines()[1]
    terminal.type("def f(x): return sin(x) * 2. - x", 2)
    terminal.type("grad(f)(3.)", 3)
    shown = terminal.text()
    assert "out[2]: Array(-2.979985, dtype=float32, weak_type=True)" in shown
    assert " stack    eval ▸ linearize:1" in shown
    assert "deepest; 2 levels" in shown
    assert " jaxpr    linear part of f · 3 equations" in shown
    terminal.type("jit(f)(3.)", 4)
    shown = terminal.text()
    assert " hlo      3 StableHLO ops → 1 fusion" in shown
    assert " cache    miss f: first call" in shown
    assert "compile" in shown and "run" in shown
    terminal.type("jit(f)(4.)", 5)
    assert " cache    hit f" in terminal.text()
    terminal.type("%grad f(3.) --check", 6)
    assert "agrees with finite differences" in terminal.text()
    # an input in several lines, with the indentation typed by the program
    terminal.send("def g(x):\r")
    terminal.wait_for("   ...:")
    terminal.send("return f(x) ** 2\r\r")
    terminal.wait_for_prompt(7)
    terminal.type("vmap(grad(g))(jnp.arange(3.))", 8)
    assert "eval ▸ vmap:1 ▸ linearize:2" in terminal.text()
    # colour: the jaxpr's primitives are bold blue, and the prompt is coloured
    assert "\x1b[0;34;1m" in terminal.raw or "\x1b[0;1;34m" in terminal.raw
    assert terminal.leave() == 0
    history = tmp_path / "minijax" / "history"
    assert history.stat().st_mode & 0o777 == 0o600
    kept = [json.loads(line) for line in history.read_text().splitlines()]
    assert kept[:2] == ["def f(x): return sin(x) * 2. - x", "grad(f)(3.)"] and len(kept) == 7


def test_ctrl_c_interrupts_and_loses_nothing(terminal: Terminal):
    terminal.wait_for_prompt(1)
    terminal.type("kept = 42", 2)
    terminal.type("def spin(n=[1]):\rwhile True: n and print('at work', n.pop())\r\r", 3)
    terminal.send("half typed \x03")
    terminal.wait_for_last("in [3]:")
    # in plain evaluation
    terminal.send("spin()\r")
    terminal.wait_for("\nat work 1")
    terminal.send("\x03")
    terminal.wait_for("interrupted at <minijax-2>:2")
    terminal.wait_for_prompt(4)
    # inside transformations
    terminal.type("def slow(x):\rprint('begun')\rwhile True: x = sin(x)\r\r", 5)
    terminal.send("jit(grad(slow))(1.)\r")
    terminal.wait_for("\nbegun")
    terminal.send("\x03")
    terminal.wait_for_prompt(6)
    # while printing
    terminal.send("for i in range(10**7): print(i)\r")
    terminal.wait_for("\n1000")
    terminal.send("\x03")
    terminal.wait_for("in [7]:")
    terminal.type("kept, float(grad(sin)(0.))", 8)
    assert "out[7]: (42, 1.0)" in terminal.text()
    assert terminal.leave() == 0


def test_completion_validation_and_suspension_of_a_line(terminal: Terminal):
    terminal.wait_for_prompt(1)
    terminal.send("jnp.linsp\t")
    terminal.wait_for("jnp.linspace")
    terminal.send("\x03%linea\t")
    terminal.wait_for("%linearize")
    terminal.send("\x03x = )\r")
    terminal.wait_for("unmatched ')'")
    terminal.send("\x03")
    terminal.type("6 * 7", 2)
    assert "out[1]: 42" in terminal.text()
    # what was typed before is offered in grey and taken with the right arrow
    terminal.send("6 ")
    terminal.wait_for("in [2]: 6 * 7")
    terminal.send("\x1b[C + 1\r")
    terminal.wait_for("out[2]: 43")
    assert terminal.leave() == 0


def test_resizing_and_a_narrow_screen(tmp_path: Path):
    terminal = Terminal(columns=40, rows=24, env={"XDG_STATE_HOME": str(tmp_path)})
    terminal.wait_for_prompt(1)
    terminal.type("jit(grad(lambda x: sin(x) * x))(2.)", 2)
    assert " stack    eval ▸ jit:1" in terminal.text()
    terminal.resize(100, 30)
    terminal.type("grad(sin)(1.)", 3)
    assert "deepest; 2 levels" in terminal.text()
    assert terminal.leave() == 0


def test_i_goes_on_with_a_prompt_that_has_the_names_of_a_file(tmp_path: Path):
    path = tmp_path / "script.py"
    path.write_text("def f(x): return x * start\nstart = 40\nf(undefined)\nstart = 1\n")
    terminal = Terminal("-i", str(path), env={"XDG_STATE_HOME": str(tmp_path)})
    terminal.wait_for_prompt(4)  # it stopped at the error
    assert "NameError: name 'undefined' is not defined" in terminal.text()
    terminal.type("f(2) + 4", 5)
    assert "out[4]: 84" in terminal.text()
    assert terminal.leave() == 0


def test_colours_can_be_turned_off(tmp_path: Path):
    for arguments, env in ((["--color", "never"], {}), ([], {"NO_COLOR": "1"})):
        terminal = Terminal(*arguments, env={"XDG_STATE_HOME": str(tmp_path), **env})
        terminal.wait_for_prompt(1)
        terminal.type("make_jaxpr(sin)(1.)", 2)
        assert "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }" in terminal.text()
        for code in range(30, 38):
            assert f"\x1b[0;{code}m" not in terminal.raw
        assert terminal.leave() == 0


def test_a_hangup_leaves_nothing_running(terminal: Terminal):
    terminal.wait_for_prompt(1)
    terminal.process.kill(signal.SIGHUP)
    terminal.until_end()


def test_leaks_are_traced_to_names_of_this_session(terminal: Terminal):
    terminal.wait_for_prompt(1)
    terminal.type("kept = []", 2)
    terminal.type("jit(lambda x: kept.append(x) or x)(1.)", 3)
    terminal.type("%leaks", 4)
    assert "held by  global kept → [0]" in terminal.text()
