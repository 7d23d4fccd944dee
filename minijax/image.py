"""``minijax.image``: resizing, borrowed from JAX."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(globals())
