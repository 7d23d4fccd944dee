"""The parts of the guided tour, read from ``tour.md``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from minijax.tools.commands.guide import Part, Stop
from minijax.tools.exercises.pages import TextPiece, pages


def _stops(pieces: list[TextPiece]) -> Iterator[Stop]:
    for before, piece, after in zip(pieces, pieces[1:], [*pieces[2:], TextPiece("", "")], strict=False):
        if piece.mark == "```":
            yield Stop(before.text, piece.text, after.text if after.mark == "> " else "", piece.words == ("raises",))


PARTS = tuple(
    Part(title, about.text, tuple(_stops(pieces)))
    for title, (about, *pieces) in pages(Path(__file__).with_name("tour.md"))
)
