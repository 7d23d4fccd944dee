"""A user's way through the exercises: the open exercise, the progress, and the user values that it replaced."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from typing import Any

from minijax.tools.documents.document import Block, Code, Document, Row, Segment, document, line, text
from minijax.tools.exercises.catalogue import EXERCISES
from minijax.tools.exercises.model import Answer, Exercise, NotYet, Passed
from minijax.tools.exercises.rules import forget_primitives
from minijax.tools.session.lent import LentNames, names_in
from minijax.tools.session.namespace import initial_names
from minijax.tools.session.result import Result
from minijax.tools.session.session import Session
from minijax.tools.usage import UsageError

# names that can be used in every exercise
_ALWAYS = ("minijax", "jnp", "lax", "jit", "grad", "vmap", "jvp", "vjp", "make_jaxpr")
_MARKS = {"done": ("good", "✓"), "tried": ("warning", "~"), "": ("muted", "·")}


class Progress:
    """The progress in one exercise.

    Attributes:
      attempts: the number of checks.
      done: whether an answer was right.
      hints: the number of hints shown.
      kept: name -> its value when the user left the exercise. The next start restores these values.
      written: name -> the statement with which the user defined this value.
    """

    def __init__(self) -> None:
        self.attempts = 0
        self.done = False
        self.hints = 0
        self.kept: dict[str, Any] = {}
        self.written: dict[str, str] = {}

    @property
    def mark(self) -> tuple[str, str]:
        """The role and the mark of this exercise in the list."""
        return _MARKS["done" if self.done else "tried" if self.attempts else ""]


class ExerciseCourse:
    """The exercises of one session. ``open`` is the index of the open exercise; None if none is open."""

    def __init__(self, session: Session, exercises: tuple[Exercise, ...] = EXERCISES) -> None:
        self.session = session
        self.exercises = exercises
        self.progress = [Progress() for _ in exercises]
        self.open: int | None = None
        self.lent = LentNames(session.namespace)
        # name -> value: the exercise's own names after its start code, and the other names that the exercise uses
        self.begun: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        # the index of the first input that may be an answer
        self.opened_at = 0
        self.first = True

    # --- opening and leaving

    def overview(self) -> Document:
        """All exercises, each with a mark."""
        done = sum(each.done for each in self.progress)
        heading = line(("heading", "Exercises"), ("muted", f"  {done} of {len(self.exercises)} done"))
        rows = []
        for number, (exercise, progress) in enumerate(zip(self.exercises, self.progress, strict=True)):
            place = ("level", f"{number + 1:>4} ")
            here = ("muted", "  open") if number == self.open else ("", "")
            rows.append(line(place, progress.mark, f" {exercise.title}", here))
        said = "✓ done, ~ tried. %tour ex 1 opens the first, %tour check tries your answer."
        return document(text(heading), text(*rows), text(said, role="muted", hanging=0))

    def start(self, number: int, anew: bool = False) -> Result:
        """Open an exercise: display it and run its start code. If it is open and not ``anew``, only display it."""
        self.refuse_unknown(number)
        exercise, progress = self.exercises[number], self.progress[number]
        blocks = list(self._task(number))
        if number == self.open and not anew:
            return Result(Document((*blocks, *self._code(exercise), self._keys())))
        blocks += self._code(exercise)
        returned = self._leave()
        if anew:
            progress.kept, progress.written = {}, {}
        self.given = given_names(exercise)
        try:
            borrowed = self.lent.borrow(dict.fromkeys((*own_names(exercise), *self.given)), self.given)
            blocks += _of_names(borrowed, returned)
            self.open = number
        except BaseException:  # such as Ctrl-C: the exercise is not open yet, so nothing else gives the names back
            self.lent.give_back(self.given)
            raise
        self.opened_at = len(self._typed())
        outcome = self.session.run_inner(exercise.start, f"<exercise-{number + 1}>")
        if outcome.error is not None:
            return Result(Document((*blocks, *outcome.shown.blocks)), error=outcome.error)
        self.begun = {name: self.session.namespace.get(name) for name in _defined(exercise.start)}
        if progress.kept:
            self.session.namespace.update(progress.kept)
            blocks.append(text("Your earlier answer is back; %tour again gives the start code.", role="muted"))
        blocks.append(self._keys())
        return Result(Document(tuple(blocks)))

    def refuse_unknown(self, number: int) -> None:
        """Raise UsageError if there is no exercise with this number."""
        if not 0 <= number < len(self.exercises):
            raise UsageError(f"there are exercises 1 to {len(self.exercises)}, and no exercise {number + 1}")

    def again(self) -> Result:
        """Start the open exercise again from its start code."""
        return self.start(self._opened(), anew=True)

    def next(self, steps: int = 1) -> Result:
        """Start the exercise ``steps`` after the open one."""
        number = self._opened() + steps
        if number == len(self.exercises):
            return Result(self.overview())
        if number < 0:
            raise UsageError("this is the first exercise; %tour next goes on")
        return self.start(number)

    def leave(self) -> Result:
        """Close the open exercise and restore the user's names."""
        self._opened()
        said = "You have left the exercises; %tour exercises lists them."
        return Result(Document((*_of_names([], self._leave()), text(said, role="muted"))))

    def _leave(self) -> list[str]:
        """Save the user's answer; restore the values that the exercise replaced, and return their names."""
        if self.open is None:
            return []
        exercise, space = self.exercises[self.open], self.session.namespace
        written = {name: space[name] for name in own_names(exercise) if name in space}
        changed = any(value is not self.begun.get(name) for name, value in written.items())
        progress = self.progress[self.open]
        progress.written, progress.kept = (self._written(), written) if changed else ({}, {})
        returned = self.lent.give_back(self.given)
        forget_primitives(self.given.values())
        self.open, self.begun, self.given = None, {}, {}
        return returned

    def _opened(self) -> int:
        if self.open is None:
            raise UsageError("no exercise is open: %tour ex 1 opens the first, %tour exercises lists them")
        return self.open

    # --- working on an exercise

    def check(self) -> Result:
        """Check the answer in the namespace, and say that it is right or what is wrong with it."""
        number = self._opened()
        exercise, progress = self.exercises[number], self.progress[number]
        progress.attempts += 1
        try:
            passed = exercise.check(Answer(self.session.namespace))
        except NotYet as found:
            return Result(Document(tuple(self._refused(number, found))), error=found.error)
        except Exception as error:
            said = "Your code raised an exception when it was checked:"
            blocks = (_verdict(("warning", f"{number + 1}  not yet. "), said), self._more(number))
            return Result(Document(blocks), error=error)
        progress.done = True
        return Result(Document(tuple(self._accepted(number, passed))))

    def _refused(self, number: int, found: NotYet) -> Iterator[Block]:
        exercise = self.exercises[number]
        yield _verdict(("warning", f"{number + 1}  not yet. "), str(found))
        yield from found.shown
        space = self.session.namespace
        if all(space.get(name) is self.begun.get(name) for name in exercise.asks):
            yield text("(This is still the start code: write your own at the prompt.)", role="muted")
        yield self._more(number)

    def _more(self, number: int) -> Block:
        """What to try next after a wrong answer."""
        left = len(self.exercises[number].hints) - self.progress[number].hints
        return text(f"%tour hint: {left} left" if left else "%tour solution shows our solution", role="muted")

    def _accepted(self, number: int, passed: Passed) -> Iterator[Block]:
        yield _verdict(("good", f"{number + 1}  ✓ right. "), passed.said)
        yield from passed.shown
        if all(each.done for each in self.progress):
            yield text("That was the last exercise: all are done.", role="good")
            return
        order = (*range(number + 1, len(self.progress)), *range(number))
        following = next(i for i in order if not self.progress[i].done)
        way = "next" if following == number + 1 else f"ex {following + 1}"
        said = f"%tour solution: why · %tour {way}: {self.exercises[following].title}"
        yield text(said, role="muted")

    def edit(self) -> Result:
        """Put the answer into the next input for editing: for each name the last typed statement, or start code."""
        exercise = self.exercises[self._opened()]
        written = {**_statements(exercise.start), **self._written()}
        parts = dict.fromkeys(written[name] for name in exercise.asks)
        separator = "\n" if all("\n" not in part for part in parts) else "\n\n"
        code = separator.join(parts)
        return Result(document(Code(code, "python")), next_input=code)

    def _typed(self) -> list[str]:
        """All inputs of the session so far."""
        typed = self.session.namespace.get("In")
        return typed if isinstance(typed, list) else []

    def _written(self) -> dict[str, str]:
        """name -> the last statement that the user typed for it, since the exercise was opened or in earlier visits."""
        found = dict(self.progress[self._opened()].written)
        for code in self._typed()[self.opened_at :]:
            with contextlib.suppress(SyntaxError, ValueError):  # the input is a command, or has a syntax error
                found.update(_statements(code))
        return found

    def hint(self) -> Result:
        """Show the hints shown before, and one more."""
        number = self._opened()
        exercise, progress = self.exercises[number], self.progress[number]
        progress.hints = min(progress.hints + 1, len(exercise.hints))
        rows = [Row(f"hint {i + 1}", (line(each),)) for i, each in enumerate(exercise.hints[: progress.hints])]
        left = len(exercise.hints) - progress.hints
        said = f"{left} left" if left else "that was the last hint; %tour solution shows our solution"
        return Result(Document((*rows, text(said, role="muted"))))

    def solution(self, use: bool = False) -> Result:
        """Show the first solution and its explanation. With ``use``, also run the solution."""
        number = self._opened()
        exercise = self.exercises[number]
        code = Code(exercise.solutions[0].rstrip("\n"), "python")
        blocks: list[Block] = [code, text(""), text(exercise.why, hanging=0)]
        if use:
            outcome = self.session.run_inner(exercise.solutions[0], f"<solution-{number + 1}>")
            blocks += outcome.shown.blocks
            # %tour edit shows the solution as if the user had typed it
            progress = self.progress[number]
            progress.written = {**self._written(), **_statements(exercise.solutions[0])}
            self.opened_at = len(self._typed())
        else:
            blocks.append(text("%tour solution --use defines it here.", role="muted"))
        return Result(Document(tuple(blocks)))

    # --- showing

    def _task(self, number: int) -> Iterator[Block]:
        exercise = self.exercises[number]
        title = f"Exercise {number + 1} of {len(self.exercises)}: {exercise.title}"
        done = ("good", "  ✓") if self.progress[number].done else ("", "")
        yield text(line(("heading", title), done))
        yield text(exercise.lesson, hanging=0)
        yield text(line(("level", "› "), ("label", exercise.task)), hanging=2)
        yield text("")

    def _code(self, exercise: Exercise) -> Iterator[Block]:
        yield Code(exercise.start.rstrip("\n"), "python")
        yield text("")

    def _keys(self) -> Block:
        if not self.first:
            return text("%tour edit · check · hint · solution · next", role="muted")
        self.first = False
        return text(
            "The code above is defined. Change it with %tour edit, or write your own code under the "
            "same names; %tour check runs it. Also: %tour hint, solution, again (from the start), next, stop.",
            role="muted",
            hanging=0,
        )


def _of_names(borrowed: list[str], returned: list[str]) -> Iterator[Block]:
    """Say which user values are restored, and which are replaced, when another exercise opens."""
    again = [name for name in returned if name not in borrowed]
    taken = [name for name in borrowed if name not in returned]
    if again:
        yield text(f"Yours again: {', '.join(again)}.", role="muted")
    if taken:
        word, back = ("name", "comes") if len(taken) == 1 else ("names", "come")
        said = f"The exercise uses the {word} {', '.join(taken)}; yours {back} back at %tour stop."
        yield text(said, role="warning")


def _verdict(head: Segment, said: str) -> Block:
    """The first line of a check's result."""
    return text(line(head, said), hanging=3)


def own_names(exercise: Exercise) -> list[str]:
    """The names that the code of an exercise and of its solutions defines."""
    return list(dict.fromkeys(name for code in (exercise.start, *exercise.solutions) for name in _defined(code)))


def given_names(exercise: Exercise) -> dict[str, Any]:
    """name -> value before the start code runs: values that the exercise gives, and the JAX names that it uses."""
    known, own = initial_names(), own_names(exercise)
    read = names_in("\n".join((exercise.start, *exercise.solutions)))[1]
    given = {name: known[name] for name in (*read, *_ALWAYS) if name in known and name not in own}
    return {**given, **exercise.given()}


def _defined(code: str) -> list[str]:
    """The global names that ``code`` defines."""
    return list(_statements(code))


def _statements(code: str) -> dict[str, str]:
    """name -> text of the last statement that defines it, for the global names that ``code`` defines."""
    found: dict[str, str] = {}
    lines = code.split("\n")
    for statement in ast.parse(code).body:
        names: list[str] = []
        first = statement.lineno
        if isinstance(statement, ast.FunctionDef):
            names = [statement.name]
            first = min((first, *(each.lineno for each in statement.decorator_list)))
        elif isinstance(statement, ast.ImportFrom):
            names = [alias.asname or alias.name for alias in statement.names]
        elif isinstance(statement, ast.Assign):
            names = [node.id for each in statement.targets for node in ast.walk(each) if isinstance(node, ast.Name)]
        found.update(dict.fromkeys(names, "\n".join(lines[first - 1 : statement.end_lineno])))
    return found
