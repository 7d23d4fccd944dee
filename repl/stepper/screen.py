"""Composes the stepper's screen as lines of text with roles, for any screen size. It needs no terminal.

A screen of 150 columns or more has three columns of panes; one of 110 or more has two. Narrower screens show two panes,
one above the other; small screens show one pane. Panes that share a place have tabs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from minijax.repl import drawing
from minijax.repl.batch import highlighted
from minijax.repl.drawing import bar, beside, cut, message_lines, padded, place_role, ruled
from minijax.repl.screen_model import framed
from minijax.repl.stepper.model import Stepper
from minijax.tools.documents.document import Document, Line, Segment, lay_out, length
from minijax.tools.stepper import panes as stepping
from minijax.tools.stepper import programs
from minijax.tools.stepper.backward import at_cursor
from minijax.tools.stepper.devices import devices_shown
from minijax.tools.stepper.tree import tree_rows

# The smallest (columns, lines) for three columns of panes, for two columns, and for two panes one above the other.
THREE, TWO, STACKED = (150, 16), (110, 12), (60, 14)
# The panes that share a place with the stack if there are three columns.
BESIDE_STACK = ("stack", "values", "devices")


def compose(stepper: Stepper, columns: int, rows: int) -> list[Line]:
    return framed(stepper, columns, rows, _head(stepper, columns), _body, _foot)


def _head(stepper: Stepper, columns: int) -> Line:
    source = " ".join(stepper.recording.source.split()) or "a recording"
    left: Line = (("heading", " step "), ("", source))
    stack = stepping.stack_text(stepper.cursor)
    whole = drawing.ends(left, (*stack, ("", " ")), columns)
    return drawing.ends(left, (("muted", "… "), stack[-1], ("", " ")), columns) if whole is left else whole


def _foot(stepper: Stepper, columns: int, most: int) -> list[Line]:
    """The status of the moment, and up to ``most`` lines below it: the message, or the times and the error."""
    lines = _renamed(stepper, lay_out(stepping.status(stepper.cursor), columns - 1))
    if stepper.programs and stepper.linked is not None:
        selected = programs.selection_line(stepper.linked, stepper.selection)
        lines = [lines[0], *_renamed(stepper, [selected])]
    role, said = stepper.message
    question = stepper.question
    if not said and question is not None and question.single and not question.fits(columns):
        role, said = "heading", question.label
    below = message_lines(role, said, columns - 1, most) if said else lines[1 : most + 1]
    return [lines[0], *(below or [()])]


def _tabs(stepper: Stepper, names: tuple[str, ...], shown: str, columns: int) -> Line:
    """Tabs of panes that share a place: ``━ [2 source] 3 stack 4 jaxpr ━``; if it is narrow, ``━ [2 source] 3 4 ━``."""
    panes = stepper.panes
    focused = stepper.focus == shown
    rule = "━" if focused else "─"
    numbered = {name: f"{panes.index(name) + 1} {name}" for name in names}
    if sum(map(len, numbered.values())) + len(names) + 5 > columns:
        numbered = {name: said if name == shown else said.partition(" ")[0] for name, said in numbered.items()}
    out: list[Segment] = [("heading" if focused else "muted", f"{rule} ")]
    for name in names:
        out.append((place_role(name), ""))
        if name == shown:
            out.append(("heading", f"[{numbered[name]}] "))
        else:
            out.append(("muted", f"{numbered[name]} "))
    gap = columns - length(out)
    return (*out, ("heading" if focused else "muted", rule * max(gap, 0)))


def _body(stepper: Stepper, columns: int, rows: int) -> list[Line]:
    panes = stepper.panes
    if stepper.values.viewer is not None:
        stepper.page = rows - 3
        return padded(stepper.values.viewer_lines(columns, rows), rows)
    if stepper.zoomed or not _fits(STACKED, columns, rows):
        return _shared(stepper, panes, columns, rows)
    first, others = panes[0], panes[1:]
    if stepper.programs:
        if _fits(TWO, columns, rows):
            half = (columns - 1) // 2
            left = _above(stepper, panes[0], panes[2:3], half, rows)
            right = _above(stepper, panes[1], panes[3:4], columns - 1 - half, rows)
            return beside(left, half, right)
        return _above(stepper, first, others, columns, rows)
    if _fits(THREE, columns, rows):
        one = columns * 7 // 20
        two = (columns - one - 2) // 2
        tree = _pane(stepper, first, one, rows)
        middle = _above(stepper, "source", tuple(each for each in panes if each in BESIDE_STACK), two, rows)
        right = _above(stepper, "jaxpr", ("rule",), columns - one - two - 2, rows)
        return beside(beside(tree, one, middle), one + 1 + two, right)
    if _fits(TWO, columns, rows):
        half = columns // 2
        tree = _pane(stepper, first, half, rows)
        return beside(tree, half, _above(stepper, "source", others[1:], columns - half - 1, rows))
    return _above(stepper, first, others, columns, rows)


def _fits(size: tuple[int, int], columns: int, rows: int) -> bool:
    return columns >= size[0] and rows >= size[1]


def _above(stepper: Stepper, first: str, others: tuple[str, ...], columns: int, rows: int) -> list[Line]:
    """The pane ``first`` at the top, and below it the place that the panes ``others`` share."""
    upper = max(min(rows * stepper.share // 20, rows - 3), 3)
    return _pane(stepper, first, columns, upper) + _shared(stepper, others, columns, rows - upper)


def _shared(stepper: Stepper, names: tuple[str, ...], columns: int, rows: int) -> list[Line]:
    """Panes that share a place: the focused pane is visible; if none is focused, the one that was focused last."""
    # the pane to show if none of them was focused before: in a backward pass the jaxpr, because it shows cotangents
    first = "jaxpr" if "jaxpr" in names and at_cursor(stepper.cursor) is not None else names[0]
    if "devices" in names and devices_shown(stepper.cursor) is not None:
        first = "devices"
    for name in (stepper.focus, *stepper.seen, first):
        if name in names:
            break
    if stepper.focus in names:
        stepper.seen = [stepper.focus, *(each for each in stepper.seen if each != stepper.focus)]
    if rows < 2:
        return _content(stepper, name, columns, rows)
    title = _tabs(stepper, names, name, columns) if len(names) > 1 else None
    return _pane(stepper, name, columns, rows, title)


def _pane(stepper: Stepper, name: str, columns: int, rows: int, title: Line | None = None) -> list[Line]:
    focused = stepper.focus == name
    if title is None:
        title = ruled(f"{stepper.panes.index(name) + 1} {name}", columns, focused)
    if focused:
        stepper.page = rows - 1
    content = _content(stepper, name, columns, rows - 1)
    return drawing.pane(name, title, content, stepper.tree_shown if name == "tree" else ())


def _content(stepper: Stepper, name: str, columns: int, rows: int) -> list[Line]:
    """``rows`` lines of a pane, scrolled so that the current line is visible."""
    if rows <= 0:
        return []
    down, right = stepper.scrolled.get(name, (0, 0))
    if name == "tree":
        reach = rows + abs(down)
        known = tree_rows(stepper.cursor, reach, reach, stepper.fold)
        lines, anchor, kept = _renamed(stepper, known.lines), known.current, 0
        positions = known.positions
    else:
        lines = _renamed(stepper, lay_out(_document(stepper, name, columns), columns, _highlighted))
        marks = ("current", "linked")
        anchor = next((i for mark in marks for i, each in enumerate(lines) if _has(each, mark)), 0)
        # keep the first line in view: the heading of the source, or of the equations in a backward pass
        headed = name == "source" or name == "jaxpr" and at_cursor(stepper.cursor) is not None
        kept = 1 if headed and len(lines) > rows > 4 else 0
        if name == "values" and len(lines) > rows > 4:
            # keep the watches and the column titles
            kept = min(len(stepper.values.watches) + 1, rows // 3)
    top = stepper.top(name, anchor, len(lines), rows)
    if name == "tree":
        stepper.tree_shown = positions[top : top + rows]
    shown = [*lines[:kept], *lines[top + kept : top + rows]]
    bars = name in ("tree", "source") or stepper.programs
    out = [bar(each, columns, right) if bars and _has(each, "current") else cut(each, right) for each in shown]
    return padded(out, rows)


def _document(stepper: Stepper, name: str, columns: int) -> Document:
    if stepper.programs and stepper.linked is not None:
        place = stepper.cursor.state().place
        return programs.linked_pane(stepper.linked, stepper.program_index(name), stepper.selection, place)
    if name == "values":
        return stepper.values.pane(columns)
    return stepping.PANES[name](stepper.cursor)


def _renamed(stepper: Stepper, lines: Iterable[Line]) -> list[Line]:
    """``lines``, in which each place has the name that the front end gives it."""
    rename = stepper.rename
    return [tuple((role, rename(piece) if "<" in piece else piece) for role, piece in each) for each in lines]


@functools.lru_cache(maxsize=64)
def _highlighted(text: str, language: str) -> tuple[Segment, ...]:
    return tuple(highlighted(text, language)) if language else (("", text),)


def _has(each: Line, role: str) -> bool:
    return any(piece_role == role and piece.strip() for piece_role, piece in each)
