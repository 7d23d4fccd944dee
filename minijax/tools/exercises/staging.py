"""Exercises about the jaxpr that tracing records."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax import numpy as jnp
from minijax.api import grad, make_jaxpr
from minijax.interpreters.partial_eval import dce_jaxpr
from minijax.ir.jaxpr import JaxprEqn, subjaxprs
from minijax.ir.pretty import jaxpr_document
from minijax.tools.documents.document import Printout
from minijax.tools.exercises.measure import close, expect, note, shown
from minijax.tools.exercises.model import Answer, NotYet, Passed
from minijax.tools.exercises.pages import start_names

# --- predict the jaxpr --------------------------------------------------------------------------------------


def _check_count(answer: Answer) -> Passed:
    program = make_jaxpr(start_names("predict-the-jaxpr")["f"])(1.0)
    left = dce_jaxpr(program.jaxpr, [True])[0].eqns
    counts = len(program.eqns), len(left)
    said = answer["answer"]
    numbers = isinstance(said, tuple | list) and len(said) == 2 and all(type(each) is int for each in said)
    if not numbers:
        raise NotYet(f"answer is {said!r}, and should be two integers: (equations written down, equations left).")
    _judge_written(said[0], counts[0])
    _judge_left(said[1], *counts)
    gone = [eqn.primitive.name for eqn in program.eqns if all(eqn.outvars[0] is not e.outvars[0] for e in left)]
    dropped = note(f"dce leaves out {' and '.join(gone) or 'nothing'}: nothing that is returned needs them")
    said = f"{counts[0]} equations, and {counts[1]} when dce is done."
    return Passed(said, (Printout(jaxpr_document(program)), dropped))


def _judge_written(count: int, true: int) -> None:
    hints = {
        true + 1: "You have counted one too many. 2.0 and 3.0 are Python numbers: Python multiplies them, and no "
        "interpreter sees that.",
        true - 1: "One is missing. sin(x) is there twice in f, and c counts too: staging writes down every operation "
        "that Python calls, needed or not.",
        true - 2: "Two are missing. A Python loop is over when the program is staged: each of its three iterations "
        "has written an equation. b and c are written down too, although nothing uses them.",
        true - 3: "Three are missing. f is staged by running it: each operation on x is written down each time, "
        "whether or not its result is used.",
    }
    if count == true:
        return
    if count > true + 1:
        raise NotYet(
            f"{count} is too many for what is written down. Only operations on x, and on values computed from x, "
            "reach an interpreter; Python's own operations leave no equation."
        )
    few = (
        f"{count} is too few for what is written down: run f in your head, as Python would, and count each operation "
        "on x or on a value computed from x."
    )
    raise NotYet(hints.get(count, few))


def _judge_left(count: int, written: int, true: int) -> None:
    if count == true:
        return
    start = f"{written} are written down, right. "
    if count == written:
        raise NotYet(f"{start}Dead-code elimination finds something to take away: look at what f returns.")
    if count == true + 1:
        raise NotYet(f"{start}c goes, and then something else is not needed any more: dce reads the program backwards.")
    if count == true - 1:
        raise NotYet(
            f"{start}You have taken away one too many. sin(x) is computed twice, but both results are used: "
            "dce removes equations that are not needed, not repeated ones. (XLA removes those later.)"
        )
    raise NotYet(
        f"{start}But {count} is wrong: start from what f returns and go back to x. Every equation on the way stays."
    )


# --- one equation for a loop --------------------------------------------------------------------------------


def _check_loop(answer: Answer) -> Passed:
    grow = answer.function("grow")
    x = jnp.float32(0.5)
    rates = jnp.linspace(0.1, 0.4, 12, dtype=jnp.float32)
    values = np.asarray(rates)
    program = make_jaxpr(grow)(x, rates)
    result = grow(x, rates)
    if isinstance(result, tuple):
        raise NotYet(
            "grow returns more than x. scan gives a pair, the carry at the end and what it stacked: the carry alone is "
            "expected."
        )
    expect(
        "grow(x, rates)",
        result,
        _unrolled(x, values),
        [
            (_unrolled(x, values[:-1]), "The last rate is left out."),
            (_unrolled(x, values[1:]), "The first rate is left out."),
            (_unrolled(x, values[::-1]), "The rates come in the wrong order."),
            (
                x + np.sum(values) * np.sin(0.5),
                "Every step begins with the first x. The x of one step is the carry: the next step begins with it.",
            ),
            (_unrolled(x, values[:1]), "That is one step."),
            (_exchanged(x, values), "The arguments of the step are exchanged: it takes the carry first, then a rate."),
            *(
                (
                    stacked,
                    "scan gives (carry, stacked): that is what the steps stacked. The carry at the end is expected.",
                )
                for stacked in _stacked(x, values)
            ),
            (
                x + values * np.sin(0.5),
                "Each rate has made an x of its own from the first one. The x of one step is the "
                "carry: the next step begins with it.",
            ),
        ],
        lambda: _first_wrong(grow, x, rates),
    )
    inner = _judge_equations(program.eqns)
    few = rates[:5]
    expect("grow for 5 rates", grow(x, few), _unrolled(x, values[:5]), (), lambda: "12 is a number of this call only.")
    found, wanted = grad(grow)(x, rates), grad(_unrolled)(x, values)
    expect("grad(grow)", found, wanted, [(0.0, "The gradient is zero: something in the step stops it.")])
    before = len(make_jaxpr(_unrolled)(x, rates).eqns)
    return Passed(
        f"One equation, with {inner} inside, for any number of rates; before, {before} for {12}. Value and "
        "gradient are the same."
    )


def _unrolled(x: Any, rates: Any) -> Any:
    return start_names("one-equation")["grow"](x, rates)


def _exchanged(x: Any, rates: Any) -> Any:
    """The result if the step takes the carry for the rate and the rate for the carry."""
    for rate in rates:
        x = rate + x * jnp.sin(rate)
    return x


def _stacked(x: Any, rates: Any) -> tuple[Any, Any]:
    """The values of x before each of the steps, and after each."""
    courses = np.array([_unrolled(x, rates[:count]) for count in range(len(rates) + 1)])
    return courses[:-1], courses[1:]


def _first_wrong(grow: Any, x: Any, rates: Any) -> str:
    """A message about the smallest number of rates for which the result is wrong; '' if there is none."""
    for count in range(1, len(rates)):
        due = _unrolled(x, np.asarray(rates[:count]))
        try:
            found = grow(x, rates[:count])
        except Exception:  # then something more basic is wrong
            return ""
        if not close(found, due):
            often = "the first rate alone" if count == 1 else f"the first {count} rates"
            return f"With {often} it gives {shown(found)}, and {shown(due)} is expected."
    return ""


def _judge_equations(eqns: list[JaxprEqn]) -> int:
    """Raise NotYet unless the program is one scan. Returns the number of equations in the scan's body."""
    wrapped = False
    while len(eqns) == 1 and eqns[0].primitive.name == "jit":  # look inside a call
        eqns, wrapped = eqns[0].params["jaxpr"].eqns, True
    names = [eqn.primitive.name for eqn in eqns]
    rest = [name for name in names if name not in ("scan", "while")]
    if len(names) > len(rest) > 0:
        raise NotYet(f"{len(names)} equations: one is the loop; the others are {', '.join(rest)}.")
    if len(names) > 1 and wrapped:
        raise NotYet(
            f"One equation, jit, with {len(names)} inside: wrapped up, and still unrolled. The program grows with the "
            "number of rates."
        )
    if len(names) > 1:
        raise NotYet(
            f"{len(names)} equations for {12} rates: the loop is still a Python loop, which is over when the "
            "program is staged. Give the step to lax.scan."
        )
    if names == ["while"]:
        raise NotYet(
            "One equation, a while: its number of iterations is not known in advance, so reverse mode cannot keep the "
            "residuals of each iteration. grad needs a scan."
        )
    if names != ["scan"]:
        raise NotYet(f"The program is {', '.join(names) or 'empty'}, where one scan is expected.")
    return sum(len(each.eqns) for each in subjaxprs(eqns[0].params))


CHECKS = {"predict-the-jaxpr": _check_count, "one-equation": _check_loop}
