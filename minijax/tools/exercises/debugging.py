"""Exercises about debugging: find a leaked tracer, find the first NaN."""

from __future__ import annotations

import re
from typing import Any

from minijax import numpy as jnp
from minijax.api import make_jaxpr
from minijax.core.trace import Tracer
from minijax.errors import did_you_mean
from minijax.ir.jaxpr import Jaxpr, subjaxprs
from minijax.tools.exercises.measure import note, shown
from minijax.tools.exercises.model import Answer, Exercise, NotYet, Passed
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


LEAK = Exercise(
    "leaked-tracer",
    "Find the leaked tracer",
    "While jit traces a function, its values are tracers. A tracer that is stored somewhere outlives the trace, and "
    "has no value then: later calls run the compiled program, not Python. Some variable here keeps such a tracer.",
    "Which one? Set suspect to its name.",
    "shapes, history, cache = [], [], {}\n"
    "\n"
    "@jit\n"
    "def normalize(v):\n"
    "    shapes.append(v.shape)\n"
    "    if v.shape not in cache:\n"
    "        scale = jnp.sqrt(jnp.sum(v * v))\n"
    "        cache[v.shape] = scale\n"
    "    return v / cache[v.shape]\n"
    "\n"
    "history.append(normalize(jnp.arange(3.0)))\n"
    'suspect = ""\n',
    ("suspect",),
    _check_leak,
    (
        "Look at what the three variables hold: the text of a tracer says that it is one.",
        "%leaks lists the tracers that have outlived their transformation, and the variable that keeps each.",
        "v.shape is a Python tuple, and after the call the result of normalize is an array. What is left?",
    ),
    ('suspect = "cache"\n', 'suspect = "cache[(3,)]"\n'),
    "The cache looks right: a vector of the same shape would find its scale. But tracing computes no scale, only a "
    "tracer, and the next vector has another scale. A jitted function must return the values that are to be kept.",
)


# --- the first NaN ------------------------------------------------------------------------------------------


def distance(a: Any, b: Any) -> Any:
    """The distance of two points, as in the start code."""
    return jnp.sqrt(jnp.sum((a - b) ** 2))


def energy(points: Any) -> Any:
    """The function whose gradient is NaN, as in the start code."""
    near = distance(points[0], points[1])
    far = distance(points[0], points[2])
    spring = jnp.where(near > 0.0, near, 0.0)
    return spring + jnp.log(1.0 + far) / 2.0


POINTS = [[1.0, 2.0], [1.0, 2.0], [4.0, 6.0]]


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
    found = find_nonfinite(energy, (jnp.array(POINTS),), {}, backward=True)
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


def _not_culprit(name: str) -> str:
    known = _ALSO.get(name, name)
    if known in _NOT_CULPRIT:
        return _NOT_CULPRIT[known]
    if name in ("distance", "energy", "near", "far", "spring"):
        where = {"distance": "It is in distance, right: ", "near": "It begins with near being 0: "}.get(name, "")
        return f"{where}{name} is a name in the program. Which of its primitives is the culprit?"
    if known in _primitives(make_jaxpr(energy)(jnp.array(POINTS)).jaxpr):
        return f"{known} passes its values on, forwards and backwards, and makes no NaN from finite numbers."
    return f"{name} is not in the program of energy: %jaxpr energy(points) shows which primitives are."


def _primitives(jaxpr: Jaxpr) -> set[str]:
    """The primitives of a program, including those of inner jaxprs."""
    inner = (_primitives(body) for eqn in jaxpr.eqns for body in subjaxprs(eqn.params))
    return {eqn.primitive.name for eqn in jaxpr.eqns}.union(*inner)


NAN = Exercise(
    "first-nan",
    "Find where the NaN begins",
    "energy(points) is finite, but grad(energy)(points) is not if two points are the same. Every operation passes a "
    "NaN on; the derivative of one primitive has made the first NaN.",
    "Which primitive? Set culprit to its name.",
    "def distance(a, b):\n"
    "    return jnp.sqrt(jnp.sum((a - b) ** 2))\n"
    "\n"
    "def energy(points):\n"
    "    near = distance(points[0], points[1])\n"
    "    far = distance(points[0], points[2])\n"
    "    spring = jnp.where(near > 0.0, near, 0.0)\n"
    "    return spring + jnp.log(1.0 + far) / 2.0\n"
    "\n"
    "points = jnp.array([[1.0, 2.0], [1.0, 2.0], [4.0, 6.0]])\n"
    'culprit = ""\n',
    ("culprit",),
    _check_nan,
    (
        "%nan energy(points) --grad runs the program and its backward pass, equation by equation, to the first NaN.",
        "The NaN is 0 * inf. The 0 comes from the where. An inf comes from a division by 0: in whose jvp rule?",
        "near is 0. Which primitive has made it, and what is its derivative at 0?",
    ),
    ('culprit = "sqrt"\n', 'culprit = "jnp.sqrt"\n', 'culprit = "div (jvp rule of sqrt)"\n'),
    "The cotangent of near is 0, because jnp.where took the other branch; the derivative of sqrt at 0 is inf; 0 * inf "
    "is NaN. The next exercise repairs it.",
)

EXERCISES = (LEAK, NAN)
