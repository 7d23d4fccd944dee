"""``fft``: discrete Fourier transforms along the last dimensions, as XLA has them."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.primitive import Primitive
from minijax.core.structural import full, moveaxis
from minijax.interpreters.vmap import batching_rules
from minijax.lowering.lower import lowering_rules
from minijax.lowering.text import dims_text, mlir_type
from minijax.ops.call import compiled_impl, named_call
from minijax.ops.dynamic import dynamic_update_slice
from minijax.ops.elementwise import conj, div_p, mul_p
from minijax.ops.elementwise_numpy import complex_dtype_of
from minijax.ops.nary import deflinear
from minijax.ops.shape import expand_dims

__all__ = ["FftType", "fft_p"]


class FftType(enum.IntEnum):
    """What is transformed: complex numbers, there and back, or real ones, of which half a spectrum is kept."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3

    @staticmethod
    def from_any(spec: Any) -> FftType:
        """``spec`` if it is one, or the one that it names. ValueError if there is none, TypeError if it is no name."""
        if isinstance(spec, FftType):
            return spec
        name = getattr(spec, "name", spec)  # JAX's types are named as these are
        if not isinstance(name, str):
            raise TypeError(f"Unknown FFT type value '{spec}'. Give 'fft', 'ifft', 'rfft' or 'irfft'.")
        name = name.upper()
        if name not in FftType.__members__:
            raise ValueError(f"Unknown FFT type '{spec}'. Give 'fft', 'ifft', 'rfft' or 'irfft'.")
        return FftType[name]


fft_p = Primitive("fft")
fft_p.refuses_keys = True


@fft_p.def_abstract_eval
def fft_abstract(x: ShapedArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> ShapedArray:
    if len(fft_lengths) > x.ndim:
        raise ValueError(
            f"FFT input shape {x.shape} must have at least as many input dimensions as fft_lengths {fft_lengths}."
        )
    lead = x.shape[: x.ndim - len(fft_lengths)]
    if fft_type == FftType.RFFT:
        if dtype_name(x.dtype) not in ("float32", "float64"):
            raise ValueError(f"RFFT input must be float32 or float64, got {dtype_name(x.dtype)}")
        _check_lengths("RFFT", x, fft_lengths, fft_lengths)
        if not fft_lengths[-1]:
            raise ValueError("RFFT of no numbers: they have no spectrum, half of which could be kept")
        return ShapedArray((*lead, *fft_lengths[:-1], _half(fft_lengths[-1])), complex_dtype_of(x.dtype))
    if not dtypes.is_complex(x.dtype):
        raise ValueError(f"{fft_type.name} input must be complex64 or complex128, got {dtype_name(x.dtype)}")
    if fft_type == FftType.IRFFT:
        half = _half(fft_lengths[-1]) if fft_lengths[-1] else x.shape[-1]
        _check_lengths("IRFFT", x, (*fft_lengths[:-1], half), fft_lengths)
        return ShapedArray((*lead, *fft_lengths), dtypes.real_dtype(x.dtype))
    _check_lengths("FFT", x, fft_lengths, fft_lengths)
    return ShapedArray(x.shape, x.dtype)


def _half(length: int) -> int:
    """How many numbers say the spectrum of so many real ones."""
    return length // 2 + 1


def _check_lengths(name: str, x: ShapedArray, wanted: Sequence[int], lengths: Sequence[int]) -> None:
    if x.shape[x.ndim - len(wanted) :] != tuple(wanted):
        sizes = "" if tuple(wanted) == tuple(lengths) else f", that is, sizes {tuple(wanted)}"
        raise ValueError(f"{name} input shape {x.shape} minor dimensions must be equal to fft_lengths {lengths}{sizes}")


def _fft_lower(
    ctx: Any, avals: Any, out_avals: Any, x: str, *, fft_type: FftType, fft_lengths: tuple[int, ...]
) -> str:
    types = f"({mlir_type(avals[0])}) -> {mlir_type(out_avals[0])}"
    return str(
        ctx.emit(f"stablehlo.fft {x}, type = {fft_type.name}, length = {dims_text(fft_lengths)} : {types}")
    )


def _fft_batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    (x,), (dim,) = args, dims
    assert dim is not None
    return called_fft(moveaxis(x, dim, 0), **params), 0


def _transform(x: Any, fft_type: FftType, fft_lengths: tuple[int, ...]) -> list[Any]:
    return [fft_p.bind(x, fft_type=fft_type, fft_lengths=fft_lengths)]


def called_fft(x: Any, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
    """``fft_p`` inside a function called ``fft``, as rules of JAX's write it."""
    (out,) = named_call("fft", _transform, [x], (fft_type, fft_lengths))
    return out


def _fft_transpose(ct: Any, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> list[Any]:
    """The matrices of FFT and IFFT are their own transposes; those of real transforms are the inverses', scaled."""
    if fft_type == FftType.RFFT:
        return named_call("_rfft_transpose", _rfft_transpose, [ct], (fft_lengths,))
    if fft_type == FftType.IRFFT:
        return [_irfft_transpose(ct, fft_lengths)]
    return [called_fft(ct, fft_type, fft_lengths)]


def _multiplicity(dtype: np.dtype, length: int, rank: int) -> Any:
    """How often each number of half a spectrum stands in the whole one: the first and, for even lengths, last once."""
    count = _half(length)

    def once(x: Any, at: int) -> Any:
        return dynamic_update_slice(x, full((1,), 1, dtype), (at,))

    found = once(full((count,), 2, dtype), 0)
    if length % 2 == 0:
        found = once(found, count - 1)
    return expand_dims(found, tuple(range(rank - 1)))


def _rfft_transpose(ct: Any, fft_lengths: tuple[int, ...]) -> list[Any]:
    aval = get_aval(ct)
    times = _multiplicity(aval.dtype, fft_lengths[-1], aval.ndim)
    back = called_fft(div_p.bind(conj(ct), times), FftType.IRFFT, fft_lengths)
    return [mul_p.bind(_scalar(back, math.prod(fft_lengths)), back)]


def _irfft_transpose(ct: Any, fft_lengths: tuple[int, ...]) -> Any:
    found = called_fft(ct, FftType.RFFT, fft_lengths)
    aval = get_aval(found)
    times = _multiplicity(aval.dtype, fft_lengths[-1], aval.ndim)
    return conj(mul_p.bind(mul_p.bind(_scalar(times, 1 / math.prod(fft_lengths)), times), found))


def _scalar(like: Any, value: float) -> Any:
    return full((), value, get_aval(like).dtype)


fft_p.def_impl(compiled_impl(fft_p))
lowering_rules[fft_p] = _fft_lower
batching_rules[fft_p] = _fft_batch
deflinear(fft_p, _fft_transpose)
