"""Elementwise products: ``mul``, also with an output dtype, and ``mulhi``."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.primitive import abstract_rules
from minijax.core.rules import Rule
from minijax.interpreters.evaluate import by_type
from minijax.lowering.text import line_rules
from minijax.ops.convert import convert_numpy, convert_text
from minijax.ops.nary import INT, NUM, ZERO, binary, defbilinear, op_lowering, unbroadcast

__all__ = ["mul", "mulhi", "mulhi_p"]


def _product_for(to: Any, x: Any, y: Any, **params: Any) -> Any:
    """The cotangent of ``to``: ``x * y``. If ``params`` give an ``out_dtype``, the product has the dtype of ``to``."""
    return unbroadcast(to.aval, _mul(x, y, out_dtype=to.aval.dtype) if params else _mul(x, y))


@by_type
def mul_numpy(x: Any, y: Any, out_dtype: Any = None) -> Rule:
    if out_dtype is None:
        return np.multiply
    dtype = dtypes.canonicalize_dtype(dtypes.as_dtype(out_dtype), x64_enabled())
    return lambda x, y: convert_numpy(x, dtype) * convert_numpy(y, dtype)


def mul_lower(ctx: Any, avals: Any, out_avals: Any, *args: str, out_dtype: Any = None) -> str:
    if out_dtype is not None:
        args = tuple(convert_text(ctx, x, a, out_avals[0].dtype) for x, a in zip(args, avals, strict=True))
        avals = [a.update(dtype=out_avals[0].dtype) for a in avals]
    return str(_multiply_lower(ctx, avals, out_avals, *args))


_multiply_lower = op_lowering("multiply")
line_rules[mul_lower] = line_rules[_multiply_lower]
_product, mul_p = binary("mul", NUM, mul_numpy, mul_lower, [None, None], "The product.")
defbilinear(
    mul_p,
    lambda ct, x, y, **params: _product_for(x, ct, y, **params),
    lambda ct, x, y, **params: _product_for(y, x, ct, **params),
)
_mul = mul_p.bind
_same_types = abstract_rules[mul_p]


@mul_p.def_abstract_eval
def mul_abstract(x: ShapedArray, y: ShapedArray, *, out_dtype: Any = None) -> ShapedArray:
    if out_dtype is None:
        return _same_types(x, y)  # type: ignore[no-any-return]
    dtype = dtypes.canonicalize_dtype(dtypes.as_dtype(out_dtype), x64_enabled())
    x, y = (a.update(dtype=dtype) if dtypes.kind(a.dtype) in NUM else a for a in (x, y))
    return _same_types(x, y)  # type: ignore[no-any-return]


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    """The product ``x * y``. With ``out_dtype``, operands are converted to this dtype first."""
    return _mul(x, y) if out_dtype is None else _mul(x, y, out_dtype=out_dtype)


mul.__module__ = _product.__module__


def mulhi_numpy(x: Any, y: Any) -> Any:
    """Multiply the halves of the operands (H. Warren, "Hacker's delight", 8-2)."""
    dtype = x.dtype
    half = dtype.type(4 * dtype.itemsize)
    mask = dtype.type((1 << int(half)) - 1)
    x1, x0, y1, y0 = x >> half, x & mask, y >> half, y & mask
    unsigned = np.dtype(f"u{dtype.itemsize}")
    carry = ((x0.astype(unsigned) * y0.astype(unsigned)) >> half.astype(unsigned)).astype(dtype)
    middle = x1 * y0 + carry
    rest = (middle & mask) + x0 * y1
    return (x1 * y1 + (middle >> half) + (rest >> half)).astype(dtype)


mulhi, mulhi_p = binary(
    "mulhi", INT, mulhi_numpy, "chlo.mulhi", ZERO, "The upper half of the bits of the whole product of integers."
)
