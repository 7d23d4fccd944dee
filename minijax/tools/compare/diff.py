"""Two jaxprs side by side, with their lines aligned and the differences marked.

Lines are paired by primitive and source line, so a transformed equation stands beside the original. The lines of a pair
are alike if renaming the variables of one side makes them equal. In the jaxpr of a gradient the two passes have
different colours (``passes``).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minijax import errors
from minijax.core.records import Frozen
from minijax.ir import doc as pp
from minijax.ir.doc import Doc
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from minijax.ir.pretty import Printer
from minijax.tools.compare.passes import Passes
from minijax.tools.documents.document import OWN, Columns, Line, Pair, Segment, split_lines

# Compare at most this many equations per jaxpr: alignment takes more than linear time.
MOST_EQUATIONS = 300


class _Row(Frozen):
    """A line of a printed jaxpr. ``key`` pairs it with a line of the other jaxpr. ``eqn``: the equation that begins
    in the line, or None.
    """

    segments: Line
    key: tuple[Any, ...]
    eqn: JaxprEqn | None


class _Numbered(Printer):
    """Adds the equation's number to the end of its first line, so that the equation of a line can be found.

    A transformation makes jaxprs longer. They stay where they are, so that their lines are paired."""

    long = math.inf

    def __init__(self, root: Jaxpr, most: int, names: Mapping[Var, str] | None = None) -> None:
        super().__init__(root, max_eqns=most, names=names)
        self.equations: list[JaxprEqn] = []

    def equation(self, eqn: JaxprEqn) -> Doc:
        """The equation with its number."""
        note = pp.note(str(len(self.equations)))
        self.equations.append(eqn)
        return pp.concat((note, super().equation(eqn)))


class Printed:
    """A printed jaxpr that knows the equation of each line. ``names`` are names for its variables."""

    def __init__(self, closed: ClosedJaxpr, most: int = MOST_EQUATIONS, names: Mapping[Var, str] | None = None) -> None:
        self._printer = _Numbered(closed.jaxpr, most, names)
        self._document = self._printer.document()
        self.names: Mapping[Any, str] = self._printer.names

    def rows(self, width: int) -> list[_Row]:
        """The jaxpr's lines for a page of ``width`` columns."""
        return [self._row(each) for each in split_lines(pp.segments(self._document, width))]

    def _row(self, segments: Line) -> _Row:
        eqn = None
        if segments and segments[-1][0] == "comment" and segments[-1][1].startswith("# "):
            eqn = self._printer.equations[int(segments[-1][1][2:].partition(";")[0])]
            segments = segments[:-2]  # without the number and the space before it
        return _Row(segments, _key(segments, eqn), eqn)


def _key(segments: Line, eqn: JaxprEqn | None) -> tuple[Any, ...]:
    if eqn is not None:
        return (eqn.primitive.name, *_place(eqn))
    words = [piece.strip() for role, piece in segments if role == "keyword"]
    if words:
        return (words[0],)
    return ("",) + tuple(piece for role, piece in segments if role in ("param-name", "punctuation"))


def _place(eqn: JaxprEqn) -> tuple[Any, ...]:
    """The code object and the source line of an equation."""
    return () if eqn.source is None else (eqn.source[0], errors.position(eqn.source)[0])


class Renaming:
    """Compares lines, regardless of the names of variables. Earlier pairs of lines tell which variables correspond."""

    def __init__(self) -> None:
        # left name -> right name; no two left names have the same right name
        self.right_of: dict[str, str] = {}
        # for each side, its variables that have no partner on the other side
        self.alone: tuple[set[str], set[str]] = (set(), set())

    def only(self, side: int, segments: Line) -> None:
        """Mark the variables of an unpaired line of the left (0) or right (1) side as having no partner."""
        self.alone[side].update(piece for role, piece in segments if role == "var")

    def alike(self, left: Line, right: Line, learn: bool = True) -> bool:
        """Whether the lines are equal after renaming. With ``learn``, remember which new variables correspond."""
        ours, theirs = ([each for each in line if each[1].strip()] for line in (left, right))
        same = len(ours) == len(theirs)
        fresh: dict[str, str] = {}
        taken = set(self.right_of.values())
        for (role, a), (other, b) in zip(ours, theirs, strict=False):
            if role == other == "var" and "_" not in (a, b):  # _ is an unused result
                known = a in self.right_of or a in fresh
                if not known and b not in taken and a not in self.alone[0] and b not in self.alone[1]:
                    fresh[a] = b
                    taken.add(b)
                same &= self.right_of.get(a, fresh.get(a)) == b
            elif role == other == "var":
                same &= a == b
            elif (role, a.strip()) != (other, b.strip()):
                same = False
        if learn:
            self.right_of |= fresh
        return same

    def among(self, left: Line, theirs: set[str]) -> Line:
        """A left line with the right side's names. If a left name means something else on the right, it is marked."""

        def renamed(name: str) -> str:
            return self.right_of.get(name) or (name + OWN if name in theirs and name != "_" else name)

        return tuple((role, renamed(piece)) if role == "var" else (role, piece) for role, piece in left)


def pairs(
    left: Sequence[_Row],
    right: Sequence[_Row],
    derived: bool = True,
    passes: Passes | None = None,
    names: Renaming | None = None,
) -> Iterator[tuple[str, _Row | None, _Row | None]]:
    """The rows of both sides in order, each with its mark (see ``document.Pair``).

    ``derived``: whether the right program was made from the left one. Then equations have the same order and source
    lines. Without it, rows are paired by their primitives alone, in the longest common runs. Equations in the backward
    pass of ``passes`` stay unpaired, because the left program is like the forward pass. Pairing updates ``names``.
    """
    names = names or Renaming()
    places: dict[Any, list[int]] = {}
    backward = _backward(right, passes)
    for j, row in enumerate(right):
        if j in backward:
            continue
        places.setdefault(row.key, []).append(j)
    matches = {} if derived else _common(left, right)
    next_right = 0
    for i, row in enumerate(left):
        at = _first(row, right, places.get(row.key, ()), next_right, names) if derived else matches.get(i)
        if at is None:
            names.only(0, row.segments)
            yield "-", row, None
            continue
        for new in right[next_right:at]:
            names.only(1, new.segments)
            yield "+", None, new
        yield (" " if names.alike(row.segments, right[at].segments) else "~"), row, right[at]
        next_right = at + 1
    for new in right[next_right:]:
        yield "+", None, new


def _backward(rows: Sequence[_Row], passes: Passes | None) -> set[int]:
    """The indices of the rows that are in the backward pass."""
    painted = _Painter(passes, set())
    found = set()
    for i, row in enumerate(rows):
        painted(row)
        if painted.role == "backward":
            found.add(i)
    return found


def _common(left: Sequence[_Row], right: Sequence[_Row]) -> dict[int, int]:
    """left index -> right index, for the rows in the longest common runs of primitives."""
    matcher = difflib.SequenceMatcher(None, [row.key[:1] for row in left], [row.key[:1] for row in right], False)
    return {a + k: b + k for a, b, size in matcher.get_matching_blocks() for k in range(size)}


def _first(row: _Row, right: Sequence[_Row], places: Sequence[int], begin: int, names: Renaming) -> int | None:
    """The first of ``places`` from ``begin`` on whose row equals ``row``. Otherwise the first of them, or None."""
    open_places = [j for j in places if j >= begin]
    for j in open_places:
        if names.alike(row.segments, right[j].segments, learn=False):
            return j
    return open_places[0] if open_places else None


def side_by_side(
    before: ClosedJaxpr,
    after: ClosedJaxpr,
    titles: tuple[Line, Line],
    passes: Passes | None = None,
    most: int = MOST_EQUATIONS,
    derived: bool = True,
    names: tuple[Mapping[Var, str], Mapping[Var, str]] = ({}, {}),
) -> Columns:
    """Both jaxprs as a block. ``passes`` colours the second one. See ``pairs`` for ``derived``."""
    left, right = Printed(before, most, names[0]), Printed(after, most, names[1])
    residuals = set() if passes is None else {right.names.get(var, "") for var in passes.residuals}

    def rows(width: int) -> Sequence[Pair]:
        painted = _Painter(passes, residuals)
        out: list[Pair] = []
        renamed = Renaming()
        rows_right = right.rows(width)
        theirs = {piece for row in rows_right for role, piece in row.segments if role == "var"}
        for mark, a, b in list(pairs(left.rows(width), rows_right, derived, passes, renamed)):
            shown = () if b is None else painted(b)
            out += [Pair(" ", (), heading) for heading in painted.begun()]
            ours = () if a is None else a.segments
            out.append(Pair(mark, ours, shown, renamed.among(ours, theirs)))
        return out

    return Columns(titles, rows)


def texts_side_by_side(
    ours: Sequence[str],
    theirs: Sequence[str],
    titles: tuple[Line, Line],
    keys: tuple[Sequence[str], Sequence[str]] | None = None,
) -> Columns:
    """Two texts as a block, with lines paired in their longest common runs. ``keys``: the lines to compare instead."""
    left, right = (ours, theirs) if keys is None else keys
    out: list[Pair] = []
    for tag, i, to_i, j, to_j in difflib.SequenceMatcher(None, left, right, False).get_opcodes():
        if tag == "equal":
            out += [Pair(" ", (("", a),), (("", b),)) for a, b in zip(ours[i:to_i], theirs[j:to_j], strict=True)]
        else:
            out += [Pair("-", (("", a),)) for a in ours[i:to_i]]
            out += [Pair("+", (), (("", b),)) for b in theirs[j:to_j]]
    return Columns(titles, lambda width: out)


class _Painter:
    """Colours the rows of a gradient's jaxpr by pass. It must be called on the rows in order."""

    def __init__(self, passes: Passes | None, residuals: set[str]) -> None:
        self.passes = passes
        self.residuals = residuals
        self.role = ""
        self.indent = 0
        # the passes begun so far; the first ``announced`` of them have a heading already
        self.seen: list[str] = []
        self.announced = 0

    def begun(self) -> Iterator[Line]:
        """A heading for each pass that began with the row before this call."""
        for name in self.seen[self.announced :]:
            yield ((name, f"{' ' * self.indent}# {name} pass"),)
        self.announced = len(self.seen)

    def __call__(self, row: _Row) -> Line:
        if self.passes is None:
            return row.segments
        indent = _indent(row.segments)
        found = "" if row.eqn is None else self.passes.of(row.eqn)
        if found:
            self.role, self.indent = found, indent
            if found not in self.seen:
                self.seen.append(found)
        elif self.role and indent <= self.indent:
            # deeper lines belong to the last equation of the pass; this line does not, so the pass has ended
            self.role = ""
        return tuple(self._segment(each) for each in row.segments)

    def _segment(self, segment: Segment) -> Segment:
        role, piece = segment
        if role == "var" and piece in self.residuals:
            return "residual", piece
        return (self.role, piece) if self.role and role else segment


def _indent(segments: Line) -> int:
    text = "".join(piece for _, piece in segments)
    return len(text) - len(text.lstrip())


def counts(
    before: ClosedJaxpr,
    after: ClosedJaxpr,
    most: int = MOST_EQUATIONS,
    derived: bool = True,
    passes: Passes | None = None,
) -> dict[str, int]:
    """The number of equations with each mark of ``document.Pair``."""
    found = dict.fromkeys(" ~-+", 0)
    for mark, a, b in pairs(Printed(before, most).rows(80), Printed(after, most).rows(80), derived, passes):
        found[mark] += any(row is not None and row.eqn is not None for row in (a, b))
    return found
