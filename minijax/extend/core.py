"""Primitives and jaxprs, under the name that ``jax.extend.core`` gives them."""

import weakref
from collections.abc import Callable
from typing import Any

from minijax.core.primitive import Primitive
from minijax.core.trace import Trace, Tracer, state
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
    "OpaqueTraceState",
    "Primitive",
    "Tracer",
    "Var",
    "eval_jaxpr",
    "find_top_trace",
    "get_opaque_trace_state",
    "jaxpr_as_fun",
    "parse_jaxpr",
    "subjaxprs",
]


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A function of flat values that evaluates ``closed_jaxpr``."""

    def fun(*args: Any) -> list[Any]:
        return eval_closed(closed_jaxpr, *args)

    return fun


class OpaqueTraceState:
    """Which transformation is at work; it can be compared, and nothing else be learned of it."""

    __slots__ = ("_innermost",)

    def __init__(self) -> None:
        self._innermost = weakref.ref(state.stack[-1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpaqueTraceState):
            return NotImplemented
        return self._innermost == other._innermost

    __hash__ = None  # type: ignore[assignment]


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """The state of this thread, equal to another as long as no transformation begins or ends.

    Libraries of modules keep it with what they make, and so know whether it is used in another transformation.

    Args:
      convention: not used; JAX's.
    """
    return OpaqueTraceState()


def find_top_trace(_: Any) -> Trace:
    """The interpreter of the innermost transformation. The argument is JAX's, which does not look at it either."""
    return state.stack[-1].trace
