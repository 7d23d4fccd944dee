"""``ravel_pytree``: a tree of arrays as one vector, and back."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from minijax import lax
from minijax import numpy as jnp
from minijax.core.records import NamedTuple
from minijax.pytree import PyTreeDef, tree_flatten, tree_unflatten

__all__ = ["ravel_pytree"]


class Unravel(NamedTuple):
    """The inverse of ``ravel_pytree``. If all leaves had one dtype, the result has the dtype of the given vector."""

    treedef: PyTreeDef
    dtype: np.dtype
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]

    @property
    def is_uniform(self) -> bool:
        return all(dtype == self.dtype for dtype in self.dtypes)

    def __call__(self, vector: Any) -> Any:
        """The tree. ValueError if ``vector`` has a wrong length; TypeError for a wrong dtype if leaf dtypes differ."""
        vector = jnp.asarray(vector)
        if not self.shapes:
            return tree_unflatten(self.treedef, [])
        if not self.is_uniform and vector.dtype != self.dtype:
            raise TypeError(
                f"unravel function given array of dtype {vector.dtype}, but expected dtype {self.dtype}: its leaves "
                "have several dtypes, so only a vector of their common dtype can be converted back."
            )
        parts = lax.split(vector, [math.prod(shape) for shape in self.shapes])
        with warnings.catch_warnings():  # real leaves drop the imaginary parts of a complex vector
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            leaves = [
                part.reshape(shape) if self.is_uniform else part.reshape(shape).astype(dtype)
                for part, shape, dtype in zip(parts, self.shapes, self.dtypes, strict=True)
            ]
        return tree_unflatten(self.treedef, leaves)


def ravel_pytree(pytree: Any) -> tuple[Any, Unravel]:
    """The leaves of ``pytree`` as one vector in their common dtype, and the function that turns it back into a tree.

    Trees of the same structure and types give equal inverse functions, so the inverse can be a static argument.
    """
    leaves, treedef = tree_flatten(pytree)
    arrays = [jnp.asarray(leaf) for leaf in leaves]
    found = [array.dtype for array in arrays]
    dtype = jnp.result_type(*found) if found else np.dtype("float32")
    unravel = Unravel(treedef, dtype, tuple([array.shape for array in arrays]), tuple(found))
    if not arrays:
        return jnp.zeros(0, dtype), unravel
    return lax.concatenate([jnp.ravel(x if unravel.is_uniform else x.astype(dtype)) for x in arrays], 0), unravel
