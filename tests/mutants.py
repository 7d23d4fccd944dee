"""Change the code a little and see whether a test fails: ``python -m tests.mutants --count 400``.

The sampled suite (with ``--all`` every test) runs once and records which test runs which line. Each mutant of
``tests/mutation.py`` is written to a copy of the tree. The tests that ran the mutant's line run first, then all rows of
their test functions, and last the tests that ``ALSO`` lists for the file. A mutant that passes all these tests is a
survivor, and is listed with its file, line and change. ``REASONS`` lists the survivors that no test can notice.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from queue import SimpleQueue

from tests.covered import FOLDER, Covered
from tests.mutation import Mutant, mutants
from tests.sampling import function_of, rate_of

ROOT = Path(__file__).resolve().parent.parent

# The first run of a mutant takes the quickest tests. These limit their number, and their seconds in total.
MOST_TESTS = 60
MOST_SECONDS = 15.0

# For lines that the recorded run did not reach: file or folder -> its tests, the most sensitive first. If several
# names match a file, the longest name counts.
AREAS: dict[str, tuple[str, ...]] = {
    "minijax": ("tests/core", "tests/api", "tests/interpreters"),
    "minijax/api": ("tests/api", "tests/interpreters", "tests/oracle/test_jaxprs.py"),
    "minijax/api/checkpoint.py": ("tests/ops/test_checkpoint.py", "tests/api"),
    "minijax/api/closures.py": ("tests/ops/test_custom_derivatives.py", "tests/api"),
    "minijax/backend": (
        "tests/backend",
        "tests/api/test_devices.py",
        "tests/api/test_jit.py",
        "tests/api/test_pmap.py",
    ),
    "minijax/core": ("tests/core", "tests/api", "tests/interpreters", "tests/ops/test_refs.py", "tests/sharded"),
    "minijax/core/layouts.py": ("tests/test_sharding.py", "tests/core"),
    "minijax/distributed": ("tests/backend/test_distributed.py",),
    "minijax/experimental": ("tests/experimental", "tests/interop"),
    "minijax/extend": ("tests/extend", "tests/interop"),
    "minijax/interop": ("tests/interop", "tests/numpy"),
    "minijax/interpreters": ("tests/interpreters", "tests/extend", "tests/api", "tests/oracle", "tests/ops"),
    "minijax/ir": ("tests/ir", "tests/oracle/test_jaxprs.py", "tests/numpy/test_expressions.py"),
    "minijax/lax": ("tests/ops", "tests/oracle/test_values.py", "tests/oracle/test_jaxprs.py"),
    "minijax/lowering": ("tests/lowering", "tests/api", "tests/oracle/test_values.py", "tests/ops"),
    "minijax/nn": ("tests/oracle/test_values.py", "tests/oracle/test_jaxprs.py", "tests/interop"),
    "minijax/numpy": ("tests/numpy", "tests/oracle/test_values.py", "tests/oracle/test_jaxprs.py"),
    "minijax/ops": ("tests/ops", "tests/extend", "tests/oracle"),
    "minijax/ops/cond.py": ("tests/ops/test_cond.py", "tests/oracle/test_jaxprs.py", "tests/ops"),
    "minijax/ops/meshes": ("tests/test_sharding.py", "tests/sharded"),
    "minijax/ops/refs": ("tests/ops/test_refs.py", "tests/ops"),
    "minijax/ops/scan.py": (
        "tests/ops/test_scan.py",
        "tests/ops/test_meetings.py",
        "tests/ops/test_checkpoint.py",
        "tests/oracle/test_jaxprs.py",
    ),
    "minijax/ops/while_loop.py": ("tests/ops/test_while_loop.py", "tests/ops", "tests/oracle/test_jaxprs.py"),
    "minijax/pytree": ("tests/test_pytree.py", "tests/api"),
    "minijax/random": ("tests/oracle/test_random.py",),
    "minijax/tools": ("tests/tools",),
    "minijax/tools/commands": ("tests/tools/test_commands.py", "tests/tools"),
    "minijax/tools/documents": ("tests/tools/test_document.py", "tests/tools"),
    "minijax/tools/explain": ("tests/tools", "tests/programs"),
    "minijax/tools/xla": ("tests/tools/xla", "tests/tools"),
    "minijax/tools/values": ("tests/tools/values", "tests/tools"),
    "repl": ("tests/repl", "tests/ipython"),
    "ipython_ext": ("tests/ipython",),
}
# The tests that run last, file or folder -> tests. The programs of some run in processes of their own, where no line is
# recorded. Others reach lines that hundreds of tests run, so that the limit may leave them out.
_DISTRIBUTED = ("tests/backend/test_distributed.py",)
_SHARDED = (
    "tests/oracle/test_plain_rows.py",
    "tests/tools/values/test_devices.py",
    "tests/sharded",
    "tests/test_sharding.py",
)
ALSO: dict[str, tuple[str, ...]] = {
    "ipython_ext": ("tests/ipython",),
    "minijax/__init__.py": _DISTRIBUTED,
    "minijax/api": ("tests/oracle/test_plain_rows.py",),
    "minijax/api/pmap.py": _DISTRIBUTED,
    "minijax/backend": _DISTRIBUTED,
    "minijax/core/rules.py": ("tests/tools/test_rules_view.py",),
    "minijax/core/shardings.py": _SHARDED,
    "minijax/core/structural.py": _SHARDED,
    "minijax/distributed": _DISTRIBUTED,
    "minijax/interop/exported.py": ("tests/sharded/test_beside_jax.py", "tests/test_sharding.py"),
    "minijax/ir": ("tests/ir/test_parse.py",),
    "minijax/numpy": ("tests/oracle/test_plain_rows.py",),
    "minijax/ops": ("tests/oracle/test_plain_rows.py",),
    "minijax/ops/call.py": ("tests/test_config.py", "tests/api/test_repeated.py"),
    "minijax/ops/meshes": _SHARDED,
    "minijax/random": ("tests/oracle/test_plain_rows.py",),
    "minijax/tools/commands/compile.py": ("tests/tools/test_commands.py", "-k", "compile"),
    "minijax/tools/xla/reasons.py": ("tests/tools/xla/test_collectives.py",),
    "minijax/tools/stepper/devices.py": ("tests/tools/test_device_pane.py",),
    "minijax/tools/values/courses.py": ("tests/tools/values/test_moment.py",),
    "minijax/tools/values/saved_devices.py": ("tests/tools/test_device_pane.py",),
}
# Files without mutants: no test is expected to notice a change in them.
LEFT_OUT = ("minijax/example_libraries", "minijax/scipy", "minijax/tools/gallery", "minijax/version.py")

# (file, old, new) of survivors that no test can notice -> the reason
REASONS: dict[tuple[str, str, str], str] = {
    (
        "minijax/ops/elementwise.py",
        "y > dtypes.iinfo(x.dtype).max",
        "y >= dtypes.iinfo(x.dtype).max",
    ): "both ways of computing an integer power give the same bits; this chooses the fast one",
    (
        "minijax/core/dtypes.py",
        "len(args) == 1 or (len(dtypes) == 1 and (not all_weak))",
        "len(args) == 1 and (len(dtypes) == 1 and (not all_weak))",
    ): "a short cut: the join of one type, which the other branches find, is that type",
    (
        "minijax/ops/elementwise.py",
        "_add(const(x, 1), _square(x))",
        "_add(_square(x), const(x, 1))",
    ): "an addition of two numbers gives the same bits in both orders",
    (
        "minijax/ir/parse_meshes.py",
        "0",
        "1",
    ): "it matters only inside a jit inside shard_map, for a type with sums and no varying axis, which prints the same",
    ("minijax/tools/explain/check_examples.py", "2", "3"): "a wider padding is as good an example",
    (
        "minijax/api/closed_over.py",
        "50",
        "51",
    ): "changes only a memory limit: one more function has its global names recorded",
    (
        "minijax/core/array.py",
        "len(_numpy_avals) >= 4096",
        "len(_numpy_avals) > 4096",
    ): "changes only a memory limit: one more type in a cache",
}


@dataclass(frozen=True)
class Drawn:
    """A file, and a mutant of it."""

    file: str
    mutant: Mutant

    def __str__(self) -> str:
        return f"{self.file}:{self.mutant.line}: {self.mutant}"

    @property
    def reason(self) -> str:
        return REASONS.get((self.file, self.mutant.old, self.mutant.new), "")


def area_of(file: str, areas: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The tests of the longest name in ``areas`` that matches the file."""
    names = [file, *map(str, Path(file).parents)]
    return next((areas[name] for name in names if name in areas), ())


def draw(root: Path, only: Sequence[str], count: int, seed: int) -> list[Drawn]:
    """``count`` mutants of the files in ``only``, or of all files if ``only`` is empty.

    They are chosen by a hash of seed, file and change, so edits of other code do not change the choice.
    """
    chosen = only or sorted(
        str(path.relative_to(root))
        for folder in ("minijax", "repl", "ipython_ext")
        for path in (root / folder).rglob("*.py")
        if not path.is_relative_to(root / "minijax" / "repl")
    )
    ranked = []
    for file in chosen:
        times: Counter[tuple[str, str]] = Counter()
        for mutant in () if file.startswith(LEFT_OUT) else mutants((root / file).read_text(encoding="utf-8")):
            change = mutant.old, mutant.new
            times[change] += 1
            ranked.append((sha256(repr((seed, file, change, times[change])).encode()).digest(), Drawn(file, mutant)))
    return [drawn for _, drawn in sorted(ranked, key=itemgetter(0))[:count]]


def copy_of_tree(root: Path, to: Path) -> Path:
    """A copy of the tree in which ``import minijax.repl`` also finds the copy."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "_site", "build", "dist")
    shutil.copytree(root, to, ignore=ignored, symlinks=True)
    for front_end in ("repl", "ipython_ext"):
        if (to / front_end).exists():
            (to / "minijax" / front_end).symlink_to(to / front_end)
    return to


class Tests:
    """Runs tests in a copy of the tree, in forks of a process that has imported JAX but not the mutant."""

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        # PYTHONPATH precedes an installed minijax.
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        command = [sys.executable, "-P", str(ROOT / "tests" / "forked.py")]
        pipe = subprocess.PIPE
        self.program = subprocess.Popen(command, cwd=copy, env=environment, stdin=pipe, stdout=pipe, text=True)
        self.written = 0

    def __enter__(self) -> Tests:
        return self

    def __exit__(self, *error: object) -> None:
        self.program.kill()
        self.program.communicate()

    def status(self, limit: float, arguments: Sequence[str]) -> int:
        """The exit status of pytest with these arguments; -1 after ``limit`` seconds."""
        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *arguments]
        assert self.program.stdin and self.program.stdout
        print(json.dumps([limit, options]), file=self.program.stdin, flush=True)
        return int(self.program.stdout.readline())

    def notice(self, drawn: Drawn, limit: float, runs: Sequence[Sequence[str]]) -> bool:
        """Whether a test fails with the mutant. A first run over the limit counts as failed: it is normally short."""
        path = self.copy / drawn.file
        before, time_before = path.read_text(encoding="utf-8"), path.stat().st_mtime_ns
        self.written += 1
        path.write_text(drawn.mutant.applied(before), encoding="utf-8")
        # To reuse bytecode, Python compares the file's time in whole seconds. No two mutants may have the same time.
        os.utime(path, ns=(time_before, time_before + self.written * 10**9))
        try:
            first, *others = runs
            if self.status(limit, first) != 0 or any(self.status(limit, run) > 0 for run in others):
                return True
            last = area_of(drawn.file, ALSO)
            return bool(last) and self.status(3 * limit, last) > 0
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, ns=(time_before, time_before))


def runs_of(drawn: Drawn, covered: Covered | None, areas: dict[str, tuple[str, ...]]) -> list[list[str]]:
    """The pytest runs that may notice the mutant, in order.

    First come the tests that ran the mutant's line in the recorded run, then every row of their test functions, short
    functions before long ones, because a later run that reaches the limit notices nothing. If the recorded run did not
    reach the line, a sample of the area runs.
    """
    found = covered.tests(drawn.file, drawn.mutant.line) if covered else []
    if not found:
        area = list(area_of(drawn.file, areas))
        return [["--sample", "0", *area] if covered else area]
    assert covered
    first, seconds = [], 0.0
    for test in found:
        if first and seconds > MOST_SECONDS:
            break
        first.append(test)
        seconds += covered.seconds[test]
    long: dict[str, float] = {}
    for test in found:
        function = function_of(test)
        long[function] = long.get(function, 0.0) + covered.seconds[test] * rate_of(function)
    return [first[:MOST_TESTS], sorted(long, key=lambda function: (long[function], function))]


def survivors(
    root: Path,
    drawn: Sequence[Drawn],
    jobs: int,
    limit: float,
    areas: dict[str, tuple[str, ...]],
    covered: Covered | None = None,
) -> list[Drawn]:
    """The mutants that no test notices. ``limit`` is the time limit of one run, in seconds."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        copies: SimpleQueue[Tests] = SimpleQueue()
        for number in range(jobs):
            copies.put(stack.enter_context(Tests(copy_of_tree(root, Path(folder) / str(number)))))

        def is_noticed(each: Drawn) -> bool:
            tests = copies.get()
            began = time.monotonic()
            try:
                noticed = tests.notice(each, limit, runs_of(each, covered, areas))
            finally:
                copies.put(tests)
            print(f"{'noticed ' if noticed else 'SURVIVED'} {time.monotonic() - began:5.0f} s  {each}", flush=True)
            return noticed

        with ThreadPoolExecutor(jobs) as pool:
            return [each for each, noticed in zip(drawn, pool.map(is_noticed, drawn), strict=True) if not noticed]


def record(root: Path, folder: Path, *arguments: str) -> Covered:
    """Run the tests in a copy of the tree and record which test runs which line."""
    copy = copy_of_tree(root, folder / "tree")
    environment = {**os.environ, "PYTHONPATH": str(copy), FOLDER: str(folder)}
    subprocess.call([sys.executable, "-m", "pytest", "-p", "tests.covered", *arguments], cwd=copy, env=environment)
    return Covered(folder, copy)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="how many mutants (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], metavar="FILE", help="draw from this file; repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="how many mutants at once (default: 1)")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="for one run (default: 60)")
    parser.add_argument("--all", action="store_true", help="record all tests instead of the sample (half an hour)")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument(
        "--record", type=Path, metavar="FOLDER", help="keep the records of the first run in this folder, or read them"
    )
    asked = parser.parse_args()
    drawn = draw(ROOT, asked.only, asked.count, asked.seed)
    if asked.list:
        print(*drawn, sep="\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        kept = asked.record or Path(folder)
        kept.mkdir(exist_ok=True)
        covered = Covered(kept, kept / "tree")
        if not covered.seconds:
            # pytest does not sample a run that names a path.
            covered = record(ROOT, kept, "-q", "-n", str(max(asked.jobs, 2)), *(["tests"] if asked.all else []))
        left = survivors(ROOT, drawn, asked.jobs, asked.limit, AREAS, covered)
    unexplained = [each for each in left if not each.reason]
    print(f"{len(drawn) - len(left)} of {len(drawn)} mutants are noticed; {len(unexplained)} survivors have no reason")
    for each in left:
        print(f"  {each}" + (f" ({each.reason})" if each.reason else ""))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
