"""What each output of a program depends on, found from its jaxpr alone, forwards: every variable is given the set of
the inputs and of the equations that it depends on.

It shares nothing with ``minijax.tools.values.slices``, which goes backwards. A result depends on what chose it. Which
branch a cond takes is found by computing the value of its index.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from minijax import errors
from minijax.ir.jaxpr import ClosedJaxpr, Literal

NOTHING: frozenset[Any] = frozenset()


def dependence(closed: ClosedJaxpr, args: list[Any]) -> list[frozenset[Any]]:
    """For each output the inputs (their indices) and the innermost equations (an id, the primitive, the line)."""
    return _program(closed, [frozenset({i}) for i in range(len(args))], args, (), "")


def counted(depends: frozenset[Any]) -> tuple[set[int], Counter[tuple[str, str]]]:
    """The inputs, and how often each primitive of each line."""
    inputs = {each for each in depends if isinstance(each, int)}
    return inputs, Counter(each[1:] for each in depends if not isinstance(each, int))


def _program(closed: ClosedJaxpr, given: list[frozenset[Any]], values: Any, where: tuple[Any, ...], line: str) -> Any:
    jaxpr = closed.jaxpr
    depends: dict[Any, frozenset[Any]] = {v: NOTHING for v in jaxpr.constvars}
    depends.update(zip(jaxpr.invars, given, strict=True))
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    if values is not None:
        known.update(zip(jaxpr.invars, values, strict=True))

    def read(atom: Any) -> frozenset[Any]:
        return NOTHING if type(atom) is Literal else depends[atom]

    for number, eqn in enumerate(jaxpr.eqns):
        operands = [read(each) for each in eqn.invars]
        have = [each.val if type(each) is Literal else known.get(each) for each in eqn.invars]
        have = None if values is None or any(each is None for each in have) else have
        results = _equation(eqn, operands, have, (*where, number), line_of(eqn) or line)
        depends.update(zip(eqn.outvars, results, strict=True))
        if eqn.primitive.name == "swap":  # what is read from the reference later depends on what is written now
            depends[eqn.invars[0]] = read(eqn.invars[0]).union(*results)
        if have is not None:
            out = eqn.primitive.bind(*have, **eqn.params)
            known.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
    return [read(each) for each in jaxpr.outvars]


def _equation(
    eqn: Any, operands: list[frozenset[Any]], values: Any, where: tuple[Any, ...], line: str
) -> list[frozenset[Any]]:
    name, params = eqn.primitive.name, eqn.params
    together = NOTHING.union(*operands)
    if name in ("jit", "remat2"):
        return _program(params["jaxpr"], operands, values, where, line)
    if name in ("custom_jvp_call", "custom_vjp_call"):
        return _program(params["call_jaxpr"], operands, values, where, line)
    if name == "scan":
        consts, carries = params["num_consts"], params["num_carry"]
        given = list(operands)
        while True:
            out = _program(params["jaxpr"], given, None, where, line)
            new = [given[consts + i] | out[i] for i in range(carries)]
            if new == given[consts : consts + carries]:
                return out
            given[consts : consts + carries] = new
    if name == "while":
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carried = operands[second:]
        while True:
            (chosen,) = _program(params["cond_jaxpr"], operands[:first] + carried, None, (*where, "cond"), line)
            out = _program(params["body_jaxpr"], operands[first:second] + carried, None, (*where, "body"), line)
            new = [chosen | before | after for before, after in zip(carried, out, strict=True)]
            if new == carried:
                return new
            carried = new
    if name == "cond":
        branches = list(enumerate(params["branches"]))
        if values is not None:
            branches = [branches[int(values[0])]]
        each = [
            _program(branch, operands[1:], None if values is None else values[1:], (*where, i), line)
            for i, branch in branches
        ]
        return [operands[0].union(*results) for results in zip(*each, strict=True)]
    if name == "custom_linear_solve":
        lengths = params["const_lengths"]
        begin = lengths.matvec + lengths.vecmat
        own = operands[begin : begin + lengths.solve]
        return _program(params["jaxprs"].solve, own + operands[sum(lengths) :], None, where, line)
    assert name in ("reduce", "scatter-add") or not any(isinstance(v, ClosedJaxpr) for v in params.values()), name
    return [together | {(where, name, line)}] * len(eqn.outvars)


def line_of(eqn: Any) -> str:
    """``file.py:12 (f)``, as a recording has it."""
    if not eqn.source:
        return ""
    file, line, *_, function = errors.summarize(eqn.source).rpartition("/")[2].replace(" ", ":", 1).split(":")
    return f"{file}:{line} {function}"
