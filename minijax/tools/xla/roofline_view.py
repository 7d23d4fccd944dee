"""A measured call as a table: the time, work and source lines of each instruction, and the limit that it reaches."""

from __future__ import annotations

from collections.abc import Iterator

from minijax.tools.documents.document import Block, Row, Segment, Table, line, text
from minijax.tools.documents.words import bar, brief_seconds, bytes_text, plural, seconds_text, shortened
from minijax.tools.programs.link_views import places_text, signed
from minijax.tools.xla import step_time_view
from minijax.tools.xla.roofline import COPIED, Limits, Measured, Roofline

_BAR = 8
_MOST_LINES = 8


def blocks(found: Roofline, most: int) -> Iterator[Block]:
    """A table of the instructions, the longest time first; below it the machine's limits and the rest of the time."""
    yield text(
        line(
            ("heading", f"{seconds_text(found.seconds)} a call"),
            ("muted", f" · the best of {found.calls} · "),
            f"{_amount(found.costs.get('flops', 0.0))}flop",
            ("muted", " · "),
            f"{bytes_text(found.costs.get('bytes accessed', 0.0))} moved",
            ("muted", ", a loop's body counted once" if found.loops else ""),
        )
    )
    if not found.rows:
        yield text("XLA's profiler reported no instruction: none ran, or the platform reports none", role="muted")
        return
    rows = sorted(found.rows, key=lambda each: -each.seconds)
    longest = max(found.inside, 1e-12)
    yield Table(
        ("instruction", "time", "share", "flop/s", "B/s", "of the limit", "your lines"),
        tuple(_cells(found, each, longest) for each in rows[:most]),
    )
    if len(rows) > most:
        rest = seconds_text(sum(each.seconds for each in rows[most:]))
        more = plural(len(rows) - most, "more instruction")
        yield text(f"… {more}, {rest} together: --most {len(rows)}", role="muted")
    yield from step_time_view.by_line(found.linked, found.rows, _MOST_LINES)
    outside = found.seconds - found.inside
    said = f"{seconds_text(found.inside)} in instructions"
    if outside > 0:
        said += f", {seconds_text(outside)} around them: Python, dispatch, waiting"
    else:
        said += ": more than the call, because some ran side by side or the profiler slowed them down"
    how = f"times are means of {plural(found.traced, 'call')} with XLA's profiler running"
    yield Row("call", (line(said), line(("muted", how))))
    yield Row("machine", (line(_machine(found.limits)),), line(("muted", "measured once, now")))


def _cells(found: Roofline, each: Measured, whole: float) -> tuple[Segment, ...]:
    where = signed(places_text([found.linked.equation(number) for number in each.equations]), each.how)
    name = shortened(each.name, 28)
    often = f" ×{each.runs:g}" if each.runs != 1 else ""
    return (
        ("primitive", name + often),
        ("time", brief_seconds(each.seconds)),
        ("value", _share(each.seconds / whole)),
        ("", f"{_amount(each.flops / each.seconds)}" if each.flops and each.seconds else "–"),
        ("", f"{_amount(each.moved / each.seconds)}" if each.moved and each.seconds else "–"),
        _limit(found.limits, each),
        ("place", where) if where else ("muted", "–"),
    )


def _share(part: float) -> str:
    return f"{bar(part, _BAR):<{_BAR}} {part:4.0%}"


def _limit(limits: Limits, each: Measured) -> Segment:
    """The limit that bounds the instruction, and the fraction of it that is reached, such as ``compute 61%``."""
    if not each.seconds or not (each.flops or each.moved):
        return "muted", "–"
    by_work, by_memory = each.flops / limits.flops, each.moved / limits.bytes
    reached = max(by_work, by_memory) / each.seconds
    kind = "compute" if by_work > by_memory else "memory"
    # the instruction is faster than the measured copy: if it moves fewer bytes, its data may be in the cache
    if reached > 1.0 and kind == "memory" and each.moved <= COPIED * each.runs:
        return "good", f"cache {reached:.0%}"
    return ("good" if reached > 0.5 else "warning" if reached > 0.1 else "muted"), f"{kind} {reached:.0%}"


def _machine(limits: Limits) -> str:
    return f"{_amount(limits.flops)}flop/s on float32 · {_amount(limits.bytes)}B/s of memory"


def _amount(number: float) -> str:
    """A number with three digits and a prefix for thousands, such as ``3.2 G``."""
    for prefix in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.3g} {prefix}"
        number /= 1000
    return f"{number:.3g} T"
