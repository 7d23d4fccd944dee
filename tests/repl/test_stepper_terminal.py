"""The stepper in a real pseudo-terminal: whole sessions of stepping, golden screens, and the terminal given back."""

from __future__ import annotations

import re
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.repl.screen import Terminal

SIZES = {40: 20, 80: 24, 200: 40}
ENTER, ESCAPE, CTRL_C, CTRL_Z = "\r", "\x1b", "\x03", "\x1a"
# The product's program, but for the clock: times would change where lines end.
STEADY = (
    "-c",
    "import sys; from minijax.tools.documents import words\n"
    "words.seconds_text.__code__ = (lambda seconds: '1.0 ms').__code__\n"
    "from minijax.repl.__main__ import main; sys.exit(main(sys.argv[1:]))",
)
PROGRAM = ("def f(x):", "y = sin(x) * 2.", "return y - x")


class Stepping:
    """A program with ``f`` defined, whose terminal is looked at."""

    def __init__(self, folder: Path, columns: int, *arguments: str, program: tuple[str, ...] = STEADY) -> None:
        # nothing is loaded in the background: what is typed here needs nothing of it
        (folder / "minijax").mkdir(parents=True, exist_ok=True)
        (folder / "minijax" / "config.toml").write_text("warm = false\n")
        env = {"XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "COLORTERM": ""}
        self.terminal = Terminal(*arguments, columns=columns, rows=SIZES[columns], env=env, program=program)

    def begin(self) -> Stepping:
        self.terminal.wait_for_prompt(1)
        self.terminal.send(ENTER.join((*PROGRAM, "", "")))
        self.terminal.wait_for_prompt(2)
        self.before = termios.tcgetattr(self.terminal.process.child_fd)
        return self

    def screen(self) -> str:
        """What the stepper shows now."""
        assert self.terminal.screen.alternate
        return "\n".join(each.rstrip() for each in self.terminal.screen.display)

    def keys(self, keys: str, wait_for: str) -> str:
        """Press keys until the screen shows something; the screen then."""
        self.terminal.send(keys)
        self.terminal.wait_for(wait_for)
        self.terminal.settle(-1, 0.1)  # it may be shown before the rest of the screen is drawn
        return self.screen()

    def resize(self, columns: int) -> None:
        self.terminal.resize(columns, SIZES[columns])

    def left(self, number: int) -> None:
        """The prompt is back, the scrollback is as it was, and the terminal is set as before."""
        self.terminal.wait_for_prompt(number)
        assert not self.terminal.screen.alternate
        assert "in [1]: def f(x):" in self.terminal.text()
        assert "━" not in self.terminal.text() and "▶" not in self.terminal.text()
        assert not self.terminal.screen.cursor.hidden
        assert termios.tcgetattr(self.terminal.process.child_fd) == self.before


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Callable[..., Stepping]]:
    made: list[Stepping] = []

    def begin(columns: int, *arguments: str) -> Stepping:
        made.append(Stepping(tmp_path, columns, *arguments))
        return made[-1].begin()

    yield begin
    for each in made:
        each.terminal.process.close(force=True)


@pytest.mark.parametrize("columns", SIZES)
def test_a_session_of_stepping(columns: int, begun: Callable[..., Stepping], golden: Callable[[str, str], None]):
    """Into, over, to the end and back to the start; search, bookmarks and help; an error, and back from it."""
    stepping = begun(columns)
    screens = [stepping.keys("%step grad(f)(3.)" + ENTER, " 2/40")]
    screens.append(stepping.keys("s", "3/40"))
    screens.append(stepping.keys("n", "4/40"))
    screens.append(stepping.keys("/mul a b" + ENTER, "8/40"))
    assert "equation c" in screens[-1]
    stepping.keys("ma", "bookmark a is here")
    screens.append(stepping.keys("?", "━ keys · ? closes"))
    screens.append(stepping.keys("?G", "40/40"))
    assert stepping.keys("'a", "8/40") == screens[3]
    assert stepping.keys("b" * 6, " 2/40") == screens[0]
    for _ in range(38):
        stepping.terminal.send("s")
    assert stepping.keys("", "40/40") == screens[5]
    stepping.terminal.send("q")
    stepping.left(3)
    assert "Array(-2.979985" in stepping.terminal.text()
    # an error: the stepper opens where it was raised, and steps back from there
    stepping.terminal.type("def bad(x): return sin(x) * missing", 4)
    screens.append(stepping.keys("%step grad(bad)(3.)" + ENTER, "NameError"))
    stepping.keys("b", "done linearize:1 sin(x)")
    screens.append(stepping.keys("bbb", "into linearize:1 ta"))
    stepping.terminal.send("q")
    stepping.left(5)
    assert "NameError: name 'missing' is not defined" in stepping.terminal.text()
    # the same line without %step: the prompt says how to see where it failed
    stepping.terminal.type("grad(bad)(3.)", 6)
    assert "%step runs it again, recorded" in stepping.terminal.text()
    stepping.keys("%step" + ENTER, "input 5 was run again")
    stepping.terminal.send("q")
    stepping.left(7)
    assert stepping.terminal.leave() == 0
    text = "\n".join(f"{each}\n{'=' * columns}" for each in screens)
    # where a rule stands in minijax's own files is not what is tested
    hidden = re.sub(r"(?<=\.py:)\d{2,}|(?<=│ )\d{2,}(?= )", lambda found: "#" * len(found[0]), text)
    golden(f"screens/stepper_{columns}.txt", hidden)


def test_resizing_in_the_middle(begun: Callable[..., Stepping]):
    stepping = begun(80)
    stepping.keys("%step grad(f)(3.)" + ENTER, " 2/40")
    first = stepping.keys("s", "3/40")
    for columns, word in ((40, "[1 tree]"), (200, "─ 5 rule"), (40, "[1 tree]"), (80, "[2 source]")):
        stepping.resize(columns)
        assert word in stepping.screen() and "3/40" in stepping.screen()
        assert len(stepping.terminal.screen.display) == SIZES[columns]
    assert stepping.screen() == first
    for rows, columns in ((3, 12), (1, 3), (5, 200)):
        stepping.terminal.resize(columns, rows)
    stepping.resize(80)
    assert stepping.keys("s", "4/40")
    stepping.terminal.send("q")
    stepping.left(3)
    assert stepping.terminal.leave() == 0


def test_every_way_out_gives_the_terminal_back(begun: Callable[..., Stepping]):
    stepping = begun(80)
    for number, key in enumerate(("q", ESCAPE, CTRL_C, "\x04"), 3):
        stepping.keys("%step f(3.)" + ENTER, "? keys")
        stepping.keys("/", "search:")
        stepping.keys(CTRL_C, "? keys")  # leaves the question only
        stepping.terminal.send(key)
        stepping.left(number)
    stepping.terminal.type("6 * 7", 7)
    assert "out[6]: 42" in stepping.terminal.text()
    assert stepping.terminal.leave() == 0


def test_ctrl_c_while_it_records_and_while_it_retraces(begun: Callable[..., Stepping]):
    stepping = begun(80)
    terminal = stepping.terminal
    terminal.type("import time; n = []", 3)
    # slow when traced for the first and for the third time
    slow = "[time.sleep(0.01) for _ in range(10**6)]"
    terminal.type(f"def g(x): n.append(1); print('tracing'); return {slow} if len(n) in (1, 3) else sin(x)", 4)
    terminal.send("%step jit(g)(1.)\r")
    terminal.wait_for_last("tracing")
    terminal.send(CTRL_C)
    assert "KeyboardInterrupt" in stepping.keys("", "? keys")  # what was recorded until then is open at the interrupt
    terminal.send("q")
    stepping.left(5)
    assert "interrupted at <minijax-3>:1" in terminal.text()
    terminal.type("h = jit(g); h(1.);", 6)
    stepping.keys("%step h(1.)\r", "came from a cache")
    stepping.keys("g", "the beginning")
    assert "R traces it anew" in stepping.keys("s", "came from a cache")
    stepping.keys("ma", "bookmark a is here")
    terminal.send("R")
    terminal.wait_for_last("tracing")
    assert not terminal.screen.alternate
    terminal.send(CTRL_C)
    assert "this is the recording as it was" in stepping.keys("", "interrupted;")
    assert "no such moment" not in stepping.keys("R", "recorded again")
    assert "no bookmark" not in stepping.keys("'a", " 1/")
    assert "jit:1 sin" in stepping.keys("Psin\r", "into jit:1 sin")
    terminal.send("q")
    stepping.left(7)
    # what the calls printed stands where it was printed, once for each time that they were traced
    assert sum(each.endswith("tracing") for each in terminal.lines()) == 4
    terminal.type("len(n)", 8)
    assert "out[7]: 4" in terminal.text()
    assert terminal.leave() == 0


def test_without_colours_the_current_line_is_still_seen(begun: Callable[..., Stepping]):
    stepping = begun(80, "--color", "never")
    raw = len(stepping.terminal.raw)
    stepping.keys("%step grad(f)(3.)" + ENTER, " 2/40")
    stepping.keys("ss", "2/40")
    drawn = stepping.terminal.raw[raw:]
    used = {code for codes in re.findall(r"\x1b\[([\d;]+)m", drawn) for code in codes.split(";")}
    assert used == {"0", "1", "7"}  # nothing but bold and reverse video
    assert sum(each.startswith("▶") for each in stepping.screen().split("\n")) == 2
    stepping.terminal.send("q")
    stepping.left(3)


def test_a_killed_stepper_gives_the_terminal_back(begun: Callable[..., Stepping]):
    stepping = begun(80)
    stepping.keys("%step f(3.)" + ENTER, "? keys")
    stepping.terminal.process.kill(signal.SIGTERM)
    end = stepping.terminal
    end.until_end()
    assert not end.screen.alternate and not end.screen.cursor.hidden


def test_suspending_and_resuming(tmp_path: Path):
    """Under a shell with job control, as a person would."""
    shell = ("-c", "import os; os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])")
    stepping = Stepping(tmp_path, 80, program=shell)
    terminal = stepping.terminal
    try:
        terminal.send("PS1='shell> '\r")
        terminal.wait_for("\nshell>")
        terminal.send(f"clear; {sys.executable} -m minijax.repl --color never\r")
        stepping.begin()
        stepping.keys("%step f(3.)" + ENTER, "? keys")
        stepping.keys("g", "the beginning")
        screen = stepping.keys("s", "1/")
        terminal.send(CTRL_Z)
        terminal.wait_for("Stopped")
        terminal.pump(0.3)
        assert not terminal.screen.alternate and not terminal.screen.cursor.hidden
        assert "in [1]: def f(x):" in terminal.text()
        terminal.send("echo still $((40 + 2))\r")
        terminal.wait_for("still 42")
        terminal.send("fg\r")
        terminal.wait_for("? keys")
        terminal.pump(0.3)
        assert stepping.screen() == screen
        assert "2/" in stepping.keys("s", " 2/")
        terminal.send("q")
        terminal.wait_for_prompt(3)
        assert not terminal.screen.alternate
        terminal.send("\x04")
        terminal.wait_for("shell>")
    finally:
        terminal.process.close(force=True)


def wheel(stepping: Stepping, button: int, row: int) -> str:
    """The screen after a turn of the wheel, which is a button: 64 up, 65 down."""
    seen = len(stepping.terminal.raw)
    stepping.terminal.send(f"\x1b[<{button};8;{row + 1}M")
    stepping.terminal.settle(seen)
    return stepping.screen()


def test_the_mouse_goes_to_a_row_of_the_tree(begun: Callable[..., Stepping]):
    stepping = begun(80)
    stepping.keys("%step grad(f)(3.)" + ENTER, " 2/40")
    rows = stepping.screen().split("\n")
    there = next(i for i, row in enumerate(rows) if "cos(3.0)" in row and "▶" not in row)
    stepping.keys(f"\x1b[<0;8;{there + 1}M\x1b[<0;8;{there + 1}m", "cos(3.0)")
    (marked,) = (row for row in stepping.screen().split("\n")[:14] if "▶" in row)
    assert "cos(3.0)" in marked
    # the wheel scrolls the pane that it is over, and moves nothing: the mark is where it was when it comes back
    before = stepping.screen()
    assert "begins for f" in before and "begins for f" not in wheel(stepping, 65, there)
    assert wheel(stepping, 64, there) == before
    # a click on a pane's name opens it
    bar = next(i for i, row in enumerate(before.split("\n")) if "[2 source]" in row)
    column = before.split("\n")[bar].index("4 jaxpr") + 3
    assert "[2 source]" not in stepping.keys(f"\x1b[<0;{column};{bar + 1}M\x1b[<0;{column};{bar + 1}m", "[4 jaxpr]")
    stepping.terminal.send("q")
    stepping.left(3)


def test_the_browser_of_stages(begun: Callable[..., Stepping]):
    browsing = begun(80)
    browsing.terminal.type("x = jnp.arange(3.)", 3)
    screen = browsing.keys("%passes f(x) --open" + ENTER, "? keys")
    assert "passes f(x)" in screen and "optimised HLO" in screen and "y = sin(x) * 2." in screen
    assert "multiply" in browsing.keys("1g\x1b[B", "L2")
    assert "jaxpr" in browsing.keys("3g", "1/")
    browsing.resize(200)
    assert "━ 3 stages" in browsing.screen()
    browsing.resize(80)
    browsing.terminal.send("q")
    browsing.left(4)
    browsing.terminal.type("6 * 7", 5)
    assert browsing.terminal.leave() == 0
