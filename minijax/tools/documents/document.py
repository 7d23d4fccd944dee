"""Documents: the results of commands and views, which front ends lay out, colour and fold.

A document is a tuple of blocks. Blocks hold text in *roles* ('primitive', 'error', ...), never escape codes or markup.
So a terminal, a notebook, a file and a test can use the same document. ``theme`` has the colours of the roles.
``lay_out`` returns the lines for a page of known width; ``html`` returns HTML.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby, zip_longest

from minijax.core.records import Frozen
from minijax.ir import doc as pp

Segment = tuple[str, str]  # (role, text)
Line = tuple[Segment, ...]
# (source text, language) -> segments. Front ends pass a function of ``lexer``; without it, code has no colours.
Highlighter = Callable[[str, str], Iterable[Segment]]

LABEL_WIDTH = 9
# The last column that the right part of a row may reach.
WIDEST = 100
# Minimum width, in columns, of a page that shows two texts side by side.
BESIDE = 100
# Minimum width of a table's last column.
_NARROWEST = 16
# The marks of ``Columns`` and their roles.
MARKS = {" ": "muted", "~": "warning", "-": "error", "+": "good"}
# The mark before the line at the cursor, and the mark before lines of other programs that belong to that line.
MARK, LINK = "▶", "•"
# A space at which lines do not break.
UNBROKEN = "\xa0"
# Where long lines of a terminal break, and the indent of the lines after them.
_SEPARATORS = ",;:)]}/|=+*_.-"
_HANGING = 2


class Text(Frozen):
    """Lines of segments. A long line breaks between words if ``wrap``; otherwise it stays whole.

    Continuation lines are indented by ``hanging`` spaces. In HTML, the lines of a ``soft`` text may break even without
    ``wrap``; copied text keeps them whole.
    """

    lines: tuple[Line, ...]
    wrap: bool = True
    hanging: int = 2
    soft: bool = False


class Printout(Frozen):
    """A jaxpr (or other output of ``ir.pretty``), laid out when the width is known."""

    doc: pp.Doc


class Code(Frozen):
    """Program text in a language that ``lexer`` knows: 'stablehlo', 'hlo', 'jaxpr' or 'python'.

    Lines are numbered from ``first``; 0: no numbers. Lines whose numbers are in ``marked`` have a mark (in the role
    'current'); lines in ``linked`` have a lighter one. ``labels`` replace the line numbers, one for each line.
    ``after`` has segments to add at the end of each line.
    """

    text: str
    language: str
    first: int = 0
    marked: tuple[int, ...] = ()
    linked: frozenset[int] = frozenset()
    labels: tuple[Segment, ...] = ()
    after: tuple[Line, ...] = ()


class Row(Frozen):
    """A labelled line: a label column, the body beside it, and ``right`` at the margin if it fits."""

    label: str
    body: tuple[Line, ...] = ()
    right: Line = ()


class Table(Frozen):
    """Columns of segments with headings; columns of numbers are aligned right."""

    header: tuple[str, ...]
    rows: tuple[tuple[Segment, ...], ...]


class Section(Frozen):
    """Blocks under a title that folds them; ``opened`` says whether a notebook shows them unfolded at first."""

    title: Line
    blocks: tuple[Block, ...]
    opened: bool = True


class Indent(Frozen):
    """A block indented to the column of a ``Row``'s body. A terminal shows at most ``most`` lines (0: all), then the
    number of missing lines (or the text ``instead``) and ``rest``.
    """

    block: Block
    columns: int = LABEL_WIDTH + 1
    most: int = 0
    rest: str = ""
    instead: str = ""


class Pair(Frozen):
    """The left and right lines in a row of ``Columns``. ``mark`` is ' ' (equal), '~' (changed), '-' (left only) or '+'
    (right only). A single column shows ``among`` in place of ``left``: the line with the right side's variable names.
    """

    mark: str
    left: Line = ()
    right: Line = ()
    among: Line = ()


# In a single column, variables have the right side's names. A name with this mark is a variable of the left side only.
OWN = "'"


class Columns(Frozen):
    """Two texts side by side with titles. A narrow page shows them in one column, with marks before the rows.

    ``rows(width)`` returns the rows, laid out for columns of that width.
    """

    titles: tuple[Line, Line]
    rows: Callable[[int], Sequence[Pair]]


class Picture(Frozen):
    """A drawing: ``markup`` (SVG with escaped text) for a page of HTML, ``drawn`` for other front ends.

    ``alone`` makes an SVG file with the content of the whole document, for front ends that show pictures.
    """

    markup: str
    drawn: Block
    alone: Callable[[], str] | None = None


class Interactive(Frozen):
    """A part of a page with its own script: ``markup(highlight)`` makes it. Other front ends show ``drawn``."""

    markup: Callable[[Highlighter | None], str]
    drawn: Block


class Fitted(Frozen):
    """Blocks that depend on the width of the page: ``make(width)`` returns them."""

    make: Callable[[int], tuple[Block, ...]]


class Foldable(Frozen):
    """Blocks that fold on a page of HTML: ``folding()`` makes them. Other front ends show ``drawn``."""

    drawn: Block
    folding: Callable[[], tuple[Block, ...]]


Block = Text | Printout | Code | Row | Table | Section | Indent | Columns | Picture | Interactive | Fitted | Foldable


class Document:
    """Blocks from top to bottom. A document without blocks is empty and false."""

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
    """A line from strings (without a role) and ``(role, text)`` pairs."""
    return tuple(("", part) if isinstance(part, str) else part for part in parts)


def text(*lines: str | Line, role: str = "", wrap: bool = True, hanging: int = 2) -> Text:
    """A block of lines. Each is a string (in ``role``, split at line breaks) or a finished line."""
    made: list[Line] = []
    for each in lines:
        if isinstance(each, str):
            made += [((role, piece),) for piece in each.split("\n")]
        else:
            made.append(each)
    return Text(tuple(made), wrap, hanging)


def document(*blocks: Block) -> Document:
    """A document of these blocks."""
    return Document(blocks)


def joined(separator: str, parts: Iterable[Segment], role: str = "muted") -> Line:
    """The segments with ``separator`` between them."""
    out: list[Segment] = []
    for part in parts:
        if out:
            out.append((role, separator))
        out.append(part)
    return tuple(out)


# The columns of a tab.
_TAB = 8


def columns(text: str) -> int:
    """The width of ``text`` in a terminal, in columns: 2 for a wide character, 0 for a combining one."""
    if text.isascii() and "\t" not in text:
        return len(text)
    return sum(map(_column, text))


@cache
def _column(c: str) -> int:
    if c == "\t":
        return _TAB
    if c.isascii():
        return 1
    from wcwidth import wcwidth  # imported late: most sessions show only ASCII and some signs of the panels

    return max(wcwidth(c), 0)


def padded(text: str, width: int) -> str:
    """``text`` with spaces up to ``width`` columns."""
    return text + " " * (width - columns(text))


def length(segments: Iterable[Segment]) -> int:
    """The width of segments in columns."""
    return sum(columns(piece) for _, piece in segments)


def unbroken(text: str) -> str:
    """``text`` as one word for ``wrapped``, shown with its spaces: ``0.2 ms`` keeps number and unit together."""
    return text.replace(" ", UNBROKEN)


def _plain_spaces(segments: Iterable[Segment]) -> Line:
    return tuple((role, piece.replace(UNBROKEN, " ")) for role, piece in segments)


def wrapped(segments: Line, width: int, hanging: int = 0) -> Iterator[Line]:
    """``segments`` as lines of at most ``width`` columns, broken at spaces; longer words stay whole.

    The lines after the first begin with ``hanging`` spaces.
    """
    return map(_plain_spaces, _broken(segments, width, hanging, _word_end))


def folded(segments: Line, width: int) -> Iterator[Line]:
    """``segments`` as lines of at most ``width`` columns. A line may be wider if it holds only one wide character.

    A terminal breaks a long line in the middle of a word. This breaks it after a space, else after a separator.
    """
    text = "".join(piece for _, piece in segments)
    indent = len(text) - len(text.lstrip(" ")) + _HANGING
    return _broken(segments, width, _HANGING if indent > width // 2 else indent, _fold_end)


def _broken(segments: Line, width: int, indent: int, ends: Callable[[str, int, int], int]) -> Iterator[Line]:
    """The lines of ``segments``; those after the first have an indent. ``ends(text, start, end)`` is the place to break
    the line that begins at ``start`` if the text up to ``end`` fits.
    """
    text = "".join(piece for _, piece in segments).replace("\t", " ")
    start, rest = 0, segments
    while length(rest) > width - (indent if start else 0):
        end = ends(text, start, _reach(rest, width - (indent if start else 0)) + start)
        after = len(text) - len(text[end:].lstrip(" "))
        if after >= len(text):
            end = len(text)
        taken, rest = _parted(rest, end - start)
        if ends is _word_end:
            taken = _parted(taken, len(text[start:end].rstrip(" ")))[0]
        yield (("", " " * indent), *taken) if start and indent else taken
        if after >= len(text):
            return
        rest = _parted(rest, after - end)[1]
        start = after
    yield (("", " " * indent), *rest) if start and indent else rest


def _reach(segments: Line, room: int) -> int:
    """How many characters fit into ``room`` columns; at least one."""
    taken = count = 0
    for c in itertools.chain.from_iterable(piece for _, piece in segments):
        taken += columns(c)
        if taken > room and count:
            break
        count += 1
    return count


def _word_end(text: str, start: int, end: int) -> int:
    """The end of the last whole word, or else of the first word."""
    space = text.rfind(" ", start, end + 1)
    if not text[start:space].strip() or space < 0:
        space = text.find(" ", end)
    return space if space >= 0 else len(text)


def _fold_end(text: str, start: int, end: int) -> int:
    """The end of the last word or else the last separator, but not in the first third of the line; or else ``end``."""
    if text[end] == " ":
        return end
    earliest = start + (end - start) // 3
    space = text.rfind(" ", earliest, end)
    # do not break in the indent of the line
    if space > start and text[start:space].strip():
        return space + 1
    return next((i + 1 for i in range(end - 1, earliest, -1) if text[i] in _SEPARATORS), end)


def _parted(segments: Line, count: int) -> tuple[Line, Line]:
    """The first ``count`` characters, and the others."""
    before: list[Segment] = []
    for i, (role, piece) in enumerate(segments):
        if count < len(piece):
            before += [(role, piece[:count])] if count else []
            return tuple(before), ((role, piece[count:]), *segments[i + 1 :])
        before.append((role, piece))
        count -= len(piece)
    return tuple(before), ()


def lay_out(doc: Document, width: int = 80, highlight: Highlighter | None = None) -> Iterator[Line]:
    """The lines of ``doc`` for a page of ``width`` columns."""
    for block in doc.blocks:
        yield from _block_lines(block, max(width, 20), highlight)


def plain(doc: Document, width: int = 80) -> str:
    """``doc`` as text without roles."""
    return "\n".join("".join(piece for _, piece in each).rstrip() for each in lay_out(doc, width))


def split_lines(segments: Iterable[Segment]) -> Iterator[Line]:
    """Split segments at their line breaks into lines."""
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
    """The lines of ``block``, highlighted if there is a highlighter."""
    segments = [("", block.text)] if highlight is None else highlight(block.text, block.language)
    lines = split_lines(segments)
    if block.after:
        lines = ((*each, *more) for each, more in zip(lines, block.after, strict=True))
    return _numbered(block, lines) if block.first else lines


def _numbered(block: Code, lines: Iterable[Line]) -> Iterator[Line]:
    if block.labels:
        width = max(len(label) for _, label in block.labels)
        labels = [(role, f"{label:<{width}} ") for role, label in block.labels]
    else:
        digits = len(str(block.first + block.text.count("\n")))
        count = block.text.count("\n") + 1
        labels = [("muted", f"{number:>{digits}} ") for number in range(block.first, block.first + count)]
    for number, each in enumerate(lines, block.first):
        mark = ("current", MARK) if number in block.marked else ("linked", LINK if number in block.linked else " ")
        yield (mark, labels[number - block.first], *each)


def _block_lines(block: Block, width: int, highlight: Highlighter | None) -> Iterator[Line]:
    if isinstance(block, Text):
        for each in block.lines:
            yield from wrapped(each, width, block.hanging) if block.wrap else [_plain_spaces(each)]
    elif isinstance(block, Printout):
        yield from split_lines(pp.segments(block.doc, width))
    elif isinstance(block, Code):
        yield from code_lines(block, highlight)
    elif isinstance(block, Row):
        yield from _row_lines(block, width)
    elif isinstance(block, Table):
        yield from _table_lines(block, width)
    elif isinstance(block, Indent):
        margin = ("", " " * block.columns)
        lines = list(_block_lines(block.block, max(width - block.columns, 20), highlight))
        most = len(lines) if not block.most or len(lines) <= block.most else block.most - 1
        for each in lines[:most]:
            yield (margin, *each)
        if most < len(lines):
            summary = block.instead or f"{len(lines) - most} more lines"
            yield (margin, ("muted", f"... {summary} {block.rest}".rstrip()))
    elif isinstance(block, Columns):
        yield from (_beside if width >= BESIDE else _below)(block, width)
    elif isinstance(block, Picture | Interactive | Foldable):
        yield from _block_lines(block.drawn, width, highlight)
    elif isinstance(block, Fitted):
        for inner in block.make(width):
            yield from _block_lines(inner, width, highlight)
    else:
        yield block.title
        for inner in block.blocks:
            for each in _block_lines(inner, width - 2, highlight):
                yield (("", "  "), *each)


def _beside(block: Columns, width: int) -> Iterator[Line]:
    """Two columns with the marks between them."""
    half = (width - 3) // 2
    for pair in (Pair(" ", *block.titles), *block.rows(half)):
        sides = [list(_hung(each, half)) for each in (pair.left, pair.right)]
        for left, right in zip_longest(*sides, fillvalue=()):
            gap = ("", " " * (half - length(left) + 1))
            yield (*left, gap, (MARKS[pair.mark], pair.mark if pair.mark != " " else "│"), ("", " "), *right)


def _hung(each: Line, width: int) -> Iterator[Line]:
    """Break a long line of a program, with continuation lines indented more than the line's beginning."""
    start = "".join(piece for _, piece in each)
    return wrapped(each, width, min(len(start) - len(start.lstrip()) + 4, width // 2))


def _below(block: Columns, width: int) -> Iterator[Line]:
    """Both texts in one column. Equal lines are shown once. In a run of unequal lines, the left ones come first."""
    rows = block.rows(width - 2)
    for role, mark, title in (("error", "- ", block.titles[0]), ("good", "+ ", block.titles[1])):
        yield from wrapped(((role, mark), *title), width, 4)
    own = next((piece for pair in rows for role, piece in pair.among if role == "var" and piece.endswith(OWN)), "")
    if own:
        note = f"variables have their names on the + side; {own} is the {own[:-1]} of the - side"
        yield from wrapped((("", "  "), ("muted", note)), width, 4)
    for alike, run in groupby(rows, key=lambda pair: pair.mark == " "):
        pairs = list(run)
        parts = [(" ", "", [pair.right for pair in pairs])] if alike else []
        if not alike:
            parts += [("-", "error", [pair.among or pair.left for pair in pairs if pair.mark != "+"])]
            parts += [("+", "good", [pair.right for pair in pairs if pair.mark != "-"])]
        for mark, role, lines in parts:
            for each in lines:
                for i, piece in enumerate(_hung(each, width - 2)):
                    yield ((role, mark if i == 0 else " "), ("", " "), *piece)


def _row_lines(row: Row, width: int) -> Iterator[Line]:
    label: Segment = ("label", f" {row.label:<{LABEL_WIDTH}}")
    indent = LABEL_WIDTH + 1
    room = width - indent
    lines = [piece for each in row.body for piece in wrapped(each, room, 2)] or [()]
    # on a wide page, the right part ends at most ``WIDEST`` columns after the label
    gap = max(min(room, WIDEST), length(lines[0]) + 2 + length(row.right)) - length(lines[0]) - length(row.right)
    if length(lines[0]) + length(row.right) + gap > room:
        gap = 0
    if row.right and gap >= 2:
        lines[0] = (*lines[0], ("", " " * gap), *row.right)
    elif row.right:
        lines += wrapped(row.right, room, 2)
    for i, each in enumerate(lines):
        yield (label if i == 0 else ("", " " * indent), *each)


def _table_lines(table: Table, width: int) -> Iterator[Line]:
    cells = [tuple(("heading", name) for name in table.header), *table.rows]
    widths = [max(columns(row[i][1]) for row in cells) for i in range(len(table.header))]
    right = [
        bool(table.rows) and all(re.match(r"[-+\d.]", row[i][1]) or not row[i][1] for row in table.rows)
        for i in range(len(table.header))
    ]
    for row in cells:
        out: list[Segment] = []
        for i, (role, piece) in enumerate(row):
            gap = " " * (widths[i] - columns(piece))
            before, after = (gap, "") if right[i] else ("", gap)
            out += [("", before + ("  " if i else "")), (role, piece), ("", after)]
        while out and not out[-1][1].strip():
            out.pop()
        # continuation lines begin below the beginning of the last column, which holds the text, if there is room
        start = sum(widths[:-1]) + 2 * (len(widths) - 1)
        yield from wrapped(tuple(out), width, start if width - start >= _NARROWEST else 4)
