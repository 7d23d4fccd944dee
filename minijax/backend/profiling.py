"""Runs XLA's own profiler. It times each instruction of a program, the host's work for a call, and compiler passes."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from minijax.backend.client import runtime

# Several threads may share one piece of work. The thread that ends the work may have run other work since its start, so
# a separate event marks the end. It has the same number as the work.
_END = "end: "
# The name of the event that marks one call among the profiler's events.
_CALL = "minijax call"
# Names that jaxlib and PJRT give to two events of the calling thread: copying to a device, and executing a program.
_TRANSFERS = ("DevicePut", "DevicePutWithSharding")
_EXECUTE = "CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice"
# Events from this source file of XLA are pipelines of passes, with names such as ``simplification (jit_f)``.
_PIPELINES = "hlo_pass_pipeline.cc"
_PIPELINE = r"(.*) \(.*\)"
# Work for a thread pool is queued under a number. Another thread starts and ends it under that number.
_HANDED, _BEGUN, _ENDED = (f"ThreadpoolListener::{word}" for word in ("Record", "StartRegion", "StopRegion"))


class InstructionRun(NamedTuple):
    """One run of an HLO instruction: start and duration in ns, and XLA's numbers of ``program`` and ``run``."""

    instruction: str
    begin: float
    nanoseconds: float
    device: int
    program: int = 0
    run: int = 0


class Interval(NamedTuple):
    """A start and an end in nanoseconds."""

    begin: float
    end: float


class TracedCall(NamedTuple):
    """The times of one call, its instructions, its copies to a device (``transfers``), and its executions."""

    when: Interval
    instructions: list[InstructionRun]
    transfers: list[Interval]
    executions: list[Interval]


class ProfilerBusy(RuntimeError):
    """A profiler is running already. A process can have only one."""


def profiled(module: str, run: Callable[[], Any]) -> list[InstructionRun]:
    """The instructions of ``module`` during ``run()``, in order of time. ProfilerBusy if a profiler is running."""
    found = _instructions(_events(run), module)
    first = found[0].begin if found else 0.0
    return [each._replace(begin=each.begin - first) for each in found]


def traced_calls(module: str, call: Callable[[], Any], count: int) -> list[TracedCall]:
    """Run ``call()`` ``count`` times. For each call, return its times and those of ``module``'s instructions.

    ProfilerBusy if a profiler is running.
    """
    mark = importlib.import_module("jaxlib._profiler").TraceMe

    def run() -> None:
        for _ in range(count):
            with mark(_CALL):
                call()

    events = _events(run)
    instructions = _instructions(events, module)
    transfers = _transfers(events)
    calls = sorted(_interval(event) for thread in events for event in thread if event.name == _CALL)
    executions = [_interval(event) for thread in events for event in thread if event.name == _EXECUTE]
    return [
        TracedCall(
            when,
            [each for each in instructions if when.begin <= each.begin < when.end],
            [each for each in transfers if when.begin <= each.begin < when.end],
            [each for each in executions if when.begin <= each.begin < when.end],
        )
        for when in calls
    ]


class PassRun(NamedTuple):
    """The time of one run of an XLA pass, with its program and its innermost pipeline."""

    module: str
    pipeline: str
    name: str
    nanoseconds: float


def compiled_passes(run: Callable[[], Any]) -> list[PassRun]:
    """The passes that ran while ``run()`` compiled something. ProfilerBusy if a profiler is running already."""
    found = []
    for thread in _events(run):
        # for each event that is not over yet: its end, its program and its pipeline
        open_: list[tuple[float, str, str]] = []
        events = ((_interval(each), each) for each in thread)
        for when, event in sorted(events, key=lambda pair: (pair[0].begin, -pair[0].end)):
            while open_ and open_[-1][0] <= when.begin:
                open_.pop()
            stats, module, pipeline = dict(event.stats), "", ""
            if str(stats.get("_src", "")).endswith(_PIPELINES):
                named = re.fullmatch(_PIPELINE, event.name)
                module, pipeline = str(stats.get("module", "")), event.name if named is None else named[1]
            elif open_ and open_[-1][2]:
                found.append(PassRun(*open_[-1][1:], event.name, when.end - when.begin))
            open_.append((when.end, module, pipeline))
    return found


def _events(run: Callable[[], Any]) -> list[list[Any]]:
    """The profiler's events during ``run()``, by thread."""
    runtime()  # sets what jaxlib logs to the terminal
    profiler = importlib.import_module("jaxlib._profiler")
    data = importlib.import_module("jaxlib._profile_data")
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0
    session = profiler.ProfilerSession(options)
    try:
        run()
    finally:
        # only stopping the session reveals that another profiler was running
        written, busy = _stopped(session)
    if busy:
        raise ProfilerBusy(busy)
    planes = data.ProfileData.from_serialized_xspace(written).planes
    return [[*thread.events] for plane in planes for thread in plane.lines]


def _stopped(session: Any) -> tuple[bytes, str]:
    try:
        return session.stop(), ""
    except RuntimeError as error:
        return b"", str(error)


def _interval(event: Any) -> Interval:
    return Interval(float(event.start_ns), float(event.start_ns) + float(event.duration_ns))


def _instructions(events: list[list[Any]], module: str) -> list[InstructionRun]:
    found, ends = [], {}
    for event in (each for thread in events for each in thread):
        stats = dict(event.stats)
        if event.name.startswith(_END):
            ends[stats.get("_c")] = float(event.start_ns)
        elif stats.get("hlo_module") == module and "hlo_op" in stats:
            numbers = [int(stats.get(name, 0)) for name in ("device_ordinal", "program_id", "run_id")]
            found.append((_interval(event), str(stats["hlo_op"]), numbers, stats.get("_p")))
    found.sort(key=lambda each: each[0])
    runs = []
    # for each run of a program on each device: the start of the instruction after the current one
    following: dict[tuple[int, ...], float] = {}
    for when, name, numbers, mark in reversed(found):
        seen = min(ends.get(mark, 0.0), following.get(tuple(numbers), 0.0))
        runs.append(InstructionRun(name, when.begin, max(when.end, seen) - when.begin, *numbers))
        following[tuple(numbers)] = when.begin
    return runs[::-1]


def _transfers(events: list[list[Any]]) -> list[Interval]:
    """The times of copies to a device. Other threads copy large arrays: their work has its own intervals."""
    found, handed = [], set()
    for thread in events:
        own = [_interval(event) for event in thread if event.name in _TRANSFERS]
        found += own
        for event in thread if own else ():
            if event.name == _HANDED and any(each.begin <= event.start_ns <= each.end for each in own):
                handed.add(dict(event.stats).get("_p"))
    for thread in events if handed else ():
        begun = None
        for event in thread:
            if event.name == _BEGUN:
                begun = event if dict(event.stats).get("_c") in handed else None
            elif event.name == _ENDED and begun is not None:
                found.append(Interval(float(begun.start_ns), float(event.start_ns)))
                begun = None
    return sorted(found)
