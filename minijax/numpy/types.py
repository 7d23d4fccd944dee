"""Names of element types (``jnp.float32(3)`` makes an array, ``dtype=jnp.float32`` names a type), and type queries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.config import promotes_strictly, x64_enabled
from minijax.core import dtypes
from minijax.core.array import Array
from minijax.core.avals import AnyArray
from minijax.core.trace import Tracer
from minijax.numpy.creation import asarray
from minijax.numpy.promotion import canonical_axes, is_array_like, public_names, type_of


class ScalarMeta(type):
    """The class of ``jnp.float32`` and others. They equal NumPy's scalar types, and calling one makes an array."""

    dtype: np.dtype

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: Any) -> bool:
        return cls is other or cls.dtype.type is other

    def __ne__(cls, other: Any) -> bool:
        return not cls == other

    def __call__(cls, x: Any) -> Any:
        return asarray(x, dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)


def _scalar_type(name: str) -> ScalarMeta:
    dtype = dtypes.as_dtype(name)
    doc = f"The element type {name}; called, it makes an array of that type."
    return ScalarMeta(dtype.name, (), {"dtype": dtype, "__doc__": doc, "__module__": "minijax.numpy"})


bool_ = _scalar_type("bool")
int8, int16, int32, int64 = map(_scalar_type, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(_scalar_type, ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64 = map(_scalar_type, ("float16", "float32", "float64"))
complex64, complex128 = map(_scalar_type, ("complex64", "complex128"))
int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128

# Types from ml_dtypes, made on first use: importing that package takes 12 ms.
SMALL_TYPES = (
    "bfloat16 int1 int2 int4 uint1 uint2 uint4 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn "
    "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn float6_e2m3fn float6_e3m2fn"
).split()


def __getattr__(name: str) -> Any:
    if name in SMALL_TYPES:
        found = globals()[name] = _scalar_type(name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ``isinstance(x, jnp.ndarray)``: whether ``x`` is an array or a tracer
ndarray = AnyArray


def _dtype_and_weak(x: Any) -> tuple[np.dtype, bool]:
    """``(dtype, weak_type)`` of a value, or of a type specifier."""
    if isinstance(x, ScalarMeta):
        return dtypes.dtype_and_weak_type(x.dtype, x64_enabled())
    if is_array_like(x) and not isinstance(x, type):
        return type_of(x)
    return dtypes.dtype_and_weak_type(x, x64_enabled())


def result_type(*args: Any) -> np.dtype:
    """The result type of an operation on ``args``, values or types. TypePromotionError if they have no common type."""
    return dtypes.result_type(*map(_dtype_and_weak, args), x64=x64_enabled(), strict=promotes_strictly())[0]


def promote_types(a: Any, b: Any) -> np.dtype:
    """The type to which an operation on the two types converts both."""
    return dtypes.promote_types(a, b, x64_enabled(), promotes_strictly())


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether the first type is a subtype of the second, as float32 is of ``jnp.floating``."""
    return dtypes.issubdtype(arg1, arg2)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether ``dtype`` is ``kind``, or in the group of that name ('integral', 'real floating', ...)."""
    return dtypes.isdtype(dtype, kind)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether NumPy's rule ``casting`` allows to convert the first type (or the first array's type) to the second."""
    from_ = getattr(from_, "dtype", from_)
    to = getattr(to, "dtype", to) if isinstance(to, (Array, Tracer)) else to
    return bool(np.can_cast(dtypes.as_dtype(from_), dtypes.as_dtype(to), casting=casting))  # type: ignore[arg-type]


def finfo(dtype: Any) -> Any:
    """The limits of a floating type."""
    return dtypes.finfo(dtype)


def iinfo(dtype: Any) -> Any:
    """The limits of an integer type."""
    return dtypes.iinfo(dtype)


def iscomplexobj(x: Any) -> bool:
    """Whether ``x``, of any class, has a complex type."""
    if hasattr(x, "aval"):
        return dtypes.is_complex(x.aval.dtype)
    return bool(np.iscomplexobj(x))


def isrealobj(x: Any) -> bool:
    """Whether ``x``, of any class, has no complex type."""
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether ``element`` is a scalar, or an array of no dimensions."""
    return bool(np.isscalar(element)) or (isinstance(element, (Array, Tracer, np.ndarray)) and element.ndim == 0)


def ndim(a: Any) -> int:
    """The number of dimensions of ``a``."""
    return a.aval.ndim if isinstance(a, (Array, Tracer)) else int(np.ndim(a))


def shape(a: Any) -> tuple[int, ...]:
    """The shape of ``a``."""
    return a.aval.shape if isinstance(a, (Array, Tracer)) else np.shape(a)


def size(a: Any, axis: Any = None) -> int:
    """The number of elements of ``a``, or the size along ``axis``."""
    sizes = shape(a)
    if axis is not None:
        return math.prod(sizes[i] for i in canonical_axes(axis, len(sizes)))
    return int(np.prod(sizes, dtype=np.int64))


if not TYPE_CHECKING:  # mypy already sees all names without an underscore
    __all__ = public_names(globals(), "ndarray", *(n for n, x in globals().items() if isinstance(x, ScalarMeta)))
