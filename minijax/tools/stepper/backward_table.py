"""A whole backward pass as a table: all steps from the result to the arguments, and the residuals of each line."""

from __future__ import annotations

from collections.abc import Iterator

from minijax.tools.documents.document import Block, Line, Row, Text, line, padded
from minijax.tools.documents.words import plural
from minijax.tools.recording.records import BackwardRecord, EquationRecord, Recording, TransposedRecord, place_parts
from minijax.tools.stepper.backward import BackwardPass, brief_equation, passes_of, path_line, place_line, residual_line
from minijax.tools.values.table import loop_text

MOST_RESIDUALS = 8
# The primitive of ``checkpoint``.
REMAT = "remat2"


def steps_blocks(recording: Recording, most: int, worded: bool = False) -> Iterator[Block]:
    """The steps of each backward pass. A pass inside a transpose rule comes after the pass of this rule.

    ``worded`` shows the user's names instead of letters.
    """
    passes = [each for each in passes_of(recording) if each.recorded.steps]
    if not passes:
        yield Row("backward", (line(("muted", "nothing is differentiated: no result depends on an argument")),))
        return
    for each in passes:
        each.worded = worded
        steps = each.record.steps
        # the values of a loop are those of one iteration
        details = " · ".join([plural(len(steps), "step"), *map(loop_text, each.loops())])
        details = "; ".join([f"{details}, from the result back", *each.unknown()])
        yield Row("backward", (line(("heading", path_line(each)), ("muted", f" · {details}")),))
        yield Text(tuple(_steps(each, most)), hanging=8)


def in_loops(recording: Recording) -> list[int]:
    """For each pass, the number of one of its values. This value is in the same loops as the pass."""
    return [each.first_given for each in passes_of(recording) if each.first_given]


def outermost(recording: Recording) -> int:
    """The number of backward passes, without those inside transpose rules."""
    return sum(each.around is None and bool(each.recorded.steps) for each in passes_of(recording))


def _steps(backward: BackwardPass, most: int) -> Iterator[Line]:
    record = backward.record
    place = ""
    arrived = {seed.variable: 1 for seed in record.seeds if seed.number}
    width = max([len(brief_equation(backward, step.equation)) for step in record.steps[:most]], default=0)
    for step in record.steps[:most]:
        if record.places[step.equation] != place:
            place = record.places[step.equation]
            yield place_line(backward.recording, place)
        yield _step(backward, step, width)
        for part, total in zip(step.found, step.sums, strict=True):
            before = arrived.get(part.variable, 0)
            arrived[part.variable] = before + 1
            gives = line(("", "      "), ("linked", "+ " if before else "→ "))
            gives += (*backward.named(part.variable), ("", "  "), *backward.value(part))
            if before:
                gives += (("muted", "  sum "), *backward.value(total))
            if arrived[part.variable] == backward.expected[part.variable] and before:
                gives += (("good", " ✓"),)
            yield gives
        if step.at < 0:
            yield line(("error", "      its transpose rule raised"))
    if len(record.steps) > most:
        yield line(("muted", f"... {len(record.steps) - most} more steps (--most {len(record.steps)} lists all)"))


def _step(backward: BackwardPass, step: TransposedRecord, width: int) -> Line:
    out: Line = (("", "    "), ("", padded(brief_equation(backward, step.equation), width)))
    for ct in step.given:
        if ct.number:
            out += (("", "  "), *backward.named(ct.variable, alone=False), ("", "  "), *backward.value(ct))
    return out


# --- residuals


def kept_blocks(recording: Recording) -> Iterator[Block]:
    """The residuals of each outermost pass, and the lines that computed them."""
    for backward in passes_of(recording):
        if backward.around is None:
            yield from _kept(backward)


def recomputed(recording: Recording) -> Iterator[list[str]]:
    """For each ``checkpoint`` call in a backward pass, the primitives that were computed again."""
    for backward in passes_of(recording):
        if backward.around is None:
            continue
        outer, step = backward.around
        if outer.record.equations[step.equation].primitive != REMAT:
            continue
        begun, before = step.begun, backward.recorded.begun
        nodes = (node for _, node in recording.walk() if isinstance(node, EquationRecord))
        yield [node.primitive for node in nodes if begun < node.at <= before]


def _kept(backward: BackwardPass) -> Iterator[Block]:
    record = backward.record
    if not record.constants:
        yield Row("kept", (line(("muted", "no residuals: the backward pass uses only literals")),))
        return
    by_place: dict[str, list[int]] = {}
    total = 0
    for variable in range(record.constants):
        by_place.setdefault(_place_of(backward, record, variable), []).append(variable)
        total += backward.residual_bytes(variable)
    rows: list[Line] = [
        line(("value", plural(record.constants, "residual")), ("muted", ", "), ("value", f"{total:,} bytes"))
    ]
    for place in sorted(by_place, key=lambda place: (place_parts(place)[0], place_parts(place)[1])):
        variables = by_place[place]
        size = sum(map(backward.residual_bytes, variables))
        where = place_line(backward.recording, place) if place else line(("muted", "  no source line"))
        rows.append((*where, ("muted", f"  {size:,} bytes")))
        for variable in variables[:MOST_RESIDUALS]:
            held = f"  {backward.residual_bytes(variable):,} bytes"
            rows.append((("", "      "), *residual_line(backward, variable), ("muted", held)))
        if len(variables) > MOST_RESIDUALS:
            rows.append(line(("muted", f"      ... {len(variables) - MOST_RESIDUALS} more")))
    yield Row("kept", tuple(rows))


def _place_of(backward: BackwardPass, record: BackwardRecord, variable: int) -> str:
    life = backward.naming.lives.get(record.primals[variable])
    return life.place if life is not None and place_parts(life.place)[0] else ""
