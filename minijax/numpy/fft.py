"""``minijax.numpy.fft``: discrete Fourier transforms."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.lacking import borrowing
from minijax.numpy import creation, manipulation, mathematics, reductions, ufuncs
from minijax.numpy.padding import pad
from minijax.numpy.promotion import canonical_axis, convert, ensure, user_dtype

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

FFT, IFFT, RFFT, IRFFT = lax.FftType.FFT, lax.FftType.IFFT, lax.FftType.RFFT, lax.FftType.IRFFT

# --------------------------------------------------------------------------------- any number of axes


def _transformed(name: str, kind: lax.FftType, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    """The transform of ``kind`` of ``a`` along ``axes`` (by default all, or as many last ones as ``s`` has sizes)."""
    full_name = f"jnp.fft.{name}"
    a = ensure(full_name, a)
    if s is not None:
        s = tuple(map(operator.index, s))
        if any(n <= 0 for n in s):
            raise ValueError(f"Shape should be positive, got s={s}.")
    if s is not None and axes is not None and len(s) != len(axes):
        raise ValueError(f"Shape and axes have different lengths: s={s}, axes={axes}.")
    if axes is None:
        axes = range(a.ndim) if s is None else range(a.ndim - len(s), a.ndim)
    axes = [canonical_axis(d, a.ndim) for d in axes]
    if len(set(axes)) != len(axes):
        raise ValueError(f"{full_name} does not support repeated axes. Got axes {tuple(axes)}.")
    last = tuple(range(a.ndim - len(axes), a.ndim))
    is_moved = tuple(axes) != last
    if is_moved:
        a = manipulation.moveaxis(a, axes, last)
    a, s = _fitted(a, kind, s, last)
    out = _of_last(kind, a, tuple(s))
    if norm is not None:
        out = _scaled(full_name, out, name.startswith("i"), s, norm)
    return manipulation.moveaxis(out, last, axes) if is_moved else out


def _of_last(kind: lax.FftType, a: Any, sizes: tuple[int, ...]) -> Any:
    """The transform of as many last axes as there are ``sizes``, by parts: XLA does three at once."""
    count = len(sizes)
    if count <= 3:
        return lax.fft(a, kind, sizes)
    at_once = min(3, (count + 1) // 2)
    rest, last = sizes[:-at_once], sizes[-at_once:]
    axes = tuple(range(a.ndim - count, a.ndim - at_once))
    ends = tuple(range(a.ndim - len(rest), a.ndim))
    if kind in (FFT, RFFT):
        a = lax.fft(a, kind, last)
    inner = IFFT if kind in (IFFT, IRFFT) else FFT
    a = manipulation.moveaxis(_of_last(inner, manipulation.moveaxis(a, axes, ends), rest), ends, axes)
    return a if kind in (FFT, RFFT) else lax.fft(a, kind, last)


def _fitted(a: Any, kind: lax.FftType, s: Sequence[int] | None, axes: Sequence[int]) -> tuple[Any, list[int]]:
    """``a`` cut or padded along its last ``axes`` to the sizes ``s``, and those; by default its own."""
    if s is None:
        sizes = [a.shape[d] for d in axes]
        if kind == IRFFT and sizes:
            sizes[-1] = max(0, 2 * (sizes[-1] - 1))
        return a, sizes
    shape = list(a.shape)
    for d, n in zip(axes, s, strict=True):
        shape[d] = n
    if kind == IRFFT and s:
        shape[axes[-1]] = s[-1] // 2 + 1
    a = a[tuple(slice(n) for n in shape)]
    return pad(a, [(0, n - m) for m, n in zip(a.shape, shape, strict=True)]), list(s)


def _scaled(name: str, out: Any, is_inverse: bool, s: Sequence[int], norm: str) -> Any:
    """``out`` times what ``norm`` asks for besides what XLA does, which divides inverse transforms by their size."""
    if norm not in ("backward", "ortho", "forward"):
        raise ValueError(f"{name}: norm should be 'backward', 'ortho' or 'forward', got {norm!r}")
    if norm == "backward":
        return out
    size = reductions.prod(creation.array(list(s), dtype=out.dtype))
    if norm == "ortho":
        root = ufuncs.sqrt(size)
        return out * (root if is_inverse else 1 / root)
    return out * (size if is_inverse else 1 / size)


def fftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """The discrete Fourier transform of ``a`` along ``axes``, by default all.

    Args:
      s: the sizes to which the axes are cut, or padded with zeros, before.
      norm: which direction divides by the number of elements: 'backward' (the default), 'forward', or 'ortho', both by
        its root.

    Returns complex numbers. Raises ValueError for sizes and axes that do not fit.
    """
    return _transformed("fftn", FFT, a, s, axes, norm)


def ifftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """The inverse of ``fftn``."""
    return _transformed("ifftn", IFFT, a, s, axes, norm)


def rfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """``fftn`` of real numbers, without the half of the last axis that follows from the other."""
    return _transformed("rfftn", RFFT, a, s, axes, norm)


def irfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """The inverse of ``rfftn``; the last axis has 2 (n - 1) numbers, or as ``s`` says."""
    return _transformed("irfftn", IRFFT, a, s, axes, norm)


# --------------------------------------------------------------------------------- two axes and one


def _two(name: str, kind: lax.FftType, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    if len(axes) != 2:
        raise ValueError(f"jnp.fft.{name} only supports 2 axes. Got axes = {axes!r}.")
    return _transformed(name, kind, a, s, axes, norm)


def fft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """``fftn`` along two axes."""
    return _two("fft2", FFT, a, s, axes, norm)


def ifft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """``ifftn`` along two axes."""
    return _two("ifft2", IFFT, a, s, axes, norm)


def rfft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """``rfftn`` along two axes."""
    return _two("rfft2", RFFT, a, s, axes, norm)


def irfft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """``irfftn`` along two axes."""
    return _two("irfft2", IRFFT, a, s, axes, norm)


def _check_one_axis(name: str, axis: Any) -> None:
    if isinstance(axis, (list, tuple)):
        raise ValueError(
            f"jnp.fft.{name} does not support multiple axes. Please use jnp.fft.{name}n. Got axis = {axis!r}."
        )


def _size_along(name: str, a: Any, axis: Any) -> int:
    _check_one_axis(name, axis)
    return int(a.shape[canonical_axis(axis, a.ndim)])


def _one(name: str, kind: lax.FftType, a: Any, n: Any, axis: Any, norm: Any) -> Any:
    _check_one_axis(name, axis)
    return _transformed(name, kind, a, None if n is None else (n,), None if axis is None else (axis,), norm)


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """``fftn`` along one axis, cut or padded to ``n``."""
    return _one("fft", FFT, a, n, axis, norm)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """``ifftn`` along one axis, cut or padded to ``n``."""
    return _one("ifft", IFFT, a, n, axis, norm)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """``rfftn`` along one axis, cut or padded to ``n``."""
    return _one("rfft", RFFT, a, n, axis, norm)


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """``irfftn`` along one axis, which gets ``n`` numbers."""
    return _one("irfft", IRFFT, a, n, axis, norm)


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The transform, which is real, of what is its own mirror image conjugated; ``a`` is half of that."""
    a = ensure("jnp.fft.hfft", a)
    conjugated = lax.conj(a) if dtypes.is_complex(a.dtype) else a
    scale = 2 * (_size_along("hfft", a, axis) - 1) if n is None else n
    return _one("hfft", IRFFT, conjugated, n, axis, norm) * scale


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of ``hfft``."""
    a = ensure("jnp.fft.ihfft", a)
    size = _size_along("ihfft", a, axis) if n is None else n
    return lax.conj(_one("ihfft", RFFT, a, n, axis, norm)) * (1 / size)


# --------------------------------------------------------------------------------- frequencies


def _frequency_dtype(name: str, dtype: Any) -> np.dtype:
    return dtypes.default_dtype("f", x64_enabled()) if dtype is None else user_dtype(dtype, name)


def _frequencies(name: str, n: Any, d: Any, dtype: np.dtype, make: Callable[[int, Any], Any]) -> Any:
    if isinstance(n, (list, tuple)):
        raise ValueError(f"The n argument of jnp.fft.{name} only takes an int. Got n = {list(n)}.")
    if isinstance(d, (list, tuple)):
        raise ValueError(f"The d argument of jnp.fft.{name} only takes a single value. Got d = {list(d)}.")
    return make(n, dtype) / creation.array(d * n, dtype=dtype)


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of ``fft``'s ``n`` results, for samples ``d`` apart: those from 0 up, then negative ones."""

    def signed(n: int, dtype: Any) -> Any:
        counts = creation.arange(n, dtype=dtype)
        return mathematics.remainder(counts + n // 2, n) - n // 2

    wanted = _frequency_dtype("fftfreq", dtype)
    # whatever they are returned as, they are computed as real numbers
    return convert(_frequencies("fftfreq", n, d, dtypes.real_dtype(dtypes.to_inexact_dtype(wanted)), signed), wanted)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of ``rfft``'s results for ``n`` samples ``d`` apart."""
    dtype = _frequency_dtype("rfftfreq", dtype)
    return _frequencies("rfftfreq", n, d, dtype, lambda n, dtype: creation.arange(n // 2 + 1, dtype=dtype))


def _shifted(name: str, x: Any, axes: Any, sign: int) -> Any:
    x = ensure(f"jnp.fft.{name}", x)
    if axes is None:
        axes = tuple(range(x.ndim))
    if isinstance(axes, int):
        half = x.shape[axes] // 2
        return manipulation.roll(x, half if sign > 0 else -half, axes)
    halves = [x.shape[d] // 2 for d in axes]
    return manipulation.roll(x, tuple(n if sign > 0 else -n for n in halves), tuple(axes))


def fftshift(x: Any, axes: Any = None) -> Any:
    """``x`` with frequency 0, which is first, in the middle of ``axes`` (by default all)."""
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of ``fftshift``."""
    return _shifted("ifftshift", x, axes, -1)


__getattr__, __dir__ = borrowing(globals())
