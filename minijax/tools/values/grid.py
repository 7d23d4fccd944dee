"""An array as a grid of its elements: part of one slice in a terminal, a coloured table on an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from minijax.core.records import NamedTuple
from minijax.tools.documents.document import Line, Segment
from minijax.tools.trees.numbers import Budget, numbers
from minijax.tools.values.brief import number_text

# The most columns and rows of an array on a page.
MOST_CELLS_ACROSS, MOST_CELLS_DOWN = 32, 32
_GAP = 2


class GridPlace(NamedTuple):
    """The visible part: the number of a two-dimensional slice, and the first visible row and column."""

    slice: int = 0
    top: int = 0
    left: int = 0


def slices(value: np.ndarray) -> int:
    """The number of two-dimensional slices."""
    return int(np.prod(value.shape[:-2], dtype=np.int64)) if value.ndim > 2 else 1


def slice_of(value: np.ndarray, index: int) -> tuple[np.ndarray, str]:
    """Slice number ``index`` as rows and columns, and its index as text: ``[3, :, :]``."""
    if value.ndim <= 2:
        return np.atleast_2d(value), ""
    at = np.unravel_index(index, value.shape[:-2])
    return value[at], "[" + ", ".join(map(str, at)) + ", :, :]"


def within(value: np.ndarray, place: GridPlace) -> GridPlace:
    """The valid place nearest to ``place``."""
    if value.size == 0:
        return GridPlace()
    index = min(max(place.slice, 0), slices(value) - 1)
    grid, _ = slice_of(value, index)
    down, across = grid.shape
    return GridPlace(index, min(max(place.top, 0), down - 1), min(max(place.left, 0), across - 1))


def grid_lines(value: np.ndarray, place: GridPlace, columns: int, rows: int) -> list[Line]:
    """The lines for the part of the array that fits: the column numbers, then the numbered rows."""
    if value.size == 0:
        return [(("muted", f"no elements: shape {list(value.shape)}"),)]
    grid, _ = slice_of(value, place.slice)
    part = grid[place.top : place.top + max(rows - 1, 1), place.left : place.left + columns]
    margin = len(str(place.top + len(part) - 1)) + 1
    texts = [[number_text(x) for x in row] for row in part.tolist()] if part.size else []
    wide = max((len(text) for row in texts for text in row), default=1)
    wide = max(wide, len(str(place.left + part.shape[1] - 1))) + _GAP
    across = max((columns - margin) // wide, 1)
    numbers = range(place.left, min(place.left + across, grid.shape[1]))
    head: list[Segment] = [("", " " * margin), ("muted", "".join(str(i).rjust(wide) for i in numbers))]
    out: list[Line] = [tuple(head)]
    for i, row in enumerate(texts, place.top):
        cells = [(cell_role(x), text.rjust(wide)) for x, text in zip(part[i - place.top], row[:across], strict=False)]
        out.append((("muted", str(i).rjust(margin)), *cells))
    return out


def cut_line(value: np.ndarray, place: GridPlace, lines: Sequence[Line]) -> Line | None:
    """A line that says how many elements ``lines`` of ``grid_lines`` leave out. None if they show all elements."""
    shown = sum(len(row) - 1 for row in lines[1:])
    if shown >= value.size:
        return None
    _, said = slice_of(value, place.slice)
    return (
        (
            "muted",
            f"{value.size - shown:,} of {value.size:,} elements are not shown" + (f"; this is {said}" if said else ""),
        ),
    )


def cell_role(x: object) -> str:
    """The colour of an element: non-finite values stand out, zeros recede."""
    try:
        if not np.isfinite(x):  # type: ignore[call-overload]
            return "error"
        return "value" if x else "muted"
    except TypeError:
        return "value"


def heat_map(value: np.ndarray) -> str:
    """An HTML table with coloured cells: blue below zero, red above. A large array is cut at the right and the bottom.

    If the array has more than two axes, its first slices are stacked vertically.
    """
    if value.size == 0:
        return f"<p>no elements: shape {escape(str(list(value.shape)))}</p>"
    found = numbers(value, Budget())
    scale = 0.0 if found is None or found.low is None else max(abs(float(found.low)), abs(float(found.high)))
    shown = min(slices(value), 4)
    parts = [_heat_table(value, index, scale) for index in range(shown)]
    if slices(value) > shown:
        parts.append(f"<p>{slices(value) - shown} more slices</p>")
    return "".join(parts)


def _heat_table(value: np.ndarray, index: int, scale: float) -> str:
    grid, said = slice_of(value, index)
    down, across = grid.shape
    rows = []
    for i, row in enumerate(grid[:MOST_CELLS_DOWN, :MOST_CELLS_ACROSS]):
        cells = "".join(_heat_cell(x, scale) for x in row)
        rows.append(f"<tr><th>{i}</th>{cells}</tr>")
    head = "".join(f"<th>{i}</th>" for i in range(min(across, MOST_CELLS_ACROSS)))
    cut = ((down, MOST_CELLS_DOWN, "rows"), (across, MOST_CELLS_ACROSS, "columns"))
    left = [f"{there - shown} more {what}" for there, shown, what in cut if there > shown]
    more = f"<p>{', '.join(left)}</p>" if left else ""
    caption = f"<caption>{escape(said)}</caption>" if said else ""
    return f'<table class="mj-heat">{caption}<tr><th></th>{head}</tr>{"".join(rows)}</table>{more}'


def _heat_cell(x: object, scale: float) -> str:
    text = escape(number_text(x))
    try:
        number = float(x)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return f"<td>{text}</td>"
    if not np.isfinite(number):
        return f'<td style="background:#ffd54f;color:#000">{text}</td>'
    share = min(abs(number) / scale, 1.0) if scale else 0.0
    # mixed with the page's own colour, so that it is readable in light and dark mode
    colour = "214,69,65" if number > 0 else "52,120,200"
    return f'<td style="background:rgba({colour},{share * 0.65:.2f})">{text}</td>'
