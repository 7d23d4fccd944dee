"""The base class of the levels that %push opens. A level has inputs and interpreters, and is opened and closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from minijax.api.flat import to_value
from minijax.core.array import is_array_like
from minijax.core.trace import MainTrace, Tracer, check_alive, state
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.pytree import tree_flatten, tree_unflatten
from minijax.tools.usage import UsageError


class _Gone:
    """The class of ``GONE``, which marks tracers without a value outside their level (None could be a value)."""

    def __repr__(self) -> str:
        return "GONE"


GONE = _Gone()


def is_tracer(x: Any) -> TypeGuard[Tracer]:
    """Whether ``x`` is a tracer. ``isinstance`` could run user code: a ``__class__`` property."""
    return issubclass(type(x), Tracer)


class Level:
    """One pushed transformation.

    Args:
      kind: the name of the transformation, a key of ``KINDS``.
      inputs: name -> value of each input, a tree of arrays (or of types, if ``abstract``).

    ``mains`` are the level's entries on the engine's stack, outermost first. ``axis_env`` has the names and sizes of
    the mapped axes. ``saved`` holds the values that the input names had before.
    """

    # describes the values that replace this level's tracers when it is closed
    outside = ""
    # whether an input can be a type, such as f32[3]
    abstract = False

    def __init__(self, kind: str, inputs: dict[str, Any]) -> None:
        self.kind = kind
        self.inputs = inputs
        self.mains: list[MainTrace] = []
        self.axis_env = state.axis_env
        self.saved: dict[str, Any] = {}
        # the value that %pop without argument would have returned before this level; it is restored on closing
        self.latest: tuple[Any, str] | None = None
        # number of recorded equations that have been shown already
        self.shown = 0
        self.in_leaves, self.in_tree = tree_flatten((tuple(inputs.values()), {}))

    @property
    def label(self) -> str:
        """The transformation and its stack level, such as ``jvp:1``."""
        return f"{self.kind}:{self.mains[-1].level}"

    @property
    def subject(self) -> str:
        """The text with which error messages name this level."""
        return f"%push {self.kind} {' '.join(self.inputs)}"

    def owns(self, x: Any) -> bool:
        """Whether ``x`` is a tracer of this level."""
        return is_tracer(x) and x._trace.main in self.mains

    def named(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """name of an input -> its tree, made of ``leaves``."""
        values, _ = tree_unflatten(self.in_tree, leaves)
        return dict(zip(self.inputs, values, strict=True))

    def outputs(self, value: Any) -> tuple[list[Any], Any]:
        """The leaves and the structure of the popped value. UsageError if a leaf is no array."""
        leaves, tree = tree_flatten(value)
        for x in leaves:
            if not is_array_like(x):
                out = f"%pop returns arrays and containers of arrays from {self.label}"
                raise UsageError(f"{out}, but this is of type {type(x).__name__}")
        return [check_alive(to_value(x)) for x in leaves], tree

    def open(self) -> dict[str, Any]:
        """Push the interpreters on the stack. Returns name -> value inside this level, for each input."""
        raise NotImplementedError

    def finish(self, value: Any) -> Callable[[], Any]:
        """Take ``value`` out of this level. Call the returned function after closing the level: it makes the result."""
        raise NotImplementedError

    def worth(self, tracer: Tracer) -> Any:
        """The value of a tracer outside this level; GONE if it has none. This is called after closing."""
        raise NotImplementedError

    def program(self) -> ClosedJaxpr | None:
        """The equations recorded so far, as a program without results; None if this level records none."""
        return None
