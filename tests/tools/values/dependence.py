"""What each output of a program depends on, found from its jaxpr alone, forwards: every variable is given the set of
the inputs and of the equations that it depends on.

It shares nothing with ``minijax.tools.values.slices``, which goes backwards. A result depends on what chose it. Which
branches a cond takes is found by running the program, turn by turn of its loops.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import minijax.numpy as jnp
from minijax import errors
from minijax.ir.jaxpr import ClosedJaxpr, Literal

# Calls, and which of their parameters is the program.
CALLS = {"jit": "jaxpr", "remat2": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
NOTHING: frozenset[Any] = frozenset()
# The place of a cond -> the branches that it takes.
Taken = dict[tuple[Any, ...], set[int]]


def dependence(closed: ClosedJaxpr, args: list[Any]) -> list[frozenset[Any]]:
    """For each output the inputs (their indices) and the innermost equations (an id, the primitive, the line)."""
    taken: Taken = defaultdict(set)
    _Run(taken).program(closed, args, ())
    return _program(closed, [frozenset({i}) for i in range(len(args))], taken, (), "")


def counted(depends: frozenset[Any]) -> tuple[set[int], Counter[tuple[str, str]]]:
    """The inputs, and how often each primitive of each line."""
    inputs = {each for each in depends if isinstance(each, int)}
    return inputs, Counter(each[1:] for each in depends if not isinstance(each, int))


class _Run:
    """Runs a program, and notes which branches are taken."""

    def __init__(self, taken: Taken) -> None:
        self.taken = taken

    def program(self, closed: ClosedJaxpr, args: Sequence[Any], where: tuple[Any, ...]) -> list[Any]:
        """The results of a program."""
        jaxpr = closed.jaxpr
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        known.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Any:
            return atom.val if type(atom) is Literal else known[atom]

        for number, eqn in enumerate(jaxpr.eqns):
            outs = self.equation(eqn, list(map(read, eqn.invars)), (*where, number))
            known.update(zip(eqn.outvars, outs, strict=True))
        return list(map(read, jaxpr.outvars))

    def equation(self, eqn: Any, args: list[Any], where: tuple[Any, ...]) -> list[Any]:
        """The results of an equation."""
        name, params = eqn.primitive.name, eqn.params
        if name in CALLS:
            return self.program(params[CALLS[name]], args, where)
        if name == "scan":
            return self.scan(params, args, where)
        if name == "while":
            return self.loop(params, args, where)
        if name == "cond":
            branch = min(max(int(args[0]), 0), len(params["branches"]) - 1)
            self.taken[where].add(branch)
            return self.program(params["branches"][branch], args[1:], (*where, branch))
        out = eqn.primitive.bind(*args, **params)
        return list(out) if eqn.primitive.multiple_results else [out]

    def scan(self, params: Any, args: list[Any], where: tuple[Any, ...]) -> list[Any]:
        consts, carries, length = params["num_consts"], params["num_carry"], params["length"]
        carried, rows = args[consts : consts + carries], {}
        for i in reversed(range(length)) if params["reverse"] else range(length):
            given = [*args[:consts], *carried, *[x[i] for x in args[consts + carries :]]]
            outs = self.program(params["jaxpr"], given, where)
            carried, rows[i] = outs[:carries], outs[carries:]
        stacked = zip(*[rows[i] for i in range(length)], strict=True)
        return [*carried, *[jnp.stack(each) for each in stacked]]

    def loop(self, params: Any, args: list[Any], where: tuple[Any, ...]) -> list[Any]:
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carried = args[second:]
        while bool(self.program(params["cond_jaxpr"], [*args[:first], *carried], (*where, "cond"))[0]):
            carried = self.program(params["body_jaxpr"], [*args[first:second], *carried], (*where, "body"))
        return carried


def _program(closed: ClosedJaxpr, given: list[frozenset[Any]], taken: Taken, where: tuple[Any, ...], line: str) -> Any:
    jaxpr = closed.jaxpr
    depends: dict[Any, frozenset[Any]] = {v: NOTHING for v in jaxpr.constvars}
    depends.update(zip(jaxpr.invars, given, strict=True))

    def read(atom: Any) -> frozenset[Any]:
        return NOTHING if type(atom) is Literal else depends[atom]

    for number, eqn in enumerate(jaxpr.eqns):
        operands = [read(each) for each in eqn.invars]
        results = _equation(eqn, operands, taken, (*where, number), line_of(eqn) or line)
        depends.update(zip(eqn.outvars, results, strict=True))
        if eqn.primitive.name == "swap":  # what is read from the reference later depends on what is written now
            depends[eqn.invars[0]] = read(eqn.invars[0]).union(*results)
    return [read(each) for each in jaxpr.outvars]


def _equation(
    eqn: Any, operands: list[frozenset[Any]], taken: Taken, where: tuple[Any, ...], line: str
) -> list[frozenset[Any]]:
    name, params = eqn.primitive.name, eqn.params
    together = NOTHING.union(*operands)
    if name in CALLS:
        return _program(params[CALLS[name]], operands, taken, where, line)
    if name == "scan":
        consts, carries = params["num_consts"], params["num_carry"]
        given = list(operands)
        while True:
            out = _program(params["jaxpr"], given, taken, where, line)
            new = [given[consts + i] | out[i] for i in range(carries)]
            if new == given[consts : consts + carries]:
                return out
            given[consts : consts + carries] = new
    if name == "while":
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carried = operands[second:]
        while True:
            (chosen,) = _program(params["cond_jaxpr"], operands[:first] + carried, taken, (*where, "cond"), line)
            out = _program(params["body_jaxpr"], operands[first:second] + carried, taken, (*where, "body"), line)
            new = [chosen | before | after for before, after in zip(carried, out, strict=True)]
            if new == carried:
                return new
            carried = new
    if name == "cond":
        each = [
            _program(params["branches"][i], operands[1:], taken, (*where, i), line) for i in sorted(taken[where])
        ]
        return [operands[0].union(*results) for results in zip(*each, strict=True)] if each else [
            operands[0] for _ in eqn.outvars
        ]
    if name == "custom_linear_solve":
        lengths = params["const_lengths"]
        begin = lengths.matvec + lengths.vecmat
        own = operands[begin : begin + lengths.solve]
        return _program(params["jaxprs"].solve, own + operands[sum(lengths) :], taken, where, line)
    assert name in ("reduce", "scatter-add") or not any(isinstance(v, ClosedJaxpr) for v in params.values()), name
    return [together | {(where, name, line)}] * len(eqn.outvars)


def line_of(eqn: Any) -> str:
    """``file.py:12 (f)``, as a recording has it."""
    if not eqn.source:
        return ""
    file, line, *_, function = errors.summarize(eqn.source).rpartition("/")[2].replace(" ", ":", 1).split(":")
    return f"{file}:{line} {function}"
