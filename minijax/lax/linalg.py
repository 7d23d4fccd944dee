"""``minijax.lax.linalg``: matrix decompositions and triangular solves, borrowed from JAX name by name."""

from minijax.core.borrowing import borrowing

__getattr__, __dir__ = borrowing(globals())
