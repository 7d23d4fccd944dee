"""``ShapeDtypeStruct``, and other objects with a shape and a dtype that replace arrays where only types matter."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import get_aval, is_array_like, placed_type
from minijax.core.avals import ShapedArray, dtype_name, sharding_of_type


class ShapeDtypeStruct:
    """Describes an array by shape, dtype and sharding, in results of ``eval_shape`` and arguments of ``jit.lower``."""

    __slots__ = ("shape", "dtype", "sharding", "weak_type")

    def __init__(self, shape: Any, dtype: Any, *, sharding: Any = None, weak_type: bool = False) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        if sharding is not None and not hasattr(sharding, "shard_shape"):
            raise ValueError(
                f"ShapeDtypeStruct: sharding should be an instance of `jax.sharding.Sharding`. Got {sharding!r} of "
                f"type {type(sharding)}. Pass a NamedSharding."
            )
        self.sharding = sharding
        self.shape = tuple(shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.weak_type = weak_type

    @staticmethod
    def of(aval: ShapedArray) -> ShapeDtypeStruct:
        """The ShapeDtypeStruct for arrays of type ``aval``, with the sharding of the type."""
        return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding_of_type(aval))

    @staticmethod
    def like(x: Any) -> ShapeDtypeStruct:
        """The ShapeDtypeStruct for ``x``: an array, a tracer, a number, or an object with ``shape`` and ``dtype``."""
        return ShapeDtypeStruct.of(get_aval(stood_in(x)))

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """A copy with the given fields (``shape``, ``dtype``, ``sharding``, ``weak_type``) replaced."""
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "sharding": self.sharding,
            "weak_type": self.weak_type,
        }
        return ShapeDtypeStruct(**{**fields, **changes})

    @property
    def aval(self) -> ShapedArray:
        """The aval of an array of this shape and dtype. 64-bit dtypes become 32-bit ones unless x64 is enabled."""
        plain = ShapedArray(self.shape, dtypes.canonicalize_dtype(self.dtype, x64_enabled()), self.weak_type)
        return placed_type(plain, self.sharding)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    def __len__(self) -> int:
        return len(self.aval)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def _fields(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.sharding, self.weak_type

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        where = "" if self.sharding is None else f", sharding={self.sharding}"
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={dtype_name(self.dtype)}{where}{weak})"


def stood_in(x: Any) -> Any:
    """``x``, or a ``ShapeDtypeStruct`` for an object that is not an array but has ``shape`` and ``dtype``."""
    if is_array_like(x) or isinstance(x, np.ndarray) or not (hasattr(x, "shape") and hasattr(x, "dtype")):
        return x
    return ShapeDtypeStruct(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False))
