"""``pad``: elements added at both ends of the axes of an array, in all of NumPy's modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.numpy import creation, functional, manipulation, mathematics, reductions, statistics
from minijax.numpy.indexing import rewrite_index
from minijax.numpy.promotion import broadcast_to, convert, ensure

__all__ = ["pad"]

Widths = tuple[tuple[Any, Any], ...]

# the options of each mode
_OPTIONS: dict[str, str] = {
    "constant": "constant_values",
    "edge": "",
    "empty": "",
    "linear_ramp": "end_values",
    "maximum": "stat_length",
    "mean": "stat_length",
    "median": "stat_length",
    "minimum": "stat_length",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "wrap": "",
}


def pad(array: Any, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Any:
    """``array`` with elements added at both ends of each axis.

    Args:
      array: the array.
      pad_width: how many: a number, a pair for all axes, a pair per axis, or a dictionary from axes to these.
      mode: 'constant' (with ``constant_values``), 'edge', 'empty', 'linear_ramp' (to ``end_values``), 'maximum',
        'mean', 'median', 'minimum' (of ``stat_length`` elements), 'reflect', 'symmetric' (``reflect_type`` 'even' or
        'odd'), 'wrap', or a function ``(vector, widths, axis, kwargs) -> vector`` of the zero-padded vectors.

    Raises:
      TypeError, ValueError: widths that are no integers, negative, or do not fit; an option of another mode.
      NotImplementedError: an unknown mode.
    """
    array = ensure("pad", array)
    ndim = array.aval.ndim
    if isinstance(pad_width, dict):
        pad_width = _by_axis(pad_width, ndim)
    widths = _pairs(pad_width, ndim, "pad_width")
    if not all(isinstance(w, int) for pair in widths for w in pair):
        raise TypeError("`pad_width` must be of integral type.")
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    if callable(mode):
        return _pad_by_function(array, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise NotImplementedError(f"Unimplemented padding mode '{mode}' for np.pad.")
    if set(kwargs) - {_OPTIONS[mode]}:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {set(kwargs) - {_OPTIONS[mode]}}")
    stat_length = kwargs.get("stat_length")
    return _pad(
        array,
        widths,
        mode,
        kwargs.get("constant_values", 0),
        None if stat_length is None else _pairs(stat_length, ndim, "stat_length"),
        _pairs(kwargs.get("end_values", 0), ndim, "end_values"),
        kwargs.get("reflect_type", "even"),
    )


def _by_axis(widths: dict[int, Any], ndim: int) -> list[Any]:
    rows = [(0, 0)] * ndim
    for axis, pair in widths.items():
        rows[axis] = (pair, pair) if np.ndim(pair) == 0 else tuple(pair)
    return rows


def _pairs(values: Any, ndim: int, name: str) -> Widths:
    """``pad_width``-like arguments as one pair per axis: a number, a pair, or a sequence of pairs."""
    table = np.asarray(values)
    if table.shape not in ((), (1,), (2,), (1, 1), (1, 2), (ndim, 1), (ndim, 2)):
        raise ValueError(f"jnp.pad: {name} with nd={ndim} has unsupported shape {table.shape}")
    return tuple((a, b) for a, b in np.broadcast_to(table, (ndim, 2)).tolist())


@inner_jit(static_argnames=("pad_width", "mode", "stat_length", "end_values", "reflect_type"))
def _pad(
    array: Any,
    pad_width: Widths,
    mode: str,
    constant_values: Any,
    stat_length: Widths | None,
    end_values: Widths,
    reflect_type: str,
) -> Any:
    if not array.aval.ndim:
        return array
    if mode == "constant":
        return _pad_constant(array, pad_width, constant_values)
    for axis, (low, high) in enumerate(pad_width):
        if mode == "empty":
            array = _joined(array, axis, *[_zeros_along(array, axis, count) for count in (low, high)])
        elif mode == "wrap":
            array = _pad_wrap(array, axis, low, high)
        elif mode in ("reflect", "symmetric"):
            array = _pad_reflected(array, axis, low, high, mode, reflect_type)
        elif mode == "edge":
            _check_not_empty(array, axis, low, high, mode)
            size = array.aval.shape[axis]
            before = manipulation.repeat(_slice(array, axis, 0, 1), low, axis)
            after = manipulation.repeat(_slice(array, axis, size - 1, size), high, axis)
            array = _joined(array, axis, before, after)
        elif mode == "linear_ramp":
            array = _pad_ramp(array, axis, (low, high), end_values[axis])
        else:
            array = _pad_statistic(array, axis, (low, high), mode, stat_length and stat_length[axis])
    return array


def _slice(array: Any, axis: int, start: int, stop: int) -> Any:
    return lax.slice_in_dim(array, start, stop, axis=axis)


def _joined(array: Any, axis: int, before: Any, after: Any) -> Any:
    return lax.concatenate([before, array, after], axis)


def _check_not_empty(array: Any, axis: int, low: int, high: int, mode: str) -> None:
    if not array.aval.shape[axis] and (low or high):
        raise ValueError(f"Cannot apply '{mode}' padding to empty axis")


def _zeros_along(array: Any, axis: int, count: int) -> Any:
    shape = array.aval.shape
    return lax.full((*shape[:axis], count, *shape[axis + 1 :]), 0, array.aval.dtype)


def _pad_constant(array: Any, widths: Widths, values: Any) -> Any:
    aval = array.aval
    if not isinstance(values, (tuple, list)) and not np.ndim(values):
        value = convert(values, aval.dtype, aval.weak_type)
        return lax.pad(array, value, tuple((*map(int, pair), 0) for pair in widths))
    table = broadcast_to(creation.asarray(values, dtype=aval.dtype), (aval.ndim, 2))
    for axis, (low, high) in enumerate(widths):
        for end, config in enumerate(((int(low), 0, 0), (0, int(high), 0))):
            if any(config):
                configs = tuple(config if i == axis else (0, 0, 0) for i in range(aval.ndim))
                array = lax.pad(array, rewrite_index(table, (axis, end)), configs)
    return array


def _pad_wrap(array: Any, axis: int, low: int, high: int) -> Any:
    size = array.aval.shape[axis]
    if not low and not high:
        return array
    _check_not_empty(array, axis, low, high, "wrap")
    (before, rest_before), (after, rest_after) = divmod(low, size), divmod(high, size)
    parts = [_slice(array, axis, size - rest_before, size)] if rest_before else []
    parts += [array] * (before + 1 + after)
    return lax.concatenate(parts + ([_slice(array, axis, 0, rest_after)] if rest_after else []), axis)


def _pad_reflected(array: Any, axis: int, low: int, high: int, mode: str, reflect_type: str) -> Any:
    """Reflections at both ends, of at most the array's own elements at a time; 'odd' ones are turned about the end."""
    size = array.aval.shape[axis]
    if not low and not high:
        return array
    _check_not_empty(array, axis, low, high, mode)
    offset = 1 if mode == "reflect" and size > 1 else 0
    for front, count in ((True, low), (False, high)):
        length = array.aval.shape[axis]
        edge = _slice(array, axis, 0, 1) if front else _slice(array, axis, length - 1, length)
        while count > 0:
            part = min(count, size - offset)
            length = array.aval.shape[axis]
            start = offset if front else length - offset - part
            mirrored = manipulation.flip(_slice(array, axis, start, start + part), axis)
            if reflect_type == "odd":
                mirrored = lax.sub(lax.mul(convert(2, edge.aval.dtype), edge), mirrored)
                edge = _slice(mirrored, axis, 0, 1) if front else _slice(mirrored, axis, part - 1, part)
            array = lax.concatenate([mirrored, array] if front else [array, mirrored], axis)
            count -= part
    return array


def _pad_ramp(array: Any, axis: int, widths: tuple[int, int], ends: tuple[Any, Any]) -> Any:
    aval = array.aval
    size = aval.shape[axis]
    edges = [_slice(array, axis, 0, 1), _slice(array, axis, size - 1, size)]
    ramps = [
        creation.linspace(np.asarray(end)[()], lax.squeeze(edge, (axis,)), count, False, dtype=aval.dtype, axis=axis)
        for end, edge, count in zip(ends, edges, widths, strict=True)
    ]
    return _joined(array, axis, ramps[0], manipulation.flip(ramps[1], axis))


_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": reductions.max,
    "mean": reductions.mean,
    "median": statistics.median,
    "minimum": reductions.min,
}


def _pad_statistic(array: Any, axis: int, widths: tuple[int, int], mode: str, lengths: Any) -> Any:
    statistic = _STATISTICS[mode]
    if lengths is None:
        ends = [statistic(array, axis=axis, keepdims=True)] * 2
    else:
        size = array.aval.shape[axis]
        before, after = (min(length, size) for length in lengths)
        if 0 in (before, after):
            raise ValueError("stat_length of 0 yields no value for padding")
        parts = [_slice(array, axis, 0, before), _slice(array, axis, size - after, size)]
        ends = [statistic(part, axis=axis, keepdims=True) for part in parts]
    if dtypes.is_integer(array.aval.dtype):
        ends = [mathematics.round(end) for end in ends]
    ends = [convert(end, array.aval.dtype) for end in ends]
    parts = [manipulation.repeat(end, count, axis) for end, count in zip(ends, widths, strict=True)]
    return _joined(array, axis, *parts)


def _pad_by_function(array: Any, widths: Widths, function: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
    padded = _pad_constant(array, widths, 0)
    for axis, width in enumerate(widths):
        padded = functional.apply_along_axis(function, axis, padded, width, axis, kwargs)
    return padded
