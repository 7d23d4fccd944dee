"""``minijax.nn``: the functions that neural networks are written with; what is not here is borrowed from JAX."""

from minijax.core.borrowing import borrowing as _borrowing

__getattr__, __dir__ = _borrowing(globals(), "minijax.nn.functions")
