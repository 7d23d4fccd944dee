"""The sampled suite: a run that names nothing runs a fixed part of the rows of each parametrised test.

In: the tests that pytest collected, and the number of the slice (``--sample K``, else 0). Out: the tests to run.
Invariants: a slice is the same in every run and in every worker, since a hash of the test's node id decides; every
test function keeps at least one row; slices 0, 1, 2, ... up to the largest rate hold every row; a run that names a
path, ``-k`` or ``-m`` is not sampled. ``python -m tests.all`` runs everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar
from zlib import crc32

# A folder or file below tests/, optionally with "::" and a test function -> one row of this many is run. The longest
# name that fits decides; 1 elsewhere. The rates keep the sampled suite within five minutes on two cores.
RATES: dict[str, int] = {
    "api": 3,
    "ecosystem": 3,
    "extend": 4,
    "interop": 2,
    "interpreters": 6,
    "ir": 3,
    "numpy": 12,
    "ops": 4,
    "oracle": 8,
    "scipy": 12,
    "tools": 3,
    "tools/test_commands.py": 6,
    "test_bad_input.py": 6,
    "test_pytree.py": 4,
}


class Test(Protocol):
    """What a slice needs to know of a test."""

    @property
    def nodeid(self) -> str: ...


T = TypeVar("T", bound=Test)


def function_of(nodeid: str) -> str:
    """The name of the test function, without the row."""
    return nodeid.partition("[")[0]


def prefixes(function: str) -> Iterator[str]:
    """``tools/test_x.py::test_y``, ``tools/test_x.py`` and ``tools`` of that test function, the longest first."""
    name = function.removeprefix("tests/")
    yield name
    path = name.partition("::")[0]
    while path:
        yield path
        path = path.rpartition("/")[0]


def rate_of(function: str) -> int:
    return next((RATES[prefix] for prefix in prefixes(function) if prefix in RATES), 1)


def sampled(tests: Sequence[T], number: int) -> tuple[list[T], list[T]]:
    """The tests of slice ``number``, in their order, and the others."""
    rows: dict[str, list[T]] = {}
    for test in tests:
        rows.setdefault(function_of(test.nodeid), []).append(test)
    kept: set[str] = set()
    for function, of_function in rows.items():
        rate = rate_of(function)
        chosen = [test.nodeid for test in of_function if crc32(test.nodeid.encode()) % rate == number % rate]
        if not chosen:
            ordered = sorted(test.nodeid for test in of_function)
            chosen = [ordered[number % len(ordered)]]
        kept.update(chosen)
    return [test for test in tests if test.nodeid in kept], [test for test in tests if test.nodeid not in kept]
