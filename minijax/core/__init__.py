"""The engine's foundations: abstract values, primitives, the interpreter stack, arrays and the observer seam.

``jax.core``'s names that extension authors use resolve here: ``ShapedArray``, ``Tracer``, ``get_aval``.
"""

import importlib
from typing import Any

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.trace import Trace, Tracer

# There is one kind of type.
AbstractValue = ShapedArray

__all__ = ["AbstractValue", "Primitive", "ShapedArray", "Trace", "Tracer", "get_aval"]

# What of JAX's module of this name is defined above this package, and where.
_ABOVE = {
    **dict.fromkeys(("Atom", "DropVar", "Effects", "Value", "eval_jaxpr", "gensym"), "minijax.extend.core"),
    **dict.fromkeys(("find_top_trace", "get_opaque_trace_state", "new_jaxpr_eqn"), "minijax.extend.core"),
    **dict.fromkeys(("no_effects", "valid_jaxtype"), "minijax.extend.core"),
    "DebugInfo": "minijax.api_util",
    **dict.fromkeys(("TraceTag", "eval_context", "set_current_trace", "take_current_trace"), "minijax.core.trace"),
    "unsafe_get_axis_names_DO_NOT_USE": "minijax.extend.core",
}


def __getattr__(name: str) -> Any:
    """The names of ``jax.core`` that packages use and that higher layers define."""
    if name not in _ABOVE:
        raise AttributeError(f"module 'minijax.core' has no attribute {name!r}", name=name)
    return getattr(importlib.import_module(_ABOVE[name]), name)
