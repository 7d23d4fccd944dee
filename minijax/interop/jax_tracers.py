"""Leaked tracers of the real JAX: which tracers leaked, and JAX's information on them."""

from __future__ import annotations

import sys
from typing import Any

from minijax.interop.lines import place_of
from minijax.interop.values import aval_of

# JAX's trace class -> its transformation, for traces that do not name it.
_LEVELS = {"LinearizeTrace": "linearize", "JVPTrace": "jvp", "BatchTrace": "vmap"}


class Ended:
    """Distinguishes leaked JAX tracers from tracers of transformations that are active in this thread."""

    def __init__(self) -> None:
        core: Any = sys.modules.get("jax._src.core")
        self.kind: Any = getattr(core, "Tracer", None)
        self._alive: set[int] = set()
        trace = core.trace_ctx.trace if self.kind is not None else None
        while trace is not None:
            self._alive.add(id(trace))
            trace = getattr(trace, "parent_trace", None)

    def __contains__(self, x: Any) -> bool:
        return self.kind is not None and issubclass(type(x), self.kind) and id(x._trace) not in self._alive


def facts(tracer: Any) -> tuple[str, str, str, Any]:
    """A tracer's type, transformation, function, and creation site: ``(code, offset)`` or None."""
    trace = tracer._trace
    info = getattr(getattr(trace, "frame", None), "debug_info", None)
    level = getattr(info, "traced_for", "") or _LEVELS.get(type(trace).__name__, type(trace).__name__)
    traceback = getattr(getattr(tracer, "_line_info", None), "traceback", None)
    place = None if traceback is None else place_of(traceback)
    return _type_of(tracer), f"{level} (jax)", getattr(info, "func_src_info", "") or "", place


def inside(tracer: Any) -> list[Any]:
    """The JAX tracers that a tracer holds."""
    return list(getattr(getattr(tracer, "parent", None), "in_tracers", ()))


def _type_of(tracer: Any) -> str:
    try:
        return aval_of(tracer.aval).str_short(short_dtypes=True)
    except (TypeError, NotImplementedError):  # a mutable reference
        return str(tracer.aval)
