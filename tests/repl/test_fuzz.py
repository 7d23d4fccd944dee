"""Generated lines never end a session and never leave an interpreter behind; ``tests.repl.fuzz`` runs many more."""

from __future__ import annotations

from minijax.config import config
from tests.repl.fuzz import fuzz
from tests.repl.fuzz_lines import Lines


def test_generated_lines() -> None:
    before = dict(config.values)
    try:
        report = fuzz(300, seed=7)
    finally:
        for name, value in before.items():
            config.update(name, value)
    assert report.violations == [], report.text()
    assert report.lines >= 300 and len(report.kinds) >= 5 and len(report.errors) >= 5, report.text()
    assert report.keys >= 50 and {"%values", "%origin", "%find", "%step"} <= set(report.commands), report.text()


def test_the_lines_are_the_same_for_the_same_seed() -> None:
    one, other = Lines(3), Lines(3)
    first = [one.line() for _ in range(2000)]  # what is rare comes in one of a hundred
    assert first == [other.line() for _ in range(2000)]
    assert len(set(first)) > 1000 and any("\x1b" in line for line in first)
