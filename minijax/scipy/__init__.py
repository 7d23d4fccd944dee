"""``minijax.scipy``: SciPy's functions with JAX's names; each is borrowed from JAX when it is used."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(globals())
