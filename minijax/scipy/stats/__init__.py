"""``minijax.scipy.stats``: distributions, a module each, imported when they are used."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(globals())
