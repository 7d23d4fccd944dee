"""Keys, shapes and types as arguments of random functions, and how these functions are staged.

Each checks its static arguments in Python and calls an inner function under ``jit``. So eager calls are compiled once
per signature, and a staged program names the function.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.api.inner import inner_jit
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import Array, as_array, device_array, get_aval
from minijax.core.avals import ShapedArray, physical_aval
from minijax.core.keys import THREEFRY
from minijax.core.observe import observers
from minijax.core.trace import state
from minijax.numpy.promotion import broadcast
from minijax.ops.call import to_buffer
from minijax.ops.shape import broadcast_shapes, canonical_shape
from minijax.random.keys import typed_keys

# What functions of distributions must know, by the names of their parameters.
_KNOWN = ("shape", "dtype", "mode", "axis")
# The types of a key of the default kind, and of its words.
_KEY = ShapedArray((), THREEFRY.dtype)
_WORDS = physical_aval(_KEY)


def staged(fun: Callable[..., Any]) -> Any:
    """``fun`` as a call of its own, where what is not an array is known; compiled when it is evaluated."""
    known = [name for name in _KNOWN if name in inspect.signature(fun).parameters]
    return inner_jit(fun, static_argnames=known, compiled=True)


def one_key(name: str, key: Any) -> Any:
    """The single key that is the argument of the function ``name``, given as a key or as words.

    Outside of traces it is put where the program that is about to be run will read it, which makes repeated calls
    quick; there, words and their key are the same.
    """
    evaluating = state.dynamic.level == 0
    if evaluating and type(key) is Array and key.aval is _WORDS and not observers:
        return device_array(to_buffer(key), _KEY)
    keys = typed_keys(name, key)[0]
    if evaluating and type(keys) is Array:
        to_buffer(keys)
    return keys


def placed(x: Any) -> Any:
    """``x``; a Python float, outside of traces, as a scalar where the program that is about to be run will read it."""
    if type(x) is not float or state.dynamic.level or observers:
        return x
    return _placed(x, math.copysign(1, x), x64_enabled())


@functools.lru_cache(maxsize=256)
def _placed(x: float, _sign: float, _x64: bool) -> Array:
    array = as_array(x)
    to_buffer(array)
    return array


def known_dtype(name: str, dtype: Any, kind: str) -> np.dtype:
    """The type that ``dtype`` names: by default the default integer type for the ``kind`` 'integer', else float.

    ValueError for one that is not 'float', or 'float or complex'. A warning that there are no 64 bits is for the line
    that called the caller, between which and the user stands ``sampler``.
    """
    if dtype is None:
        return (dtypes.default_int_dtype if kind == "integer" else dtypes.default_float_dtype)(x64_enabled())
    found = dtypes.check_user_dtype(dtype, name, x64_enabled(), stacklevel=6)
    if kind == "float" and not dtypes.is_float(found):
        raise ValueError(f"dtype argument to `{name}` must be a float dtype, got {found}. Samples are real numbers.")
    if kind == "float or complex" and not dtypes.is_inexact(found):
        raise ValueError(f"dtype argument to `{name}` must be a float or complex dtype, got {found}.")
    return found


def shape_of_samples(name: str, shape: Any, *parameters: Any, exact: bool = True) -> tuple[int, ...]:
    """The shape of what is drawn: ``shape``, by default that to which the parameters broadcast.

    ``parameters`` are arrays or shapes. ValueError if they do not broadcast to a ``shape`` that is given.
    """
    shapes = [p if isinstance(p, tuple) else () if type(p) is float else np.shape(p) for p in parameters]
    if not any(shapes):  # the commonest case
        return () if shape is None else canonical_shape(shape)
    if shape is None:
        return broadcast_shapes(*shapes)
    given = canonical_shape(shape)
    together = broadcast_shapes(given, *shapes)
    if exact and together != given:
        shown = ", ".join(map(str, shapes))
        raise ValueError(
            f"{name}: the shape of the samples is to be {given}, but with parameters of shape {shown} it is {together}."
            " Give the shape that they broadcast to, or shape=None."
        )
    return given


def to_rank(x: Any, ndim: int) -> Any:
    """``x`` with leading dimensions of size 1, if it has fewer than ``ndim``."""
    return broadcast(x, (1,) * (ndim - get_aval(x).ndim))
