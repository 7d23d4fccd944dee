"""Types and values between JAX and minijax: what an array of the one is to the other.

In: an aval, array, number or random key of one of the two. Out: the same of the other, without a copy where the memory
allows it.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from minijax.core.array import Array
from minijax.core.avals import ShapedArray


@functools.cache
def jax_module(name: str = "") -> Any:
    """``jax``, or its module ``name``, imported at the first use: it costs half a second."""
    return importlib.import_module(f"jax.{name}" if name else "jax")


def is_key_type(dtype: Any) -> bool:
    """Whether a dtype of JAX's is one of random keys, or another that NumPy does not know."""
    jax = jax_module()
    return jax.dtypes.issubdtype(dtype, jax.dtypes.extended)


def aval_of(theirs: Any) -> ShapedArray:
    """Our type for a type of JAX's (an aval, a ``ShapeDtypeStruct``)."""
    if is_key_type(theirs.dtype):
        raise NotImplementedError(f"a value of type {theirs.dtype}: random keys of JAX's are not taken over yet")
    return ShapedArray(tuple(theirs.shape), np.dtype(theirs.dtype), bool(getattr(theirs, "weak_type", False)))


def spec_of(aval: Any) -> Any:
    """JAX's ``ShapeDtypeStruct`` for a type of ours or of JAX's."""
    return jax_module().ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=bool(getattr(aval, "weak_type", False)))


def from_jax_value(x: Any) -> Array:
    """The minijax array of a JAX array, NumPy array or number; it shares the memory of one that lies on the host."""
    if hasattr(x, "dtype") and is_key_type(x.dtype):
        raise NotImplementedError(f"a value of type {x.dtype}: random keys of JAX's are not taken over yet")
    value = np.asarray(x)
    return Array(value, ShapedArray(value.shape, value.dtype, bool(getattr(x, "weak_type", False))))


def to_jax_value(x: Array) -> Any:
    """The JAX array of a minijax array, of a weak type if that is."""
    made = jax_module("numpy").asarray(np.asarray(x))
    if not x.aval.weak_type:
        return made
    params = {"new_dtype": made.dtype, "weak_type": True, "sharding": None}
    return jax_module("lax").convert_element_type_p.bind(made, **params)
