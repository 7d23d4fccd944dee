"""``minijax.random``: random keys, and samples of distributions made with them.

Use a key once: make several with ``split`` or ``fold_in``. Every value is JAX's, bit for bit, and every function
stages JAX's program. Other names are borrowed from JAX when they are used.
"""

from minijax.core.borrowing import borrowing as _borrowing

# loaded late: every session imports this module, and few draw samples
__getattr__, __dir__ = _borrowing(
    globals(),
    "minijax.random.basic",
    "minijax.random.keys",
)
