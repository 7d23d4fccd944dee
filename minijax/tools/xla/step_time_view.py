"""The time of a call as text: its parts in a line, the time of each source line, and a timeline."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from minijax.core.records import Frozen
from minijax.tools.documents.document import (
    WIDEST,
    Block,
    Fitted,
    Line,
    Picture,
    Row,
    Segment,
    Table,
    line,
    text,
    unbroken,
)
from minijax.tools.documents.html import shown, span
from minijax.tools.documents.words import EIGHTHS, bar, brief_seconds, plural, shortened
from minijax.tools.programs.link_views import equations_text, legend, places_text, signed
from minijax.tools.programs.links import LinkedPrograms
from minijax.tools.programs.owners import least_certain
from minijax.tools.programs.user_lines import user_lines
from minijax.tools.xla.roofline import Measured
from minijax.tools.xla.step_time import PARTS, StepRow, StepTime, merged

_BAR = 8
# Widths of a timeline's columns for names, times and places.
_NAMES, _TIMES, _PLACES = 24, 9, 16
# Minimum width of a page on which a timeline has places.
_WIDE = 60
# Maximum number of characters of the source line, or of instruction names, beside a time.
_WHAT = 40
# On a page a lane is this many units wide. Gaps of less than one unit are not drawn.
_PIXELS = 1000
# Kind of ``Stretch`` -> its name in a list.
_KINDS = {
    "python": "Python",
    "runtime": "runtime",
    "transfer": "transfer",
    "compute": "compute",
    "between": "between instructions",
    "after": "after the last",
}
_ROLES = {"dispatch": "warning", "transfer": "place", "compute": "primitive", "not attributed": "muted"}
# The place that is shown for an instruction without a source line.
_OWN = "XLA's own"


def parts(step: StepTime, more: bool) -> Row:
    """The parts of a call, such as ``dispatch 12 µs, transfer 8 µs, ...``, and how many calls were measured."""
    said: list[Segment] = []
    for part, seconds in step.parts.items():
        said += [("muted", ", ")] if said else []
        amount = brief_seconds(seconds) if seconds else "none"
        said += [(_ROLES[part], unbroken(f"{part} ")), ("time", unbroken(amount))]
    best = f"the best of {step.calls}" if step.calls > 1 else "one call"
    how = f"{best} with XLA's profiler running: {unbroken(brief_seconds(step.seconds))}"
    hint = " · --lines --timeline" if more else ""
    return Row("step", (tuple(said), line(("muted", how + hint))))


# -------------------------------------------------------------------------------------------------------- by line


def by_line(linked: LinkedPrograms, rows: Sequence[StepRow | Measured], most: int) -> Iterator[Block]:
    """The time of each source line. An instruction of several lines counts in a row for all these lines."""
    if not rows:
        said = "XLA's profiler reported no instruction: the call ran none, or the platform does not report them"
        yield text(said, role="muted")
        return
    groups: dict[str, list[StepRow | Measured]] = {}
    for each in rows:
        groups.setdefault(_where(linked, each, False), []).append(each)
    times = {where: sum(each.seconds for each in members) for where, members in groups.items()}
    ordered = sorted(groups, key=lambda where: -times[where])
    whole = max(sum(times.values()), 1e-12)
    cells = []
    for where in ordered[:most]:
        members = groups[where]
        role, how = _role(linked, members), least_certain([each.how for each in members])
        share = _share(times[where] / whole)
        time = brief_seconds(times[where])
        cells.append(((role, signed(where, how)), ("time", time), (role, share), _what(linked, members)))
    yield Table(("line", "time", "of compute", ""), tuple(cells))
    if len(ordered) > most:
        rest = brief_seconds(sum(times[where] for where in ordered[most:]))
        yield text(f"… {len(ordered) - most} more, {rest} together: --most {len(ordered)}", role="muted")
    yield from legend(each.how for each in rows)


def together(step: StepTime) -> Iterator[Block]:
    """A remark, if instructions ran side by side."""
    whole = sum(each.seconds for each in step.rows)
    if whole > 1.01 * step.of("compute"):
        said = f"{brief_seconds(whole)} together, in {brief_seconds(step.of('compute'))}: some ran side by side"
        yield text(said, role="muted")


def _role(linked: LinkedPrograms, rows: Iterable[StepRow | Measured]) -> str:
    """The role of the instructions' source line, which selects its colour; a plain role unless they have one line."""
    known = user_lines(linked)
    found = known.places(number for row in rows for number in row.equations)
    return known.role(found[0]) if len(found) == 1 else "label" if found else "muted"


def _where(linked: LinkedPrograms, each: StepRow | Measured, sign: bool = True) -> str:
    """The source lines of an instruction; without lines, its equations; without equations, ``_OWN``."""
    where = places_text([linked.equation(number) for number in each.equations]) or (
        equations_text(each.equations) if each.equations else _OWN
    )
    return signed(where, each.how) if sign and each.equations else where


def _what(linked: LinkedPrograms, rows: Sequence[StepRow | Measured]) -> Segment:
    """The text of the instructions' source line; their names if they have no source line, or several."""
    lines = {(e.file, e.line) for row in rows for e in map(linked.equation, row.equations) if e.line}
    source = _source(linked, *lines.pop()) if len(lines) == 1 else ""
    if source:
        return "", shortened(source, _WHAT)
    names = ", ".join(dict.fromkeys(each.name for each in rows))
    return "muted", shortened(f"together in {names}" if lines else names, _WHAT)


def _source(linked: LinkedPrograms, file: str, number: int) -> str:
    for pane in linked.python:
        if pane.title == file and (at := pane.index(number)) >= 0:
            return pane.lines[at].strip()
    return ""


def _share(part: float) -> str:
    drawn = bar(part, _BAR)
    return f"{part:4.0%} {drawn}" if part >= 0.005 else f" <1% {drawn}"


# ------------------------------------------------------------------------------------------------------- timeline


class _Track(Frozen):
    """A row of a timeline: its name, when it was active, its total time, and its source line."""

    name: str
    role: str
    when: tuple[tuple[float, float], ...]
    seconds: float
    where: str = ""
    often: str = ""


def timeline(step: StepTime, most: int) -> Iterator[Block]:
    """The parts and instructions of a call on a time axis. All iterations of a loop are in the same rows."""
    tracks = [*_tracks(step, most)]

    def drawn(width: int) -> tuple[Block, ...]:
        return (text(*_drawn(step, tracks, width), wrap=False),)

    yield Picture(_markup(step, tracks), Fitted(drawn))
    left = len(step.rows) - most
    if left > 0:
        yield text(f"… {plural(left, 'more instruction')}: --most {len(step.rows)}", role="muted")
    yield from legend(each.how for each in step.rows[:most])


def _tracks(step: StepTime, most: int) -> Iterator[_Track]:
    for part, kinds in PARTS.items():
        found = [each for each in step.stretches if each.kind in kinds]
        if found and part != "compute":
            for kind in kinds:
                own = tuple((each.begin, each.end) for each in found if each.kind == kind)
                name = part if len(kinds) == 1 else f"{part}: {_KINDS[kind]}" if part == "dispatch" else _KINDS[kind]
                if own:
                    yield _Track(name, _ROLES[part], own, sum(end - begin for begin, end in own))
        elif found:
            own = tuple((each.begin, each.end) for each in found)
            yield _Track(part, _ROLES[part], own, step.of("compute"))
            yield from _instruction_tracks(step, step.rows[:most])


def _instruction_tracks(step: StepTime, rows: Iterable[StepRow]) -> Iterator[_Track]:
    for each in rows:
        often = f"{each.rounds:g} rounds" if each.rounds else f"×{len(each.when)}" if len(each.when) > 1 else ""
        seconds = sum(end - begin for begin, end in merged(each.when))
        name = "  " * (each.depth + 1) + each.name
        yield _Track(name, _role(step.linked, [each]), tuple(each.when), seconds, _where(step.linked, each), often)


def _label(each: _Track, room: int) -> str:
    often = f" {each.often}" if each.often else ""
    return shortened(each.name, max(room - len(often), 8)) + often


def _drawn(step: StepTime, tracks: Sequence[_Track], width: int) -> Iterator[Line]:
    files = {file for each in tracks for file in re.findall(r"↳?(\S+):\d", each.where)}
    if len(files) == 1:  # all places are in one file: leave out its name
        (file,) = files
        tracks = [
            each.replace(where=each.where.replace(f"{file}:", "L")) if f"{file}:" in each.where else each
            for each in tracks
        ]
    most = min(_NAMES, max(width // 3, 10))
    names = max((len(_label(each, most)) for each in tracks), default=0)
    places = min(max((len(each.where) for each in tracks), default=0), _PLACES) if width >= _WIDE else -2
    room = max(min(width, WIDEST) - names - _TIMES - places - 5, 4)
    end = brief_seconds(step.seconds)
    yield line(("muted", f" {'':{names}} 0{end:>{room - 1}}"))
    for each in tracks:
        yield line(
            ("label" if not each.name.startswith(" ") else "", f" {_label(each, most):<{names}} "),
            (each.role, lane(each.when, step.seconds, room)),
            ("time", f" {brief_seconds(each.seconds):>{_TIMES - 1}}"),
            (each.role, f"  {shortened(each.where, places)}" if places > 0 else ""),
        )


def lane(when: Iterable[tuple[float, float]], whole: float, columns: int) -> str:
    """The intervals of a call of ``whole`` seconds as text: ``  ▊██▏   ``. Partly covered columns are partly filled."""
    filled = [0.0] * columns
    scale = columns / max(whole, 1e-12)
    for begin, end in when:
        first, last = begin * scale, min(end * scale, columns)
        for at in range(int(first), min(int(last) + 1, columns)):
            filled[at] += max(min(last, at + 1) - max(first, at), 0.0)
    marks = [min(max(round(part * 8), 1), 8) if part > 0 else 0 for part in filled]
    return "".join("█" if mark == 8 else EIGHTHS[mark] for mark in marks)


# A row has four cells: name, lane, time and place. No HTML table, because notebooks style tables in their own way.
_GRID = (
    "display:grid;grid-template-columns:fit-content(40%) minmax(90px,1fr) auto fit-content(25%);gap:1px 10px;"
    "align-items:center;font-family:monospace"
)
_CELL = "overflow:hidden;text-overflow:ellipsis;white-space:pre"


def _markup(step: StepTime, tracks: Sequence[_Track]) -> str:
    """The rows as HTML. Intervals are rectangles that scale with the page."""
    return f'<div style="{_GRID}">{"".join(_row(step, each) for each in tracks)}</div>'


def _row(step: StepTime, each: _Track) -> str:
    name = span("label" if not each.name.startswith(" ") else "", each.name + (f" {each.often}" if each.often else ""))
    title = html.escape(shown(f"{each.name.strip()}: {brief_seconds(each.seconds)}"))
    scale = _PIXELS / max(step.seconds, 1e-12)
    boxes = "".join(
        f'<rect x="{begin:.1f}" width="{max(end - begin, 1.0):.1f}" height="10"/>'
        for begin, end in _pixels(each, scale)
    )
    drawing = (
        f'<svg viewBox="0 0 {_PIXELS} 10" preserveAspectRatio="none" role="img" '
        f'style="display:block;width:100%;height:11px;fill:var(--mj-c-{each.role})"><title>{title}</title>{boxes}</svg>'
    )
    where = span(each.role, each.where)
    time = span("time", brief_seconds(each.seconds))
    named = f'<div style="{_CELL}" title="{title}">{name}</div>'
    return f'{named}{drawing}<div style="{_CELL}">{time}</div><div style="{_CELL}">{where}</div>'


def _pixels(each: _Track, scale: float) -> Iterator[tuple[float, float]]:
    """The intervals in units of the drawing. Gaps of less than one unit are closed, which keeps long loops small."""
    begin, end = 0.0, -1.0
    for of, to in sorted((a * scale, b * scale) for a, b in each.when):
        if end < begin:
            begin, end = of, to
        elif of <= end + 1.0:
            end = max(end, to)
        else:
            yield begin, end
            begin, end = of, to
    if end >= begin:
        yield begin, end
