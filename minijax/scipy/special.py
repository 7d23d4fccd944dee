"""``minijax.scipy.special``: special functions. Those that minijax lacks are borrowed from JAX on first use."""

from minijax.core.borrowing import borrowing
from minijax.nn.functions import logsumexp

__all__ = ["logsumexp"]

__getattr__, __dir__ = borrowing(globals())
