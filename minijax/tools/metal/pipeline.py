"""The passes that changed a program: what each pass removed and added, and for which source lines."""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from minijax.backend.profiling import PassRun, ProfilerBusy, compiled_passes
from minijax.core import observe
from minijax.core.records import Frozen
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.lowering.places import ModulePlaces, text_lines
from minijax.tools.documents.words import brief_seconds
from minijax.tools.metal.dumps import Dump, Kernel, PassText, dump
from minijax.tools.metal.memory import Memory, read_memory
from minijax.tools.programs import arguments, hlo, links

# XLA's name for the file at the start of a pipeline.
_START = "pipeline-start"


class Pass(Frozen):
    """A pass that changed the program: its text before and after.

    ``pipeline`` is the innermost pipeline of the pass. A change between two pipelines belongs to no pass: its name is
    ''. ``seconds`` is the total of all ``runs`` of the pass in pipelines of this name; most runs may have changed
    nothing. Both are 0 for a part of a pass, and if no profiler could watch.
    """

    number: int
    pipeline: str
    name: str
    before: str
    after: str
    seconds: float = 0.0
    runs: int = 0

    @property
    def title(self) -> str:
        """``simplification · algsimp``"""
        return f"{self.pipeline} · {self.name}" if self.name else f"before {self.pipeline}"

    @property
    def time(self) -> str:
        """``0.4 ms in 7 runs``; '' if unknown."""
        if not self.runs:
            return ""
        return brief_seconds(self.seconds) + (f" in {self.runs} runs" if self.runs > 1 else "")

    @cached_property
    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """The number of instructions of each kind before and after, in all computations, without parameters."""
        return _counted(self.before)[0], _counted(self.after)[0]

    @property
    def gone(self) -> Counter[str]:
        """How many fewer instructions of each kind there are."""
        before, after = self.counts
        return before - after

    @property
    def made(self) -> Counter[str]:
        """How many more instructions of each kind there are."""
        before, after = self.counts
        return after - before

    @cached_property
    def text_lines(self) -> tuple[int, ...]:
        """The lines of the StableHLO text whose instructions changed, in order."""
        before, after = (_counted(text)[1] for text in (self.before, self.after))
        changed = (before - after) + (after - before)
        return tuple(sorted({number for number, _ in changed}))


# One pass's output is the next pass's input. A text can take a megabyte, so the cache holds few.
@functools.lru_cache(maxsize=16)
def _counted(text: str) -> tuple[Counter[str], Counter[tuple[int, str]]]:
    """The number of instructions of each kind in a text, without parameters; and the same per line of StableHLO."""
    found = hlo.instructions(text.split("\n")).values()
    kinds = Counter((number, each.opcode) for each in found for number in text_lines(each.metadata))
    return Counter(each.opcode for each in found if each.opcode != "parameter"), kinds


class Descent(Frozen):
    """A program on its way through XLA: the passes that changed it, and the resulting memory and kernels.

    ``linked`` are the program's other forms, from Python to optimized HLO. ``places`` and ``closed`` link the text of
    every pass. ``arguments`` are the Python names of XLA's parameters, in order, '' if there is none.
    """

    closed: ClosedJaxpr
    places: ModulePlaces
    linked: links.LinkedPrograms
    passes: tuple[Pass, ...]
    memory: Memory
    kernels: tuple[Kernel, ...]
    before: str
    after: str
    arguments: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<{len(self.passes)} passes that changed a program of {len(self.linked.equations)} equations>"

    @cached_property
    def line_of(self) -> dict[str, int]:
        """The line of each instruction in the optimized HLO, by name."""
        found: dict[str, int] = {}
        for i, each in hlo.instructions(self.linked.hlo.lines).items():
            found.setdefault(each.name, i)
        return found

    @cached_property
    def called(self) -> dict[str, str]:
        """XLA's name of a parameter of the optimized HLO -> its Python name."""
        return arguments.hlo_names(self.after, self.arguments)

    def shown_name(self, name: str) -> str:
        """The name of an instruction of the optimized HLO as displayed: an argument has its Python name."""
        return self.called.get(name, name)

    def panes(self, *texts: str) -> tuple[links.Pane, ...]:
        """For texts of the program from different passes, the equations of each line."""
        return links.hlo_panes(self.closed, self.places, texts)

    def equations(self, each: Pass) -> tuple[links.Equation, ...]:
        """The source lines whose instructions the pass changed."""
        wanted = set(each.text_lines)
        numbers = {number for i, of in enumerate(self.linked.stablehlo.links, 1) if i in wanted for number in of}
        return tuple(self.linked.equation(number) for number in sorted(numbers))


def descent(lowered: Any, names: Sequence[str] = ()) -> Descent:
    """Compile the result of ``jit(f).lower(...)`` once more, with XLA dumping each pass; do not run it.

    ``names`` are the Python names of the jaxpr's inputs. Raises the errors of compiling.
    """
    closed = lowered.jaxpr
    runs = _watched(lowered.compile)
    program = lowered.compile().program
    if runs == []:  # already compiled: time another compilation, without a dump
        with observe.unobserved():
            runs = _watched(lambda: program.made(closed))
    return program_descent(program, closed, lowered.places(), names, runs or ())


def program_descent(
    program: Any, closed: ClosedJaxpr, places: ModulePlaces, names: Sequence[str] = (), runs: Sequence[PassRun] = ()
) -> Descent:
    """The descent of a program (``ops.call.Compiled``) with its jaxpr and its module's places.

    ``runs`` are the runs of passes in another compilation, under the profiler.
    """
    found, executable = dump(program, closed)
    # no cut here: the views shorten long texts and say so
    linked = links.link(closed, places, found.after, most=sys.maxsize)
    memory = read_memory(found.assignment, found.live, executable.memory_analysis())
    took = _times(runs, hlo.module_name(found.before))
    passes, called = tuple(_passes(found, took)), arguments.parameter_names(program, names)
    return Descent(closed, places, linked, passes, memory, found.kernels, found.before, found.after, called)


Times = dict[tuple[str, str], tuple[float, int]]


def _watched(compile: Callable[[], Any]) -> list[PassRun] | None:
    """The passes that run during a compilation; None if another profiler is active."""
    try:
        return compiled_passes(compile)
    except ProfilerBusy:
        return None


def _times(runs: Sequence[PassRun], module: str) -> Times:
    """The seconds and the number of runs of each pass of a pipeline."""
    found: Times = {}
    for each in runs:
        # spelled as in XLA's file names
        key = re.sub(r"[^\w.-]", "_", each.pipeline), each.name
        seconds, count = found.get(key, (0.0, 0))
        if each.module == module:
            found[key] = seconds + each.nanoseconds / 1e9, count + 1
    return found


def _passes(found: Dump, took: Times) -> Iterator[Pass]:
    before, number = found.before, 0
    last = PassText("after the passes", "", found.after)
    for step in (*found.steps, last):
        if step.text.strip() == before.strip():
            continue
        number += 1
        name = "" if step.name == _START else step.name
        yield Pass(number, step.pipeline, name, before, step.text, *took.get((step.pipeline, name), ()))
        before = step.text
