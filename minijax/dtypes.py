"""Element types under JAX's names: the types, their promotion and their limits.

Results depend on two settings: ``enable_x64``, which allows 64-bit types, and ``numpy_dtype_promotion``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.config import promotes_strictly, x64_enabled
from minijax.core import dtypes
from minijax.core.dtypes import TypePromotionError, extended, finfo, float0, iinfo, issubdtype, prng_key
from minijax.numpy.types import ScalarMeta

__all__ = [
    "TypePromotionError",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "itemsize_bits",
    "prng_key",
    "result_type",
    "scalar_type_of",
]


def __getattr__(name: str) -> Any:
    if name == "bfloat16":  # loads ml_dtypes at first use
        return dtypes.bfloat16
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """The type of arrays that are created with ``dtype``: float32 for float64, unless ``enable_x64`` is set.

    TypeError if ``dtype`` is not a type, ValueError for random keys unless ``allow_extended_dtype``.
    """
    if issubdtype(dtype, extended):
        if allow_extended_dtype:
            return dtype
        raise ValueError(f"canonicalize_dtype takes types of numbers; {dtype} needs allow_extended_dtype=True")
    return dtypes.canonicalize_dtype(dtype, x64_enabled())


def itemsize_bits(dtype: Any) -> int:
    """Bits of an element: 8 for booleans, 4 for int4. TypeError if ``dtype`` is not a type, ValueError for None."""
    if dtype is None:
        raise ValueError("itemsize_bits takes a dtype, such as 'float32', not None")
    return dtypes.bits(dtypes.as_dtype(dtype))


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The type of an operation on values or types ``args``; ``return_weak_type_flag`` also returns whether it is weak.

    TypePromotionError if they have no common type, ValueError without arguments.
    """
    dtype, weak_type = dtypes.result_type(*map(_type, args), x64=x64_enabled(), strict=promotes_strictly())
    return (dtype, weak_type) if return_weak_type_flag else dtype


def _type(x: Any) -> tuple[np.dtype, bool]:
    return dtypes.dtype_and_weak_type(x.dtype if isinstance(x, ScalarMeta) else x, x64_enabled())


def scalar_type_of(x: Any) -> type:
    """The Python class of elements of ``x``: bool, int, float or complex. TypeError for others, ValueError for None."""
    dtype = _type(x)[0]
    for holds, scalar in (
        (dtypes.is_bool, bool),
        (dtypes.is_integer, int),
        (dtypes.is_float, float),
        (dtypes.is_complex, complex),
    ):
        if holds(dtype):
            return scalar
    raise TypeError(f"{x} of type {dtype} is not a number: scalar_type_of knows bool, int, float and complex")
