"""``minijax.flatten_util``: a pytree of arrays as one vector (https://docs.jax.dev/en/latest/jax.flatten_util.html)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.numpy import creation, manipulation, types
from minijax.pytree import tree_flatten, tree_unflatten

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The leaves of ``pytree`` one after the other as a vector of their common dtype, and the function back.

    The function back takes a vector of that length and dtype, and gives each leaf its shape and dtype.
    """
    leaves, tree = tree_flatten(pytree)
    if not leaves:
        return creation.zeros(0), lambda flat: tree_unflatten(tree, [])
    avals = [(np.shape(x), types.result_type(x)) for x in leaves]
    dtype = types.result_type(*leaves)
    ends = np.cumsum([int(np.prod(shape)) for shape, _ in avals])

    def unravel(flat: Any) -> Any:
        """The pytree of a vector. Raises TypeError or ValueError for one of another dtype or length."""
        found = types.result_type(flat)
        if found != dtype and any(each != dtype for _, each in avals):
            raise TypeError(
                f"unravel function given array of dtype {found}, but expected dtype {dtype}. Convert it with .astype."
            )
        if np.shape(flat) != (int(ends[-1]),):
            raise ValueError(
                f"unravel function given array of shape {np.shape(flat)}, but expected shape {(int(ends[-1]),)}"
            )
        parts = manipulation.split(creation.asarray(flat), list(map(int, ends[:-1])))
        mixed = any(each != dtype for _, each in avals)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a complex vector's part that was real
            shaped = [
                manipulation.reshape(part.astype(each) if mixed else part, shape)
                for part, (shape, each) in zip(parts, avals, strict=True)
            ]
        return tree_unflatten(tree, shaped)

    flat = [
        manipulation.ravel(creation.asarray(x, dtype=dtype) if types.result_type(x) != dtype else creation.asarray(x))
        for x in leaves
    ]
    return manipulation.concatenate(flat), unravel
