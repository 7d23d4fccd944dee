"""``minijax.random``: random keys, and samples of distributions made with them.

A key is used once: whoever needs several makes them with ``split`` or ``fold_in``. Every value is JAX's, bit for bit,
and every function stages what JAX's stages. The names that are not here are borrowed from JAX when they are used.
"""

from minijax.core.lacking import borrowing as _borrowing

# every session has this module from its start, and not every one draws samples
__getattr__, __dir__ = _borrowing(
    globals(),
    "minijax.random.basic",
    "minijax.random.keys",
    "minijax.random.selection",
)
