"""Convolutions of special forms, made of ``conv_general_dilated``; and the shapes of their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.array import get_aval
from minijax.ops.convert import convert
from minijax.ops.dot import Precision, canonical_precision, dot_general
from minijax.ops.elementwise import add_p, eq_p
from minijax.ops.shape import broadcast, broadcasted_iota, reshape, rev, shape_of, transpose
from minijax.ops.windows.convolution import conv_general_dilated
from minijax.ops.windows.dimension_numbers import ConvDimensionNumbers, conv_dimension_numbers
from minijax.ops.windows.shapes import Pads, count, dilated, ints, padtype_to_pads, pairs

__all__ = [
    "conv",
    "conv_general_dilated_local",
    "conv_general_dilated_patches",
    "conv_general_shape_tuple",
    "conv_shape_tuple",
    "conv_transpose",
    "conv_transpose_shape_tuple",
    "conv_with_general_padding",
]

# The dimension numbers of a transposed convolution to which none are given, by its number of dimensions.
_FEATURES_LAST = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """``conv_general_dilated`` of images ``(batch, feature, ...)`` with a kernel ``(out, in, ...)``."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """As ``conv``, with dilations, and with paddings of any size."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


# -------------------------------------------------------------------------------- transposed


def _transposed_pads(windows: Sequence[int], strides: Sequence[int], padding: str) -> Pads | str:
    """How images that are dilated by ``strides`` are padded so that a convolution with ``padding`` would take the
    result to them. Other names than SAME and VALID are given back.
    """
    if padding not in ("SAME", "VALID"):
        return padding
    found = []
    for window, stride in zip(windows, strides, strict=True):
        total = window + stride - 2
        if padding == "VALID":
            total += max(window - stride, 0)
        whole = padding == "VALID" or stride > window - 1
        before = window - 1 if whole else -(-total // 2)
        found.append((before, total - before))
    return tuple(found)


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:
    """The transposed convolution: what spreads each element over a window, ``strides`` apart.

    Args:
      lhs, rhs: images and kernel; see ``conv_general_dilated``.
      strides: how far windows are apart in the result.
      padding: that of the convolution of which this is the transpose, if called by name (``"SAME"``, ``"VALID"``);
        pairs say how the dilated images are padded, but with ``use_consistent_padding`` they are that convolution's.
      rhs_dilation: how far elements of the kernel are apart.
      dimension_numbers: as for ``conv_general_dilated``; by default features are last.
      transpose_kernel: whether the kernel is that convolution's: it is turned around, and its features change places.

    Raises TypeError or ValueError if shapes or parameters do not fit.
    """
    ndim = len(shape_of(lhs))
    if dimension_numbers is None:
        if ndim not in _FEATURES_LAST:
            raise ValueError(f"conv_transpose has no default dimension_numbers for {ndim} dimensions: give them.")
        dimension_numbers = _FEATURES_LAST[ndim]
    numbers = conv_dimension_numbers(shape_of(lhs), shape_of(rhs), dimension_numbers)
    outs, ins, *spatial = numbers.rhs_spec
    dilation = (1,) * len(spatial) if rhs_dilation is None else ints(rhs_dilation)
    windows = [dilated(shape_of(rhs)[d], step) for d, step in zip(spatial, dilation, strict=True)]
    pads: Any = padding
    if isinstance(padding, str):
        pads = _transposed_pads(windows, ints(strides), padding)
    elif use_consistent_padding:
        given = pairs(padding, "conv_transpose")
        pads = tuple((w - 1 - low, w - 1 - high) for w, (low, high) in zip(windows, given, strict=True))
    if transpose_kernel:
        for d in spatial:
            rhs = rev(rhs, (d,))
        order = list(range(ndim))
        order[outs], order[ins] = ins, outs
        rhs = transpose(rhs, order)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * len(spatial),
        pads,
        strides,
        dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


# -------------------------------------------------------------------------------- patches


def _moved(x: Any, sources: Sequence[int], targets: Sequence[int]) -> Any:
    """``x`` with its dimensions ``sources`` at ``targets``, the others in order."""
    rest = iter([d for d in range(len(shape_of(x))) if d not in sources])
    at = dict(zip(targets, sources, strict=True))
    order = [at[d] if d in at else next(rest) for d in range(len(shape_of(x)))]
    return x if order == sorted(order) else transpose(x, order)


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """What windows of ``filter_shape`` show of the images ``lhs``, as features.

    For each feature of ``lhs`` the result has one feature per window element, in this order. It is a convolution with
    a kernel of zeros and ones; for the parameters see ``conv_general_dilated``.
    """
    window, shape = ints(filter_shape), shape_of(lhs)
    numbers = conv_dimension_numbers(shape, shape, dimension_numbers)
    features, size = shape[numbers.lhs_spec[1]], math.prod(window)
    rows = add_p.bind(broadcasted_iota(np.int32, (size, size), 0), np.int32(0))
    one_hot = convert(eq_p.bind(rows, broadcasted_iota(np.int32, (size, size), 1)), get_aval(lhs).dtype)
    kernel = reshape(broadcast(one_hot, (features,)), (features * size, 1, *window))
    return conv_general_dilated(
        lhs,
        _moved(kernel, (0, 1), numbers.rhs_spec[:2]),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        feature_group_count=features,
        # the kernel consists of ones and zeros, which are exact in any precision
        precision=None if precision is None else (precision, Precision.DEFAULT),
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Any:
    """A convolution whose kernel is another one at each place of the result.

    ``rhs`` has output features, as input features what ``conv_general_dilated_patches`` gives (features of ``lhs``
    times elements of a window of ``filter_shape``), and the spatial dimensions of the result. For the other parameters
    see ``conv_general_dilated``.
    """
    both = canonical_precision(precision)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        precision=both[0] if isinstance(both, tuple) and len(both) == 2 else both,
    )
    numbers = conv_dimension_numbers(shape_of(lhs), shape_of(rhs), dimension_numbers)
    out_batch, out_features, *out_places = numbers.out_spec
    _, ins, *places = numbers.rhs_spec
    out = dot_general(patches, rhs, (((out_features,), (ins,)), (out_places, places)), precision=both)
    last = len(shape_of(out))
    return _moved(out, (last - 2, last - 1), (out_batch, out_features))


# -------------------------------------------------------------------------------- shapes


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: str | Sequence[tuple[int, int]],
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of ``conv_general_dilated`` for images ``(batch, feature, ...)`` and a kernel ``(out, in, ...)``.

    TypeError if there is not a pair of pads for each spatial dimension.
    """
    lhs, rhs = ints(lhs_shape), ints(rhs_shape)
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs[2:], rhs[2:], strides, pads)
    if len(pads) != len(lhs) - 2:
        raise TypeError(f"Wrong number of explicit pads for convolution: expected {len(lhs) - 2}, got {len(pads)}.")
    places = [
        count(low + size + high, window, stride)
        for size, window, stride, (low, high) in zip(lhs[2:], rhs[2:], ints(strides), pads, strict=True)
    ]
    return (lhs[0] // batch_group_count, rhs[0], *places)


def _arranged(sizes: Sequence[int], spec: Sequence[int]) -> tuple[int, ...]:
    """``sizes`` in the order of the dimensions that ``spec`` names."""
    return tuple(size for _, size in sorted(zip(spec, sizes, strict=True)))


def _in_order(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> tuple[list[int], list[int], ConvDimensionNumbers]:
    """Both shapes with batch and feature first, and the dimension numbers they had."""
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    return [lhs_shape[d] for d in numbers.lhs_spec], [rhs_shape[d] for d in numbers.rhs_spec], numbers


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of a convolution without dilations, whose dimensions are as ``dimension_numbers`` say."""
    lhs, rhs, numbers = _in_order(lhs_shape, rhs_shape, dimension_numbers)
    return _arranged(conv_shape_tuple(lhs, rhs, window_strides, padding), numbers.out_spec)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of ``conv_transpose``; pairs of ``padding`` are those of the dilated images."""
    lhs, rhs, numbers = _in_order(lhs_shape, rhs_shape, dimension_numbers)
    strides = ints(window_strides)
    pads = _transposed_pads(rhs[2:], strides, padding) if isinstance(padding, str) else padding
    spread = [dilated(size, stride) for size, stride in zip(lhs[2:], strides, strict=True)]
    found = conv_shape_tuple([*lhs[:2], *spread], rhs, (1,) * len(strides), pads)
    return _arranged(found, numbers.out_spec)
