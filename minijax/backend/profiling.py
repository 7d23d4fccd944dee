"""XLA's own profiler: when each instruction of a program ran, and for how long; what the host did for a call; and what
each pass took while a program was compiled.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from minijax.backend.client import runtime

# The moment at which work that other threads share in was seen to be done is an event of its own, under a number that
# both have. What follows the work may have run on the same thread before that.
_END = "end: "
# Marks a call on the profiler's clock.
_CALL = "minijax call"
# What jaxlib and PJRT call copying to a device, and executing a program, on the thread that asks for it.
_TRANSFERS = ("DevicePut", "DevicePutWithSharding")
_EXECUTE = "CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice"
# A pipeline of passes, which the profiler is told of by this file of XLA's: ``simplification (jit_f)``.
_PIPELINES = "hlo_pass_pipeline.cc"
_PIPELINE = r"(.*) \(.*\)"
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


class ProfilerBusy(RuntimeError):
    """A profiler is at work already: there can be only one in a process."""


def profiled(module: str, run: Callable[[], Any]) -> list[InstructionRun]:
    """What ran of the program called ``module`` while ``run()`` did, in order of time, on all devices.

    ProfilerBusy if a profiler is at work already.
    """
    found = _instructions(_events(run), module)
    first = found[0].begin if found else 0.0
    return [each._replace(begin=each.begin - first) for each in found]


def traced_calls(module: str, call: Callable[[], Any], count: int) -> list[TracedCall]:
    """``call()`` so many times, each with what ran of the program called ``module`` and what the host did meanwhile.

    ProfilerBusy if a profiler is at work already.
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
    """One run of a pass of XLA's: of which program, and in which pipeline, the innermost."""

    module: str
    pipeline: str
    name: str
    nanoseconds: float


def compiled_passes(run: Callable[[], Any]) -> list[PassRun]:
    """What passes ran while ``run()`` had something compiled, whether they changed the program or not.

    ProfilerBusy if a profiler is at work already.
    """
    found = []
    for thread in _events(run):
        # when each event that is under way ends, and of what program and which pipeline it is
        open_: list[tuple[float, str, str]] = []
        events = ((_interval(each), each) for each in thread)
        for when, event in sorted(events, key=lambda pair: (pair[0].begin, -pair[0].end)):
            while open_ and open_[-1][0] <= when.begin:
                open_.pop()
            said, module, pipeline = dict(event.stats), "", ""
            if str(said.get("_src", "")).endswith(_PIPELINES):
                named = re.fullmatch(_PIPELINE, event.name)
                module, pipeline = str(said.get("module", "")), event.name if named is None else named[1]
            elif open_ and open_[-1][2]:
                found.append(PassRun(*open_[-1][1:], event.name, when.end - when.begin))
            open_.append((when.end, module, pipeline))
    return found


def _events(run: Callable[[], Any]) -> list[list[Any]]:
    """What the profiler saw while ``run()`` did, by thread."""
    runtime()  # which sees to what jaxlib writes on the terminal
    profiler = importlib.import_module("jaxlib._profiler")
    data = importlib.import_module("jaxlib._profile_data")
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0
    session = profiler.ProfilerSession(options)
    try:
        run()
    finally:
        # that another is at work is said at the end, once
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
