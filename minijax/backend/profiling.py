"""XLA's own profiler: when each instruction of a program ran, and for how long; and what the host did for a call."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

# The moment at which work that other threads share in was seen to be done is an event of its own, under a number that
# both have. What follows the work may have run on the same thread before that.
_END = "end: "
# Marks a call on the profiler's clock.
_CALL = "minijax call"
# What jaxlib and PJRT call copying to a device, and executing a program, on the thread that asks for it.
_TRANSFERS = ("DevicePut", "DevicePutWithSharding")
_EXECUTE = "CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice"
# Work handed to a pool of threads: it is put down under a number, and begun and ended under that number elsewhere.
_HANDED, _BEGUN, _ENDED = (f"ThreadpoolListener::{word}" for word in ("Record", "StartRegion", "StopRegion"))


class InstructionRun(NamedTuple):
    """One run of an instruction of optimised HLO: nanoseconds since the first of all, and how long it took.

    ``program`` and ``run`` are XLA's numbers of the program, of which several may have one name, and of its run.
    """

    instruction: str
    begin: float
    nanoseconds: float
    device: int
    program: int = 0
    run: int = 0


class Interval(NamedTuple):
    """Nanoseconds from when to when."""

    begin: float
    end: float


class TracedCall(NamedTuple):
    """One call on the profiler's clock: from when to when, and what happened meanwhile.

    ``transfers`` are copies to a device, ``executions`` what PJRT did to execute a program, on any thread.
    """

    when: Interval
    instructions: list[InstructionRun]
    transfers: list[Interval]
    executions: list[Interval]


def profiled(module: str, run: Callable[[], Any]) -> list[InstructionRun]:
    """What ran of the program called ``module`` while ``run()`` did, in order of time, on all devices.

    RuntimeError if a profiler is at work already: there can be only one in a process.
    """
    found = _instructions(_events(run), module)
    first = found[0].begin if found else 0.0
    return [each._replace(begin=each.begin - first) for each in found]


def traced_calls(module: str, call: Callable[[], Any], count: int) -> list[TracedCall]:
    """``call()`` so many times, each with what ran of the program called ``module`` and what the host did meanwhile.

    RuntimeError if a profiler is at work already.
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


def _events(run: Callable[[], Any]) -> list[list[Any]]:
    """What the profiler saw while ``run()`` did, by thread."""
    profiler = importlib.import_module("jaxlib._profiler")
    data = importlib.import_module("jaxlib._profile_data")
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0
    session = profiler.ProfilerSession(options)
    try:
        run()
    finally:
        written = session.stop()
    planes = data.ProfileData.from_serialized_xspace(written).planes
    return [[*thread.events] for plane in planes for thread in plane.lines]


def _interval(event: Any) -> Interval:
    return Interval(float(event.start_ns), float(event.start_ns) + float(event.duration_ns))


def _instructions(events: list[list[Any]], module: str) -> list[InstructionRun]:
    found, ends = [], {}
    for event in (each for thread in events for each in thread):
        said = dict(event.stats)
        if event.name.startswith(_END):
            ends[said.get("_c")] = float(event.start_ns)
        elif said.get("hlo_module") == module and "hlo_op" in said:
            numbers = [int(said.get(name, 0)) for name in ("device_ordinal", "program_id", "run_id")]
            found.append((_interval(event), str(said["hlo_op"]), numbers, said.get("_p")))
    found.sort(key=lambda each: each[0])
    runs = []
    # of each run of a program on each device, when the instruction after the one at hand begins
    following: dict[tuple[int, ...], float] = {}
    for when, name, numbers, mark in reversed(found):
        seen = min(ends.get(mark, 0.0), following.get(tuple(numbers), 0.0))
        runs.append(InstructionRun(name, when.begin, max(when.end, seen) - when.begin, *numbers))
        following[tuple(numbers)] = when.begin
    return runs[::-1]


def _transfers(events: list[list[Any]]) -> list[Interval]:
    """Copies to a device, and what they handed to other threads: a large array is copied there."""
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
