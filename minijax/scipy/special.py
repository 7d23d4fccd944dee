"""``minijax.scipy.special``: special functions; those that are not here are borrowed from JAX when they are used."""

from minijax.core.borrowing import borrowing
from minijax.nn.functions import logsumexp

__all__ = ["logsumexp"]

__getattr__, __dir__ = borrowing(globals())
