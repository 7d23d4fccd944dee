"""The passes that changed a program: the instructions that each removed and added, and their source lines."""

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
from minijax.lowering.places import ModulePlaces
from minijax.tools.documents.words import brief_seconds
from minijax.tools.programs import arguments, hlo, links
from minijax.tools.xla.dumps import Dump, Kernel, PassText, dump
from minijax.tools.xla.memory import Memory, read_memory

# XLA's name for the step at the start of a pipeline.
_START = "pipeline-start"


class Pass(Frozen):
    """A pass that changed the program, with the program's text before and after.

    ``pipeline`` is the innermost pipeline that contains the pass. A change between two pipelines belongs to no pass, so
    ``name`` is ''. ``seconds`` is the total time of all ``runs`` of the pass in pipelines of this name, though most
    runs may have changed nothing. Both are 0 if unknown, for example because another profiler was active.
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
        """The number of instructions of each kind before and after, in all computations. Parameters do not count."""
        return _counted(self.before), _counted(self.after)

    @property
    def gone(self) -> Counter[str]:
        """kind -> how many instructions of this kind disappeared, if there are fewer than before."""
        before, after = self.counts
        return before - after

    @property
    def made(self) -> Counter[str]:
        """kind -> how many instructions of this kind were added, if there are more than before."""
        before, after = self.counts
        return after - before


# A text is needed twice, as the result of a pass and the input of the next. The cache is small: texts can take 1 MB.
@functools.lru_cache(maxsize=16)
def _counted(text: str) -> Counter[str]:
    """The number of a text's instructions by kind, without parameters."""
    found = hlo.instructions(text.split("\n")).values()
    return Counter(each.opcode for each in found if each.opcode != "parameter")


class Descent(Frozen):
    """A program on its way through XLA: the passes that changed it, and the resulting memory and kernels.

    ``linked``: the program's other forms, from Python to optimized HLO. ``places`` and ``closed`` relate the text after
    each pass to equations. ``arguments`` are the Python names of XLA's parameters, in order; '' if a name is unknown.
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
    def called(self) -> dict[str, str]:
        """name of a parameter of the optimized HLO -> the argument's Python name."""
        return arguments.hlo_names(self.after, self.arguments)

    def shown_name(self, name: str) -> str:
        """The name to show for an instruction of the optimized HLO; for a parameter, the argument's Python name."""
        return self.called.get(name, name)

    @cached_property
    def pane(self) -> Callable[[str], links.Pane]:
        """A function: the program's text after a pass -> its lines with their equations."""
        return links.hlo_linker(self.closed, self.places)


def descent(lowered: Any, names: Sequence[str] = ()) -> Descent:
    """Compile the result of ``jit(f).lower(...)`` again, let XLA dump each pass, and do not run the program.

    ``names`` are the Python names of the jaxpr's inputs. Raises the errors of compiling.
    """
    closed = lowered.jaxpr
    runs = _watched(lowered.compile)
    program = lowered.compile().program
    if runs == []:  # it was compiled before: time another compilation, without a dump
        with observe.unobserved():
            runs = _watched(lambda: program.made(closed))
    return program_descent(program, closed, lowered.places(), names, runs or ())


def program_descent(
    program: Any, closed: ClosedJaxpr, places: ModulePlaces, names: Sequence[str] = (), runs: Sequence[PassRun] = ()
) -> Descent:
    """The descent of a program (``ops.call.Compiled``) with the jaxpr ``closed``. ``places`` belong to its module.

    ``runs`` are the runs of passes in another compilation, which the profiler watched.
    """
    found, executable = dump(program, closed)
    # all lines are linked; the views shorten long texts, and say so
    linked = links.link(closed, places, found.after, most=sys.maxsize)
    memory = read_memory(found.assignment, found.live, executable.memory_analysis())
    took = _times(runs, hlo.module_name(found.before))
    passes, called = tuple(_passes(found, took)), arguments.parameter_names(program, names)
    return Descent(closed, places, linked, passes, memory, found.kernels, found.before, found.after, called)


Times = dict[tuple[str, str], tuple[float, int]]


def _watched(compile: Callable[[], Any]) -> list[PassRun] | None:
    """The runs of passes during a compilation; None if another profiler is active."""
    try:
        return compiled_passes(compile)
    except ProfilerBusy:
        return None


def _times(runs: Sequence[PassRun], module: str) -> Times:
    """(pipeline, pass) -> the total seconds and the number of its runs."""
    found: Times = {}
    for each in runs:
        # spelled as in the names of XLA's files
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
