"""What a full screen asks and which keys it has: tables from which the bindings and the help are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from minijax.core.records import Frozen
from minijax.tools.documents.document import Line, line

# so many columns are kept for an answer
_ANSWER = 16


class Question:
    """Something asked for on the last line.

    Args:
      label: what is asked, with an example in brackets that is left out where there is no room for it; or a word,
        two spaces and choices.
      answer: what is done with the answer.
      single: whether one character is the whole answer.
      text: what stands there already.
    """

    def __init__(self, label: str, answer: Callable[[str], None], single: bool = False, text: str = "") -> None:
        self.label = label
        self.answer = answer
        self.single = single
        self.text = text

    def fits(self, columns: int) -> bool:
        """Whether there is room for an answer beside the whole label."""
        return len(self.label) + _ANSWER <= columns

    def fitting(self, columns: int) -> str:
        """The label, so short that there is room for an answer beside it. Choices then stand above it."""
        if self.fits(columns):
            return self.label
        return self.label.partition("  " if "  " in self.label else " (")[0]


class Key(Frozen):
    """Keys as prompt_toolkit calls them, what they do, and how the help says it: the keys, and the deed."""

    keys: tuple[str, ...]
    action: Callable[[Any], None]
    shown: str
    help: str


def group_lines(heading: str, keys: tuple[Key, ...], room: int) -> Iterator[Line]:
    """A group of keys as the help lists them, what they do after ``room`` columns."""
    yield line(("heading", f" {heading}"))
    for key in keys:
        if key.shown:
            gap = " " * max(room - len(key.shown), 0 if room else 2)
            yield line(("primitive", f"  {key.shown}"), gap, key.help)
