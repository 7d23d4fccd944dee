"""``minijax.scipy.stats``: distributions, a module each, imported when they are used."""

from minijax.core.lacking import borrowing
from minijax.scipy.stats.statistics import sem

__all__ = ["sem"]

__getattr__, __dir__ = borrowing(globals())
