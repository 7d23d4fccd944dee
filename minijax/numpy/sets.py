"""Arrays as sets: their distinct elements, membership, and what two of them have in common."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.numpy import reductions, ufuncs
from minijax.numpy.creation import full, ones, zeros
from minijax.numpy.index_update import IndexUpdate
from minijax.numpy.manipulation import append, concatenate, diff, moveaxis, ravel, reshape
from minijax.numpy.partitions import lexsort
from minijax.numpy.promotion import (
    BOOL,
    canonical_axis,
    choose,
    const,
    convert,
    ensure,
    promote_dtypes,
    static,
    typed_scalar,
)
from minijax.numpy.searching import default_int, nonzero, searchsorted
from minijax.numpy.ufuncs import isnan

__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

ISIN_METHODS = ("auto", "compare_all", "binary_search", "sort")


class _UniqueAllResult(NamedTuple):
    """What ``unique_all`` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class _UniqueCountsResult(NamedTuple):
    """What ``unique_counts`` returns."""

    values: Any
    counts: Any


class _UniqueInverseResult(NamedTuple):
    """What ``unique_inverse`` returns."""

    values: Any
    inverse_indices: Any


def _needs_size(name: str, x: Any) -> None:
    """ConcretizationTypeError, saying what helps, for an argument whose values decide the shape of the result."""
    static(
        x,
        f"The error arose for an argument of jnp.{name}(). To make jnp.{name}() compatible with JIT and other "
        "transforms, you can specify a concrete value for the size argument, which will determine the output size.",
        np.asarray,
    )


# ------------------------------------------------------------------------------------------------ distinct elements


@inner_jit(static_argnames=("axis", "equal_nan"))
def _unique_sorted_mask(ar: Any, axis: int, equal_nan: bool = True) -> tuple[Any, Any, Any]:
    """The slices of ``ar`` along ``axis`` sorted, which of them differ from the one before, and their old places."""
    slices = moveaxis(ar, axis, 0)
    if dtypes.is_complex(ar.aval.dtype):
        slices = choose(isnan(slices), const(slices, math.nan), slices)  # of one kind, so that they are neighbours
    count, *rest = slices.aval.shape
    if not ar.aval.size:
        return slices, ones(count, bool), zeros(count, default_int())
    rows = reshape(slices, (count, math.prod(rest)))
    order = lexsort(rows.T[::-1])
    slices = slices[order]
    first = ones(count, bool)
    after, before = slices[1:], slices[:-1]
    differ = ufuncs.not_equal(after, before)
    if equal_nan and dtypes.is_inexact(ar.aval.dtype):
        differ = ufuncs.logical_and(differ, ufuncs.logical_not(ufuncs.logical_and(isnan(after), isnan(before))))
    differ = reductions.any(differ, tuple(range(1, slices.aval.ndim)))
    first = IndexUpdate(first)[1:].set(differ)
    return slices, first, order


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements of ``ar``, or its distinct slices along ``axis``, sorted.

    Args:
      ar: an array.
      return_index: whether to return too where each occurs first;
      return_inverse: at which place of the result each element is;
      return_counts: how often each occurs.
      axis: the axis of the slices; None for the elements.
      equal_nan: whether all NaN count as one.
      size: how many to return. Without it, ``ar`` must be known: not under ``jit``.
      fill_value: what is returned where there are fewer, by default the smallest.
      sorted: they are sorted in any case.

    Raises:
      ConcretizationTypeError: ``ar`` is traced and no ``size`` is given.
    """
    ar = ensure("unique", ar)
    if size is None:
        _needs_size("unique", ar)
    else:
        size = static(size, "The size argument of jnp.unique must be static.")
    shape = ar.aval.shape
    flat = axis is None
    if axis is None:
        ar, axis = ravel(ar), 0
    axis = canonical_axis(static(axis, "axis argument of jnp.unique()"), ar.aval.ndim)
    slices, first, order = _unique_sorted_mask(ar, axis, equal_nan)
    if not first.aval.size:
        if size and fill_value is None:
            raise ValueError("jnp.unique: nothing is there to fill the result with: give a fill_value.")
        places: Any = zeros(size or 0, default_int())
        found = full((size or 0, *slices.aval.shape[1:]), 0 if fill_value is None else fill_value, ar.aval.dtype)
    else:
        (places,) = nonzero(first, size=size)
        found = slices[places]
        if fill_value is not None and size is not None:
            found = _filled(found, first, size, fill_value)
    result: list[Any] = [moveaxis(found, 0, axis)]
    if return_index:
        result.append(order[places] if first.aval.size else places)
    if return_inverse:
        ranks = reductions.cumsum(first) - 1
        inverse = IndexUpdate(zeros(order.aval.shape, order.aval.dtype))[order].set(ranks)
        result.append(reshape(inverse, shape) if flat else inverse)
    if return_counts:
        result.append(_counts(first, size))
    return result[0] if len(result) == 1 else tuple(result)


def _filled(found: Any, first: Any, size: int, fill_value: Any) -> Any:
    """``found`` with ``fill_value`` behind as many slices as there are distinct ones."""
    valid = lax.iota(default_int(), size) < reductions.sum(first)
    valid = lax.expand_dims(valid, tuple(range(1, found.aval.ndim))) if found.aval.ndim > 1 else valid
    return choose(valid, found, convert(fill_value, found.aval.dtype))


def _counts(first: Any, size: int | None) -> Any:
    total = first.aval.size
    if not total:
        return zeros(size or 0, default_int())
    if size is None:
        return diff(append(nonzero(first)[0], total))
    (places,) = nonzero(first, size=size + 1)
    return diff(IndexUpdate(places)[1:].set(choose(places[1:], places[1:], total)))


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> _UniqueAllResult:
    """The distinct elements, where each occurs first, where each element is among them, how often; see ``unique``."""
    return _UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> _UniqueCountsResult:
    """The distinct elements and how often each occurs; see ``unique``."""
    return _UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> _UniqueInverseResult:
    """The distinct elements and where each element is among them; see ``unique``."""
    return _UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements; see ``unique``."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# ------------------------------------------------------------------------------------------------ membership


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, method: str = "auto"
) -> Any:
    """Whether each element of ``element`` is one of ``test_elements``; or is not, with ``invert``.

    ``method``: 'compare_all' (as 'auto' does), 'binary_search' or 'sort'. ValueError for another.
    """
    element, test_elements = ensure("isin", element, test_elements)
    found = _in1d(element, test_elements, invert=invert, method=method, assume_unique=assume_unique)
    return reshape(found, element.aval.shape) if found.aval.shape != element.aval.shape else found


@inner_jit(static_argnames=("invert", "method", "assume_unique"))
def _in1d(a: Any, b: Any, invert: bool, method: str = "auto", assume_unique: bool = False) -> Any:
    a, b = promote_dtypes(*ensure("isin", a, b))
    a, b = ravel(a) if a.aval.ndim != 1 else a, ravel(b) if b.aval.ndim != 1 else b
    if not a.aval.size or not b.aval.size:
        return full(a.aval.shape, invert, bool)
    if method not in ISIN_METHODS:
        raise ValueError(f"Unrecognized method={method!r}. Must be one of {', '.join(ISIN_METHODS)}.")
    if method in ("auto", "compare_all"):
        left, right = lax.expand_dims(a, (1,)), lax.expand_dims(b, (0,))
        if invert:
            return reductions.all(ufuncs.not_equal(left, right), -1)
        return reductions.any(ufuncs.equal(left, right), -1)
    if method == "binary_search":
        b = lax.sort(b, 0)
        places = searchsorted(b, a)
        return (ufuncs.not_equal if invert else ufuncs.equal)(a, b[places])
    return _in1d_by_sorting(a, b, invert, assume_unique)


def _in1d_by_sorting(a: Any, b: Any, invert: bool, assume_unique: bool) -> Any:
    """Both sorted together: an element of ``a`` that is in ``b`` is followed by its like."""
    inverse: Any = None
    if not assume_unique:
        a, inverse = unique(a, return_inverse=True, size=a.aval.size, fill_value=reductions.max(b))
    both, order = lax.sort_key_val(concatenate([a, b]), lax.iota(default_int(), a.aval.size + b.aval.size))
    out = full(a.aval.shape, invert, bool)
    places = order[:-1]
    followed = (ufuncs.not_equal if invert else ufuncs.equal)(both[1:], both[:-1])
    out = IndexUpdate(out)[places].set(followed)
    return out if assume_unique else out[inverse]


# ------------------------------------------------------------------------------------------------ two sets


def _two_sets(name: str, ar1: Any, ar2: Any, size: int | None, promoted: bool = True) -> tuple[Any, Any, int | None]:
    arrays = ensure(name, ar1, ar2)
    ar1, ar2 = (ravel(x) if x.aval.ndim != 1 else x for x in (promote_dtypes(*arrays) if promoted else arrays))
    if size is not None:
        return ar1, ar2, static(size, f"The size argument of jnp.{name} must be static.")
    _needs_size(name, ar1)
    _needs_size(name, ar2)
    return ar1, ar2, None


def _together(ar1: Any, ar2: Any, assume_unique: bool) -> tuple[Any, Any, Any]:
    """The distinct elements of each, sorted together; which are such; and their places in the two, one behind other."""
    if assume_unique:
        values = concatenate([ar1, ar2])
        valid = ones(values.aval.size, bool)
        places = lax.iota(default_int(), values.aval.size)
    else:
        values1, first1, order1 = _unique_sorted_mask(ar1, 0)
        values2, first2, order2 = _unique_sorted_mask(ar2, 0)
        values, valid = concatenate([values1, values2]), concatenate([first1, first2])
        places = concatenate([order1, order2 + ar1.aval.size])
    # what is no first occurrence comes last; of two that are equal, that of the first array comes first
    _, values, places, valid = lax.sort((ufuncs.logical_not(valid), values, places, valid), 0, True, 2)
    return values, valid, places


def _picked(values: Any, mask: Any, size: int | None, fill_value: Any, default: Any) -> tuple[Any, Any]:
    """``values`` where ``mask`` is true, filled up to ``size``; and their places."""
    if not size:
        (places,) = nonzero(mask, size=size)
        return values[places], places
    enough = lax.iota(default_int(), size) < reductions.sum(mask)
    (places,) = nonzero(mask, size=size)
    fill = default if fill_value is None else convert(fill_value, values.aval.dtype, values.aval.weak_type)
    return choose(enough, values[places], fill), places


def _with_fill(values: Any, size: int | None, fill_value: Any, assume_unique: bool) -> tuple[Any, Any]:
    """``values`` and the ``fill_value`` of the type where the two meet; without a ``size``, as they are."""
    if size is None:
        return values, fill_value
    if fill_value is None or not assume_unique:  # as in JAX, weakly typed elements are weak no more
        values = convert(values, values.aval.dtype)
    return (values, None) if fill_value is None else tuple(promote_dtypes(values, fill_value))


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements that are in both arrays, distinct and sorted.

    Args:
      ar1, ar2: arrays, which are flattened.
      assume_unique: whether the caller says that neither holds an element twice.
      return_indices: whether to return too where each occurs first in the two.
      size: how many to return. Without it, both must be known: not under ``jit``.
      fill_value: what is returned where there are fewer, by default the smallest.
    """
    ar1, ar2, size = _two_sets("intersect1d", ar1, ar2, size)
    values, valid, places = _together(ar1, ar2, assume_unique)
    common = ufuncs.logical_and(ufuncs.equal(values[1:], values[:-1]), valid[1:])
    values, fill_value = _with_fill(values, size, fill_value, assume_unique)
    found, at = _common(values, common, size, fill_value)
    if not return_indices:
        return found
    first, second = places[:-1][at], places[1:][at] - ar1.aval.size
    if size:
        enough = lax.iota(default_int(), size) < reductions.sum(common)
        first, second = choose(enough, first, ar1.aval.size), choose(enough, second, ar2.aval.size)
    return found, first, second


def _common(values: Any, common: Any, size: int | None, fill_value: Any) -> tuple[Any, Any]:
    if not common.aval.size:
        places = zeros(size or 0, default_int())
        return full(size or 0, 0 if fill_value is None else fill_value, values.aval.dtype), places
    return _picked(values[:-1], common, size, fill_value, _smallest(values[:-1], common))


def _smallest(values: Any, mask: Any) -> Any:
    """The first of the sorted ``values`` where ``mask`` is true; 0 if it is nowhere."""
    return choose(reductions.any(mask), values[reductions.argmax(mask)], const(values, 0))


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The elements that are in either array, distinct and sorted; ``size`` is that of ``unique``."""
    ar1, ar2, size = _two_sets("union1d", ar1, ar2, size)
    return unique(concatenate([ar1, ar2]), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """The elements of ``ar1`` that are not in ``ar2``, distinct and sorted; with ``assume_unique`` in their order.

    ``size`` says how many to return; without it, both must be known: not under ``jit``. Where there are fewer,
    ``fill_value`` is returned, by default 0.
    """
    ar1, ar2, size = _two_sets("setdiff1d", ar1, ar2, size, promoted=False)
    if not ar1.aval.size:
        return full(size or 0, 0 if fill_value is None else fill_value, ar1.aval.dtype)
    if assume_unique:
        zero = typed_scalar(0, ar1.aval.dtype, ar1.aval.weak_type)
        return _picked(ar1, _in1d(ar1, ar2, invert=True), size, fill_value, zero)[0]
    values = unique(ar1, size=ar1.aval.size)
    mask = _in1d(values, ar2, invert=True)
    # the smallest one is repeated at the end in place of those that are missing
    distinct = ar1.aval.size + 1 - reductions.sum(ufuncs.equal(values, values[0]))
    mask = choose(lax.iota(default_int(), ar1.aval.size) < distinct, mask, typed_scalar(False, BOOL))
    return _picked(values, mask, size, fill_value, typed_scalar(0, values.aval.dtype, values.aval.weak_type))[0]


def setxor1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """The elements that are in just one of the arrays, distinct and sorted.

    ``size`` is that of ``setdiff1d``; where there are fewer, ``fill_value`` is returned, by default the smallest.
    """
    ar1, ar2, size = _two_sets("setxor1d", ar1, ar2, size)
    values, valid, _ = _together(ar1, ar2, assume_unique)
    given, fill_value = _with_fill(values, size, fill_value, assume_unique)
    if not values.aval.size:
        return full(size or 0, 0 if fill_value is None else fill_value, given.aval.dtype)
    edge = ones(1, bool)
    same = ufuncs.logical_and(ufuncs.equal(values[1:], values[:-1]), valid[1:])
    alone = ufuncs.logical_not(same)
    mask = ufuncs.logical_and(concatenate([edge, alone]), concatenate([alone, edge]))
    mask = ufuncs.logical_and(mask, valid)
    return _picked(given, mask, size, fill_value, _smallest(given, mask))[0]
