"""Run every test: ``python -m tests.all``. README's test command runs only a sample (``tests/sampling.py``).

Unknown options go to pytest: ``python -m tests.all -n 8 --durations=20``. ``--long`` also runs the long comparisons
of ``LONG``, in order, and prints the names of those that fail.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

# The long runs of CONTRIBUTING.md: modules and their arguments. Together they take hours.
LONG: tuple[tuple[str, ...], ...] = (
    ("tests.oracle.beside_jax",),
    ("tests.oracle.names",),
    ("tests.oracle.primitives", "--count", "20"),
    ("tests.oracle.random_calls", "--count", "100000"),
    ("tests.sharded.training",),
    ("tests.sharded.reasons",),
    ("tests.sharded.matrix",),
    ("tests.sharded.carried", "--every-way"),
    ("tests.docs.pages",),
    ("tests.repl.test_fuzz",),
)


def run(*arguments: str) -> int:
    return subprocess.call([sys.executable, "-m", *arguments], cwd=Path(__file__).parent.parent)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.all", description=__doc__, allow_abbrev=False)
    parser.add_argument("--long", action="store_true", help="run the long comparisons after the tests")
    asked, for_pytest = parser.parse_known_args()
    # pytest does not sample a run that names a path.
    failed = ["pytest"] if run("pytest", "-n", "3", "tests", *for_pytest) else []
    if asked.long:
        failed += [" ".join(command) for command in LONG if run(*command)]
    if failed:
        print("failed:", "; ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
