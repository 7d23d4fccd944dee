"""A row of the table is a ``Case``: a function of a namespace, its arguments, and the transformations it supports.

Arguments are float64 and int64 NumPy arrays unless a row says otherwise, so in 32-bit mode each call also shows that
wide inputs are narrowed as in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np

BATCH = 3


def floats(*shape: int, low: float = -2.0, high: float = 2.0, dtype: Any = np.float64) -> np.ndarray:
    """Distinct, irregular values between ``low`` and ``high``."""
    golden = (np.arange(1, 1 + int(np.prod(shape))) * 0.6180339887498949) % 1.0
    return np.asarray((low + (high - low) * golden).reshape(shape), dtype)


def ints(*shape: int, low: int = -5, high: int = 9, dtype: Any = np.int64) -> np.ndarray:
    """Irregular integers from ``low`` to ``high - 1``."""
    return np.asarray((low + (np.arange(1, 1 + int(np.prod(shape))) * 7) % (high - low)).reshape(shape), dtype)


def bools(*shape: int) -> np.ndarray:
    """Irregular booleans."""
    return (np.arange(int(np.prod(shape))) * 5 % 3 == 0).reshape(shape)


@dataclass(frozen=True, eq=False)
class Case:
    """One row: ``function(ns, *args)``, and which transformations it supports.

    ``grads=False``: it has no derivatives. ``reverse=False``: only forward mode, because no result is floating point.
    ``forward=False``: only reverse mode, because its only rule is a vjp. ``second=False``: JAX cannot derive it twice.
    ``vmap=False``: JAX cannot batch it. ``scale`` multiplies the tolerance, for functions that the libraries
    approximate differently. ``coarse``: the dtype that sets the tolerance, for rows in half precision.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    grads: bool = True
    reverse: bool = True
    second: bool = True
    forward: bool = True
    vmap: bool = True
    scale: float = 1.0
    coarse: str | None = None

    def argnums(self) -> tuple[int, ...]:
        """The positions of the differentiated arguments: all their leaves are floating point or complex."""
        if not self.grads:
            return ()
        return tuple(i for i, arg in enumerate(self.args) if all(map(is_float, jax.tree.leaves(arg))))

    def in_axes(self) -> tuple[Any, ...]:
        """The ``in_axes`` of vmap: 0 for every array, None for Python scalars."""
        return tuple(jax.tree.map(lambda leaf: 0 if isinstance(leaf, np.ndarray) else None, arg) for arg in self.args)

    def batched(self) -> tuple[Any, ...]:
        """The arguments with a leading axis of ``BATCH`` variations of each array."""
        return jax.tree.map(batch_leaf, self.args)

    def tangents(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """A tangent of the type that JAX requires for every argument: float0 for integers and booleans."""
        return jax.tree.map(tangent_leaf, args)


def is_float(leaf: Any) -> bool:
    """Whether JAX differentiates with respect to ``leaf``."""
    return jax.numpy.issubdtype(jax.numpy.result_type(leaf), jax.numpy.inexact)


def batch_leaf(leaf: Any) -> Any:
    """``BATCH`` variations of ``leaf`` that stay within any reasonable domain, stacked in front."""
    if not isinstance(leaf, np.ndarray):
        return leaf
    flipped = np.flip(leaf)
    if is_float(leaf):
        return np.stack([leaf, (flipped * 0.875).astype(leaf.dtype), (leaf * 0.75).astype(leaf.dtype)])
    if leaf.dtype == bool:
        return np.stack([leaf, flipped, ~leaf])
    return np.stack([leaf, flipped, np.roll(leaf, 1)])


def tangent_leaf(leaf: Any) -> Any:
    """An irregular tangent for ``leaf``."""
    if not is_float(leaf):
        return np.zeros(np.shape(leaf), jax.dtypes.float0)
    if not isinstance(leaf, np.ndarray):
        return 0.625
    return (0.5 + 0.25 * np.cos(np.arange(leaf.size)).reshape(leaf.shape)).astype(leaf.dtype)


def into(rows: dict[str, Case], **defaults: Any) -> Callable[..., Any]:
    """A decorator that adds a function to ``rows``; its arguments are example arguments and options of ``Case``."""

    def with_arguments(*args: Any, **options: Any) -> Callable[..., Any]:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            assert function.__name__ not in rows, f"two rows are called {function.__name__}"
            rows[function.__name__] = Case(function.__name__, function, args, **{**defaults, **options})
            return function

        return register

    return with_arguments


CASES: dict[str, Case] = {}
case = into(CASES)
bfloat16 = ml_dtypes.bfloat16
