"""Generated lines never end a session and never leave an interpreter behind; ``tests.repl.fuzz`` runs many more."""

from __future__ import annotations

from minijax.config import config
from tests.repl.fuzz import fuzz, lines_of


def test_generated_lines():
    assert [*lines_of(500, 3)] == [*lines_of(500, 3)]
    before = dict(config.values)
    try:
        report = fuzz(200, seed=7)
    finally:
        for name, value in before.items():
            config.update(name, value)
    assert report.violations == [], report.text()
    assert report.lines >= 200 and report.keys >= 30 and {"%values", "%origin", "%step"} <= {*report.kinds}, (
        report.text()
    )
