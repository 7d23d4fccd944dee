"""Interrupts, suspension and death in a real pseudo-terminal: the session goes on, or the terminal is given back."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from minijax.repl import interruptible
from tests.repl.screen import Terminal

# What undoes bracketed paste, a hidden cursor and the alternate screen.
UNDONE = ("\x1b[?2004l", "\x1b[?25h")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    program = Terminal(env={"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    yield program
    program.process.close(force=True)


def modes(terminal: Terminal) -> list[object]:
    """The settings of the terminal's line discipline, but for its characters' timing."""
    return termios.tcgetattr(terminal.process.child_fd)[:4]


def test_ctrl_c_during_compilation(terminal: Terminal):
    """XLA needs many seconds for this program and looks at no signal; the prompt is back while it goes on."""
    terminal.wait_for_prompt(1)
    terminal.type("kept = 42", 2)
    terminal.type("def big(x):\rfor i in range(30000): x = sin(x) * (1.0 + i)\rreturn x\r\r", 3)
    terminal.type("low = jit(big).lower(1.)", 4)
    terminal.type("from minijax.backend import pjrt; from minijax.repl import interruptible", 5)
    said = "lambda work: interruptible.elsewhere(lambda: (print('at' + ' work'), work())[1])"
    terminal.type(f"pjrt.run_elsewhere = {said}", 6)  # when XLA's thread is there
    terminal.send("low.compile()\r")
    terminal.wait_for("at work")
    terminal.send("\x03")
    terminal.wait_for_prompt(7)
    assert "interrupted at <minijax-5>:1" in terminal.text()  # the line above is the innermost of the user's
    terminal.type("pjrt.run_elsewhere = interruptible.elsewhere", 8)
    terminal.type("kept, float(grad(sin)(0.)), float(jit(cos)(0.)), interruptible.abandoned()", 9)
    assert "out[8]: (42, 1.0, 1.0, True)" in terminal.text()
    assert terminal.leave() == 0


def test_ctrl_c_again_and_again(terminal: Terminal):
    terminal.wait_for_prompt(1)
    terminal.type("def slow(x, n):\rprint('at' + f' work {n}')\rwhile True: x = sin(x)\r\r", 2)
    for number in range(2, 6):
        lines = (f"jit(lambda x: slow(x, {number}))(1.)", f"vmap(grad(lambda x: slow(x, {number})))(jnp.ones(2))")
        line = (*lines, f"print('{number} words ' * 10**8)")[number % 3]
        terminal.send(line + "\r")
        # not before it runs; and while a text is being made, no signal stops the one write that follows
        terminal.wait_for(f"{number} words {number} words" if line.startswith("print") else f"at work {number}")
        terminal.send("\x03\x03")
        terminal.wait_for_prompt(number + 1)
    terminal.type("minijax.core.trace.stack_depth(), 6 * 7", 7)
    assert "(0, 42)" in terminal.text()
    assert terminal.leave() == 0


def test_ctrl_c_keeps_a_recording(terminal: Terminal):
    """The stepper opens on what was recorded until then, a second Ctrl-C or not; bare %step opens it again."""
    terminal.wait_for_prompt(1)
    loop = "x = sin(x)\rif x < 0.1 and not shown: shown.append(print('at' + ' work'))"
    terminal.type(f"def slow(x):\rwhile True:\r{loop}\r\r", 2)
    terminal.type("shown = []", 3)
    terminal.send("%step grad(slow)(1.)\r")
    terminal.wait_for("at work")
    terminal.send("\x03\x03")
    terminal.wait_for("interrupted at <minijax-1>:")
    terminal.wait_for("recorded until then")
    assert terminal.screen.alternate and "KeyboardInterrupt" in terminal.text()
    terminal.wait_for("▶")  # the program's lines are drawn below that
    assert any(line.startswith("▶") and ("sin(x)" in line or "shown" in line) for line in terminal.lines()), (
        terminal.text()
    )
    terminal.send("q")
    terminal.wait_for_prompt(4)
    terminal.send("%step\r")
    terminal.wait_for("1 tree")
    assert len([line for line in terminal.lines() if "at work" in line]) == 0 and terminal.screen.alternate
    terminal.send("q")
    terminal.type("float(grad(sin)(0.)), minijax.core.trace.stack_depth()", 6)
    assert "(1.0, 0)" in terminal.text()
    assert terminal.leave() == 0


def test_debuggers_start_in_the_users_frame(terminal: Terminal):
    """%debug after an error, breakpoint() while a function is traced, and pdb.pm()."""
    terminal.wait_for_prompt(1)
    terminal.type("def f(x):\ry = sin(x)\rif flag: breakpoint()\rreturn y @ jnp.ones(7)\r\r", 2)
    terminal.type("flag = False; vmap(jit(f))(jnp.ones((3, 4)))", 3)
    assert "%debug: its frame" in terminal.text()
    for number, line in ((3, "%debug"), (4, "import pdb; pdb.pm()"), (5, "flag = True; jit(f)(jnp.ones(4))")):
        terminal.send(line + "\r")
        terminal.wait_for(f"in [{number}]: {line}")
        terminal.wait_for_last("(Pdb)")
        assert "-> return y @ jnp.ones(7)" in terminal.text().rpartition(f"in [{number}]")[2]
        terminal.send(f"p 'y is', y.shape, {number}\r")
        terminal.wait_for(f"('y is', (4,), {number})")
        terminal.send("q\r")
        terminal.wait_for_prompt(number + 1)
    assert terminal.leave() == 0


def test_ctrl_c_right_after_enter(terminal: Terminal):
    """The terminal still makes a key of it, which the prompt reads together with Enter."""
    terminal.wait_for_prompt(1)
    terminal.send("while True: pass\rlost\x03")
    terminal.wait_for("interrupted before it ran")
    terminal.send("6 * 7\r")
    terminal.wait_for("out[1]: 42")
    terminal.wait_for_prompt(2)  # Ctrl-D before it would be the end of a line that nobody reads
    assert "lost" not in terminal.text()
    assert terminal.leave() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("moment", ["prompt", "running"])
def test_killed_by_a_signal_it_gives_the_terminal_back(terminal: Terminal, number: signal.Signals, moment: str):
    before = modes(terminal)  # the program has not come so far yet
    terminal.wait_for_prompt(1)
    assert modes(terminal) != before
    if moment == "running":
        terminal.send("print('at' + ' work')\x1b\rwhile True: pass\r\r")
        terminal.wait_for("at work")
    seen = len(terminal.raw)
    terminal.process.kill(number)
    terminal.until_end()
    assert terminal.process.signalstatus == number
    assert modes(terminal) == before
    if moment == "prompt":
        assert all(code in terminal.raw[seen:] for code in UNDONE)
    assert terminal.raw.rfind("\x1b[?2004h") < terminal.raw.rfind("\x1b[?2004l")
    assert terminal.raw.rfind("\x1b[?25l") < terminal.raw.rfind("\x1b[?25h")
    assert "\x1b[?1049h" not in terminal.raw  # the prompt is inline: the scrollback is the user's
    assert "Traceback" not in terminal.text()


def test_leaving_gives_the_terminal_back(terminal: Terminal):
    before = modes(terminal)
    terminal.wait_for_prompt(1)
    assert terminal.leave() == 0
    assert terminal.raw.rfind("\x1b[?2004h") < terminal.raw.rfind("\x1b[?2004l")
    assert before[3] & termios.ECHO


def test_suspended_and_resumed_under_a_shell(tmp_path: Path):
    """Ctrl-Z at the prompt and while something runs; the shell has its terminal, ``fg`` has the session."""
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "TERM": "xterm-256color"}
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    env |= {"PS1": "shell> ", "PYTHONPATH": os.getcwd(), "PIPE": str(pipe)}
    shell = pexpect.spawn("bash", ["--norc", "-i"], env=env, encoding="utf-8", timeout=30, dimensions=(24, 80))

    def to_prompt(number: int) -> None:
        """Until the prompt has come and asked where the cursor is, which a terminal answers."""
        shell.expect(rf"in \[{number}\]")

    try:
        shell.expect_exact("shell> ")
        shell.sendline(f"export PROMPT_TOOLKIT_NO_CPR=1; {sys.executable} -m minijax.repl --color never")
        to_prompt(1)
        shell.send("kept = 6 * 7\r")
        to_prompt(2)
        shell.send("\x1a")
        shell.expect("Stopped")
        shell.expect_exact("shell> ")
        shell.sendline("stty -a | grep -o -- '-*icanon\\|-*echo '")
        assert shell.expect(["-icanon", "icanon"]) == 1
        shell.expect_exact("shell> ")
        shell.sendline("fg")
        to_prompt(2)
        shell.send("kept\r")
        shell.expect(r"out\[2\]: \S*42")
        to_prompt(3)
        # while something runs, here until somebody writes to the pipe, it is the terminal's own key
        shell.send("import os; print('at' + ' work', flush=True); open(os.environ['PIPE']).close(); print('awake')\r")
        shell.expect_exact("at work")
        shell.send("\x1a")
        shell.expect("Stopped")
        shell.expect_exact("shell> ")
        shell.sendline("fg")
        writer = os.open(pipe, os.O_RDWR)  # which waits for no reader
        shell.expect_exact("awake\r\n")
        os.close(writer)
        to_prompt(4)
        shell.send("\x04")
        shell.expect_exact("shell> ")
        shell.sendline("exit")
        shell.expect(pexpect.EOF)
    finally:
        shell.close(force=True)


def test_an_interrupt_that_did_not_wake_the_main_thread_is_seen(monkeypatch: pytest.MonkeyPatch):
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
