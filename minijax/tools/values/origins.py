"""The operations that a value of a recording depends on, and the operations that use the value.

The operations on arrays, below all transformations, form one program. Calls of staged programs are among these
operations: ``slices`` finds the dependencies of each of their results, even if the trace came from a cache. A tracer
is replaced by the array inside it. A tracer without an array is replaced by its variable in a program that ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from minijax.core.records import Frozen, NamedTuple
from minijax.ir.jaxpr import JaxprEqn, Var
from minijax.tools.recording.records import BindRecord, LifeRecord, Node, Recording, ScopeRecord
from minijax.tools.recording.values import RunRecord
from minijax.tools.values import slices
from minijax.tools.values.examples import Unknown
from minijax.tools.values.moment import ledger
from minijax.tools.values.slices import UNKNOWN, Focus, SlicedProgram, WhatRan


class EvaluatedStep(NamedTuple):
    """An operation on arrays, below all transformations.

    Attributes:
      bind: its record.
      owner: the user's operation that caused it; ``bind`` itself if there is none, as in a backward pass.
      run: the run of its program; None if it has no program or the run was not kept.
      chooses: whether this is a cond. Its first operand only selects the operations that are evaluated.
    """

    bind: BindRecord
    owner: BindRecord
    run: RunRecord | None
    chooses: bool = False

    @property
    def operands(self) -> tuple[int, ...]:
        """The numbers of all its operands; 0 for an inline literal."""
        return self.bind.operands if self.run is None else self.run.operands


class StepUse(Frozen):
    """An operation in a slice: its needed results ``outs``, the operands that these need, slices of its programs."""

    step: EvaluatedStep
    outs: frozenset[int]
    needed: frozenset[int]
    parts: tuple[SlicedProgram, ...] = ()

    def innermost(self) -> Iterator[BindRecord | JaxprEqn]:
        """The computations: the operation itself, or the needed equations of its programs."""
        if self.parts:
            yield from slices.innermost(self.parts)
        elif not self.step.chooses:
            yield self.step.bind


class OriginSlice(Frozen):
    """The dependencies of some values.

    Attributes:
      wanted: the numbers of the values whose dependencies these are; 0 for a value without a number.
      uses: the operations that the values depend on, in order.
      inputs: the numbers of the values that no operation made: arguments and constants of the program.
      operations: the number of operations; an operation in the body of a loop counts once.
      total: the number of operations in the whole recording.
      unknown: why something is missing; '' if nothing is.
    """

    wanted: tuple[int, ...]
    uses: tuple[StepUse, ...]
    inputs: tuple[int, ...]
    operations: int
    total: int
    unknown: str = ""


class Origins:
    """The data flow of a recording.

    Attributes:
      steps: the operations of evaluation, in order.
      makers: number of a value -> the index in ``steps`` of the operation that made it.
      lives: number -> the life of the tracer or array with this number.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.lives: dict[int, LifeRecord] = {life.tracer.id: life for life in recording.lives}
        self.steps: list[EvaluatedStep] = []
        self.makers: dict[int, int] = {}
        for bind, owner, chooses in _evaluated(recording):
            step = EvaluatedStep(bind, owner, recording.kept.runs.get(bind.at), chooses)
            for number in () if chooses else bind.results:
                if number and number not in step.operands:
                    self.makers.setdefault(number, len(self.steps))
            self.steps.append(step)

    @property
    def total(self) -> int:
        """The number of operations; an operation in the body of a loop counts once."""
        return sum(_size(step) for step in self.steps)

    # --- dependencies of a value
    # -----------------------------------------------------------------------------------------------

    def array_of(self, number: int) -> int:
        """The array inside a tracer: the primal of a dual number, the whole batch of a batch tracer.

        0 if there is none, because the tracer belongs to a variable of a program."""
        while number:
            life = self.lives.get(number)
            if life is None or not life.tracer.level.partition(":")[1]:
                return number
            number = life.tracer.holds[0] if life.tracer.holds else 0
        return 0

    def variable_of(self, number: int) -> Var | None:
        """The variable of a tracer, or of the tracer inside it; None for an array."""
        known = self.recording.kept.variables
        while number:
            if number in known and not self._is_dual(number):
                return known[number]
            life = self.lives.get(number)
            number = life.tracer.holds[0] if life is not None and life.tracer.holds else 0
        return None

    def _is_dual(self, number: int) -> bool:
        # if a JVP tracer has a variable, it is the variable of the tracer's tangent
        return bool(self.lives[number].tracer.holds)

    def slice(self, numbers: Iterable[int]) -> OriginSlice:
        """The dependencies of the values (arrays or tracers) with these numbers."""
        wanted = tuple(numbers)
        arrays = {self.array_of(number) for number in wanted} - {0}
        focused: dict[int, Focus] = {}
        unknown = ""
        for number in wanted:
            if not self.array_of(number):
                found = self._focus(number)
                if found is None:
                    unknown = "the value is inside a program that did not run, or was not kept"
                else:
                    focused[found[0]] = found[1]
        return self._slice(wanted, arrays, focused, unknown)

    def _focus(self, number: int) -> tuple[int, Focus] | None:
        """The index of the last operation whose programs contain the tracer's variable, and the variable's place."""
        variable = self.variable_of(number)
        if variable is None:
            return None
        for index in range(len(self.steps) - 1, -1, -1):
            run = self.steps[index].run
            if run is not None:
                for focus in slices.focuses(run.params, variable):
                    return index, focus
        return None

    def _slice(self, wanted: tuple[int, ...], arrays: set[int], focused: dict[int, Focus], unknown: str) -> OriginSlice:
        uses: list[StepUse] = []
        needed = set(arrays)
        constants: dict[int, int] | None = None
        for index in range(len(self.steps) - 1, -1, -1):
            step = self.steps[index]
            results = enumerate(step.bind.results)
            made = frozenset(i for i, n in results if n in needed and (step.chooses or self.makers.get(n) == index))
            if not (made or index in focused):
                continue
            use = self._use(step, made, focused.get(index))
            unknown = unknown or self._lacking(step)
            uses.append(use)
            needed.update(step.operands[i] for i in use.needed if step.operands[i])
            for constant in slices.held(use.parts):
                constants = self._constants() if constants is None else constants
                needed.update(constants[id(each)] for each in _memory(constant) if id(each) in constants)
        reached = {n for n in needed if n not in self.makers}
        uses.reverse()
        operations = sum(len(list(use.innermost())) for use in uses)
        return OriginSlice(wanted, tuple(uses), tuple(sorted(reached)), operations, self.total, unknown)

    def _use(self, step: EvaluatedStep, made: frozenset[int], focus: Focus | None) -> StepUse:
        if step.chooses:
            return StepUse(step, made, frozenset({0}))
        if step.run is None:
            return StepUse(step, made, frozenset(range(len(step.operands))))
        run = step.run
        needed, parts = slices.look_into(run.primitive, run.params, len(run.operands), made, self.known(run), focus)
        return StepUse(step, made, needed, parts)

    def known(self, run: RunRecord) -> WhatRan:
        """What is known about the run of an operation that has a program."""
        values = [self.recording.kept.array(n) if n else run.literals.get(i) for i, n in enumerate(run.operands)]
        if run.operation is None or any(each is None for each in values):
            return UNKNOWN
        frame = ledger(self.recording).frame(run)
        return UNKNOWN if isinstance(frame, Unknown) else WhatRan(ledger(self.recording).equation(run)[1], [frame])

    def _constants(self) -> dict[int, int]:
        """id of an array's memory -> the array's number. Programs hold arrays that they close over, without numbers."""
        out: dict[int, int] = {}
        for number, array in self.recording.kept.arrays.items():
            for memory in _memory(array):
                out.setdefault(id(memory), number)
        return out

    def _lacking(self, step: EvaluatedStep) -> str:
        """What a slice cannot follow in an operation; '' if nothing."""
        if any(each.startswith("Ref{") for each in step.bind.in_types):
            return f"{step.bind.primitive} uses a reference: earlier writes to the reference are not followed"
        if step.run is None and len(step.bind.args) > len(step.bind.operands):
            return f"{step.bind.primitive} has more operands than were kept"
        if step.run is None and any(value.startswith("{") for _, value in step.bind.params):
            return f"the program of {step.bind.primitive} was not kept: its results may depend on fewer operands"
        return ""


def _size(step: EvaluatedStep) -> int:
    if step.chooses:
        return 0
    return 1 if step.run is None else slices.size(step.run.primitive, step.run.params)


def _evaluated(recording: Recording) -> Iterator[tuple[BindRecord, BindRecord, bool]]:
    """The evaluated operations in the order in which they ended, each with the user's operation around it.

    If an operation only calls other operations (a custom_jvp function does), these take its place. A cond follows the
    operations in its branch, because its index selected them.
    """
    # (record, the user's operation around it, whether its children are done)
    todo: list[tuple[Node, BindRecord | None, bool]] = [(node, None, False) for node in reversed(recording.tree)]
    made_inside: list[set[int]] = [set()]
    while todo:
        node, owner, left = todo.pop()
        if left:
            assert isinstance(node, BindRecord) and owner is not None
            inside = made_inside.pop()
            if node.depth == 0 and node.level == recording.base[0]:
                passes = any(number in inside for number in node.results if number)
                made_inside[-1] |= inside | set(node.results)
                if not passes or node.primitive == "cond":
                    yield node, owner, passes
            else:
                made_inside[-1] |= inside
        elif isinstance(node, BindRecord):
            own = owner if owner is not None and owner.place == node.place else node
            todo.append((node, own, True))
            made_inside.append(set())
            todo += [(child, own, False) for child in reversed(node.children)]
        elif isinstance(node, ScopeRecord):
            todo += [(child, owner, False) for child in reversed(node.children)]


def _memory(array: Any) -> list[Any]:
    """The buffers of an array: two arrays with the same buffer are one value."""
    return [held for name in ("_np", "_buffer") if (held := getattr(array, name, None)) is not None]
