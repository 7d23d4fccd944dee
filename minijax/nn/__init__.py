"""``minijax.nn``: the functions of neural networks. Functions that minijax lacks are borrowed from JAX."""

from minijax.core.borrowing import borrowing as _borrowing

__getattr__, __dir__ = _borrowing(globals(), "minijax.nn.functions")
