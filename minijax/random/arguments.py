"""Keys, shapes and types as arguments of random functions, and the staging of these functions.

Each function checks its static arguments in Python and calls an inner function under ``jit``. So eager calls compile
once per signature, and the equation in a staged program names the inner function.
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

# The static parameters of samplers.
_KNOWN = ("shape", "dtype", "mode", "axis")
_KEY = ShapedArray((), THREEFRY.dtype)
_WORDS = physical_aval(_KEY)


def staged(fun: Callable[..., Any]) -> Any:
    """Wrap ``fun`` in ``jit``, with its non-array parameters static. A call by the user then compiles one program."""
    known = [name for name in _KNOWN if name in inspect.signature(fun).parameters]
    return inner_jit(fun, static_argnames=known, compiled=True)


def one_key(name: str, key: Any) -> Any:
    """Check that ``key``, an argument of the function ``name``, is a single key, and return it.

    Outside of traces the key moves to the device, which makes repeated calls fast.
    """
    evaluating = state.dynamic.level == 0
    if evaluating and type(key) is Array and key.aval is _WORDS and not observers:
        return device_array(to_buffer(key), _KEY)
    keys = typed_keys(name, key)[0]
    if evaluating and type(keys) is Array:
        to_buffer(keys)
    return keys


def placed(x: Any) -> Any:
    """Return ``x``. Outside of traces a Python float becomes an array on the program's device, cached by its value."""
    if type(x) is not float or state.dynamic.level or observers:
        return x
    return _placed(x, math.copysign(1, x), x64_enabled())


@functools.lru_cache(maxsize=256)
def _placed(x: float, _sign: float, _x64: bool) -> Array:
    array = as_array(x)
    to_buffer(array)
    return array


def known_dtype(name: str, dtype: Any, kind: str) -> np.dtype:
    """Check the ``dtype`` of samples, or return the default for ``kind``: 'integer', 'float' or 'float or complex'.

    ValueError if ``kind`` is 'float' or 'float or complex', and ``dtype`` is of another kind. The warning about
    disabled 64-bit types points to the user's line, above the caller and ``sampler``.
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
    """The shape of the samples: ``shape``, or by default the shape to which the parameters broadcast.

    ValueError if the parameters do not broadcast together, or (with ``exact``) not to ``shape``.
    """
    shapes = [p if isinstance(p, tuple) else () if type(p) is float else np.shape(p) for p in parameters]
    if not any(shapes):  # the most common case
        return () if shape is None else canonical_shape(shape)
    if shape is None:
        return broadcast_shapes(*shapes)
    given = canonical_shape(shape)
    together = broadcast_shapes(given, *shapes)
    if exact and together != given:
        shown = ", ".join(map(str, shapes))
        raise ValueError(
            f"{name}: samples of shape {given} and parameters of shape {shown} broadcast to shape {together}. "
            "Give this shape, or shape=None."
        )
    return given


def to_rank(x: Any, ndim: int) -> Any:
    """Add leading dimensions of size 1 to ``x`` up to ``ndim`` dimensions."""
    return broadcast(x, (1,) * (ndim - get_aval(x).ndim))
