"""``minijax.scipy.ndimage``: images as arrays of samples. All are borrowed from JAX when they are used."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(globals())
