"""What numbers are made of: mantissa and exponent, the next float, common divisors, bits packed into bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax import lax
from minijax.api.custom_jvp import custom_jvp
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.numpy import mathematics, reductions, ufuncs
from minijax.numpy.creation import zeros_like
from minijax.numpy.manipulation import ravel, swapaxes
from minijax.numpy.padding import pad
from minijax.numpy.promotion import (
    broadcast_arrays,
    choose,
    const,
    convert,
    ensure,
    promote,
    promote_dtypes,
    typed_scalar,
    weak_const,
)
from minijax.numpy.ufuncs import INEXACT, isinf, isnan

__all__ = ["frexp", "gcd", "lcm", "ldexp", "packbits", "spacing", "unpackbits"]

INT32, UINT8 = np.dtype(np.int32), np.dtype(np.uint8)

# ------------------------------------------------------------------------------------------------ floats


def _layout(dtype: np.dtype) -> tuple[np.dtype, int, int]:
    """The integers that hold a float's bits, how many are its mantissa, and what is added to its exponent."""
    info = dtypes.finfo(dtype)
    bits = dtypes.bits(dtype)
    return np.dtype(f"int{bits}"), info.nmant, (1 << (bits - info.nmant - 2)) - 1


@inner_jit
def frexp(x: Any, /) -> tuple[Any, Any]:
    """The mantissa of each element, from 0.5 to 1 in magnitude, and its exponent of 2, int32. TypeError for complex."""
    (x,) = promote("frexp", x, to=INEXACT)
    if dtypes.is_complex(x.aval.dtype):
        raise TypeError("frexp does not support complex-valued inputs")
    return _frexp(x)


@custom_jvp
def _frexp(x: Any) -> tuple[Any, Any]:
    int_dtype, mantissa_bits, bias = _layout(x.aval.dtype)
    # subnormal numbers are scaled up first: they have no leading bit of their own
    subnormal = lax.lt(lax.abs(x), const(x, dtypes.finfo(x.aval.dtype).tiny))
    scaled = choose(subnormal, lax.mul(x, const(x, 2.0**mantissa_bits)), x)
    shift = choose(subnormal, typed_scalar(-mantissa_bits, int_dtype), typed_scalar(0, int_dtype))
    bits = lax.bitcast_convert_type(scaled, int_dtype)
    exponent = lax.bitwise_and(lax.shift_right_arithmetic(bits, const(bits, mantissa_bits)), const(bits, 2 * bias + 1))
    exponent = lax.add(shift, lax.add(lax.sub(exponent, const(bits, bias)), const(bits, 1)))
    cleared = lax.bitwise_and(bits, const(bits, ~((2 * bias + 1) << mantissa_bits)))
    mantissa = lax.bitcast_convert_type(lax.bitwise_or(cleared, const(bits, (bias - 1) << mantissa_bits)), x.aval.dtype)
    special = ufuncs.logical_or(ufuncs.logical_or(isinf(x), isnan(x)), lax.eq(x, const(x, 0)))
    exponent = choose(special, zeros_like(exponent), exponent)
    return choose(special, x, mantissa), convert(exponent, INT32)


@_frexp.defjvp
def _frexp_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    mantissa, exponent = _frexp(x)
    scale = lax.exp2(convert(lax.neg(exponent), x.aval.dtype))
    return (mantissa, exponent), (lax.mul(t, scale), np.zeros(exponent.aval.shape, dtypes.float0))


@inner_jit
def ldexp(x1: Any, x2: Any, /) -> Any:
    """``x1 * 2**x2``. ValueError for complex numbers or an ``x2`` of floats."""
    x1, x2 = ensure("ldexp", x1, x2)
    if dtypes.is_complex(x1.aval.dtype) or dtypes.is_complex(x2.aval.dtype):
        raise ValueError(f"ldexp does not support complex-valued inputs, got {x1.aval.dtype} and {x2.aval.dtype}")
    if dtypes.is_inexact(x2.aval.dtype):
        raise ValueError("ldexp: the exponent x2 is to be of integers: round it, or write x1 * 2.0**x2.")
    x1, x2 = promote("ldexp", x1, x2, to=INEXACT)
    mantissa, exponent = frexp(x1)
    exponent = ufuncs.add(convert(exponent, x2.aval.dtype), x2)
    # one factor of 2 is kept with the mantissa, so that the greatest numbers can be made
    mantissa = choose(lax.gt(exponent, const(exponent, 0)), lax.mul(mantissa, const(mantissa, 2)), mantissa)
    power = choose(lax.gt(exponent, const(exponent, 0)), lax.sub(exponent, const(exponent, 1)), exponent)
    scaled = ufuncs.multiply(mantissa, lax.pow(const(power, 2), power))
    return choose(ufuncs.logical_or(isinf(x1), lax.eq(x1, const(x1, 0))), x1, scaled)


def spacing(x: Any, /) -> Any:
    """The distance of each float to the next one away from 0."""
    (x,) = promote("spacing", x, to=INEXACT)
    dtype = x.aval.dtype
    if dtypes.is_complex(dtype):
        raise ValueError("jnp.spacing is not defined for complex inputs; take it of jnp.real(x) and jnp.imag(x).")
    outwards = lax.nextafter(x, mathematics.copysign(typed_scalar(np.inf, dtype), x))
    distance = lax.sub(outwards, x)
    smallest = typed_scalar(dtypes.finfo(dtype).smallest_subnormal, dtype)
    return choose(lax.eq(distance, const(x, 0)), mathematics.copysign(smallest, x), distance)


# ------------------------------------------------------------------------------------------------ integers


def _integers(name: str, x1: Any, x2: Any) -> list[Any]:
    x1, x2 = promote_dtypes(*ensure(name, x1, x2))
    if not dtypes.is_integer(x1.aval.dtype):
        raise ValueError(f"Arguments to jax.numpy.{name} must be integers.")
    return broadcast_arrays(x1, x2)


@inner_jit
def gcd(x1: Any, x2: Any) -> Any:
    """The greatest common divisor of integers, by Euclid's algorithm."""
    x1, x2 = _integers("gcd", x1, x2)
    return lax.while_loop(_rests_remain, _euclid, (ufuncs.abs(x1), ufuncs.abs(x2)))[0]


def _rests_remain(pair: tuple[Any, Any]) -> Any:
    return reductions.any(lax.ne(pair[1], const(pair[1], 0)))


def _euclid(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    a, b = pair
    zero = const(b, 0)
    a, b = choose(lax.ne(b, zero), b, a), choose(lax.ne(b, zero), lax.rem(a, b), zero)
    return choose(lax.lt(a, b), b, a), choose(lax.lt(a, b), a, b)


@inner_jit
def lcm(x1: Any, x2: Any) -> Any:
    """The least common multiple of integers; 0 if both are 0."""
    x1, x2 = (ufuncs.abs(x) for x in _integers("lcm", x1, x2))
    divisor = gcd(x1, x2)
    zero = weak_const(divisor, 0)
    return choose(lax.eq(divisor, const(divisor, 0)), zero, ufuncs.multiply(x1, mathematics.floor_divide(x2, divisor)))


# ------------------------------------------------------------------------------------------------ bytes


def _bit_order(bitorder: str) -> None:
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")


@inner_jit(static_argnames=("axis", "bitorder"))
def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight elements at a time along ``axis`` as the bits of a byte, which are set where these are not 0.

    Raises TypeError for what is neither booleans nor integers, ValueError for an unknown ``bitorder``.
    """
    a = ensure("packbits", a)
    if not (dtypes.is_integer(a.aval.dtype) or dtypes.is_bool(a.aval.dtype)):
        raise TypeError("Expected an input array of integer or boolean data type")
    _bit_order(bitorder)
    bits = convert(lax.ne(a, const(a, 0)), UINT8)
    places = lax.iota(UINT8, 8)
    if bitorder == "big":
        places = places[::-1]
    if axis is None:
        bits, axis = ravel(bits), 0
    bits = swapaxes(bits, axis, -1)
    rest = bits.aval.shape[-1] % 8
    if rest:
        bits = lax.pad(bits, const(bits, 0), [(0, 0, 0)] * (bits.aval.ndim - 1) + [(0, 8 - rest, 0)])
    bits = bits.reshape(*bits.aval.shape[:-1], bits.aval.shape[-1] // 8, 8)
    places = lax.expand_dims(places, tuple(range(bits.aval.ndim - 1)))
    packed = convert(reductions.sum(lax.shift_left(bits, places), -1), UINT8)
    return swapaxes(packed, axis, -1)


@inner_jit(static_argnames=("axis", "count", "bitorder"))
def unpackbits(a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Any:
    """The bits of each byte along ``axis``, ``count`` by default all, as 0 and 1. TypeError for other types."""
    a = ensure("unpackbits", a)
    if a.aval.dtype != UINT8:
        raise TypeError("Expected an input array of unsigned byte data type")
    _bit_order(bitorder)
    masks = lax.shift_left(typed_scalar(1, UINT8), lax.iota(UINT8, 8))
    if bitorder == "big":
        masks = masks[::-1]
    if axis is None:
        a, axis = ravel(a), 0
    a = swapaxes(a, axis, -1)
    groups = lax.expand_dims(a, (a.aval.ndim,))
    found = lax.bitwise_and(groups, lax.expand_dims(masks, tuple(range(a.aval.ndim))))
    bits = convert(lax.gt(found, const(found, 0)), UINT8)
    bits = bits.reshape(*bits.aval.shape[:-2], bits.aval.shape[-2] * 8)
    if count is not None:
        if count > bits.aval.shape[-1]:
            bits = pad(bits, [(0, 0)] * (bits.aval.ndim - 1) + [(0, count - bits.aval.shape[-1])])
        else:
            bits = bits[..., :count]
    return swapaxes(bits, axis, -1)
