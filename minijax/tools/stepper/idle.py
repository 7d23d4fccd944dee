"""If a pane has nothing to show at a moment, it shows its last or its next content, and says which in the heading.

Between the user's operations the engine works: no user line runs and no equation is recorded. The pane then keeps
its last content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from minijax.tools.documents.document import Line, length, line, padded
from minijax.tools.recording.cursor import LEAVE, Cursor, Moment
from minijax.tools.recording.records import (
    BindRecord,
    ExecutableRecord,
    JaxprRecord,
    LifeRecord,
    ModuleRecord,
    place_parts,
)
from minijax.tools.values.moment import ledger
from minijax.tools.values.table import cell_line

Finished = JaxprRecord | ModuleRecord | ExecutableRecord

# Maximum number of moments searched, before and after.
MOST_LOOKED = 400
# Maximum number of values of a forward derivative, and the width of a column.
MOST_VALUES = 40
WIDTH = 14
# The text for a call that makes no program.
RUN_AS_CALLED = line(("muted", "operations are run as they are called: no program is made of them here"))


def _near(cursor: Cursor, wanted: Callable[[Moment], bool]) -> tuple[str, Moment | None]:
    """Search for a ``wanted`` moment: ('last', the nearest earlier one), else ('next', the nearest later one)."""
    moments, here = cursor.moments, cursor.position
    for position in range(here - 1, max(here - MOST_LOOKED, 0) - 1, -1):
        if wanted(moments[position]):
            return "last", moments[position]
    for position in range(here + 1, min(here + MOST_LOOKED, len(moments))):
        if wanted(moments[position]):
            return "next", moments[position]
    return "", None


def near_place(cursor: Cursor) -> tuple[str, str]:
    """('', the moment's user line); if the moment has none, ('last' or 'next', the nearest user line)."""
    place = cursor.state().place
    if place_parts(place)[0]:
        return "", place
    which, moment = _near(cursor, lambda moment: bool(place_parts(getattr(moment.node, "place", ""))[0]))
    return which, "" if moment is None else getattr(moment.node, "place", "")


def near_operation(cursor: Cursor) -> tuple[str, Moment | None, bool]:
    """'last' or 'next', the moment of the nearest operation, and whether the operation is done."""
    which, moment = _near(cursor, lambda moment: isinstance(moment.node, BindRecord))
    return which, moment, moment is not None and moment.kind == LEAVE and which == "last"


def near_program(cursor: Cursor) -> Finished | None:
    """The program that was finished last before the moment. At the end, that is the final program of the call."""
    recording = cursor.recording
    known: list[Finished] = [*recording.jaxprs, *recording.modules, *recording.executables]
    before = [each for each in known if each.at <= cursor.moment.at]
    return max(before, key=lambda each: each.at, default=None)


def program_said(cursor: Cursor) -> list[Line]:
    """What the pane shows if no program has been finished yet."""
    values = list(derivative_lines(cursor))
    if values:
        return values
    following = [each for each in cursor.recording.jaxprs if each.at > cursor.moment.at]
    if not following:
        return [RUN_AS_CALLED]
    first = min(following, key=lambda each: each.at)
    name = f" of {first.name.partition(' at ')[0]}" if first.name else ""
    return [line(("muted", f"the next program is a jaxpr{name}"))]


# --- forward derivatives


def derivative_lines(cursor: Cursor) -> Iterator[Line]:
    """The named values of a forward derivative: primal and tangent; in a second derivative, three tangents."""
    state = cursor.state()
    levels = [depth for depth, label in enumerate(state.stack) if label.partition(":")[0] == "jvp"]
    if not levels:
        return
    inner = levels[-1]
    named = [life for life in state.tracers[inner] if life.name] if inner < len(state.tracers) else []
    twice = len(levels) > 1
    columns = ["primal", "tangent", "by outer", "of tangent"] if twice else ["primal", "tangent"]
    heads = [f"{'name':<{WIDTH - 4}}", *[f"{each:<{WIDTH}}" for each in columns]]
    if twice:
        inside, outside = state.stack[inner], state.stack[levels[-2]]
        yield line(("heading", f"{inside} in {outside}"), ("muted", ": a derivative of a derivative"))
        heads[2:] = [f"{'d by ' + inside:<{WIDTH}}", f"{'d by ' + outside:<{WIDTH}}", "d by both"]
    yield line(("muted", "".join(heads)))
    for life in named[-MOST_VALUES:]:
        out: Line = (("var", padded(life.name[: WIDTH - 5], WIDTH - 4)),)
        for each in _parts(cursor, life, twice):
            cell = (("muted", "0"),) if each is None else cell_line(each, WIDTH - 1)
            out += (*cell, ("", " " * max(WIDTH - length(cell), 1)))
        yield out


def _parts(cursor: Cursor, life: LifeRecord, twice: bool) -> list[Any]:
    """Primal and tangent; in a second derivative also the tangent of each."""
    known, number = ledger(cursor.recording), life.tracer.id
    holds = life.tracer.holds
    inner = holds[1] if len(holds) > 1 else 0
    primal = known.primal(number)
    tangent = known.primal(inner) if inner else known.tangent(number)
    if not twice:
        return [primal, tangent]
    outer = holds[0] if holds else 0
    return [primal, tangent, known.tangent(outer) if outer else None, known.tangent(inner) if inner else None]
