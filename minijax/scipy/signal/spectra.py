"""Spectra of signals: Fourier transforms of overlapping segments, and what is made of them."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minijax import lax
from minijax import numpy as jnp
from minijax.api.batching import vmap
from minijax.core import dtypes
from minijax.numpy.promotion import asarray, canonical_axis, promote_dtypes, result_dtype
from minijax.numpy.ufuncs import INEXACT
from minijax.scipy.signal.trends import detrend as _without_trend

__all__ = ["csd", "istft", "stft", "welch"]

_BOUNDARIES = ("even", "odd", "constant", "zeros", None)
# the length of segments where nothing is said
_SEGMENT = 256
# below this, a sum of windows is no divisor
_LEAST_NORM = 1e-10


class _Segments(NamedTuple):
    """How a signal is cut: the window, the number of samples in a segment, in the overlap, and in a transform."""

    window: Any
    size: int
    overlap: int
    fft: int


def _positive(size: Any) -> int:
    size = int(size)
    if size < 1:
        raise ValueError(f"nperseg must be a positive integer, not {size}.")
    return size


def _window(window: Any, size: int, dtype: Any) -> Any:
    """The window that SciPy knows under a name, or with parameters: periodic, of ``size`` samples."""
    if window == "hann" and size != 1:
        return jnp.sin(jnp.linspace(0, jnp.pi, size, endpoint=False, dtype=dtype)) ** 2
    import scipy.signal  # 0.3 s, and only uncommon windows need it

    return np.asarray(scipy.signal.get_window(window, size))


def _sampled(window: Any, size: int | None, length: int, dtype: Any) -> Any:
    """The window as an array: of ``size`` samples, or of ``length``, that of the signal, if it has fewer."""
    if isinstance(window, (str, tuple)):
        size = _SEGMENT if size is None else size
        if size > length:
            warnings.warn(
                f"nperseg={size} is greater than the length of the signal, {length}: nperseg={length} is used.",
                stacklevel=5,
            )
            size = length
        return jnp.array(_window(window, size, dtype), dtype=dtype)
    win = jnp.asarray(window)
    if win.ndim != 1:
        raise ValueError(f"window must be 1-D, not of shape {win.shape}.")
    if size not in (None, win.shape[0]):
        raise ValueError(f"nperseg is {size}, which is different from the length of the window, {win.shape[0]}.")
    return win


def _segments(win: Any, overlap: int | None, fft: int | None) -> _Segments:
    (size,) = win.shape
    overlap = size // 2 if overlap is None else int(overlap)
    if overlap >= size:
        raise ValueError(f"noverlap must be less than nperseg, not {overlap} of {size}.")
    fft = size if fft is None else int(fft)
    if fft < size:
        raise ValueError(f"nfft must be greater than or equal to nperseg, not {fft} for {size}.")
    return _Segments(win, size, overlap, fft)


# -------------------------------------------------------------------------------- what is beyond the ends


def _extended(x: Any, boundary: str, count: int) -> Any:
    """``x`` with ``count`` elements before and after it, along its last axis."""
    if count < 1:
        return x
    widths = [(0, 0)] * (x.ndim - 1) + [(count, count)]
    if boundary == "zeros":
        return jnp.pad(x, widths, "constant", constant_values=0.0)
    if boundary == "constant":
        return jnp.pad(x, widths, "edge")
    if count > x.shape[-1] - 1:
        raise ValueError(
            f"a signal of {x.shape[-1]} elements is too short to be extended by {count}: choose another boundary, or a "
            "smaller nperseg."
        )
    if boundary == "even":
        return jnp.pad(x, widths, "reflect")
    # odd: turned round the value at the end as well
    part, size = functools.partial(lax.slice_in_dim, x, axis=-1), x.shape[-1]
    first, after = part(0, 1), jnp.flip(part(1, count + 1), -1)
    last, before = part(size - 1, size), jnp.flip(part(size - 1 - count, size - 1), -1)
    return jnp.concatenate([2 * first - after, x, 2 * last - before], axis=-1)


# -------------------------------------------------------------------------------- transforms of segments


def _remover(type_of_trend: Any, axis: int) -> Callable[[Any], Any]:
    """The function that takes the trend out of segments, whose samples are along the last axis."""
    if isinstance(type_of_trend, str):
        return functools.partial(_without_trend, type=type_of_trend, axis=-1)
    if callable(type_of_trend):
        return lambda x: jnp.moveaxis(type_of_trend(jnp.moveaxis(x, -1, axis)), axis, -1)
    if type_of_trend:
        raise ValueError(f"detrend is 'constant', 'linear', False or a function, not {type_of_trend!r}.")
    return lambda x: x


def _transform(x: Any, segments: _Segments, remove: Callable[[Any], Any], one_sided: bool) -> Any:
    """The Fourier transform of each segment of the last axis of ``x``: (..., segments, frequencies)."""
    if segments.size == 1 and not segments.overlap:
        cut = x[..., None]
    else:
        starts = jnp.arange(0, x.shape[-1] - segments.size + 1, segments.size - segments.overlap)
        cut = vmap(lambda start: lax.dynamic_slice_in_dim(x, start, segments.size, axis=-1), out_axes=-2)(starts)
    cut = remove(cut)
    windowed = segments.window.reshape((1,) * (cut.ndim - 1) + (-1,)) * cut
    return (jnp.fft.rfft if one_sided else jnp.fft.fft)(windowed, n=segments.fft)


def _outer_shape(x: Any, y: Any, axis: int) -> tuple[int, ...]:
    """What the shapes of ``x`` and ``y`` without ``axis`` are broadcast to."""
    try:
        return jnp.broadcast_shapes(*(z.shape[:axis] + z.shape[axis + 1 :] for z in (x, y)))
    except ValueError as error:
        said = f"x and y cannot be broadcast together: {x.shape} and {y.shape}, but for axis {axis}."
        raise ValueError(said) from error


def _spectra(
    x: Any,
    y: Any,
    fs: Any,
    window: Any,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Any,
    one_sided: bool,
    scaling: str,
    axis: int,
    boundary: str | None = None,
    padded: bool = False,
    amplitudes: bool = False,
) -> tuple[Any, Any, Any]:
    """Frequencies, times, and densities of power, or amplitudes; times are the last axis, frequencies are ``axis``."""
    if boundary not in _BOUNDARIES:
        raise ValueError(f"Unknown boundary option {boundary!r}, must be one of: {list(_BOUNDARIES)}")
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"Unknown scaling: {scaling!r}. It is 'density' or 'spectrum'.")
    if nperseg is not None:
        nperseg = _positive(nperseg)
    x = asarray(x)
    axis = canonical_axis(axis, x.ndim)
    if y is None:
        (x,) = promote_dtypes(x, to=INEXACT)
        outer, sizes = x.shape[:axis] + x.shape[axis + 1 :], [x.shape[axis]]
    else:
        x, y = promote_dtypes(x, y, to=INEXACT)
        if x.ndim != y.ndim:
            raise ValueError(f"two arguments must have the same rank, got shapes {x.shape} and {y.shape}.")
        outer, sizes = _outer_shape(x, y, axis), [x.shape[axis], y.shape[axis]]
    real = dtypes.real_dtype(x.dtype)
    complex_type = result_dtype(x, 1j)[0]
    win = _sampled(window, nperseg, sizes[0], real)
    if not x.size or y is not None and not y.size:
        shape = (*outer[:axis], min(sizes), *outer[axis:])
        return jnp.zeros(shape, real), jnp.zeros(shape, real), jnp.zeros(shape, complex_type)
    win = win.astype(x.dtype)
    segments = _segments(win, noverlap, nfft)
    x = jnp.moveaxis(x, axis, -1)
    if y is not None:
        y = jnp.moveaxis(y, axis, -1)
        x, y = _lengthened(x, max(sizes)), _lengthened(y, max(sizes))
    if boundary is not None:
        x = _extended(x, boundary, segments.size // 2)
        y = None if y is None else _extended(y, boundary, segments.size // 2)
    step = segments.size - segments.overlap
    if padded:
        missing = (-(x.shape[-1] - segments.size) % step) % segments.size
        x = jnp.concatenate([x, jnp.zeros((*x.shape[:-1], missing), x.dtype)], axis=-1)
    scale = 1.0 / win.sum() ** 2 if scaling == "spectrum" else 1.0 / (fs * (win * win).sum())
    scale = (jnp.sqrt(scale) if amplitudes else scale).astype(complex_type)
    if one_sided and dtypes.is_complex(x.dtype):
        warnings.warn("The signal is complex: return_onesided=False is used.", stacklevel=3)
        one_sided = False
    frequencies = (jnp.fft.rfftfreq if one_sided else jnp.fft.fftfreq)(segments.fft, 1 / fs)
    remove = _remover(detrend, axis)
    found = _transform(x, segments, remove, one_sided)
    if not amplitudes:
        other = found if y is None else _transform(y, segments, remove, one_sided)
        found = found.conj() * other
    found = found * scale
    if one_sided and not amplitudes:
        # what is left out at negative frequencies; neither zero nor, of an even number, the highest has a double
        found = found.at[..., 1 : -1 if segments.fft % 2 == 0 else None].mul(2)
    half = segments.size / 2
    times = jnp.arange(half, x.shape[-1] - half + 1, step) / fs
    if boundary is not None:
        times = times - half / fs
    if y is None and not amplitudes:
        found = found.real
    return frequencies, times, jnp.moveaxis(found, -1, axis)


def _lengthened(x: Any, length: int) -> Any:
    """``x`` with zeros after it, along the last axis."""
    missing = length - x.shape[-1]
    return jnp.concatenate([x, jnp.zeros((*x.shape[:-1], missing), x.dtype)], axis=-1) if missing else x


def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Any, Any, Any]:
    """The Fourier transforms of windowed segments of ``x``: frequencies, times, and amplitudes.

    Args:
      fs: the number of samples in a unit of time.
      window: an array, or the name of a window of SciPy's, or name and parameters.
      nperseg, noverlap: the number of samples in a segment, and of those that it has in common with the next.
      nfft: that of a transform, filled up with zeros.
      detrend: 'constant' or 'linear', or a function of segments: see ``detrend``.
      return_onesided: without negative frequencies, if ``x`` is real.
      boundary: how ``x`` goes on beyond its ends: 'even', 'odd', 'constant', 'zeros', or None: it does not.
      padded: with zeros after it, so that segments reach its end.

    Returns:
      frequencies; times of the middles of segments; amplitudes, with frequencies for ``axis``, and times last.

    ValueError for numbers that do not fit together, and other words.
    """
    return _spectra(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        "spectrum",
        axis,
        boundary=boundary,
        padded=padded,
        amplitudes=True,
    )


def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The density of the common power of ``x`` and ``y`` by Welch's method: frequencies, and the density there.

    The products of the transforms of segments (see ``stft``) are averaged: their mean, or their median without bias.
    ``y`` of None is ``x``, and the density real. ``scaling`` is 'density', or 'spectrum' for powers. Welch 1967, "The
    use of the fast Fourier transform for the estimation of power spectra".
    """
    given = x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis
    frequencies, _, found = _spectra(*given)
    if y is not None:
        found = found + 0j
    if found.ndim < 2 or not found.size:
        return frequencies, found
    if found.shape[-1] == 1:
        return frequencies, found.reshape(found.shape[:-1])
    if average == "mean":
        return frequencies, found.mean(axis=-1)
    if average != "median":
        raise ValueError(f"average is 'median' or 'mean', not {average!r}.")
    bias = _median_bias(found.shape[-1]).astype(found.dtype)
    if dtypes.is_complex(found.dtype):
        middle = jnp.median(found.real, axis=-1) + 1j * jnp.median(found.imag, axis=-1)
    else:
        middle = jnp.median(found, axis=-1)
    return frequencies, middle / bias


def _median_bias(count: int) -> Any:
    """The expected median of ``count`` independent powers of mean 1 (Allen et al. 2012, "FINDCHIRP", appendix B)."""
    even = jnp.arange(2.0, count, 2)
    return 1 + (1.0 / (even + 1) - 1.0 / even).sum()


def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The density of the power of ``x`` by Welch's method: see ``csd``."""
    given = fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    frequencies, found = csd(x, None, *given)
    return frequencies, found.real


# -------------------------------------------------------------------------------- back from segments


def _added_up(x: Any, step: int) -> Any:
    """The sum of segments (..., samples, segments), each shifted by ``step`` from the one before."""
    x = jnp.swapaxes(x, -2, -1)
    *batch, count, size = x.shape
    batches = math.prod(batch)
    x = x.reshape(batches, count, size)
    # a segment is cut into parts of a step; the sum takes the k-th part of the i-th segment to place k + i
    parts = -(-size // step)
    x = jnp.pad(x, ((0, 0), (0, 0), (0, parts * step - size)))
    x = x.reshape(batches, count, parts, step).transpose(0, 2, 1, 3)
    x = jnp.pad(x, ((0, 0), (0, 0), (0, count), (0, 0)))
    # rows that are one step shorter than they were shift each by a step from the one before
    row = (2 * count - 1) * step
    x = x.reshape(batches, -1)[:, : parts * row].reshape(batches, parts, row).sum(1)
    return x[:, : size + step * (count - 1)].reshape(*batch, -1)


def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Any, Any]:
    """The signal of which ``stft`` gives ``Zxx``: times, and the signal; what ``stft`` says of parameters holds.

    Args:
      input_onesided: ``Zxx`` has no negative frequencies.
      boundary: the signal was extended beyond its ends.
    """
    (Zxx,) = promote_dtypes(Zxx, to=dtypes.to_complex_dtype)
    if Zxx.ndim < 2:
        raise ValueError(f"istft: the transforms of segments have two axes at least, not the shape {Zxx.shape}.")
    time, freq = canonical_axis(time_axis, Zxx.ndim), canonical_axis(freq_axis, Zxx.ndim)
    if time == freq:
        raise ValueError(f"istft: times and frequencies are different axes, not both axis {time}.")
    count = Zxx.shape[time]
    usual = 2 * (Zxx.shape[freq] - 1) if input_onesided else Zxx.shape[freq]
    size = _positive(nperseg) if nperseg else usual
    if nfft is None and input_onesided and size == usual + 1:  # of an odd number of samples
        nfft = size
    if (usual if nfft is None else nfft) < size:
        raise ValueError(f"FFT length ({usual if nfft is None else nfft}) must be longer than nperseg ({size}).")
    overlap = size // 2 if noverlap is None else int(noverlap)
    if overlap >= size:
        raise ValueError(f"noverlap must be less than nperseg, not {overlap} of {size}.")
    rest = [i for i in range(Zxx.ndim) if i not in (time, freq)]
    Zxx = jnp.transpose(Zxx, (*rest, freq, time)) if [*rest, freq, time] != [*range(Zxx.ndim)] else Zxx
    pieces = (jnp.fft.irfft if input_onesided else jnp.fft.ifft)(Zxx, axis=-2, n=nfft)[..., :size, :]
    win = _window_of(window, size).astype(pieces.dtype)
    pieces = pieces * win.sum()
    win = jnp.expand_dims(win, (*range(Zxx.ndim - 2), -1))
    step = size - overlap
    x = _added_up(pieces * win, step)
    norm = _added_up(jnp.repeat(win * win, count, -1), step)
    if boundary:
        inner = slice(size // 2, -(size // 2))
        x, norm = x[..., inner], norm[..., inner]
    x = x / jnp.where(norm > _LEAST_NORM, norm, 1.0)
    if x.ndim > 1 and time != Zxx.ndim - 1:
        x = jnp.moveaxis(x, -1, time - (freq < time))
    return jnp.arange(x.shape[0], dtype=np.finfo(x.dtype).dtype) / fs, x


def _window_of(window: Any, size: int) -> Any:
    if isinstance(window, (str, tuple)):
        return jnp.asarray(_window(window, size, None))
    win = jnp.asarray(window)
    if win.ndim != 1:
        raise ValueError(f"window must be 1-D, not of shape {win.shape}.")
    if win.shape[0] != size:
        raise ValueError(f"window must have length of {size}, not {win.shape[0]}.")
    return win
