"""Windows of NumPy arrays: padding as in XLA, and a view with dimensions for windows and for their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.rules import Ints
from minijax.ops.windows.shapes import count, dilated


def _placed(size: int, low: int, high: int, dilation: int) -> tuple[int, slice, slice]:
    """The padded size of a dimension, the slice of the elements that remain, and the slice of their new positions."""
    padded = max(low + dilated(size, dilation) + high, 0)
    first = max(0, -(low // dilation)) if low < 0 else 0
    start = low + first * dilation
    kept = max(0, min(size - first, -(-(padded - start) // dilation)))
    return (
        padded,
        slice(first, first + kept),
        slice(start, start + (kept - 1) * dilation + 1 if kept else start, dilation),
    )


def padded(x: Any, fill: Any, padding: Sequence[tuple[int, int]], dilation: Ints) -> Any:
    """``x`` with ``fill`` around it and between elements, now ``dilation`` apart. Negative padding removes elements."""
    if all(p == (0, 0) for p in padding) and all(d == 1 for d in dilation):
        return x
    places = [
        _placed(size, low, high, step) for size, (low, high), step in zip(x.shape, padding, dilation, strict=True)
    ]
    out = np.full([size for size, _, _ in places], fill, x.dtype)
    out[tuple(to for _, _, to in places)] = x[tuple(which for _, which, _ in places)]
    return out


def windows_of(x: Any, window: Ints, strides: Ints, dilation: Ints) -> Any:
    """A view of ``x`` with twice as many last dimensions: they count windows, then the elements inside a window."""
    lead = x.ndim - len(window)
    counts = [
        count(size, dilated(w, d), s) for size, w, s, d in zip(x.shape[lead:], window, strides, dilation, strict=True)
    ]
    steps = x.strides[lead:]
    moves = [n * s for n, s in zip(steps, strides, strict=True)]
    inside = [n * d for n, d in zip(steps, dilation, strict=True)]
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:lead], *counts, *window), (*x.strides[:lead], *moves, *inside), writeable=False
    )
