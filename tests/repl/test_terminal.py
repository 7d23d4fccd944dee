"""The program in a real pseudo-terminal. A test that ends its session has its own; all other tests share one."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repl.screen import STEADY, Terminal

ENTER, CTRL_C, CTRL_Z = "\r", "\x03", "\x1a"
SCRIPT = "def f(x): return x * start\nstart = 40\nf(undefined)\nstart = 1\n"


def modes(terminal: Terminal) -> list[object]:
    """The settings of the terminal's line discipline, without its timing characters."""
    return termios.tcgetattr(terminal.process.child_fd)[:4]


def is_undone(terminal: Terminal) -> bool:
    """Whether bracketed paste, the hidden cursor and the alternate screen are all switched off."""
    pairs = (("\x1b[?2004h", "\x1b[?2004l"), ("\x1b[?25l", "\x1b[?25h"), ("\x1b[?1049h", "\x1b[?1049l"))
    return all(terminal.raw.rfind(on) <= terminal.raw.rfind(off) for on, off in pairs)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A session of ``minijax-repl -i script.py`` without colours. Its last prompt is empty between tests."""
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "script.py").write_text(SCRIPT)
    env = {"XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "NO_COLOR": "1"}
    terminal = Terminal("-i", str(folder / "script.py"), env=env, rows=60)
    before = modes(terminal)
    terminal.wait_for_prompt(4)  # the third input of the script raised an error
    yield terminal
    assert terminal.leave() == 0
    assert before[3] & termios.ECHO and is_undone(terminal)
    assert not any(f"\x1b[0;{code}m" in terminal.raw for code in range(30, 38))
    history = folder / "minijax" / "history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert len([json.loads(line) for line in history.read_text().splitlines()]) > 0


@pytest.fixture
def terminal(shared: Terminal) -> Iterator[Terminal]:
    yield shared
    assert "(0, 42)" in shared.enter("minijax.core.trace.stack_depth(), 6 * 7")


def test_a_session_has_the_names_of_its_file_and_shows_panels(terminal):
    assert "NameError: name 'undefined' is not defined" in terminal.text()
    assert f"out[{terminal.number}]: 84" in terminal.enter("f(2) + 4")
    shown = terminal.enter("jit(grad(lambda x: sin(x) * x))(2.)")
    assert "eval ▸ jit:1 ▸ linearize:2" in shown and "cache    miss" in shown
    terminal.resize(40, 60)
    assert " stack    eval ▸ linearize:1" in terminal.enter("grad(sin)(1.)")
    terminal.resize(80, 60)


def test_the_prompt_completes_validates_and_suggests(terminal):
    number = terminal.number
    terminal.send("jnp.linsp\t")
    terminal.wait_for("jnp.linspace")
    terminal.send(CTRL_C + "x = )\r")
    terminal.wait_for("unmatched ')'")
    terminal.send(CTRL_C)
    terminal.enter("10 * 7")
    # the prompt suggests an earlier input in grey; the right arrow accepts it
    terminal.send("10 ")
    terminal.wait_for(f"in [{number + 1}]: 10 * 7")
    assert f"out[{number + 1}]: 71" in terminal.enter("\x1b[C + 1")


SPIN = {
    "evaluation": "while True: print('at' + ' work') if not shown else shown.append(1)",
    "transformations": "jit(grad(slow))(1.)",
    "printing": "for i in range(10**7): print('at work', i)",
}


@pytest.mark.parametrize("where", SPIN)
def test_ctrl_c_interrupts_and_loses_nothing(terminal, where):
    terminal.enter("kept = 42; shown = []")
    terminal.enter("def slow(x):\rprint('at' + ' work')\rwhile True: x = sin(x)\r\r")
    terminal.send("half typed " + CTRL_C)
    seen = terminal.text().count("at work")
    terminal.send(SPIN[where] + ENTER * (2 if ":" in SPIN[where] else 1))
    terminal.until(lambda shown: shown.count("at work") > seen + (where == "printing") * 20)
    terminal.send(CTRL_C + CTRL_C)
    terminal.wait_for_prompt(terminal.number + 1)
    assert "(42, 1.0)" in terminal.enter("kept, float(grad(sin)(0.))")


def test_ctrl_c_returns_the_prompt_during_compilation(terminal):
    """XLA compiles this program for seconds and ignores signals. The prompt returns, and XLA continues."""
    # a program with three times as many operations would overflow XLA's stack and kill the process
    terminal.enter("def big(x):\rfor i in range(6000): x = sin(x) * (1.0 + i)\rreturn x\r\r")
    terminal.enter("low = jit(big).lower(1.)")
    terminal.enter("from minijax.backend import pjrt; from minijax.repl import interruptible")
    text = "lambda work: interruptible.elsewhere(lambda: (print('at' + ' compiling'), work())[1])"
    terminal.enter(f"pjrt.run_elsewhere = {text}")  # XLA's thread prints the text when it starts
    terminal.send("low.compile()\r")
    terminal.wait_for("at compiling")
    terminal.send(CTRL_C)
    terminal.wait_for_prompt(terminal.number + 1)
    assert "interrupted at <minijax-" in terminal.since(terminal.number - 1)
    terminal.enter("pjrt.run_elsewhere = interruptible.elsewhere")
    assert "(1.0, 1.0, True)" in terminal.enter("float(grad(sin)(0.)), float(jit(cos)(0.)), interruptible.abandoned()")


def test_ctrl_c_keeps_a_recording(terminal):
    """The stepper opens with what is recorded so far. Then %step without arguments opens the recording again."""
    loop = "x = sin(x)\rif x < 0.1 and not told: told.append(print('at' + ' recording'))"
    terminal.enter(f"def slow(x):\rwhile True:\r{loop}\r\r")
    terminal.enter("told = []")
    terminal.send("%step grad(slow)(1.)\r")
    terminal.wait_for("at recording")
    terminal.send(CTRL_C + CTRL_C)
    terminal.wait_for("recorded until then")
    terminal.wait_for("▶")  # the screen draws the program's lines after this mark
    assert terminal.screen.alternate and "KeyboardInterrupt" in terminal.text()
    terminal.send("q")
    terminal.wait_for_prompt(terminal.number + 1)
    terminal.send("%step\r")
    terminal.wait_for("1 tree")
    assert terminal.screen.alternate
    terminal.send("q")
    terminal.wait_for_prompt(terminal.number + 1)


def test_debuggers_start_in_the_users_frame(terminal):
    """The debuggers are %debug after an error, breakpoint() while a function is traced, and pdb.pm()."""
    terminal.enter("def clash(x):\ry = sin(x)\rif flag: breakpoint()\rreturn y @ jnp.ones(7)\r\r")
    assert "%debug: its frame" in terminal.enter("flag = False; vmap(jit(clash))(jnp.ones((3, 4)))")
    for line in ("%debug", "import pdb; pdb.pm()", "flag = True; jit(clash)(jnp.ones(4))"):
        number = terminal.number
        terminal.send(line + ENTER)
        terminal.wait_for(f"in [{number}]: {line}")
        terminal.wait_for_last("(Pdb)")
        assert "-> return y @ jnp.ones(7)" in terminal.since(number)
        terminal.send(f"p 'y is', y.shape, {number}\r")
        terminal.wait_for(f"('y is', (4,), {number})")
        terminal.send("q\r")
        terminal.wait_for_prompt(number + 1)


def test_ctrl_c_right_after_enter_stops_the_line(terminal):
    """Ctrl-C comes before the line runs, so the prompt reads Ctrl-C as a key, together with Enter."""
    terminal.send("while True: pass\rlost" + CTRL_C)
    terminal.wait_for("interrupted before it ran")
    assert f"out[{terminal.number}]: 63" in terminal.enter("7 * 9")


# --- separate sessions --------------------------------------------------------------------------------------


SESSION = (
    "def f(x): return sin(x) * 2. - x",
    "grad(f)(3.)",
    "jit(f)(3.)",
    "jit(f)(jnp.arange(3.))",
    "jit(f)(4.)",
    "%push jvp x=3. dx=1.",
    "y = sin(x)",
    "%push jaxpr z=f32[3]",
    "%pop z * y",
    "%pop y",
    "vmap(grad(f))(jnp.arange(3.))",
    "grad(lambda x: sin(f(x)) * 'text')(1.)",
    "f(1., 2.)",
    "jnp.arange(40.)",
    "x = 5",
    "%panels jaxpr time",
    "grad(f)(1.)",
)
# Before the line with this number, counted from 1, the terminal gets wider.
RESIZED, WIDER = 14, 100


def test_screens_of_a_whole_session_match_the_golden_file(tmp_path, golden):
    env = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "JAX_NUM_CPU_DEVICES": "1"}
    terminal = Terminal(columns=40, rows=200, env=env, program=STEADY)
    terminal.wait_for_prompt(1)
    screens = []
    for number, line in enumerate(SESSION, 1):
        if number == RESIZED:
            screens.append(terminal.text())
            terminal.resize(WIDER, 200)
        terminal.enter(line)
    # these keys unfold a panel of the last line, fold it again, and switch all panels off
    for key, note in (("\x1bOS", "F4 again folds it away"), ("\x1bOS", "jaxpr: folded away"), ("\x1bOQ", "panels off")):
        terminal.send(key)
        terminal.wait_for(note)
    terminal.wait_for_last(f"in [{len(SESSION) + 1}]:")
    # pyte loses the right part of rows from before the resize; the first of ``screens`` has those rows
    begin = f"in [{RESIZED}]"
    screens.append(begin + terminal.text().partition(begin)[2])
    assert "\x1b[0;34;1m" in terminal.raw or "\x1b[0;1;34m" in terminal.raw  # primitives are bold blue
    assert terminal.leave() == 0
    # replace digits of versions and frame counts by x, which keeps the width
    hidden = r"(?<=jax )\d+\.\d+\.\d+|\d+(?= frames of minijax)"
    shown = re.sub(hidden, lambda found: "x" * len(found[0]), "\n".join(screens))
    golden("screens/session_40.txt", shown)


@pytest.mark.parametrize(
    ("number", "moment"), [(signal.SIGTERM, "prompt"), (signal.SIGHUP, "running"), (signal.SIGTERM, "stepping")]
)
def test_a_signal_that_kills_the_program_restores_the_terminal(tmp_path, number, moment):
    terminal = Terminal(env={"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    before = modes(terminal)  # read before the program changes the modes
    terminal.wait_for_prompt(1)
    assert modes(terminal) != before
    if moment == "prompt":
        # while the prompt is idle, the compiler's modules are loaded, but no device client starts
        maps = Path(f"/proc/{terminal.process.pid}/maps")
        end = time.monotonic() + 60
        while "/jaxlib/" not in maps.read_text():
            assert time.monotonic() < end, f"jaxlib is not loaded within a minute:\n{terminal.text()}"
            terminal.pump(0.05)
        assert "[True, False]" in terminal.enter("import sys; [name in sys.modules for name in ('jaxlib', 'jax')]")
        assert "out[2]: True" in terminal.enter("from minijax.backend import client; client.started() is None")
    elif moment == "running":
        terminal.send("print('at' + ' work')\x1b\rwhile True: pass\r\r")
        terminal.wait_for("at work")
    else:
        terminal.send("%step sin(3.)\r")
        terminal.wait_for("? keys")
    terminal.process.kill(number)
    terminal.until_end()
    assert (terminal.process.signalstatus or terminal.process.exitstatus) is not None
    assert modes(terminal) == before and is_undone(terminal)
    assert not terminal.screen.alternate and not terminal.screen.cursor.hidden
    assert "Traceback" not in terminal.text()


def test_the_program_is_suspended_and_resumed_under_a_shell(tmp_path):
    """Ctrl-Z at the prompt, in the stepper and in running code; ``fg`` brings the session back."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "minijax").mkdir()
    (tmp_path / "minijax" / "config.toml").write_text("warm = false\n")
    env = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PIPE": str(pipe), "PS1": "shell> "}
    shell = ("-c", "import os; os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])")
    terminal = Terminal(program=shell, env=env)

    def suspend_and_resume() -> None:
        stopped = terminal.text().count("Stopped")
        terminal.send(CTRL_Z)
        terminal.until(lambda shown: shown.count("Stopped") > stopped and shown.endswith("shell>"))
        assert not terminal.screen.alternate and not terminal.screen.cursor.hidden
        # for the shell's commands the terminal is in line mode again
        terminal.send("[[ $(stty -a) == *' icanon'* ]] && fg\r")

    try:
        terminal.wait_for("shell>")
        terminal.send(f"{sys.executable} -m minijax.repl --color never\r")
        terminal.wait_for_prompt(1)
        suspend_and_resume()
        terminal.settle()
        terminal.enter("kept = 6 * 7")
        terminal.send("%step sin(3.)\r")
        terminal.wait_for("? keys")
        terminal.send("g")
        terminal.settle()
        screen = terminal.screen.display
        suspend_and_resume()
        terminal.wait_for("? keys")
        terminal.settle()
        assert terminal.screen.display == screen
        terminal.send("q")
        terminal.wait_for_prompt(3)
        # while code runs, the terminal handles Ctrl-Z; this code waits until somebody opens the pipe for writing
        terminal.send("import os; print('at' + ' work', flush=True); open(os.environ['PIPE']).close(); kept\r")
        terminal.wait_for("at work")
        suspend_and_resume()
        writer = os.open(pipe, os.O_RDWR)  # with O_RDWR this does not wait for a reader
        terminal.wait_for("out[3]: 42")
        os.close(writer)
        terminal.wait_for_prompt(4)
        terminal.send("\x04")
        terminal.wait_for_last("shell>")
    finally:
        terminal.process.close(force=True)
