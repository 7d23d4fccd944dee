"""In a real pseudo-terminal the stepper shows the golden screens, and restores the terminal when it ends."""

from __future__ import annotations

import re
import termios
from collections.abc import Iterator

import pytest

from tests.repl.screen import STEADY, Terminal

SIZES = {40: 20, 80: 24, 200: 40}
ENTER, ESCAPE, CTRL_C, CTRL_D = "\r", "\x1b", "\x03", "\x04"
SETUP = (
    "def f(x):\ry = sin(x) * 2.\rreturn y - x\r\r",
    "def bad(x): return sin(x) * missing",
    "import time; n = []; x = jnp.arange(3.)",
    # ``g`` is slow when it is traced for the first and for the third time
    "def g(x): n.append(1); print('tracing'); "
    "return [time.sleep(0.01) for _ in range(10**6)] if len(n) in (1, 3) else sin(x)",
)


class Stepping:
    """A session without colours that has run ``SETUP``."""

    def __init__(self, folder: str) -> None:
        env = {"XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder}
        self.terminal = Terminal("--color", "never", columns=80, rows=SIZES[80], env=env, program=STEADY)
        self.terminal.wait_for_prompt(1)
        for line in SETUP:
            self.terminal.enter(line)
        self.before = termios.tcgetattr(self.terminal.process.child_fd)

    def screen(self) -> str:
        """The stepper's current screen."""
        assert self.terminal.screen.alternate
        return "\n".join(each.rstrip() for each in self.terminal.screen.display)

    def keys(self, keys: str, wait_for: str) -> str:
        """Press keys, wait until the screen shows ``wait_for``, and return the screen."""
        self.terminal.send(keys)
        self.terminal.wait_for(wait_for)
        self.terminal.settle()  # the terminal may get the rest of the screen later
        return self.screen()

    def open(self, line: str, wait_for: str = "? keys") -> str:
        """Type a line that opens the stepper."""
        return self.keys(line + ENTER, wait_for)

    def resize(self, columns: int) -> None:
        if columns != self.terminal.screen.columns:
            self.terminal.resize(columns, SIZES[columns])

    def leave(self, key: str = "q") -> str:
        """Press a key that ends the stepper, check that the terminal is restored, and return the text at the prompt."""
        self.terminal.send(key)
        self.terminal.wait_for_prompt(self.terminal.number + 1)
        assert not self.terminal.screen.alternate and not self.terminal.screen.cursor.hidden
        assert "━" not in self.terminal.text()
        assert termios.tcgetattr(self.terminal.process.child_fd) == self.before
        return self.terminal.since(self.terminal.number - 1)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stepping]:
    stepping = Stepping(str(tmp_path_factory.mktemp("stepper")))
    yield stepping
    # bold and reverse video are the only attributes
    used = {code for codes in re.findall(r"\x1b\[([\d;]+)m", stepping.terminal.raw) for code in codes.split(";")}
    assert used <= {"0", "1", "7"}
    assert stepping.terminal.leave() == 0


@pytest.fixture
def stepping(session: Stepping) -> Iterator[Stepping]:
    session.resize(80)
    yield session
    assert "in [1]: def f(x):" in session.terminal.text()  # the scrollback is unchanged


@pytest.mark.parametrize("columns", [80, 200])
def test_a_session_steps_searches_and_returns(columns, stepping, golden):
    """Step into and over; search, bookmarks and help; go to the end and back; step back from an error."""
    stepping.resize(columns)
    screens = [stepping.open("%step grad(f)(3.)", " 2/40")]
    assert sum("▶" in each.split("│")[0] for each in screens[0].split("\n")) >= 1
    screens.append(stepping.keys("s", "3/40"))
    screens.append(stepping.keys("n", "4/40"))
    screens.append(stepping.keys("/mul a b" + ENTER, "8/40"))
    stepping.keys("ma", "bookmark a is here")
    screens.append(stepping.keys("?", "━ keys · ? closes"))
    screens.append(stepping.keys("?G", "40/40"))
    assert stepping.keys("'a", "8/40") == screens[3]
    assert stepping.keys("b" * 6, " 2/40") == screens[0]
    assert "Array(-2.979985" in stepping.leave()
    # after an error, the stepper opens where it was raised and can step back from there
    screens.append(stepping.open("%step grad(bad)(3.)", "NameError"))
    stepping.keys("b", "done linearize:1 sin(x)")
    screens.append(stepping.keys("bbb", "into linearize:1 ta"))
    assert "NameError: name 'missing' is not defined" in stepping.leave()
    # without %step, the prompt says how to see where the same line failed
    assert "%step runs it again, recorded" in stepping.terminal.enter("grad(bad)(3.)")
    stepping.open("%step", "was run again")
    stepping.leave()
    text = "\n".join(f"{each}\n{'=' * columns}" for each in screens)
    # hide line numbers in minijax's own files
    hidden = re.sub(r"(?<=\.py:)\d{2,}|(?<=│ )\d{2,}(?= )", lambda found: "#" * len(found[0]), text)
    golden(f"screens/stepper_{columns}.txt", hidden)


def test_a_resized_terminal_is_redrawn(stepping):
    stepping.open("%step grad(f)(3.)", " 2/40")
    first = stepping.keys("s", "3/40")
    for columns, word in ((40, "[1 tree]"), (200, "─ 5 rule"), (80, "[2 source]")):
        stepping.resize(columns)
        stepping.terminal.until(lambda _, word=word: word in stepping.screen() and "3/40" in stepping.screen())
    stepping.terminal.until(lambda _: stepping.screen() == first)
    for rows, columns in ((1, 3), (5, 200)):
        stepping.terminal.resize(columns, rows)
    stepping.resize(80)
    assert stepping.keys("s", "4/40")
    stepping.leave()


def test_every_exit_key_restores_the_terminal(stepping):
    for key in (ESCAPE, CTRL_C, CTRL_D):
        stepping.open("%step f(3.)")
        stepping.keys("/", "search:")
        stepping.keys(CTRL_C, "? keys")  # this Ctrl-C closes only the search
        stepping.leave(key)


def test_ctrl_c_interrupts_recording_and_retracing(stepping):
    terminal = stepping.terminal
    terminal.send("%step jit(g)(1.)\r")
    terminal.wait_for_last("tracing")
    terminal.send(CTRL_C)
    assert "KeyboardInterrupt" in stepping.keys("", "? keys")  # the recording up to the interrupt opens
    assert "interrupted at <minijax-4>:1" in stepping.leave()
    terminal.enter("h = jit(g); h(1.);")
    stepping.open("%step h(1.)", "came from a cache")
    stepping.keys("g", "the beginning")
    assert "R traces it again" in stepping.keys("s", "came from a cache")
    stepping.keys("ma", "bookmark a is here")
    terminal.send("R")
    terminal.wait_for_last("tracing")
    terminal.send(CTRL_C)
    assert "this is the recording as it was" in stepping.keys("", "interrupted;")
    stepping.keys("R", "recorded again")
    assert "no bookmark" not in stepping.keys("'a", " 1/")
    assert "jit:1 sin" in stepping.keys("Psin\r", "into jit:1 sin")
    stepping.leave()
    # the scrollback has the output of the calls: one line for each trace
    assert sum(each.endswith("tracing") for each in terminal.lines()) == 4
    assert "]: 4" in terminal.enter("len(n)")


def marked(screen: str) -> list[str]:
    """The marked rows of the tree."""
    return [row for row in screen.split("\n")[:14] if "▶" in row]


def test_the_mouse_selects_a_row_of_the_tree(stepping):
    stepping.open("%step grad(f)(3.)", " 2/40")
    rows = stepping.screen().split("\n")
    there = next(i for i, row in enumerate(rows) if "cos(3.0)" in row and "▶" not in row)
    assert "begins for f" in stepping.screen()
    stepping.terminal.send(f"\x1b[<0;8;{there + 1}M\x1b[<0;8;{there + 1}m")
    stepping.terminal.until(lambda _: ["cos(3.0)" in row for row in marked(stepping.screen())] == [True])
    # the wheel scrolls the pane under the pointer: 65 turns down, 64 up
    for button, is_there in ((65, False), (64, True)):
        stepping.terminal.send(f"\x1b[<{button};8;{there + 1}M")
        stepping.terminal.until(lambda _, is_there=is_there: ("begins for f" in stepping.screen()) == is_there)
    stepping.leave()


def test_the_browser_of_stages_opens_in_the_terminal(stepping):
    screen = stepping.open("%passes f(x) --open")
    assert "passes f(x)" in screen and "optimised HLO" in screen and "y = sin(x) * 2." in screen
    assert "multiply" in stepping.keys("1g\x1b[B", "L2")
    assert "jaxpr" in stepping.keys("3g", "1/")
    stepping.resize(200)
    stepping.terminal.wait_for("━ 3 stages")
    stepping.leave()
