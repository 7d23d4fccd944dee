"""What all pushed transformations have in common: inputs, entries on the engine's stack, a beginning and an end."""

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
    """Stands for "worth nothing outside its level" where None is a value."""

    def __repr__(self) -> str:
        return "GONE"


GONE = _Gone()


def is_tracer(x: Any) -> TypeGuard[Tracer]:
    """Whether ``x`` is a tracer, by its type: isinstance asks objects of the user's for their class."""
    return issubclass(type(x), Tracer)


class Level:
    """One pushed transformation.

    Args:
      kind: its name, ``KINDS``' key.
      inputs: the names it is a function of, and their values, trees of arrays (or of types, where ``abstract``).

    ``mains`` are its entries on the engine's stack, outermost first; ``axis_env`` the mapped axes in effect in it;
    ``saved`` what its names held before.
    """

    # what the names that held its tracers hold after it, in words
    outside = ""
    # whether an input can be a type, such as f32[3]
    abstract = False

    def __init__(self, kind: str, inputs: dict[str, Any]) -> None:
        self.kind = kind
        self.inputs = inputs
        self.mains: list[MainTrace] = []
        self.axis_env = state.axis_env
        self.saved: dict[str, Any] = {}
        # what %pop alone took outside, for when this level is closed
        self.latest: tuple[Any, str] | None = None
        # equations that the user has seen
        self.shown = 0
        self.in_leaves, self.in_tree = tree_flatten((tuple(inputs.values()), {}))

    @property
    def label(self) -> str:
        """``jvp:1``: the transformation, and where it stands on the stack."""
        return f"{self.kind}:{self.mains[-1].level}"

    @property
    def subject(self) -> str:
        """How errors call what is transformed."""
        return f"%push {self.kind} {' '.join(self.inputs)}"

    def owns(self, x: Any) -> bool:
        """Whether ``x`` is a tracer of this level."""
        return is_tracer(x) and x._trace.main in self.mains

    def named(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """The trees of ``leaves``, by the inputs' names."""
        values, _ = tree_unflatten(self.in_tree, leaves)
        return dict(zip(self.inputs, values, strict=True))

    def outputs(self, value: Any) -> tuple[list[Any], Any]:
        """The leaves of what is popped, and their tree."""
        leaves, tree = tree_flatten(value)
        for x in leaves:
            if not is_array_like(x):
                out = f"%pop gives arrays and containers of them a way out of {self.label}"
                raise UsageError(f"{out}, and this is of type {type(x).__name__}")
        return [check_alive(to_value(x)) for x in leaves], tree

    def open(self) -> dict[str, Any]:
        """Put the interpreters on the stack; returns the values of the names in this level."""
        raise NotImplementedError

    def finish(self, value: Any) -> Callable[[], Any]:
        """Read what ``value`` is in this level; the function returned makes the result, once the level is closed."""
        raise NotImplementedError

    def worth(self, tracer: Tracer) -> Any:
        """What a tracer of this level is outside it, GONE if it is nothing there. Called after closing it."""
        raise NotImplementedError

    def program(self) -> ClosedJaxpr | None:
        """The equations recorded so far, without results; None if this level records none."""
        return None
