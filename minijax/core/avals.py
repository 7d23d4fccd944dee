"""Abstract values: the type of an array whose value is unknown.

A ``ShapedArray`` is interned: one object per (shape, dtype, weak_type). So equality is identity, a tuple of avals is a
cheap dictionary key, and values derived from a type (its MLIR spelling, its symbolic zero) are kept on the object.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.keys import WORD, KeyType
from minijax.core.lazy import HigherModule
from minijax.core.records import Immutable, NamedTuple

# Loaded at first use: few programs need sharded types.
_explicit = HigherModule("explicit_types")
_shardings = HigherModule("shardings")
_reshard = HigherModule("reshard")

# Whether a type of random keys was ever made. While it is False, no code looks for keys.
keys_made = False

# Whether any type so far has a sharding over a mesh.
sharded_types_made = False

_interned: weakref.WeakValueDictionary[Any, ShapedArray] = weakref.WeakValueDictionary()


def note_keys() -> None:
    """Record that there are types of random keys."""
    global keys_made
    keys_made = True


def note_sharded_types() -> None:
    """Record that there are types of sharded arrays."""
    global sharded_types_made
    sharded_types_made = True


class ManualAxisType(NamedTuple):
    """Inside ``shard_map``: the mesh axes along which a value varies, is unreduced, or is reduced."""

    varying: frozenset[Any] = frozenset()
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()


class ShapedArray(Immutable):
    """The type of an array: ``shape``, ``dtype`` (``numpy.dtype`` or ``KeyType``), ``weak_type`` (for promotion)."""

    __slots__ = ("shape", "dtype", "weak_type", "ndim", "size", "zero", "mlir", "unmapped", "__weakref__")

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    ndim: int
    size: int
    zero: Any  # the symbolic ``Zero`` of this type, made at first use
    mlir: str | None  # 'tensor<8xf32>', made at first use
    unmapped: dict[int, ShapedArray] | None  # an axis -> the type without this axis: see ``part``
    # The mesh axes along which devices may hold different values: none, except in ``core.varying``.
    vma: frozenset[Any] = frozenset()
    # ``unreduced``: the mesh axes over which values must still be summed. ``reduced``: for their cotangents.
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()

    def __new__(cls, shape: Any, dtype: Any, weak_type: bool = False, *, sharding: Any = None) -> ShapedArray:
        if sharding is not None:
            return sharded_by(ShapedArray(shape, dtype, weak_type), sharding)  # type: ignore[no-any-return]
        key = (shape, dtype, weak_type)
        try:
            self = _interned.get(key)
        except TypeError:  # an unhashable shape, such as a list
            self = None
        if self is not None:
            return self
        shape = tuple(int(d) for d in shape)
        if type(dtype) is KeyType:
            note_keys()
        else:
            dtype = np.dtype(dtype)
        weak_type = bool(weak_type)
        canonical = (shape, dtype, weak_type)
        self = _interned.get(canonical)
        if self is not None:
            return self
        self = object.__new__(cls)
        self.shape, self.dtype, self.weak_type = canonical
        self.ndim = len(shape)
        size = 1
        for d in shape:
            if d < 0:
                raise TypeError(f"shape must have every element be nonnegative, got {shape}")
            size *= d
        self.size = size
        self.zero = self.mlir = self.unmapped = None
        return _interned.setdefault(canonical, self)

    @property
    def sharding(self) -> Any:
        """The sharding: a plain type is replicated over the current mesh. See ``core.explicit``."""
        return _shardings.replicated(self.ndim)

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """The mesh axes along which values vary or must be summed, inside ``shard_map``."""
        return ManualAxisType(self.vma)

    @property
    def mat(self) -> ManualAxisType:
        """Short for ``manual_axis_type``."""
        return self.manual_axis_type

    def __reduce__(self) -> Any:
        return (ShapedArray, (self.shape, self.dtype, self.weak_type))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("zero", "mlir", "unmapped") and hasattr(self, "size"):
            raise AttributeError(f"a ShapedArray is shared and cannot be changed (attribute {name!r}); use .update")
        object.__setattr__(self, name, value)

    def update(self, **changes: Any) -> ShapedArray:
        """The type with the given fields replaced."""
        return ShapedArray(
            changes.pop("shape", self.shape),
            changes.pop("dtype", self.dtype),
            changes.pop("weak_type", self.weak_type),
            **changes,
        )

    def part(self, axis: int) -> ShapedArray:
        """The type without ``axis``. It is cached in this type, since vmaps need it at every call."""
        kept = self.unmapped
        if kept is None:
            kept = self.unmapped = {}
        found = kept.get(axis)
        if found is None:
            found = kept[axis] = self._without(axis)
        return found

    def _without(self, axis: int) -> ShapedArray:
        return self.update(shape=self.shape[:axis] + self.shape[axis + 1 :])

    def stacked(self, size: int, axis: int = 0) -> ShapedArray:
        """The type of ``size`` such values along a new ``axis``."""
        return self.update(shape=(*self.shape[:axis], size, *self.shape[axis:]))

    def strip_weak_type(self) -> ShapedArray:
        """The same type, with ``weak_type=False``."""
        return self.update(weak_type=False) if self.weak_type else self

    def to_tangent_aval(self) -> ShapedArray:
        """The type of tangents: the same for inexact dtypes, ``float0`` for integers and booleans."""
        if dtypes.is_inexact(self.dtype):
            return self
        return self.update(dtype=dtypes.float0, weak_type=False)

    def to_cotangent_aval(self) -> ShapedArray:
        """The type of cotangents: the type of tangents, with unreduced and reduced axes exchanged."""
        return self.to_tangent_aval()

    def str_short(self, short_dtypes: bool = True) -> str:
        """``f32[8]``, as jaxprs print it; ``float32[8]`` with ``short_dtypes=False``."""
        name = dtypes.short_name(self.dtype) if short_dtypes else dtype_name(self.dtype)
        return f"{name}[{','.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        """``float32[8]``; ``~float32[8]`` if it is weak."""
        return "~" * self.weak_type + self.str_short(short_dtypes=False)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short(short_dtypes=False)}{weak})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object: the array is a scalar")
        return self.shape[0]


Avals = Sequence[ShapedArray]


def sharded_by(aval: ShapedArray, sharding: Any) -> Any:
    """The type ``aval`` with ``sharding``."""
    return _explicit.type_with_sharding(aval, sharding)


def sharding_of_type(aval: ShapedArray, *others: ShapedArray) -> Any:
    """The sharding in the type ``aval``, or a replicated one over the mesh of ``others``. None without a mesh."""
    if not sharded_types_made or (type(aval) is ShapedArray and all([type(other) is ShapedArray for other in others])):
        return None
    return _explicit.sharding_like(aval, *others)


def cotangent_type(aval: Any) -> Any:
    """The type ``aval`` with unreduced and reduced axes exchanged, as in the type of cotangents."""
    return aval if type(aval) is ShapedArray or not (aval.unreduced or aval.reduced) else aval.to_cotangent_aval()


def sharded_part(aval: ShapedArray, axis: int) -> Any:
    """The mesh axes over which the type ``aval`` shards the dimension ``axis``. None if it is not sharded."""
    return _explicit.spec_of(aval)[axis] if sharded_types_made else None


def sharding_along_axis(aval: Any, axis: int) -> Any:
    """The sharding of the dimension ``axis`` alone, as a ``NamedSharding``. None if the dimension is not sharded."""
    return _explicit.sharding_along(aval, axis) if sharded_types_made else None


def common_sharding(avals: Sequence[ShapedArray], ndim: int) -> Any:
    """The sharding of arrays of these types after they are broadcast to ``ndim`` dimensions. None without a mesh."""
    return _explicit.combined(avals, ndim) if sharded_types_made else None


def sharding_of_parts(parts: Sequence[Any], *avals: ShapedArray) -> Any:
    """``NamedSharding(mesh, P(*parts))`` with the mesh of the types ``avals``. None if no type has a mesh."""
    return _explicit.over_common_mesh(avals, parts) if sharded_types_made else None


def over_mesh_of(scalar: Any, *examples: Any) -> Any:
    """The constant ``scalar``, resharded to the mesh of the tracers ``examples``, or to the current mesh."""
    return _reshard.resharded_to_mesh_of(scalar, examples) if sharded_types_made else scalar


def sharded_as(x: Any, example: Any) -> Any:
    """``x``, resharded like the tracer ``example`` of the same shape. ``x`` itself if ``example`` is over no mesh."""
    return _reshard.resharded_like(x, example) if sharded_types_made else x


def sharded_if_free(x: Any, aval: ShapedArray) -> Any:
    """``x``, resharded like the type ``aval`` if ``x`` has no mesh."""
    return _reshard.resharded_if_over_no_mesh(x, aval) if sharded_types_made else x


def sharded_to(x: Any, aval: ShapedArray) -> Any:
    """``x``, resharded like the type ``aval`` of the same shape."""
    reshard_p = _reshard.reshard_p
    return reshard_p.bind(x, dst_sharding=aval.sharding, concrete_mesh=None)


def whole_sharding(aval: ShapedArray, ndim: int) -> Any:
    """A replicated sharding of ``ndim`` dimensions over the mesh of ``aval``, or over the current mesh, if any."""
    return _explicit.replicated_sharding(aval, ndim) if sharded_types_made else None


def stacked_type(aval: Any, size: int, axis: int, sharding: Any) -> Any:
    """The type of ``size`` values of type ``aval`` along a new ``axis``. ``sharding`` is for this axis alone."""
    if sharding is None:
        return aval.stacked(size, axis)
    return _explicit.stacked_over(aval, size, axis, sharding)


def same_sharding(a: Any, b: Any) -> bool:
    """Whether two types name the same sharding."""
    return not sharded_types_made or _explicit.equally_sharded(a, b)  # type: ignore[no-any-return]


def physical_aval(aval: ShapedArray) -> ShapedArray:
    """The type of an array on a device: ``aval`` itself; for random keys, the type of their words."""
    dtype = aval.dtype
    return ShapedArray(aval.shape + dtype.impl.key_shape, WORD) if type(dtype) is KeyType else aval


class HasAval:
    """An object with a type, ``aval``, and the attributes of that type."""

    __slots__ = ()

    @property
    def aval(self) -> Any:
        """The type: a ``ShapedArray`` or an ``AbstractRef``."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type


class AnyArray(HasAval, Immutable):
    """The class of arrays and tracers, published as ``minijax.Array``. ``minijax.numpy`` adds its methods."""

    __slots__ = ()


AnyArray.__module__, AnyArray.__name__, AnyArray.__qualname__ = "minijax", "Array", "Array"


def dtype_name(dtype: Any) -> str:
    """``float32``, ``bfloat16``, ``float0``: the dtype's name as JAX prints it."""
    return "float0" if dtype == dtypes.float0 else dtype.name
