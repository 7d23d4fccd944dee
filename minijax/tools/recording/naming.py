"""What the values of a full recording are called: by the user's variables, or by the part of the program that computes
them.

An operation is the *user's* if no other operation asked for it on the same line: the operations inside it are its
rules'. Of a value that no variable ever held, the name is the expression whose result it is: ``a @ w1``. Where an
expression takes several operations, the others are called by their primitives: ``reduce_sum #12``.
"""

from __future__ import annotations

from collections.abc import Iterator

from minijax.tools.documents.words import shortened
from minijax.tools.recording.records import BindRecord, LifeRecord, Node, Recording, ScopeRecord

MOST_NAME = 40


def operations(recording: Recording) -> Iterator[tuple[BindRecord, int]]:
    """The user's operations in order, each with the number of binds and scopes around it."""
    # (record, how many enclose it, the place of the innermost operation around it)
    todo: list[tuple[Node, int, str | None]] = [(node, 0, None) for node in reversed(recording.tree)]
    while todo:
        node, depth, place = todo.pop()
        if isinstance(node, BindRecord):
            if node.place != place:
                yield node, depth
            todo += [(child, depth + 1, node.place) for child in reversed(node.children)]
        elif isinstance(node, ScopeRecord):
            todo += [(child, depth + 1, place) for child in reversed(node.children)]


class Naming:
    """The names of a recording's values, by number.

    Attributes:
      lives: number -> the life of that tracer or array.
      makers: number -> the user's operation whose result it is.
      expressions: number -> the expression that it is the whole result of.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.lives: dict[int, LifeRecord] = {life.tracer.id: life for life in recording.lives}
        self.makers: dict[int, BindRecord] = {}
        self.expressions: dict[int, str] = {}
        last: BindRecord | None = None
        for bind, _ in operations(recording):
            for number in bind.results:
                if number:
                    self.makers.setdefault(number, bind)
            if last is not None and (last.place, last.expression) != (bind.place, bind.expression):
                self._ends(last)
            last = bind
        if last is not None:
            self._ends(last)

    def _ends(self, bind: BindRecord) -> None:
        """``bind`` is the last operation of its expression."""
        if bind.expression and len(bind.results) == 1 and bind.results[0]:
            self.expressions.setdefault(bind.results[0], bind.expression)

    def variable(self, number: int) -> str:
        """What the user's variable is called that held the value first; '' if none did."""
        life = self.lives.get(number)
        return "" if life is None else life.name

    def name(self, number: int) -> str:
        """The value in the user's words: ``h``, ``params['w']``, ``a @ w1``; else ``mul #12``; '' for no number."""
        if not number:
            return ""
        found = self.variable(number) or self.expressions.get(number, "")
        if found:
            return shortened(found, MOST_NAME)
        maker = self.makers.get(number)
        return f"{maker.primitive} #{number}" if maker is not None else f"#{number}"

    def operands(self, bind: BindRecord) -> list[str]:
        """The operands of an operation: their names, and of what has none its value."""
        return [
            self.name(number) if number else text
            for number, text in zip((*bind.operands, *[0] * len(bind.args)), bind.args, strict=False)
        ]

    def results(self, bind: BindRecord) -> list[str]:
        """The results of an operation that variables hold: their names; '' for the others."""
        return [self.variable(number) for number in bind.results]

    def operation(self, bind: BindRecord) -> str:
        """An operation on one short line: ``h = tanh(a @ w1)``."""
        said = f"{bind.primitive}({', '.join(self.operands(bind))})"
        results = self.results(bind)
        return f"{', '.join(each or '_' for each in results)} = {said}" if any(results) else said
