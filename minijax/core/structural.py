"""Symbolic zeros, and the few primitives that interpreters bind (their rules: ``ops.shape``, ``ops.elementwise``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core import avals as types
from minijax.core import dtypes
from minijax.core.array import LiteralArray, get_aval
from minijax.core.avals import HasAval, ShapedArray, sharding_of_type
from minijax.core.keys import WORD, is_key
from minijax.core.primitive import Primitive
from minijax.core.trace import state
from minijax.core.varying import pvary

add_any_p = Primitive("add_any")
broadcast_in_dim_p = Primitive("broadcast_in_dim")
transpose_p = Primitive("transpose")
squeeze_p = Primitive("squeeze")
# These convert uint32 words to random keys, and back: see ops.random.keys.
random_wrap_p = Primitive("random_wrap")
random_unwrap_p = Primitive("random_unwrap")


class Unspecified:
    """The value of the sharding parameters of ``jit`` for an operand or result without a named sharding."""

    def __repr__(self) -> str:
        return "UnspecifiedValue"

    def __reduce__(self) -> str:
        return "UNSPECIFIED"


UNSPECIFIED = Unspecified()


class Zero:
    """A tangent or cotangent of type ``aval`` that is known to be zero. No array is made for it."""

    __slots__ = ("aval",)
    # This advice ends the error message of a primitive that got a Zero.
    refusal_advice = (
        "It is a tangent that is known to be zero: test whether type(t) is ad.Zero, or make an array of it with "
        "ad.instantiate_zeros(t) (minijax.interpreters.ad)."
    )

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(x: Any) -> Zero:
        return zero_tangent(x)

    def __repr__(self) -> str:
        return f"Zero({self.aval.str_short(short_dtypes=False)})"


class UndefinedPrimal(HasAval):
    """A transpose rule's linear argument, whose value is unknown. ``aval`` is the type of its cotangent."""

    __slots__ = ("aval",)

    aval: ShapedArray

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval if type(aval) is ShapedArray else types.cotangent_type(aval)

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval!r})"


def is_undefined_primal(x: Any) -> bool:
    """Whether ``x`` is a transpose rule's linear argument."""
    return type(x) is UndefinedPrimal


def zero_of(aval: ShapedArray) -> Zero:
    """The symbolic zero tangent of a primal of type ``aval`` (one object per type)."""
    zero = aval.zero
    if zero is None:
        zero = aval.zero = Zero(aval.to_tangent_aval())
    return zero


def zero_tangent(x: Any) -> Zero:
    """The symbolic zero tangent of the primal value ``x``."""
    return zero_of(get_aval(x))


def full(shape: tuple[int, ...], value: Any, dtype: Any, weak_type: bool = False, sharding: Any = None) -> Any:
    """An array of ``shape`` filled with the scalar ``value``. For a key dtype, every word of the keys is ``value``."""
    if is_key(dtype):
        return random_wrap_p.bind(full(shape + dtype.impl.key_shape, value, WORD), impl=dtype.impl)
    number = np.asarray(value, dtype) if dtype != dtypes.float0 else np.zeros((), dtype)
    scalar = LiteralArray(number[()], ShapedArray((), dtype, weak_type))
    return broadcast_in_dim_p.bind(scalar, shape=shape, broadcast_dimensions=(), sharding=sharding) if shape else scalar


def zeros(aval: ShapedArray) -> Any:
    """A real array of zeros of type ``aval``. Outside staging, float0 zeros are a NumPy array, as in JAX."""
    if aval.dtype == dtypes.float0 and state.dynamic.level == 0:
        return np.zeros(aval.shape, dtypes.float0)
    sharding = sharding_of_type(aval) if types.sharded_types_made else None
    made = full(aval.shape, False, aval.dtype, aval.weak_type, sharding)
    if aval.vma:
        return pvary(made, aval.vma)
    return made if aval.shape else state.dynamic.stage_value(made)


def instantiate_zeros(t: Any) -> Any:
    """An array of zeros if ``t`` is a symbolic zero, else ``t``."""
    return zeros(t.aval) if type(t) is Zero else t


def add_tangents(a: Any, b: Any) -> Any:
    """The sum of two tangents or cotangents, each of which may be a symbolic zero."""
    if type(a) is Zero:
        return b
    if type(b) is Zero:
        return a
    return add_any_p.bind(a, b)


def broadcast(x: Any, size: int, axis: int, sharding_of_type: Any = None) -> Any:
    """``x`` repeated ``size`` times along a new axis. ``sharding_of_type``: how the new axis is sharded, or None."""
    aval = get_aval(x)
    shape = list(aval.shape)
    axis %= len(shape) + 1
    if sharding_of_type is not None:
        sharding_of_type = types.sharding_of_type(types.stacked_type(aval, size, axis, sharding_of_type))
    dims = tuple(d for d in range(len(shape) + 1) if d != axis)
    shape.insert(axis, size)
    return broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=dims, sharding=sharding_of_type)


def batched_sharding(sharding: Any, dim: int | None, part: Any = None) -> Any:
    """``sharding`` with a batch axis inserted at ``dim``, sharded along the mesh axes ``part``."""
    spec = getattr(sharding, "spec", None)
    if dim is None or spec is None or (part is None and sharding.is_fully_replicated):
        return sharding
    parts = [*spec, *[None] * (dim - len(spec))]
    parts.insert(dim, part)
    return sharding.with_spec(spec.update(parts))


def moveaxis(x: Any, src: int, dst: int) -> Any:
    """``x`` with axis ``src`` moved to ``dst``. If they are equal, return ``x`` without an equation."""
    ndim = get_aval(x).ndim
    src, dst = src % ndim, dst % ndim
    if src == dst:
        return x
    permutation = [d for d in range(ndim) if d != src]
    permutation.insert(dst, src)
    return transpose_p.bind(x, permutation=tuple(permutation))


def expand_dims(x: Any, axes: tuple[int, ...]) -> Any:
    """``x`` with new axes of size 1 at ``axes`` of the result."""
    if not axes:
        return x
    shape = get_aval(x).shape
    ndim = len(shape) + len(axes)
    new = {a % ndim for a in axes}
    kept = tuple(d for d in range(ndim) if d not in new)
    sizes = iter(shape)
    wide = tuple(1 if d in new else next(sizes) for d in range(ndim))
    return broadcast_in_dim_p.bind(x, shape=wide, broadcast_dimensions=kept, sharding=None)
