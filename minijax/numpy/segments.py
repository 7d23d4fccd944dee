"""``minijax.ops.segment_sum`` and its like: elements that belong together, by their numbers, made one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.numpy import creation, reductions
from minijax.numpy.mathematics import floor_divide
from minijax.numpy.promotion import ensure, static
from minijax.ops.shape import meant_sharding


def _joined(
    name: str,
    method: str,
    identity: Callable[[np.dtype], Any],
    reduce: Callable[..., Any],
    data: Any,
    segment_ids: Any,
    num_segments: Any,
    bucket_size: int | None,
    options: dict[str, Any],
) -> Any:
    data, segment_ids = ensure(name, data, segment_ids)
    dtype, size = data.aval.dtype, segment_ids.aval.size
    if num_segments is None:
        num_segments = reductions.max(segment_ids) + 1
    count = static(num_segments, f"{name}() `num_segments` argument.")
    if count < 0:
        raise ValueError(f"{name}: num_segments must be non-negative, got {count}.")
    # a negative number belongs to no segment: it is dropped, not counted from the end
    options["wrap_negative_indices"] = False
    start: Any = identity(dtype)
    if bucket_size is None:
        empty = creation.full((count, *data.aval.shape[1:]), start, dtype)
        return getattr(empty.at[segment_ids], method)(data, **options)
    if options["out_sharding"] is not None:
        raise NotImplementedError(f"{name}: out_sharding is not taken with bucket_size. Leave one of them out.")
    buckets = -(-size // bucket_size)
    empty = creation.full((buckets, count, *data.aval.shape[1:]), start, dtype)
    bucket = floor_divide(creation.arange(size), bucket_size)
    parts = getattr(empty.at[bucket, segment_ids[None, :]], method)(data, **options)
    return reduce(parts, axis=0).astype(dtype)


def _segment(
    name: str, method: str, identity: Callable[[np.dtype], Any], reduce: Callable[..., Any], what: str
) -> Callable[..., Any]:
    def segment(
        data: Any,
        segment_ids: Any,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
        out_sharding: Any = None,
    ) -> Any:
        options = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices, "mode": mode}
        options["out_sharding"] = None if out_sharding is None else meant_sharding(out_sharding, name)
        return _joined(name, method, identity, reduce, data, segment_ids, num_segments, bucket_size, options)

    segment.__name__ = segment.__qualname__ = name
    segment.__doc__ = f"""{what} of the elements of ``data`` whose number in ``segment_ids`` is 0, 1, ... in order.

    Args:
      data: elements along the first axis.
      segment_ids: to which segment each belongs, integers; those out of range are dropped, unless ``mode`` (as of
        ``x.at``) says otherwise.
      num_segments: how many segments there are, by default one more than the greatest number. Under ``jit`` it must be
        given.
      indices_are_sorted, unique_indices: what is known of ``segment_ids``.
      out_sharding: how the result lies over a mesh with explicit axes.
      bucket_size: how many elements are joined at a time, by default all: less is more precise.

    Raises ValueError for a negative ``num_segments``, ConcretizationTypeError where it is not known.
    """
    return segment


segment_sum = _segment("segment_sum", "add", lambda dtype: 0, reductions.sum, "The sums")
segment_prod = _segment("segment_prod", "multiply", lambda dtype: 1, reductions.prod, "The products")
segment_min = _segment("segment_min", "min", dtypes.max_value, reductions.min, "The least")
segment_max = _segment("segment_max", "max", dtypes.min_value, reductions.max, "The greatest")
