"""``minijax.scipy``: SciPy's functions with JAX's names. Each is borrowed from JAX on first use."""

from minijax.core.borrowing import borrowing, make_modules_below

__getattr__, __dir__ = borrowing(globals())

make_modules_below(__name__)
