"""A recording's summary is the same whether minijax counts a cached program's operations or runs the rules.

Functions of the table run under differentiating transformations. Their two recordings must be equal, except for times
and for the event at which a jaxpr was made.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from minijax import errors
from minijax.core import counting, observe
from minijax.tools.recording import summary
from minijax.tools.recording.recorder import Recorder

from .case import Case
from .functions import CASES
from .subject import subject, x64_mode
from .transforms import build

TABLE = {name: case for name, case in CASES.items() if case.grads}
TRANSFORMATIONS = ("grad", "jvp", "vmap_of_grad", "grad_of_grad")


class Follower(observe.Observer):
    """An observer of every operation: it makes minijax run the rules."""

    def bind_exit(self, primitive: Any, trace: Any, out: Any) -> None:
        pass


def summarized(function: Callable[..., Any], args: Any) -> dict[str, Any]:
    """The summary of a call."""
    with Recorder() as recorder:
        function(*args)
    found = recorder.recording
    return {
        "binds": found.binds,
        "tracers made": found.tracers_made,
        "events": found.events,
        "stack": found.stack,
        "tracers": found.tracers,
        "jaxprs": [
            (each.kind, each.name, plain(each.document()), [errors.summarize(eqn.source) for eqn in each.program.eqns])
            for each in found.jaxprs
            if each.program is not None
        ],
        "phases": [(each.at, each.phase, each.name, each.times) for each in found.phases],
        "caches": [(each.at, each.cache, each.name, each.hit, each.times) for each in found.caches],
        "rest": (found.jaxprs_made, found.executions, found.custom_rules, found.cut),
    }


def plain(document: object) -> str:
    """The text with NumPy integers as Python integers: a cached program may have either in its parameters."""
    return " ".join(re.sub(r"np\.int64\((-?\d+)\)", r"\1", str(document)).split())


def differing(case: Case, name: str) -> list[str]:
    """The names of the parts that differ between the summaries of a counted call and of an observed call."""
    function, args = build(subject, case)[name]
    for _ in range(5):  # minijax derives the rules after a few calls with the same signature
        function(*args)
    with Recorder():  # the first recorded call counts the operations of the cached programs
        function(*args)
    counted = summarized(function, args)
    with observe.watching(Follower()):
        followed = summarized(function, args)
    return [part for part in counted if counted[part] != followed[part]]


@pytest.mark.parametrize("group", range(4))
def test_summary_counts_match_the_rules(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group is a quarter of the table's functions. Each function runs under only one of the transformations."""
    monkeypatch.setattr(summary, "MOST_SAMPLED", 1)
    numbers_of_runs = []
    report = counting.Tally.report
    monkeypatch.setattr(
        counting.Tally, "report", lambda self: (numbers_of_runs.extend(self.runs.values()), report(self))
    )
    found = {}
    with x64_mode("32"):
        for i, (name, case) in enumerate(list(TABLE.items())[group::4]):
            transformation = TRANSFORMATIONS[i % 4]
            if transformation in build(subject, case):
                found[name, transformation] = differing(case, transformation)
    assert not any(found.values()), {key: parts for key, parts in found.items() if parts}
    assert sum(numbers_of_runs) > 100  # the number of runs that were counted, not observed


def _counts(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    with Recorder() as recorder:
        function(*args)
    return recorder.recording.binds, recorder.recording.events, recorder.recording.tracers_made


def test_counts_are_right_if_weak_primals_have_strong_tangents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``abs`` of weak complex numbers has a strong tangent, so ``sum`` has no weak type to restore."""
    monkeypatch.setattr(summary, "MOST_SAMPLED", 1)
    np = subject.numpy

    def usual(x: Any) -> Any:
        return np.sum(np.where(x > 1, x, x * x))

    def strong(x: Any) -> Any:
        return np.sum(np.abs(x * (1 + 2j)))

    x = np.stack([np.asarray(1.5)] * 2)
    for _ in range(6):
        _counts(subject.grad(usual), x)
        counted = _counts(subject.grad(strong), x)
    with observe.watching(Follower()):
        assert counted == _counts(subject.grad(strong), x)


def test_another_thread_does_not_change_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST_SAMPLED", 1)
    np = subject.numpy
    between: list[Callable[[], None]] = []

    def loss(x: Any) -> Any:
        y = np.sin(x) * 2 + np.cos(x)
        for run in between:
            run()
        return np.sum(y * y)

    def elsewhere() -> None:
        thread = threading.Thread(target=lambda: observe.unsubscribe(observe.subscribe(observe.Observer())))
        thread.start()
        thread.join()

    x = np.arange(3.0)
    for _ in range(7):
        alone = _counts(subject.grad(loss), x)
    between.append(elsewhere)
    assert _counts(subject.grad(loss), x) == alone


def test_a_recording_that_starts_inside_a_gradient_counts_its_operations() -> None:
    found: list[Any] = []

    def product(x: Any, recorded: bool) -> Any:
        y = subject.numpy.sin(x)
        with Recorder() if recorded else nullcontext() as recorder:
            for _ in range(3):
                y = y * x * 2.0
        if recorder is not None:
            found.append(recorder.recording.binds)
        return y

    for recorded in (True, *[False] * 6, True, True):
        subject.grad(product)(2.0, recorded)
    assert found[0] and all(each == found[0] for each in found), found
