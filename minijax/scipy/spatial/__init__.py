"""``minijax.scipy.spatial``: rotations, in ``transform``."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(globals())
