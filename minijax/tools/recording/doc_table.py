"""Conversion of documents to rows of JSON values and back. Files of recordings store jaxprs this way.

A row is ``["t", role, text]``, ``["b", role, flat]`` (a break), ``["n", text]`` (a note), ``["c", i, j, ...]`` (a
concatenation), ``["r", left out, i, j, ...]`` (equations), ``["i", columns or null, i]`` (indented or aligned) or
``["g", i]`` (a group); i and j are indices of earlier rows. Equal parts share a row. Documents may have any depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.ir.doc import ROLES, Doc, _Break, _children, _Concat, _Group, _Nest, _Note, _Rows, _Text

# Size limits, because a few rows that refer to each other can make a huge document. After each break, all columns of
# indentation count.
MOST_PARTS = 5_000_000
MOST_CHARACTERS = 50_000_000
# Assumed indentation of aligned parts, in columns.
_ALIGNED = 100

_ROLES = frozenset(ROLES)


class DocTable:
    """Collects documents; ``rows`` is the table."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._known: dict[tuple[Any, ...], int] = {}

    def add(self, doc: Doc) -> int:
        """The index of the row for ``doc``."""
        done: dict[int, int] = {}
        todo = [(doc, False)]
        while todo:
            node, below_done = todo.pop()
            if id(node) in done:
                continue
            below = _children(node)
            if below and not below_done:
                todo.append((node, True))
                todo += [(child, False) for child in below]
            else:
                done[id(node)] = self._number(_row(node, [done[id(child)] for child in below]))
        return done[id(doc)]

    def _number(self, row: list[Any]) -> int:
        key = tuple(row)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.rows)
            self.rows.append(row)
        return number


def _row(node: Doc, below: list[int]) -> list[Any]:
    if isinstance(node, _Rows):
        return ["r", node.left_out, *below]
    if isinstance(node, _Concat):
        return ["c", *below]
    if isinstance(node, _Nest):
        return ["i", node.indent, *below]
    if isinstance(node, _Group):
        return ["g", *below]
    if isinstance(node, _Note):
        return ["n", node.text]
    assert isinstance(node, (_Text, _Break))
    return ["t" if isinstance(node, _Text) else "b", node.role, node.text]


def read_table(rows: Any) -> list[Doc]:
    """The documents of a table, one for each row. ValueError if a row is invalid."""
    if type(rows) is not list:
        raise ValueError("the documents are no list")
    docs: list[Doc] = []
    parts: list[int] = []
    breaks: list[int] = []
    characters: list[int] = []
    for number, row in enumerate(rows):
        below = [] if type(row) is not list or not row else _below(row)
        if any(type(i) is not int or not 0 <= i < number for i in below):
            raise ValueError(f"row {number} of the documents may refer only to earlier rows")
        doc = _doc(row, [docs[i] for i in below])
        if doc is None:
            raise ValueError(f"row {number} of the documents is of no known kind")
        parts.append(1 + sum([parts[i] for i in below]))
        if parts[-1] > MOST_PARTS:
            raise ValueError(f"a document has more than {MOST_PARTS:,} parts")
        breaks.append(isinstance(doc, _Break) + sum([breaks[i] for i in below]))
        characters.append(sum([characters[i] for i in below]) + _own_characters(doc, breaks[-1]))
        if characters[-1] > MOST_CHARACTERS:
            raise ValueError(f"a document has more than {MOST_CHARACTERS:,} characters")
        docs.append(doc)
    return docs


def _own_characters(doc: Doc, breaks: int) -> int:
    if isinstance(doc, (_Text, _Break, _Note)):
        return len(doc.text)
    return breaks * (_ALIGNED if doc.indent is None else doc.indent) if isinstance(doc, _Nest) else 0


def _below(row: Sequence[Any]) -> Sequence[Any]:
    return row[{"c": 1, "g": 1, "r": 2, "i": 2}.get(row[0], len(row)) if type(row[0]) is str else len(row) :]


def _doc(row: Any, below: list[Doc]) -> Doc | None:
    """The document of a row, with the documents ``below`` as its parts; None if the row is invalid."""
    if type(row) is not list or not row:
        return None
    match row:
        case ["t", str(role), str(text)] if role in _ROLES:
            return _Text(text, role)
        case ["b", str(role), str(text)] if role in _ROLES:
            return _Break(text, role)
        case ["n", str(text)]:
            return _Note(text)
        case ["c", *_]:
            return _Concat(tuple(below))
        case ["r", int(left_out), *_] if type(left_out) is int and left_out >= 0:
            return _Rows(tuple(below), left_out)
        case ["i", None, _]:
            return _Nest(None, below[0])
        case ["i", int(indent), _] if type(indent) is int and 0 <= indent <= 1000:
            return _Nest(indent, below[0])
        case ["g", _]:
            return _Group(below[0])
    return None
