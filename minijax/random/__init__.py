"""``minijax.random``: random keys, and samples of distributions drawn with them.

Use a key once: make several keys with ``split`` or ``fold_in``. Every value equals JAX's, bit for bit, and every
function stages JAX's program. Names that only JAX has are borrowed on first use.
"""

from minijax.core.borrowing import borrowing as _borrowing

# these modules are imported late: every session imports this module, but few draw samples
__getattr__, __dir__ = _borrowing(
    globals(),
    "minijax.random.basic",
    "minijax.random.keys",
)
