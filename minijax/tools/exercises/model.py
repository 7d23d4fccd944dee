"""What an exercise is, and what its checker says of an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minijax.core.named import Frozen
from minijax.tools.documents.document import Block


class NotYet(Exception):
    """An answer is not right. The text says what about it, from what was measured.

    Attributes:
      shown: what was measured, to stand below the text.
      error: what the user's function raised, if that is what is wrong; its traceback is shown.
    """

    def __init__(self, said: str, shown: tuple[Block, ...] = (), error: Exception | None = None) -> None:
        super().__init__(said)
        self.shown = shown
        self.error = error


class Answer:
    """What stands in the user's namespace, as a checker sees it."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise NotYet(f"There is no {name} any more: %tour again gives the start code back.")
        return self.names[name]

    def function(self, name: str) -> Callable[..., Any]:
        """A function of the user's."""
        found = self[name]
        if not callable(found):
            raise NotYet(f"{name} is {type(found).__name__} {found!r}, and should be a function.")
        return found  # type: ignore[no-any-return]


class Passed(Frozen):
    """An answer is right: what was measured, in words, and more to show."""

    said: str
    shown: tuple[Block, ...] = ()


class Exercise(Frozen):
    """One exercise.

    Attributes:
      name: a short name for it, ``jvp-rule``.
      title: what to do, in a few words.
      lesson: what there is to know, in a few lines.
      task: what to write, in a line or two.
      start: code that is run when the exercise is opened, and shown.
      asks: the names of the start code that the answer gives another meaning.
      check: looks at the answer; raises ``NotYet``. Exceptions of the user's functions pass.
      hints: from the first push to nearly the whole answer.
      solutions: code that ``check`` accepts; the first one is shown to who asks, the others are other ways.
      why: what to say beside the solution.
      given: names that the start code needs and that are not JAX's.
    """

    name: str
    title: str
    lesson: str
    task: str
    start: str
    asks: tuple[str, ...]
    check: Callable[[Answer], Passed]
    hints: tuple[str, ...]
    solutions: tuple[str, ...]
    why: str
    given: Callable[[], dict[str, Any]] = dict
