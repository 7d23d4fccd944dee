"""``minijax.scipy.stats``: distributions, a module each, and statistics of samples, imported when they are used."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(
    globals(),
    "minijax.scipy.stats.statistics",
    "minijax.scipy.stats.kernel_density",
)
