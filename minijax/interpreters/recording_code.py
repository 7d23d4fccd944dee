"""A derived linearization as a Python function that records it: for operations on what is being staged.

In: the known and the linear program of a rule (``interpreters.derived``). Out: a function that appends the equations of
both to where they belong, the known ones to the jaxpr under construction, the linear ones to the tape, with the atoms
and variables of one call in place of the inputs. What it records is what running the rule would record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.interpreters.partial_eval import Residual
from minijax.interpreters.stage import JaxprTracer
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var


class _EquationWriter:
    """The statements written so far, and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        classes = (Var, JaxprEqn, JaxprTracer, Residual)
        self.names: dict[str, Any] = {each.__name__: each for each in classes}

    def name(self, value: Any) -> str:
        """A name for ``value``."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def equations(self, eqns: Sequence[JaxprEqn], into: str, called: dict[Any, str]) -> None:
        """Write that ``eqns`` are given to the function called ``into``; ``called`` has their variables' names."""
        for eqn in eqns:
            operands = ", ".join([self.name(v) if type(v) is Literal else called[v] for v in eqn.invars])
            for v in eqn.outvars:
                called[v] = f"v{len(self.names)}"
                self.lines.append(f"{called[v]} = Var({self.name(v.aval)})")
            results = ", ".join([called[v] for v in eqn.outvars])
            facts = f"{self.name(eqn.primitive)}, [{operands}], {self.name(eqn.params)}, [{results}], source"
            self.lines.append(f"{into}(JaxprEqn({facts}))")

    def function(self, parameters: Sequence[str], result: str) -> Callable[..., Any]:
        """The function of ``parameters`` that runs what was written and returns ``result``."""
        body = "".join(f"    {line}\n" for line in [*self.lines, f"return {result}"])
        code = compile(f"def record({', '.join(parameters)}):\n{body}", f"<{__name__}>", "exec")
        exec(code, self.names)
        made: Callable[..., Any] = self.names["record"]
        return made


def recording_function(known: ClosedJaxpr, linear: ClosedJaxpr) -> Callable[..., Any] | None:
    """``(trace, known_eqns, linear_eqns, source, *values, *atoms, *tangents) -> (result, its tangent's variable)``.

    ``values`` and ``atoms`` are those of the operands, ``tangents`` the variables of the active ones. None where the
    programs have constants, which would have to be known to the jaxpr, or a result that is none of their variables.
    """
    if known.consts or linear.consts or any(type(v) is Literal for v in known.jaxpr.outvars):
        return None
    n = len(known.jaxpr.invars)
    n_res = len(known.out_avals) - 1
    writer = _EquationWriter()
    atoms: dict[Any, str] = {v: f"a{i}" for i, v in enumerate(known.jaxpr.invars)}
    writer.equations(known.eqns, "known", atoms)
    value_of: dict[Any, str] = {v: f"x{i}" for i, v in enumerate(known.jaxpr.invars)}
    for v in known.jaxpr.outvars:
        if v not in value_of:
            value_of[v] = f"y{len(value_of)}"
            writer.lines.append(f"{value_of[v]} = JaxprTracer(trace, {writer.name(v.aval)}, {atoms[v]})")
    result, *residuals = [value_of[v] for v in known.jaxpr.outvars]
    called: dict[Any, str] = {}
    for i, (v, value) in enumerate(zip(linear.jaxpr.invars, residuals, strict=False)):
        called[v] = f"r{i}"
        writer.lines.append(f"r{i} = Residual({value})")
    tangents = linear.jaxpr.invars[n_res:]
    called.update((v, f"t{i}") for i, v in enumerate(tangents))
    writer.equations(linear.eqns, "linear", called)
    parameters = [
        *("trace", "known", "linear", "source"),
        *[f"x{i}" for i in range(n)],
        *[f"a{i}" for i in range(n)],
        *[f"t{i}" for i in range(len(tangents))],
    ]
    return writer.function(parameters, f"{result}, {called[linear.jaxpr.outvars[0]]}")
