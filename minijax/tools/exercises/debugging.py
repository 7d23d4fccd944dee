"""Exercises about debugging: find a leaked tracer, find the first NaN."""

from __future__ import annotations

import re
from typing import Any

from minijax.api import make_jaxpr
from minijax.core.trace import Tracer
from minijax.errors import did_you_mean
from minijax.ir.jaxpr import Jaxpr, subjaxprs
from minijax.tools.exercises.measure import note, shown
from minijax.tools.exercises.model import Answer, NotYet, Passed
from minijax.tools.exercises.pages import start_names
from minijax.tools.explain.leaks import find_leaks
from minijax.tools.explain.nan import find_nonfinite

# --- the leaked tracer --------------------------------------------------------------------------------------


def _check_leak(answer: Answer) -> Passed:
    said = answer["suspect"]
    if isinstance(said, Tracer):
        raise NotYet("suspect is the tracer itself: write the name of the variable that keeps it, in quotes.")
    if not isinstance(said, str):
        raise NotYet("Write the name of the variable in quotes: suspect = 'name'.")
    name = said.strip().removeprefix("global ").split("[")[0].split(".")[0]
    if not name:
        raise NotYet("suspect is still empty: write the name of the variable, in quotes. %leaks shows it.")
    if name != "cache":
        raise NotYet(_innocent(name, answer))
    leaks = find_leaks(answer.names)[1]
    rows = tuple(
        note(f"{each.type} of {each.level}, {each.born or 'made in ' + each.function}")
        for each in leaks
        if each.chain[:1] == ("global cache",)
    )
    return Passed("cache keeps a tracer: scale was put into it while normalize was traced.", rows[:3])


_INNOCENT = {
    "shapes": "shapes holds {value}: the shape of a tracer is a Python tuple, not a tracer.",
    "history": "history holds arrays: the results of normalize, appended outside of jit.",
    "normalize": "normalize is where the tracer was made. Which variable keeps it, now that normalize has been traced?",
    "scale": "The tracer was called scale inside normalize. That variable ended when normalize returned. Which "
    "variable keeps its value?",
    "v": "v, the argument of normalize, is a tracer while normalize is traced, and is not kept.",
}


def _innocent(name: str, answer: Answer) -> str:
    """Why the variable ``name`` does not hold the tracer."""
    if name in _INNOCENT:
        return _INNOCENT[name].format(value=shown(answer.names.get(name)))
    if name in answer.names:
        return f"{name} keeps no tracer: look where normalize stores a value while it is traced."
    return f"There is no variable called {name}.{did_you_mean(name, ('shapes', 'history', 'cache'))}"


# --- the first NaN ------------------------------------------------------------------------------------------


def _check_nan(answer: Answer) -> Passed:
    said = answer["culprit"]
    if callable(said):
        raise NotYet("Write the name in quotes: culprit = 'name'.")
    if not isinstance(said, str):
        raise NotYet(f"culprit is {shown(said)}, and should be the name of a primitive, in quotes.")
    name = _primitive_name(said)
    if not name:
        raise NotYet("culprit is still empty: write the name of the primitive, in quotes.")
    if name != "sqrt":
        raise NotYet(_not_culprit(name))
    found = find_nonfinite(*_program(), {}, backward=True)
    rows = []
    for each in (found.inf, found.nan):
        if each is not None:
            operands = ", ".join(operand.element or operand.smallest for operand in each.inputs)
            rows.append(note(f"{each.primitive}({operands}) = {each.outputs[0].element}, {each.level}"))
    return Passed("sqrt, where near is 0: its derivative is 0.5 / 0.", tuple(rows))


def _primitive_name(said: str) -> str:
    """The primitive that an answer means. It may be a name, ``div (jvp rule of sqrt)`` as in %nan, or an operator."""
    rule = re.search(r"(?:jvp|transpose) rule of (\w+)", said)
    name = rule[1] if rule is not None else said.strip()
    return _SIGNS.get(name, name.removeprefix("jnp.").removeprefix("lax.").removesuffix("_p").removesuffix("_jvp"))


_SIGNS = {"**": "integer_pow", "*": "mul", "/": "div", "-": "sub", "+": "add", ">": "gt"}
_NOT_CULPRIT = {
    "mul": "mul makes the first NaN, from 0 and inf. The inf is older: which primitive's jvp rule has made it?",
    "div": "The div that makes an inf, 0.5 / 0, is not in energy: it is part of the jvp rule of a primitive. Which? "
    "(The div by 2.0 is finite, forwards and backwards.)",
    "select_n": "where (select_n) only chooses. Its transpose gives a cotangent of 0 to the branch that was not taken, "
    "and 0 does no harm, unless it meets an inf.",
    "log": "The log is of 1 + far, which is 6: finite, and so is its derivative, 1 / 6.",
    "integer_pow": "The square gets a NaN from the backward pass, and passes it on. The backward pass has made it "
    "earlier.",
    "reduce_sum": "The sum gets a NaN from the backward pass, and passes it on. The backward pass has made it earlier.",
    "sub": "a - b is 0, and its derivatives are 1 and -1. The backward pass comes here last, and brings a NaN.",
    "gt": "A comparison has no derivative at all: nothing passes through it backwards.",
    "add": "An addition passes its cotangent on unchanged, so it makes no NaN.",
}
# name of a function in jnp -> the primitive that it binds
_ALSO = {
    "where": "select_n",
    "select": "select_n",
    "pow": "integer_pow",
    "power": "integer_pow",
    "square": "integer_pow",
    "sum": "reduce_sum",
    "subtract": "sub",
    "greater": "gt",
    "divide": "div",
    "multiply": "mul",
}


def _program() -> tuple[Any, tuple[Any]]:
    """The function of the start code, and its argument."""
    names = start_names("first-nan")
    return names["energy"], (names["points"],)


def _not_culprit(name: str) -> str:
    fun, points = _program()
    known = _ALSO.get(name, name)
    if known in _NOT_CULPRIT:
        return _NOT_CULPRIT[known]
    if name in ("distance", "energy", "near", "far", "spring"):
        where = {"distance": "It is in distance, right: ", "near": "It begins with near being 0: "}.get(name, "")
        return f"{where}{name} is a name in the program. Which of its primitives is the culprit?"
    if known in _primitives(make_jaxpr(fun)(*points).jaxpr):
        return f"{known} passes its values on, forwards and backwards, and makes no NaN from finite numbers."
    return f"{name} is not in the program of energy: %jaxpr energy(points) shows which primitives are."


def _primitives(jaxpr: Jaxpr) -> set[str]:
    """The primitives of a program, including those of inner jaxprs."""
    inner = (_primitives(body) for eqn in jaxpr.eqns for body in subjaxprs(eqn.params))
    return {eqn.primitive.name for eqn in jaxpr.eqns}.union(*inner)


CHECKS = {"leaked-tracer": _check_leak, "first-nan": _check_nan}
