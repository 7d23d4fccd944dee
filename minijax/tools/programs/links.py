"""Links between a program's four forms: Python lines, jaxpr equations, StableHLO operations, HLO instructions.

``linked_programs(f, *args)`` returns the four programs as panes of lines, each line with the numbers of its equations.
Lines that share an equation are linked. Equations are numbered from 1 in the order in which the jaxpr prints them,
including those of inner jaxprs. The records contain only strings and numbers, so that files can store them.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from minijax.api.compile import JitFunction, jit
from minijax.backend import pjrt
from minijax.backend.failures import CompileError
from minijax.core.names import names_of
from minijax.core.records import Frozen
from minijax.ir import doc as pp
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, is_effectful
from minijax.ir.pretty import Printer
from minijax.lowering.places import ModulePlaces, Place, extent
from minijax.ops.call import compiled, lowered_places
from minijax.tools.programs import hlo, owners

# Longer programs are cut after this many lines, because a recording holds a copy of every pane.
MOST_LINES = 4000

NO_OPERATION = "no operation needed: the operand serves as it is"
WRITTEN_INSIDE = "written as the equations inside"
UNUSED = "not lowered: no result of the program needs it"
GONE = "gone after optimisation: folded, merged with an equal one, or not needed"
INLINED = "inlined: see the equations inside"
Numbers = tuple[int, ...]


class Equation(Frozen):
    """An equation of the jaxpr.

    ``number`` counts from 1. ``inside``: the numbers of the equations whose inner jaxpr directly contains this equation
    (two, if two equations call the same jaxpr). The place is a file, lines from 1 and columns from 0 (-1 if unknown).
    ``name`` is its name in XLA's metadata. ``stablehlo_note`` and ``hlo_note`` say why the program has no line for it.
    """

    number: int
    primitive: str
    inside: Numbers = ()
    file: str = ""
    line: int = 0
    column: int = -1
    end_line: int = 0
    end_column: int = -1
    function: str = ""
    name: str = ""
    stablehlo_note: str = ""
    hlo_note: str = ""

    @property
    def place(self) -> str:
        """``file.py:3``; '' if unknown."""
        return f"{self.file}:{self.line}" if self.line else ""


class Pane(Frozen):
    """A program line by line. ``numbers``: each line's number in the whole program. ``links``: each line's equations.

    ``notes`` describes lines without an equation ('parameter', 'constant', 'copy', ...), and says how the equations of
    a compiled line are known (``owners``; '' if XLA gives them). ``left_out`` is the number of lines that were cut.
    """

    title: str
    language: str
    lines: tuple[str, ...] = ()
    numbers: Numbers = ()
    links: tuple[Numbers, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0

    def with_equations(self, wanted: Iterable[int]) -> Numbers:
        """The indices of the lines that come from any of the equations ``wanted``."""
        among = frozenset(wanted)
        return tuple(i for i, numbers in enumerate(self.links) if not among.isdisjoint(numbers))

    def owner(self, i: int) -> tuple[Numbers, str]:
        """The equations of line ``i``, and how they are known."""
        return self.links[i], self.notes[i]

    def index(self, number: int) -> int:
        """The index of the line ``number`` in ``lines``; -1 if it is absent."""
        return self.numbers.index(number) if number in self.numbers else -1


class LinkedPrograms(Frozen):
    """The four programs. ``python`` has one pane for each source file."""

    equations: tuple[Equation, ...]
    python: tuple[Pane, ...]
    jaxpr: Pane
    stablehlo: Pane
    hlo: Pane

    @property
    def panes(self) -> tuple[Pane, ...]:
        """All panes that are not empty: the source files, then the jaxpr, StableHLO and the optimised HLO."""
        return tuple(pane for pane in (*self.python, self.jaxpr, self.stablehlo, self.hlo) if pane.lines)

    def shortened(self, most: int) -> LinkedPrograms:
        """The programs, each cut to its first ``most`` lines."""
        files = tuple(cut(pane, most) for pane in self.python)
        return LinkedPrograms(
            self.equations, files, cut(self.jaxpr, most), cut(self.stablehlo, most), cut(self.hlo, most)
        )

    def equation(self, number: int) -> Equation:
        """The equation ``number``."""
        return self.equations[number - 1]

    def __repr__(self) -> str:
        return f"<linked programs of {len(self.equations)} equations: {', '.join(pane.title for pane in self.panes)}>"

    @cached_property
    def owners(self) -> dict[str, tuple[Numbers, str]]:
        """name of an instruction of the optimised program -> its equations, and how they are known."""
        return {hlo.instruction_name(text): self.hlo.owner(i) for i, text in enumerate(self.hlo.lines)}

    @cached_property
    def _directly_inside(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for each in self.equations:
            for outer in each.inside:
                found.setdefault(outer, []).append(each.number)
        return found

    def with_inner(self, numbers: Iterable[int]) -> frozenset[int]:
        """The equations ``numbers``, and all equations inside them."""
        found = set(numbers)
        todo = list(found)
        while todo:
            more = [number for number in self._directly_inside.get(todo.pop(), ()) if number not in found]
            found.update(more)
            todo += more
        return frozenset(found)

    def linked(self, pane: Pane, index: int) -> tuple[Numbers, ...]:
        """For each of ``panes``, the indices of the lines linked to line ``index`` of ``pane``.

        The line of an equation with inner jaxprs is linked to every line of the inner equations. The line of an inner
        equation is not linked back to the outer one.
        """
        wanted = self.with_inner(pane.links[index]) if 0 <= index < len(pane.links) else frozenset()
        return tuple(each.with_equations(wanted) for each in self.panes)

    def at_line(self, number: int, file: str | None = None) -> Numbers:
        """The numbers of the equations from source line ``number`` of ``file``, or of any file if ``file`` is None."""
        found = [
            e.number
            for e in self.equations
            if e.line and e.line <= number <= max(e.end_line, e.line) and file in (None, e.file)
        ]
        return tuple(found)


def linked_programs(fun: Any, *args: Any, optimized: bool = True, width: int = 100, **kwargs: Any) -> LinkedPrograms:
    """The linked programs of a function at arguments (arrays or types), or of a ``ClosedJaxpr``.

    ``optimized=False`` leaves out the optimised program, so nothing is compiled. The jaxpr is laid out in ``width``
    columns. Raises the errors of tracing, lowering and compiling.
    """
    if isinstance(fun, ClosedJaxpr):
        places = lowered_places(fun, "main")
        return link(fun, places, compiled(fun, "main").executable.hlo_text() if optimized else "", width)
    jitted = fun if isinstance(fun, JitFunction) else jit(fun)
    return of_lowered(jitted.lower(*args, **kwargs), optimized, width)


def of_lowered(lowered: Any, optimized: bool = True, width: int = 100, most: int | None = None) -> LinkedPrograms:
    """The linked programs of ``lowered``, the result of ``jit(f).lower(...)``."""
    text = lowered.compile().raw_text() if optimized else ""
    return link(lowered.jaxpr, lowered.places(), text, width, most)


def of_executable(executable: Any, width: int = 100) -> LinkedPrograms | None:
    """The linked programs of ``executable``, which observers receive. None if its jaxpr no longer exists."""
    origin = executable.origin() if executable.origin is not None else None
    if origin is None:
        return None
    closed, places = origin
    return link(closed, places, executable.hlo_text(), width)


def link(
    closed: ClosedJaxpr, places: ModulePlaces, optimized: str, width: int = 100, most: int | None = None
) -> LinkedPrograms:
    """The linked programs of a jaxpr, its StableHLO module, and its optimised HLO ('' if it was not compiled).

    Each program is cut after ``most`` lines (default ``MOST_LINES``).
    """
    most = MOST_LINES if most is None else most
    printer = _NumberingPrinter(closed.jaxpr)
    jaxpr = _jaxpr_pane(printer, width)
    numbers = _Numbers(printer, places)
    stablehlo = _stablehlo_pane(places, numbers)
    program = _hlo_pane(places, numbers, optimized, _given(places) if optimized else "")
    equations = tuple(_equations(printer, places, numbers, stablehlo, program, bool(optimized)))
    return LinkedPrograms(
        equations,
        tuple(_python_panes(printer.eqns, equations)),
        cut(jaxpr, most),
        cut(stablehlo, most),
        cut(program, most),
    )


def numbered(closed: ClosedJaxpr) -> list[JaxprEqn]:
    """The equations in the order of their numbers, so equation 1 comes first."""
    printer = _NumberingPrinter(closed.jaxpr)
    printer.document()
    return printer.eqns


def hlo_linker(closed: ClosedJaxpr, places: ModulePlaces) -> Callable[[str], Pane]:
    """A function that makes a linked pane of the program's HLO at some point of its optimisation."""
    printer = _NumberingPrinter(closed.jaxpr)
    printer.document()
    numbers, given = _Numbers(printer, places), _given(places)
    return lambda text: _hlo_pane(places, numbers, text, given)


# ------------------------------------------------------------------------------------------------------ the jaxpr


def _mark(role: str) -> pp.Doc:
    """An empty segment that counts as a comment. It forces line breaks, so each equation starts a new line."""
    mark = pp.text("", role)
    mark.noted = True
    return mark


class _NumberingPrinter(Printer):
    """Prints a jaxpr with marks at the beginning and the end of each equation."""

    def __init__(self, root: Jaxpr) -> None:
        super().__init__(root)
        self.eqns: list[JaxprEqn] = []
        # for each equation, the equations around it; around a shared jaxpr, which is printed once, are its callers
        self.inside: list[list[int]] = []
        self.of_shared: dict[Jaxpr, list[int]] = {}
        self._open: list[list[int]] = []

    def _lambda(self, jaxpr: Jaxpr) -> pp.Doc:
        if jaxpr in self.shared:  # printed at the top; its callers follow later
            self._open.append(self.of_shared.setdefault(jaxpr, []))
            shown = super()._lambda(jaxpr)
            self._open.pop()
            return shown
        return super()._lambda(jaxpr)

    def jaxpr(self, jaxpr: Jaxpr) -> pp.Doc:
        if jaxpr in self.shared and self._open:
            # a shared jaxpr may be printed before the one that calls it
            self.of_shared.setdefault(jaxpr, []).extend(self._open[-1])
        return super().jaxpr(jaxpr)

    def equation(self, eqn: JaxprEqn) -> pp.Doc:
        self.eqns.append(eqn)
        number = len(self.eqns)
        self.inside.append(self._open[-1] if self._open else [])
        self._open.append([number])
        shown = super().equation(eqn)
        self._open.pop()
        return pp.concat((_mark(f"begin {number}"), shown, _mark(f"end {number}")))


def _jaxpr_pane(printer: _NumberingPrinter, width: int) -> Pane:
    lines: list[str] = [""]
    links: list[list[int]] = [[]]
    begun = False  # whether an equation begins on this line; if not, the line continues the equation before
    open_: list[int] = []
    for role, piece in pp.segments(printer.document(), width):
        if role.startswith("begin "):
            number = int(role[6:])
            open_.append(number)
            if not begun:
                links[-1].clear()
            links[-1].append(number)
            begun = True
        elif role.startswith("end "):
            open_.pop()
        elif piece.startswith("\n") and piece.isspace():
            lines.append(piece[1:])
            links.append([])
            begun = False
        else:
            if not lines[-1].strip() and open_:
                links[-1].append(open_[-1])
            lines[-1] += piece.replace("\n", "\\n")  # user-chosen names may contain anything
    return _pane("jaxpr", "jaxpr", lines, links)


# ---------------------------------------------------------------------------------------------- StableHLO and HLO


class _Numbers:
    """For a place in the lowered module, finds the innermost printed equation: one number each time it is printed."""

    def __init__(self, printer: _NumberingPrinter, places: ModulePlaces) -> None:
        self.of_eqn: dict[int, list[int]] = {}
        # lowering may replace an equation by one with fewer results, which is found by a result or by its source
        self.of_part: dict[Any, list[int]] = {}
        for number, eqn in enumerate(printer.eqns, 1):
            own = self.of_eqn.setdefault(id(eqn), [])
            own.append(number)
            self.of_part.update(dict.fromkeys(eqn.outvars, own))
            self.of_part.setdefault((eqn.primitive, eqn.source), own)
        # for each result of the program, the equation that computes it
        made = {v: self.of_eqn[id(eqn)][0] for eqn in printer.root.eqns for v in eqn.outvars}
        self.outputs = [{made[v]} if v in made else set() for v in printer.root.outvars]

    def of(self, place: Place | None) -> Numbers:
        while place is not None:
            found = self.printed(place.eqn)
            if found:
                return tuple(found)
            place = place.outer
        return ()

    def printed(self, eqn: JaxprEqn) -> Sequence[int]:
        """The numbers of ``eqn``, or of the printed equation that lowering cut down to ``eqn``; () if there is none."""
        found = self.of_eqn.get(id(eqn))
        if found is not None:
            return found
        parts = [self.of_part[v] for v in eqn.outvars if v in self.of_part]
        if not parts and is_effectful(eqn):
            return self.of_part.get((eqn.primitive, eqn.source), ())
        return parts[0] if parts else ()


# ``%3 = func.call @g(`` and ``func.func private @g(``
_CALL = r"\bcall @([\w.$-]+)\("
_FUNCTION = r"^\s*func\.func (?:private |public )?@([\w.$-]+)\("


def _stablehlo_pane(places: ModulePlaces, numbers: _Numbers) -> Pane:
    lines = places.text.rstrip("\n").split("\n")
    links = [list(numbers.of(place)) for place in places.lines[: len(lines)]]
    callers: dict[str, list[int]] = {}
    for line, found in zip(lines, links, strict=True):
        for symbol in re.findall(_CALL, line):
            callers.setdefault(symbol, []).extend(found)
    # a function's first and last line belong to all its callers, not only to the first
    current: str | None = None
    for i, line in enumerate(lines):
        head = re.match(_FUNCTION, line)
        if head is not None:
            current = head[1]
        if current in callers and (head is not None or line.startswith(("    return", "  }"))):
            links[i] = callers[current]
    notes = ["" if found else _stablehlo_note(line) for line, found in zip(lines, links, strict=True)]
    return _pane("StableHLO", "stablehlo", lines, links, notes)


def _stablehlo_note(line: str) -> str:
    if "stablehlo.constant" in line:
        return "constant"
    words = line.split()
    return {"module": "module", "func.func": "function", "return": "return"}.get(words[0] if words else "", "")


def _hlo_pane(places: ModulePlaces, numbers: _Numbers, optimized: str, given: str) -> Pane:
    if not optimized:
        return Pane("optimised HLO", "hlo")
    lines = optimized.strip("\n").split("\n")
    found = owners.owners(lines, lambda at: numbers.of(places.line(at)), numbers.outputs, given)
    skipped = hlo.table_lines(lines)
    kept = [i for i in range(len(lines)) if i not in skipped]
    nobody = owners.Owner((), "")
    links, notes = zip(*(found.get(i, nobody)._row for i in kept), strict=True)
    return _pane("optimised HLO", "hlo", [hlo.folded_line(lines[i]) for i in kept], links, notes, [i + 1 for i in kept])


def _given(places: ModulePlaces) -> str:
    """The program that XLA receives, in HLO; '' if XLA cannot read the module's text."""
    try:
        return pjrt.unoptimized_text(places.text)
    except CompileError:
        return ""


# ------------------------------------------------------------------------------------------------------ equations


def _equations(
    printer: _NumberingPrinter,
    places: ModulePlaces,
    numbers: _Numbers,
    stablehlo: Pane,
    program: Pane,
    optimized: bool,
) -> Iterator[Equation]:
    in_stablehlo = {number for found in stablehlo.links for number in found}
    in_hlo = {number for found in program.links for number in found}
    lowered: dict[int, Place] = {}
    for place_found in places.found:
        for number in numbers.printed(place_found.eqn):
            lowered.setdefault(number, place_found)
    outer = {number for found in printer.inside for number in found}
    files = {eqn.source[0].co_filename for eqn in printer.eqns if eqn.source is not None}
    for number, (eqn, inside) in enumerate(zip(printer.eqns, printer.inside, strict=True), 1):
        at = lowered.get(number)
        source = eqn.source if at is None else at.source
        if source is not None and source[0].co_filename not in files:
            source = eqn.source  # the lowering came from a cache, so its place is in another function
        place: dict[str, Any] = {}
        if source is not None:
            line, column, end_line, end_column = extent(source)
            code = source[0]
            place = {
                "file": code.co_filename,
                "line": line,
                "column": column,
                "end_line": end_line,
                "end_column": end_column,
                "function": code.co_qualname,
            }
        written = number in in_stablehlo
        notes: dict[str, Any] = {}
        if not written:
            notes["stablehlo_note"] = UNUSED if at is None else WRITTEN_INSIDE if number in outer else NO_OPERATION
        if optimized and number not in in_hlo:
            notes["hlo_note"] = notes.get("stablehlo_note") or (INLINED if number in outer else GONE)
        name = "/".join(filter(None, (names_of(eqn.source), eqn.primitive.name))) if at is None else at.name
        yield Equation(number, eqn.primitive.name, tuple(dict.fromkeys(inside)), name=name, **place, **notes)


def _python_panes(eqns: Sequence[JaxprEqn], equations: Sequence[Equation]) -> Iterator[Pane]:
    """For each file, the lines of the functions that equations come from."""
    wanted: dict[str, set[int]] = {}
    for eqn in eqns:
        if eqn.source is not None:
            code = eqn.source[0]
            lines = [line for _, _, line in code.co_lines() if line]
            wanted.setdefault(code.co_filename, set()).update(
                range(max(code.co_firstlineno, 1), max([code.co_firstlineno, *lines]) + 1)
            )
    by_line: dict[tuple[str, int], list[int]] = {}
    for each in equations:
        for line in range(each.line, max(each.line, each.end_line) + 1) if each.line else ():
            by_line.setdefault((each.file, line), []).append(each.number)
            wanted[each.file].add(line)
    for file, numbers in wanted.items():
        source = linecache.getlines(file)
        chosen = sorted(number for number in numbers if number <= len(source))
        shown = [source[number - 1].rstrip("\n") for number in chosen]
        links = [by_line.get((file, number), []) for number in chosen]
        yield cut(_pane(file, "python", shown, links, numbers=chosen), MOST_LINES)


def _pane(
    title: str,
    language: str,
    lines: Sequence[str],
    links: Sequence[Sequence[int]],
    notes: Sequence[str] = (),
    numbers: Sequence[int] = (),
) -> Pane:
    numbers = numbers or range(1, len(lines) + 1)
    unique = tuple(tuple(dict.fromkeys(each)) for each in links)
    return Pane(title, language, tuple(lines), tuple(numbers), unique, tuple(notes) or ("",) * len(lines))


def cut(pane: Pane, most: int) -> Pane:
    """``pane`` cut to its first ``most`` lines."""
    left_out = len(pane.lines) - most
    if left_out <= 0:
        return pane
    first = slice(most)
    parts = (pane.lines[first], pane.numbers[first], pane.links[first], pane.notes[first])
    return Pane(pane.title, pane.language, *parts, pane.left_out + left_out)
