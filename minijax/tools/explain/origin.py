"""The display of ``%origin``: the operations that led to a value, in program order, one named line for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from minijax import errors
from minijax.core.array import Array
from minijax.core.records import Frozen
from minijax.ir.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from minijax.ir.pretty import Printer
from minijax.tools.compare.graph import Graph, GraphNode, Value
from minijax.tools.compare.graph_text import NODES, Lanes, most_lanes
from minijax.tools.documents.document import Block, Document, Fitted, Line, Row, Segment, Text, length, line
from minijax.tools.documents.words import plural, shortened
from minijax.tools.recording import preview
from minijax.tools.recording.naming import MOST_COMPUTED, called, naming_of, own_name
from minijax.tools.recording.records import BindRecord, place_parts
from minijax.tools.recording.values import RunRecord
from minijax.tools.values.brief import brief
from minijax.tools.values.moment import ledger
from minijax.tools.values.origins import Origins, OriginSlice, StepUse
from minijax.tools.values.slices import UNKNOWN, EquationUse, SlicedProgram, WhatRan

# Maximum number of results with their own line. Further results are only counted.
MOST_RESULTS = 8
# Maximum number of user operations that are shown. Earlier ones are left out.
MOST_ROWS = 200
_LONGEST = 44
# Minimum room for showing a value, in characters.
_LEAST_VALUE = 8
# Columns that are kept free for a value, and for a line number.
_MOST_VALUE = 24
_PLACE = 5


class OriginRow(Frozen):
    """One line of the display: an operation with its inputs and results.

    Attributes:
      kind: 'input', 'const', 'equation', 'call' or 'output', as for nodes of a graph.
      reads, makes: the keys of the values that the operation reads, and of the values that it makes.
      names: the names of the values that it makes.
      said: the operation as a text, with the user's names.
      type, value, place: the type, value (an array or a text) and source line of the first result.
      inside: the operations of its rule, or the programs that it ran.
      title: for an inner program, its title; otherwise ''.
    """

    kind: str
    reads: tuple[Any, ...]
    makes: tuple[Any, ...]
    names: tuple[str, ...]
    said: Line
    type: str = ""
    value: Any = ""
    place: str = ""
    inside: tuple[OriginRow, ...] = ()
    title: str = ""


class OriginLane:
    """The rows of an ``OriginSlice``: the operations of a recording that led to the results.

    Args:
      given: value number -> name of the argument.
      results: value number -> name of the result.
    """

    def __init__(
        self, origins: Origins, found: OriginSlice, given: Mapping[int, str], results: Mapping[int, str]
    ) -> None:
        self.origins = origins
        self.found = found
        self.given = given
        self.results = results
        self.naming = naming_of(origins.recording)
        self.cotangents = self.naming.cotangents
        self.variables = {var: number for number, var in origins.recording.kept.variables.items()}

    @cached_property
    def groups(self) -> list[list[StepUse]]:
        """The operations of the slice in order. Operations that belong to the same user operation are in one list."""
        return list(self._groups())

    def rows(self, most: int = MOST_ROWS) -> Iterator[OriginRow]:
        """Rows for arguments, constants of the program, the last ``most`` user operations in order, and results."""
        given = [n for n in self.given if n in self.found.inputs]
        for number in given:
            yield self._input("input", number, self.given[number])
        for number in self.found.inputs:
            if number not in self.given:
                yield self._input("const", number, self.value_name(number))
        wanted = set(map(self.origins.array_of, self.results))
        made: list[OriginRow] = []
        for group in reversed(self.groups[-most:]):
            made.append(self._group(group, wanted))
            wanted.update(n for use in group for n in _read(use))
        yield from reversed(made)
        for number, name in list(self.results.items())[:MOST_RESULTS]:
            array = self.origins.array_of(number)
            if array:  # a value inside a program has its row in that program, not here
                yield OriginRow("output", (array,), (), (), line(("muted", name)))

    def value_name(self, number: int) -> str:
        """The name of an array, which is the name of the outermost tracer around the array."""
        found = self.given.get(number) or self.cotangents.get(number) or own_name(self.naming.name(number))
        # an array without a name is shown as its value, for example the 1.0 at the start of a backward pass
        life = self.origins.lives.get(number)
        if found.startswith("#") and life is not None and life.tracer.fields:
            return life.tracer.fields[0][1]
        return found

    def _input(self, kind: str, number: int, name: str) -> OriginRow:
        type_text, value = self._shown(number)
        said = line(("var", name), ("muted", "  argument" if kind == "input" else "  no argument"))
        return OriginRow(kind, (), (number,), (name,), said, type_text, value)

    def _shown(self, number: int) -> tuple[str, Any]:
        """The type and the value of an array. The value is the array itself if the recording kept it, else a text."""
        life = self.origins.lives.get(number)
        if life is None:
            return "", ""
        value = next((text for key, text in life.tracer.fields if key == "value"), "")
        kept = self.origins.recording.kept.array(number)
        return life.tracer.type, kept if kept is not None else "" if value == life.tracer.type else value

    def _groups(self) -> Iterator[list[StepUse]]:
        group: list[StepUse] = []
        for use in self.found.uses:
            if group and group[-1].step.owner is not use.step.owner:
                yield group
                group = []
            group.append(use)
        if group:
            yield group

    def _group(self, group: Sequence[StepUse], wanted: set[int]) -> OriginRow:
        owner = group[0].step.owner
        made = [n for use in group for n in _made(use)]
        kept = tuple(dict.fromkeys(n for n in made if n in wanted))
        reads = tuple(dict.fromkeys(n for use in group for n in _read(use) if n not in made))
        shown = kept[0] if kept else made[0] if made else 0
        type_text, value = self._shown(shown)
        names = tuple(self.value_name(n) for n in kept)
        own = len(group) == 1 and group[0].step.bind.primitive == owner.primitive
        inside: tuple[OriginRow, ...]
        if own:
            inside = tuple(self._parts(group[0]))
        else:
            steps = [self._step(use, set(made) | wanted) for use in group]
            inside = tuple(each for each in steps if each.inside or each.said != self._said(owner))
        kind = "call" if any(each.title for each in inside) else "equation"
        return OriginRow(kind, reads, kept, names, self._said(owner), type_text, value, owner.place, inside)

    def _step(self, use: StepUse, wanted: set[int]) -> OriginRow:
        """A row for one operation of a rule."""
        bind = use.step.bind
        made = tuple(n for n in _made(use) if n in wanted)
        type_text, value = self._shown(made[0] if made else 0)
        names, inside = tuple(map(self.value_name, made)), tuple(self._parts(use))
        kind, read, said = "call" if inside else "equation", tuple(_read(use)), self._said(bind)
        return OriginRow(kind, read, made, names, said, type_text, value, bind.place, inside)

    def _said(self, bind: BindRecord) -> Line:
        assigned = own_name(self.naming.assigned(bind))
        if not assigned and len(bind.results) == 1:
            assigned = self.cotangents.get(bind.results[0], "")
        operands = [
            self.value_name(number) if number else text
            for number, text in zip((*bind.operands, *[0] * len(bind.args)), bind.args, strict=False)
        ]
        return _operation(assigned, called(bind), operands)

    # --- programs
    # ----------------------------------------------------------------------------------------------------

    def _parts(self, use: StepUse) -> Iterator[OriginRow]:
        run = use.step.run
        known = UNKNOWN if run is None else self.origins.known(run)
        names = [self.value_name(n) if n else "" for n in use.step.operands]
        letters = self._letters(run) if run is not None and run.operation is not None else None
        for part in use.parts:
            yield from self._program(part, names, known, letters or _lettered(part.jaxpr))

    def _letters(self, run: RunRecord) -> Printer:
        """A printer that names variables as the printed jaxpr of the whole call does."""
        return _lettered(ledger(self.origins.recording).equation(run)[0].jaxpr)

    def _program(
        self, part: SlicedProgram, operands: Sequence[str], known: WhatRan, letters: Printer
    ) -> Iterator[OriginRow]:
        """A row that contains a row for each needed equation of a program. No row if no equation is needed."""
        if not part.uses:
            return
        program = ProgramLane(self, part, operands, known, letters)
        rows = tuple(program.rows())
        frames = program.frames
        times = f" ×{len(frames)}, values of the last iteration" if len(frames) > 1 and part.carries else ""
        carried = [program.name(part.jaxpr.invars[i]) for i in sorted(part.carries) if i in part.inputs]
        said = f"{part.title}{times}" + (f" · carries {', '.join(carried)}" if carried else "")
        heading = line(("muted", said)) if said else ()
        yield OriginRow("call", (), (), (), heading, inside=rows, title=said or "its program")


def _lettered(jaxpr: Jaxpr) -> Printer:
    """A printer that has named the variables of ``jaxpr``."""
    printer = Printer(jaxpr)
    printer.document()
    return printer


class ProgramLane:
    """The rows of one program that an operation ran. ``letters`` names the variables that have no other name."""

    def __init__(
        self, lane: OriginLane, part: SlicedProgram, operands: Sequence[str], known: WhatRan, letters: Printer
    ) -> None:
        self.lane = lane
        self.part = part
        self.known = known
        self.frames = known.frames(part.jaxpr)
        self.given = {
            var: operands[at] for var, at in zip(part.jaxpr.invars, part.operands, strict=True) if at < len(operands)
        }
        self.printer = letters
        self.makers = {var: use.eqn for use in part.uses for var in use.eqn.outvars}

    def rows(self) -> Iterator[OriginRow]:
        """A row for each needed equation."""
        for use in self.part.uses:
            yield self._row(use)

    def name(self, var: Any) -> str:
        """The name of a variable: the user's name, the operand's name, its expression if that is short, or a letter."""
        if type(var) is Literal:
            return preview.value_text(var.val)
        return shortened(self._known(var) or self._computed(var) or self.printer.name(var), _LONGEST)

    def _known(self, var: Any) -> str:
        number = self.lane.variables.get(var, 0)
        found = own_name(self.lane.naming.known(number)) if number else ""
        return found or ("" if self.part.carries else self.given.get(var, ""))

    def _computed(self, var: Any) -> str:
        """The expression for a variable, such as ``mul(c, t)``; '' if it is too long."""
        eqn = self.makers.get(var)
        if eqn is None or len(eqn.outvars) != 1:
            return ""
        known = [preview.value_text(v.val) if isinstance(v, Literal) else self._known(v) for v in eqn.invars]
        said = f"{eqn.primitive.name}({', '.join(known)})"
        return said if all(known) and len(said) <= MOST_COMPUTED else ""

    def _row(self, use: EquationUse) -> OriginRow:
        eqn = use.eqn
        made = tuple(var for i, var in enumerate(eqn.outvars) if i in use.outs)
        names = [self.name(each) for each in eqn.invars]
        number = self.lane.variables.get(made[0], 0) if made else 0
        said = _operation(self.lane.naming.variable(number) if number else "", _called(eqn), names)
        known = self.known.inside(self.part.jaxpr, eqn)
        inside = tuple(row for part in use.parts for row in self.lane._program(part, names, known, self.printer))
        type_text = made[0].aval.str_short(short_dtypes=True) if made else ""
        reads = tuple(each for each in eqn.invars if isinstance(each, Var) and each in self.makers)
        kind = "call" if inside else "equation"
        value, place = self._value(made), _place(eqn)
        return OriginRow(kind, reads, made, tuple(map(self.name, made)), said, type_text, value, place, inside)

    def _value(self, made: Sequence[Var]) -> Any:
        """The value of the first result; in a loop, its value in the last iteration."""
        if not self.frames or not made:
            return ""
        value = self.frames[-1].value(made[0])
        return value if isinstance(value, Array) else ""


def _operation(assigned: str, called: str, operands: Iterable[str]) -> Line:
    """``a = mul(w, x)``"""
    begin = [("var", assigned), ("punctuation", " = ")] if assigned else []
    return (*begin, ("primitive", called), ("", f"({shortened(', '.join(operands), _LONGEST)})"))


def _made(use: StepUse) -> list[int]:
    return [use.step.bind.results[i] for i in sorted(use.outs)] if not use.step.chooses else []


def _read(use: StepUse) -> list[int]:
    return [n for i, n in enumerate(use.step.operands) if i in use.needed and n]


def _called(eqn: JaxprEqn) -> str:
    name = eqn.params.get("name")
    return f"{eqn.primitive.name}[{name}]" if isinstance(name, str) and name.isidentifier() else eqn.primitive.name


def _place(eqn: JaxprEqn) -> str:
    if not eqn.source:
        return ""
    code = eqn.source[0]
    return f"{code.co_filename}:{errors.position(eqn.source)[0]} ({code.co_qualname})"


# --- drawing
# ---------------------------------------------------------------------------------------------------------


def graph_of(rows: Sequence[OriginRow], title: str, keyed: bool = False) -> Graph:
    """Rows as a graph. Values keep their names; with ``keyed``, each gets a unique number instead."""
    names: dict[Any, str] = {}
    maker: dict[Any, int] = {}
    nodes: list[GraphNode] = []
    edges: list[tuple[int, int, Value]] = []
    inside: list[Graph] = []
    values: dict[Any, Value] = {}
    for row in rows:
        for key, name in zip(row.makes, row.names, strict=True):
            unique = f"#{len(names)}" if keyed else _unused(name, names.values())
            names[key] = unique
            values[key] = Value(unique, row.type)
            maker[key] = len(nodes)
        read = [key for key in row.reads if key in maker]
        edges += [(maker[key], len(nodes), values[key]) for key in read]
        graphs = [graph_of(each.inside, each.title) for each in row.inside if each.title]
        places = tuple(range(len(inside), len(inside) + len(graphs)))
        inside += graphs
        label = row.names[0] if row.kind == "input" else next((t for role, t in row.said if role == "primitive"), "")
        operands = tuple(values[key] for key in read)
        made = tuple(values[key] for key in row.makes)
        nodes.append(GraphNode(row.kind, label, operands, made, row.place, places))
    operations = sum(row.kind in ("equation", "call") for row in rows)
    return Graph(title, tuple(nodes), tuple(edges), tuple(inside), 0, operations)


def _unused(name: str, used: Iterable[str]) -> str:
    taken, count, out = set(used), 1, name
    while out in taken:
        count += 1
        out = f"{name} ({count})"
    return out


class DrawnRow(Frozen):
    """A line before its layout: its lanes, the mark in the lanes, its text, and its row. A heading has no row."""

    lanes: str
    mark: str
    said: Line
    row: OriginRow | None = None


def lines(rows: Sequence[OriginRow], width: int, depth: int) -> Iterator[Line]:
    """The rows as lines with lanes, in columns. Inner rows are indented; they are shown up to ``depth`` levels deep."""
    drawn = list(_drawn(rows, width, depth))
    room = max((len(each.lanes) for each in drawn), default=0) + 2
    # the text gets the room that the other columns leave, but at least a third of the page
    types = max((len(each.row.type) for each in drawn if each.row is not None), default=0)
    left = width - room - types - 2 - _PLACE - _MOST_VALUE
    words = min(max((length(each.said) for each in drawn), default=0), max(left, width // 3))
    for each in drawn:
        facts = () if each.row is None else _facts(each.row, types, width - room - words - 2)
        said = tuple(_cut(each.said, words))
        gap = ((("", " " * (words - length(said) + 2))),) if facts else ()
        yield (*_lanes(each), ("", " " * (room - len(each.lanes))), *said, *gap, *facts)


def _drawn(rows: Sequence[OriginRow], width: int, depth: int) -> Iterator[DrawnRow]:
    graph = graph_of(rows, "", keyed=True)
    lanes = Lanes(graph, most_lanes(width) // 2)
    for i, (row, node) in enumerate(zip(rows, graph.nodes, strict=True)):
        yield DrawnRow(lanes.row(node, i), NODES[node.kind], row.said, row)
        passing = "".join("│ " if name is not None else "  " for name in lanes.lanes).rstrip()
        if depth > 1:
            yield from _inside(row, passing, depth - 1, 1)


def _inside(row: OriginRow, passing: str, depth: int, indent: int) -> Iterator[DrawnRow]:
    for each in row.inside:
        space = ("", "  " * indent)
        if not each.title:
            yield DrawnRow(passing, "", (space, ("muted", "· "), *each.said), each)
        elif each.said:
            yield DrawnRow(passing, "", (space, *each.said))
        if each.title or depth > 1:
            deeper = indent + bool(each.said)
            yield from _inside(each, passing, depth if each.title else depth - 1, deeper)


def _lanes(drawn: DrawnRow) -> Line:
    lanes = drawn.lanes
    at = lanes.find(drawn.mark) if drawn.mark else -1
    if at < 0:
        return (("muted", lanes),)
    role = "primitive" if drawn.row is not None and drawn.row.kind in ("equation", "call") else "value"
    return (("muted", lanes[:at]), (role, drawn.mark), ("muted", lanes[at + 1 :]))


def _facts(row: OriginRow, types: int, room: int) -> Line:
    """The type, value and line number of a row's result in ``room`` columns, with the line number at the right."""
    place = short_place(row.place)
    left = room - types - 2 - _PLACE
    value: Line = ()
    if left >= _LEAST_VALUE:
        kept = isinstance(row.value, Array)
        value = brief(row.value, left, typed=False) if kept else (("value", shortened(row.value, left)),)
    gap = " " * (max(left - length(value), 0) + max(_PLACE - len(place), 1))
    end: Line = (("", gap), ("place", place)) if place else ()
    return (("type", row.type.ljust(types)), ("", "  "), *value, *end)


def _cut(segments: Line, room: int) -> Iterator[Segment]:
    left = room
    for role, piece in segments:
        if len(piece) > left:
            yield role, piece[: max(left - 1, 0)] + "…"
            return
        yield role, piece
        left -= len(piece)


def short_place(place: str) -> str:
    """``:12`` for ``/home/me/file.py:12 (f)``."""
    _, number, _ = place_parts(place)
    return f":{number}" if number else ""


def origin_document(
    lane: OriginLane, title: str, depth: int, unfollowed: Sequence[str] = (), most: int = MOST_ROWS
) -> Document:
    """Notes about missing parts, then the slice. ``unfollowed``: names of arguments that are Python numbers."""
    found = lane.found
    rows = list(lane.rows(most))
    arguments = len(lane.given)
    reached = sum(number in found.inputs for number in lane.given)
    counts = f"{found.operations} of {plural(found.total, 'operation')}"
    given = f" · {reached} of {plural(arguments, 'argument')}" if arguments else ""
    blocks: list[Block] = [Text((line(("heading", title), ("muted", f"  {counts}{given}")),))]
    if unfollowed:
        said = f"{', '.join(unfollowed)}: plain Python {'numbers' if len(unfollowed) > 1 else 'number'}, not followed"
        blocks.append(Row("apart", (line(("muted", said)),)))
    if found.unknown:
        blocks.append(Row("missing", (line(("warning", found.unknown)),)))
    if len(lane.groups) > most:
        said = f"the last {most:,} of {len(lane.groups):,} steps; --most shows more"
        blocks.append(Row("cut", (line(("warning", said)),)))
    drawn = Fitted(lambda width: (Text(tuple(lines(rows, width, depth)), wrap=False),))
    blocks.append(drawn)
    rest = len(lane.results) - MOST_RESULTS
    if rest > 0:
        blocks.append(Text((line(("muted", f"and {plural(rest, 'further result')}")),)))
    return Document(tuple(blocks))
