"""The passes that changed a program: what each took away and put in, and for which lines of the user's."""

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
from minijax.core.named import Frozen
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.lowering.places import ModulePlaces, text_lines
from minijax.tools.documents.words import brief_seconds
from minijax.tools.metal.dumps import Dump, Kernel, PassText, dump
from minijax.tools.metal.memory import Memory, read_memory
from minijax.tools.programs import arguments, hlo, links

# What XLA calls the file that it writes where a pipeline begins.
_START = "pipeline-start"


class Pass(Frozen):
    """A pass that changed the program: its text before and after.

    ``pipeline`` is the innermost that it ran in. What changed between two pipelines, which XLA ascribes to no pass, has
    the name ''. ``seconds`` are those of all ``runs`` of the pass in pipelines of this name, most of which may have
    changed nothing; of what is but a part of a pass, and where no profiler could look on, there are none.
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
        """``0.4 ms in 7 runs``; '' where it is not known."""
        if not self.runs:
            return ""
        return brief_seconds(self.seconds) + (f" in {self.runs} runs" if self.runs > 1 else "")

    @cached_property
    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """How many instructions of each kind there are before and after, in all computations; parameters left out."""
        return _counted(self.before)[0], _counted(self.after)[0]

    @property
    def gone(self) -> Counter[str]:
        """How many fewer there are of each kind."""
        before, after = self.counts
        return before - after

    @property
    def made(self) -> Counter[str]:
        """How many more."""
        before, after = self.counts
        return after - before

    @cached_property
    def text_lines(self) -> tuple[int, ...]:
        """The lines of the StableHLO text whose instructions are others than before, in order."""
        before, after = (_counted(text)[1] for text in (self.before, self.after))
        changed = (before - after) + (after - before)
        return tuple(sorted({number for number, _ in changed}))


# What one pass leaves is what the next one finds; the texts are a megabyte each, so few of them are kept.
@functools.lru_cache(maxsize=16)
def _counted(text: str) -> tuple[Counter[str], Counter[tuple[int, str]]]:
    """How many instructions of each kind a text has, parameters left out; and of each kind for each line of StableHLO.
    """
    found = hlo.instructions(text.split("\n")).values()
    kinds = Counter((number, each.opcode) for each in found for number in text_lines(each.metadata))
    return Counter(each.opcode for each in found if each.opcode != "parameter"), kinds


class Descent(Frozen):
    """A program on its way through XLA: the passes that changed it, the memory and the kernels that came of it.

    ``linked`` are the program's other forms, from Python to the optimised one. ``places`` and ``closed`` link the text
    of every pass. ``arguments`` are the user's names of XLA's parameters, in order, '' of those without one.
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
        """Where each instruction stands in the pane of the optimised program, by its name."""
        found: dict[str, int] = {}
        for i, each in hlo.instructions(self.linked.hlo.lines).items():
            found.setdefault(each.name, i)
        return found

    @cached_property
    def called(self) -> dict[str, str]:
        """XLA's name of a parameter of the last program -> the user's."""
        return arguments.hlo_names(self.after, self.arguments)

    def shown_name(self, name: str) -> str:
        """What an instruction of the last program is called where it is shown: an argument by the user's name."""
        return self.called.get(name, name)

    def panes(self, *texts: str) -> tuple[links.Pane, ...]:
        """Texts of the program, as XLA had it at some moment, with the equations of each line."""
        return links.hlo_panes(self.closed, self.places, texts)

    def equations(self, each: Pass) -> tuple[links.Equation, ...]:
        """Those whose instructions the pass changed."""
        wanted = set(each.text_lines)
        numbers = {number for i, of in enumerate(self.linked.stablehlo.links, 1) if i in wanted for number in of}
        return tuple(self.linked.equation(number) for number in sorted(numbers))


def descent(lowered: Any, names: Sequence[str] = ()) -> Descent:
    """Of what ``jit(f).lower(...)`` returned: it is compiled once more, with XLA writing down each pass; not run.

    ``names`` are the user's of the jaxpr's inputs. Errors are those of compiling.
    """
    closed = lowered.jaxpr
    runs = _watched(lowered.compile)
    program = lowered.compile().program
    if runs == []:  # it had been compiled: what takes long is told of a compilation that writes nothing down
        with observe.unobserved():
            runs = _watched(lambda: program.made(closed))
    return program_descent(program, closed, lowered.places(), names, runs or ())


def program_descent(
    program: Any, closed: ClosedJaxpr, places: ModulePlaces, names: Sequence[str] = (), runs: Sequence[PassRun] = ()
) -> Descent:
    """Of a program (``ops.call.Compiled``), the jaxpr that it was made of and its module's places.

    ``runs`` are those of passes in another compilation, where they were watched.
    """
    found, executable = dump(program, closed)
    # the views cut by themselves what is too long, and say so
    linked = links.link(closed, places, found.after, most=sys.maxsize)
    memory = read_memory(found.assignment, found.live, executable.memory_analysis())
    took = _times(runs, hlo.module_name(found.before))
    passes, called = tuple(_passes(found, took)), arguments.parameter_names(program, names)
    return Descent(closed, places, linked, passes, memory, found.kernels, found.before, found.after, called)


Times = dict[tuple[str, str], tuple[float, int]]


def _watched(compile: Callable[[], Any]) -> list[PassRun] | None:
    """The passes that run while something is compiled; None if another profiler is at work."""
    try:
        return compiled_passes(compile)
    except ProfilerBusy:
        return None


def _times(runs: Sequence[PassRun], module: str) -> Times:
    """The seconds of each pass of a pipeline, and how often it ran."""
    found: Times = {}
    for each in runs:
        # as XLA writes it where it names a file
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
