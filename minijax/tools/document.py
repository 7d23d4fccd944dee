"""Documents: what commands and views return, and what front ends lay out, colour and fold.

A document is a tuple of blocks. Blocks hold text in *roles* ('primitive', 'error', ...; the colours are in
``theme``), never escape codes or markup: the same document goes to a terminal, a notebook, a file or a test.
``lay_out`` gives the lines for a page of known width; ``html`` gives HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from minijax.ir import doc as pp
from minijax.tools.frozen import Frozen

Segment = tuple[str, str]  # (role, text)
Line = tuple[Segment, ...]
# (source text, language) -> segments. Front ends pass one made from ``lexer``; without it code stays plain.
Highlighter = Callable[[str, str], Iterable[Segment]]

LABEL_WIDTH = 9


class Text(Frozen):
    """Lines of segments. A line that is too long is broken between words if ``wrap``, else left alone.

    What goes on to a further line begins there after ``hanging`` spaces.
    """

    lines: tuple[Line, ...]
    wrap: bool = True
    hanging: int = 2


class Program(Frozen):
    """A jaxpr (or anything from ``ir.pretty``), laid out when the width is known."""

    doc: pp.Doc


class Code(Frozen):
    """Program text in a language that ``lexer`` knows: 'stablehlo', 'hlo', 'jaxpr' or 'python'."""

    text: str
    language: str


class Row(Frozen):
    """A labelled line: the label in a column, the body beside it, ``right`` at the margin if it fits."""

    label: str
    body: tuple[Line, ...] = ()
    right: Line = ()


class Table(Frozen):
    """Columns of segments under a heading; columns whose cells are figures are set to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[Segment, ...], ...]


class Section(Frozen):
    """Blocks under a title that folds: ``opened`` says how a notebook shows it at first."""

    title: Line
    blocks: tuple[Block, ...]
    opened: bool = True


class Indent(Frozen):
    """A block set in under a ``Row``'s body; a terminal cuts it to ``most`` lines and says ``rest``."""

    block: Block
    columns: int = LABEL_WIDTH + 1
    most: int = 0
    rest: str = ""


Block = Text | Program | Code | Row | Table | Section | Indent


class Document:
    """Blocks from top to bottom. A document without blocks shows nothing at all, and is false."""

    __slots__ = ("blocks",)

    def __init__(self, blocks: tuple[Block, ...] = ()) -> None:
        self.blocks = blocks

    def __add__(self, other: Document) -> Document:
        return Document(self.blocks + other.blocks)

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def __str__(self) -> str:
        return plain(self)

    def __repr__(self) -> str:
        return f"<document of {len(self.blocks)} blocks>"


def line(*parts: str | Segment) -> Line:
    """A line from strings (no role) and ``(role, text)`` pairs."""
    return tuple(("", part) if isinstance(part, str) else part for part in parts)


def text(*lines: str | Line, role: str = "", wrap: bool = True, hanging: int = 2) -> Text:
    """A block of lines, each a string (in ``role``, split at line breaks) or a ready line."""
    made: list[Line] = []
    for each in lines:
        if isinstance(each, str):
            made += [((role, piece),) for piece in each.split("\n")]
        else:
            made.append(each)
    return Text(tuple(made), wrap, hanging)


def document(*blocks: Block) -> Document:
    """The blocks as a document."""
    return Document(blocks)


def joined(separator: str, parts: Iterable[Segment], role: str = "muted") -> Line:
    """The segments with ``separator`` between each two."""
    out: list[Segment] = []
    for part in parts:
        if out:
            out.append((role, separator))
        out.append(part)
    return tuple(out)


def length(segments: Iterable[Segment]) -> int:
    """The columns that segments take."""
    return sum(len(piece) for _, piece in segments)


def wrapped(segments: Line, width: int, hanging: int = 0) -> Iterator[Line]:
    """``segments`` as lines of at most ``width`` columns, broken at spaces; too long a word stays whole.

    The lines after the first begin with ``hanging`` spaces.
    """
    if length(segments) <= width:
        yield segments
        return
    words = [(role, word) for role, piece in segments for word in re.findall(r"\s+|\S+", piece)]
    current: list[Segment] = []
    column = 0
    begun = False  # whether the line holds anything but its indentation
    for i, (role, word) in enumerate(words):
        if word.isspace():
            if begun or not i:
                current.append((role, word))
                column += len(word)
            continue
        # pieces of different roles without a space between them stay together
        together = len(word)
        for _, following in words[i + 1 :]:
            if following.isspace():
                break
            together += len(following)
        free = not i or words[i - 1][1].isspace()
        if free and begun and column + together > width:
            while current and current[-1][1].isspace():
                current.pop()
            yield tuple(current)
            current, column = [("", " " * hanging)] if hanging else [], hanging
        current.append((role, word))
        column += len(word)
        begun = True
    yield tuple(current)


def lay_out(doc: Document, width: int = 80, highlight: Highlighter | None = None) -> Iterator[Line]:
    """The lines of ``doc`` on a page of ``width`` columns."""
    for block in doc.blocks:
        yield from _block_lines(block, max(width, 20), highlight)


def plain(doc: Document, width: int = 80) -> str:
    """``doc`` as text without roles."""
    return "\n".join("".join(piece for _, piece in each).rstrip() for each in lay_out(doc, width))


def split_lines(segments: Iterable[Segment]) -> Iterator[Line]:
    """Segments that hold line breaks, as lines."""
    current: list[Segment] = []
    for role, piece in segments:
        first, *rest = piece.split("\n")
        if first:
            current.append((role, first))
        for each in rest:
            yield tuple(current)
            current = [(role, each)] if each else []
    yield tuple(current)


def code_lines(block: Code, highlight: Highlighter | None) -> Iterator[Line]:
    """The lines of ``block``, highlighted if that is possible."""
    segments = [("", block.text)] if highlight is None else highlight(block.text, block.language)
    return split_lines(segments)


def _block_lines(block: Block, width: int, highlight: Highlighter | None) -> Iterator[Line]:
    if isinstance(block, Text):
        for each in block.lines:
            yield from wrapped(each, width, block.hanging) if block.wrap else [each]
    elif isinstance(block, Program):
        yield from split_lines(pp.segments(block.doc, width))
    elif isinstance(block, Code):
        yield from code_lines(block, highlight)
    elif isinstance(block, Row):
        yield from _row_lines(block, width)
    elif isinstance(block, Table):
        yield from _table_lines(block)
    elif isinstance(block, Indent):
        margin = ("", " " * block.columns)
        lines = list(_block_lines(block.block, max(width - block.columns, 20), highlight))
        most = len(lines) if not block.most or len(lines) <= block.most else block.most - 1
        for each in lines[:most]:
            yield (margin, *each)
        if most < len(lines):
            yield (margin, ("muted", f"... {len(lines) - most} more lines {block.rest}".rstrip()))
    else:
        yield block.title
        for inner in block.blocks:
            for each in _block_lines(inner, width - 2, highlight):
                yield (("", "  "), *each)


def _row_lines(row: Row, width: int) -> Iterator[Line]:
    label: Segment = ("label", f" {row.label:<{LABEL_WIDTH}}")
    indent = LABEL_WIDTH + 1
    room = width - indent
    lines = [piece for each in row.body for piece in wrapped(each, room, 2)] or [()]
    gap = room - length(lines[0]) - length(row.right)
    if row.right and gap >= 2:
        lines[0] = (*lines[0], ("", " " * gap), *row.right)
    elif row.right:
        lines.append(row.right)
    for i, each in enumerate(lines):
        yield (label if i == 0 else ("", " " * indent), *each)


def _table_lines(table: Table) -> Iterator[Line]:
    cells = [*table.rows, tuple(("heading", name) for name in table.header)]
    widths = [max(len(row[i][1]) for row in cells) for i in range(len(table.header))]
    right = [
        bool(table.rows) and all(re.match(r"[-+\d.]", row[i][1]) or not row[i][1] for row in table.rows)
        for i in range(len(table.header))
    ]
    for row in (cells[-1], *table.rows):
        out: list[Segment] = []
        for i, (role, piece) in enumerate(row):
            gap = " " * (widths[i] - len(piece))
            before, after = (gap, "") if right[i] else ("", gap)
            out += [
                ("", before + ("  " if i and not before else "  " if i else "")),
                (role, piece),
                ("", after),
            ]
        while out and not out[-1][1].strip():
            out.pop()
        yield tuple(out)
