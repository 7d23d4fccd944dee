"""Jaxprs as Python functions of NumPy values: ``v1 = f1(x0)``, ``v2 = f2(v1, c1)``, ...

No ``Array``, type or trace is made, so a call costs little more than its NumPy calls. Derivative rules
(``interpreters.derived``) and loops outside ``jit`` use such functions. Invariant: values have the types of the jaxpr.

Calls (``jit``) are inlined into the function. Loops and branches become calls of functions from ``program_makers``.
Primitives without a NumPy rule are bound.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.array import Array
from minijax.core.primitive import Primitive
from minijax.interpreters.evaluate import SCALAR_RULES, numpy_function, numpy_rules
from minijax.interpreters.partial_eval import live_eqns
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

# primitive -> maker(**params), giving (function from NumPy values to a list of NumPy values, weight of a call)
program_makers: dict[Primitive, Callable[..., tuple[Callable[..., list[Any]], int]]] = {}
# primitive that calls a ClosedJaxpr on its operands -> the parameter with that jaxpr
called_jaxprs: dict[Primitive, str] = {}

# NumPy processes this many elements in the time that a call takes. A call on few elements has weight 1.
ELEMENTS_PER_CALL = 1000

# Work is counted in NumPy calls. Compiling a ``while`` takes as long as this many calls (about 30 ms).
WHILE_WORTH_COMPILING = 50_000
# Compiling a ``scan`` takes as long as this many calls (about 50 ms). A heavier ``scan`` is compiled immediately.
SCAN_WORTH_COMPILING = 100_000
# A loop that runs again is compiled if all its runs together weigh more than this.
AGAIN_WORTH_COMPILING = 1_000
# Estimates of work assume this many iterations of a ``while`` inside another loop.
ASSUMED_ROUNDS = 10

# These functions become Python operators: a statement costs less than a call, on scalars and on arrays.
_OPERATORS = {
    np.add: "{} + {}",
    np.subtract: "{} - {}",
    np.multiply: "{} * {}",
    np.negative: "-{}",
    operator.add: "{} + {}",
    operator.sub: "{} - {}",
    operator.mul: "{} * {}",
    operator.neg: "-{}",
}


class _Writer:
    """The statements written so far, and the objects that these use by name. ``weight``: the work, in NumPy calls."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.weight = 0
        # NumPy attributes its warnings to the calling module: see ``core.numpy_warnings``
        self.names: dict[str, Any] = {"__name__": __name__}
        self.new_variables = map("v{}".format, itertools.count())
        # variables whose values are not needed any more; assigning to them again frees large arrays
        self.free: list[str] = []

    def name(self, value: Any) -> str:
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def variable(self) -> str:
        return self.free.pop() if self.free else next(self.new_variables)

    def program(self, closed: ClosedJaxpr, inputs: Sequence[str]) -> list[str]:
        """Write ``closed``, on the variables ``inputs``, without dead or repeated equations. Return its results."""
        jaxpr = without_repetition(closed.jaxpr)
        called = dict(zip(jaxpr.invars, inputs, strict=True))
        for var, const in zip(jaxpr.constvars, closed.consts, strict=True):
            called[var] = self.name(const._value() if isinstance(const, Array) else np.asarray(const))

        def atom(v: Any) -> str:
            return self.name(number(v)) if type(v) is Literal else called[v]

        eqns = live_eqns(jaxpr.eqns, jaxpr.outvars)
        last_use = {v: eqn for eqn in eqns for v in eqn.invars if type(v) is not Literal}
        for v in jaxpr.outvars:
            last_use.pop(v, None)
        made: set[Var] = set()
        for eqn in eqns:
            operands = [atom(v) for v in eqn.invars]
            inner = called_jaxprs.get(eqn.primitive)
            if inner is not None:
                made.difference_update(eqn.invars)  # a result may share the variable of an operand
                called.update(zip(eqn.outvars, self.program(eqn.params[inner], operands), strict=True))
                continue
            for v in eqn.invars:
                if v in made and last_use.get(v) is eqn:
                    made.discard(v)
                    self.free.append(called[v])
            called.update(zip(eqn.outvars, self.equation(eqn, operands), strict=True))
            made.update([v for v in eqn.outvars if v in last_use])
        return [atom(v) for v in jaxpr.outvars]

    def equation(self, eqn: JaxprEqn, operands: list[str]) -> list[str]:
        """Write ``eqn``; returns the variables of its results."""
        function, weight = numpy_call(eqn)
        self.weight += weight
        results = [self.variable() for _ in eqn.outvars]
        # the operators of extension types (bfloat16) are slower than their ufuncs
        plain = all(v.aval.dtype.kind in "fiuc" for v in eqn.invars)
        written = _OPERATORS.get(function) if plain else None
        call = written.format(*operands) if written else f"{self.name(function)}({', '.join(operands)})"
        targets = f"{', '.join(results)}{',' if eqn.primitive.multiple_results else ''} = " if results else ""
        self.lines.append(targets + call)
        return results

    def function(self, parameters: Sequence[str], result: str) -> Callable[..., Any]:
        """Compile a function of ``parameters`` that runs the statements and returns ``result``."""
        body = "".join(f"    {line}\n" for line in [*self.lines, f"return {result}"])
        code = compile(f"def program({', '.join(parameters)}):\n{body}", f"<{__name__}>", "exec")
        exec(code, self.names)
        made: Callable[..., Any] = self.names["program"]
        return made


def packed(names: Sequence[str]) -> str:
    """Several values as one expression: None, the value itself, or a tuple."""
    return "None" if not names else names[0] if len(names) == 1 else f"({', '.join(names)})"


def _written(closed: ClosedJaxpr) -> tuple[_Writer, list[str], list[str]]:
    """``closed`` as statements, the names of their parameters, and the names of the results."""
    writer = _Writer()
    parameters = [f"x{i}" for i in range(len(closed.jaxpr.invars))]
    return writer, parameters, writer.program(closed, parameters)


def forward_function(closed: ClosedJaxpr, instead: Any = None) -> Callable[..., Any]:
    """``(*values) -> (first result, the others packed)``. If there are no others, ``instead`` takes their place."""
    writer, parameters, (first, *others) = _written(closed)
    return writer.function(parameters, f"{first}, {packed(others) if others else writer.name(instead)}")


def backward_function(closed: ClosedJaxpr, n_packed: int) -> Callable[..., Any]:
    """``(*cts, packed) -> packed results`` of a jaxpr whose first ``n_packed`` inputs are in ``packed``."""
    writer = _Writer()
    inner = [f"r{i}" for i in range(n_packed)]
    if n_packed > 1:
        writer.lines.append(f"{', '.join(inner)} = packed")
    elif inner:
        inner = ["packed"]
    cts = [f"ct{i}" for i in range(len(closed.jaxpr.invars) - n_packed)]
    return writer.function([*cts, "packed"], packed(writer.program(closed, [*inner, *cts])))


def linear_function(closed: ClosedJaxpr, n_packed: int) -> Callable[..., Any]:
    """``(packed, *tangents) -> result`` of a jaxpr whose first ``n_packed`` inputs are in ``packed``."""
    writer = _Writer()
    inner = [f"r{i}" for i in range(n_packed)]
    if inner:
        writer.lines.append(f"{packed(inner)} = packed")
    tangents = [f"t{i}" for i in range(len(closed.jaxpr.invars) - n_packed)]
    (result,) = writer.program(closed, [*inner, *tangents])
    return writer.function(["packed", *tangents], result)


class NumPyProgram:
    """A ``ClosedJaxpr`` as a function of NumPy values; ``weight`` is the work of a run in NumPy calls."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self._writer, self._parameters, self._results = _written(closed)
        self.weight = self._writer.weight

    @functools.cached_property
    def function(self) -> Callable[..., tuple[Any, ...]]:
        """``(*values) -> results``."""
        return self._writer.function(self._parameters, f"({''.join([f'{name}, ' for name in self._results])})")


def program(closed: ClosedJaxpr) -> NumPyProgram:
    """``closed`` as a ``NumPyProgram``, cached with it."""
    found: NumPyProgram | None = closed.memo.get("program")
    if found is None:
        found = closed.memo["program"] = NumPyProgram(closed)
    return found


def without_repetition(jaxpr: Jaxpr) -> Jaxpr:
    """``jaxpr`` without equations that repeat a NumPy computation of an earlier equation."""
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
    """A key that is equal for equations that compute the same value; None if ``eqn`` has no such key."""
    if eqn.primitive.multiple_results or eqn.primitive not in numpy_rules:
        return None
    atoms = [(number(v).tobytes(), v.aval) if type(v) is Literal else v for v in operands]
    key = (eqn.primitive, *atoms, *eqn.params.items())
    try:
        hash(key)
    except TypeError:  # a parameter is not hashable
        return None
    return key


def number(literal: Literal) -> Any:
    """The NumPy scalar of ``literal``."""
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
