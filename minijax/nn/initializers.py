"""``minijax.nn.initializers``: the first parameters of a network, borrowed from JAX."""

from minijax.core.borrowing import borrowing

__getattr__, __dir__ = borrowing(globals())
