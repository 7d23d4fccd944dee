"""Generated lines leave no interpreter on the stack, and keys never break a stepper.

``python -m tests.repl.test_fuzz --sessions 10`` runs ten sessions of a thousand lines. The lines are Python and every
command; some are damaged. Output is laid out as at the prompt. Whenever a line opens a stepper, keys are pressed in it
and each screen is drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from prompt_toolkit.utils import get_cwidth

from minijax import errors
from minijax.config import config
from minijax.core.trace import state
from minijax.repl import batch
from minijax.repl.browser import screen as browser_screen
from minijax.repl.browser.model import StageBrowser
from minijax.repl.stepper import screen as stepper_screen
from minijax.repl.stepper.model import Stepper
from minijax.tools.documents.document import length
from minijax.tools.session import source
from minijax.tools.session.result import Browse
from minijax.tools.session.session import Outcome
from minijax.tools.usage import UsageError
from tests.repl.stops import files_of_the_caller
from tests.tools.lines import BAD, GOOD, SETUP

SIZES = ((80, 24), (120, 40), (200, 60), (40, 10), (20, 5), (1, 1), (9, 30), (300, 12), (100, 40))
# Lines with every command, except commands that take long or that run other lines.
COMMANDS = tuple(
    line for line, _ in (*GOOD, *BAD) if not line.startswith(("%tour", "%time", "%compare", "%gallery", "%run", "%sh"))
)
CALLS = ("grad(f)(3.0)", "vmap(grad(f))(v)", "vmap(jit(fails))(v)", "jit(grad(grüße))(2.)", "vmap(grad(loop))(v)")
FORMS = ("%step {}", "%step {} --retrace", "%passes {} --open", "%values {}", "%origin {}")
STEPS = tuple(form.format(call) for call in CALLS for form in FORMS)
PYTHON = (
    *CALLS, "jit(noisy)(2.)", "x = 5;", "f??", "x ** y ** z", "raise KeyboardInterrupt", "raise RecursionError",
    "raise BaseException('x')", "yield x", "await x", "?x", "%", "for i in v:", "%%jaxpr x=f32[3]\ny = (\n", "del f",
    "class C:\n    def __repr__(self): return 3\n\nC()", "def loop(n): return loop(n + 1)\nloop(0)\n",
    "leaked = []; jit(lambda x: leaked.append(x) or x)(1.); leaked[0] + 1", "try:\n    1 / 0\nfinally:\n    z = 1\n",
    "'" + "long text " * 2000 + "'", "(" * 300 + "x" + ")" * 300, "%" + "a" * 5000, " + ".join(["x"] * 2000),
    "%tree {'日本語🙂': v, 'a\\nb': x, '\\x1b[31m': x, 'long' * 60: [v] * 3}",
)  # fmt: skip
NOISE = (
    "\x00", "\x07", "\x1b[2J", "\x1b]0;title\x07", "\r", "\t", "\u202e", "\ufeff", "🙂", "日本", "é", "\x7f", "\x85",
    "'", '"', '"""', "(", ")", "[", "{", "}", ":", "=", "%", "%%", "?", "\\", "#", ";", "--", "@", "\n", "\n    ", "",
)  # fmt: skip
# Every session begins with these lines. Every fourth line repeats one, because other lines may delete a definition.
BEGIN = (
    *SETUP,
    "def fails(x):\n    mid = sin(x)\n    return mid + jnp.ones(4)\n",
    "def grüße(größe):\n    λ = sin(größe) * 2.\n    return λ\n",
    "def noisy(x):\n    debug.print('{} 日', x)\n    return x * 2.\n",
    "def loop(c): return lax.scan(lambda c, a: (c * a + 1., sin(c)), c, jnp.arange(3.))[1].sum()",
    "%x64 off",
    "%pop --all",
)
ANSWERS = (
    "sin", "f", "jvp:1", "f32[3]", "3", "2:1", "nothing", "é日🙂", "x" * 200, "(", "\\", " ", "x > 1", "nan(x)",
    "line 2", "x became NaN", "x.shape changed", "x ** 9 ** 9 > 1", "x.sum() + 1", "1 / 0",
)  # fmt: skip
# EXPECTED: exceptions that a wrong line may cause in the tools. INTERNAL: only a bug raises these in the engine.
EXPECTED = (UsageError, SyntaxError, KeyboardInterrupt, RecursionError, MemoryError, SystemExit)
INTERNAL = ("AssertionError", "AttributeError", "IndexError", "JaxRuntimeError", "KeyError", "UnboundLocalError")
KNOWN_TEXTS = re.compile(
    "No J?VJ?P defined for custom|Too many indices|only integers, slices|has no attribute|__repr__ returned non-string"
    "|required positional argument"
)
# The commands that set names of the session.
NAMING = ("%push", "%pop")


def lines_of(count: int, rng: random.Random) -> Iterator[str]:
    yield from BEGIN
    for number in range(count - len(BEGIN)):
        line = rng.choice(rng.choice((PYTHON, COMMANDS, STEPS)))
        if number % 4 == 0:
            line = BEGIN[number // 4 % len(BEGIN)]
        elif rng.random() < 0.15:
            at = rng.randrange(len(line) + 1)
            line = line[:at] + rng.choice(NOISE) + line[at + rng.randrange(2) :]
        yield line


def fault(error: BaseException) -> str:
    """If ``error`` is a bug in minijax, the place and the error; '' if the line itself is wrong."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith("<") or KNOWN_TEXTS.search(str(error)):
            return ""
        if errors.is_own_file(frame.filename):
            in_tools = re.search(r"(tools|repl|ipython_ext)/", frame.filename)
            own = not isinstance(error, EXPECTED) if in_tools else type(error).__name__ in INTERNAL
            return f"{frame.filename}:{frame.lineno} {error!r:.300}" if own else ""
    return ""


class Fuzzed:
    """A session. ``wrong``: its faults. ``counts``: the number of lines, of keys, and of errors of each class."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.session = batch.new_session({})
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()

    def run(self, line: str) -> None:
        command = source.as_command(line).split(None, 1)[:1] if source.is_command(line) else []
        names, before = dict(self.session.namespace), len(self.wrong)
        self.counts.update((*command, source.status(line))[:1])
        outcome = self.session.run_line(line)
        wrong = [*self.look(outcome, bool(command)), *self.look_at_stack()]
        if command and command[0] not in NAMING and not ("%step" in command and "(" not in line):
            now = self.session.namespace
            changed = [n for n in {*now, *names} if now.get(n, now) is not names.get(n, now) and n[:1] != "_"]
            wrong += [f"changed {changed}"] if {*changed} - {"In", "Out", "exit", "quit"} else []
        try:
            if outcome.step is not None:
                wrong += self.step(outcome.step)
        except Exception:
            wrong.append(traceback.format_exc())
        self.wrong += [f"after {line[:300]!r}: {each}" for each in wrong]
        if len(self.wrong) > before:
            self.session.restore()

    def look(self, outcome: Outcome, command: bool) -> Iterator[str]:
        """The faults of an outcome: a bug raised an error, or the text is too wide, has escape codes or an address."""
        if outcome.error is not None:
            self.counts[type(outcome.error).__name__] += 1
            yield from filter(None, [fault(outcome.error)])
        shown = batch.Page().shown(outcome, 100, fold=True)
        if max(map(get_cwidth, shown.split("\n"))) > 100 or re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown):
            yield f"shows {shown[:300]!r}"
        if command and re.search(r" at 0x[0-9a-f]{6,}|Traceback \(most", shown):
            yield f"shows {shown[:300]!r}"

    def look_at_stack(self) -> Iterator[str]:
        """Faults of the interpreter stack: its levels are not the pushed levels, or staging has not ended."""
        levels = self.session.levels
        if state.stack != [state.stack[0], *(main for level in levels for main in level.mains)]:
            yield f"the stack is {[main.label for main in state.stack]} with {len(levels)} levels"
        if state.source is not None or not levels and state.dynamic is not state.stack[0].trace:
            yield "something is still staging, or a source line is still set"

    def step(self, step: Any) -> Iterator[str]:
        """Press keys in the stepper or the browser of stages. Yield a fault for each screen that does not fit."""
        if isinstance(step, Browse):
            model: Any = StageBrowser(step.stages, step.title, step.chosen)
            compose: Any = browser_screen.compose
        else:
            model, compose = Stepper(step), stepper_screen.compose
        keys = [*model.actions()]
        for _ in range(self.random.choice((0, 5, 15, 40))):
            columns, rows = self.random.choice(SIZES)
            lines = compose(model, columns, rows)
            self.counts["keys"] += 1
            if len(lines) != rows or max(map(length, lines)) > columns:
                yield f"the screen does not fit {columns}x{rows}"
            if re.search("[\x00-\x1f\x7f-\x9f]", "".join(piece for each in lines for _, piece in each)):
                yield "a control character on the screen"
            key = self.random.choice(keys)
            if model.question is not None and self.random.random() < 0.9:
                words = self.random.choice(ANSWERS)
                model.answer(words[:1] if model.question.single else words)
            else:
                model.press(key)


def fuzz(count: int, seed: int) -> Fuzzed:
    fuzzed, unheard = Fuzzed(seed), []
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(io.StringIO()):
        patched.setattr(errors, "_excluded", (*errors._excluded, *files_of_the_caller()))
        patched.setattr(sys, "unraisablehook", lambda what: unheard.append(f"unheard {what.exc_value!r}"))
        errors._is_user.clear()
        for line in lines_of(count, fuzzed.random):
            fuzzed.run(line)
        fuzzed.session.run_line("%pop --all")
        assert fuzzed.session.run_line("import minijax\nfloat(minijax.grad(minijax.numpy.sin)(0.0))").value == 1.0
    errors._is_user.clear()
    fuzzed.wrong += unheard
    return fuzzed


def test_generated_lines_cause_no_fault(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = dict(config.values)
    try:
        fuzzed = fuzz(200, seed=7)
    finally:
        for name, value in before.items():
            config.update(name, value)
    assert not fuzzed.wrong, "\n".join(fuzzed.wrong)
    assert fuzzed.counts["keys"] > 100 and len(fuzzed.counts) > 20, fuzzed.counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10)
    # lines that run programs on a mesh need two devices; XLA reads the variable when it starts
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    for seed in range(parser.parse_args().sessions):
        found = fuzz(1000, seed)
        print(f"seed {seed}: {found.counts}", *found.wrong[:40], sep="\n", flush=True)
