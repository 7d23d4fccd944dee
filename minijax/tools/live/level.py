"""The base class of pushed transformations: inputs, entries on the engine's stack, opening and closing."""

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
    """The marker for tracers without a value outside their level; None can be a value."""

    def __repr__(self) -> str:
        return "GONE"


GONE = _Gone()


def is_tracer(x: Any) -> TypeGuard[Tracer]:
    """Whether ``x`` is a tracer, by its type: isinstance would call ``__class__`` of user objects."""
    return issubclass(type(x), Tracer)


class Level:
    """One pushed transformation.

    Args:
      kind: its name, a key of ``KINDS``.
      inputs: the names of its inputs, with their values: trees of arrays (or of types with ``abstract``).

    ``mains`` are its entries on the engine's stack, outermost first; ``axis_env`` its mapped axes; ``saved`` the
    earlier values of its names.
    """

    # description of the values that replace its tracers
    outside = ""
    # whether an input can be a type, such as f32[3]
    abstract = False

    def __init__(self, kind: str, inputs: dict[str, Any]) -> None:
        self.kind = kind
        self.inputs = inputs
        self.mains: list[MainTrace] = []
        self.axis_env = state.axis_env
        self.saved: dict[str, Any] = {}
        # what %pop without argument would have returned before; restored on closing
        self.latest: tuple[Any, str] | None = None
        # number of equations already shown
        self.shown = 0
        self.in_leaves, self.in_tree = tree_flatten((tuple(inputs.values()), {}))

    @property
    def label(self) -> str:
        """``jvp:1``: the transformation and its stack level."""
        return f"{self.kind}:{self.mains[-1].level}"

    @property
    def subject(self) -> str:
        """The subject of error messages."""
        return f"%push {self.kind} {' '.join(self.inputs)}"

    def owns(self, x: Any) -> bool:
        """Whether ``x`` is a tracer of this level."""
        return is_tracer(x) and x._trace.main in self.mains

    def named(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """The trees of ``leaves``, by the inputs' names."""
        values, _ = tree_unflatten(self.in_tree, leaves)
        return dict(zip(self.inputs, values, strict=True))

    def outputs(self, value: Any) -> tuple[list[Any], Any]:
        """The leaves and the tree of the popped value."""
        leaves, tree = tree_flatten(value)
        for x in leaves:
            if not is_array_like(x):
                out = f"%pop gives arrays and containers of them a way out of {self.label}"
                raise UsageError(f"{out}, and this is of type {type(x).__name__}")
        return [check_alive(to_value(x)) for x in leaves], tree

    def open(self) -> dict[str, Any]:
        """Push the interpreters on the stack; return the values of the input names in this level."""
        raise NotImplementedError

    def finish(self, value: Any) -> Callable[[], Any]:
        """Convert ``value`` in this level; the returned function makes the result after the level is closed."""
        raise NotImplementedError

    def worth(self, tracer: Tracer) -> Any:
        """The value of a tracer outside this level; GONE if it has none. Called after closing."""
        raise NotImplementedError

    def program(self) -> ClosedJaxpr | None:
        """The equations recorded so far, without outputs; None if this level records none."""
        return None
