"""The data of an exercise, and the verdict of its checker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minijax.core.records import Frozen
from minijax.tools.documents.document import Block


class NotYet(Exception):
    """The user's answer is not right. The message says what is wrong, based on measurements.

    Attributes:
    shown: the measurements, displayed below the message.
    error: the exception of the user's function, if that is the problem; its traceback is displayed.
    """

    def __init__(self, said: str, shown: tuple[Block, ...] = (), error: Exception | None = None) -> None:
        super().__init__(said)
        self.shown = shown
        self.error = error


class Answer:
    """The user's namespace, as a checker sees it."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise NotYet(f"There is no {name} any more: %tour again gives the start code back.")
        return self.names[name]

    def function(self, name: str) -> Callable[..., Any]:
        """The user's function of this name."""
        found = self[name]
        if not callable(found):
            raise NotYet(f"{name} is {type(found).__name__} {found!r}, and should be a function.")
        return found  # type: ignore[no-any-return]


class Passed(Frozen):
    """The verdict that an answer is right. ``said``: the measurements in words. ``shown``: more to display."""

    said: str
    shown: tuple[Block, ...] = ()


class Exercise(Frozen):
    """One exercise.

    Attributes:
      name: its short name, such as ``jvp-rule``.
      title: the goal in a few words.
      lesson: the background, in a few lines.
      task: what the user has to write, in a line or two.
      start: code that is displayed and run when the exercise is opened.
          asks: the names in the start code that the user has to define again.
      check: checks the answer; raises ``NotYet``. Exceptions of the user's functions propagate.
      hints: from a first idea to nearly the whole answer.
      solutions: code that ``check`` accepts; %tour solution displays the first one, the others are alternatives.
      why: the explanation below the solution.
      given: returns name -> value for names that the start code needs and that JAX does not have.
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
