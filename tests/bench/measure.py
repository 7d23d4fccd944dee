"""Clocks, the interleaved comparison of two libraries, and the verdict on a ratio.

A sample is the CPU time of one *thunk*: a function without arguments. ``prepare`` creates a new one before the clock
starts, so its functions are in no cache. Every round takes one sample of each library, in alternating
order, and compares the results. The figure is the median of the ratios of all rounds. If the machine slows down,
both samples of a round are slower.
"""

from __future__ import annotations

import gc
import importlib
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Thunk = Callable[[], Any]
Prepare = Callable[[Any], Thunk]

FULL_SAMPLE_NS = 20_000_000
# The quickest of this many calls gives the number of calls per sample: the first ones may still fill caches.
CALLS_UNTIL_WARM = 5

MEETS, CLOSE, MISSES, ERROR, SKIPPED = "meets", "within 2x", "misses", "error", "skipped"


@dataclass(frozen=True)
class Settings:
    """How a run measures.

    A row takes rounds until ``seconds`` have passed or ``max_rounds`` are done. With fewer than ``rounds`` rounds, it
    may take twice as long. There is always at least one round.
    """

    subject: str
    reference: str = "jax"
    namespaces: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 5
    max_rounds: int = 25
    seconds: float = 5.0


@dataclass
class Result:
    """One printed line: a ratio, and whether it meets its budget."""

    row: str
    title: str
    budget: float
    verdict: str = ERROR
    figure: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    unit: str = "us"
    reference: float | None = None
    subject: float | None = None
    note: str = ""

    def judge(self, subject: Sequence[float], reference: Sequence[float]) -> Result:
        """Compute the figures from the ratio of each round: the subject's sample divided by the reference's."""
        ratios = [a / b for a, b in zip(subject, reference, strict=True)]
        self.figure = statistics.median(ratios)
        self.low, self.high = quartiles(ratios)
        self.rounds = len(ratios)
        self.subject, self.reference = statistics.median(subject), statistics.median(reference)
        self.verdict = verdict(self.figure, self.budget)
        return self


class Different(AssertionError):
    """The libraries computed different results: a comparison of their speeds would mean nothing."""


def load(name: str) -> Any:
    """The module ``name``, JAX or minijax, with its ``numpy`` and ``lax`` loaded."""
    module = importlib.import_module(name)
    importlib.import_module(name + ".numpy")
    importlib.import_module(name + ".lax")
    return module


def array(ns: Any, value: Any) -> Any:
    """``value`` as a float32 array of the library, made from a new NumPy copy so that no two share memory."""
    return ns.numpy.asarray(np.array(value, dtype=np.float32))


# ------------------------------------------------------------------------------------------------- clocks


def cpu_ns(thunk: Thunk) -> tuple[float, Any]:
    """CPU nanoseconds of the whole process, including XLA's threads."""
    gc.collect()
    start = time.process_time_ns()
    value = thunk()
    return time.process_time_ns() - start, value


def repeated(thunk: Thunk, times: int) -> Thunk:
    def many() -> Any:
        for _ in range(times - 1):
            thunk()
        return thunk()

    return many


# ------------------------------------------------------------------------------------------------- checks


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of dicts, lists and tuples, in an order that is the same for all libraries."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from leaves(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def require_same(expected: Any, got: Any, rtol: float) -> None:
    """Raise ``Different`` unless both hold the same numbers, counts or strings; ``rtol``: relative tolerance."""
    ours, theirs = list(leaves(got)), list(leaves(expected))
    if len(ours) != len(theirs):
        raise Different(f"{len(ours)} results instead of {len(theirs)}")
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(mine, str) or isinstance(other, str):
            same = mine == other
        else:
            a, b = np.asarray(mine).astype(float), np.asarray(other).astype(float)
            scale = float(np.max(np.abs(b), initial=0.0))
            same = a.shape == b.shape and bool(np.all(np.isfinite(a)))
            same = same and np.allclose(a, b, rtol=rtol, atol=rtol * scale)
        if not same:
            raise Different(f"{mine} instead of {other}")


def primitive_counts(closed_jaxpr: Any) -> dict[str, int]:
    """How often each primitive occurs. Tracing times of two libraries are comparable if these counts agree."""
    return dict(Counter(equation.primitive.name for equation in closed_jaxpr.jaxpr.eqns))


# --------------------------------------------------------------------------------------------- comparison


def verdict(figure: float, budget: float) -> str:
    return MEETS if figure <= budget else CLOSE if figure <= 2 * budget else MISSES


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def sampling(settings: Settings) -> Iterator[int]:
    """Yield the number of each round until the limits of ``Settings`` are reached."""
    began = time.monotonic()
    for number in range(settings.max_rounds):
        spent = time.monotonic() - began
        average = spent / number if number else 0.0
        if number and spent + average > settings.seconds * (1 if number >= settings.rounds else 2):
            return
        yield number


def interleaved(settings: Settings, samplers: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """sampler -> its samples, one per round. In each round another sampler comes first."""
    names = list(samplers)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for number in sampling(settings):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            samples[name].append(samplers[name]())
    return samples


@dataclass(frozen=True)
class Row:
    """A workload measured in this process, as the ratio of the subject to the reference.

    Args:
      key: the name by which ``--rows`` selects the row.
      title: shown in the table.
      budget: the largest ratio that meets the budget.
      prepare: creates a new thunk from a library's namespace (not timed).
      check: converts the thunk's value to a form that must be equal for both libraries.
      ops: the number of operations in one thunk, by which absolute times are divided.
      reuse: whether to prepare once and time the same thunk in every round (for cached calls).
      repeat: whether a sample repeats the call to fill ``FULL_SAMPLE_NS``, for work that caches nothing between calls.
          The collector runs before each sample, so a single call of half a millisecond would mostly measure cold
          caches.
      rtol: relative tolerance of the results.
    """

    key: str
    title: str
    budget: float
    prepare: Prepare
    check: Callable[[Any], Any] = lambda value: value
    ops: int = 1
    reuse: bool = False
    repeat: bool = False
    rtol: float = 1e-3

    def run(self, settings: Settings) -> Result:
        result = Result(self.key, self.title, self.budget)
        # The subject may be the reference too (``--subject jax`` tests the harness), so each has its own key.
        libraries = {
            "reference": settings.namespaces[settings.reference],
            "subject": settings.namespaces[settings.subject],
        }
        values: dict[str, Any] = {}
        prepared: dict[str, Thunk] = {}
        times: dict[str, int] = {}  # the number of calls in a sample of each library, known after its first sample

        def sampler(name: str) -> Callable[[], float]:
            def sample() -> float:
                if not self.reuse or name not in prepared:
                    prepared[name] = self.prepare(libraries[name])
                thunk = prepared[name]
                taken, value = cpu_ns(repeated(thunk, times[name]) if name in times else thunk)
                if not self.reuse:
                    del prepared[name]
                values[name] = self.check(value)
                if len(values) == len(libraries):
                    compare()
                if name in times:
                    taken /= times[name]
                elif self.repeat:
                    quickest = min([cpu_ns(thunk)[0] for _ in range(CALLS_UNTIL_WARM)])
                    times[name] = max(1, round(FULL_SAMPLE_NS / quickest))
                return taken / self.ops

            return sample

        def compare() -> None:
            try:
                require_same(values["reference"], values["subject"], self.rtol)
            except Different as error:
                raise Different(f"{settings.subject} differs from {settings.reference}: {error}") from None
            values.clear()

        samplers = {name: sampler(name) for name in libraries}
        for sample in samplers.values():  # one round fills the caches, and does not count
            sample()
        samples = interleaved(settings, samplers)
        return result.judge(samples["subject"], samples["reference"])
