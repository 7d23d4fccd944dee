"""``minijax.scipy.fft``: discrete cosine transforms, of type 2 and its inverse.

They are Fourier transforms of rearranged numbers (Makhoul 1980, "A Fast Cosine Transform in One and Two Dimensions").
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from minijax import lax
from minijax.core import dtypes
from minijax.core.lacking import borrowing
from minijax.numpy import creation, manipulation, ufuncs
from minijax.numpy import fft as numpy_fft
from minijax.numpy.promotion import canonical_axes, canonical_axis, ensure, typed_scalar

__all__ = ["dct", "dctn", "idct", "idctn"]

__getattr__, __dir__ = borrowing(globals())


def _check(type: int, norm: str | None) -> None:
    if type != 2:
        raise NotImplementedError("Only DCT type 2 is implemented.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"jax.scipy.fft.dct: norm={norm!r} is not implemented: choose None, 'backward' or 'ortho'")


def _of_parts(transform: Callable[..., Any]) -> Callable[..., Any]:
    """``transform``, of real numbers, for complex ones too: of both parts."""

    @functools.wraps(transform)
    def of_parts(x: Any, *args: Any, **kwargs: Any) -> Any:
        x = ensure(transform.__name__, x)
        if not dtypes.is_complex(x.dtype):
            return transform(x, *args, **kwargs)
        return lax.complex(transform(lax.real(x), *args, **kwargs), transform(lax.imag(x), *args, **kwargs))

    return of_parts


def _resized(x: Any, sizes: dict[int, int]) -> Any:
    """``x`` cut, or padded with zeros, to sizes along some axes."""
    config = [(0, sizes.get(d, m) - m, 0) for d, m in enumerate(x.shape)]
    return lax.pad(x, typed_scalar(0, x.dtype), config)


def _places(n: int, dtype: Any, axis: int, ndim: int) -> Any:
    """0, 1, ..., n - 1 along ``axis``."""
    return lax.expand_dims(creation.arange(n, dtype=dtype), tuple(d for d in range(ndim) if d != axis))


def _quarter_turns(n: int, k: Any) -> Any:
    """``exp(-i pi k / 2n)``."""
    return ufuncs.exp(-0.5j * math.pi * k / n)


def _interleaved(x: Any, axis: int) -> Any:
    """The numbers of even places along ``axis``, then those of odd ones, backwards."""
    even = lax.slice_in_dim(x, 0, None, 2, axis)
    odd = lax.slice_in_dim(x, 1, None, 2, axis)
    return lax.concatenate([even, lax.rev(odd, (axis,))], axis)


def _deinterleaved(x: Any, axis: int) -> Any:
    """The inverse of ``_interleaved``."""
    n = x.shape[axis]
    half = (n + 1) // 2
    lead = (slice(None),) * axis
    even, odd = x[(*lead, slice(0, half))], lax.rev(x[(*lead, slice(half, n))], (axis,))
    out = creation.zeros(x.shape, x.dtype)
    return out.at[(*lead, slice(0, None, 2))].set(even).at[(*lead, slice(1, None, 2))].set(odd)


def _orthogonal(x: Any, axis: int) -> Any:
    """``x``, a transform, divided by the norms of the cosines."""
    n = x.shape[axis]
    first, rest = lax.full((1,), typed_scalar(4, x.dtype)), lax.full((n - 1,), typed_scalar(2, x.dtype))
    factors = lax.expand_dims(lax.concatenate([first, rest], 0), tuple(d for d in range(x.ndim) if d != axis))
    return x / ufuncs.sqrt(factors * n)


@_of_parts
def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """``2 sum_j x[j] cos(pi k (2j + 1) / 2n)`` along ``axis``, cut or padded to ``n``.

    With ``norm='ortho'`` it is an orthogonal matrix. NotImplementedError for another ``type``, ValueError for another
    ``norm``.
    """
    _check(type, norm)
    axis = canonical_axis(axis, x.ndim)
    if n is not None:
        x = _resized(x, {axis: n})
    size = x.shape[axis]
    spectrum = numpy_fft.fft(_interleaved(x, axis), axis=axis)
    places = _places(size, dtypes.real_dtype(spectrum.dtype), axis, x.ndim)
    out = 2 * (spectrum * _quarter_turns(size, places)).real
    return _orthogonal(out, axis) if norm == "ortho" else out


def _dct_of_two(x: Any, axes: Sequence[int], norm: str | None) -> Any:
    first, second = axes
    m, n = x.shape[first], x.shape[second]
    spectrum = numpy_fft.fftn(_interleaved(_interleaved(x, first), second), axes=tuple(axes))
    i, j = (_places(x.shape[d], spectrum.dtype, d, x.ndim) for d in axes)
    turns = _quarter_turns(m, i)
    inside = _quarter_turns(n, j) * spectrum
    mirrored = manipulation.roll(manipulation.flip(spectrum, axis=second), 1, axis=second)
    out = 2 * (turns * (inside + _quarter_turns(n, -j) * mirrored)).real
    return _orthogonal(_orthogonal(out, first), second) if norm == "ortho" else out


def _axes(x: Any, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[int]:
    if s is not None and len(s) > x.ndim:
        raise ValueError(f"s must have at most as many sizes as the array has axes, {x.ndim}, got {len(s)}")
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    return list(canonical_axes(axes if hasattr(axes, "__index__") else tuple(axes), x.ndim))


@_of_parts
def dctn(
    x: Any,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:
    """``dct`` along several axes, by default all, the first of them cut or padded to the sizes ``s``."""
    _check(type, norm)
    s = (s,) if isinstance(s, int) else s
    chosen = _axes(x, s, axes)
    if len(chosen) == 1:
        return dct(x, n=None if s is None else s[0], axis=chosen[0], norm=norm)
    if s is not None:
        x = _resized(x, dict(zip(chosen, s, strict=False)))
    for i in range(0, len(chosen) - 1, 2):
        x = _dct_of_two(x, chosen[i : i + 2], norm)
    return dct(x, axis=chosen[-1], norm=norm) if len(chosen) % 2 else x


@_of_parts
def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of ``dct``, of real numbers, cut or padded to ``n``."""
    _check(type, norm)
    axis = canonical_axis(axis, x.ndim)
    if n is not None:
        x = _resized(x, {axis: n})
    size = x.shape[axis]
    x = lax.convert_element_type(x, dtypes.to_inexact_dtype(x.dtype))
    if norm != "ortho":
        x = _orthogonal(x, axis)
    x = _orthogonal(x, axis)
    places = _places(size, dtypes.real_dtype(x.dtype), axis, x.ndim)
    spectrum = x.astype(dtypes.to_complex_dtype(x.dtype)) / _quarter_turns(size, places)
    return _deinterleaved(numpy_fft.ifft(spectrum * 2 * size, axis=axis).real, axis)


@_of_parts
def idctn(
    x: Any,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:
    """``idct`` along several axes, by default all, the first of them cut or padded to the sizes ``s``."""
    _check(type, norm)
    s = (s,) if isinstance(s, int) else s
    chosen = _axes(x, s, axes)
    if s is not None:
        x = _resized(x, dict(zip(chosen, s, strict=False)))
    for axis in chosen:
        x = idct(x, axis=axis, norm=norm)
    return x
