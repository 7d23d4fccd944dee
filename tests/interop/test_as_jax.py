"""``minijax-repl --as-jax FILE``: a program written for JAX runs on minijax as it does on JAX."""

import json
import subprocess
import sys

import pytest

import minijax
from minijax.repl import batch
from minijax.repl.__main__ import main
from minijax.tools.commands import find
from minijax.tools.session.session import Session

TRAINING = '''
"""Trains a small network; a line for each step."""
import argparse
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from layers import dense

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1)
parser.add_argument("--fail", action="store_true")


def network(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(dense(x, w, b))
    return dense(x, *params[-1])


def loss(params, x, y):
    return jnp.mean((network(params, x) - y) ** 2)


@partial(jax.jit, static_argnames="rate")
def step(params, x, y, rate):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return value, jax.tree.map(lambda p, g: p - rate * g, params, grads)


def main(options):
    random = np.random.default_rng(0)
    sizes = (3, 8, 8, 1)
    params = [(random.normal(size=s).astype("float32"), np.zeros(s[1], "float32")) for s in zip(sizes, sizes[1:])]
    x = random.normal(size=(16, 3)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    for _ in range(options.steps):
        value, params = step(params, x, y, rate=0.05)
        print(f"{value:.5f}")
    if options.fail:
        loss(params, x, y[:5])
    sys.exit(7)


if __name__ == "__main__":
    main(parser.parse_args())
'''

LAYERS = """
import jax.numpy as jnp


def dense(x, w, b):
    return jnp.dot(x, w) + b
"""

WITNESS = """
import atexit, sys
atexit.register(lambda: print("jax" in sys.modules, "minijax" in sys.modules))
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "layers.py").write_text(LAYERS)
    (tmp_path / "train.py").write_text(WITNESS + TRAINING)
    return tmp_path / "train.py"


def run(*words):
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, cwd="/")


REPL = ("-m", "minijax.repl", "--no-config", "--panels", "off")


def test_output_and_exit_status_match_jax(program):
    ours = run(*REPL, "--as-jax", program, "--steps", 3)
    theirs = run(program, "--steps", 3)
    assert ours.stderr == theirs.stderr == ""
    assert ours.returncode == theirs.returncode == 7
    *numbers, loaded = ours.stdout.splitlines()
    *wanted, theirs_loaded = theirs.stdout.splitlines()
    assert numbers == wanted and len(numbers) == 3
    assert (loaded, theirs_loaded) == ("False True", "True False")


def test_tracebacks_point_at_lines_of_the_program(program):
    failed = run(*REPL, "--as-jax", program, "--fail")
    assert failed.returncode == 1
    lines = program.read_text().splitlines()
    for code in ("main(parser.parse_args())", "    loss(params, x, y[:5])", "return jnp.mean((network"):
        number = next(i for i, line in enumerate(lines, 1) if code in line and "print" not in line)
        assert f"{program}:{number} in " in failed.stderr
        assert code.strip() in failed.stderr
    assert "TypeError" in failed.stderr and "interop" not in failed.stderr


def test_the_panels_follow_the_output(program):
    program.write_text("import jax\njax.Device\nprint(jax.jit(lambda x: x * 2)(3.))\n")
    shown = run("-m", "minijax.repl", "--no-config", "--as-jax", program)
    assert shown.stderr == "" and shown.returncode == 0
    printed, *panels = shown.stdout.splitlines()
    assert printed == "6.0" and [panel.split()[0] for panel in panels if panel[1:2].strip()][:2] == ["stack", "tracers"]
    answer = json.loads(run("-m", "minijax.repl", "--no-config", "--json", "--as-jax", program).stdout)
    assert (answer["printed"], answer["error"]) == ("6.0\n", None) and "staged" in answer["shown"]


@pytest.mark.parametrize(
    "words", [("--as-jax",), ("-c", "1", "--as-jax", "f.py"), ("f.py", "--as-jax", "g.py"), ("--as-jax", "a\nb")]
)
def test_wrong_arguments_are_usage_errors(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2 and "error: --as-jax" in capsys.readouterr().err


def test_a_session_keeps_the_names_of_the_program(program):
    program.write_text("import jax\ndef late():\n    import jax.numpy as jnp\n    return jnp.sin\nkept = late()\n")
    session = Session(find, {})
    outcome = session.run_line(f"%run --as-jax {program}")
    assert outcome.error is None and session.namespace["kept"] is minijax.numpy.sin
    assert session.run_line("late() is kept").value is True
    assert session.run_line("import jax as theirs; theirs.__name__").value == "jax"
    assert session.run_line(f"%run {program}").error is None
    assert session.run_line("kept.__module__.partition('.')[0]").value != "minijax"
    failed = session.run_line(f"%run --as-jax {program}x")
    assert "cannot read" in batch.Page().shown(failed, 100)
