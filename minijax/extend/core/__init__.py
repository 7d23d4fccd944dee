"""Primitives and jaxprs, under JAX's name ``extend.core``."""

import importlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.array import is_array_like
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.trace import Trace, Tracer, TraceTag, set_current_trace, state, take_current_trace
from minijax.errors import JaxprTypeError
from minijax.ir.evaluate import eval_closed, eval_jaxpr
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.ir.parse import JaxprSyntaxError, parse_jaxpr

__all__ = [
    "Atom",
    "ClosedJaxpr",
    "CallPrimitive",  # noqa: F822  (see __getattr__)
    "DropVar",
    "Effect",
    "Effects",
    "Jaxpr",
    "JaxprEqn",
    "JaxprSyntaxError",
    "JaxprTypeError",
    "Literal",
    "OpaqueTraceState",
    "Primitive",
    "TraceTag",
    "Tracer",
    "Var",
    "call_impl",  # noqa: F822
    "eval_jaxpr",
    "find_top_trace",
    "gensym",
    "get_opaque_trace_state",
    "jaxpr_as_fun",
    "mapped_aval",
    "new_jaxpr_eqn",
    "no_effects",
    "parse_jaxpr",
    "set_current_trace",
    "subjaxprs",
    "take_current_trace",
    "unmapped_aval",
    "unsafe_get_axis_names_DO_NOT_USE",
    "valid_jaxtype",
]

# Atom: an input of an equation. Value: an input or output of an operation. Effects: the effects of an equation.
Atom = Var | Literal
Value = Any
Effects = frozenset


class Effect:
    """The base of user-defined effects of equations."""


no_effects: frozenset[Any] = frozenset()


# rarely used name -> the module that is imported for it at first use
_LATE = {**dict.fromkeys(("CallPrimitive", "call_impl"), "calls"), "primitives": "primitives"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    module = importlib.import_module(f"{__name__}.{_LATE[name]}")
    return module if name == _LATE[name] else getattr(module, name)


def gensym(suffix: str = "") -> Callable[[ShapedArray], Var]:
    """A function that makes a new variable of a given type. Variables get names only when printed."""
    return Var


def new_jaxpr_eqn(
    invars: Sequence[Any],
    outvars: Sequence[Any],
    primitive: Primitive,
    params: dict[str, Any],
    effects: Any = no_effects,
    source_info: Any = None,
    ctx: Any = None,
) -> JaxprEqn:
    """An equation with the effects of its primitive; ``effects`` and ``ctx`` are ignored."""
    return JaxprEqn(primitive, list(invars), params, list(outvars), source_info)


def valid_jaxtype(x: Any) -> bool:
    """Whether ``x`` is an array, a number or a tracer."""
    return is_array_like(x)


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type ``aval`` without its ``axis``, which has ``size`` elements; ``aval`` itself if ``axis`` is None."""
    if axis is None:
        return aval
    if aval.shape[axis] != size:
        raise ValueError(f"axis {axis} of {aval} has {aval.shape[axis]} elements, not {size}")
    return aval.update(shape=(*aval.shape[:axis], *aval.shape[axis:][1:]))


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type ``aval`` with a new axis of ``size`` at ``axis``; ``aval`` itself if ``axis`` is None."""
    if axis is None:
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A function of flat values that evaluates ``closed_jaxpr``."""

    def fun(*args: Any) -> list[Any]:
        return eval_closed(closed_jaxpr, *args)

    return fun


class OpaqueTraceState:
    """Identifies the active transformation; it supports only comparison."""

    __slots__ = ("_innermost",)

    def __init__(self) -> None:
        self._innermost = weakref.ref(state.stack[-1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpaqueTraceState):
            return NotImplemented
        return self._innermost == other._innermost

    __hash__ = None  # type: ignore[assignment]


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """The state of this thread; states are equal while no transformation begins or ends."""
    return OpaqueTraceState()


def find_top_trace(_: Any) -> Trace:
    """The interpreter of the innermost transformation. The argument is ignored, as in JAX."""
    return state.stack[-1].trace


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:  # noqa: N802, as JAX names it
    """The names of the current mapped axes, innermost last."""
    return [name for name, _ in state.axis_env]
