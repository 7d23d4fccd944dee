"""Read the texts of the tour and of the exercises, which are Markdown files.

A page begins with a heading, ``# title``. Its pieces are paragraphs, quotes (``> text``), lists (``1. item``) and code
between lines of three backticks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.core.records import NamedTuple

_PIECE = re.compile(r"^```(?P<words>.*)\n(?P<code>[\s\S]*?)\n```$|^(?P<mark># |> |1\. )?(?P<text>.+(?:\n.+)*)", re.M)
EXERCISES = Path(__file__).with_name("exercises.md")


class TextPiece(NamedTuple):
    """A piece of a page. ``mark`` is '> ', '1. ', '```' or '' for a paragraph; ``words`` are those after the backticks.
    ``items`` are the items of a list.
    """

    mark: str
    text: str
    words: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


def pages(path: Path) -> Iterator[tuple[str, list[TextPiece]]]:
    """The title and the pieces of each page of a file."""
    title, found = "", list[TextPiece]()
    # the text before the first heading says what the file is
    text = path.read_text(encoding="utf-8")
    for match in _PIECE.finditer(text, text.index("\n# ")):
        if match["mark"] == "# ":
            if title:
                yield title, found
            title, found = match["text"], []
        elif match["mark"] == "1. ":
            found.append(TextPiece("1. ", "", items=tuple(map(_joined, re.split(r"\n\d+\. ", match["text"])))))
        elif match["code"] is not None:
            found.append(TextPiece("```", match["code"], tuple(match["words"].split())))
        else:
            found.append(TextPiece(match["mark"] or "", _joined(match["text"].replace("\n> ", "\n"))))
    yield title, found


def _joined(text: str) -> str:
    return " ".join(text.split())


@functools.cache
def start_names(exercise: str) -> dict[str, Any]:
    """The names that the start code of an exercise defines, for comparison with an answer."""
    pieces = next(pieces for title, pieces in pages(EXERCISES) if title.startswith(exercise))
    names: dict[str, Any] = {"jnp": jnp, "lax": lax}
    exec(next(piece.text for piece in pieces if piece.mark == "```"), names)
    return names
