"""Rows about being watched: what a recorder costs. The reference is minijax itself, unwatched."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.measure import SKIPPED, Prepare, Result, Settings, Thunk, cpu_ns, interleaved, verdict

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = 1_000
CELLS = 10


def _chain(ns: Any) -> Callable[[Any], Any]:
    sin = ns.numpy.sin

    def chain(x: Any) -> Any:
        for _ in range(OPERATIONS // 2):
            x = sin(x) * 1.00001
        return x

    return chain


def gradient(ns: Any) -> Thunk:
    function = ns.grad(_chain(ns))
    return lambda: function(0.9)


def staging(ns: Any) -> Thunk:
    function = ns.make_jaxpr(_chain(ns))
    return lambda: function(0.9)


def scans(ns: Any) -> Thunk:
    """Twenty gradients of small scans, each of a new cell."""
    xs = ns.numpy.ones(CELLS)

    def one() -> Any:
        def cell(carry: Any, x: Any) -> Any:
            new = ns.numpy.sin(carry) * x
            return new, new

        return ns.grad(lambda x: ns.lax.scan(cell, x, xs)[0])(0.9)

    return lambda: [one() for _ in range(20)]


WORK: dict[str, tuple[str, Prepare]] = {
    "grad": (f"grad of {OPERATIONS:,} operations", gradient),
    "make_jaxpr": (f"make_jaxpr of {OPERATIONS:,} operations", staging),
    "scan": (f"grad of a new scan of {CELLS} cells, 20 times", scans),
}


@dataclass(frozen=True)
class AgainstItself:
    """A workload of minijax in two ways: ``samplers`` gives what measures each once, and what to say of them."""

    key: str
    title: str
    budget: float

    def samplers(self, settings: Settings) -> tuple[dict[str, Callable[[], float]], str]:
        raise NotImplementedError

    def run(self, settings: Settings) -> Result:
        result = Result(self.key, self.title, self.budget, unit="us")
        if settings.subject != "minijax":
            result.verdict, result.note = SKIPPED, "only minijax can be watched"
            return result
        samplers, note = self.samplers(settings)
        samples = interleaved(settings, samplers, settings.rounds)
        result.judge(samples["subject"], samples["reference"])
        # What disturbs a run only makes it longer: the best of each are the least disturbed.
        result.figure = min(samples["subject"]) / min(samples["reference"])
        result.verdict = verdict(result.figure, result.budget)
        result.note = f"the best of each; against minijax itself{note}"
        return result


@dataclass(frozen=True)
class Watched(AgainstItself):
    """A workload with a recorder of this level watching, against the same unwatched."""

    level: str
    prepare: Prepare

    def samplers(self, settings: Settings) -> tuple[dict[str, Callable[[], float]], str]:
        ns = settings.namespaces[settings.subject]
        recorder = importlib.import_module("minijax.tools.recording.recorder").Recorder

        def unwatched() -> float:
            return cpu_ns(self.prepare(ns))[0]

        def watched() -> float:
            thunk = self.prepare(ns)

            def recorded() -> Any:
                with recorder(self.level):
                    return thunk()

            return cpu_ns(recorded)[0]

        unwatched(), watched()
        return {"reference": unwatched, "subject": watched}, ""


# A summary is on whenever a panel is shown. %step makes a full recording.
WATCHING_ROWS: list[Any] = [
    Watched(f"watch.{level}.{key}", f"{level} / unwatched: {title}", budget, level, prepare)
    for level, budget in (("summary", 1.6), ("full", 12.0))
    for key, (title, prepare) in WORK.items()
]
