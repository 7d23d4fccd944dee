"""Measures the instructions of a compiled call: the time of each, and how close it comes to the machine's limits.

The work of an instruction is XLA's own estimate of its operations and bytes. XLA's cost analysis runs on each
instruction as a program of its own; the results add up to the analysis of the whole program. The times come from XLA's
profiler. The machine's limits are measured once per process, by a large matrix product and a large copy.
"""

from __future__ import annotations

import functools
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from minijax import lax
from minijax.api import block_until_ready, jit
from minijax.backend import pjrt
from minijax.backend.profiling import InstructionRun, profiled
from minijax.core import miss_log, observe
from minijax.core.records import Frozen
from minijax.tools.programs import hlo, links
from minijax.tools.usage import UsageError

# Instructions that contain others. Their time is the time of the instructions inside plus their own overhead.
CONTAINERS = ("while", "call", "conditional")
_FREE = ("parameter", "constant", "get-tuple-element", "bitcast")
# Limits for the timed calls: total seconds, and number of calls.
_SECONDS, _MOST_CALLS = 0.2, 50
_TRACED_CALLS = 5
# If a call takes longer than this many seconds, only one call is profiled.
_LONG = 0.1
# Rows of the square matrices, numbers in the copied array, copies in one program, and runs to take the best of.
_SIDE, _NUMBERS, _PASSES, _TRIALS = 512, 1 << 23, 8, 12
# The size of the copied array in bytes.
COPIED = 4 * _NUMBERS
_TYPE = r"\s*(?:ROOT )?%?[\w.-]+ = (.*?)\s[a-z][\w-]*\("


class Limits(Frozen):
    """What the machine can do: float32 operations per second, and bytes read and written per second."""

    flops: float
    bytes: float

    def least(self, flops: float, moved: float) -> float:
        """The least time in seconds for this much work."""
        return max(flops / self.flops, moved / self.bytes)


class Measured(Frozen):
    """An instruction of the optimized program in one call: its runs, its time and its work.

    ``flops`` and ``moved`` (bytes) are totals for all ``runs``, by XLA's cost analysis; they are 0 if unknown, as for a
    loop compiled to one piece of machine code. ``seconds`` is the total time, and ``begin`` is when the first run
    began. ``equations`` are the numbers of the instruction's equations, ``how`` says how they are known.
    """

    name: str
    opcode: str
    runs: float
    seconds: float
    begin: float
    flops: float
    transcendentals: float
    moved: float
    equations: links.Numbers
    how: str = ""


class Roofline(Frozen):
    """A measured call. ``rows`` are its instructions in the order of execution. An instruction has no row if
    instructions inside it have rows.

    ``seconds`` is the shortest of ``calls`` calls without a profiler. The rows' times are means over ``traced`` more
    calls under XLA's profiler, which slows them down. ``costs`` is XLA's analysis of the whole program, in which a
    loop's body counts once. ``loops``: whether the program has loops."""

    linked: links.LinkedPrograms
    rows: tuple[Measured, ...]
    seconds: float
    calls: int
    traced: int
    limits: Limits
    costs: dict[str, float]
    loops: bool

    @property
    def inside(self) -> float:
        """The total seconds of all instructions."""
        return sum(each.seconds for each in self.rows)

    def __repr__(self) -> str:
        return f"<{len(self.rows)} instructions measured in a call of {self.seconds * 1e6:.1f} us>"


def measure(lowered: Any, call: Callable[[], Any]) -> Roofline:
    """Measure ``call()``. ``lowered`` is the program that it runs, a result of ``jit(f).lower(...)``.

    The call is made dozens of times, so the program should have no side effects.
    """
    compiled = lowered.compile()
    executable = compiled.program.executable
    text = executable.hlo_text()
    block_until_ready(call())
    seconds, calls = best_of(call)
    traced = 1 if seconds > _LONG else _TRACED_CALLS
    module = hlo.module_name(text)
    looked_on = profiled(module, lambda: [block_until_ready(call()) for _ in range(traced)])
    ran = of_one("roofline", module, looked_on, traced)
    linked = links.link(lowered.jaxpr, lowered.places(), text, most=sys.maxsize)
    rows = _rows(text, linked, ran, traced)
    loops = any(each.opcode == "while" for each in hlo.instructions(text.split("\n")).values())
    return Roofline(linked, tuple(rows), seconds, calls, traced, limits(), compiled.cost_analysis(), loops)


def best_of(call: Callable[[], Any], limit: float = _SECONDS) -> tuple[float, int]:
    """The shortest time of several calls that take about ``limit`` seconds together, and their number."""
    best, calls, end = float("inf"), 0, time.perf_counter() + limit
    while not calls or calls < _MOST_CALLS and time.perf_counter() < end:
        began = time.perf_counter()
        block_until_ready(call())
        best = min(best, time.perf_counter() - began)
        calls += 1
    return best, calls


def of_one(command: str, module: str, ran: list[InstructionRun], calls: int) -> list[InstructionRun]:
    """The measured program's runs. UsageError unless it ran alone, or is the only one with ``calls`` runs."""
    runs: dict[int, set[int]] = {}
    for one in ran:
        runs.setdefault(one.program, set()).add(one.run)
    fitting = [program for program, of in runs.items() if len(of) == calls]
    if len(runs) > 1 and len(fitting) != 1:
        said = f"{len(runs)} programs named {module} ran during the measurement, and it is unclear which one was called"
        raise UsageError(f"%{command}: {said}: stop the other programs, or rename the function")
    return ran if len(runs) < 2 else [one for one in ran if one.program == fitting[0]]


def _rows(text: str, linked: links.LinkedPrograms, ran: Iterable[InstructionRun], calls: int) -> list[Measured]:
    lines = text.split("\n")
    known = hlo.instructions(lines)
    costs = instruction_costs(lines, known)
    at = {each.name: i for i, each in known.items()}
    runs: dict[str, list[InstructionRun]] = {}
    for one in ran:
        runs.setdefault(one.instruction, []).append(one)
    nesting = Nesting(known)
    rows = []
    for name, times in runs.items():
        index = at.get(name, -1)
        opcode = known[index].opcode if index >= 0 else ""
        within = [*nesting.inside(name)]
        if any(one.name in runs for one in within):
            continue
        often = len(times) / calls
        # a small loop is one piece of machine code, so its trip count and the branches taken are unknown
        unknown = {opcode, *(one.opcode for one in within)} & {"while", "conditional"}
        cost = {} if unknown else costs.get(name, {})
        rows.append(
            Measured(
                name,
                opcode,
                often,
                sum(one.nanoseconds for one in times) / calls / 1e9,
                times[0].begin / 1e9,
                cost.get("flops", 0.0) * often,
                cost.get("transcendentals", 0.0) * often,
                cost.get("bytes accessed", 0.0) * often,
                *linked.owners.get(name, ((), "")),
            )
        )
    return rows


class Nesting:
    """Finds the instructions inside another instruction."""

    def __init__(self, known: dict[int, hlo.Instruction]) -> None:
        self._called = {each.name: each.called for each in known.values() if each.opcode in CONTAINERS}
        self._members: dict[str, list[hlo.Instruction]] = {}
        for each in known.values():
            self._members.setdefault(each.computation, []).append(each)

    def inside(self, name: str) -> Iterator[hlo.Instruction]:
        """All instructions inside a loop, a call or a conditional, at any depth."""
        for called in self._called.get(name, ()):
            for one in self._members.get(called, ()):
                yield one
                yield from self.inside(one.name)


def instruction_costs(lines: list[str], known: dict[int, hlo.Instruction]) -> dict[str, dict[str, float]]:
    """name of an instruction that runs by itself -> XLA's cost analysis of it: flops, bytes accessed, ..."""
    fused = {name for each in known.values() if each.opcode not in CONTAINERS for name in each.called}
    types = {
        (each.computation, each.name): found[1] for i, each in known.items() if (found := re.match(_TYPE, lines[i]))
    }
    head = re.sub(r", entry_computation_layout=.*", "", lines[0])
    called = Callees(lines, known)
    costs: dict[str, dict[str, float]] = {}
    for i, each in known.items():
        if each.computation in fused or each.opcode in _FREE:
            continue
        operands = [(name, types[each.computation, name]) for name in dict.fromkeys(each.operands)]
        given = ", ".join(f"{name}: {kind}" for name, kind in operands)
        made = types[each.computation, each.name]
        body = [f"  %{name} = {kind} parameter({k})" for k, (name, kind) in enumerate(operands)]
        last = re.sub(hlo.METADATA, "", lines[i].strip().removeprefix("ROOT "))
        entry = f"ENTRY %alone ({given}) -> {made} {{"
        program = [head, "", *called.text(each.called), entry, *body, f"  ROOT {last}", "}", ""]
        costs[each.name] = pjrt.instruction_costs("\n".join(program))
    return costs


class Callees:
    """The text of each computation of a program, for the analysis of an instruction that calls it."""

    def __init__(self, lines: list[str], known: dict[int, hlo.Instruction]) -> None:
        self.texts: dict[str, list[str]] = {}
        self.calls: dict[str, set[str]] = {}
        for i, each in known.items():
            name = each.computation
            self.calls.setdefault(name, set()).update(each.called)
            if name not in self.texts:
                begin = next(j for j in range(i, -1, -1) if lines[j].endswith("{") and lines[j][0] != " ")
                end = next(j for j in range(i, len(lines)) if lines[j].startswith("}"))
                self.texts[name] = [*(re.sub(hlo.METADATA, "", line) for line in lines[begin : end + 1]), ""]

    def text(self, names: Iterable[str]) -> Iterator[str]:
        """The lines of the computations ``names`` and of all computations that they call, in program order."""
        wanted: set[str] = set()
        todo = [*names]
        while todo:
            name = todo.pop()
            if name not in wanted:
                wanted.add(name)
                todo += self.calls.get(name, ())
        return (line for name, lines in self.texts.items() if name in wanted for line in lines) if wanted else iter(())


@functools.cache
def limits() -> Limits:
    """The limits of this machine. The first call measures them, which takes a fifth of a second."""
    side = np.ones((_SIDE, _SIDE), np.float32)
    many = np.ones(_NUMBERS, np.float32)
    product = jit(lambda x: x @ x)
    # all copies are in one program, so that only the first copy has to allocate memory
    copies = jit(lambda x: lax.fori_loop(0, _PASSES, lambda i, x: x + 1, x))

    def best(run: Any, x: Any) -> float:
        x = jit(lambda x: x)(x)
        block_until_ready(run(x))
        times = []
        for _ in range(_TRIALS):
            began = time.perf_counter()
            block_until_ready(run(x))
            times.append(time.perf_counter() - began)
        return min(times)

    # hide these programs from the user's recordings
    with observe.unobserved(), miss_log.unkept():
        return Limits(2.0 * _SIDE**3 / best(product, side), 2.0 * many.nbytes * _PASSES / best(copies, many))
