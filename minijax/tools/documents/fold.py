"""Break lines that are too long for a terminal at good places.

A terminal breaks a line in the middle of a word. ``folded`` breaks it after a space, else after a separator, and
indents the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minijax.tools.documents.document import Line, Segment, columns

_SEPARATORS = ",;:)]}/|=+*_.-"
# Continuation lines are indented this many columns more than the line's beginning.
HANGING = 2


def folded(line: Line, width: int) -> Iterator[Line]:
    """``line`` as lines of at most ``width`` columns. A line may be wider if it holds only one wide character."""
    text = "".join(piece for _, piece in line)
    if columns(text) <= width:
        yield line
        return
    indent = len(text) - len(text.lstrip(" ")) + HANGING
    if indent > width // 2:
        indent = HANGING
    spans = list(_spans(text, width, indent))
    for (start, _), piece in zip(spans, _cut(line, spans), strict=True):
        yield (("", " " * indent), *piece) if start else piece


def _spans(text: str, width: int, indent: int) -> Iterator[tuple[int, int]]:
    """The beginnings and ends of the lines of ``text``. The lines after the first are ``indent`` columns shorter."""
    start = 0
    while True:
        end = _reach(text, start, width - (indent if start else 0))
        if end < len(text):
            end = _break(text, start, end)
        yield start, end
        while end < len(text) and text[end] == " ":
            end += 1
        if end >= len(text):
            return
        start = end


def _reach(text: str, start: int, room: int) -> int:
    """The index up to which ``text``, from ``start`` on, fits into ``room`` columns. It is at least ``start + 1``."""
    taken, i = 0, start
    while i < len(text):
        taken += columns(text[i])
        if taken > room and i > start:
            break
        i += 1
    return i


def _break(text: str, start: int, end: int) -> int:
    """The best place to break at or before ``end``, but not in the first third of the line."""
    earliest = start + (end - start) // 3
    if text[end] == " ":
        return end
    space = text.rfind(" ", earliest, end)
    # do not break in the indent of the line
    if space > start and text[start:space].strip():
        return space + 1
    for i in range(end - 1, earliest, -1):
        if text[i] in _SEPARATORS:
            return i + 1
    return end


def _cut(line: Line, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[Segment, ...]]:
    """The parts of ``line`` for spans of character positions, which must be in order."""
    number, at = 0, 0  # the index of a segment, and the position of its first character
    for start, end in spans:
        out: list[Segment] = []
        while number < len(line):
            role, piece = line[number]
            first, last = max(start - at, 0), min(end - at, len(piece))
            if first < last:
                out.append((role, piece[first:last]))
            if at + len(piece) > end:
                break
            at += len(piece)
            number += 1
        yield tuple(out)
