"""``tests/sampling.py`` chooses the tests of a slice, and samples only runs without arguments."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sampling import LONG, LONG_RATE, RATES, function_of, rate_of, sampled

TESTS = Path(__file__).parent


@dataclass(frozen=True)
class Row:
    nodeid: str


ROWS = [Row(f"tests/oracle/test_values.py::test_{name}[{i}]") for name in "abc" for i in range(400)]
ROWS += [Row("tests/oracle/test_values.py::test_single"), Row("tests/core/test_trace.py::test_other[1]")]


def test_a_slice_holds_about_one_row_of_rate():
    kept, left_out = sampled(ROWS, 0)
    assert len(ROWS) / 2 < len(kept) * RATES["oracle"] < 2 * len(ROWS)
    assert sorted(kept + left_out, key=ROWS.index) == ROWS


def test_slices_together_hold_every_row():
    slices = [sampled(ROWS, number)[0] for number in range(RATES["oracle"])]
    counts = Counter(row for kept in slices for row in kept)
    assert set(counts) == set(ROWS)
    assert all(count == 1 for row, count in counts.items() if "oracle" in row.nodeid and "[" in row.nodeid)


@pytest.mark.parametrize("number", [0, 1, 100])
def test_every_function_keeps_a_row(number):
    few = [row for row in ROWS if "[" not in row.nodeid or row.nodeid.endswith(("[1]", "[2]"))]
    kept, _ = sampled(few, number)
    assert {function_of(row.nodeid) for row in kept} == {function_of(row.nodeid) for row in few}


def test_a_long_test_is_in_one_slice_of_four():
    tests = [Row(f"tests/{name}") for name in LONG]
    slices = [sampled(tests, number)[0] for number in range(LONG_RATE)]
    assert sorted(row.nodeid for kept in slices for row in kept) == sorted(row.nodeid for row in tests)


def test_the_longest_name_decides():
    assert rate_of("tests/tools/test_commands.py::test_x") == RATES["tools/test_commands.py"]
    assert rate_of("tests/tools/xla/test_passes.py::test_x") == RATES["tools"]


def test_listed_rates_exist():
    assert [name for name in (*RATES, *LONG) if not (TESTS / name.partition("::")[0]).exists()] == []
    files = {name: (TESTS / name.partition("::")[0]).read_text(encoding="utf-8") for name in LONG}
    assert [name for name, text in files.items() if f"def {name.partition('::')[2]}(" not in text] == []


@pytest.mark.parametrize("options, is_sampled", [([], False), (["-k", "flatten"], False), (["--sample", "1"], True)])
def test_a_run_that_names_a_file_runs_all_of_it(options, is_sampled):
    command = [sys.executable, "-m", "pytest", "--collect-only", "-n", "0", "tests/test_pytree.py", *options]
    output = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout
    assert ("python -m tests.all runs all" in output) == is_sampled
