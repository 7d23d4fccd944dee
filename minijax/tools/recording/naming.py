"""What the values of a full recording are called: by the user's variables, or by the part of the program that computes
them.

An operation is the *user's* if no other operation asked for it on the same line: the operations inside it are its
rules'. Of a value that no variable ever held, the name is the expression whose result it is: ``a @ w1``; of what is
inside a tracer, ``primal of h``. Where an expression takes several operations, the others are called by what computes
them, ``reduce_sum(e ** 2)``, or by their number, ``reduce_sum #12``.

A name is never guessed. A variable's was seen to hold the value. An expression's result is the one value that other
parts of the program take from the operations that the expression asked for in a row; where they take several, or where
functions of the user's ran in between, none of them gets its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from minijax.tools.documents.words import shortened
from minijax.tools.recording.records import BindRecord, LifeRecord, Node, Recording, ScopeRecord

MOST_NAME = 40
# A value without a name is called by what computes it if that takes no more characters.
MOST_COMPUTED = 32
# How far ``primal of primal of h`` is followed.
MOST_LEVELS = 4
# What a field of a tracer is called before the tracer's name.
_ROLES = {"primal": "primal of ", "tangent": "tangent of ", "batched": "batched "}
# Operations that functions like those of ``jnp`` put before an operand so that it fits: the user wrote the operand.
_FITTING = frozenset(("broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "copy"))


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


def naming_of(recording: Recording) -> Naming:
    """The names of a recording's values: one object for each recording."""
    found = recording.__dict__.get("_naming")
    if not isinstance(found, Naming):
        found = recording.__dict__["_naming"] = Naming(recording)
    return found


class Naming:
    """The names of a recording's values, by number. What takes a pass over the recording is made at first need.

    Attributes:
      recording: the recording.
      names: number -> what ``name`` gave.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.names: dict[int, str] = {}

    @cached_property
    def lives(self) -> dict[int, LifeRecord]:
        """Number -> the life of that tracer or array."""
        return {life.tracer.id: life for life in self.recording.lives}

    @cached_property
    def held_by(self) -> dict[int, tuple[str, int]]:
        """Number -> the first tracer that holds the value, and as what: 'primal'."""
        out: dict[int, tuple[str, int]] = {}
        for life in self.recording.lives:
            tracer = life.tracer
            for (key, _), number in zip(tracer.fields, tracer.holds, strict=False):
                if number:
                    out.setdefault(number, (key, tracer.id))
        return out

    @cached_property
    def makers(self) -> dict[int, BindRecord]:
        """Number -> the outermost operation whose result it is, of the user's or of a rule."""
        out: dict[int, BindRecord] = {}
        for _, node in self.recording.walk():
            if isinstance(node, BindRecord):
                for number in node.results:
                    if number:
                        out.setdefault(number, node)
        return out

    @cached_property
    def expressions(self) -> dict[int, str]:
        """Number -> the expression that it is the result of."""
        return dict(_results(self.recording))

    def variable(self, number: int) -> str:
        """What the user's variable is called that held the value first; '' if none did."""
        life = self.lives.get(number)
        return "" if life is None else life.name

    def known(self, number: int) -> str:
        """The name of a value that a variable, an expression or a named tracer has; '' if none does."""
        found = self.names.get(number)
        if found is None:
            found = self.names[number] = self._known(number)
        return found

    def _known(self, number: int) -> str:
        roles = ""
        for _ in range(MOST_LEVELS):
            found = self.variable(number) or self.expressions.get(number, "")
            if found:
                # ``tangent of (a @ b)``: what is within is one thing
                return roles + (f"({found})" if roles and not _is_path(found) else found)
            role, number = self.held_by.get(number, ("", 0))
            if role not in _ROLES:
                return ""
            roles += _ROLES[role]
        return ""

    def name(self, number: int) -> str:
        """The value in the user's words: ``h``, ``params['w']``, ``a @ w1``, ``primal of h``, ``reduce_sum(e ** 2)``;
        else ``mul #12``; '' for no number.
        """
        if not number:
            return ""
        found = self.known(number)
        if found:
            return shortened(found, MOST_NAME)
        maker = self.makers.get(number)
        if maker is None:
            return f"#{number}"
        if len(maker.results) == 1 and all(map(self.known, filter(None, maker.operands))):
            said = f"{maker.primitive}({', '.join(self.operands(maker))})"
            if len(said) <= MOST_COMPUTED:
                return said
        return f"{maker.primitive} #{number}"

    def operands(self, bind: BindRecord, fitted: bool = False) -> list[str]:
        """The operands of an operation: their names, and of what has none its value.

        Args:
          fitted: an operand that was only made to fit, in the same expression, is called by what it was made of:
            ``b`` for the ``broadcast_in_dim(b)`` of ``h + b``.
        """
        numbers = (*bind.operands, *[0] * (len(bind.args) - len(bind.operands)))
        if fitted:
            numbers = tuple([self._before_fitting(number, bind) for number in numbers])
        return [self._operand(number, text) for number, text in zip(numbers, bind.args, strict=False)]

    def _operand(self, number: int, text: str) -> str:
        life = self.lives.get(number)
        if life is not None and ":" not in life.tracer.level and not self.known(number) and number not in self.makers:
            return text  # an array that came from outside
        return self.name(number) or text

    def _before_fitting(self, number: int, bind: BindRecord) -> int:
        while number and not self.known(number):
            maker = self.makers.get(number)
            if maker is None or maker.primitive not in _FITTING or len(maker.operands) != 1 or not maker.expression:
                break
            if not maker.operands[0] or (maker.place, maker.expression) != (bind.place, bind.expression):
                break
            number = maker.operands[0]
        return number

    def results(self, bind: BindRecord) -> list[str]:
        """The results of an operation that variables or named tracers hold: their names; '' for the others."""
        return [self._result(number) for number in bind.results]

    def _result(self, number: int) -> str:
        inside = number in self.held_by and number not in self.expressions
        return shortened(self.variable(number) or (self.known(number) if inside else ""), MOST_NAME)

    def assigned(self, bind: BindRecord) -> str:
        """``h`` of ``h = tanh(a @ w1)``, ``h, _`` of an operation with two results; '' if no variable holds any."""
        results = self.results(bind)
        return ", ".join(each or "_" for each in results) if any(results) else ""

    def operation(self, bind: BindRecord) -> str:
        """An operation on one short line: ``h = tanh(a @ w1)``."""
        assigned = self.assigned(bind)
        said = f"{called(bind)}({', '.join(self.operands(bind, fitted=True))})"
        return f"{assigned} = {said}" if assigned else said


def called(bind: BindRecord) -> str:
    """What an operation applies: its primitive, with the function of the user's that it runs: ``jit[loss]``."""
    name = next((value for key, value in bind.params if key in ("name", "fun")), "")
    return f"{bind.primitive}[{name}]" if name and name.isidentifier() else bind.primitive


def _is_path(name: str) -> bool:
    """Whether ``name`` is a variable with a path: ``params['w']``."""
    return not set(name) & set(" (+-*/@")


def _results(recording: Recording) -> Iterator[tuple[int, str]]:
    """The values that are results of expressions, with these."""
    # lines on which interpreters began: an expression there may have run functions of the user's
    places = {node.place for _, node in recording.walk() if isinstance(node, ScopeRecord)}
    # number -> the expressions whose operations, of the user's, were given it
    used: dict[int, set[tuple[str, str]]] = {}
    runs: list[list[BindRecord]] = []
    spot = ("", "")
    for bind, _ in operations(recording):
        if not bind.expression:
            # the engine runs over equations, for some expression of the user's that goes on
            spot = ("", "")
            continue
        here = (bind.place, bind.expression)
        if here != spot:
            runs.append([])
            spot = here
        runs[-1].append(bind)
        for number in bind.operands:
            if number:
                used.setdefault(number, set()).add(here)
    for run in runs:
        here = (run[0].place, run[0].expression)
        taken = [bind for bind in run for number in bind.results if number and used.get(number, set()) - {here}]
        if not taken and here[0] not in places and not any(used.get(number) for number in run[-1].results):
            taken = run[-1:]
        if len(taken) == 1 and len(taken[0].results) == 1 and here not in used.get(taken[0].results[0], ()):
            yield taken[0].results[0], here[1]
