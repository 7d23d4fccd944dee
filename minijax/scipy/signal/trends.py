"""Trends of signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax import numpy as jnp
from minijax.lax import Precision
from minijax.numpy.promotion import promote
from minijax.numpy.ufuncs import INEXACT

__all__ = ["detrend"]


def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: int | Sequence[int] = 0, overwrite_data: None = None
) -> Any:
    """``data`` without its trend along ``axis``: the mean, or a line of least squares for each part.

    Args:
      type: 'linear' or 'constant'.
      bp: where parts of a linear trend begin, besides the first; each has a line of its own.

    ValueError for another type, and for a part that begins beyond the data; NotImplementedError for ``overwrite_data``.
    """
    if overwrite_data is not None:
        raise NotImplementedError("detrend: overwrite_data is not implemented, arrays are immutable. Leave it out.")
    if type not in ("constant", "linear"):
        raise ValueError(f"Trend type must be 'linear' or 'constant', not {type!r}.")
    (data,) = promote("detrend", data, to=INEXACT)
    if type == "constant":
        return data - data.mean(axis, keepdims=True)
    shape, dtype = data.shape, data.dtype
    size = shape[axis]
    starts = np.sort(np.unique(np.r_[0, bp, size]))
    if starts[0] < 0 or starts[-1] > size:
        raise ValueError(f"detrend: the parts of {size} elements begin at {bp}: at 0 or later, and before the end.")
    data = jnp.moveaxis(data, axis, 0)
    moved = data.shape
    data = data.reshape(size, -1)
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        count = stop - start
        line = [jnp.ones(count, dtype), jnp.arange(1, count + 1, dtype=dtype) / count]
        columns = jnp.vstack(line).T
        found, *_ = jnp.linalg.lstsq(columns, data[start:stop])
        data = data.at[start:stop].add(-jnp.matmul(columns, found, precision=Precision.HIGHEST))
    return jnp.moveaxis(data.reshape(moved), 0, axis)
