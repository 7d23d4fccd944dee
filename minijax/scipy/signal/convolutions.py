"""Convolution and correlation of signals of any number of dimensions, directly or by Fourier transforms."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from minijax import lax
from minijax import numpy as jnp
from minijax.api.batching import vmap
from minijax.core import dtypes
from minijax.numpy.promotion import asarray, canonical_axes, ensure, promote_dtypes
from minijax.numpy.ufuncs import INEXACT

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]

_MODES = ("full", "same", "valid")


def _check_mode(mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {list(_MODES)}, not {mode!r}.")


def _fits(large: Sequence[int], small: Sequence[int]) -> bool:
    """Whether ``small`` lies within ``large`` along every axis."""
    return all(map(operator.ge, large, small))


def _direct(in1: Any, in2: Any, mode: str, precision: Any) -> Any:
    """The convolution by ``conv_general_dilated``, of which the smaller signal is the kernel."""
    _check_mode(mode)
    in1, in2 = asarray(in1), asarray(in2)
    if in1.ndim != in2.ndim:
        raise ValueError(
            f"in1 and in2 must have the same number of dimensions, got shapes {in1.shape} and {in2.shape}."
        )
    if not in1.size or not in2.size:
        raise ValueError(f"zero-size arrays are not convolved, got shapes {in1.shape} and {in2.shape}.")
    in1, in2 = promote_dtypes(in1, in2, to=INEXACT)
    first = in1.shape
    if _fits(in2.shape, first):
        in1, in2 = in2, in1
    elif not _fits(first, in2.shape):
        raise ValueError(f"One input must be smaller than the other in every dimension, got {first} and {in2.shape}.")
    sizes = list(zip(in1.shape, in2.shape, strict=True))
    in2 = jnp.flip(in2)
    if mode == "valid":
        padding = [(0, 0) for _ in sizes]
    elif mode == "full":
        padding = [(n - 1, n - 1) for _, n in sizes]
    else:  # the middle of 'full', as large as the first
        starts = [(m + n - 1 - size) // 2 for (m, n), size in zip(sizes, first, strict=True)]
        padding = [
            (n - 1 - start, size + start - m) for (m, n), size, start in zip(sizes, first, starts, strict=True)
        ]
    strides = (1,) * len(sizes)
    found = lax.conv_general_dilated(in1[None, None], in2[None, None], strides, padding, precision=precision)
    return found[0, 0]


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Any:
    """The sums of ``in1[k] * in2[n - k]`` over the indices k, of two arrays of one rank, as floats.

    Args:
      mode: 'full' for all n where they meet, 'same' for as many as the first one has, 'valid' where the smaller lies
        within the larger.
      method: 'direct' ('auto' is that), or 'fft' for ``fftconvolve``.
      precision: that of products, for the direct method: see ``lax.Precision``.

    ValueError for other words, for different ranks, for empty arrays, and where neither lies within the other.
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode=mode)
    if method not in ("auto", "direct"):
        raise ValueError(f"convolve and correlate: method is 'auto', 'fft', or 'direct', not {method!r}.")
    return _direct(in1, in2, mode, precision)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Any:
    """The sums of ``in1[n + k] * conj(in2[k])`` over the indices k; see ``convolve``."""
    return convolve(in1, jnp.flip(asarray(in2).conj()), mode, method=method, precision=precision)


def _check_plane(name: str, in1: Any, in2: Any, boundary: str, fillvalue: Any) -> tuple[Any, Any]:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(f"{name}() only supports boundary='fill' and fillvalue=0: pad the input before.")
    if jnp.ndim(in1) != 2 or jnp.ndim(in2) != 2:
        raise ValueError(f"{name}() only supports 2-dimensional inputs, got {jnp.ndim(in1)} and {jnp.ndim(in2)}.")
    return asarray(in1), asarray(in2)


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, precision: Any = None
) -> Any:
    """The direct ``convolve`` of two matrices. NotImplementedError but for zeros around them."""
    in1, in2 = _check_plane("convolve2d", in1, in2, boundary, fillvalue)
    return _direct(in1, in2, mode, precision)


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, precision: Any = None
) -> Any:
    """The direct ``correlate`` of two matrices. NotImplementedError but for zeros around them."""
    in1, in2 = _check_plane("correlate2d", in1, in2, boundary, fillvalue)
    _check_mode(mode)
    if in1.shape != in2.shape and _fits(in2.shape, in1.shape) and mode != "same":
        # the second matrix is the one that is not the kernel
        found = _direct(jnp.flip(in2), in1.conj(), mode, precision)
        return found if mode == "valid" else found.conj()
    return jnp.flip(_direct(jnp.flip(in1), in2.conj(), mode, precision))


# -------------------------------------------------------------------------------- by Fourier transforms


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Sequence[int] | int | None = None) -> Any:
    """``convolve`` along ``axes`` (all by default) as the inverse of the product of Fourier transforms.

    ValueError for different ranks, other modes, and different sizes along other axes.
    """
    in1, in2 = promote_dtypes(*ensure("fftconvolve", in1, in2), to=INEXACT)
    if in1.ndim != in2.ndim:
        raise ValueError(f"in1 and in2 should have the same rank, got shapes {in1.shape} and {in2.shape}.")
    _check_mode(mode)
    chosen = canonical_axes(axes, in1.ndim)
    mapped = [i for i in range(in1.ndim) if i not in chosen]
    if any(in1.shape[i] != in2.shape[i] for i in mapped):
        raise ValueError(
            f"along mapped axes sizes must be equal; got in1.shape={in1.shape} in2.shape={in2.shape} axes={axes}"
        )
    function: Callable[..., Any] = functools.partial(_by_transforms, mode=mode)
    for axis in mapped:
        function = vmap(function, axis, axis)
    return function(in1, in2)


def _by_transforms(in1: Any, in2: Any, mode: str) -> Any:
    if mode == "valid" and not _fits(in1.shape, in2.shape):
        if not _fits(in2.shape, in1.shape):
            raise ValueError("For 'valid' mode, one input must be at least as large as the other in every dimension.")
        in1, in2 = in2, in1
    full = tuple(a + b - 1 for a, b in zip(in1.shape, in2.shape, strict=True))
    sizes = {
        "full": full,
        "same": in1.shape,
        "valid": tuple(a - b + 1 for a, b in zip(in1.shape, in2.shape, strict=True)),
    }[mode]
    if dtypes.is_complex(in1.dtype):
        forward, inverse = jnp.fft.fftn, jnp.fft.ifftn
    else:
        forward, inverse = jnp.fft.rfftn, jnp.fft.irfftn
    if full:
        found = inverse(forward(in1, full) * forward(in2, full), full)
    else:
        found = in1 * in2
    starts = tuple((a - b) // 2 for a, b in zip(full, sizes, strict=True))
    return lax.dynamic_slice(found, starts, sizes)
