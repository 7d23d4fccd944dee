"""The programs of a call side by side, as a stepper shows them: Python, jaxpr, StableHLO and XLA's optimised program.

A selection is a set of equations. It comes from a cursor's moment or from a line of a program. Every program marks
the lines that belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from minijax.core.records import Frozen
from minijax.tools.documents.document import MARK, Block, Code, Document, Line, Segment, document, line, text
from minijax.tools.programs import hlo
from minijax.tools.programs.link_views import equations_text, held_text, mark_text, names_text, places_text, signed
from minijax.tools.programs.links import Equation, LinkedPrograms, Pane
from minijax.tools.programs.user_lines import user_lines
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.records import BindRecord, EquationRecord, Recording, place_parts

# The panes, in the order of compilation.
PROGRAM_PANES = ("python", "jaxpr", "stablehlo", "optimized")
_MOST_NAMED = 6
# Maximum number of characters after a fusion's line that name the fusion's equations.
_HELD = 24


class Selection(Frozen):
    """Selected equations by number, inner ones included. ``pane``: the index of the chosen pane in
    ``LinkedPrograms.panes``. ``index``: the index of the chosen line in this pane. -1 if none is chosen.
    """

    equations: frozenset[int] = frozenset()
    pane: int = -1
    index: int = -1


def recorded_programs(recording: Recording) -> LinkedPrograms | None:
    """Return the linked programs of the last compilation in the recording, or None if there are none."""
    for executable in reversed(recording.executables):
        found = getattr(executable, "programs", None)
        if isinstance(found, LinkedPrograms):
            return found
    return None


def at_moment(programs: LinkedPrograms, cursor: Cursor) -> Selection:
    """The equations of the user line at the cursor's moment. If any have the moment's primitive, only these."""
    state = cursor.state()
    file, number, _ = place_parts(state.place)
    if not file:
        return Selection()
    found = [programs.equation(each) for each in programs.at_line(number, file)]
    node = state.moment.node
    name = node.primitive if isinstance(node, BindRecord | EquationRecord) else ""
    found = [each for each in found if each.primitive == name] or found
    return Selection(programs.with_inner(each.number for each in found))


def at_line(programs: LinkedPrograms, pane: int, index: int) -> Selection:
    """The equations of a line; ``pane`` is an index into ``programs.panes``."""
    return Selection(programs.with_inner(programs.panes[pane].links[index]), pane, index)


def pane_index(programs: LinkedPrograms, name: str, selection: Selection, place: str = "") -> int:
    """The index in ``programs.panes`` of the stepper's pane ``name``; -1 if there is no such program.

    Of several Python files, choose the file of the selected line, or else the file with the most selected lines. If
    several files have equally many, choose the file of ``place``.
    """
    languages = {"jaxpr": "jaxpr", "stablehlo": "stablehlo", "optimized": "hlo"}
    known = list(enumerate(programs.panes))
    wanted = languages.get(name, "python")
    among = [(index, pane) for index, pane in known if pane.language == wanted]
    if not among:
        return -1
    if any(index == selection.pane for index, _ in among):
        return selection.pane
    file = place_parts(place)[0]
    counts = [(len(pane.with_equations(selection.equations)), pane.title == file, -index) for index, pane in among]
    return -max(counts)[2]


def linked_pane(programs: LinkedPrograms, index: int, selection: Selection, place: str = "") -> Document:
    """One of ``programs.panes`` with the lines of the selection marked."""
    if index < 0:
        return document(text("there is no such program here", role="muted"))
    pane = programs.panes[index]
    linked = frozenset(pane.with_equations(selection.equations))
    current = selection.index if selection.pane == index else -1
    if current < 0 and pane.language == "python":
        file, number, _ = place_parts(place)
        # the moment's line, unless the user selected a line
        current = pane.index(number) if selection.pane < 0 and number and file == pane.title else -1
    blocks: list[Block] = []
    if pane.language == "python":
        blocks.append(text(line(("place", pane.title)), wrap=False))
    blocks += _runs(programs, pane, linked, current)
    if pane.left_out:
        blocks.append(text(f"... {pane.left_out} more lines", role="muted"))
    return document(*blocks)


def _beside(programs: LinkedPrograms, pane: Pane) -> tuple[tuple[Segment, ...], tuple[Line, ...]]:
    """The text before and after each line of a pane: its user line (in Python its number), and a fusion's equations."""
    known = user_lines(programs)
    width = len(str(max(pane.numbers, default=0)))
    labels, after = [], []
    for text_, number, numbers, how in zip(pane.lines, pane.numbers, pane.links, pane.notes, strict=True):
        places = known.places(numbers)
        if pane.language == "python":
            places = ((pane.title, number),) if (pane.title, number) in known.colours else places[:1]
        role = known.role(places[0]) if places else "muted"
        more = "+" if len(places) > 1 else ""
        where = signed(mark_text(places[:1], known.main_file) + more, how) if places else ""
        label = f"{number:>{width}}" if pane.language == "python" else where
        labels.append((role, label))
        held = names_text([programs.equation(each) for each in numbers], _HELD) if hlo.holds(text_) else ""
        after.append((("comment", f"  // {held}"),) if held else ())
    return tuple(labels), tuple(after)


def _runs(programs: LinkedPrograms, pane: Pane, linked: frozenset[int], current: int) -> Iterator[Block]:
    """The lines with their labels. A mark separates parts of a file that are not adjacent."""
    labels, after = _beside(programs, pane)
    numbers = pane.numbers if pane.language == "python" else range(1, len(pane.lines) + 1)
    start = 0
    for i in range(1, len(pane.lines) + 1):
        if i < len(pane.lines) and numbers[i] == numbers[i - 1] + 1:
            continue
        if start:
            yield text("⋮", role="muted")
        shift = numbers[start] - start
        marked = (current + shift,) if start <= current < i else ()
        marks = frozenset(index + shift for index in linked if start <= index < i)
        lines = "\n".join(pane.lines[start:i])
        yield Code(lines, pane.language, numbers[start], marked, marks, labels[start:i], after[start:i])
        start = i


def selection_line(programs: LinkedPrograms, selection: Selection) -> Line:
    """The selection in one line: ``eqn 3 · <minijax-1>:2 · mul``, and why it is missing from later programs."""
    if not selection.equations:
        note = ""
        if selection.pane >= 0:
            pane = programs.panes[selection.pane]
            note = pane.notes[selection.index] if selection.index < len(pane.notes) else ""
        return line(("muted", f"no equation belongs to this line{': ' + note if note else ''}"))
    numbers = tuple(sorted(selection.equations))
    equations = [programs.equation(number) for number in numbers]
    names = list(dict.fromkeys(each.primitive for each in equations))
    more = f" +{len(names) - _MOST_NAMED}" if len(names) > _MOST_NAMED else ""
    out: list[Segment] = [("current", MARK + " ")]
    fusion = _fusion(programs, selection)
    if fusion:
        # name the equations of a fusion instead of numbering them
        return (*out, ("heading", fusion), ("muted", " = "), ("primitive", held_text(equations)))
    out.append(("heading", equations_text(numbers)))
    where = places_text(equations)
    if where:
        out += [("muted", " · "), ("place", where)]
    out += [("muted", " · "), ("primitive", ", ".join(names[:_MOST_NAMED]) + more)]
    chosen = programs.panes[selection.pane] if selection.pane >= 0 else None
    if chosen is not None and chosen.language == "hlo" and chosen.notes[selection.index]:
        out.append(("muted", f" · {chosen.notes[selection.index]}"))
    missing = _missing(equations)
    if missing:
        out += [("muted", " · "), ("warning", missing)]
    return tuple(out)


def _fusion(programs: LinkedPrograms, selection: Selection) -> str:
    """The name of the selected fusion; '' for any other line."""
    if selection.pane < 0 or programs.panes[selection.pane].language != "hlo":
        return ""
    chosen = programs.panes[selection.pane].lines[selection.index]
    return hlo.instruction_name(chosen) if hlo.holds(chosen) else ""


def _missing(equations: list[Equation]) -> str:
    """Why the whole selection is missing from a later program, or ''."""
    for note, name in (("stablehlo_note", "StableHLO"), ("hlo_note", "optimised")):
        reasons = [getattr(each, note) for each in equations]
        if all(reasons):
            return f"{name}: {reasons[0]}"
    return ""
