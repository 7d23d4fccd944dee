"""``import minijax`` takes little time and imports no heavy modules, as measured in fresh interpreters."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("jax", "jaxlib", "IPython", "prompt_toolkit", "pygments", "scipy")

# CPU time of importing NumPy, then of importing minijax in the same process. Only the importing thread counts, because
# NumPy's BLAS threads spin for a while after they start.
TIMED_IMPORT = """
import time
start = time.thread_time_ns()
import numpy
middle = time.thread_time_ns()
import minijax
print(middle - start, time.thread_time_ns() - middle)
"""


def run(code):
    """Run ``code`` in a fresh interpreter that imports this tree; return its standard output."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["minijax", "minijax.numpy", "minijax.lax", "minijax.tree_util", "minijax.interop"])
def test_import_pulls_in_neither_jax_nor_a_front_end(module):
    code = f"import sys, json, {module}; print(json.dumps([n for n in {HEAVY!r} if n in sys.modules]))"
    assert json.loads(run(code)) == []


def test_importing_minijax_takes_less_time_than_numpy():
    """Importing minijax takes less than 0.6 of NumPy's import time. That is about 0.14 of jax's import time."""
    run(TIMED_IMPORT)  # the first import may compile bytecode
    # other load can only add time, so the minimum is closest to the time on a quiet machine
    taken = []
    for attempt in range(20):
        taken.append([int(nanoseconds) for nanoseconds in run(TIMED_IMPORT).split()])
        numpys, ours = map(min, zip(*taken, strict=True))
        if attempt >= 4 and ours < 0.6 * numpys:
            return
    pytest.fail(f"minijax adds {ours / numpys:.2f} of NumPy's import: {taken}")


@pytest.mark.parametrize("enabled", [True, False])
def test_importing_leaves_the_garbage_collector_as_it_was(enabled):
    begin = "" if enabled else "gc.disable(); "
    assert run(f"import gc; {begin}import minijax; print(gc.isenabled())").strip() == str(enabled)


@pytest.mark.parametrize("command", [("-m", "mine", "minijax"), ("minijax-repl_of_mine.py",)])
def test_a_user_program_is_not_a_prompt(tmp_path, command):
    """After minijax is imported in a user program, the collector is on, and the program's folder is on the path."""
    code = "import gc, os, sys, minijax; print(gc.isenabled(), os.path.realpath(sys.path[0]))"
    for file in ("mine/__init__.py", "mine/__main__.py", "minijax-repl_of_mine.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("" if file.endswith("__main__.py") else code)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.stdout.split() == ["True", os.path.realpath(tmp_path)], done.stderr


def test_an_eager_derivative_needs_neither_jax_nor_scipy():
    code = (
        "import sys, minijax, minijax.numpy as jnp\n"
        "assert abs(float(minijax.grad(lambda x: jnp.sin(x) * x)(3.0)) + 2.8288574) < 1e-5\n"
        f"print([n for n in {HEAVY!r} if n in sys.modules])"
    )
    assert run(code).strip() == "[]"


@pytest.mark.skipif(
    not Path(sys.executable).with_name("minijax-repl").exists(),
    reason="minijax is not installed in this environment; README's test command installs it",
)
def test_entry_points_resolve():
    points = metadata.distribution("minijax").entry_points
    assert {point.name for point in points} == {"minijax-repl", "jaxpr", "stablehlo"}
    for point in points:
        point.load()
