"""The session of the product's mock, typed into a real pseudo-terminal at three widths: golden screens.

Phases take as long as they take: the program runs with one constant in place of every time, everything else is real.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repl.screen import Terminal

# The product's program, but for the clock: times would change where lines break.
STEADY = (
    "-c",
    "import sys; from minijax.tools.documents import words\n"
    "words.seconds_text.__code__ = (lambda seconds: '1.0 ms').__code__\n"
    "from minijax.repl.__main__ import main; sys.exit(main(sys.argv[1:]))",
)

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
# After so many inputs the terminal is made as wide as this, and the session goes on there.
RESIZED = {40: (14, 100), 80: (0, 0), 200: (12, 60)}


def normalised(text: str) -> str:
    """Without what may differ from one machine to the next; nothing changes its width."""
    return re.sub(r"(minijax|jax) (\d+\.\d+\.\d+)", lambda found: f"{found[1]} {'x' * len(found[2])}", text)


@pytest.mark.parametrize("width", RESIZED)
def test_the_mock_session(width: int, tmp_path: Path, golden: Callable[[str, str], None]):
    env = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "JAX_NUM_CPU_DEVICES": "1"}
    terminal = Terminal(columns=width, rows=200, env=env, program=STEADY)
    terminal.wait_for_prompt(1)
    after, wider = RESIZED[width]
    screens = []
    for number, line in enumerate(SESSION, 1):
        if number == after:
            screens.append(terminal.text())
            terminal.resize(wider, 200)
        terminal.type(line, number + 1)
    # the keys: a panel of the last line in full, folded away, and all of them
    for key, said in (("\x1bOS", "F4 again folds it away"), ("\x1bOS", "jaxpr: folded away"), ("\x1bOQ", "panels off")):
        terminal.send(key)
        terminal.wait_for(said)
    terminal.wait_for_last(f"in [{len(SESSION) + 1}]:")
    # what was on the screen before the change is cut by the stand-in for a terminal: it is in the first screen
    begin = f"in [{after}]" if after else "minijax"
    screens.append(begin + terminal.text().partition(begin)[2])
    assert terminal.leave() == 0
    golden(f"screens/session_{width}.txt", normalised("\n".join(screens)))
