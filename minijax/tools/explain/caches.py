"""Why a function is traced or compiled again: ``no_recompile``, ``explain_cache_miss``, and what ``%why`` shows."""

from __future__ import annotations

import bisect
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from threading import get_ident
from typing import Any

from minijax.api.differences import Difference
from minijax.api.flat import describe
from minijax.core import miss_log
from minijax.core.guards import Guard, guards
from minijax.core.records import Frozen
from minijax.errors import RecompilationError
from minijax.tools.documents.document import Block, Document, Line, Row, Section, document, line, text
from minijax.tools.documents.words import seconds_text
from minijax.tools.recording.panels import KINDS
from minijax.tools.recording.records import CacheRecord, PhaseRecord, Recording
from minijax.tools.recording.summary import miss_record

__all__ = [
    "CacheAnswer",
    "RecompilationError",
    "explain_cache_miss",
    "explain_misses",
    "kept_document",
    "no_recompile",
    "why_document",
]

# The most misses that are shown without ``--all``.
MOST_MISSES = 100
STALE_ADVICE = "Pass what changes as an argument; or call clear_cache() of the jitted function after changing it."
# The phases that a miss can cause, in their order.
_COSTS = ("trace", "linearize", "transpose", "lower", "compile")


class no_recompile(contextlib.ContextDecorator):
    """Context manager and decorator: tracing or compiling in the block raises ``RecompilationError`` with the reason.

        step(params, batch)                # traced and compiled here
        with no_recompile():
            for batch in batches:
                step(params, batch)        # must be cached

    A first call compiles as well: make it before the block, or use ``no_recompile(allow=1)``, which lets one function
    through (its tracing and its compilation count as one). Other threads are not affected. The call that needs a trace
    raises instead of tracing; the error's ``reason`` lists the differences one by one. Blocks nest, also with the same
    object; the innermost block raises first. A cached call costs the same as outside the block. Traces by
    ``make_jaxpr``, and traces inside another trace, do not count.
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
        """The indices in ``_entered`` of the guards of this thread, outermost first."""
        return [i for i, guard in enumerate(self._entered) if guard.thread == get_ident()]

    @property
    def misses(self) -> tuple[str, ...]:
        """The calls let through so far, as texts. If blocks of one object nest, the calls of the innermost block."""
        mine = self._mine()
        return tuple(self._entered[mine[-1]].misses) if mine else ()


class CacheAnswer(Frozen):
    """A predicted cache lookup. In a condition it is False if the call would be traced.

    Attributes:
      hit: whether the call is cached, so that nothing would be traced.
      reason: why it is not cached, as text.
      differences: the differences from the nearest earlier call, as tuples (kind, argument's path, before, now).
      advice: what to change.
      earlier: the number of cached signatures that the call was compared with. They are the latest ones.
      known: the number of all cached signatures.
      stale: for a cached call, the closed-over values that changed after tracing, as text: the program uses the old
        ones.
      unseen: the names of closed-over lists, dictionaries, NumPy arrays and the like: changes inside them are not
        detected.
      compiled: for a cached call, why its program would be compiled again: its arguments have another sharding.
    """

    hit: bool
    name: str
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    advice: str = ""
    earlier: int = 0
    known: int = 0
    stale: str = ""
    unseen: tuple[str, ...] = ()
    compiled: str = ""

    def __bool__(self) -> bool:
        return self.hit

    def __repr__(self) -> str:
        if self.hit:
            return f"{self.name} is cached for these arguments{': ' + self.stale if self.stale else ''}"
        return f"{self.name} would be traced: {self.reason}\n{self.advice}"


def explain_cache_miss(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CacheAnswer:
    """Predict what a call of ``fun``, a jitted or pmapped function, with these arguments would do.

    Nothing is run, traced or compiled. Arguments may be ``ShapeDtypeStruct``s. Raises TypeError for other functions.
    """
    asked = getattr(fun, "explain_cache_miss", None)
    if asked is None:
        raise TypeError(f"explain_cache_miss takes a function made by jit or pmap, got {fun!r}. Wrap it: jit(f).")
    miss = asked(*args, **kwargs)
    name = getattr(fun, "__name__", type(fun).__name__)
    if miss is None:
        stale, unseen = fun.explain_cache_hit(*args, **kwargs)  # type: ignore[attr-defined]
        asked_too = getattr(fun, "explain_compilation", None)
        compiled = "" if asked_too is None else asked_too(*args, **kwargs)
        return CacheAnswer(True, name, stale=stale, unseen=unseen, compiled=compiled)
    return CacheAnswer(False, name, str(miss), miss.differences, miss.advice, miss.earlier, miss.known)


def explain_misses(fun: Callable[..., Any] | None = None) -> tuple[miss_log.Missed, ...]:
    """The latest cache misses of jitted functions, pmapped functions and loop bodies; the newest is last.

    The engine always keeps the latest ``miss_log.MOST_KEPT``, each with ``reason``, ``place`` (the user's line),
    ``costs`` (phase -> seconds) and ``number``, its index among all misses of this process. With ``fun``, only the
    misses of functions with its name and place of definition.
    """
    entries = miss_log.since(0)
    if fun is None:
        return entries
    subject = describe(getattr(fun, "__wrapped__", fun))
    return tuple([entry for entry in entries if entry.subject == subject])


# --- what %why shows ----------------------------------------------------------------------------------------


def answer_document(answer: CacheAnswer) -> Document:
    """The predicted cache lookup of a call."""
    if answer.hit:
        blocks: list[Block] = [Row("cached", (line(("good", "hit"), f" {answer.name}: nothing would be traced"),))]
        if answer.compiled:
            advice = getattr(answer.compiled, "advice", "")
            record = CacheRecord(0, "compilation", answer.name, False, answer.compiled, advice)
            title = line(("warning", f"{answer.name} would be compiled"))
            blocks.append(Section(title, tuple(_miss_rows([], [record]))))
        if answer.stale:
            blocks.append(stale_section(answer.name, answer.stale))
        if answer.unseen:
            said = f"whether the contents of {', '.join(answer.unseen)} have changed since the trace"
            blocks.append(Row("unknown", (line(("muted", said)),)))
        return Document(tuple(blocks))
    record = CacheRecord(0, "staging", answer.name, False, answer.reason, answer.advice, answer.earlier, answer.known)
    title = line(("warning", f"{answer.name} would be traced"))
    return document(Section(title, tuple(_miss_rows([], [record]))))


def why_document(recording: Recording, everything: bool = False, what: str = "the last line") -> Document:
    """Each miss of the recording with reason, cost and advice; and a count of hits. ``what`` names the recording."""
    blocks: list[Block] = []
    costs = _costs(recording)
    misses = [(record, costs.get(record.at, [])) for record in recording.caches if not record.hit]
    blocks += miss_sections(misses, everything)
    cut = dict(recording.cut).get("cache misses", 0)
    if cut:
        blocks.append(text(f"and {cut:,} more misses, which were counted and not kept", role="warning"))
    blocks += _without_a_miss(recording, costs.get(-1, []))
    blocks += _hit_rows(recording)
    if not blocks:
        return document(text(f"{what} used no cache: it called no jitted function", role="muted"))
    return Document(tuple(blocks))


def miss_sections(misses: Sequence[tuple[CacheRecord, Sequence[PhaseRecord]]], everything: bool) -> Iterator[Block]:
    """The latest misses with the phases that each one caused.

    Similar misses at one place, as in a loop, share a section: a line for each, and the advice for the last one.
    """
    hidden = 0 if everything else max(len(misses) - MOST_MISSES, 0)
    groups: dict[tuple[str, ...], list[tuple[CacheRecord, Sequence[PhaseRecord]]]] = {}
    for record, phases in misses[hidden:]:
        alike = (record.cache, record.name, record.place, re.sub(r"\d+", "0", record.reason))
        groups.setdefault(alike, []).append((record, phases))
    if hidden:
        said = f"{hidden:,} more of {len(misses):,} misses before these (%why --all shows them all)"
        yield text(said, role="warning")
    for group in groups.values():
        yield _miss_section(group)


def _hit_rows(recording: Recording) -> Iterator[Block]:
    hits: Counter[str] = Counter()
    warnings: Counter[tuple[str, str]] = Counter()
    for record in recording.caches:
        if record.hit:
            hits[record.name] += record.times
            if record.reason:
                warnings[record.name, record.reason] += record.times
    if hits:
        parts = [f"{name} ×{times:,}" if times > 1 else name for name, times in hits.items()]
        yield Row("cached", (line(("good", "hit"), f" {', '.join(parts)}"),))
    for (name, reason), times in warnings.items():
        yield stale_section(name, reason, f" ×{times:,}" if times > 1 else "")
    cut = dict(recording.cut).get("cache hits", 0)
    if cut:
        yield text(f"and {cut:,} hits of other functions", role="muted")


def stale_section(name: str, reason: str, often: str = "") -> Block:
    """A section about a hit whose program uses outdated values."""
    title = line(("warning", f"{name} was traced with other values"), ("muted", often))
    rows = tuple(Row("note", (line(each),)) for each in reason.split("; "))
    return Section(title, (*rows, Row("advice", (line(STALE_ADVICE),))))


def kept_document(entries: Sequence[miss_log.Missed], made: int, everything: bool = False) -> Document:
    """The misses that the engine kept (``core.miss_log``): ``entries`` are the latest of ``made`` misses."""
    misses = []
    own = own_tracing(entries)
    for each in entries:
        record = miss_record(each.number, each.cache, each.name, each.reason, each.place)
        costs = [(name, t, own[each.number] if name == "trace" else t) for name, t in each.costs.items()]
        misses.append((record, [PhaseRecord(each.number, name, each.name, t, mine) for name, t, mine in costs]))
    blocks = [*miss_sections(misses, everything)]
    if made > len(entries):
        kept = f"the engine keeps the latest {miss_log.MOST_KEPT:,}"
        said = f"{made - len(entries):,} earlier misses were counted: {kept}"
        blocks.append(text(said, role="warning"))
    return Document(tuple(blocks))


def own_tracing(entries: Sequence[miss_log.Missed]) -> dict[int, float]:
    """number of an entry -> its seconds of tracing, without the seconds of other misses during its trace."""
    own: dict[int, float] = {}
    around: list[miss_log.Missed] = []
    for each in entries:
        own[each.number] = each.costs.get("trace", 0.0)
        while around and around[-1].began + around[-1].costs.get("trace", 0.0) <= each.began:
            around.pop()
        if around:
            own[around[-1].number] = max(own[around[-1].number] - own[each.number], 0.0)
        around.append(each)
    return own


def _costs(recording: Recording) -> dict[int, list[PhaseRecord]]:
    """``at`` of a miss -> the phases that it caused. -1 -> the phases that no miss caused."""
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


def _cost_line(phases: Sequence[PhaseRecord], together: bool = False) -> Line:
    """``trace 1.2 ms · compile 78 ms``. With ``together``, the time of a miss inside another miss counts once."""
    out: list[tuple[str, str]] = []
    for name in _COSTS:
        found = [phase for phase in phases if phase.phase == name]
        seconds = sum(phase.own if together or phase.times > 1 else phase.seconds for phase in found)
        if found:
            out += [("muted", " · ")] if out else []
            out += [("", f"{name} "), ("time", seconds_text(seconds))]
    return tuple(out)


def _miss_section(group: Sequence[tuple[CacheRecord, Sequence[PhaseRecord]]]) -> Block:
    """A section for similar misses."""
    record = group[-1][0]
    what = "compiled" if record.cache == "compilation" else "traced"
    kind = "" if record.cache in ("staging", "compilation") else f" ({record.cache})"
    often = f" ×{len(group):,}" if len(group) > 1 else ""
    title = line(("warning", f"{record.name} was {what}{often}"), ("muted", kind))
    phases = [phase for _, phases in group for phase in phases]
    return Section(title, tuple(_miss_rows(phases, [record for record, _ in group])))


def _miss_rows(phases: Sequence[PhaseRecord], records: Sequence[CacheRecord]) -> Iterator[Block]:
    record, times = records[-1], len(records)
    lines = tuple(_reason_line(each.reason) for each in records)
    if times == 1 and record.reason:
        lines = tuple(map(_difference_line, record.reason.split("; ")))
    right: Line = ()
    if record.known > record.earlier:
        right = line(("muted", f"nearest of the latest {record.earlier} of {record.known:,} earlier signatures"))
    elif record.earlier > 1:
        right = line(("muted", f"nearest of {record.earlier} earlier signatures"))
    yield Row("why", lines, right if times == 1 else ())
    if record.place not in ("", "<unknown>"):  # a trace by a command has no user line
        yield Row("at", (line(("place", record.place)),))
    if phases:
        yield Row("cost", (_cost_line(phases, times > 1),))
    if record.advice:
        yield Row("advice", (line(record.advice),))


def _reason_line(reason: str) -> Line:
    """All parts of a reason on one line."""
    parts = [_difference_line(each) for each in reason.split("; ")] if reason else [line("no reason given")]
    return tuple(segment for i, part in enumerate(parts) for segment in ((("", "; "), *part) if i else part))


def _difference_line(text: str) -> Line:
    """One part of a reason, such as ``params['w'][0]: f32[3] became f32[4]``."""
    where, colon, change = text.partition(": ")
    before, became, after = change.partition(" became ")
    if not colon or not became:
        return line(text)
    return line(("var", where), ": ", ("type", before), ("muted", " became "), ("type", after))


def _without_a_miss(recording: Recording, phases: list[PhaseRecord]) -> Iterator[Block]:
    """Sections for compilations without a cache miss: the programs come from transformations."""
    compiled = [phase for phase in phases if phase.phase == "compile"]
    for name in dict.fromkeys(phase.name for phase in compiled):
        kinds = dict.fromkeys(j.kind for j in recording.jaxprs if j.name.partition(" at ")[0] == name)
        of = [KINDS.get(kind, kind + " of {}").replace("{}", name) for kind in kinds]
        why = f"compiled for the first time: {', '.join(of)}" if of else "its program was compiled for the first time"
        rows = (Row("why", (line(why),)), Row("cost", (_cost_line([p for p in phases if p.name == name]),)))
        yield Section(line(("warning", f"{name} was compiled")), rows)
