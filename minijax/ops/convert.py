"""Conversion between element types, and the primitives that return their operand: ``copy`` and ``stop_gradient``."""

from __future__ import annotations

import functools
import operator
import warnings
from typing import Any

import numpy as np

from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import Array, LiteralArray, get_aval
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.keys import is_key
from minijax.core.primitive import Primitive
from minijax.core.structural import Zero, zero_of
from minijax.core.trace import Tracer
from minijax.interpreters.jvp import DualTracer
from minijax.interpreters.stage import staging_rules
from minijax.ir.pretty import hide, pp_rules
from minijax.lowering.text import mlir_type
from minijax.ops.declare import declare, operand_lower, same_aval, unchanged
from minijax.ops.nary import FLOAT, ZERO, check_kinds

__all__ = [
    "bitcast_convert_type",
    "bitcast_convert_type_p",
    "convert_element_type",
    "convert_element_type_p",
    "copy_p",
    "reduce_precision",
    "reduce_precision_p",
    "stop_gradient_p",
]


def _convert_abstract(x: ShapedArray, *, new_dtype: np.dtype, weak_type: bool, sharding: Any) -> ShapedArray:
    if (is_key(x.dtype) or is_key(new_dtype)) and x.dtype is not new_dtype:
        raise ValueError(
            f"Cannot convert_element_type from {dtype_name(x.dtype)} to {dtype_name(new_dtype)}. random.key_data(keys) "
            "gives the words of keys, and random.wrap_key_data(words) makes keys of words."
        )
    return ShapedArray(x.shape, new_dtype, weak_type)


def _float_to_int(x: Any, dtype: np.dtype) -> Any:
    """Convert as XLA does: round towards zero, saturate, turn nan into 0. NumPy's result is undefined out of range."""
    least, beyond = _int_bounds(dtype)
    wide = x if x.dtype.itemsize >= 4 else x.astype(np.float32)
    low, high = wide < least, wide >= beyond
    # one test finds large values and nan, since nan is not below a bound
    if (low | ~(wide < beyond)).any():
        inside = np.where(low | high | np.isnan(wide), 0, wide)
        out = np.where(low, dtypes.iinfo(dtype).min, inside.astype(dtype)).astype(dtype)
        return np.where(high, dtypes.iinfo(dtype).max, out).astype(dtype)
    return wide.astype(dtype)


@functools.lru_cache(maxsize=64)
def _int_bounds(dtype: np.dtype) -> tuple[float, float]:
    """The range of ``dtype`` as two floats, which are exact: the least integer, and the first integer beyond it."""
    info = dtypes.iinfo(dtype)
    return float(info.min), float(2 ** (info.bits - (info.min < 0)))


def convert_numpy(x: Any, new_dtype: np.dtype, weak_type: bool = False, sharding: Any = None) -> Any:
    """``x`` (a NumPy value) with elements of ``new_dtype``, as XLA converts them."""
    old = x.dtype
    if old == new_dtype:
        return x
    if old.kind == "c" and new_dtype.kind != "c":
        x, old = x.real, x.real.dtype
    if dtypes.kind(old) == "f" and dtypes.kind(new_dtype) in "iu":
        return _float_to_int(x, new_dtype)
    return x.astype(new_dtype)


def _convert_jvp(primals: Any, tangents: Any, *, new_dtype: np.dtype, weak_type: bool, sharding: Any) -> Any:
    out = convert_element_type_p.bind(*primals, new_dtype=new_dtype, weak_type=weak_type, sharding=sharding)
    (tangent,) = tangents
    if type(tangent) is Zero or not dtypes.is_inexact(new_dtype):
        return out, zero_of(get_aval(out))
    return out, convert_element_type_p.bind(tangent, new_dtype=new_dtype, weak_type=weak_type, sharding=sharding)


def _convert_transpose(ct: Any, x: Any, *, new_dtype: np.dtype, weak_type: bool, sharding: Any) -> Any:
    aval = x.aval
    if not dtypes.is_inexact(aval.dtype):
        return [Zero(aval.update(dtype=dtypes.float0, weak_type=False))]
    return [convert(ct, aval.dtype, aval.weak_type)]


def _convert_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, new_dtype: np.dtype, weak_type: bool, sharding: Any
) -> str:
    aval = avals[0]
    if aval.dtype == new_dtype:  # only the weak type changes; JAX writes a conversion for this too
        return ctx.emit(f"stablehlo.convert {x} : {mlir_type(aval)}")
    return convert_text(ctx, x, aval, new_dtype)


def convert_text(ctx: Any, x: str, aval: ShapedArray, new_dtype: np.dtype) -> str:
    """Write the conversion of ``x``, of type ``aval``, to ``new_dtype``; returns its name."""
    if dtypes.is_complex(aval.dtype) and not dtypes.is_complex(new_dtype):
        part = aval.update(dtype=dtypes.real_dtype(aval.dtype))
        x = ctx.emit(f'"stablehlo.real"({x}) : ({mlir_type(aval)}) -> {mlir_type(part)}')
        aval = part
    if aval.dtype == new_dtype:
        return x
    ty, out = mlir_type(aval), mlir_type(aval.update(dtype=new_dtype))
    if dtypes.is_bool(new_dtype):
        kind = "FLOAT" if dtypes.is_float(aval.dtype) else "SIGNED" if dtypes.is_signed(aval.dtype) else "UNSIGNED"
        x = ctx.emit(f"stablehlo.compare NE, {x}, {ctx.full(0, aval, scalars=True)}, {kind} : ({ty}, {ty}) -> {out}")
        ty = out
    return ctx.emit(f"stablehlo.convert {x} : ({ty}) -> {out}")


convert_element_type_p = declare(
    "convert_element_type",
    abstract=_convert_abstract,
    numpy=convert_numpy,
    lower=_convert_lower,
    transpose=_convert_transpose,
    jvp=_convert_jvp,
    takes_keys=True,
    sharding="sharding",
)


pp_rules[convert_element_type_p] = hide("sharding")  # the type of the result shows the sharding


def is_number(x: Any) -> bool:
    """Whether ``x`` is a scalar, which a jaxpr contains as a literal."""
    kinds = (LiteralArray, bool, int, float, complex, np.generic)
    return isinstance(x, kinds) or type(x) is np.ndarray and not x.ndim


def convert_stage(trace: Any, x: Any, *, new_dtype: np.dtype, weak_type: bool, sharding: Any) -> Any:
    """As in JAX, stage no equation if the value has the type already, as it may when a jaxpr is traced again."""
    aval = getattr(x, "aval", None)
    if sharding is None and aval is not None and aval.dtype == new_dtype and aval.weak_type == weak_type:
        return x
    if sharding is None and is_number(x) and not is_key(new_dtype) and new_dtype != dtypes.float0:
        return convert(x, new_dtype, weak_type)  # a number is converted immediately
    params = {"new_dtype": new_dtype, "weak_type": weak_type, "sharding": sharding}
    return trace.record(convert_element_type_p, (x,), params)


staging_rules[convert_element_type_p] = convert_stage


def convert(operand: Any, new_dtype: np.dtype | None = None, weak_type: bool = False) -> Any:
    """``operand`` with the canonical dtype ``new_dtype`` (by default its own) and ``weak_type``.
    It makes no equation if nothing changes. Scalars become constants. It warns if imaginary parts are lost."""
    if not isinstance(operand, (Array, Tracer)) and hasattr(operand, "__jax_array__"):
        operand = operand.__jax_array__()
    # Python integers have any size: one that fits only the new type must not become int32 first.
    big = type(operand) is int and new_dtype is not None
    aval = ShapedArray((), np.dtype(np.int64), True) if big else get_aval(operand)
    if new_dtype is None:
        new_dtype = aval.dtype
    if dtypes.is_complex(aval.dtype) and not dtypes.is_complex(new_dtype):
        if type(operand) is complex:
            raise TypeError(
                f"Python's {operand} cannot be converted to {dtype_name(new_dtype)}, which has no imaginary part: give "
                "its .real or .imag."
            )
        warnings.warn(
            "Casting complex values to real discards the imaginary part", np.exceptions.ComplexWarning, stacklevel=3
        )
    if isinstance(operand, (Array, Tracer)):
        if aval.dtype == new_dtype and aval.weak_type == weak_type:
            return operand
        if isinstance(operand, LiteralArray) and new_dtype != dtypes.float0 and not is_key(new_dtype):
            value = convert_numpy(np.asarray(operand._value()), new_dtype)
            return LiteralArray(value[()], ShapedArray((), new_dtype, weak_type))
    elif is_number(operand) and new_dtype != dtypes.float0 and not is_key(new_dtype):
        value = np.asarray(operand)
        converted = convert_numpy(value, new_dtype) if value.dtype.kind != "O" else value.astype(new_dtype)
        return LiteralArray(converted[()], ShapedArray((), new_dtype, weak_type))
    return convert_element_type_p.bind(operand, new_dtype=new_dtype, weak_type=weak_type, sharding=None)


def alike(x: Any, y: Any) -> tuple[Any, Any]:
    """``x`` and ``y``, which have one dtype. If one is strongly typed, both become strong, as with operators."""
    avals = get_aval(x), get_aval(y)
    if avals[0].weak_type == avals[1].weak_type:
        return x, y
    return convert(x, avals[0].dtype), convert(y, avals[1].dtype)


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """``operand`` with its elements converted to ``new_dtype`` (anything that names a dtype), strongly typed.

    Unless x64 is enabled, 64-bit types mean the 32-bit ones. Returns ``operand`` itself if it has the type already.
    """
    return convert(operand, dtypes.check_user_dtype(new_dtype, "convert_element_type", x64_enabled()))


def _bitcast_abstract(x: ShapedArray, *, new_dtype: np.dtype) -> ShapedArray:
    old, new = dtypes.bits(x.dtype), dtypes.bits(new_dtype)
    size = x.shape[-1] if x.shape else 1
    if old < new and size * old != new:
        raise ValueError(
            f"Attempting to convert array of shape {x.shape} from {dtype_name(x.dtype)} of size {old} bits "
            f"to {dtype_name(new_dtype)} of size {new} bits, but {size} * {old} != {new}"
        )
    if x.dtype != new_dtype and any(dtypes.kind(d) in "bc" for d in (x.dtype, new_dtype)):
        raise TypeError(
            "lax.bitcast_convert_type does not support bool or complex values unless the operand and "
            f"destination types match. Got operand dtype={dtype_name(x.dtype)}, "
            f"new_dtype={dtype_name(new_dtype)}."
        )
    shape = x.shape if old == new else (*x.shape, old // new) if old > new else x.shape[:-1]
    return ShapedArray(shape, new_dtype)


def _bitcast_numpy(x: Any, new_dtype: np.dtype) -> Any:
    x = np.asarray(x)
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if old == new:
        return x.view(new_dtype)
    if old > new:
        return np.ascontiguousarray(x.reshape((*x.shape, 1))).view(new_dtype)
    return np.ascontiguousarray(x).view(new_dtype).reshape(x.shape[:-1])


def _bitcast_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, new_dtype: np.dtype) -> str:
    return ctx.emit(f"stablehlo.bitcast_convert {x} : ({mlir_type(avals[0])}) -> {mlir_type(out_avals[0])}")


bitcast_convert_type_p = declare(
    "bitcast_convert_type", abstract=_bitcast_abstract, numpy=_bitcast_numpy, lower=_bitcast_lower, derivative=ZERO
)


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of ``operand`` read as elements of ``new_dtype``.

    A narrower type adds a last axis, and a wider type consumes the last axis. Raises TypeError for booleans and
    complex numbers, ValueError if the last axis does not fill one element.
    """
    dtype = dtypes.check_user_dtype(new_dtype, "bitcast_convert_type", x64_enabled())
    return bitcast_convert_type_p.bind(operand, new_dtype=dtype)


def _reduce_precision_abstract(x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
    if exponent_bits < 1:
        raise ValueError(f"reduce_precision: exponent_bits must be positive; got {exponent_bits}")
    if mantissa_bits < 0:
        raise ValueError(f"reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}")
    check_kinds("reduce_precision", [FLOAT], [x])
    return x


def _reduce_precision_numpy(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Round the mantissa to nearest, ties to even. An exponent out of range gives infinity or zero."""
    wide = np.asarray(x, np.float64)
    mantissa, exponent = np.frexp(wide)
    info = dtypes.finfo(x.dtype)
    scale = 2.0 ** (min(mantissa_bits, info.nmant) + 1)
    rounded = np.ldexp(np.rint(mantissa * scale) / scale, exponent)
    most = 2 ** (exponent_bits - 1) - 1
    if exponent_bits < info.bits - 1 - info.nmant:
        rounded = np.where(np.abs(rounded) >= 2.0 ** (most + 1), np.copysign(np.inf, wide), rounded)
        rounded = np.where(np.abs(rounded) < 2.0 ** (1 - most), np.copysign(0.0, wide), rounded)
    return np.where(np.isfinite(wide), rounded, wide).astype(x.dtype)


def _reduce_precision_transpose(ct: Any, x: Any, **params: int) -> Any:
    return [reduce_precision_p.bind(ct, **params)]


def _reduce_precision_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, exponent_bits: int, mantissa_bits: int
) -> str:
    form = f"e{exponent_bits}m{mantissa_bits}"
    return ctx.emit(f"stablehlo.reduce_precision {x}, format = {form} : {mlir_type(avals[0])}")


reduce_precision_p = declare(
    "reduce_precision",
    abstract=_reduce_precision_abstract,
    numpy=_reduce_precision_numpy,
    lower=_reduce_precision_lower,
    transpose=_reduce_precision_transpose,
)


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """``operand`` rounded to this number of exponent bits and mantissa bits. The dtype stays the same."""
    return reduce_precision_p.bind(
        operand, exponent_bits=operator.index(exponent_bits), mantissa_bits=operator.index(mantissa_bits)
    )


copy_p = Primitive("copy")
declare(
    copy_p,
    abstract=same_aval,
    numpy=unchanged,
    lower=operand_lower,
    transpose=lambda ct, x: [copy_p.bind(ct)],
    takes_keys=True,
)


def _stop_gradient_jvp(primals: Any, tangents: Any) -> Any:
    (x,) = primals
    # unlike ``bind``, ``stop_gradient`` strips the tracers of enclosing differentiations
    return stop_gradient(x), zero_of(get_aval(x))


stop_gradient_p = declare(
    "stop_gradient", abstract=same_aval, numpy=unchanged, lower=operand_lower, jvp=_stop_gradient_jvp
)


def stop_gradient(x: Any) -> Any:
    """The array ``x`` as a constant for every differentiation."""
    while isinstance(x, DualTracer):
        x = x.primal
    if is_key(get_aval(x).dtype):
        return x
    return stop_gradient_p.bind(x)
