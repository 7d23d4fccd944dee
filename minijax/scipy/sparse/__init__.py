"""``minijax.scipy.sparse``: solvers for linear operators, in ``linalg``."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(globals())
