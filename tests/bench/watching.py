"""The cost of a recorder. The reference is minijax without a recorder."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from tests.bench.measure import SKIPPED, Result, Settings, Thunk, cpu_ns, interleaved, verdict
from tests.bench.workloads import jnp_chain


def gradient(ns: Any) -> Thunk:
    function = ns.grad(jnp_chain(ns, 1_000))
    return lambda: function(0.9)


@dataclass(frozen=True)
class Watched:
    """The time of a gradient with a recorder of this level, as a multiple of the time without one."""

    level: str
    budget: float

    @property
    def key(self) -> str:
        return f"watch.{self.level}"

    @property
    def title(self) -> str:
        return f"{self.level} / unwatched: grad of 1,000 operations"

    def run(self, settings: Settings) -> Result:
        result = Result(self.key, self.title, self.budget)
        if settings.subject != "minijax":
            result.verdict, result.note = SKIPPED, "only minijax can be watched"
            return result
        ns = settings.namespaces[settings.subject]
        recorder = importlib.import_module("minijax.tools.recording.recorder").Recorder

        def unwatched() -> float:
            return cpu_ns(gradient(ns))[0]

        def watched() -> float:
            thunk = gradient(ns)

            def recorded() -> Any:
                with recorder(self.level):
                    return thunk()

            return cpu_ns(recorded)[0]

        unwatched(), watched()
        samples = interleaved(settings, {"reference": unwatched, "subject": watched})
        result.judge(samples["subject"], samples["reference"])
        # Disturbances only make a run longer, so the shortest sample of each has the fewest disturbances.
        result.figure = min(samples["subject"]) / min(samples["reference"])
        result.verdict = verdict(result.figure, result.budget)
        result.note = "the shortest samples; minijax with and without a recorder"
        return result


# A visible panel records a summary. %step makes a full recording.
WATCHING_ROWS = [Watched("summary", 1.6), Watched("full", 12.0)]
