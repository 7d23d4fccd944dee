"""A program on its way through XLA, as text: all passes, one pass, the memory, and a kernel."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence

from minijax.tools.documents.document import (
    BESIDE,
    WIDEST,
    Block,
    Code,
    Columns,
    Fitted,
    Line,
    Pair,
    Row,
    Segment,
    Table,
    Text,
    joined,
    length,
    line,
    text,
)
from minijax.tools.documents.words import brief_seconds, bytes_text, plural, shortened
from minijax.tools.programs import hlo
from minijax.tools.programs.link_views import equations_text, held_text, legend, mark_text, short_file, signed
from minijax.tools.programs.links import Equation
from minijax.tools.programs.user_lines import Spot
from minijax.tools.xla import machine
from minijax.tools.xla.dumps import Kernel
from minijax.tools.xla.memory import HeldValue, Memory
from minijax.tools.xla.pipeline import Descent, Pass
from minijax.tools.xla.stages import StageLine, Stages, stages

# Number of unchanged lines that are shown before and after a changed line.
_AROUND = 2
# Minimum and maximum width of the drawing of a value's lifetime, in columns.
_LANE = 12, 24
_KINDS = ("argument", "result", "temporary", "constant", "scratch", "memory")
# Maximum number of source lines that are listed with their text.
_MOST_LINES = 12
# Maximum number of source lines that are named one by one.
_MOST_PLACES = 3


def overview(found: Descent) -> Iterator[Block]:
    """A line for each pass that changed the program, one for the memory, and one for the kernels."""
    of = stages(found)
    if found.passes:
        first, last = found.passes[0].counts[0].total(), found.passes[-1].counts[1].total()
        yield text(
            line(
                ("heading", f"{plural(len(found.passes), 'step')} changed the program"),
                ("muted", f" · {plural(first, 'instruction')}, then {last} · compiled once more, not run"),
            )
        )
        yield Fitted(lambda width: (Text(tuple(_steps(of, width)), hanging=6),))
    else:
        yield text("no pass changed the program", role="muted")
    yield _memory_row(of)
    yield _kernels_row(found)
    if of.spots:
        yield _lines_row(of)
    hints = "--open browses every stage · --pass 1 shows before and after · --memory · --kernel NAME, with --llvm"
    yield Row("more", (line(("muted", hints)),))


def _lines_row(of: Stages) -> Row:
    """The source lines with their text, each in its colour."""
    files = [stage for stage in of.all if stage.kind == "python"]
    texts = {spot: each.text.strip() for stage in files for each in stage.lines for spot in each.places[:1]}
    marks = [mark_text((spot,), of.main_file) for spot in of.spots[:_MOST_LINES]]
    columns = max(map(len, marks))
    rows = [
        line((of.role(spot), f"{mark:<{columns}}"), ("muted", f"  {texts.get(spot, '')}"))
        for spot, mark in zip(of.spots, marks, strict=False)
    ]
    if len(of.spots) > len(rows):
        rows.append(line(("muted", f"… {plural(len(of.spots) - len(rows), 'more line')}")))
    return Row("lines", tuple(rows), line(("place", short_file(of.main_file))))


def _steps(of: Stages, width: int) -> Iterator[Line]:
    """A line for each pass, under its pipeline."""
    found = of.descent
    names = [each.name or "(between pipelines)" for each in found.passes]
    totals = [tuple(counts.total() for counts in each.counts) for each in found.passes]
    sizes = [f"{a}" if a == b else f"{a} → {b}" for a, b in totals]
    places = [line_mark(of, of.touched(each)) for each in of.all if each.kind == "pass"]
    # on a narrow page the times have no room; --pass shows them
    times = [*_times(found)] if width >= BESIDE else [""] * len(names)
    name_columns, size_columns, time_columns = (max(map(len, each)) for each in (names, sizes, times))
    time_columns += 2 * bool(time_columns)
    room = max(min(width, WIDEST) - name_columns - size_columns - time_columns - 12 - max(map(length, places)), 16)
    pipeline = ""
    for each, name, size, took, where in zip(found.passes, names, sizes, times, places, strict=True):
        if each.pipeline != pipeline:
            pipeline = each.pipeline
            yield line(("muted", f" {pipeline}"))
        kinds = _kinds(each, room)
        yield line(
            ("muted", f"{each.number:4}  "),
            ("primitive", f"{name:<{name_columns}}"),
            ("time", f"{'  ' + took if took else '':<{time_columns}}"),
            f"  {size:>{size_columns}}  {kinds:<{room}}" if where else f"  {size:>{size_columns}}  {kinds}",
            *((("", "  "), *where) if where else ()),
        )


def _times(found: Descent) -> Iterator[str]:
    """For each pass, the time of all its runs, such as ``1.2 ms ×7``; '' if an earlier line shows it already."""
    seen = set()
    for each in found.passes:
        key = each.pipeline, each.name
        yield (
            ""
            if key in seen or not each.runs
            else brief_seconds(each.seconds) + (f" ×{each.runs}" if each.runs > 1 else "")
        )
        seen.add(key)


def _kinds(each: Pass, room: int) -> str:
    """The kinds of instructions that a pass removed and added, ``-1 dot +2 reshape``, as far as there is room."""
    kinds = [*_counted("-", each.gone), *_counted("+", each.made)]
    if not kinds:
        return "same kinds"
    for count in range(len(kinds), 0, -1):
        more = f" …{len(kinds) - count} more" if count < len(kinds) else ""
        said = " ".join(kinds[:count]) + more
        if len(said) <= room:
            return said
    return plural(len(kinds), "kind")


def _counted(sign: str, counts: Counter[str]) -> list[str]:
    return [f"{sign}{n} {kind}" for kind, n in counts.most_common()]


def _memory_row(of: Stages) -> Row:
    found, memory = of.descent, of.descent.memory
    sizes = [f"{kind} {bytes_text(memory.total(kind))}" for kind in _KINDS[:4] if memory.total(kind)]
    parts: Line = joined(" · ", [("", each) for each in sizes]) if sizes else line(("muted", "none"))
    if not memory.at:
        return Row("memory", (parts,))
    said = f"peak at {found.shown_name(memory.at)}: {bytes_text(memory.live_bytes)} live"
    most = line(said, *_where(of, memory.at))
    return Row("memory", (parts, most))


def _kernels_row(found: Descent) -> Row:
    if not found.kernels:
        return Row("kernels", (line(("muted", "none: XLA's own library does all the work")),))
    code = sum(machine.size(each.code) for each in found.kernels)
    names = ", ".join(each.name for each in found.kernels[:6])
    more = f" and {len(found.kernels) - 6} more" if len(found.kernels) > 6 else ""
    return Row(
        "kernels",
        (line(f"{names}{more}"),),
        line(("muted", f"{plural(len(found.kernels), 'kernel')}, {bytes_text(code)} of code")),
    )


# ------------------------------------------------------------------------------------------ the source lines of a line


def line_mark(stages: Stages, places: Sequence[Spot], held: StageLine | None = None, most: int = 24) -> Line:
    """Source lines such as ``L4, 7``, each number in its line's colour.

    For a fusion, its equations' names stand before the source lines, in at most ``most`` columns: ``tanh, mul L4``.
    The signs of ``link_views.signed`` say how the source lines are known.
    """
    out: list[Segment] = []
    if held is not None and held.holds:
        out.append(("", stages.names(held, max(most - 4, 8)) + " "))
    if held is not None and not held.places or len(places) > _MOST_PLACES:
        said = stages.mark(held or StageLine("", 0, tuple(places)))
        return (*out, ("warning" if held is not None and held.own else "muted", said)) if said else tuple(out)
    before, after = signed(" ", "" if held is None else held.note).split(" ")
    for i, spot in enumerate(places):
        sign = after if i == len(places) - 1 else ""
        where = (before if not i else " ") + mark_text((spot,), stages.main_file) + sign
        out.append((stages.role(spot), where))
    return tuple(out)


# --------------------------------------------------------------------------------------------------- one pass


def one_pass(found: Descent, each: Pass, most: int) -> Iterator[Block]:
    """The program before and after the pass, side by side, with each instruction's source lines."""
    of = stages(found)
    stage = next(one for one in of.all if one.number == each.number)
    before, after = of.all[stage.previous], stage
    yield text(
        line(("heading", f"{each.number} · {each.title}"), ("muted", f" · of {len(found.passes)}"), *_took(each)),
    )
    pairs = _pairs(of, before.lines, after.lines)
    shown, left = pairs[:most], len(pairs) - most
    titles = (line(("heading", "before")), line(("heading", "after")))
    yield Columns(titles, lambda width: shown)
    if left > 0:
        yield text(f"… {plural(left, 'more line')}: --most {len(pairs)} shows all", role="muted")
    yield from legend(each.note for each in (*before.lines, *after.lines) if each.places)
    gone, made = _counted("-", each.gone), _counted("+", each.made)
    words = " ".join((*gone, *made)) or "only names, order, layouts or types of instructions"
    yield Row("changes", (line(words),))
    where = of.touched(stage)
    if where:
        yield Row("lines", (line_mark(of, where),), line(("place", short_file(of.main_file))))


def _took(each: Pass) -> Iterator[Segment]:
    if each.runs:
        yield from (("muted", " · "), ("time", each.time))


def _pairs(of: Stages, before: Sequence[StageLine], after: Sequence[StageLine]) -> list[Pair]:
    """The lines of two stages, paired. In a long run of equal lines, one line replaces the middle of the run."""
    out: list[Pair] = []
    texts = [each.text for each in before], [each.text for each in after]
    matcher = difflib.SequenceMatcher(None, *texts, False)
    for tag, i, to_i, j, to_j in matcher.get_opcodes():
        if tag != "equal":
            out += [Pair("-", _instruction(of, before[at])) for at in range(i, to_i)]
            out += [Pair("+", (), _instruction(of, after[at])) for at in range(j, to_j)]
            continue
        alike = [Pair(" ", (("", texts[0][at]),), (("", texts[0][at]),)) for at in range(i, to_i)]
        head = alike[: _AROUND if out else 0]
        tail = alike[len(alike) - _AROUND :] if to_i < len(before) else []
        hidden = len(alike) - len(head) - len(tail)
        if hidden > 1:
            note = (("muted", f"… {hidden} lines alike"),)
            out += [*head, Pair(" ", note, note), *tail]
        else:
            out += alike
    return out


def _instruction(of: Stages, each: StageLine) -> Line:
    mark = line_mark(of, each.places, each)
    return (("", each.text), *((("", "  "), *mark) if mark else ()))


# ----------------------------------------------------------------------------------------------------- memory


def memory(found: Descent, most: int) -> Iterator[Block]:
    """XLA's allocations, the values in them, and their lifetimes."""
    plan, of = found.memory, stages(found)
    sizes = [(kind, plan.total(kind)) for kind in _KINDS]
    yield text(line(("heading", f"memory of {plural(len(plan.order), 'instruction')} in order of execution")))
    known = ", ".join(f"{kind} {bytes_text(size)}" for kind, size in sizes if size)
    yield Row("allotted", (line(known or "nothing"),))
    if plan.reported is not None:
        said = line(("muted", "without preallotted memory"))
        yield Row("XLA says", (line(f"peak {bytes_text(plan.reported)}"),), said)
    if plan.at:
        yield from _peak(of, plan)
    values = [(each.number, held) for each in plan.allocations for held in each.held if held.begin >= 0]
    values.sort(key=lambda pair: (pair[1].begin, pair[1].end, pair[1].name))
    if not values:
        yield text("XLA reported no lifetimes of values", role="muted")
        return
    chosen = sorted(values, key=lambda pair: -pair[1].bytes)[:most]
    kept = {id(held) for _, held in chosen}
    shown = [(number, held) for number, held in values if id(held) in kept]
    yield Fitted(lambda width: (_lives(of, plan, shown, width),))
    left = len(values) - len(shown)
    if left:
        size = bytes_text(sum(held.bytes for _, held in values if id(held) not in kept))
        yield text(f"… {plural(left, 'smaller value')}, {size} together: --most {len(values)}", role="muted")


def _peak(of: Stages, plan: Memory) -> Iterator[Block]:
    at = of.descent.shown_name(plan.at)
    yield Row("peak", (line(f"{bytes_text(plan.live_bytes)} live at {at} ", ("muted", f"(step {plan.peak})")),))
    rows = []
    most, others = plan.live[:5], plan.live[5:]
    for name, size in most:
        own, brace, part = name.partition("{")
        said = f"{bytes_text(size):>8}  {of.descent.shown_name(own)}{brace}{part}"
        rows.append(line(said, *_where(of, own)))
    if others:
        rest = sum(size for _, size in others)
        rows.append(line(("muted", f"{bytes_text(rest):>8}  {len(others)} more")))
    if plan.live_bytes < sum(size for _, size in plan.live):
        rows.append(line(("muted", "values in the same place count once")))
    yield Row("of it", tuple(rows))


def _where(of: Stages, name: str) -> Line:
    """A gap, and then the source lines of an instruction of the optimized HLO; () if it has none."""
    where = line_mark(of, of.places(each.number for each in _equations(of.descent, name)))
    return (("", "  "), *where) if where else ()


def _lives(of: Stages, plan: Memory, shown: list[tuple[int, HeldValue]], width: int) -> Table:
    """A table of the values, each with its size and its lifetime. The lifetimes are as wide as the page allows."""
    header = ("", "value", "bytes", "lives", "your lines")
    rows = [_life(of, plan, *each) for each in shown]
    others = [(*row[:3], row[4]) for row in (*rows, tuple(("", name) for name in header))]
    taken = sum(max(len(row[i][1]) for row in others) for i in range(4)) + 2 * 4
    columns = min(max(width - taken, _LANE[0]), _LANE[1])
    drawn = (lane(held, plan, columns) for _, held in shown)
    return Table(header, tuple((*row[:3], ("value", each), row[4]) for row, each in zip(rows, drawn, strict=True)))


def _life(of: Stages, plan: Memory, number: int, held: HeldValue) -> tuple[Segment, ...]:
    """The row of a value. The cell for its lifetime is still empty."""
    places = of.places(each.number for each in _equations(of.descent, held.name))
    where = of.mark(StageLine("", 0, places))
    role = of.role(places[0]) if len(places) == 1 else "place"
    return (
        ("muted", f"#{number}+{held.offset}" if held.offset else f"#{number}"),
        ("primitive", shortened(of.descent.shown_name(held.name) + held.part, 28)),
        ("", f"{held.bytes}"),
        ("value", ""),
        (role, where) if where else ("muted", "–"),
    )


def lane(held: HeldValue, plan: Memory, most: int = _LANE[1]) -> str:
    """A value's lifetime in the order of execution, ``··████······``. ``│`` or ``▓`` marks the peak."""
    steps = max(len(plan.order), 1)
    columns = min(most, steps)
    first, last = held.begin * columns // steps, max(held.end - 1, held.begin) * columns // steps
    peak = plan.peak * columns // steps if plan.peak >= 0 else -1
    marks = []
    for at in range(columns):
        alive = first <= at <= last
        marks.append(("▓" if alive else "│") if at == peak else "█" if alive else "·")
    return "".join(marks)


# ----------------------------------------------------------------------------------------------------- kernels


def kernel(found: Descent, each: Kernel, llvm: bool, most: int) -> Iterator[Block]:
    """The machine code or LLVM IR of a kernel, with its HLO instruction and source lines."""
    equations = _equations(found, each.name)
    yield text(line(("heading", each.name), ("muted", f" · {bytes_text(machine.size(each.code))} of machine code")))
    of = stages(found)
    last = next(stage for stage in of.all if stage.kind == "final")
    inside = [last.lines[i].text.strip() for i in _fused(found, each.name)]
    if inside:
        yield Row("computes", (line(inside[0]), *(line("  " + one) for one in inside[1:])))
    if equations:
        numbers = tuple(e.number for e in equations)
        said = ("muted", f" · {held_text(equations)} · {equations_text(numbers)}")
        yield Row("for", ((*line_mark(of, of.places(numbers)), said),))
    kind = "llvm" if llvm else "machine"
    code = next(stage for stage in of.all if stage.kind == kind and stage.title == each.name)
    rows = [one.text for one in code.lines]
    shown = "\n".join(rows[:most])
    yield Code(shown, "llvm" if llvm else "asm")
    if len(rows) > most:
        yield text(f"… {plural(len(rows) - most, 'more line')}: --most {len(rows)} shows all", role="muted")


def _fused(found: Descent, name: str) -> list[int]:
    """The indices of an instruction's line and of the lines in the computations that it calls, without parameters."""
    known = hlo.instructions(found.linked.hlo.lines)
    own = [i for i, each in known.items() if each.name == name]
    called = [one for i in own for one in known[i].called]
    return [*own, *(i for i, each in known.items() if each.computation in called and each.opcode != "parameter")]


def _equations(found: Descent, name: str) -> Sequence[Equation]:
    """The equations of an instruction of the optimized HLO."""
    return [found.linked.equation(number) for number in found.linked.owners.get(name, ((), ""))[0]]
