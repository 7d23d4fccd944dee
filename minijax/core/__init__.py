"""The engine's foundations: abstract values, primitives, the interpreter stack, arrays and observers.

It has the names of ``jax.core`` that authors of extensions use, such as ``ShapedArray``, ``Tracer`` and ``get_aval``.
"""

from typing import Any

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.lazy import HigherModule
from minijax.core.primitive import Primitive
from minijax.core.trace import Trace, Tracer, TraceTag, eval_context, set_current_trace, take_current_trace

# In JAX this is the base class of all types of values.
AbstractValue = ShapedArray

__all__ = [
    "AbstractValue",
    "Primitive",
    "ShapedArray",
    "Trace",
    "TraceTag",
    "Tracer",
    "eval_context",
    "get_aval",
    "set_current_trace",
    "take_current_trace",
]

# Names of ``jax.core`` that are defined above this package, and the modules that define them.
_extend = HigherModule("extend_core")
_ABOVE = {
    **dict.fromkeys(("Atom", "DropVar", "Effects", "Value", "eval_jaxpr", "gensym"), _extend),
    **dict.fromkeys(("find_top_trace", "get_opaque_trace_state", "new_jaxpr_eqn"), _extend),
    **dict.fromkeys(("no_effects", "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype"), _extend),
    "DebugInfo": HigherModule("api_util"),
}


def __getattr__(name: str) -> Any:
    """The names of ``jax.core`` that packages use and that higher layers define."""
    if name not in _ABOVE:
        raise AttributeError(f"module 'minijax.core' has no attribute {name!r}", name=name)
    return getattr(_ABOVE[name], name)
