"""Finds the equation that each line of a StableHLO module comes from, and writes the module with MLIR locations.

Programs are compiled from text without locations: writing locations made lowering a fifth slower (7.0 us instead of
5.7 us an equation). XLA notes, for each instruction, the line of our text that it comes from. A tool that needs the
equations lowers the jaxpr a second time with a ``Places``. This gives the same text and the equation of each line, so
that the tool can read XLA's notes about the executable that ran.

``ModulePlaces.located_text`` is the module with locations named as in JAX:
``loc("jit(f)/sin"("f"("file.py":5:8 to :18)))``. ``ModulePlaces.hlo_text`` is XLA's program, annotated with such names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from minijax.core.lists import safe_zip
from minijax.core.names import names_of
from minijax.errors import SourceInfo
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn

# Separates a line from the index of its place while the module is written. It occurs in no MLIR text.
_MARK = "\0"
# In name stacks, JAX's lowering has other names for some primitives, and names for the programs inside them.
_NAMES = {"scan": "while", "remat2": "checkpoint"}
_INNER = {("while", "cond_jaxpr"): "cond", ("while", "body_jaxpr"): "body", ("scan", "jaxpr"): "body"}

# JAX inlines these calls before lowering, so name stacks do not contain their names.
_INLINED = ("custom_jvp_call", "custom_vjp_call")

# XLA's note on an instruction that comes from text without locations. The file's name is always "-".
_TEXT_LINE = (
    r'source_file="-" source_line=(\d+)'
    r"(?: source_end_line=\d+)?(?: source_column=\d+)?(?: source_end_column=\d+)?"
)
# In a partitioned program XLA keeps only names: ``L4/dot`` for line 4 (see ``with_line_names``), ``L14/call/L4/dot``
# inside a called function, ``(L4/dot:L8/add)`` for merged operations.
_LINE_NAME = r'op_name="(?:[^"]*[/(:])?L(\d+)/[^"]*"'
# the operation on a line of a module, without its dialect
_OPERATION = re.compile(r'^\s*(?:%\S+ = )?"?\w+\.(\w+)')
_MADE_OF = f"{_TEXT_LINE}|{_LINE_NAME}"


class Place:
    """An equation that was lowered, with the equation around it (``outer``) and its name stacks."""

    __slots__ = ("eqn", "outer", "scope", "local_scope", "counter")

    def __init__(self, eqn: JaxprEqn, outer: Place | None, scope: str, local_scope: str, counter: Any) -> None:
        self.eqn = eqn
        self.outer = outer
        # the name stack around the equation in the program, and in the MLIR function that it is written in
        self.scope = scope
        self.local_scope = local_scope
        # the counter of SSA names of that MLIR function: it identifies the function
        self.counter = counter

    @property
    def source(self) -> SourceInfo | None:
        """The user's line. An equation without a line (in a scatter's update) gets the line of the outer equation."""
        place: Place | None = self
        while place is not None and place.eqn.source is None:
            place = place.outer
        return None if place is None else place.eqn.source

    @property
    def name(self) -> str:
        """``jit(f)/while/body/sin``: the name stack, down to the equation itself."""
        return _path(self.scope, names_of(self.eqn.source), _eqn_name(self.eqn))

    @property
    def local_name(self) -> str:
        """The name stack inside the MLIR function. XLA adds the names of the calls of that function."""
        return _path(self.local_scope, names_of(self.eqn.source), _eqn_name(self.eqn))


def _path(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _eqn_name(eqn: JaxprEqn) -> str:
    name = eqn.primitive.name
    if name == "jit":
        return f"{name}({eqn.params['name']})"
    return _NAMES.get(name, name)


def _inner_name(eqn: JaxprEqn, jaxpr: Jaxpr) -> str:
    """The role of the program ``jaxpr`` in ``eqn``, such as ``branch_1_fun`` or ``body``; '' if it has none."""
    for key, value in eqn.params.items():
        for i, each in enumerate(value if isinstance(value, tuple) else (value,)):
            if (each.jaxpr if isinstance(each, ClosedJaxpr) else each) is jaxpr:
                return f"branch_{i}_fun" if key == "branches" else _INNER.get((eqn.primitive.name, key), "")
    return ""


class Places:
    """Observes one lowering and records the equation of every line."""

    def __init__(self, name: str) -> None:
        self.name = f"jit({name})"
        # one ``Place`` each time an equation is lowered
        self.found: list[Place] = []
        self._open: list[Place] = []

    def each(self, ctx: Any, jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
        """The equations of ``jaxpr``, in order. Text written before the next one is requested belongs to this one."""
        outer = self._open[-1] if self._open else None
        scope = local = self.name
        if outer is not None:
            own = "" if outer.eqn.primitive.name in _INLINED else _eqn_name(outer.eqn)
            inner = _path(names_of(outer.eqn.source), own, _inner_name(outer.eqn, jaxpr))
            scope = _path(outer.scope, inner)
            local = _path(outer.local_scope, inner) if ctx.counter is outer.counter else ""
        functions = ctx.module.functions
        for eqn in jaxpr.eqns:
            place = Place(eqn, outer, scope, local, ctx.counter)
            index = len(self.found)
            self.found.append(place)
            self._open.append(place)
            lines_before, functions_before = len(ctx.lines), len(functions)
            yield eqn
            self._open.pop()
            _ascribe(ctx.lines, lines_before, index)
            _ascribe(functions, functions_before, index)


def _ascribe(texts: list[str], start: int, index: int) -> None:
    """Mark the lines in ``texts[start:]`` that are not marked yet."""
    for i in range(start, len(texts)):
        lines = texts[i].split("\n")
        texts[i] = "\n".join(line if _MARK in line else f"{line}{_MARK}{index}" for line in lines)


class ModulePlaces:
    """A module's text, the place of each line (None for a line of no equation), and ``found``: all places, in order."""

    __slots__ = ("text", "lines", "found")

    def __init__(self, marked: str, places: Places) -> None:
        split = [line.partition(_MARK) for line in marked.split("\n")]
        self.text = "\n".join(line for line, _, _ in split)
        self.found = tuple(places.found)
        self.lines = tuple(places.found[int(index)] if index else None for _, _, index in split)

    def line(self, number: int) -> Place | None:
        """The place of a line of the text, counted from 1; None beyond the text."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else None

    def located_text(self) -> str:
        """The module with a location after every operation."""
        table = _Locations()
        lines = [
            f"{text} loc({table.of(place)})" if ends else text
            for (text, ends), place in safe_zip(_with_ends(self.text), self.lines)
        ]
        return "\n".join([*lines[:-1], *table.definitions, ""])

    def hlo_text(self, hlo: str) -> str:
        """XLA's program, compiled from this text. Its notes are replaced by name stacks and the user's lines."""

        def named(match: re.Match[str]) -> str:
            place = self.line(int(match[1] or match[2]))
            return "" if place is None else _metadata(place)

        return re.sub(r",? ?metadata=\{\}", "", re.sub(_MADE_OF, named, hlo))


def text_lines(metadata: str) -> list[int]:
    """The lines of StableHLO text, counted from 1, in an instruction's metadata; several if XLA merged operations."""
    found = re.search(_MADE_OF, metadata)
    if found is None:
        return []
    if found[1]:
        return [int(found[1])]
    # inside a called function, the innermost line is the operation's
    return [int(line) for each in found[0].split(":") for line in re.findall(r'(?:^|[/("])L(\d+)/', each)[-1:]]


def _with_ends(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line of a module, and whether an operation ends there: MLIR allows a location only there.
    An operation goes on if its regions follow. JAX's rules print a loop's regions after ``stablehlo.while(...)``."""
    lines = text.split("\n")
    for line, following in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        goes_on = line.endswith(("{", ":")) or following.lstrip().startswith(("cond {", "reducer("))
        yield line, bool(line) and not goes_on


def with_line_names(text: str) -> str:
    """The module with a location at each operation, named after its line: XLA's partitioner keeps only these names."""
    named = []
    for number, (line, ends) in enumerate(_with_ends(text), 1):
        if ends:
            found = _OPERATION.match(line)
            line = f'{line} loc("L{number}/{found[1] if found else "end"}")'
        named.append(line)
    return "\n".join(named)


def extent(info: SourceInfo) -> tuple[int, int, int, int]:
    """An equation's source: start line, start column, end line, end column. Columns count from 0; -1 means unknown."""
    code, offset = info[:2]
    nothing = (None, None, None, None)
    found = next(itertools.islice(code.co_positions(), offset // 2, None), nothing)
    line, end_line, column, end_column = found
    if line is None:
        line = code.co_firstlineno
    if column is None or end_column is None:
        column = end_column = -1
    return line, column, line if end_line is None else end_line, end_column


# The format of an escaped byte in an HLO string.
_OCTAL = "\\{:03o}"


def _metadata(place: Place) -> str:
    notes = [f'op_name="{escaped(place.name, _OCTAL)}"']
    source = place.source
    if source is not None:
        line, column, end_line, end_column = extent(source)
        file = escaped(source[0].co_filename, _OCTAL)
        notes.append(f'source_file="{file}" source_line={line} source_end_line={end_line}')
        if column >= 0:
            notes.append(f"source_column={column} source_end_column={end_column}")
    return " ".join(notes)


def escaped(text: str, byte: str = "\\{:02X}") -> str:
    """``text`` escaped for a string of MLIR; ``byte`` is the format of an escaped byte (MLIR writes ``\\0A``)."""

    def one(c: str) -> str:
        if c in '"\\':
            return f"\\{c}"
        return c if c.isprintable() else "".join(map(byte.format, c.encode("utf-8", "replace")))

    return "".join(map(one, text))


class _Locations:
    """The aliases of a module's locations, one for each distinct place."""

    def __init__(self) -> None:
        self.definitions: list[str] = ["#loc = loc(unknown)"]
        self.known: dict[str, str] = {}
        self.of_source: dict[tuple[SourceInfo | None, str], str] = {}

    def of(self, place: Place | None) -> str:
        """The alias of the location of ``place``, such as ``#loc7``."""
        if place is None:
            return "#loc"
        source = place.source
        key = (source, place.local_name)
        alias = self.of_source.get(key)
        if alias is None:
            inner = ""
            if source is not None:
                line, column, end_line, end_column = extent(source)
                at = f'"{escaped(source[0].co_filename)}":{line}:{max(column, 0)}'
                if column >= 0:
                    at += f" to {end_line if end_line != line else ''}:{end_column}"
                function = self.alias(f'"{escaped(source[0].co_qualname)}"({self.alias(at)})')
                inner = f"({function})"
            alias = self.of_source[key] = self.alias(f'"{escaped(place.local_name)}"{inner}')
        return alias

    def alias(self, location: str) -> str:
        alias = self.known.get(location)
        if alias is None:
            alias = self.known[location] = f"#loc{len(self.definitions)}"
            self.definitions.append(f"{alias} = loc({location})")
        return alias
