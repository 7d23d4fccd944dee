"""Many interrupts of a session in a pseudo-terminal, each of which must bring the prompt back.

Not part of the test run, for it takes as long as it is told to::

    python -m tests.repl.interrupts --count 500 --seed 1

What it looks for is rare: an interrupt that Python drops in a finalizer, or overlooks. ``minijax.repl.interruptible``
says more.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time

from tests.repl.screen import Terminal

SLOW = "def slow(x, n):\rprint('at' + f' work {n}')\rwhile True: x = sin(x)\r\r"
# Inputs of one session, so that what comes first in a session is met often.
INPUTS = 8


def one_session(count: int) -> int:
    """Interrupt up to ``INPUTS`` inputs at random moments; how many there were."""
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(env={"XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder})
        try:
            terminal.wait_for_prompt(1)
            terminal.type(SLOW, 2)
            numbers = range(2, 2 + min(count, INPUTS))
            logged = 0
            for number in numbers:
                of = f"lambda x: slow(x, {number})"
                lines = (f"jit({of})(1.)", f"vmap(grad({of}))(jnp.ones(2))", f"%log grad({of})(1.) --most 2")
                line = random.choice(lines)
                terminal.send(line + "\r")
                terminal.wait_for(f"at work {number}")
                time.sleep(random.choice((0, 0, 0.01, 0.1, 0.4)))
                terminal.send("\x03\x03")
                terminal.wait_for_prompt(number + 1)
                kept = [each for each in terminal.lines() if "recorded until then" in each]
                logged += line.startswith("%log")
                assert len(kept) == logged, "\n".join(terminal.lines())
            terminal.type("minijax.core.trace.stack_depth()", numbers[-1] + 2)
            assert f"out[{numbers[-1] + 1}]: 0" in terminal.text()
            assert terminal.leave() == 0
        finally:
            terminal.process.close(force=True)
    return len(numbers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="how many interrupts (default: 200)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random.seed(options.seed)
    done = 0
    while done < options.count:
        done += one_session(options.count - done)
    print(f"{done} interrupts, seed {options.seed}: the prompt came back each time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
