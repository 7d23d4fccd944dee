"""Recordings as documents. Every view is a function of a recording alone, so it can be tested without a
terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from minijax.tools import hlo
from minijax.tools.document import (
    Block,
    Document,
    Indent,
    Line,
    Program,
    Row,
    Segment,
    Text,
    document,
    joined,
    line,
)
from minijax.tools.hlo import plural
from minijax.tools.recording import (
    BindRecord,
    CacheRecord,
    EquationRecord,
    ErrorRecord,
    ExecutableRecord,
    JaxprRecord,
    ModuleRecord,
    PhaseRecord,
    Recording,
    RuleRecord,
    ScopeRecord,
    TracerRecord,
)

# The panels of a summary, in the order in which they are shown.
PANELS = ("stack", "tracers", "jaxpr", "hlo", "cache", "time")
# A summary's jaxprs, and the lines of each; ``%panels --all`` shows the rest.
MOST_JAXPRS = 2
MOST_LINES = 14
MOST_TRACERS = 2

# How the kinds of jaxpr are called in a summary; a kind that is not listed is shown by its own name.
KINDS = {
    "linear": "linear part of {}",
    "staged": "{} staged",
    "jvp": "jvp of {}",
    "vmap": "vmap of {}",
    "transpose": "{} transposed",
}


def seconds_text(seconds: float) -> str:
    """``9 µs``, ``0.8 ms``, ``12.4 ms``, ``1.25 s``"""
    if seconds < 0.0000995:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.0995:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e3:.0f} ms" if seconds < 0.9995 else f"{seconds:.2f} s"


def summary(
    recording: Recording, panels: Iterable[str] = PANELS, everything: bool = False, style: str = "jax"
) -> Document:
    """The panels shown after a line. Nothing for a line that traced nothing.

    ``everything`` leaves nothing out that was recorded; ``style`` is how jaxprs are printed.
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
            blocks += view(recording, everything)
    if recording.truncated:
        count = f"past {recording.events:,} events only counting went on; the counts are complete"
        blocks.append(Row("note", (line(("warning", count)),)))
    if recording.elsewhere:
        blocks.append(Row("note", (line(("muted", f"{recording.elsewhere} events on other threads not shown")),)))
    return Document(tuple(blocks))


def stack_line(labels: Iterable[str]) -> Line:
    """``eval ▸ partial_eval:1 ▸ jvp:2``"""
    return joined(" ▸ ", (("level", label) for label in labels))


def stack_rows(recording: Recording, everything: bool = False) -> Iterator[Block]:
    """The deepest stack reached, and how much happened."""
    if not recording.scopes:
        return
    levels = plural(len(recording.stack), "level")
    binds = plural(recording.bind_count, "bind")
    yield Row("stack", (stack_line(recording.stack),), line(("muted", f"deepest; {levels} · {binds}")))
    if everything and recording.binds:
        parts = [("", f"{label} {count}") for label, count in recording.binds]
        yield Row("binds", (joined(" · ", parts),))


def tracer_line(record: TracerRecord) -> Line:
    """``x  jvp:2 f32[]  primal 3.0  tangent partial_eval:1 f32[]``"""
    fields = dict(record.fields)
    name = fields.pop("name", "")
    out: list[Segment] = [("var", name), ("", "  ")] if name else []
    out += [("level", record.level), ("", " "), ("type", record.type)]
    for key, value in fields.items():
        out += [("muted", f"  {key} "), ("value", value)] if value else [("muted", f"  {key}")]
    return tuple(out)


def tracer_rows(recording: Recording, everything: bool = False) -> Iterator[Block]:
    """The tracers, those that a variable of the user's names first."""
    if not recording.tracers:
        return
    named = [t for t in recording.tracers if t.fields[:1] and t.fields[0][0] == "name"]
    others = [t for t in recording.tracers if t not in named]
    order = named + others
    shown = order if everything else named[:MOST_TRACERS] or order[:1]
    made = plural(recording.tracers_made, "tracer") + " made by operations"
    right = (
        ()
        if len(order) <= len(shown) and not everything
        else line(("muted", made if everything else "%tracers shows more"))
    )
    yield Row("tracers", tuple(map(tracer_line, shown)), right)


def jaxpr_title(record: JaxprRecord) -> Line:
    """``linear part of f · 4 equations``"""
    name = record.name.partition(" at ")[0] or "a function"
    title = KINDS.get(record.kind, record.kind + " of {}").replace("{}", name)
    return line(("heading", title), ("muted", f" · {plural(record.equations, 'equation')}"))


def jaxpr_blocks(recording: Recording, everything: bool = False, style: str = "jax") -> Iterator[Block]:
    """The jaxprs made, in the order of making; first choice have the outermost, which the others are parts of."""
    shown = recording.jaxprs
    if not everything:
        outermost = sorted(shown, key=lambda record: record.depth)[:MOST_JAXPRS]
        shown = tuple(record for record in shown if record in outermost)
    for i, record in enumerate(shown):
        more = recording.jaxprs_made - len(shown) if i == len(shown) - 1 else 0
        hint = f"+{more} more" + ("" if everything else " (%panels --all)")
        yield Row("jaxpr", (jaxpr_title(record),), line(("muted", hint)) if more else ())
        doc = record.document(style, None if everything else MOST_LINES)
        if doc is not None:
            yield Indent(Program(doc), most=0 if everything else MOST_LINES, rest="(%panels --all)")


def hlo_rows(recording: Recording, everything: bool = False) -> Iterator[Block]:
    """Operations before XLA and instructions after it, for each program compiled."""
    after = list(recording.executables)
    for module in recording.modules:
        text: list[Segment] = [("", plural(module.ops, "StableHLO op"))]
        program = next((e for e in after if e.name == module.name), None)
        if program is not None:
            after.remove(program)
            text += [("muted", " → "), ("", hlo.optimized_text(Counter(dict(program.counts))))]
        yield Row("hlo", (tuple(text),), line(("muted", module.name)))
        if everything:
            counts = [("", f"{op.rpartition('.')[2]} {n}") for op, n in module.counts]
            yield Row("", (joined(" · ", counts),))
    for program in after:
        yield Row("hlo", (line(hlo.optimized_text(Counter(dict(program.counts)))),), line(("muted", program.name)))


def cache_rows(recording: Recording, everything: bool = False) -> Iterator[Block]:
    """Hits counted, misses with their reason."""
    lines: list[Line] = []
    for name in dict.fromkeys(record.name for record in recording.caches):
        asked = [record for record in recording.caches if record.name == name]
        hits = sum(record.hit for record in asked)
        for record in asked:
            if not record.hit:
                lines.append(line(("warning", "miss"), f" {name}: {record.reason or 'no reason given'}"))
        if hits:
            times = f" ×{hits}" if hits > 1 else ""
            lines.append(line(("good", "hit"), f"{times} {name}"))
    most = len(lines) if everything else 4
    if lines:
        right = line(("muted", f"+{len(lines) - most} more (%panels --all)")) if len(lines) > most else ()
        yield Row("cache", tuple(lines[:most]), right)


def phase_totals(recording: Recording) -> dict[str, float]:
    """Seconds per phase without the phases inside it, in the order in which the phases first ended."""
    totals: dict[str, float] = {}
    for record in recording.phases:
        totals[record.phase] = totals.get(record.phase, 0.0) + record.own
    return totals


def time_line(totals: dict[str, float]) -> Line:
    """``trace 0.1 ms · compile 12.4 ms``"""
    out: list[Segment] = []
    for phase, seconds in totals.items():
        out += [("muted", " · ")] if out else []
        out += [("", f"{phase} "), ("time", seconds_text(seconds))]
    return tuple(out)


def time_rows(recording: Recording, everything: bool = False) -> Iterator[Block]:
    """What each phase took."""
    totals = phase_totals(recording)
    if totals:
        yield Row("time", (time_line(totals),))


def log_document(recording: Recording, most: int = 200) -> Document:
    """The tree of a full recording as an indented log, the first ``most`` records of it."""
    lines: list[Line] = []
    count = 0
    for depth, node in recording.walk():
        count += 1
        if len(lines) < most:
            lines.append((("", "  " * depth), *_log_line(node)))
    if count > len(lines):
        lines.append(line(("muted", f"... {count - len(lines)} more records (--most {count} shows them)")))
    if recording.truncated:
        lines.append(line(("warning", f"recording stopped at {recording.events:,} events")))
    return document(Text(tuple(lines), wrap=False))


def _outcome(node: BindRecord) -> list[Segment]:
    """What a bind came to: its error or its results, if it has any."""
    if node.error:
        return [("error", f" raised {node.error}")]
    return [("muted", " = "), ("value", node.out)] if node.out else []


def _log_line(node: object) -> Line:
    if isinstance(node, ScopeRecord):
        return line(("level", node.level), ("muted", f" begins{' for ' + node.subject if node.subject else ''}"))
    if isinstance(node, BindRecord):
        out: list[Segment] = [("level", node.level), ("", " "), ("primitive", node.primitive)]
        if node.params:
            out.append(("param-value", f"[{' '.join(f'{k}={v}' for k, v in node.params)}]"))
        out.append(("", f"({', '.join(node.args)})"))
        out += _outcome(node)
        if node.rule is not None:
            out.append(("comment", f"  by {node.rule.table} rule {node.rule.name}"))
        return tuple(out)
    if isinstance(node, EquationRecord):
        return line(("muted", "equation "), ("", node.text))
    if isinstance(node, RuleRecord):
        return line(
            ("muted", f"{node.table.removesuffix(' rule')} rule of "),
            ("primitive", node.primitive),
            ("comment", f"  {node.name}"),
        )
    if isinstance(node, JaxprRecord):
        return (("muted", "jaxpr "), *jaxpr_title(node))
    if isinstance(node, PhaseRecord):
        return line(("muted", f"{node.phase} took "), ("time", seconds_text(node.seconds)))
    if isinstance(node, CacheRecord):
        said = ("good", "hit") if node.hit else ("warning", f"miss: {node.reason}")
        return line(("muted", f"{node.cache} cache of {node.name}: "), said)
    if isinstance(node, ModuleRecord):
        return line(("muted", f"lowered {node.name}: "), plural(node.ops, "StableHLO op"))
    if isinstance(node, ExecutableRecord):
        return line(("muted", f"compiled {node.name}: "), hlo.optimized_text(Counter(dict(node.counts))))
    assert isinstance(node, ErrorRecord)
    return line(("error", f"{node.type} "), f"at {node.where}: {node.message}")
