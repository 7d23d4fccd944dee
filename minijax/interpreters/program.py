"""Jaxprs run on NumPy without the interpreter stack: what loops outside ``jit`` do step after step.

In: a jaxpr. Out: a ``NumPyProgram``, a flat list of steps, each a closure that reads values from numbered slots,
applies one NumPy rule, and writes the result to a slot. There are no ``Array``s, no types and no traces in between, so
a step costs little more than NumPy's own call. Invariant: values are NumPy's, of exactly the types that the jaxpr says.

Calls (``jit``) are written into the list; a primitive that is a loop or a branch itself may give the function of NumPy
values that runs it (``program_makers``); whatever has neither that nor a NumPy rule is bound as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.array import Array
from minijax.core.primitive import Primitive
from minijax.interpreters.evaluate import SCALAR_RULES, numpy_function, numpy_rules
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, is_effectful

Step = Callable[[list[Any]], None]

# primitive -> maker(**params), giving (function of NumPy values to a list of NumPy values, what a call weighs)
program_makers: dict[Primitive, Callable[..., tuple[Callable[..., list[Any]], int]]] = {}
# primitive -> the parameter with the ClosedJaxpr that an equation of it calls on its operands
called_jaxprs: dict[Primitive, str] = {}

# Elements that NumPy works off in the time of one call: a step on small arrays weighs 1.
ELEMENTS_PER_CALL = 1000

# Work is counted in NumPy calls. Compiling a ``while`` takes as long as this many of them (about 30 ms).
WHILE_WORTH_COMPILING = 50_000
# Compiling a ``scan`` takes as long as this many (about 50 ms): one that weighs more is compiled at once.
SCAN_WORTH_COMPILING = 100_000
# A loop that is run again is compiled if all of its runs take more than so many together.
AGAIN_WORTH_COMPILING = 1_000
# How many rounds a ``while`` inside another loop is taken to have, where the work ahead is estimated.
ASSUMED_ROUNDS = 10

class NumPyProgram:
    """A ``ClosedJaxpr`` ready to be run on NumPy values, once or many times (also in several threads).

    ``frame()`` makes the list of slots of one run; the inputs are its first ones. After the ``steps`` have been applied
    to it, the outputs are in the slots ``outputs``. ``weight`` is the work of one run, in NumPy calls.
    """

    __slots__ = ("template", "steps", "outputs", "weight", "effectful")

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.template: list[Any] = []
        self.steps: list[Step] = []
        self.weight = 0
        self.effectful = any(map(is_effectful, closed.eqns))
        inputs = [self._slot() for _ in closed.jaxpr.invars]
        self.outputs = self._write(closed.jaxpr, closed.consts, inputs)

    def frame(self) -> list[Any]:
        """The slots of a new run, its constants in place."""
        return self.template.copy()

    def __call__(self, *values: Any) -> list[Any]:
        """The outputs on ``values``."""
        frame = self.template.copy()
        frame[: len(values)] = values
        for step in self.steps:
            step(frame)
        return [frame[slot] for slot in self.outputs]

    def _slot(self, value: Any = None) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def _write(self, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[int]) -> list[int]:
        """Append the steps of ``jaxpr``; the slots of its outputs."""
        slots: dict[Var, int] = dict(zip(jaxpr.invars, inputs, strict=True))
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            slots[var] = self._slot(const._value() if isinstance(const, Array) else np.asarray(const))
        last_use: dict[Var, JaxprEqn] = {v: eqn for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal}
        for atom in jaxpr.outvars:
            last_use.pop(atom, None)
        made: set[Var] = set()
        free: list[int] = []
        for eqn in jaxpr.eqns:
            ins = [self._slot(number(v)) if type(v) is Literal else slots[v] for v in eqn.invars]
            called = called_jaxprs.get(eqn.primitive)
            if called is not None:
                inner = eqn.params[called]
                made.difference_update(eqn.invars)  # a result may be an operand, in the same slot
                slots.update(zip(eqn.outvars, self._write(inner.jaxpr, inner.consts, ins), strict=True))
                continue
            # a slot whose value nobody reads any more is written to again: big values are let go of
            for v in eqn.invars:
                if type(v) is not Literal and v in made and last_use.get(v) is eqn:
                    made.discard(v)
                    free.append(slots[v])
            outs = [free.pop() if free else self._slot() for _ in eqn.outvars]
            slots.update(zip(eqn.outvars, outs, strict=True))
            made.update(v for v in eqn.outvars if v in last_use)
            rule, weight = numpy_call(eqn)
            self.weight += weight
            self.steps.append(_step(rule, ins, outs, eqn.primitive.multiple_results))
        return [self._slot(number(v)) if type(v) is Literal else slots[v] for v in jaxpr.outvars]


def program(closed: ClosedJaxpr) -> NumPyProgram:
    """``closed`` as a ``NumPyProgram``, made once and kept with it."""
    found = closed.memo.get("program")
    if found is None:
        found = closed.memo["program"] = NumPyProgram(closed)
    return found


def without_repetition(jaxpr: Jaxpr) -> Jaxpr:
    """``jaxpr`` without the equations that compute on NumPy what an earlier one has computed."""
    instead: dict[Any, Any] = {}
    known: dict[Any, Var] = {}
    eqns = []
    for eqn in jaxpr.eqns:
        operands = [instead.get(v, v) for v in eqn.invars]
        key = _computation(eqn, operands)
        if key in known:
            instead[eqn.outvars[0]] = known[key]
            continue
        if key is not None:
            known[key] = eqn.outvars[0]
        eqns.append(eqn.replace(invars=operands))
    return jaxpr.replace(eqns=eqns, outvars=[instead.get(v, v) for v in jaxpr.outvars])


def _computation(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """What two equations have in common that give one and the same value; None if that is not known."""
    if eqn.primitive.multiple_results or eqn.primitive not in numpy_rules:
        return None
    atoms = [(number(v).tobytes(), v.aval) if type(v) is Literal else v for v in operands]
    key = (eqn.primitive, *atoms, *eqn.params.items())
    try:
        hash(key)
    except TypeError:  # a parameter has no hash
        return None
    return key


def number(literal: Literal) -> Any:
    """The NumPy scalar that ``literal`` stands for."""
    return np.asarray(literal.val, literal.aval.dtype)[()]


def numpy_call(eqn: JaxprEqn) -> tuple[Callable[..., Any], int]:
    """The function of NumPy values that ``eqn`` applies, and its weight."""
    primitive, params = eqn.primitive, eqn.params
    maker = program_makers.get(primitive)
    if maker is not None:
        return maker(**params)
    weight = 1 + sum(v.aval.size for v in eqn.outvars) // ELEMENTS_PER_CALL
    rule = numpy_function(primitive, [v.aval for v in eqn.invars], params)
    if rule is None:
        return _bound(primitive, params, [v.aval for v in eqn.invars]), weight
    if not any(v.aval.ndim for v in eqn.invars) and all(v.aval.dtype.kind in "fiu" for v in eqn.invars):
        return SCALAR_RULES.get(rule, rule), weight
    return rule, weight


def _bound(primitive: Primitive, params: dict[str, Any], avals: Sequence[Any]) -> Callable[..., Any]:
    """``primitive.bind`` as a function of NumPy values."""

    def bound(*values: Any) -> Any:
        out = primitive.bind(*map(Array, values, avals), **params)
        return [x._value() for x in out] if primitive.multiple_results else out._value()

    return bound


def _step(rule: Callable[..., Any], ins: Sequence[int], outs: Sequence[int], several: bool) -> Step:
    """The closure that applies ``rule`` to the slots ``ins`` and writes to the slots ``outs``."""
    if several:

        def step_several(frame: list[Any]) -> None:
            for slot, value in zip(outs, rule(*[frame[i] for i in ins]), strict=True):
                frame[slot] = value

        return step_several
    (out,) = outs
    if len(ins) == 1:
        (a,) = ins

        def step_unary(frame: list[Any]) -> None:
            frame[out] = rule(frame[a])

        return step_unary
    if len(ins) == 2:
        a, b = ins

        def step_binary(frame: list[Any]) -> None:
            frame[out] = rule(frame[a], frame[b])

        return step_binary

    def step_any(frame: list[Any]) -> None:
        frame[out] = rule(*[frame[i] for i in ins])

    return step_any
