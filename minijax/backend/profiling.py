"""XLA's own profiler: when each instruction of a program ran, and for how long."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple


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


def profiled(module: str, run: Callable[[], Any]) -> list[InstructionRun]:
    """What ran of the program called ``module`` while ``run()`` did, in order of time, on all devices.

    RuntimeError if a profiler is at work already: there can be only one in a process.
    """
    profiler = importlib.import_module("jaxlib._profiler")
    data = importlib.import_module("jaxlib._profile_data")
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0
    session = profiler.ProfilerSession(options)
    try:
        run()
    finally:
        written = session.stop()
    found = []
    for plane in data.ProfileData.from_serialized_xspace(written).planes:
        for thread in plane.lines:
            for event in thread.events:
                said = dict(event.stats)
                # an event 'end: sin.1' marks the moment at which the work of another thread was seen to be done
                if said.get("hlo_module") == module and "hlo_op" in said and not event.name.startswith("end: "):
                    times = float(event.start_ns), float(event.duration_ns)
                    numbers = [int(said.get(name, 0)) for name in ("device_ordinal", "program_id", "run_id")]
                    found.append(InstructionRun(str(said["hlo_op"]), *times, *numbers))
    first = min((each.begin for each in found), default=0.0)
    return sorted((each._replace(begin=each.begin - first) for each in found), key=lambda each: each.begin)
