"""A derived linearization as Python functions that record it: for operations on what is being staged.

In: the known, or the transposed linear, program of a rule (``interpreters.derived``). Out: a function that appends its
equations to the jaxpr under construction, with the atoms of one call in place of the inputs. What it records is what
running the rule would record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.interpreters.flat_code import packed
from minijax.interpreters.stage import JaxprTracer
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var


class _EquationWriter:
    """The statements written so far, and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        classes = (Var, JaxprEqn, JaxprTracer)
        self.names: dict[str, Any] = {each.__name__: each for each in classes}

    def name(self, value: Any) -> str:
        """A name for ``value``."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def atom(self, value: str) -> str:
        """Write what is the atom of the value so called: a tracer's variable, or a constant; what it is called."""
        self.lines.append(f"a{value} = {value}.variable if type({value}) is JaxprTracer else constant({value})")
        return f"a{value}"

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
    """``(trace, append, constant, source, *values) -> (result, residuals packed)``.

    ``append`` takes equations, ``constant`` gives the atom of an operand that is a constant. None where the programs
    have constants of their own, which would have to be known to the jaxpr, or a result that is none of their variables.
    """
    if known.consts or linear.consts or any(type(v) is Literal for v in known.jaxpr.outvars):
        return None
    writer = _EquationWriter()
    value_of: dict[Any, str] = {v: f"x{i}" for i, v in enumerate(known.jaxpr.invars)}
    inputs = [*value_of.values()]
    atoms = {v: writer.atom(value) for v, value in value_of.items()}
    writer.equations(known.eqns, "append", atoms)
    for v in known.jaxpr.outvars:
        if v not in value_of:
            value_of[v] = f"y{len(value_of)}"
            writer.lines.append(f"{value_of[v]} = JaxprTracer(trace, {writer.name(v.aval)}, {atoms[v]})")
    result, *residuals = [value_of[v] for v in known.jaxpr.outvars]
    return writer.function(["trace", "append", "constant", "source", *inputs], f"{result}, {packed(residuals)}")


def recording_backward(
    closed: ClosedJaxpr,
    slots: Sequence[int],
    types: Sequence[Any],
    arrivals: Sequence[int],
    n_packed: int,
    single: bool,
) -> Callable[..., Any] | None:
    """``(append, constant, arrive, source, ct, packed, places)``: records a transposed linear program.

    ``append`` takes equations, ``constant`` gives the atom of a residual that is a constant; ``arrive(place, atom,
    type)`` is called with the place of a slot, when as many equations have been recorded as ``arrivals`` says.
    ``places`` are those of the operands, one as it is if there is a ``single`` one. None where the program has
    constants, or results that are none of its variables.
    """
    jaxpr = closed.jaxpr
    if closed.consts or any(type(v) is Literal for v in jaxpr.outvars):
        return None
    writer = _EquationWriter()
    residuals = {v: f"r{i}" for i, v in enumerate(jaxpr.invars[:n_packed])}
    if residuals:
        writer.lines.append(f"{packed([*residuals.values()])} = packed")
    read = {v for atoms in (*[eqn.invars for eqn in jaxpr.eqns], jaxpr.outvars) for v in atoms}
    called: dict[Any, str] = {jaxpr.invars[-1]: "ct"}
    for v, value in residuals.items():
        if v in read:
            called[v] = writer.atom(value)
    done = 0
    for v, slot, kind, arrival in zip(jaxpr.outvars, slots, types, arrivals, strict=True):
        writer.equations(jaxpr.eqns[done:arrival], "append", called)
        done = arrival
        writer.lines.append(f"arrive({'places' if single else f'places[{slot}]'}, {called[v]}, {writer.name(kind)})")
    writer.equations(jaxpr.eqns[done:], "append", called)
    return writer.function(["append", "constant", "arrive", "source", "ct", "packed", "places"], "None")
