"""Shapes of operations on windows: padding that is given by name, and the number of windows.

A window of ``w`` elements, ``dilation`` apart, covers ``dilated(w, dilation)`` elements. Windows begin at every
``stride``-th element.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from minijax.core.records import NamedTuple
from minijax.core.rules import Params

__all__ = ["padtype_to_pads", "reduce_window_shape_tuple"]

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


class Windows(NamedTuple):
    """The window parameters of an operation; ``ops.windows.reduce_window`` explains them."""

    window_dimensions: Ints
    window_strides: Ints
    padding: Pads
    base_dilation: Ints
    window_dilation: Ints


def ints(values: Sequence[Any]) -> tuple[int, ...]:
    """The sizes ``values`` as Python integers; TypeError for anything else."""
    return tuple(map(operator.index, values))


def pairs(padding: Any, what: str) -> Pads:
    """Explicit ``padding`` as pairs of integers; ValueError for anything else."""
    try:
        found = tuple((operator.index(low), operator.index(high)) for low, high in padding)
    except (TypeError, ValueError):
        raise ValueError(
            f"padding argument to {what} should be a string or a sequence of (low, high) pairs, got {padding}"
        ) from None
    return found


def dilated(size: int, dilation: int) -> int:
    """The extent of ``size`` elements that are ``dilation`` apart."""
    return (size - 1) * dilation + 1 if size else 0


def count(size: int, window: int, stride: int) -> int:
    """The number of windows of extent ``window`` that fit into ``size``."""
    return max(0, (size - window) // stride + 1)


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """The padding before and after each dimension, for a padding that is given by name.

    Args:
      in_shape, window_shape, window_strides: sizes of the operand, sizes of a window, and distances between windows.
      padding: ``"VALID"``: none. ``"SAME"``: as much as ``ceil(size / stride)`` windows need; an odd element goes to
        the end. ``"SAME_LOWER"``: the same, but an odd element goes to the beginning. Lower case works too.

    Raises TypeError if ``padding`` is not a string, RuntimeError for an unknown name.
    """
    if not isinstance(padding, str):
        raise TypeError(f"Unknown padding type: {padding}. Give 'VALID', 'SAME' or 'SAME_LOWER'.")
    name = padding.upper()
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if name not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(
            f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}. Or give a "
            "(low, high) pair for each dimension."
        )
    found = []
    for size, window, stride in zip(ints(in_shape), ints(window_shape), ints(window_strides), strict=True):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        small, large = total // 2, total - total // 2
        found.append((small, large) if name == "SAME" else (large, small))
    return found


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The number of windows in each dimension."""
    ones = (1,) * len(operand_shape)
    rows = zip(
        operand_shape, window_dimensions, window_strides, padding, base_dilation or ones, window_dilation or ones,
        strict=True,
    )  # fmt: skip
    return tuple(
        count(low + dilated(size, base) + high, dilated(window, dilation), stride)
        for size, window, stride, (low, high), base, dilation in rows
    )


def check_windows(
    name: str,
    shape: Ints,
    *,
    window_dimensions: Ints,
    window_strides: Ints,
    padding: Pads,
    base_dilation: Ints,
    window_dilation: Ints,
) -> Ints:
    """The number of windows in each dimension of ``shape``. TypeError or ValueError for wrong parameters."""
    if len(window_dimensions) != len(shape):
        raise TypeError(
            f"{name} got the wrong number of window_dimensions for operand: got operand shape {shape} with "
            f"window_dimensions {window_dimensions}."
        )
    sizes = {"window_strides": window_strides, "base_dilation": base_dilation, "window_dilation": window_dilation}
    for what, values in sizes.items():
        if len(values) != len(shape):
            raise TypeError(
                f"{name} got inconsistent {what} and window_dimensions: got {what} {values} and window_dimensions "
                f"{window_dimensions}."
            )
    for what, values in {"window_dimensions": window_dimensions, **sizes}.items():
        if any(n < 1 for n in values):
            raise TypeError(f"{name} {what} must have every element be strictly positive, got {values}.")
    if len(padding) != len(shape):
        raise ValueError(f"{name} needs a pair of padding for each of {len(shape)} dimensions, got {padding}.")
    return reduce_window_shape_tuple(shape, window_dimensions, window_strides, padding, base_dilation, window_dilation)


def with_window_of_one(dim: int, params: Params) -> Params:
    """``params`` with a new batch dimension at ``dim``, along which windows have size 1."""

    def at(values: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
        return (*values[:dim], new, *values[dim:])

    found = dict(params)
    for name in ("window_dimensions", "window_strides", "base_dilation", "window_dilation"):
        if name in found:
            found[name] = at(found[name], 1)
    found["padding"] = at(found["padding"], (0, 0))
    return found
