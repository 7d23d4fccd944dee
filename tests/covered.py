"""Which test runs which line: a pytest plugin, ``-p tests.covered``, and a reader of its records.

In: the folder ``MINIJAX_COVERED``, where each worker writes a coverage.py file and the seconds that its tests took.
Out: ``Covered``. Invariant: a line that runs before the first test (an import) belongs to no test.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = "MINIJAX_COVERED"
RECORDING = pytest.StashKey[Any]()
SECONDS = pytest.StashKey[dict[str, float]]()


def pytest_configure(config: pytest.Config) -> None:
    import coverage  # imported here, because only runs that record need it

    config.stash[SECONDS] = {}
    recording = coverage.Coverage(
        data_file=str(Path(os.environ[FOLDER]) / f"lines-{os.getpid()}"),
        include=[f"{folder}/*" for folder in ("minijax", "repl", "ipython_ext")],
        config_file=False,
    )
    recording.start()
    config.stash[RECORDING] = recording


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    recording = item.config.stash[RECORDING]
    recording.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        recording.switch_context("")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call" and report.passed:
        item.config.stash[SECONDS][item.nodeid] = report.duration
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    recording = config.stash[RECORDING]
    recording.stop()
    recording.save()
    text = json.dumps(config.stash[SECONDS])
    (Path(os.environ[FOLDER]) / f"seconds-{os.getpid()}.json").write_text(text, encoding="utf-8")


class Covered:
    """What a run in the tree ``root`` recorded in ``folder``: the tests that passed, and the lines they ran."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.root = root
        self.seconds: dict[str, float] = {}
        for path in folder.glob("seconds-*.json"):
            self.seconds |= json.loads(path.read_text(encoding="utf-8"))
        self.files = sorted(folder.glob("lines-*"))

    @cache  # noqa: B019
    def lines(self, file: str) -> dict[int, set[str]]:
        """Line of ``file`` -> the tests that ran it."""
        from coverage.numbits import numbits_to_nums

        found: dict[int, set[str]] = {}
        for data in self.files:
            with sqlite3.connect(data) as connection:
                rows = connection.execute(
                    "select context.context, numbits from line_bits join file on file.id = file_id"
                    " join context on context.id = context_id where file.path = ?",
                    [str(self.root / file)],
                )
                for test, bits in rows:
                    for line in numbits_to_nums(bits) if test in self.seconds else ():
                        found.setdefault(line, set()).add(test)
        return found

    def tests(self, file: str, line: int) -> list[str]:
        """The tests that ran a line, the quickest first."""
        return sorted(self.lines(file).get(line, ()), key=lambda test: (self.seconds[test], test))
