"""``minijax.numpy.linalg``: linear algebra, borrowed from JAX name by name."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(globals())
