"""The habits of IPython's prompt, typed in one session of ours in a real pseudo-terminal.

A habit is a list of steps: a line that is typed and entered, or keys with the text that the screen then shows.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.repl.screen import Terminal

ENTER, TAB, CTRL_C = "\r", "\t", "\x03"
# a step that gives up what has been typed
CLEAR = "what is typed is cleared"
SCRIPT = """\
import sys
def half(x):
    return x / 2
loaded = half(9.0)
print('given', sys.argv[1:], __name__)
"""
# what stands in the file that is edited, in capitals; the file goes on with what was asked for
EDITOR = """\
import os, sys
with open(sys.argv[1]) as file: before = file.read()
print('editing', before.strip().upper())
with open(sys.argv[1], 'w') as file: file.write('edited = 6 * 7\\nedited\\n')
"""
NESTED = (
    f"def inner(q):{ENTER}z = q + 1{ENTER}return z / 0{ENTER}",
    f"def outer(p):{ENTER}w = p * 2{ENTER}return inner(w){ENTER}",
)


def pasted(text: str) -> str:
    """What a terminal sends when this text is pasted."""
    return f"\x1b[200~{text}\x1b[201~"


def screen_of(keys: str, *shown: str) -> tuple[str, ...]:
    """Keys, and what is on the screen after them."""
    return (keys, *shown)


class Habit(NamedTuple):
    """``steps`` typed one after the other; ``shown`` by the end, and ``hidden`` never."""

    name: str
    steps: tuple[str | tuple[str, ...], ...]
    shown: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


HABITS = (
    Habit("run", ("%run script.py one --two", "loaded, half(3)"), ("given ['one', '--two'] __main__", ": (4.5, 1.5)")),
    Habit("run with the session's names", ("start = 40", "%run -i uses.py", "start"), (": 41",)),
    Habit("run what is not there", ("%run no.py",), ("no.py",)),
    Habit("shell", ("!echo hello $((40 + 2))",), ("hello 42",)),
    Habit("shell with values", ("n = 5", "!echo {n + 1} $n"), ("\n6 5",)),
    Habit("lines of the shell", ("got = !printf 'a\\nb\\n'", "len(got), got[1]"), (": (2, 'b')",)),
    Habit("exit code", ("!exit 3", "_exit_code"), (": 3",)),
    Habit("shell that asks", (screen_of("!read it; echo got $it" + ENTER), "me"), ("got me",)),
    Habit("semicolon", ("'a' + ' value'", "'ano' + 'ther';", "_ + '!'"), (": 'a value!'",), ("'another'",)),
    Habit("underscore and Out", ("6 * 7", "_ + 1, __name__"), (": (43, '__main__')",)),
    Habit("timeit", ("%timeit -n 10 -r 2 1 + 1",), ("±", "of 2 runs")),
    Habit("edit the last", ("'before'", "%edit", "edited"), ("editing 'BEFORE'", ": 42")),
    Habit("cd", ("%cd deeper", "!basename $(pwd)", "%cd -", "!ls deeper"), ("\ndeeper", "in_it")),
    Habit(
        "debug in the frame of the user's",
        (
            *NESTED,
            "outer(20)",
            screen_of("%debug" + ENTER, "return z / 0"),
            screen_of("p z * 100" + ENTER, "\n4100"),
            screen_of("up" + ENTER, "return inner(w)"),
            screen_of("p w * 10" + ENTER, "\n400"),
            screen_of("down" + ENTER, "inner"),
            screen_of("p q * 1000" + ENTER, "\n40000"),
            "q",
            "'back'",
        ),
        ("ZeroDivisionError", ": 'back'"),
    ),
    Habit(
        "debug inside a transformation",
        (
            f"def bad(x):{ENTER}kept = sin(x){ENTER}return kept * missing_name{ENTER}",
            "jit(grad(bad))(3.)",
            screen_of("%debug" + ENTER, "return kept * missing_name", "(Pdb)"),
            screen_of("p type(kept).__name__" + ENTER, "Tracer'"),
            screen_of("up" + ENTER, "jit(grad(bad))(3.)", "(Pdb)"),
            "q",
            "grad(sin)(0.)",
        ),
        ("Array(1., dtype=float32",),
    ),
    Habit(
        "pasted from Python's prompt",
        (pasted(">>> a = 1\n>>> for i in range(2):\n...     a += i\n...\n>>> a\n2"), "a * 100"),
        (": 200",),
        ("Error",),
    ),
    Habit("pasted indented", (pasted("    c = 3\n    if c:\n        c = 4\n"), "c * 100"), (": 400",), ("Error",)),
    Habit(
        "keywords of a call",
        (
            "def called(alpha, beta=2): return alpha + beta",
            screen_of("called(alp" + TAB, "called(alpha="),
            screen_of("3, be" + TAB, "beta="),
            "4)",
        ),
        (": 7",),
    ),
    Habit(
        "keys of a dictionary",
        (
            "fruit = {'apple': {'core': 100}}",
            screen_of("fruit['ap" + TAB, "fruit['apple']"),
            screen_of("['co" + TAB, "fruit['apple']['core']"),
            " + 1",
        ),
        (": 101",),
    ),
    Habit("attributes", ("word = 'x'", screen_of("word.isalp" + TAB, "word.isalpha"), CLEAR)),
    Habit("modules", (screen_of("import reprl" + TAB, "import reprlib"), CLEAR)),
    Habit("files", (screen_of("open('scri" + TAB, "open('script.py"), CLEAR)),
    Habit("files of the shell", (screen_of("!cat scri" + TAB, "!cat script.py"), ""), ("loaded = half(9.0)",)),
    Habit("commands", (screen_of("%linea" + TAB, "%linearize"), CLEAR)),
    Habit(
        "signature while typing",
        (
            "def called(alpha, beta=2): return alpha + beta",
            screen_of("called(", "called(alpha, beta=2)"),
            screen_of("1, beta=", "called(alpha, beta=2)"),
            CLEAR,
        ),
    ),
    Habit("help", ("def told(x):" + ENTER + "'''Says what.'''" + ENTER, "told?"), ("Says what.",)),
    Habit(
        "names that hide nothing",
        ("arange(3), float(linspace(0, 1, 3)[1])", "sum([1, 2]), max(3, 4), abs(-1), round(2.5), any([0]), all([])"),
        ("Array([0, 1, 2], dtype=int32), 0.5)", ": (3, 4, 1, 2, False, True)"),
    ),
    Habit(
        "interrupting the shell",
        (screen_of("!echo begun; sleep 60" + ENTER, "\nbegun"), CTRL_C, "'on'"),
        (": 'on'",),
        ("subprocess",),
    ),
)


class Typist:
    """A session at whose prompt habits are typed, one after the other."""

    def __init__(self, folder: Path) -> None:
        (folder / "script.py").write_text(SCRIPT)
        (folder / "uses.py").write_text("start += 1\n")
        (folder / "deeper").mkdir()
        (folder / "deeper" / "in_it").touch()
        (folder / "editor.py").write_text(EDITOR)
        places = ("HOME", "IPYTHONDIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
        env = dict.fromkeys(places, str(folder)) | {"EDITOR": f"{sys.executable} {folder / 'editor.py'}"}
        self.prompt = re.compile(r"in \[(\d+)\]:")
        self.terminal = Terminal("--color", "never", rows=40, env=env, cwd=str(folder))
        self.until(lambda shown: self.last_number(shown) == 1)

    def last_number(self, shown: str) -> int:
        """The number of the prompt that stands last, if nothing has been typed at it; else 0."""
        found = self.prompt.fullmatch(shown.rstrip().rpartition("\n")[2].strip())
        return int(found[1]) if found else 0

    def highest(self) -> int:
        """The number of the last prompt."""
        return max(int(each[1]) for each in self.prompt.finditer(self.terminal.text()))

    def until(self, is_so: Callable[[str], bool]) -> str:
        """The screen and the scrollback, when they show what is waited for."""
        end = time.monotonic() + 30
        while not is_so(shown := self.terminal.text()):
            assert time.monotonic() < end, f"after half a minute still\n{shown}"
            assert self.terminal.process.isalive(), f"it has ended:\n{shown}"
            self.terminal.pump(0.05)
        return shown

    def since(self, number: int) -> str:
        """What is shown from a prompt on."""
        found = [each for each in self.prompt.finditer(self.terminal.text()) if int(each[1]) == number]
        return self.terminal.text()[found[-1].start() :]

    def do(self, habit: Habit) -> str:
        """What the steps of a habit show."""
        first = self.last_number(self.until(lambda shown: bool(self.last_number(shown))))
        for step in habit.steps:
            if isinstance(step, tuple):
                self.terminal.send(step[0])
                self.until(lambda _, awaited=step[1:]: all(each in self.since(first) for each in awaited))
            else:
                before = self.highest()
                self.terminal.send(step if step == CTRL_C else CTRL_C if step == CLEAR else step + ENTER)
                after = before if step == CLEAR else before + 1
                self.until(lambda shown, after=after: self.last_number(shown) == after)
        return self.since(first)


@pytest.fixture(scope="module")
def type_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Habit], str]]:
    """What a habit shows in the one session."""
    begun: list[Typist] = []

    def do(habit: Habit) -> str:
        # a habit that fails leaves no session for the next one
        typist = begun.pop() if begun else Typist(tmp_path_factory.mktemp("habits"))
        try:
            shown = typist.do(habit)
        except BaseException:
            typist.terminal.process.close(force=True)
            raise
        begun.append(typist)
        return shown

    yield do
    for each in begun:
        each.terminal.process.close(force=True)


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.name)
def test_a_habit(habit: Habit, type_in: Callable[[Habit], str]):
    shown = type_in(habit)
    assert all(each in shown for each in habit.shown), shown
    assert not any(each in shown for each in habit.hidden), shown
