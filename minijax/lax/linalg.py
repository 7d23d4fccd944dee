"""``minijax.lax.linalg``: decompositions, as XLA has them. All are borrowed from JAX when they are used."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(globals())
