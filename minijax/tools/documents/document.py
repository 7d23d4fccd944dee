"""Documents: what commands and views return, and what front ends lay out, colour and fold.

A document is a tuple of blocks. Blocks hold text in *roles* ('primitive', 'error', ...; the colours are in
``theme``), never escape codes or markup: the same document goes to a terminal, a notebook, a file or a test.
``lay_out`` gives the lines for a page of known width; ``html`` gives HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, zip_longest

from minijax.core.named import Frozen
from minijax.ir import doc as pp

Segment = tuple[str, str]  # (role, text)
Line = tuple[Segment, ...]
# (source text, language) -> segments. Front ends pass one made from ``lexer``; without it code stays plain.
Highlighter = Callable[[str, str], Iterable[Segment]]

LABEL_WIDTH = 9
# A row's right part stands at the margin, but no further out than this.
WIDEST = 100
# Pages of so many columns show two texts beside each other.
BESIDE = 100
# The last column of a table is not narrower than this.
_NARROWEST = 16
# The marks of ``Columns`` and their roles.
MARKS = {" ": "muted", "~": "warning", "-": "error", "+": "good"}
# Before the line where a cursor stands, and before lines that belong to it elsewhere.
MARK, LINK = "▶", "•"
# Stands for a space at which no line is broken.
UNBROKEN = "\xa0"


class Text(Frozen):
    """Lines of segments. A line that is too long is broken between words if ``wrap``, else left alone.

    What goes on to a further line begins there after ``hanging`` spaces. A page of HTML may break the lines of a
    ``soft`` text too: whoever copies them has them whole.
    """

    lines: tuple[Line, ...]
    wrap: bool = True
    hanging: int = 2
    soft: bool = False


class Printout(Frozen):
    """A jaxpr (or anything from ``ir.pretty``), laid out when the width is known."""

    doc: pp.Doc


class Code(Frozen):
    """Program text in a language that ``lexer`` knows: 'stablehlo', 'hlo', 'jaxpr' or 'python'.

    The lines are numbered from ``first`` unless that is 0; those whose numbers are ``marked`` carry a mark (the role
    of a mark is 'current'), those ``linked`` a lighter one. ``labels`` stand in place of the numbers, and ``after``
    behind the lines, one for each.
    """

    text: str
    language: str
    first: int = 0
    marked: tuple[int, ...] = ()
    linked: frozenset[int] = frozenset()
    labels: tuple[Segment, ...] = ()
    after: tuple[Line, ...] = ()


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
    """A block set in under a ``Row``'s body; a terminal cuts it to ``most`` lines, and says how many more there are, or
    ``instead`` where the block is itself a part of something, and ``rest``.
    """

    block: Block
    columns: int = LABEL_WIDTH + 1
    most: int = 0
    rest: str = ""
    instead: str = ""


class Pair(Frozen):
    """What stands left and right in one row of ``Columns``; ``mark`` is ' ' (alike), '~' (changed), '-' (left only) or
    '+' (right only). ``among`` is the left line as it stands among the right side's, where variables bear their names.
    """

    mark: str
    left: Line = ()
    right: Line = ()
    among: Line = ()


# Ends the name of a variable that only the left of two programs has, where the right one's names are used for both.
OWN = "'"


class Columns(Frozen):
    """Two texts beside each other, each under its title; on a narrow page one after the other, row by row, marked.

    ``rows(width)`` gives the rows, laid out for columns of that width.
    """

    titles: tuple[Line, Line]
    rows: Callable[[int], Sequence[Pair]]


class Picture(Frozen):
    """A drawing: ``markup`` (SVG, its text escaped by whoever made it) for a page of HTML, ``drawn`` elsewhere.

    ``alone`` makes an SVG file that says all that the document says, for front ends that show pictures.
    """

    markup: str
    drawn: Block
    alone: Callable[[], str] | None = None


class Interactive(Frozen):
    """A part of a page with a script of its own: ``markup(highlight)`` makes it; ``drawn`` stands for it elsewhere."""

    markup: Callable[[Highlighter | None], str]
    drawn: Block


class Fitted(Frozen):
    """Blocks that depend on the width of the page: ``make(width)`` gives them."""

    make: Callable[[int], tuple[Block, ...]]


class Foldable(Frozen):
    """What a page of HTML folds by itself, ``folding()``; elsewhere ``drawn`` says what is folded."""

    drawn: Block
    folding: Callable[[], tuple[Block, ...]]


Block = Text | Printout | Code | Row | Table | Section | Indent | Columns | Picture | Interactive | Fitted | Foldable


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


def unbroken(text: str) -> str:
    """``text`` as one word for ``wrapped``, which shows its spaces as such: ``0.2 ms`` does not lose its unit."""
    return text.replace(" ", UNBROKEN)


def _plain_spaces(segments: Iterable[Segment]) -> Line:
    return tuple((role, piece.replace(UNBROKEN, " ")) for role, piece in segments)


def wrapped(segments: Line, width: int, hanging: int = 0) -> Iterator[Line]:
    """``segments`` as lines of at most ``width`` columns, broken at spaces; too long a word stays whole.

    The lines after the first begin with ``hanging`` spaces.
    """
    if length(segments) <= width:
        yield _plain_spaces(segments)
        return
    for each in _broken(segments, width, hanging):
        yield _plain_spaces(each)


def _broken(segments: Line, width: int, hanging: int) -> Iterator[Line]:
    words = [(role, word) for role, piece in segments for word in re.findall(r"[ \t]+|[^ \t]+", piece)]
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
        after = i + 1
        while after < len(words) and not words[after][1].isspace():
            together += len(words[after][1])
            after += 1
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
    lines = split_lines(segments)
    if block.after:
        lines = ((*each, *more) for each, more in zip(lines, block.after, strict=True))
    return _numbered(block, lines) if block.first else lines


def _numbered(block: Code, lines: Iterable[Line]) -> Iterator[Line]:
    if block.labels:
        width = max(len(said) for _, said in block.labels)
        labels = [(role, f"{said:<{width}} ") for role, said in block.labels]
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
            said = block.instead or f"{len(lines) - most} more lines"
            yield (margin, ("muted", f"... {said} {block.rest}".rstrip()))
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
    """A line of a program, broken where it is too long: what goes on stands further in than it began."""
    start = "".join(piece for _, piece in each)
    return wrapped(each, width, min(len(start) - len(start.lstrip()) + 4, width // 2))


def _below(block: Columns, width: int) -> Iterator[Line]:
    """One column: rows that are alike once, of the others the left lines before the right ones."""
    rows = block.rows(width - 2)
    for role, mark, title in (("error", "- ", block.titles[0]), ("good", "+ ", block.titles[1])):
        yield from wrapped(((role, mark), *title), width, 4)
    own = next((piece for pair in rows for role, piece in pair.among if role == "var" and piece.endswith(OWN)), "")
    if own:
        said = f"names are those of +; {own} is a {own[:-1]} that only - has"
        yield from wrapped((("", "  "), ("muted", said)), width, 4)
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
    # on a very wide page the margin is nearer, where the eye still finds it
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
        # the last column is the one with words in it; what is too long goes on below its beginning
        yield from wrapped(tuple(out), width, _hanging(widths, width))


def _hanging(widths: list[int], width: int) -> int:
    """Where the last column of a table begins, if that leaves room to go on there."""
    before = sum(widths[:-1]) + 2 * (len(widths) - 1)
    return before if width - before >= _NARROWEST else 4
