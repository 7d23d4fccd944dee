"""The engine's foundations: abstract values, primitives, the interpreter stack, arrays and the observer seam.

``jax.core``'s names that extension authors use resolve here: ``ShapedArray``, ``Tracer``, ``get_aval``.
"""

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.trace import Trace, Tracer

# There is one kind of type.
AbstractValue = ShapedArray

__all__ = ["AbstractValue", "Primitive", "ShapedArray", "Trace", "Tracer", "get_aval"]
