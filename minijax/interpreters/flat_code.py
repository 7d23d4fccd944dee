"""Jaxprs as Python functions of NumPy values: one statement for each equation, no interpreter and no loop.

In: a jaxpr. Out: a function whose body is ``v1 = f1(x0)``, ``v2 = f2(v1, c1)``, ... For short programs that run very
often, as the parts of a derivative rule do: a call of it costs little more than the NumPy calls in it. What each
equation calls is what ``interpreters.program`` calls for it, which is there for long programs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.array import Array
from minijax.interpreters.partial_eval import live_eqns
from minijax.interpreters.program import called_jaxprs, number, numpy_call, without_repetition
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Literal

# What Python writes as operators: on scalars and arrays alike, a statement of its own costs less than a call.
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
    """The statements written so far, and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        # NumPy ascribes its warnings to the module that calls it: see ``interpreters.evaluate``
        self.names: dict[str, Any] = {"__name__": __name__}

    def name(self, value: Any) -> str:
        """A name for ``value``."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def program(self, closed: ClosedJaxpr, inputs: Sequence[str]) -> list[str]:
        """Write ``closed`` with ``inputs`` for its inputs, without its dead equations; what its results are called.

        What is computed twice is so once: a derivative of derivatives has the same sine in each of them.
        """
        jaxpr = without_repetition(closed.jaxpr)
        called = dict(zip(jaxpr.invars, inputs, strict=True))
        for var, const in zip(jaxpr.constvars, closed.consts, strict=True):
            called[var] = self.name(const._value() if isinstance(const, Array) else np.asarray(const))

        def atom(v: Any) -> str:
            return self.name(number(v)) if type(v) is Literal else called[v]

        for eqn in live_eqns(jaxpr.eqns, jaxpr.outvars):
            called.update(zip(eqn.outvars, self.equation(eqn, [atom(v) for v in eqn.invars]), strict=True))
        return [atom(v) for v in jaxpr.outvars]

    def equation(self, eqn: JaxprEqn, operands: list[str]) -> list[str]:
        """Write ``eqn``; what its results are called."""
        inner = called_jaxprs.get(eqn.primitive)
        if inner is not None:
            return self.program(eqn.params[inner], operands)
        function, _ = numpy_call(eqn)
        results = [f"v{len(self.lines)}_{i}" for i in range(len(eqn.outvars))]
        # the operators of extension types (bfloat16) are slower than their ufuncs
        plain = all(v.aval.dtype.kind in "fiuc" for v in eqn.invars)
        written = _OPERATORS.get(function) if plain else None
        call = written.format(*operands) if written else f"{self.name(function)}({', '.join(operands)})"
        self.lines.append(f"{', '.join(results)}{',' if eqn.primitive.multiple_results else ''} = {call}")
        return results

    def function(self, parameters: Sequence[str], result: str) -> Callable[..., Any]:
        """The function of ``parameters`` that runs what was written and returns ``result``."""
        body = "".join(f"    {line}\n" for line in [*self.lines, f"return {result}"])
        code = compile(f"def program({', '.join(parameters)}):\n{body}", f"<{__name__}>", "exec")
        exec(code, self.names)
        made: Callable[..., Any] = self.names["program"]
        return made


def packed(names: Sequence[str]) -> str:
    """Several values as one: None, the value itself, or a tuple."""
    return "None" if not names else names[0] if len(names) == 1 else f"({', '.join(names)})"


def forward_function(closed: ClosedJaxpr, instead: Any = None) -> Callable[..., Any]:
    """``(*values) -> (first result, the others packed)``; if there are no others, ``instead``."""
    writer = _Writer()
    parameters = [f"x{i}" for i in range(len(closed.jaxpr.invars))]
    first, *others = writer.program(closed, parameters)
    return writer.function(parameters, f"{first}, {packed(others) if others else writer.name(instead)}")


def results_function(closed: ClosedJaxpr, n: int | None = None) -> Callable[..., Any]:
    """``(*values) -> results``, a tuple; with ``n``, the first ``n`` results as a tuple, and the others packed."""
    writer = _Writer()
    parameters = [f"x{i}" for i in range(len(closed.jaxpr.invars))]
    results = writer.program(closed, parameters)
    whole = f"({''.join(f'{name}, ' for name in results[:n])})"
    return writer.function(parameters, whole if n is None else f"{whole}, {packed(results[n:])}")


def backward_function(closed: ClosedJaxpr, n_packed: int) -> Callable[..., Any]:
    """``(*cts, packed) -> results``, of a jaxpr whose first ``n_packed`` inputs are packed and whose others are cts.

    A single result is returned as it is, several as a tuple.
    """
    writer = _Writer()
    inner = [f"r{i}" for i in range(n_packed)]
    if n_packed > 1:
        writer.lines.append(f"{', '.join(inner)} = packed")
    elif inner:
        inner = ["packed"]
    cts = [f"ct{i}" for i in range(len(closed.jaxpr.invars) - n_packed)]
    return writer.function([*cts, "packed"], packed(writer.program(closed, [*inner, *cts])))


def linear_function(closed: ClosedJaxpr, n_packed: int) -> Callable[..., Any]:
    """``(packed, *tangents) -> result``, of a jaxpr whose first ``n_packed`` inputs are packed."""
    writer = _Writer()
    inner = [f"r{i}" for i in range(n_packed)]
    if inner:
        writer.lines.append(f"{packed(inner)} = packed")
    tangents = [f"t{i}" for i in range(len(closed.jaxpr.invars) - n_packed)]
    (result,) = writer.program(closed, [*inner, *tangents])
    return writer.function(["packed", *tangents], result)
