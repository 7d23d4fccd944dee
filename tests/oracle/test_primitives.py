"""A fixed part of ``python -m tests.oracle.primitives``: it stages every second primitive and runs the others."""

from __future__ import annotations

import pytest

from tests.extend.examples import ours

from .primitive_calls import ROWS
from .primitives import Report, reason, run

pytestmark = pytest.mark.usefixtures("tracebacks_whole")


def unexplained(reports: dict[str, Report]) -> list[str]:
    """The unexplained differences from JAX."""
    found = [(call, diff) for report in reports.values() for call, _, diff in report.differences]
    return [f"{call}: {diff}" for call, diff in found if not reason(call, diff)]


def test_every_primitive_is_drawn() -> None:
    """A new primitive needs a row that draws calls of it."""
    assert sorted(ROWS) == sorted(p.name for p in ours())


def test_staged_programs_match_jax() -> None:
    reports = run(list(ROWS)[1::2], [1], seed=5, values=False)
    assert unexplained(reports) == []
    assert sum(report.programs["equal"] for report in reports.values()) > 500


@pytest.mark.parametrize("part", range(4))
def test_values_match_jax_under_every_transformation(part: int) -> None:
    reports = run(list(ROWS)[part::32], [part], seed=6)
    assert unexplained(reports) == []
    assert sum(report.compared["jit"] for report in reports.values()) > 20
