"""Questions and keys of a full screen. A table of ``Key`` objects defines the key bindings and the help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from minijax.core.records import Frozen
from minijax.tools.documents.document import Line, line

# columns reserved for an answer
_ANSWER = 16


class Question:
    """A question on the last line.

    Args:
      label: the question; it may end with an example in brackets, or with two spaces and the choices.
      answer: called with the answer.
      single: whether the answer is one character.
      text: the initial text of the answer.
    """

    def __init__(self, label: str, answer: Callable[[str], None], single: bool = False, text: str = "") -> None:
        self.label = label
        self.answer = answer
        self.single = single
        self.text = text

    def fits(self, columns: int) -> bool:
        """Whether an answer fits beside the whole label."""
        return len(self.label) + _ANSWER <= columns

    def fitting(self, columns: int) -> str:
        """The label, without its example or choices if they leave no room for an answer."""
        if self.fits(columns):
            return self.label
        return self.label.partition("  " if "  " in self.label else " (")[0]


class Key(Frozen):
    """Keys with the same action. ``keys`` has prompt_toolkit's names; ``shown`` and ``help`` are their help line."""

    keys: tuple[str, ...]
    action: Callable[[Any], None]
    shown: str
    help: str


def group_lines(heading: str, keys: tuple[Key, ...], room: int) -> Iterator[Line]:
    """A group of keys in the help; the descriptions begin at column ``room``."""
    yield line(("heading", f" {heading}"))
    for key in keys:
        if key.shown:
            gap = " " * max(room - len(key.shown), 0 if room else 2)
            yield line(("primitive", f"  {key.shown}"), gap, key.help)
