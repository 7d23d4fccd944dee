"""Building blocks of full screens: lines of text with roles, cut and padded to columns. Needs no terminal."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from minijax.tools.documents.document import Line, Segment, length, wrapped
from minijax.tools.documents.document import columns as width_of
from minijax.tools.documents.theme import visible


def place_role(name: str, row: str = "") -> str:
    """The role of an empty segment that marks where a pane's row begins on the screen, for the mouse."""
    return f"@{name}:{row}"


def target_at(lines: list[Line], column: int, row: int) -> tuple[str, str]:
    """The pane at a screen position, and its row's moment ('' if it has none); ('', '') outside of panes."""
    found = ("", "")
    at = 0
    for role, piece in lines[row] if 0 <= row < len(lines) else ():
        if at > column:
            break
        if role.startswith("@"):
            name, _, moment = role[1:].partition(":")
            found = name, moment
        at += width_of(piece)
    return found


def ends(left: Line, right: Line, columns: int) -> Line:
    """A line with ``right`` at its end if both fit; otherwise ``left``."""
    gap = columns - length(left) - length(right)
    return (*left, ("", " " * gap), *right) if gap > 1 else left


def pane(name: str, title: Line, lines: list[Line], places: Iterable[object] = ()) -> list[Line]:
    """A pane below its title, with targets for the mouse: the title, and each line at its place."""
    targets = (place_role(name, str(each)) for each in itertools.chain(places, itertools.repeat("")))
    placed = [((target, ""), *each) for each, target in zip(lines, targets, strict=False)]
    return [((place_role(name), ""), *title), *placed]


def ruled(name: str, columns: int, focused: bool) -> Line:
    """The line above a pane: the pane's name and a rule, which is heavier for the focused pane."""
    rule = "━" if focused else "─"
    said = f"{rule} {name} "
    role = "heading" if focused else "muted"
    return ((role, said + rule * max(columns - len(said), 0)),)


def message_lines(role: str, said: str, columns: int, most: int) -> list[Line]:
    """A message, folded to at most ``most`` lines. If it is longer, the number of hidden characters is shown."""
    lines: list[str] = []
    for each in wrapped(((role, shown_text(said)),), max(columns, 1)):
        rest = "".join(piece for _, piece in each)
        while width_of(rest) > columns > 1:  # a long word
            taken = beginning(rest, columns)
            lines.append(taken)
            rest = rest[len(taken) :]
        lines.append(rest)
    if len(lines) > most:
        left = sum(map(len, lines[most:])) + len(lines) - most
        note = f" … {left:,} more characters"
        lines = [*lines[: most - 1], beginning(lines[most - 1], max(columns - len(note), 0)) + note]
    return [((role, each),) for each in lines]


def beside(left: list[Line], columns: int, right: list[Line]) -> list[Line]:
    """Two columns of lines, with a vertical line between them."""
    out = []
    for a, b in zip(left, right, strict=True):
        out.append((*fitted(a, columns, fill=True), ("muted", "│"), *b))
    return out


def bar(each: Line, columns: int, right: int = 0) -> Line:
    """The current line as a bar as wide as the pane; its first ``right`` columns are scrolled away."""
    text = "".join(piece for _, piece in fitted(cut(each, right), columns, fill=True))
    return (("stepper-bar", text),)


def padded(lines: list[Line], rows: int) -> list[Line]:
    return [*lines, *[()] * rows][:rows]


def shown_text(piece: str) -> str:
    """A piece as displayed: tabs as spaces, control characters visible."""
    return visible(piece.replace("\t", "    ")).replace("\n", " ")


def cut(segments: Line, columns: int) -> Line:
    """``segments`` without their first ``columns`` columns; a mark for the current line stays at the left."""
    if columns <= 0:
        return segments
    out: list[Segment] = []
    for role, piece in segments:
        if columns > 0 and role not in ("current", "linked"):
            dropped = min(columns, len(piece))
            columns -= dropped
            piece = piece[dropped:]
        out.append((role, piece))
    return tuple(out)


def fitted(segments: Line, columns: int, fill: bool = False) -> Line:
    """``segments`` cut to ``columns`` columns, with an ellipsis if something is cut; ``fill`` pads with spaces."""
    segments = tuple((role, shown_text(piece)) for role, piece in segments)
    free = columns - length(segments)
    if free >= 0:
        return (*segments, ("", " " * free)) if fill and free else segments
    out: list[Segment] = []
    room = columns - 1
    for role, piece in segments:
        taken = beginning(piece, room)
        out.append((role, taken))
        room -= width_of(taken)
        if taken != piece:
            break
    return (*out, ("muted", "…" + " " * room)) if columns else ()


def beginning(piece: str, columns: int) -> str:
    if len(piece) * 2 <= columns:
        return piece
    used = 0
    for i, character in enumerate(piece):
        used += width_of(character)
        if used > columns:
            return piece[:i]
    return piece
