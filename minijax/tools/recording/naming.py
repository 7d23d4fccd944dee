"""The names of the values in a full recording: the user's variables, or the expressions that compute the values.

An operation is the *user's* if no other operation called it on the same line; the operations inside it belong to rules.
A value that no variable held is named by the expression that computes it, ``a @ w1``, and a value inside a tracer by
the tracer, ``primal of h``. If an expression takes several operations, only its result has this name. Other values are
named by their operation, ``reduce_sum(e ** 2)``, or by number, ``reduce_sum #12``.

A name is never guessed. A variable names a value that it was seen to hold. An expression names one of the values that
its operations compute in one run: the only one that other parts of the program use. If other parts use several values,
or if the user's functions ran in between, the expression names no value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from minijax.tools.documents.words import shortened
from minijax.tools.recording.records import NAMES_PAST, BindRecord, LifeRecord, Node, Recording, ScopeRecord
from minijax.tools.recording.timeline import timeline

MOST_NAME = 40
_NAME = LifeRecord._names.index("name")
_PRIMITIVE = BindRecord._names.index("primitive")
# Words that occur in the texts of types and values, and so in names made of them.
_FIXED = "true false nan inf none bool key fry rbg unsafe token"
# A value without a name is shown as its computation, if that has no more characters than this.
MOST_COMPUTED = 32
# Longer texts of values are left to the panes; the operation's line shows the type instead.
MOST_VALUE = 32
# The longest chain of tracers in a name such as ``primal of primal of h``.
MOST_LEVELS = 4
# The number of tracers after a value that are searched for the tracer that holds the value.
MOST_AFTER = 64
# Limits: tracers that are listed by jaxpr variable; events of a recording that is searched for expressions.
MOST_LETTERED = 200_000
MOST_PASSED = 200_000
# The beginnings of names that are derived from another value's name.
_PRIMAL, _COTANGENT, _PART = "primal of ", "ct of ", "part of "
_ROLES = {"primal": _PRIMAL, "tangent": "tangent of ", "batched": "batched "}
# Operations that ``jnp`` functions, for example, insert to make an operand fit. The user wrote only the operand.
_FITTING = frozenset(("broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "copy"))


def operations(recording: Recording) -> Iterator[tuple[BindRecord, int]]:
    """The user's operations in order, each with its depth in binds and scopes."""
    # (record, its depth, the place of the innermost operation around it)
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
    """The names of a recording's values. There is one object for each recording."""
    found = recording.__dict__.get("_naming")
    if not isinstance(found, Naming):
        found = recording.__dict__["_naming"] = Naming(recording)
    return found


class _LivesByNumber(Mapping[int, LifeRecord]):
    """The lives of a recording by number. Each life is read when it is looked up."""

    def __init__(self, naming: Naming) -> None:
        self._naming = naming

    def __getitem__(self, number: int) -> LifeRecord:
        found = self._naming.life(number)
        if found is None:
            raise KeyError(number)
        return found

    def __iter__(self) -> Iterator[int]:
        return (life.tracer.id for life in self._naming.recording.lives)

    def __len__(self) -> int:
        return len(self._naming.recording.lives)


class Naming:
    """The names of a recording's values, by number. Work that reads the whole recording is done at first use, and only
    if the recording is not too long.
    Attributes:
      recording: the recording.
      names: number -> the result of ``known``.
      lines: in a log, number -> the number of the line that shows the operation that made the value.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.names: dict[int, str] = {}
        self.lines: dict[int, int] | None = None

    @cached_property
    def lives(self) -> Mapping[int, LifeRecord]:
        """Number -> the life of the tracer or array with this number."""
        return _LivesByNumber(self)

    def life(self, number: int) -> LifeRecord | None:
        """The life of the tracer or array with this number; None if nothing has this number."""
        known = self.recording.lives
        if 0 < number <= len(known) and known[number - 1].tracer.id == number:
            return known[number - 1]
        return None

    def held_by(self, number: int) -> tuple[str, int]:
        """The field and the number of the tracer that holds a value: ('primal', 6); ('', 0) if no tracer holds it. Only
        tracers seen soon after the value are searched.
        """
        known = self.recording.lives
        for life in known[number : number + MOST_AFTER] if number > 0 else ():
            if number in life.tracer.holds:
                return life.tracer.fields[life.tracer.holds.index(number)][0], life.tracer.id
        return "", 0

    @cached_property
    def lettered(self) -> dict[tuple[int, str], int]:
        """(scope of an interpreter, variable of its program) -> the number of the first tracer of that variable, or for
        a tangent's variable, of the first tracer with that tangent.
        """
        saved = timeline(self.recording).names
        if saved is not None:
            return saved().lettered
        out: dict[tuple[int, str], int] = {}
        for life in self.recording.lives[:MOST_LETTERED]:
            fields = life.tracer.fields
            key, letter = fields[-1] if fields else ("", "")
            if letter and (key == "variable" or key == "tangent" and fields[0][0] == "primal" and not _holds_two(life)):
                out.setdefault((life.scope, letter), life.tracer.id)
        return out

    @property
    def missing(self) -> str:
        """Which names are missing because a limit was reached; '' if none are."""
        said = [f"{count:,} {kind} were not kept" for kind, count in self.recording.cut if NAMES_PAST in kind]
        if self.recording.events > MOST_PASSED:
            said.append(f"expressions have no names in a recording of more than {MOST_PASSED:,} events")
        return "; ".join(said)

    def maker(self, number: int) -> BindRecord | None:
        """The outermost operation, the user's or a rule's, that returned the value; None if it came from outside."""
        life = self.life(number)
        # an operation's new result is first seen when the operation ends
        for node in timeline(self.recording).begun(life.born) if life is not None else ():
            if isinstance(node, BindRecord) and number in node.results:
                return node
        return None

    @cached_property
    def expressions(self) -> dict[int, str]:
        """Number -> the expression that computes the value. Empty for very long recordings, to save time."""
        saved = timeline(self.recording).names
        if saved is not None:
            return saved().expressions
        return dict(_results(self.recording)) if self.recording.events <= MOST_PASSED else {}

    @cached_property
    def words(self) -> str:
        """All names in one lower-case text, each once: variables, expressions and primitives."""
        saved = timeline(self.recording).names
        if saved is not None:
            return saved().words
        known = dict.fromkeys([life.values()[_NAME] for life in self.recording.lives])
        nodes = timeline(self.recording).nodes
        primitives = dict.fromkeys([node.values()[_PRIMITIVE] for node in nodes if type(node) is BindRecord])
        expressions = dict.fromkeys(self.expressions.values())
        return " ".join([_FIXED, *_ROLES.values(), _COTANGENT, _PART, *known, *primitives, *expressions]).lower()

    def unnamed(self, words: str) -> list[str]:
        """The words in ``words`` (lower case) that occur in no name, so only records' own texts can have them. Words
        with digits are left out, because they may be numbers or types, which may occur in any name.
        """
        pieces = re.findall(r"\w+", words)
        return [each for each in pieces if each not in self.words and not any(map(str.isdigit, each))]

    @cached_property
    def cotangents(self) -> dict[int, str]:
        """Number -> the name of a cotangent from the backward passes: ``ct of h``, ``part of ct of h``."""
        saved = timeline(self.recording).names
        if saved is not None:
            return saved().cotangents
        out: dict[int, str] = {}
        if self.recording.events > MOST_PASSED:
            return out
        for record in self.recording.backward:
            names = {i: self.together(n) for i, n in enumerate(record.primals) if n and i >= record.constants}
            last = {each.variable: each.number for step in record.steps for each in step.sums}
            last |= {each.variable: each.number for each in record.begins if each.variable not in last}
            for each in (*record.seeds, *record.begins, *[total for step in record.steps for total in step.sums]):
                name = names.get(each.variable, "")
                if name and each.number:
                    whole = last.get(each.variable, each.number) == each.number
                    out.setdefault(each.number, f"{'' if whole else _PART}{_COTANGENT}{name}")
        return out

    @cached_property
    def duals(self) -> dict[tuple[int, str], list[int]]:
        """The scope of a linearization and one of its variables -> the numbers of the values with that tangent."""
        out: dict[tuple[int, str], list[int]] = {}
        if timeline(self.recording).names is None:
            for life in self.recording.lives[:MOST_LETTERED]:
                if letter := _tangent_letter(life):
                    out.setdefault((life.scope, letter), []).append(life.tracer.id)
        return out

    def sharing(self, number: int) -> Sequence[int]:
        """The numbers of this value and of others with its tangent, in the order in which they were made."""
        life = self.life(number)
        letter = "" if life is None else _tangent_letter(life)
        return self.duals.get((life.scope, letter), ()) if life is not None and letter else ()

    def together(self, number: int) -> str:
        """The value's name, joined with the names of variables that have the same tangent: ``y and err`` after
        ``err = y - 1.0``; '' if there is no name.
        """
        own = own_name(self._forward(number))
        names = dict.fromkeys(self.variable(each) for each in self.sharing(number) if each != number)
        others = [each for each in names if each and each != own]
        if own and others and not _is_one(own):
            own = f"({own})"
        return " and ".join([own, *others] if own else others)

    def variable(self, number: int) -> str:
        """The user's variable that first held the value; '' if no variable held it."""
        life = self.life(number)
        return "" if life is None else life.name or self.again(number)[0]

    def again(self, number: int) -> tuple[str, str]:
        """For a value of a program that the engine runs again: the user's variable and the expression for the same
        value at staging; '' for each that is unknown.
        """
        for _ in range(MOST_LEVELS):
            life = self.life(number)
            if life is None or not life.again:
                break
            number = life.again
            staged = self.life(number)
            name, expression = "" if staged is None else staged.name, self.expressions.get(number, "")
            if name or expression:
                return name, expression
        return "", ""

    def known(self, number: int) -> str:
        """The name of a value by a variable, an expression or a named tracer; '' if it has none."""
        found = self.names.get(number)
        if found is None:
            found = self.names[number] = self._known(number)
        return found

    def path(self, number: int) -> Iterator[tuple[str, int]]:
        """(field, number) of the value, of the tracer that holds it, and so on: ('', 4), ('primal', 6), ..."""
        role = ""
        for _ in range(MOST_LEVELS):
            yield role, number
            role, number = self._holder(number)
            if role not in _ROLES:
                return

    def _known(self, number: int) -> str:
        return self._forward(number) or self.cotangents.get(number, "")

    def _forward(self, number: int) -> str:
        """The value's name from the forward pass, if it has one."""
        roles = ""
        for role, each in self.path(number):
            roles += _ROLES.get(role, "")
            found = self.variable(each) or self.expressions.get(each, "") or self.again(each)[1]
            if found:
                # ``tangent of (a @ b)``: brackets keep the name together
                return roles + (f"({found})" if roles and not _is_one(found) else found)
        return ""

    def _holder(self, number: int) -> tuple[str, int]:
        found = self.held_by(number)
        return found if found[1] else self._tangent_of(number)

    def _tangent_of(self, number: int) -> tuple[str, int]:
        """('tangent', the tracer with this tangent) if the value is a tangent on linearize's tape; else ('', 0)."""
        life = self.life(number)
        if life is None or len(life.tracer.fields) != 1 or life.tracer.fields[0][0] != "tangent":
            return "", 0
        dual = self.lettered.get((life.scope, life.tracer.fields[0][1]), 0)
        return ("tangent", dual) if dual and dual != number else ("", 0)

    def name(self, number: int) -> str:
        """The value in the user's words: ``h``, ``params['w']``, ``a @ w1``, ``primal of h``, ``reduce_sum(e ** 2)``;
        else ``mul #12``, in a log ``mul of line 3``; '' if ``number`` is 0.
        """
        if not number:
            return ""
        found = self.known(number)
        if found:
            return shortened(found, MOST_NAME)
        maker = self.maker(number)
        if maker is None:
            return f"#{number}" if self.lines is None else ""
        if len(maker.results) == 1 and all(self.known(n) or self._from_outside(n) for n in maker.operands if n):
            said = f"{maker.primitive}({', '.join(self.operands(maker))})"
            if len(said) <= MOST_COMPUTED:
                return said
        if self.lines is None:
            return f"{maker.primitive} #{number}"
        return f"{maker.primitive} of line {self.lines[number]}" if number in self.lines else f"a {maker.primitive}"

    def operands(self, bind: BindRecord, fitted: bool = False) -> list[str]:
        """The operands of an operation, each by its name, or by its value if it has no name.

        Args:
          fitted: if the same expression only made an operand fit, name the original value: ``b`` for the
              ``broadcast_in_dim(b)`` of ``h + b``.
        """
        numbers = (*bind.operands, *[0] * (len(bind.args) - len(bind.operands)))
        if fitted:
            numbers = tuple([self._before_fitting(number, bind) for number in numbers])
        return [self._operand(number, text) for number, text in zip(numbers, bind.args, strict=False)]

    def _operand(self, number: int, text: str) -> str:
        return text if self._from_outside(number) else self.name(number) or text

    def _from_outside(self, number: int) -> bool:
        """Whether the value is an array that no operation made and no variable holds. It is then shown as its value."""
        life = self.life(number)
        if life is None or ":" in life.tracer.level or self.known(number):
            return False
        return self.maker(number) is None

    def _before_fitting(self, number: int, bind: BindRecord) -> int:
        while number and not self.known(number):
            maker = self.maker(number)
            if maker is None or maker.primitive not in _FITTING or len(maker.operands) != 1 or not maker.expression:
                break
            if not maker.operands[0] or (maker.place, maker.expression) != (bind.place, bind.expression):
                break
            number = maker.operands[0]
        return number

    def results(self, bind: BindRecord, around: Node | None = None) -> list[str]:
        """The names of an operation's results that variables or named tracers hold; '' for other results. A value
        inside a result of ``around`` is named ``primal``, not ``primal of h``.
        """
        outer = around.results if isinstance(around, BindRecord) else ()
        return [self._result(number, outer) for number in bind.results]

    def _result(self, number: int, outer: tuple[int, ...]) -> str:
        if outer and number and number not in outer and not self.variable(number):
            role, holder = self._holder(number)
            if role in _ROLES and holder in outer:
                return role
        inside = number not in self.expressions and not self.again(number)[1]
        return shortened(self.variable(number) or (self.known(number) if inside else ""), MOST_NAME)

    def assigned(self, bind: BindRecord, around: Node | None = None) -> str:
        """What an operation assigns: ``h`` in ``h = tanh(a @ w1)``, ``h, _`` if its second result has no name; '' if no
        result has a name.
        """
        results = self.results(bind, around)
        return ", ".join(each or "_" for each in results) if any(results) else ""

    def outcome(self, bind: BindRecord) -> tuple[str, str]:
        """The result of an operation: its value and '' if the value is short, else '' and the types."""
        if len(bind.results) == 1 and bind.types:
            value = self.value(bind.results[0]) or (bind.out if not bind.results[0] else "")
            if value and value != bind.types[0] and len(value) <= MOST_VALUE:
                return value, ""
        return "", ", ".join(bind.types)

    def value(self, number: int) -> str:
        """The value of an array, or of the primal inside a tracer; '' if it is unknown or too long."""
        for _ in range(MOST_LEVELS):
            life = self.life(number)
            if life is None or not life.tracer.fields:
                return ""
            key, text = life.tracer.fields[0]
            if key == "value":
                return text
            if key != "primal" or not life.tracer.holds:
                return ""
            number = life.tracer.holds[0]
        return ""

    def operation(self, bind: BindRecord) -> str:
        """An operation as one short line: ``h = tanh(a @ w1)``."""
        assigned = self.assigned(bind)
        said = f"{called(bind)}({', '.join(self.operands(bind, fitted=True))})"
        return f"{assigned} = {said}" if assigned else said


def own_name(name: str) -> str:
    """``h`` for ``primal of h``, because both have the same value."""
    while name.startswith(_PRIMAL):
        name = name.removeprefix(_PRIMAL)
    return name[1:-1] if _in_brackets(name) else name


def _in_brackets(name: str) -> bool:
    """Whether the first bracket of ``name`` is closed by its last one: not in ``(a + b).sum()``."""
    depth = 0
    for i, c in enumerate(name):
        depth += (c == "(") - (c == ")")
        if depth <= 0:
            return bool(name) and name[0] == "(" and i == len(name) - 1
    return False


def called(bind: BindRecord) -> str:
    """The applied primitive, with the user's function that it runs: ``jit[loss]``."""
    name = next((value for key, value in bind.params if key in ("name", "fun")), "")
    return f"{bind.primitive}[{name}]" if name and name.isidentifier() else bind.primitive


def _tangent_letter(life: LifeRecord) -> str:
    """The variable of a linearize tracer's tangent; '' for other tracers."""
    fields = life.tracer.fields
    dual = len(fields) == 2 and fields[0][0] == "primal" and fields[1][0] == "tangent" and not _holds_two(life)
    return fields[1][1] if dual else ""


def _holds_two(life: LifeRecord) -> bool:
    """Whether a tracer holds its tangent as a value rather than as a variable."""
    return len(life.tracer.holds) == 2


@lru_cache(maxsize=4096)
def _is_one(name: str) -> bool:
    """Whether ``name`` needs no brackets after ``primal of``: a variable, ``params['w']``, a call."""
    if name.isidentifier():
        return True
    try:
        found = ast.parse(name, mode="eval").body
    except (SyntaxError, ValueError):
        return False
    return isinstance(found, (ast.Attribute, ast.Subscript, ast.Call))


def _begins_again(run: Sequence[BindRecord], bind: BindRecord) -> bool:
    """Whether an operation is the first of a run once more, and uses no result of the run."""
    kind = (bind.primitive, bind.level, bind.in_types)
    made = {number for each in run for number in each.results if number}
    return kind == (run[0].primitive, run[0].level, run[0].in_types) and made.isdisjoint(bind.operands)


def _results(recording: Recording) -> Iterator[tuple[int, str]]:
    """(number, expression) for each value that is the result of an expression."""
    # lines on which interpreters began: an expression there may have run the user's functions
    places = {node.place for _, node in recording.walk() if isinstance(node, ScopeRecord)}
    # number -> the expressions in which one of the user's operations used the value
    used: dict[int, set[tuple[str, str]]] = {}
    runs: list[list[BindRecord]] = []
    spot = ("", "")
    for bind, _ in operations(recording):
        if not bind.expression:
            # the engine evaluates equations here: the user's next operation begins a new run
            spot = ("", "")
            continue
        here = (bind.place, bind.expression)
        # the expression of a comprehension begins again without another expression in between
        if here != spot or _begins_again(runs[-1], bind):
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
