"""Recordings as documents. Every view depends on the recording alone, so it can be tested without a terminal."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from minijax.tools.documents.document import (
    Block,
    Document,
    Indent,
    Line,
    Printout,
    Row,
    Segment,
    joined,
    line,
    unbroken,
)
from minijax.tools.documents.words import plural, seconds_text
from minijax.tools.programs import hlo
from minijax.tools.recording.records import (
    CacheRecord,
    ExecutableRecord,
    JaxprRecord,
    ModuleRecord,
    Recording,
    TracerRecord,
)

# The panels of a summary, in the order shown.
PANELS = ("stack", "tracers", "jaxpr", "hlo", "cache", "time")
# A summary shows at most this many jaxprs, and this many lines of each; ``%panels --all`` shows the rest.
MOST_JAXPRS = 2
MOST_LINES = 14
MOST_TRACERS = 2
# At most this many rows of compiled programs, and of cache lookups, are shown.
MOST_ROWS = 4
# Longer values are broken at the end of a line.
_SHORT = 20

# The titles of jaxprs by kind; other kinds are titled by their own names.
KINDS = {
    "linear": "linear part of {}",
    "staged": "{} staged",
    "jvp": "jvp of {}",
    "vmap": "vmap of {}",
    "transpose": "{} transposed",
}


def more(panel: str, keys: Mapping[str, str] = MappingProxyType({})) -> str:
    """How to show a panel in full: its key in ``keys``, such as ``F3``, or a command."""
    return keys.get(panel, "%tracers" if panel == "tracers" else "%panels --all")


def summary(
    recording: Recording,
    panels: Iterable[str] = PANELS,
    everything: bool = False,
    style: str = "jax",
    full: Container[str] = (),
    keys: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """The panels shown after a line. Empty if the line traced nothing.

    Args:
      recording: the recording of the line.
      panels: the names of the panels to show.
      everything: leave out nothing that was recorded.
      style: how jaxprs are printed, 'jax' or 'tutorial'.
      full: the panels that leave out nothing.
      keys: the front end's key for each panel, shown where something is left out.
    """
    if not recording.traced:
        return Document()
    shown = set(panels)
    blocks: list[Block] = []
    for name, view in (
        ("stack", stack_rows),
        ("tracers", tracer_rows),
        ("jaxpr", partial(jaxpr_blocks, style=style)),
        ("hlo", hlo_rows),
        ("cache", cache_rows),
        ("time", time_rows),
    ):
        if name in shown:
            blocks += view(recording, everything or name in full, more(name, keys))
    blocks += cut_rows(recording)
    if recording.truncated:
        missing = dict(recording.cut).get("events", 0)
        count = f"{missing:,} of {recording.events:,} events were only counted; the counts are complete"
        if not missing:
            count = f"the recorder failed after {recording.events:,} events: what came after is missing"
        blocks.append(Row("note", (line(("warning", count)),)))
    if recording.elsewhere:
        blocks.append(Row("note", (line(("muted", f"{recording.elsewhere} events on other threads not shown")),)))
    return Document(tuple(blocks))


def cut_rows(recording: Recording, elsewhere: Container[str] = ("tracers", "jaxprs", "events")) -> Iterator[Block]:
    """The items that were counted but not kept, except those in other panels (``elsewhere``)."""
    parts = [f"{count:,} {kind}" for kind, count in recording.cut if kind not in elsewhere]
    if parts:
        yield Row("note", (line(("warning", f"counted, and not kept: {', '.join(parts)}")),))


def stack_line(labels: Iterable[str]) -> Line:
    """An interpreter stack in one line: ``eval ▸ partial_eval:1 ▸ jvp:2``."""
    return joined(" ▸ ", (("level", label) for label in labels))


def stack_rows(recording: Recording, everything: bool = False, rest: str = more("stack")) -> Iterator[Block]:
    """The deepest stack, the number of binds, and the custom rules that were applied."""
    if not recording.scopes:
        return
    levels = plural(len(recording.stack), "level")
    binds = plural(recording.bind_count, "bind")
    yield Row("stack", (stack_line(recording.stack),), line(("muted", f"deepest; {levels} · {binds}")))
    if recording.custom_rules:
        rules = [("function", unbroken(f"{name}{f' ×{n}' if n > 1 else ''}")) for name, n in recording.custom_rules]
        most = len(rules) if everything else 4
        left_out = line(("muted", f"+{len(rules) - most} more ({rest})")) if len(rules) > most else ()
        yield Row("rules", ((*joined(" · ", rules[:most]), ("muted", "  written by hand")),), left_out)
    if everything and recording.binds:
        parts = [("", f"{label} {count}") for label, count in recording.binds]
        yield Row("binds", (joined(" · ", parts),))


def tracer_line(record: TracerRecord) -> Line:
    """A tracer in one line: ``x  jvp:2 f32[]  primal 3.0  tangent partial_eval:1 f32[]``."""
    fields = dict(record.fields)
    name = fields.pop("name", "")
    out: list[Segment] = [("var", name), ("", "  ")] if name else []
    # parts of one tracer stay on one line, unless it is long
    out += [("level", record.level), ("", unbroken(" ")), ("type", record.type)]
    for key, value in fields.items():
        short = unbroken if len(value) <= _SHORT else str
        out += (
            [("muted", "  "), ("muted", short(f"{key} ")), ("value", short(value))]
            if value
            else [("muted", f"  {key}")]
        )
    return tuple(out)


def tracer_rows(recording: Recording, everything: bool = False, rest: str = more("tracers")) -> Iterator[Block]:
    """The tracers. Those that a user variable holds come first."""
    if not recording.tracers:
        return
    named = [t for t in recording.tracers if t.fields[:1] and t.fields[0][0] == "name"]
    others = [t for t in recording.tracers if t not in named]
    order = named + others
    shown = order if everything else named[:MOST_TRACERS] or order[:1]
    made = plural(recording.tracers_made, "tracer") + " made by operations"
    cut = dict(recording.cut).get("tracers", 0)
    left_out = len(order) + cut - len(shown)
    if everything:
        said = f"{made}, {cut} of them not described" if cut else made
    else:
        said = f"+{left_out} more ({rest})" if left_out else ""
    yield Row("tracers", tuple(map(tracer_line, shown)), line(("muted", said)) if said else ())


def jaxpr_title(record: JaxprRecord) -> Line:
    """The title of a jaxpr: ``linear part of f · 4 equations``."""
    name = record.name.partition(" at ")[0] or "a function"
    title = KINDS.get(record.kind, record.kind + " of {}").replace("{}", name)
    often = f" ×{record.times:,}, the first shown" if record.times > 1 else ""
    return line(("heading", title), ("muted", f" · {plural(record.equations, 'equation')}{often}"))


def jaxpr_blocks(
    recording: Recording, everything: bool = False, rest: str = more("jaxpr"), style: str = "jax"
) -> Iterator[Block]:
    """The jaxprs in the order in which they were made. If there are too many, the outermost are chosen."""
    shown = recording.jaxprs
    if not everything:
        outermost = sorted(shown, key=lambda record: record.depth)[:MOST_JAXPRS]
        shown = tuple(record for record in shown if record in outermost)
    for i, record in enumerate(shown):
        others = recording.jaxprs_made - sum([each.times for each in shown]) if i == len(shown) - 1 else 0
        hint = f"+{others:,} more" + (" not kept" if everything else f" ({rest})")
        yield Row("jaxpr", (jaxpr_title(record),), line(("muted", hint)) if others else ())
        doc = record.document(style, None if everything else MOST_LINES)
        if doc is not None:
            # only the beginning is laid out, so the remaining lines are not counted
            whole = f"{record.equations:,} equations in all"
            yield Indent(Printout(doc), most=0 if everything else MOST_LINES, rest=f"({rest})", instead=whole)


def programs(recording: Recording) -> Iterator[tuple[str, ModuleRecord | None, ExecutableRecord | None]]:
    """Each program that was lowered or compiled: its name, and its records before and after XLA (None if unknown).

    One function may be compiled several times. Its modules and executables are paired in order.
    """
    after: dict[str, deque[ExecutableRecord]] = {}
    for program in recording.executables:
        after.setdefault(program.name, deque()).append(program)
    for module in recording.modules:
        compiled = after.get(module.name)
        yield module.name, module, compiled.popleft() if compiled else None
    for name, rest in after.items():
        for program in rest:
            yield name, None, program


def hlo_rows(recording: Recording, everything: bool = False, rest: str = more("hlo")) -> Iterator[Block]:
    """The operations before XLA and the instructions after it, for each compiled program. Equal neighbours are one
    row.
    """
    found: list[tuple[Any, int, ModuleRecord | None]] = []
    for name, module, program in programs(recording):
        shown = name, module and (module.ops, module.counts), program and program.counts
        if found and found[-1][0] == shown:
            found[-1] = (shown, found[-1][1] + 1, module)
        else:
            found.append((shown, 1, module))
    most = len(found) if everything else MOST_ROWS
    for i, ((name, before, after), times, module) in enumerate(found[:most]):
        text: list[Segment] = [("", plural(before[0], "StableHLO op"))] if before else []
        if after is not None:
            text += [("muted", " → ")] if text else []
            text.append(("", hlo.optimized_text(Counter(dict(after)))))
        hidden = sum([times for _, times, _ in found[most:]]) if i == most - 1 else 0
        said = f"+{hidden:,} more ({rest})  {name}" if hidden else name
        yield Row(f"hlo ×{times:,}" if times > 1 else "hlo", (tuple(text),), line(("muted", said)))
        if everything and module is not None:
            counts = [("", f"{op.rpartition('.')[2]} {n}") for op, n in module.counts]
            yield Row("", (joined(" · ", counts),))


def cache_rows(recording: Recording, everything: bool = False, rest: str = more("cache")) -> Iterator[Block]:
    """Every miss with its reason, and the number of hits, grouped by function."""
    functions: dict[str, list[CacheRecord]] = {}
    for record in recording.caches:
        functions.setdefault(record.name, []).append(record)
    lines: list[Line] = []
    for name, asked in functions.items():
        hits: Counter[str] = Counter()
        for record in asked:
            if record.hit:
                hits[record.reason] += record.times
            else:
                lines.append(line(("warning", "miss"), f" {name}: {record.reason or 'no reason given'}"))
        for reason, times in hits.items():
            said = line(("good", "hit"), f"{f' ×{times:,}' if times > 1 else ''} {name}")
            lines.append((*said, ("warning", f": {reason}")) if reason else said)
    most = len(lines) if everything else MOST_ROWS
    if lines:
        right = line(("muted", f"+{len(lines) - most:,} more ({rest})")) if len(lines) > most else ()
        yield Row("cache", tuple(lines[:most]), right)


def phase_totals(recording: Recording) -> dict[str, float]:
    """Seconds per phase without the phases inside it, in the order in which the phases first ended."""
    totals: dict[str, float] = {}
    for record in recording.phases:
        totals[record.phase] = totals.get(record.phase, 0.0) + record.own
    return totals


def time_line(totals: dict[str, float]) -> Line:
    """The times of phases in one line: ``trace 0.1 ms · compile 12.4 ms``."""
    out: list[Segment] = []
    for phase, seconds in totals.items():
        out += [("muted", " · ")] if out else []
        out += [("", unbroken(f"{phase} ")), ("time", unbroken(seconds_text(seconds)))]
    return tuple(out)


def time_rows(recording: Recording, everything: bool = False, rest: str = more("time")) -> Iterator[Block]:
    """The time of each phase."""
    totals = phase_totals(recording)
    if totals:
        yield Row("time", (time_line(totals),))
