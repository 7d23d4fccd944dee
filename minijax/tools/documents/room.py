"""Limits for the size of a notebook's outputs, which are saved with the notebook and drawn whenever it is opened.

The HTML of a program with ten thousand equations is larger than 1 MB. The first lines of each block are kept. If
lines are cut, a line gives their number and says how to see them.
"""

from __future__ import annotations

from collections.abc import Iterable

from minijax.tools.documents.document import Document, lay_out
from minijax.tools.documents.theme import visible

# Maximum number of characters of an output, and of one block, so that a long program leaves space for later blocks.
MOST_HTML, MOST_HTML_OF_BLOCK = 145_000, 130_000
MOST_TEXT, MOST_TEXT_OF_BLOCK = 32_000, 25_000


class Room:
    """The number of characters left in an output. ``rest`` says how to see the parts that were cut."""

    def __init__(self, most: int, of_block: int, rest: str = "") -> None:
        self.left = most
        self.of_block = of_block
        self.rest = rest

    def take(self, pieces: Iterable[str]) -> tuple[list[str], int]:
        """The first pieces of a block, as many as fit, and the number of the other pieces."""
        kept: list[str] = []
        missing, left = 0, min(self.left, self.of_block)
        for each in pieces:
            # after the first piece that does not fit, later ones are cut too, even short ones
            if missing or len(each) + 1 > left:
                missing += 1
                continue
            left -= len(each) + 1
            self.left -= len(each) + 1
            kept.append(each)
        return kept, missing

    def said(self, missing: int, what: str = "line") -> str:
        """``... 300 more lines (print(_) shows all)``"""
        return f"... {missing:,} more {what}{'' if missing == 1 else 's'} {self.rest}".rstrip()


def brief_text(doc: Document, width: int, rest: str) -> str:
    """``doc`` as text without colours, cut to the size limits."""
    room = Room(MOST_TEXT, MOST_TEXT_OF_BLOCK, rest)
    lines: list[str] = []
    for block in doc.blocks:
        laid_out = lay_out(Document((block,)), width)
        kept, missing = room.take(visible("".join(piece for _, piece in each).rstrip()) for each in laid_out)
        lines += kept
        if missing:
            lines.append(room.said(missing))
    return "\n".join(lines)


def brief(text: str, rest: str) -> str:
    """``text``, cut to the size limits."""
    room = Room(MOST_TEXT, MOST_TEXT_OF_BLOCK, rest)
    kept, missing = room.take(text.split("\n"))
    return "\n".join([*kept, room.said(missing)] if missing else kept)
