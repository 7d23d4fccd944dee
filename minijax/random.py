"""``minijax.random``: random keys. An array of them has an element type of its own, ``key<fry>``.

The names that this module does not have are borrowed from JAX when they are used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core.array import is_foreign
from minijax.core.avals import AnyArray
from minijax.core.keys import THREEFRY, KeyType, PRNGImpl, is_key
from minijax.core.lacking import borrowing
from minijax.numpy.promotion import OPERANDS
from minijax.ops.keys import random_unwrap_p, random_wrap_p

__all__ = ["key_data", "key_impl", "wrap_key_data"]

__getattr__, __dir__ = borrowing(globals())


def _implementation(spec: Any) -> PRNGImpl:
    """The implementation that ``spec`` names: None (the default), a name, a type of keys or an implementation."""
    if spec is None:
        return THREEFRY
    if isinstance(spec, PRNGImpl):
        return spec
    if isinstance(spec, KeyType):
        return spec.impl
    if not isinstance(spec, str):
        raise TypeError(
            f"unrecognized type {type(spec)} for specifying PRNG implementation. Give its name, such as 'threefry2x32'."
        )
    for impl in PRNGImpl.known.values():
        if impl.name == spec:
            return impl
    names = ", ".join(f'"{impl.name}"' for impl in PRNGImpl.known.values())
    raise ValueError(f'unrecognized PRNG implementation "{spec}". Did you mean one of: {names}?')


def _chosen(name: str, impl: Any, dtype: Any) -> PRNGImpl:
    """The implementation that a function's arguments ``impl`` and ``dtype``, of which one is given, name."""
    if impl is not None and dtype is not None:
        raise ValueError(f"Cannot specify both `impl` and `dtype` arguments to jax.random.{name}")
    return _implementation(dtype if impl is None else impl)


def _typed_keys(name: str, key: Any, batched: bool = False) -> tuple[Any, bool]:
    """``key`` as keys, and whether it was given as words (``PRNGKey``), which are taken for keys of the default kind.

    ``name`` is the function's, which takes one key unless ``batched``. TypeError or ValueError for what is no key.
    """
    if isinstance(key, AnyArray) and is_key(key.dtype):
        keys, raw = key, False
    elif isinstance(key, OPERANDS) or is_foreign(key):
        keys, raw = random_wrap_p.bind(key, impl=_implementation(None)), True
    else:
        raise TypeError(f"unexpected PRNG key type {type(key)}. {name} takes what random.key(seed) gives.")
    if keys.ndim and not batched:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {np.shape(key)} != (). "
            "Use jax.vmap for batching."
        )
    return keys, raw


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """An array of keys from the words that they consist of.

    ``key_bits_array`` is of type uint32, and its last dimension is that of one key's words; the result is without that
    dimension. ``impl`` (or ``dtype``) is the implementation, its name or its type, by default 'threefry2x32'. Raises
    TypeError if they do not fit.
    """
    return random_wrap_p.bind(key_bits_array, impl=_chosen("wrap_key_data", impl, dtype))


def key_data(keys: Any) -> Any:
    """The words that keys consist of: an array of uint32 with a dimension more than ``keys``."""
    return random_unwrap_p.bind(_typed_keys("key_data", keys, batched=True)[0])


def key_impl(keys: Any) -> str:
    """The name of the implementation that ``keys`` are for."""
    return _typed_keys("key_impl", keys, batched=True)[0].dtype.impl.name
