"""The primitives, each with all its rules beside it. Importing this package registers them.

It also answers for JAX's module ``ops``: ``segment_sum`` and its like are borrowed from JAX.
"""

from minijax.core.borrowing import borrowing as _borrowing

__getattr__, __dir__ = _borrowing(globals())
