"""``minijax.nn.initializers``: initial parameters of networks, borrowed from JAX."""

from minijax.core.borrowing import borrowing

__getattr__, __dir__ = borrowing(globals())
