"""Habits from IPython's prompt, typed into one minijax session in a real pseudo-terminal.

A habit is a list of steps. A step is a line to type and enter, or keys and the texts to wait for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.repl.screen import Terminal

ENTER, TAB, CTRL_C = "\r", "\t", "\x03"
# as a step, this clears the line
CLEAR = "what is typed is cleared"
SCRIPT = """\
import sys
def half(x):
    return x / 2
loaded = half(9.0)
print('given', sys.argv[1:], __name__)
"""
# this editor prints the content of the file in capitals and replaces it by code
EDITOR = """\
import os, sys
with open(sys.argv[1]) as file: before = file.read()
print('editing', before.strip().upper())
with open(sys.argv[1], 'w') as file: file.write('edited = 6 * 7\\nedited\\n')
"""


def pasted(text: str) -> str:
    """The bytes that a terminal sends when this text is pasted."""
    return f"\x1b[200~{text}\x1b[201~"


class Habit(NamedTuple):
    """Type ``steps`` in order. The text since the first step has all of ``shown`` and none of ``hidden``."""

    name: str
    steps: tuple[str | tuple[str, ...], ...]
    shown: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


HABITS = (
    Habit("run", ("%run script.py one --two", "loaded, half(3)"), ("given ['one', '--two'] __main__", ": (4.5, 1.5)")),
    Habit("shell that asks", (("!echo asks; read it; echo got $it" + ENTER, "\nasks"), "me"), ("got me",)),
    Habit("edit the last", ("'before'", "%edit", "edited"), ("editing 'BEFORE'", ": 42")),
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
            ("called(alp" + TAB, "called(alpha="),
            ("3, be" + TAB, "beta="),
            "4)",
        ),
        (": 7",),
    ),
    Habit(
        "signature while typing",
        (
            "def called(alpha, beta=2): return alpha + beta",
            ("called(", "called(alpha, beta=2)"),
            ("1, beta=", "called(alpha, beta=2)"),
            CLEAR,
        ),
    ),
    Habit(
        "names that hide nothing",
        ("arange(3), float(linspace(0, 1, 3)[1])", "sum([1, 2]), max(3, 4), abs(-1), round(2.5), any([0]), all([])"),
        ("Array([0, 1, 2], dtype=int32), 0.5)", ": (3, 4, 1, 2, False, True)"),
    ),
    Habit(
        "interrupting the shell",
        (("!echo begun; sleep 60" + ENTER, "\nbegun"), CTRL_C, "'on'"),
        (": 'on'",),
        ("subprocess",),
    ),
)


def typed(terminal: Terminal, habit: Habit) -> str:
    """Type the steps of a habit and return the text since its first prompt."""
    first = terminal.number
    for step in habit.steps:
        if isinstance(step, tuple):
            terminal.send(step[0])
            terminal.until(lambda _, awaited=step[1:]: all(each in terminal.since(first) for each in awaited))
        elif step == CLEAR:
            terminal.send(CTRL_C)
            terminal.wait_for_last(f"in [{terminal.number}]:")
        elif step == CTRL_C:
            terminal.send(CTRL_C)
            terminal.wait_for_prompt(terminal.number + 1)
        else:
            terminal.enter(step)
    return terminal.since(first)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """The session in which all habits are typed."""
    folder = tmp_path_factory.mktemp("habits")
    files = {"script.py": SCRIPT, "editor.py": EDITOR, "deeper/in_it": ""}
    (folder / "deeper").mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    places = ("HOME", "IPYTHONDIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    env = dict.fromkeys(places, str(folder)) | {"EDITOR": f"{sys.executable} {folder / 'editor.py'}"}
    terminal = Terminal("--color", "never", rows=40, env=env, cwd=str(folder))
    try:
        terminal.wait_for_prompt(1)
        yield terminal
    finally:
        terminal.process.close(force=True)


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.name)
def test_a_habit_works_as_in_ipython(habit, terminal):
    shown = typed(terminal, habit)
    assert all(each in shown for each in habit.shown), shown
    assert not any(each in shown for each in habit.hidden), shown
