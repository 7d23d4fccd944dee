"""``minijax.numpy.linalg``: linear algebra. Norms that are roots of sums of squares are here; JAX provides the rest."""

from typing import Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.core.borrowing import borrow, borrowing
from minijax.numpy import reductions
from minijax.numpy.promotion import promote
from minijax.numpy.ufuncs import INEXACT, conj, real, sqrt

__all__ = ["norm"]

# The values of ``ord`` for which the norm is a root of a sum of squares, by the number of axes.
_OF_SQUARES = {1: (None, 2), 2: (None, "f", "fro")}


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of a vector or matrix. If ``axis`` has one or two axes, the norm of each vector or matrix along them.

    ``ord``: None (root of the sum of all squares), a number, ``inf``, ``-inf``, or for matrices 'fro', 'nuc' (the sum
    of singular values), 1, -1, 2, -2. Raises ValueError for other orders.
    """
    axes = np.ndim(x) if axis is None else np.size(axis)
    if ord is None and axis is None or ord in _OF_SQUARES.get(axes, ()):
        return _root_of_squares(x, axis=axis, keepdims=keepdims)
    return borrow(__name__, "norm")(x, ord, axis, keepdims)


@inner_jit(static_argnames=("axis", "keepdims"), name="norm")
def _root_of_squares(x: Any, axis: Any, keepdims: bool) -> Any:
    (x,) = promote("jnp.linalg.norm", x, to=INEXACT)
    return sqrt(reductions.sum(real(lax.mul(x, conj(x))), axis, keepdims=keepdims))


__getattr__, __dir__ = borrowing(globals())
