"""Documents: text with roles. Line breaks are chosen when the width of the page is known.

A group is printed on one line if it fits, else all its breaks become line breaks (Wadler, "A prettier printer", 1998;
Lindig, "Strictly pretty", 2000). Each piece of text has a *role* ('var', 'type', ...), which front ends map to colours.
Each node stores its width on one line, so layout takes linear time. Layout has its own stack, so documents may be deep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# Every role of a segment. White space and plain text have the role ''.
ROLES = (
    "",
    "keyword",
    "var",
    "type",
    "primitive",
    "literal",
    "param-name",
    "param-value",
    "punctuation",
    "comment",
    "drop",
)


class Doc:
    """A document. ``width`` is its length on one line; ``noted``: it contains a ``note``."""

    __slots__ = ("width", "noted")
    width: int
    noted: bool

    def __add__(self, other: Doc) -> Doc:
        return concat((self, other))

    def __str__(self) -> str:
        return to_string(self)


class _Piece(Doc):
    __slots__ = ("role", "text")

    def __init__(self, text: str, role: str) -> None:
        self.text, self.role = text, role
        self.width, self.noted = len(text), False


class _Text(_Piece):
    __slots__ = ()


class _Break(_Piece):
    __slots__ = ()


class _Note(Doc):
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text, self.width, self.noted = text, 0, True


class _Concat(Doc):
    __slots__ = ("children",)

    def __init__(self, children: tuple[Doc, ...]) -> None:
        self.children = children
        self.width = sum([child.width for child in children])
        self.noted = any([child.noted for child in children])


class _Rows(_Concat):
    """Items with separators between them. If ``left_out`` is not 0, the last child says how many items are missing."""

    __slots__ = ("left_out",)

    def __init__(self, children: tuple[Doc, ...], left_out: int) -> None:
        super().__init__(children)
        self.left_out = left_out

    @property
    def count(self) -> int:
        """The number of items that are shown."""
        return (len(self.children) + (self.left_out == 0)) // 2


class _Wrapped(Doc):
    __slots__ = ("child",)

    def __init__(self, child: Doc) -> None:
        self.child, self.width, self.noted = child, child.width, child.noted


class _Group(_Wrapped):
    __slots__ = ()


class _Nest(_Wrapped):
    __slots__ = ("indent",)

    def __init__(self, indent: int | None, child: Doc) -> None:
        super().__init__(child)
        self.indent = indent


def text(string: str, role: str = "") -> Doc:
    """``string``, which must not contain line breaks, in the given role."""
    return _Text(string, role)


def brk(flat: str = " ", role: str = "") -> Doc:
    """A place to break the line; ``flat`` is printed there, in ``role``, if the enclosing group fits on one line."""
    return _Break(flat, role)


def note(string: str) -> Doc:
    """A comment at the end of its line. All notes of a document are aligned. A group with a note breaks its lines."""
    return _Note(string)


def concat(docs: Iterable[Doc]) -> Doc:
    """The documents one after the other."""
    return _Concat(tuple(docs))


def nest(indent: int, child: Doc) -> Doc:
    """``child``; lines that begin inside it are indented by ``indent`` more columns."""
    return _Nest(indent, child)


def align(child: Doc) -> Doc:
    """``child``; lines that begin inside it are indented to the column where it begins."""
    return _Nest(None, child)


def group(child: Doc) -> Doc:
    """``child`` on one line if it fits. Otherwise all its breaks outside inner groups become line breaks."""
    return _Group(child)


def join(separator: Doc, docs: Iterable[Doc]) -> Doc:
    """The documents with ``separator`` between neighbours."""
    pieces: list[Doc] = []
    for doc in docs:
        if pieces:
            pieces.append(separator)
        pieces.append(doc)
    return pieces[0] if len(pieces) == 1 else _Concat(tuple(pieces))


def rows(separator: Doc, docs: Iterable[Doc], left_out: int = 0) -> Doc:
    """``docs`` with ``separator`` between them. ``left_out``: how many equations are missing; the last row shows it."""
    pieces: list[Doc] = []
    for doc in docs:
        pieces += [doc, separator]
    if left_out:
        pieces.append(text(f"... ({left_out} more equations)", "comment"))
    else:
        pieces = pieces[:-1]
    return _Rows(tuple(pieces), left_out)


def cut_rows(doc: Doc, most: int) -> Doc:
    """``doc`` with only the first ``most`` items of each ``rows`` in it."""
    cut: dict[int, Doc] = {}
    todo = [(doc, False)]
    while todo:
        node, below_done = todo.pop()
        if id(node) in cut:
            continue
        below = _children(node)
        if not below_done and below:
            if type(node) is _Rows and node.count > most:
                below = below[: 2 * most]
            todo.append((node, True))
            todo += [(child, False) for child in below]
            continue
        cut[id(node)] = _cut_node(node, most, cut)
    return cut[id(doc)]


def _cut_node(node: Doc, most: int, cut: dict[int, Doc]) -> Doc:
    """``node`` with its children replaced by their versions in ``cut``."""
    below = _children(node)
    if type(node) is _Rows and node.count > most:
        kept = [cut[id(child)] for child in below[: 2 * most : 2]]
        return rows(below[1], kept, node.left_out + node.count - most)
    if all(cut[id(child)] is child for child in below):
        return node
    if type(node) is _Nest:
        return _Nest(node.indent, cut[id(node.child)])
    if type(node) is _Group:
        return _Group(cut[id(node.child)])
    children = tuple([cut[id(child)] for child in below])
    return _Rows(children, node.left_out) if type(node) is _Rows else _Concat(children)


def _children(node: Doc) -> tuple[Doc, ...]:
    if isinstance(node, _Concat):
        return node.children
    return (node.child,) if isinstance(node, _Wrapped) else ()


def segments(doc: Doc, width: int = 80) -> Iterator[tuple[str, str]]:
    """The document as ``(role, text)`` pairs, within ``width`` columns where breaks allow. Line breaks have role ''."""
    return _with_notes(doc, width) if doc.noted else _layout(doc, width)


def to_string(doc: Doc, width: int = 80) -> str:
    """The document as plain text."""
    return "".join([piece for _, piece in segments(doc, width)])


def _layout(doc: Doc, width: int) -> Iterator[tuple[str, str]]:
    """Segments without notes; a note is yielded in place as ``('note', text)``."""
    column = 0
    # (indentation, whether breaks are flat, node to print)
    stack: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while stack:
        indent, flat, node = stack.pop()
        if isinstance(node, _Text):
            column += node.width
            yield node.role, node.text
        elif isinstance(node, _Concat):
            stack += [(indent, flat, child) for child in reversed(node.children)]
        elif isinstance(node, _Break):
            if flat:
                column += node.width
                if node.width:
                    yield node.role, node.text
            else:
                column = indent
                yield "", "\n" + " " * indent
        elif isinstance(node, _Group):
            # As in JAX, the group alone must fit, without the rest of its line.
            fits = flat or (not node.noted and node.width <= width - column)
            stack.append((indent, fits, node.child))
        elif isinstance(node, _Nest):
            step = node.indent
            stack.append((column if step is None else indent + step, flat, node.child))
        elif isinstance(node, _Note):
            yield "note", node.text


def _with_notes(doc: Doc, width: int) -> Iterator[tuple[str, str]]:
    """Segments with each line's notes at its end. The longest line decides the notes' column."""
    lines: list[list[tuple[str, str]]] = [[]]
    notes: list[list[str]] = [[]]
    for role, piece in _layout(doc, width):
        if role == "note":
            notes[-1].append(piece)
            continue
        if piece[:1] == "\n":
            lines.append([])
            notes.append([])
        lines[-1].append((role, piece))
    lengths = [sum(len(piece.lstrip("\n")) for _, piece in line) for line in lines]
    column = max(lengths)  # as in JAX, the length of the longest line, with or without notes
    for line, length, noted in zip(lines, lengths, notes, strict=True):
        yield from line
        if noted:
            yield "", " " * (column - length + 1)
            yield "comment", "# " + "; ".join(noted)
