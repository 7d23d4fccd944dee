"""A compiled call's time split into dispatch, transfer and compute, on the single clock of XLA's profiler.

Each moment of a call is of one of four kinds. Compute: an instruction of the program runs, or a loop iterates.
Transfer: an argument is copied to the device and no instruction runs. Dispatch: Python or the runtime works before the
first instruction. Not attributed: the rest, between instructions and after the last one.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from minijax.backend.profiling import InstructionRun, Interval, TracedCall, traced_calls
from minijax.core.records import Frozen
from minijax.tools.programs import hlo, links
from minijax.tools.xla.roofline import Nesting, of_one

# Part of a call -> the kinds of ``Stretch`` that belong to it.
PARTS = {
    "dispatch": ("python", "runtime"),
    "transfer": ("transfer",),
    "compute": ("compute",),
    "not attributed": ("between", "after"),
}
# Limits for the profiled calls: about this many seconds in total, and this number of calls.
_SECONDS, _MOST_CALLS = 0.05, 50


class Stretch(Frozen):
    """A stretch of time in a call: its kind, and its begin and end in seconds since the call began.

    Kinds: 'python', until PJRT begins to execute; 'runtime', from then until the first instruction; 'transfer';
    'compute'; 'between', no instruction runs; 'after' the last instruction.
    """

    kind: str
    begin: float
    end: float


class StepRow(Frozen):
    """An instruction in one call. ``when``: the intervals in which it ran, in seconds since the call began.

    ``seconds`` is the time of the instruction itself, without the instructions inside a loop. ``rounds``: the number of
    iterations of a loop, 0 for other instructions. ``depth``: the number of loops around the instruction.
    ``how``: how the equations are known (``programs.owners``).
    """

    name: str
    when: tuple[Interval, ...]
    seconds: float
    rounds: float = 0
    depth: int = 0
    equations: links.Numbers = ()
    how: str = ""


class StepTime(Frozen):
    """The fastest of ``calls`` calls under XLA's profiler. ``stretches`` cover the call from beginning to end."""

    seconds: float
    calls: int
    stretches: tuple[Stretch, ...]
    rows: tuple[StepRow, ...]
    linked: links.LinkedPrograms

    @property
    def parts(self) -> dict[str, float]:
        """The seconds of dispatch, transfer, compute, and the unattributed rest. They add up to the whole call."""
        return {part: self.of(*kinds) for part, kinds in PARTS.items()}

    def of(self, *kinds: str) -> float:
        """The seconds of the stretches of these kinds."""
        return sum(each.end - each.begin for each in self.stretches if each.kind in kinds)

    def __repr__(self) -> str:
        return f"<a call of {self.seconds * 1e6:.1f} us, {len(self.rows)} instructions>"


def timed_step(lowered: Any, call: Callable[[], Any], about: float) -> StepTime:
    """Profile ``call()``, which takes about ``about`` seconds and waits for its result.

    ``lowered`` is the result of ``jit(f).lower(...)`` for the program that ``call`` runs. ProfilerBusy if a profiler is
    already active, ``UsageError`` if another program of the same name ran too.
    """
    text = lowered.compile().program.executable.hlo_text()
    module = hlo.module_name(text)
    count = min(max(int(_SECONDS / max(about, 1e-6)), 1), _MOST_CALLS)
    traced = traced_calls(module, call, count)
    own = {*of_one("time", module, [one for each in traced for one in each.instructions], count)}
    quickest = min(traced, key=lambda each: each.when.end - each.when.begin)
    found = quickest._replace(instructions=[one for one in quickest.instructions if one in own])
    lines = text.split("\n")
    known = hlo.instructions(lines)
    linked = links.link(lowered.jaxpr, lowered.places(), text, most=sys.maxsize)
    rows = tuple(_rows(found, known, _bodies(lines, known), linked))
    return StepTime((found.when.end - found.when.begin) / 1e9, count, tuple(stretches(found, rows)), rows, linked)


# -------------------------------------------------------------------------------------------------------- stretches


def stretches(call: TracedCall, rows: Iterable[StepRow]) -> Iterator[Stretch]:
    """The stretches of a call, in order and without gaps."""
    begin, length = call.when.begin, (call.when.end - call.when.begin) / 1e9

    def clipped(intervals: Iterable[Interval]) -> list[Interval]:
        return [Interval(max(each.begin, 0.0), min(each.end, length)) for each in intervals if each.begin < length]

    compute = merged(clipped(when for each in rows for when in each.when))
    copies = without(merged(clipped(map(_since(begin), call.transfers))), compute)
    executed = merged(clipped(map(_since(begin), call.executions)))
    asked = executed[0].begin if executed else length
    first = compute[0].begin if compute else executed[-1].end if executed else length
    last = compute[-1].end if compute else first
    rest = without([Interval(0.0, length)], merged([*compute, *copies]))
    asked = min(asked, first)
    bounds = (("python", 0.0, asked), ("runtime", asked, first), ("between", first, last), ("after", last, length))
    found = [Stretch("compute", *each) for each in compute] + [Stretch("transfer", *each) for each in copies]
    for kind, of, to in bounds:
        cut = (Interval(max(each.begin, of), min(each.end, to)) for each in rest)
        found += [Stretch(kind, *each) for each in cut if each.begin < each.end]
    yield from sorted(found, key=lambda each: each.begin)


def _since(begin: float) -> Callable[[Interval], Interval]:
    return lambda each: Interval((each.begin - begin) / 1e9, (each.end - begin) / 1e9)


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The union of the intervals, in order."""
    found: list[Interval] = []
    for each in sorted(intervals):
        if found and each.begin <= found[-1].end:
            found[-1] = Interval(found[-1].begin, max(found[-1].end, each.end))
        elif each.begin < each.end:
            found.append(each)
    return found


def without(intervals: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """``intervals`` without the parts that ``others`` cover. Each list must be in order and without overlaps."""
    found = []
    listed = [*others]
    at = 0
    for each in intervals:
        begin = each.begin
        while at < len(listed) and listed[at].end <= begin:
            at += 1
        i = at
        while i < len(listed) and listed[i].begin < each.end:
            if listed[i].begin > begin:
                found.append(Interval(begin, listed[i].begin))
            begin = max(begin, listed[i].end)
            i += 1
        if begin < each.end:
            found.append(Interval(begin, each.end))
    return found


# ---------------------------------------------------------------------------------------------------------- rows


def _bodies(lines: list[str], known: dict[int, hlo.Instruction]) -> dict[str, str]:
    """name of a loop -> the computation that is its body."""
    found = {each.name: re.search(r"\bbody=%?([\w.-]+)", lines[i]) for i, each in known.items()}
    return {name: body[1] for name, body in found.items() if body is not None}


def _rows(
    call: TracedCall, known: dict[int, hlo.Instruction], bodies: dict[str, str], linked: links.LinkedPrograms
) -> Iterator[StepRow]:
    """The instructions that ran, in the order in which they began. Instructions inside a loop follow the loop."""
    runs: dict[str, list[InstructionRun]] = {}
    for one in call.instructions:
        runs.setdefault(one.instruction, []).append(one)
    nesting = Nesting(known)
    inside = {name: [each.name for each in nesting.inside(name) if each.name in runs] for name in runs}
    depth = {name: sum(name in names for names in inside.values()) for name in runs}
    members = {each.name: each.computation for each in known.values()}
    since = _since(call.when.begin)

    def when(name: str) -> list[Interval]:
        return [since(Interval(one.begin, one.begin + one.nanoseconds)) for one in runs[name]]

    times = {name: when(name) for name in runs}
    # a loop's thread may end before its other threads: the loop lasts until its last instruction ends
    for name in sorted(runs, key=lambda name: -depth[name]):
        times[name] = _extended(times[name], [each for one in inside[name] for each in times[one]])
    for name, own in times.items():
        within = merged(each for one in inside[name] for each in times[one])
        seconds = sum(each.end - each.begin for each in (without(merged(own), within) if within else own))
        body = bodies.get(name, "")
        rounds = max([len(runs[one]) for one in inside[name] if members.get(one) == body], default=0) / len(own)
        yield StepRow(name, tuple(own), seconds, rounds, depth[name], *linked.owners.get(name, ((), "")))


def _extended(loop: list[Interval], within: list[Interval]) -> list[Interval]:
    """The runs of a loop, each extended to the end of the last instruction that began before the loop's next run."""
    ordered = sorted(within)
    begins = [each.begin for each in ordered]
    found = []
    for i, each in enumerate(loop):
        until = bisect_left(begins, loop[i + 1].begin) if i + 1 < len(loop) else len(begins)
        among = ordered[bisect_left(begins, each.begin) : until]
        found.append(Interval(each.begin, max([each.end, *(one.end for one in among)])))
    return found
