"""Histograms: how many elements lie between each two edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.core import dtypes
from minijax.numpy import reductions, ufuncs
from minijax.numpy.creation import array, asarray, linspace, ones_like, zeros
from minijax.numpy.index_update import IndexUpdate
from minijax.numpy.manipulation import diff, ravel
from minijax.numpy.promotion import check_array_like, choose, convert, ensure, promote_dtypes
from minijax.numpy.searching import bincount, ravel_multi_index, searchsorted
from minijax.numpy.ufuncs import INEXACT

__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of ``bins`` bins of one width, from the least element to the greatest, or over ``range``.

    ``bins`` may be the edges themselves. NotImplementedError for names of rules.
    """
    del weights  # only NumPy's rules with names use them
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` are not implemented: give their number, or their edges.")
    check_array_like("histogram_bin_edges", a, bins)
    a = ravel(ensure("histogram_bin_edges", a))
    dtype = dtypes.to_inexact_dtype(a.aval.dtype)
    if np.ndim(bins) == 1:
        return asarray(bins, dtype=dtype)
    count = int(bins)
    if range is None:
        ends = array([0.0, 1.0]) if not a.aval.size else array([reductions.min(a), reductions.max(a)])
    else:
        ends = asarray(range, dtype=dtype)
    if ends.aval.shape != (2,):
        raise ValueError(f"`range` must be either None or a sequence of scalars, got {range}")
    ends = asarray(ends, dtype=dtype)
    low = choose(ufuncs.equal(reductions.ptp(ends), 0), ends[0] - 0.5, ends[0])
    high = choose(ufuncs.equal(reductions.ptp(ends), 0), ends[1] + 0.5, ends[1])
    return linspace(low, high, count + 1, dtype=dtype)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, Any]:
    """How many elements lie in each bin, and the edges of the bins; see ``histogram_bin_edges``.

    Args:
      a: an array, which is flattened.
      bins, range: the bins. The last one has both its edges, the others their lower one.
      weights: what each element counts.
      density: whether to return the density instead: the integral over all bins is 1.
    """
    if weights is None:
        (a,) = promote_dtypes(ensure("histogram", a), to=INEXACT)
        a = ravel(a)
        weights = ones_like(a)
    else:
        check_array_like("histogram", a, weights)
        if np.shape(a) != np.shape(weights):
            raise ValueError("weights should have the same shape as a.")
        a, weights = (ravel(x) for x in promote_dtypes(*ensure("histogram", a, weights), to=INEXACT))
    edges = histogram_bin_edges(a, bins, range, weights)
    places = searchsorted(edges, a, side="right")
    places = choose(ufuncs.equal(a, edges[-1]), edges.aval.shape[0] - 1, places)
    counts = IndexUpdate(zeros(edges.aval.shape[0], weights.aval.dtype))[places].add(weights)[1:]
    if density:
        counts = counts / diff(edges) / reductions.sum(counts)
    return counts, edges


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, Any, Any]:
    """How many of the points ``(x, y)`` lie in each bin, and the edges for the two axes; see ``histogramdd``."""
    x, y = ensure("histogram2d", x, y)
    if isinstance(bins, (tuple, list)) and len(bins) not in (1, 2) or np.ndim(bins) == 1 and len(bins) not in (1, 2):
        bins = [asarray(bins), asarray(bins)]
    counts, edges = histogramdd(array([x, y]).T, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, list[Any]]:
    """How many of the points that are the rows of ``sample`` lie in each bin, and the edges for each axis.

    Args:
      sample: a matrix.
      bins: their number, or their edges; for all axes, or a sequence with one for each.
      range: a sequence of (low, high) for each axis.
      weights: what each point counts.
      density: whether to return the density instead.

    Raises:
      ValueError: other numbers of bins, ranges or weights than of axes and points.
    """
    if weights is None:
        (points,) = promote_dtypes(_points(sample), to=INEXACT)
    else:
        points, weights = promote_dtypes(_points(sample), ensure("histogramdd", weights), to=INEXACT)
    count, axes = points.aval.shape
    if weights is not None and weights.aval.shape != (count,):
        raise ValueError("should have one weight for each sample.")
    if range is not None and (len(range) != axes or any(r is not None and len(r) != 2 for r in range)):
        raise ValueError(
            "For sample.shape=(N, D), range must be a sequence of D pairs or Nones; "
            f"got range={range} for sample.shape={points.aval.shape}."
        )
    if not isinstance(bins, (tuple, list)) and not np.ndim(bins):
        bins = [bins] * axes
    elif len(bins) != axes:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample.")
    all_edges, places = [], []
    for d, each in enumerate(bins):
        edges = histogram_bin_edges(points[:, d], each, None if range is None else range[d], weights)
        all_edges.append(edges)
        place = searchsorted(edges, points[:, d], side="right")
        places.append(choose(ufuncs.equal(points[:, d], edges[-1]), place - 1, place))
    widths = [diff(edges) for edges in all_edges]
    sizes = [edges.aval.shape[0] + 1 for edges in all_edges]  # with what is outside, at both ends
    flat = ravel_multi_index(tuple(places), tuple(sizes), mode="clip")
    counts = bincount(flat, weights, length=math.prod(sizes)).reshape(sizes)
    counts = counts[(slice(1, -1),) * axes]
    if density:
        counts = _density(convert(counts, points.aval.dtype), widths)
    return counts, all_edges


def _points(sample: Any) -> Any:
    points = ensure("histogramdd", sample)
    if points.aval.ndim != 2:
        raise ValueError(f"histogramdd: sample is to be a matrix, a point in each row; got {points.aval.str_short()}")
    return points


def _density(counts: Any, widths: Sequence[Any]) -> Any:
    counts = counts / reductions.sum(counts)
    axes = range(len(widths))
    for width in [lax.expand_dims(w, tuple(i for i in axes if i != d)) for d, w in enumerate(widths)]:
        counts = counts / width
    return counts
