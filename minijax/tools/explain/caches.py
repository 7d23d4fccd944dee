"""Why something was traced or compiled again: ``no_recompile``, ``explain_cache_miss``, and what ``%why`` shows."""

from __future__ import annotations

import bisect
import contextlib
import re
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

from minijax.api.misses import Difference
from minijax.core.guards import Guard, guards
from minijax.core.named import Frozen
from minijax.errors import RecompilationError
from minijax.tools.documents.document import Block, Document, Line, Row, Section, document, line, text
from minijax.tools.documents.words import seconds_text
from minijax.tools.recording.panels import KINDS
from minijax.tools.recording.records import CacheRecord, PhaseRecord, Recording

__all__ = ["CacheAnswer", "RecompilationError", "explain_cache_miss", "no_recompile", "why_document"]

# Kinds of misses that are told.
MOST_MISSES = 12
# The phases that a miss is to blame for, in their order.
_COSTS = ("trace", "linearize", "transpose", "lower", "compile")


class no_recompile(contextlib.ContextDecorator):
    """Context manager and decorator: tracing or compiling in the block raises ``RecompilationError``, which says why.

        step(params, batch)                # traced and compiled here
        with no_recompile():
            for batch in batches:
                step(params, batch)        # must be cached

    A first call compiles as well, so make it before the block; or ``no_recompile(allow=1)`` lets one function through
    (its tracing and its compilation count as one). Only this thread is concerned. The error comes instead of the
    tracing, at the call that needed it; its ``reason`` has the differences one by one. Blocks nest, one object may be
    entered again while it is entered, and the innermost block objects first. Cached calls cost what they cost
    without it. What ``make_jaxpr``, ``jit(f).trace`` of another function and the like trace on demand is not counted,
    nor what is traced as a part of tracing something else.
    """

    def __init__(self, allow: int = 0) -> None:
        if not isinstance(allow, int) or allow < 0:
            raise ValueError(f"allow must be the number of functions that may be traced, 0 or more, got {allow!r}")
        self.allow = allow
        self._entered: list[Guard] = []

    def __enter__(self) -> no_recompile:
        self._entered.append(Guard(self.allow))
        guards.append(self._entered[-1])
        return self

    def __exit__(self, *exc: object) -> None:
        guards.remove(self._entered.pop(self._mine()[-1]))

    def _mine(self) -> list[int]:
        """Which of the entered guards are this thread's, outermost first."""
        return [i for i, guard in enumerate(self._entered) if guard.thread == get_ident()]

    @property
    def misses(self) -> tuple[str, ...]:
        """What the block has let through so far, as text; of an object entered twice, the inner block."""
        mine = self._mine()
        return tuple(self._entered[mine[-1]].misses) if mine else ()


class CacheAnswer(Frozen):
    """What a call would find in the cache. False (as a condition) if it would have to be traced.

    Attributes:
      hit: whether the call is cached.
      reason: why it is not, as text.
      differences: what differs from the nearest earlier call: (kind, argument's path, before, now) each.
      advice: what to change.
      earlier: how many other signatures are cached.
    """

    hit: bool
    name: str
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    advice: str = ""
    earlier: int = 0

    def __bool__(self) -> bool:
        return self.hit

    def __repr__(self) -> str:
        if self.hit:
            return f"{self.name} is cached for these arguments"
        return f"{self.name} would be traced: {self.reason}\n{self.advice}"


def explain_cache_miss(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CacheAnswer:
    """What would happen if ``fun``, a jitted or pmapped function, were called with these arguments now.

    Nothing is run, traced or compiled. Arguments may be ``ShapeDtypeStruct``s. Raises TypeError for other functions.
    """
    asked = getattr(fun, "explain_cache_miss", None)
    if asked is None:
        raise TypeError(f"explain_cache_miss takes a function made by jit or pmap, got {fun!r}. Wrap it: jit(f).")
    miss = asked(*args, **kwargs)
    name = getattr(fun, "__name__", type(fun).__name__)
    if miss is None:
        return CacheAnswer(True, name)
    return CacheAnswer(False, name, str(miss), miss.differences, miss.advice, miss.earlier)


# --- what %why shows ----------------------------------------------------------------------------------------


def answer_document(answer: CacheAnswer) -> Document:
    """What a call would find in the cache."""
    if answer.hit:
        return document(Row("cached", (line(("good", "hit"), f" {answer.name}: nothing would be traced"),)))
    record = CacheRecord(0, "staging", answer.name, False, answer.reason, answer.advice, answer.earlier)
    title = line(("warning", f"{answer.name} would be traced"))
    return document(Section(title, tuple(_miss_rows(record, []))))


def why_document(recording: Recording) -> Document:
    """Each miss of the recording with what differed, what it cost and what to change; hits counted."""
    blocks: list[Block] = []
    costs = _costs(recording)
    # the same miss again and again, as in a loop, is told once, by its last time
    groups: dict[tuple[str, ...], list[CacheRecord]] = {}
    for record in recording.caches:
        if not record.hit:
            alike = (record.cache, record.name, re.sub(r"\d+", "0", record.reason))
            groups.setdefault(alike, []).append(record)
    for records in [*groups.values()][:MOST_MISSES]:
        phases = [phase for record in records for phase in costs.get(record.at, ())]
        blocks.append(_miss_section(records[-1], phases, len(records)))
    if len(groups) > MOST_MISSES:
        blocks.append(text(f"and {len(groups) - MOST_MISSES} more kinds of misses", role="muted"))
    blocks += _without_a_miss(recording, costs.pop(-1, []))
    hits = [record.name for record in recording.caches if record.hit]
    if hits:
        parts = [f"{name} ×{hits.count(name)}" if hits.count(name) > 1 else name for name in dict.fromkeys(hits)]
        blocks.append(Row("cached", (line(("good", "hit"), f" {', '.join(parts)}"),)))
    if not blocks:
        return document(text("the last line asked no cache: it called no jitted function", role="muted"))
    return Document(tuple(blocks))


def _costs(recording: Recording) -> dict[int, list[PhaseRecord]]:
    """The phases by the ``at`` of the miss that they follow from; under -1 those that follow from none."""
    misses: dict[str, list[int]] = {}
    for record in recording.caches:
        if not record.hit:
            misses.setdefault(record.name, []).append(record.at)
    found: dict[int, list[PhaseRecord]] = {}
    for phase in recording.phases:
        if phase.phase in _COSTS:
            before = misses.get(phase.name, [])
            index = bisect.bisect_left(before, phase.at)
            found.setdefault(before[index - 1] if index else -1, []).append(phase)
    return found


def _cost_line(phases: list[PhaseRecord]) -> Line:
    out: list[tuple[str, str]] = []
    for name in _COSTS:
        seconds = sum(phase.seconds for phase in phases if phase.phase == name)
        if any(phase.phase == name for phase in phases):
            out += [("muted", " · ")] if out else []
            out += [("", f"{name} "), ("time", seconds_text(seconds))]
    return tuple(out)


def _miss_section(record: CacheRecord, phases: list[PhaseRecord], times: int = 1) -> Block:
    what = "compiled" if record.cache == "compilation" else "traced"
    kind = "" if record.cache in ("staging", "compilation") else f" ({record.cache})"
    often = f" ×{times}" if times > 1 else ""
    title = line(("warning", f"{record.name} was {what}{often}"), ("muted", kind))
    return Section(title, tuple(_miss_rows(record, phases)))


def _miss_rows(record: CacheRecord, phases: list[PhaseRecord]) -> Iterator[Block]:
    lines = tuple(_difference_line(each) for each in record.reason.split("; "))
    right = line(("muted", f"nearest of {record.earlier} earlier signatures")) if record.earlier > 1 else ()
    yield Row("why", lines if record.reason else (line("no reason given"),), right)
    if phases:
        yield Row("cost", (_cost_line(phases),))
    if record.advice:
        yield Row("advice", (line(record.advice),))


def _difference_line(text: str) -> Line:
    """One part of a reason: ``params['w'][0]: f32[3] became f32[4]``."""
    where, colon, change = text.partition(": ")
    before, became, after = change.partition(" became ")
    if not colon or not became:
        return line(text)
    return line(("var", where), ": ", ("type", before), ("muted", " became "), ("type", after))


def _without_a_miss(recording: Recording, phases: list[PhaseRecord]) -> Iterator[Block]:
    """What was compiled although no cache of functions missed: programs that transformations made."""
    compiled = [phase for phase in phases if phase.phase == "compile"]
    for name in dict.fromkeys(phase.name for phase in compiled):
        kinds = dict.fromkeys(j.kind for j in recording.jaxprs if j.name.partition(" at ")[0] == name)
        of = [KINDS.get(kind, kind + " of {}").replace("{}", name) for kind in kinds]
        why = f"compiled for the first time: {', '.join(of)}" if of else "its program was compiled for the first time"
        rows = (Row("why", (line(why),)), Row("cost", (_cost_line([p for p in phases if p.name == name]),)))
        yield Section(line(("warning", f"{name} was compiled")), rows)
