"""The primitives, each with all its rules beside it. Importing this package registers them.

It is also JAX's module ``ops``: ``segment_sum`` and similar functions are borrowed from JAX.
"""

from minijax.core.borrowing import borrowing as _borrowing

__getattr__, __dir__ = _borrowing(globals())
