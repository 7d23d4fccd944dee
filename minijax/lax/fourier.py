"""Fourier transforms: ``fft``."""

from __future__ import annotations

from typing import Any

from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.ops.convert import convert
from minijax.ops.fft import FftType, fft_p

__all__ = ["fft"]


@inner_jit(static_argnames=("fft_type", "fft_lengths"), compiled=True)
def fft(x: Any, fft_type: FftType | str, fft_lengths: tuple[int, ...]) -> Any:
    """The discrete Fourier transform of ``x`` along its last ``len(fft_lengths)`` dimensions.

    Args:
      x: an array. It becomes complex for all types but RFFT.
      fft_type: a ``FftType`` or its name.
      fft_lengths: the sizes of the dimensions, as real numbers have them: of half a spectrum (what RFFT gives and IRFFT
        takes) the last dimension has ``fft_lengths[-1] // 2 + 1`` numbers.

    Raises ValueError for lengths that do not fit, for another type, and for complex numbers given to RFFT; TypeError
    for a type that is neither.
    """
    kind = FftType.from_any(fft_type)
    dtype = get_aval(x).dtype
    if kind == FftType.RFFT:
        if dtypes.is_complex(dtype):
            raise ValueError("only real valued inputs supported for rfft")
        x = convert(x, dtypes.to_inexact_dtype(dtype))
    elif not dtypes.is_complex(dtype):
        x = convert(x, dtypes.to_complex_dtype(dtype))
    if len(fft_lengths) == 0:
        return x
    return fft_p.bind(x, fft_type=kind, fft_lengths=tuple(fft_lengths))
