"""The backward pass of a linear program, as a full recorder records it.
For each equation: the cotangents of its results, the cotangents that its transpose rule returned, and the sums so far.

Variables are recorded as indices into the program (see ``BackwardRecord``). To show them, ``listed`` takes
their names and the equations from a copy of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minijax.core.array import Array
from minijax.core.keys import is_key
from minijax.core.structural import Zero
from minijax.ir.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.ir.pretty import Printer
from minijax.tools.documents.words import decimal
from minijax.tools.recording import preview
from minijax.tools.recording.copy import Copier
from minijax.tools.recording.lazily import Lazy
from minijax.tools.recording.lives import LifeTable, Lives
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import (
    BackwardRecord,
    CotangentRecord,
    LinearEquation,
    LinearVariable,
    Recording,
    TransposedRecord,
)
from minijax.tools.recording.sources import Sources
from minijax.tools.recording.summary import Scope

# A recording has a limit of characters. One transposed equation counts as this many.
PASS_CHARACTERS = 200
# The deepest nesting of tracers that is followed.
MOST_LEVELS = 8
# The digits of a number, and the most characters of an array that is shown element by element.
DIGITS = 5
MOST_ELEMENTS = 30


# A cotangent: the index of its variable, the number of its value (or 0), and its text (only without a number).
_Noted = tuple[int, int, str]


class _Steps(Lazy):
    """The equations that were transposed.

    A step is stored as the event before it, the event after it, the index of the equation, the cotangents that its rule
    received and returned, and the sums of the operands.
    """

    def __init__(self, steps: Sequence[tuple[Any, ...]], lives: LifeTable) -> None:
        super().__init__(len(steps))
        self.steps = steps
        self.lives = lives

    def make(self, index: int) -> TransposedRecord:
        begun, at, equation, *cotangents = self.steps[index]
        return TransposedRecord(begun, at, equation, *[_records(each, self.lives) for each in cotangents])


def _records(noted: Sequence[_Noted], lives: LifeTable) -> tuple[CotangentRecord, ...]:
    return tuple([CotangentRecord(index, number, text or lives.text(number)) for index, number, text in noted])


class _OpenTransposition:
    """A linear program during its backward pass."""

    __slots__ = ("scopes", "jaxpr", "index", "equations", "noted", "steps", "pending", "ended")

    def __init__(self, scopes: Sequence[Scope], jaxpr: Jaxpr) -> None:
        self.scopes = scopes
        self.jaxpr = jaxpr
        # variable -> its index; first result of an equation -> the index of the equation
        self.index: dict[Any, int] = {}
        self.equations: dict[Any, int] = {}
        # the fields of the ``BackwardRecord`` without the steps
        self.noted: Any = ()
        # the fields of each step (``_Steps``)
        self.steps: list[tuple[Any, ...]] = []
        # the equation whose rule is running
        self.pending: tuple[Any, ...] | None = None
        self.ended = -1


class Transpositions:
    """Collects backward passes while a recorder watches."""

    def __init__(self, lives: Lives, sources: Sources) -> None:
        self.lives = lives
        self.sources = sources
        self.all: list[_OpenTransposition] = []
        # the running passes; None for a pass that is not recorded
        self.open: list[_OpenTransposition | None] = []

    def begin(
        self,
        at: int,
        scopes: Sequence[Scope],
        jaxpr: Jaxpr | None,
        known: Mapping[Any, Any],
        outs: Sequence[Any],
        cts: Sequence[Any],
        sums: Sequence[tuple[Any, Any]],
    ) -> None:
        """The backward pass of ``jaxpr`` begins. ``jaxpr`` is None if the pass is not recorded."""
        if jaxpr is None:
            self.open.append(None)
            return
        new = _OpenTransposition(scopes, jaxpr)
        spots = [self.sources.spot_of(eqn.source) for eqn in jaxpr.eqns]
        variables = [*jaxpr.constvars, *jaxpr.invars, *[v for eqn in jaxpr.eqns for v in eqn.outvars]]
        new.index = {v: i for i, v in enumerate(variables)}
        new.equations = {eqn.outvars[0]: i for i, eqn in enumerate(jaxpr.eqns) if eqn.outvars}
        primals = self.lives.primals
        numbers = [primals.get(v, 0) for v in variables]
        if not any(numbers):  # no linearization made this program: the user transposes a linear function
            staged = self.lives.staged()
            numbers = [staged.get(v, 0) for v in variables]
        for i, v in enumerate(jaxpr.constvars):
            if v in known:
                numbers[i] = self._number(known[v], scopes)
        new.noted = (
            at,
            jaxpr.debug_name,
            len(jaxpr.constvars),
            len(jaxpr.invars),
            tuple([new.index.get(v, -1) if isinstance(v, Var) else -1 for v in outs]),
            tuple(numbers),
            tuple([place for place, _ in spots]),
            tuple([expression for _, expression in spots]),
            [self._cotangent(new, v, ct) for v, ct in zip(outs, cts, strict=True)],
            [self._cotangent(new, v, ct) for v, ct in sums],
        )
        self.all.append(new)
        self.open.append(new)

    def _number(self, x: Any, scopes: Sequence[Scope]) -> int:
        life = self.lives.see(x, scopes, held=True)
        return 0 if life is None else life.number

    def _cotangent(self, of: _OpenTransposition, variable: Any, ct: Any) -> _Noted:
        index = of.index.get(variable, -1) if isinstance(variable, Var) else -1
        if type(ct) is Zero:
            return index, 0, "0"
        life = self.lives.known.get(id(ct)) or self.lives.see(ct, of.scopes, held=True)
        return (index, 0, preview.value_text(ct, fetch=True)) if life is None else (index, life.number, "")

    def before(self, at: int, eqn: JaxprEqn, ct: Any) -> None:
        """The transpose rule of ``eqn`` is about to be applied to ``ct``."""
        now = self.open[-1] if self.open else None
        number = None if now is None or not eqn.outvars else now.equations.get(eqn.outvars[0])
        if now is None or number is None:
            return
        cts = ct if eqn.primitive.multiple_results else (ct,)
        given = tuple([self._cotangent(now, v, each) for v, each in zip(eqn.outvars, cts, strict=True)])
        now.pending = at, number, given

    def after(self, at: int, eqn: JaxprEqn, found: Sequence[tuple[Any, Any, Any]]) -> None:
        """The rule has returned. ``found``: for each operand (its variable, its cotangent, the sum so far)."""
        now = self.open[-1] if self.open else None
        if now is None or now.pending is None:
            return
        begun, number, given = now.pending
        now.pending = None
        parts = tuple([self._cotangent(now, v, new) for v, new, _ in found])
        both = zip(parts, found, strict=True)
        sums = tuple([part if total is new else self._cotangent(now, v, total) for part, (v, new, total) in both])
        now.steps.append((begun, at, number, given, parts, sums))

    def end(self, at: int) -> None:
        """The innermost backward pass has ended."""
        if not self.open:
            return
        ended = self.open.pop()
        if ended is not None:
            self._end(ended, at)

    def _end(self, ended: _OpenTransposition, at: int) -> None:
        ended.ended = at
        if ended.pending is not None:  # its rule raised
            begun, number, given = ended.pending
            ended.steps.append((begun, -1, number, given, (), ()))

    def records(self, at: int, lives: LifeTable) -> tuple[BackwardRecord, ...]:
        """The records of all backward passes, with the names from ``lives``. Passes that are still running end now."""
        while self.open:
            self.end(at)
        return tuple([_record(each, lives) for each in self.all])


def _record(each: _OpenTransposition, lives: LifeTable) -> BackwardRecord:
    begun, *fields, seeds, sums = each.noted
    record: Any = BackwardRecord
    cotangents = _records(seeds, lives), _records(sums, lives), _Steps(each.steps, lives)
    return record(begun, each.ended, *fields, *cotangents, Copier().copy(each.jaxpr))


def array_of(recording: Recording, number: int) -> Array | None:
    """The array with this number, or the array inside the tracer with this number; None if it was not kept."""
    lives = naming_of(recording).lives
    for _ in range(MOST_LEVELS):
        found = recording.kept.array(number)
        life = lives.get(number)
        if found is not None or life is None or not life.tracer.holds:
            return found
        number = life.tracer.holds[0]
    return None


def brief(array: Array) -> str:
    """``0.25``, ``[1.0, 2.5]``; ``f32[4,8] norm 0.31`` if there are more elements."""
    kind = preview.aval_text(array.aval)
    held = None if is_key(array.aval.dtype) else preview.host_value(array, fetch=True)
    if held is None:
        return kind
    values = np.asarray(held)
    if values.size <= preview.MOST_ELEMENTS and values.dtype.kind in "fiub":
        written = _elements(values)
        if len(written) <= MOST_ELEMENTS:
            return written
    if values.dtype.kind not in "fc":
        return kind
    if values.size and (values == values.flat[0]).all():
        return f"{kind} all {_elements(values.ravel()[0])}"
    bad = values.size - int(np.count_nonzero(np.isfinite(values)))
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64).ravel()
    return f"{kind} norm {decimal(float(np.linalg.norm(wide)))}" + (f" · {bad} not finite" if bad else "")


def _elements(values: np.ndarray) -> str:
    if values.ndim:
        return "[" + ", ".join(map(_elements, values)) + "]"
    item = values.item()
    return decimal(item, DIGITS) if isinstance(item, float) else str(item)


def listed(record: BackwardRecord, recording: Recording) -> BackwardRecord:
    """``record`` with equations and variables in place of the copied program, and with short texts of values."""
    program = record.program
    if program is None:
        return record

    def texts_of(cts: Sequence[CotangentRecord]) -> tuple[CotangentRecord, ...]:
        return tuple([CotangentRecord(ct.variable, ct.number, _text(ct, recording)) for ct in cts])

    steps = [
        TransposedRecord(s.begun, s.at, s.equation, texts_of(s.given), texts_of(s.found), texts_of(s.sums))
        for s in record.steps
    ]
    residuals = [array_of(recording, number) for number in record.primals[: record.constants]]
    name = _names(program)
    variables = [*program.constvars, *program.invars, *[v for eqn in program.eqns for v in eqn.outvars]]
    index = {v: i for i, v in enumerate(variables)}

    def indices(atoms: Sequence[Any]) -> tuple[int, ...]:
        return tuple([-1 if type(v) is Literal else index.get(v, -1) for v in atoms])

    equations = tuple(
        [
            LinearEquation(equation_text(eqn, name), eqn.primitive.name, indices(eqn.outvars), indices(eqn.invars))
            for eqn in program.eqns
        ]
    )
    shown = tuple([LinearVariable(name(v), preview.aval_text(v.aval)) for v in variables])
    return record.replace(
        program=None,
        equations=equations,
        variables=shown,
        seeds=texts_of(record.seeds),
        begins=texts_of(record.begins),
        steps=tuple(steps),
        residuals=tuple(["" if each is None else brief(each) for each in residuals]),
    )


def _text(ct: CotangentRecord, recording: Recording) -> str:
    array = array_of(recording, ct.number) if ct.number else None
    return ct.text if array is None else brief(array)


def _names(program: Jaxpr) -> Callable[[Any], str]:
    """The names of the variables in the printed program."""
    printer = Printer(program)
    printer.document()

    def name(atom: Any) -> str:
        if type(atom) is Literal:
            return preview.value_text(atom.val)
        return "_" if isinstance(atom, DropVar) else printer.name(atom)

    return name


def equation_text(eqn: JaxprEqn, name: Callable[[Any], str]) -> str:
    """``c:f32[] = mul a b``, with short parameters and the variable names that ``name`` gives."""

    def binder(var: Var) -> str:
        return f"{name(var)}:{preview.aval_text(var.aval)}"

    params = " ".join([f"{key}={text}" for key, text in preview.parameters(eqn.params)])
    operands = " ".join(map(name, eqn.invars))
    results = " ".join(map(binder, eqn.outvars))
    return f"{results} = {eqn.primitive.name}{f'[{params}]' if params else ''} {operands}"
