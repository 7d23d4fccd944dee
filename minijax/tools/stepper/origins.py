"""Go from a moment to the birth of its values, and to their uses.

The current operation leads to its operands. An operation that ran a program leads to the program's results. An
input of a staged program leads to the call's operand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from minijax.core.records import NamedTuple
from minijax.ir.jaxpr import ClosedJaxpr, Var, subjaxprs
from minijax.tools.recording.cursor import LEAVE, Cursor
from minijax.tools.recording.naming import Naming, naming_of
from minijax.tools.recording.records import BindRecord, LifeRecord, Recording
from minijax.tools.recording.values import RunRecord
from minijax.tools.values import slices

# Maximum number of choices offered at a time: a digit picks one.
MOST_CHOICES = 9
_PRIMAL = "primal of "


class OriginChoice(NamedTuple):
    """A value to go to: its name, its number, the moment of its birth, and a remark."""

    name: str
    number: int
    position: int
    said: str = ""


def current(cursor: Cursor) -> BindRecord | None:
    """The operation of a moment."""
    return cursor.state().bind


def sources(cursor: Cursor) -> list[OriginChoice]:
    """The sources of the current operation's result: the results of its inner program, and its operands."""
    bind = current(cursor)
    if bind is None:
        return []
    run = cursor.recording.kept.runs.get(bind.at)
    numbers = [] if run is None else list(_computed_inside(cursor.recording, run))
    found = [birth(cursor, number) for number in [*numbers, *bind.operands] if number]
    return _different(each for each in found if each.position != cursor.position)


def birth(cursor: Cursor, number: int) -> OriginChoice:
    """The moment of a value's birth: the end of the operation that made it, or else when it was first seen."""
    recording = cursor.recording
    naming = naming_of(recording)
    name = called(naming, number)
    seen: set[int] = set()
    note = ""
    while number not in seen:
        seen.add(number)
        maker = naming.maker(number)
        if maker is not None and number not in maker.operands:
            return OriginChoice(name, number, moment_of(cursor, maker.end), note)
        given = _given(recording, number)
        if not given:
            break
        note = note or f"{name} is an argument of the call"
        number = given
    life = naming.life(number)
    if life is None:
        return OriginChoice(name, number, cursor.position, f"{name} was not followed")
    outside = f"no operation made {name}: it came from outside, an argument or a constant"
    return OriginChoice(name, number, moment_of(cursor, life.born), outside)


def called(naming: Naming, number: int) -> str:
    """The name of a value, without "primal of"."""
    name = naming.name(number)
    while name.startswith(_PRIMAL):
        name = name.removeprefix(_PRIMAL)
    return name


def moment_of(cursor: Cursor, at: int) -> int:
    """The first moment at event ``at`` or later."""
    position = bisect_left(cursor.moments, at, key=lambda moment: moment.at)
    return min(position, len(cursor.moments) - 1)


def _given(recording: Recording, number: int) -> int:
    """The value behind a tracer that no operation made: the value that it holds or, for an input of a program, the
    operand of the call that ran the program. 0 if there is none."""
    life: LifeRecord | None = naming_of(recording).life(number)
    if life is not None and life.tracer.holds and life.tracer.holds[0]:
        return life.tracer.holds[0]
    var = recording.kept.variables.get(number)
    if var is None:
        return 0
    for run in recording.kept.runs.values():
        for jaxpr in subjaxprs(dict(run.params)):
            if var in jaxpr.invars:
                at = slices.operand_of(run.primitive, run.params, len(run.operands), jaxpr, jaxpr.invars.index(var))
                if at >= 0 and run.operands[at]:
                    return run.operands[at]
    return 0


def _computed_inside(recording: Recording, run: RunRecord) -> Iterator[int]:
    """The numbers that the results of an operation's inner program had during tracing."""
    numbers: Mapping[Var, int] | None = None
    for value in run.params.values():
        for each in value if type(value) is tuple else (value,):
            if not isinstance(each, ClosedJaxpr):
                continue
            if numbers is None:
                numbers = {var: number for number, var in recording.kept.variables.items()}
            for var in each.jaxpr.outvars:
                if isinstance(var, Var) and numbers.get(var):
                    yield numbers[var]


def uses(cursor: Cursor, numbers: Iterable[int]) -> list[OriginChoice]:
    """The operations with one of the values as an operand. Operations inside of such an operation do not count."""
    known = _users(cursor.recording)
    found: list[tuple[BindRecord, int]] = []
    for number in dict.fromkeys(numbers):
        found += [(bind, number) for bind in known.get(number, ())]
    found.sort(key=lambda each: each[0].at)
    naming = naming_of(cursor.recording)
    out = []
    end = -1
    for bind, number in found:
        if bind.at > end:  # operations inside an operation do not count as uses
            out.append(OriginChoice(naming.operation(bind), number, moment_of(cursor, bind.at)))
            end = bind.end
    return _different(out)


def _users(recording: Recording) -> Mapping[int, list[BindRecord]]:
    """Number of a value -> the operations with it as an operand."""
    found: dict[int, list[BindRecord]] | None = recording.__dict__.get("_users")
    if found is None:
        found = {}
        for _, node in recording.walk():
            if isinstance(node, BindRecord):
                for number in set(node.operands):
                    if number:
                        found.setdefault(number, []).append(node)
        recording.__dict__["_users"] = found
    return found


def results(cursor: Cursor, number: int = 0) -> list[int]:
    """The values whose uses are wanted: the selected one, or the results of the current operation."""
    if number:
        return [number]
    bind = current(cursor)
    return [] if bind is None else [each for each in bind.results if each]


def selected_birth(cursor: Cursor, number: int) -> list[OriginChoice]:
    """The birth of a value. If the value is born at the current moment, the sources of the value."""
    found = birth(cursor, number)
    if found.position == cursor.position:
        return sources(cursor) if cursor.moment.kind == LEAVE else []
    return [found]


def _different(found: Iterable[OriginChoice]) -> list[OriginChoice]:
    """Choices that lead to different moments or have different names, in order."""
    out: dict[Any, OriginChoice] = {}
    for each in found:
        out.setdefault((each.position, each.name), each)
    return list(out.values())
