"""How to call a program of ``programs/``: its arguments, which one to differentiate by, and which one to batch."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np


class Example(NamedTuple):
    """The attribute ``example`` of a program, set by the decorator.

    ``arguments()`` makes the arguments. ``grad``: index of the argument by which to differentiate a scalar program;
    None for no gradient. ``batch``: index of the argument whose leading axis ``jax.vmap`` maps; None for no vmap.
    ``whole``: some leaves of the arguments are not arrays, so JAX's transformations refuse them.
    """

    arguments: Callable[[], tuple[Any, ...]]
    grad: int | None
    batch: int | None
    whole: bool

    def batched(self) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
        """The arguments, with a batch of two in place of the one at ``batch``, and their ``in_axes``."""
        arguments = list(self.arguments())
        assert self.batch is not None
        arguments[self.batch] = batch_of_two(arguments[self.batch])
        return tuple(arguments), tuple([0 if i == self.batch else None for i in range(len(arguments))])


def example(
    arguments: Callable[[], tuple[Any, ...]], *, grad: int | None = 0, batch: int | None = 0, whole: bool = False
) -> Callable[[Any], Any]:
    """Decorator: the program is tested with ``arguments()``."""

    def note(program: Any) -> Any:
        program.example = Example(arguments, grad, batch, whole)
        return program

    return note


def numbers(*shape: int, low: float = -1.0, high: float = 1.0, name: str = "") -> np.ndarray:
    """float32 numbers between ``low`` and ``high``, the same for equal shapes and names."""
    random = np.random.default_rng(zlib.crc32(repr((shape, name)).encode()))
    return random.uniform(low, high, shape).astype(np.float32)


def filled(tree: Any) -> Any:
    """``tree`` with arrays in place of its ShapeDtypeStructs. So a model gets parameters without its initializers."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    return structure.unflatten(
        [
            (numbers(*leaf.shape, name=str(number)) * 0.5).astype(leaf.dtype)
            if isinstance(leaf, jax.ShapeDtypeStruct)
            else leaf
            for number, leaf in enumerate(leaves)
        ]
    )


def batch_of_two(argument: Any) -> Any:
    """``argument`` and a similar one, stacked along a leading axis of every leaf."""
    return jax.tree_util.tree_map(two, argument)


def two(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.split(leaf, 2)
    array = np.asarray(leaf)
    if array.dtype == np.uint32 and array.shape == (2,):  # a legacy PRNGKey
        return np.stack([array, array ^ np.uint32(77)])
    return np.stack([array, array * array.dtype.type(0.75) if array.dtype.kind == "f" else array])
