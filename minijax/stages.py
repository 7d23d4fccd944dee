"""The stages of a jitted function, under JAX's names: for annotations, and for ``isinstance(f, stages.Wrapped)``."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from minijax.api.stages import CompiledFunction as Compiled
from minijax.api.stages import Lowered, Traced

__all__ = ["Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]

CompilerOptions = dict[str, "str | bool"]


@runtime_checkable
class Wrapped(Protocol):
    """A function that can be staged, such as a result of ``jit``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def trace(self, *args: Any, **kwargs: Any) -> Traced: ...

    def lower(self, *args: Any, **kwargs: Any) -> Lowered: ...
