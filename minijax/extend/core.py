"""Primitives and jaxprs, under the name that ``jax.extend.core`` gives them."""

from collections.abc import Callable
from typing import Any

from minijax.core.primitive import Primitive
from minijax.core.trace import Tracer
from minijax.errors import JaxprTypeError
from minijax.ir.evaluate import eval_closed, eval_jaxpr
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.ir.parse import JaxprSyntaxError, parse_jaxpr

__all__ = [
    "ClosedJaxpr",
    "DropVar",
    "Jaxpr",
    "JaxprEqn",
    "JaxprSyntaxError",
    "JaxprTypeError",
    "Literal",
    "Primitive",
    "Tracer",
    "Var",
    "eval_jaxpr",
    "jaxpr_as_fun",
    "parse_jaxpr",
    "subjaxprs",
]


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A function of flat values that evaluates ``closed_jaxpr``."""

    def fun(*args: Any) -> list[Any]:
        return eval_closed(closed_jaxpr, *args)

    return fun
