"""The engine's foundations: abstract values, primitives, the interpreter stack, arrays and the observer seam."""

from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.trace import Trace, Tracer

__all__ = ["Primitive", "ShapedArray", "Trace", "Tracer"]
