"""JAX's results of the programs, and functions that compare minijax's results with them."""

from __future__ import annotations

import functools
import importlib
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import minijax
from minijax.core.keys import is_key
from tests.ecosystem.programs import NEEDS

# Relative tolerances: for evaluation on NumPy operation by operation, and for compiled programs.
EAGER, COMPILED = 2e-6, 3e-7


def program(name: str) -> Any:
    """``file.function`` of ``programs/``; skips the test if a library is not installed."""
    file, function = name.split(".")
    for library in NEEDS[file]:
        pytest.importorskip(library, reason=f"{library} is not installed: pip install -e '.[test-ecosystem]'")
    return getattr(importlib.import_module(f"tests.ecosystem.programs.{file}"), function)


@functools.cache
def expected(name: str) -> SimpleNamespace:
    """JAX's ``value``, ``grad`` and ``vmap`` of a program, compiled together. A part that its example omits is None."""
    fun = program(name)
    example = fun.example
    arguments = example.arguments()
    if example.whole:
        return SimpleNamespace(value=fun(*arguments), grad=None, vmap=None)
    batch, axes = example.batched() if example.batch is not None else ((), ())

    @jax.jit
    def parts(arguments: Any, batch: Any) -> Any:
        return (
            fun(*arguments),
            None if example.grad is None else jax.grad(fun, example.grad)(*arguments),
            None if example.batch is None else jax.vmap(fun, axes)(*batch),
        )

    value, grad, vmap = parts(arguments, batch)
    return SimpleNamespace(value=value, grad=grad, vmap=vmap)


def assert_near(ours: Any, theirs: Any, error: float) -> None:
    """Assert equal trees of arrays with equal types. ``error``: tolerance relative to a leaf's largest number."""
    our_leaves, our_tree = jax.tree_util.tree_flatten(ours, is_leaf=lambda x: isinstance(x, minijax.Array))
    assert our_tree == jax.tree_util.tree_structure(theirs)
    assert_leaves_near(our_leaves, theirs, error)


def assert_leaves_near(our_leaves: list[Any], theirs: Any, error: float) -> None:
    """Compare leaves as ``assert_near`` does, but not trees: minijax's may have classes that JAX does not know."""
    for our, their in zip(our_leaves, jax.tree_util.tree_leaves(theirs), strict=True):
        if not isinstance(their, (jax.Array, np.ndarray, float, int)):
            assert callable(our) and our.__name__ == their.__name__  # leaves that are not arrays are passed through
            continue
        mine, wanted = bits_of(our), bits_of(their)
        assert (mine.dtype, mine.shape) == (wanted.dtype, wanted.shape)
        if error == 0.0 or wanted.dtype.kind not in "fc":
            np.testing.assert_array_equal(mine, wanted)
        else:
            size = max(1.0, float(np.abs(wanted).max(initial=0.0)))
            np.testing.assert_allclose(mine, wanted, rtol=0.0, atol=error * size)


def bits_of(leaf: Any) -> np.ndarray:
    """The values of an array, or the words of a key's data."""
    if isinstance(leaf, minijax.Array):
        return np.asarray(minijax.random.key_data(leaf) if is_key(leaf.dtype) else leaf)
    of_jax = isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if of_jax else leaf)
