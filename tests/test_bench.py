"""The benchmark's harness, run on made-up libraries, detects conditions that would make its figures meaningless."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import minijax
import minijax.lax
import minijax.numpy
from tests.bench import measure, watching
from tests.bench.__main__ import ALL_ROWS, main, measured
from tests.bench.measure import Different, Result, Row, Settings, require_same


def spin(units: float) -> None:
    """Use about a millisecond of CPU time for each unit."""
    end = time.process_time_ns() + int(units * 1e6)
    while time.process_time_ns() < end:
        pass


def library(cost: float, answer: Any = 1.0) -> Any:
    return SimpleNamespace(cost=cost, answer=answer)


def work(ns: Any) -> measure.Thunk:
    def thunk() -> Any:
        spin(ns.cost)
        return ns.answer

    return thunk


def settings(subject: Any, reference: Any, **options: Any) -> Settings:
    return Settings(subject="subject", reference="jax", namespaces={"subject": subject, "jax": reference}, **options)


def run(row: Row, subject: Any, reference: Any) -> Result:
    return measured(row, settings(subject, reference, seconds=0.3))


@pytest.mark.parametrize(("cost", "verdict"), [(1.0, measure.MEETS), (3.0, measure.CLOSE), (9.0, measure.MISSES)])
def test_the_ratio_is_measured_and_judged(cost: float, verdict: str) -> None:
    result = run(Row("row", "row", 0.4, work), library(cost), library(5.0))
    assert result.figure == pytest.approx(cost / 5.0, rel=0.3)
    assert result.verdict == verdict


def test_different_results_are_an_error_not_a_figure() -> None:
    result = run(Row("row", "row", 1.0, work), library(1.0, answer=1.1), library(1.0))
    assert (result.verdict, result.figure) == (measure.ERROR, None)
    assert "subject differs from jax: 1.1 instead of 1.0" in result.note


def test_the_quickest_of_a_few_calls_decides_how_many_calls_a_sample_has(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [0]
    samples: list[int] = []

    def prepare(ns: Any) -> measure.Thunk:
        def thunk() -> float:
            calls[0] += 1
            return 1.0

        return thunk

    def clock(thunk: measure.Thunk) -> tuple[float, Any]:
        before = calls[0]
        value = thunk()
        samples.append(calls[0] - before)
        return sum([50e6 if call < 3 else 1e6 for call in range(before, calls[0])]), value

    monkeypatch.setattr(measure, "cpu_ns", clock)
    result = measured(Row("row", "row", 1.0, prepare, repeat=True), settings(None, None, max_rounds=1))
    assert samples[-1] == measure.FULL_SAMPLE_NS // 1_000_000
    assert result.subject == result.reference == 1e6


def test_prepare_is_called_again_in_every_round() -> None:
    made: list[object] = []

    def prepare(ns: Any) -> measure.Thunk:
        made.append(object())
        return lambda: 1.0

    result = measured(Row("row", "row", 1.0, prepare), settings(None, None, max_rounds=4))
    assert len(made) == 2 * (result.rounds + 1)  # two libraries, and one round more than ``rounds`` as warm-up


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (1.0, 1.01),
        (np.ones(3), np.ones(4)),
        (np.ones(3), np.array([1.0, 1.0, np.nan])),
        ([1.0, 2.0], [1.0]),
        ({"sin": 3}, {"sin": 3, "mul": 1}),
        ("text", "other"),
    ],
)
def test_differing_results_are_detected(expected: Any, got: Any) -> None:
    require_same(expected, expected, 1e-3)
    with pytest.raises(Different):
        require_same(expected, got, 1e-3)


def test_row_names_are_unique_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    keys = [row.key for row in ALL_ROWS]
    assert len(set(keys)) == len(keys)
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == keys


def test_the_cost_of_a_recorder_is_measured() -> None:
    row = watching.Watched("summary", 1.6)
    result = measured(row, Settings(subject="minijax", namespaces={"minijax": minijax}, seconds=0.1, rounds=1))
    assert result.figure is not None and 0.5 < result.figure < 10.0
    other = measured(row, Settings(subject="jax", namespaces={}))
    assert other.verdict == measure.SKIPPED
