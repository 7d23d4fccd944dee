"""``minijax.experimental.sparse``: arrays of which only some elements are stored.

The classes are minijax's; what is computed with them is borrowed from JAX (see ``sparse.arrays``). The older formats
``COO``, ``CSR`` and ``CSC``, which JAX keeps for single matrices, are not here. ``vmap`` maps the arrays of a ``BCOO``
and leaves its shape as it is: map over dense arrays, or over ``data``, instead.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from minijax import api
from minijax.experimental.sparse.arrays import BCOO, BCSR, JAXSparse, borrowed, to_jaxs, to_ours
from minijax.interop.exported import to_jax
from minijax.interop.functions import from_jax
from minijax.interop.values import jax_module
from minijax.pytree import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "BCOO",
    "BCSR",
    "JAXSparse",
    "empty",
    "eye",
    "grad",
    "random_bcoo",
    "sparsify",
    "todense",
    "value_and_grad",
]

_FUNCTIONS = ("empty", "eye", "random_bcoo", "todense")


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """``f``, a function of arrays, as one that takes sparse arrays too, and computes with what is stored of them.

    ``f`` is staged for arrays of their shapes; of its operations those that JAX has a rule for are done on what is
    stored. NotImplementedError for another operation on a sparse array. ``use_tracer`` is JAX's choice between two ways
    to do the same.
    """
    sparse = from_jax(jax_module("experimental.sparse").sparsify(to_jax(f)))

    @functools.wraps(f)
    def sparsified(*args: Any, **kwargs: Any) -> Any:
        return to_ours(sparse(*to_jaxs(args), **to_jaxs(kwargs)))

    return sparsified


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Any
) -> Callable[..., Any]:
    """``minijax.value_and_grad`` of a function of sparse arrays: the gradient with respect to what is stored of them.

    It is a sparse array with the indices of the argument. ``options`` are those of ``minijax.value_and_grad``.
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def of_data(stored: list[Any], trees: list[Any], *args: Any, **kwargs: Any) -> Any:
        full = list(args)
        for i, tree, data in zip(numbers, trees, stored, strict=True):
            full[i] = _with_data(tree, data)
        return fun(*full, **kwargs)

    @functools.wraps(fun)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        trees = [args[i] for i in numbers]
        found, grads = api.value_and_grad(of_data, has_aux=has_aux, **options)(
            list(map(_data_of, trees)), trees, *args, **kwargs
        )
        of_arguments = tuple(map(_with_data, trees, grads))
        return found, of_arguments[0] if isinstance(argnums, int) else of_arguments

    return differentiated


def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Any
) -> Callable[..., Any]:
    """The gradient alone, with the auxiliary data second if there are any: see ``value_and_grad``."""
    both = value_and_grad(fun, argnums, has_aux, **options)

    @functools.wraps(fun)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, grads = both(*args, **kwargs)
        return (grads, found[1]) if has_aux else grads

    return gradient


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _data_of(tree: Any) -> Any:
    """``tree`` with what is stored in place of sparse arrays."""
    return tree_map(lambda x: x.data if _is_sparse(x) else x, tree, is_leaf=_is_sparse)


def _with_data(tree: Any, data: Any) -> Any:
    """``tree`` with ``data`` in place of what is stored, and of what is dense."""

    def replaced(x: Any, data: Any) -> Any:
        if not _is_sparse(x):
            return data
        leaves, structure = tree_flatten(x)
        return tree_unflatten(structure, [data, *leaves[1:]])

    return tree_map(replaced, tree, data, is_leaf=_is_sparse)


def __getattr__(name: str) -> Any:
    """JAX's functions of these arrays."""
    if name == "linalg":
        return importlib.import_module(f"{__name__}.linalg")
    is_function = name in _FUNCTIONS or (name.startswith(("bcoo_", "bcsr_")) and not name.endswith("_p"))
    theirs = getattr(jax_module("experimental.sparse"), name, None) if is_function else None
    if theirs is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = globals()[name] = borrowed(theirs, name)
    return found
