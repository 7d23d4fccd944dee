"""Convolutions: ``conv_general_dilated``, with all parameters of XLA's convolution.

Images have a batch, a feature and spatial dimensions; the kernel has an output feature, an input feature and spatial
dimensions. ``ConvDimensionNumbers`` gives their order. The derivative with respect to an operand is a convolution
too; its padding follows from the dilated sizes (Dumoulin and Visin, "A guide to convolution arithmetic...", 2016).
Evaluation gathers the windows and multiplies matrices. Large convolutions are compiled, even outside of ``jit``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import Array, get_aval
from minijax.core.avals import ShapedArray, dtype_name, sharding_of_type
from minijax.core.lists import safe_zip
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.rules import Axes, Dims, Ints, Params, Rule, Values
from minijax.core.structural import zero_of
from minijax.interpreters.evaluate import by_type
from minijax.ir.pretty import parse_rules
from minijax.lowering.text import mlir_type
from minijax.ops.call import compiled_impl
from minijax.ops.convert import convert
from minijax.ops.declare import declare
from minijax.ops.dot import canonical_precision, precision_names, read_precision
from minijax.ops.nary import defbilinear
from minijax.ops.reduce import accumulator
from minijax.ops.shape import inverse_permutation, meant_sharding, reshape, rev, shape_of
from minijax.ops.windows.dimension_numbers import ConvDimensionNumbers, conv_dimension_numbers
from minijax.ops.windows.shapes import Pads, count, dilated, ints, padtype_to_pads, pairs
from minijax.ops.windows.views import padded, windows_of

__all__ = ["conv_general_dilated", "conv_general_dilated_p"]


class ConvParameters(NamedTuple):
    """The parameters of ``conv_general_dilated``."""

    window_strides: Axes
    padding: Pads
    lhs_dilation: Axes
    rhs_dilation: Axes
    dimension_numbers: ConvDimensionNumbers
    feature_group_count: int
    batch_group_count: int
    precision: Any
    preferred_element_type: np.dtype | None
    out_sharding: Any


def _conv_abstract(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    window_strides: Axes,
    padding: Pads,
    lhs_dilation: Axes,
    rhs_dilation: Axes,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: np.dtype | None,
    out_sharding: Any,
) -> ShapedArray:
    groups, batch_groups = feature_group_count, batch_group_count
    if lhs.ndim != rhs.ndim:
        raise ValueError(f"conv_general_dilated requires lhs and rhs ndim to be equal, got {lhs.ndim} and {rhs.ndim}.")
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    batch, features = (lhs.shape[d] for d in lhs_spec[:2])
    outs, ins = (rhs.shape[d] for d in rhs_spec[:2])
    _check_groups(batch, features, outs, ins, groups, batch_groups)
    sizes = {"window_strides": window_strides, "lhs_dilation": lhs_dilation, "rhs_dilation": rhs_dilation}
    for name, values in sizes.items():
        if len(values) != lhs.ndim - 2:
            raise ValueError(
                f"conv_general_dilated window and {name} must have the same number of dimensions, but got "
                f"{lhs.ndim - 2} and {len(values)}"
            )
        if any(n < 1 for n in values):
            error = ValueError if name == "window_strides" else TypeError
            raise error(f"conv_general_dilated: all of {name} must be positive, got {values}.")
    if len(padding) != lhs.ndim - 2:
        raise TypeError(f"Wrong number of explicit pads for convolution: expected {lhs.ndim - 2}, got {len(padding)}.")
    found = [
        count(low + dilated(lhs.shape[d], lhs_step) + high, dilated(rhs.shape[e], rhs_step), stride)
        for d, e, stride, (low, high), lhs_step, rhs_step in safe_zip(
            lhs_spec[2:], rhs_spec[2:], window_strides, padding, lhs_dilation, rhs_dilation
        )
    ]
    shape = [0] * lhs.ndim
    for d, size in safe_zip(out_spec, (batch // batch_groups, outs, *found)):
        shape[d] = size
    dtype = _result_dtype(lhs.dtype, rhs.dtype, preferred_element_type)
    return ShapedArray(tuple(shape), dtype, lhs.weak_type and rhs.weak_type)


def _check_groups(batch: int, features: int, outs: int, ins: int, feature_groups: int, batch_groups: int) -> None:
    """ValueError if the sizes are not divisible by the numbers of groups."""
    what = "conv_general_dilated"
    for name, groups in (("feature_group_count", feature_groups), ("batch_group_count", batch_groups)):
        if groups < 1:
            raise ValueError(f"{what} {name} must be a positive integer, got {groups}.")
    if batch_groups > 1 and feature_groups > 1:
        raise ValueError(
            "At most one of batch_group_count and feature_group_count may be > 1, got "
            f"batch_group_count={batch_groups} and feature_group_count={feature_groups}"
        )
    if features % feature_groups:
        raise ValueError(
            f"{what} feature_group_count must divide lhs feature dimension size, but {feature_groups} does not divide "
            f"{features}."
        )
    if features // feature_groups != ins:
        raise ValueError(
            f"{what} lhs feature dimension size divided by feature_group_count must equal the rhs input feature "
            f"dimension size, but {features} // {feature_groups} != {ins}. Are the dimension_numbers those of the "
            "operands?"
        )
    if batch % batch_groups:
        raise ValueError(
            f"{what} batch_group_count must divide lhs batch dimension size, but {batch_groups} does not divide "
            f"{batch}."
        )
    for name, groups in (("feature_group_count", feature_groups), ("batch_group_count", batch_groups)):
        if outs % groups:
            raise ValueError(
                f"{what} rhs output feature dimension size must be a multiple of {name}, but {outs} is not a multiple "
                f"of {groups}."
            )


def _result_dtype(lhs: np.dtype, rhs: np.dtype, preferred: np.dtype | None) -> np.dtype:
    if lhs != rhs:
        raise TypeError(
            f"lax.conv_general_dilated requires arguments to have the same dtypes, got {dtype_name(lhs)}, "
            f"{dtype_name(rhs)}. Convert one by lax.convert_element_type."
        )
    if preferred is None or preferred == lhs:
        return lhs
    kinds = dtypes.kind(lhs).replace("u", "i"), dtypes.kind(preferred).replace("u", "i")
    if kinds not in (("i", "i"), ("i", "f"), ("f", "f"), ("c", "c")):
        raise TypeError(
            f"Input type is incompatible with `preferred_element_type`: {dtype_name(lhs)} and {dtype_name(preferred)}. "
            "Integers may become integers or floats; floats only floats, complex numbers only complex numbers."
        )
    if dtypes.bits(preferred) < dtypes.bits(lhs):
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"{dtype_name(preferred)} for {dtype_name(lhs)}."
        )
    return preferred


# This many window elements are gathered at a time, so that they stay in the processor's cache.
_GATHERED = 1 << 18
# With this many products, a convolution is compiled at the first call, because NumPy takes longer than compiling it.
_LARGE = 1 << 24


@by_type
def _conv_numpy(lhs: Any, rhs: Any, **params: Any) -> Rule:
    given = ConvParameters(**params)
    lhs_spec, rhs_spec, out_spec = given.dimension_numbers
    dtype = _result_dtype(lhs.dtype, rhs.dtype, given.preferred_element_type)
    wide = accumulator(dtype)
    kernel_shape = tuple(rhs.shape[d] for d in rhs_spec[2:])
    batch_groups = given.batch_group_count
    groups = given.feature_group_count * batch_groups
    order = inverse_permutation(out_spec)
    pads, steps = ((0, 0), (0, 0), *given.padding), (1, 1, *given.lhs_dilation)
    avals = tuple([ShapedArray(x.shape, x.dtype) for x in (lhs, rhs)])
    out_aval = conv_general_dilated_p.abstract_eval(*avals, **params)
    if out_aval.size * math.prod(rhs.shape) // max(rhs.shape[rhs_spec[0]], 1) >= _LARGE:
        return lambda *values: _compiled(*map(Array, values, avals), **params)._value()

    def conv(lhs: Any, rhs: Any) -> Any:
        images = lhs.transpose(lhs_spec).astype(wide, copy=False)
        kernel = rhs.transpose(rhs_spec).astype(wide, copy=False)
        if batch_groups > 1:  # turn groups of the batch into groups of features
            batch = images.shape[0] // batch_groups
            images = np.moveaxis(images.reshape(batch_groups, batch, *images.shape[1:]), 0, 1)
            images = images.reshape(batch, -1, *images.shape[3:]) if images.size else images[:, :, 0]
        view = windows_of(padded(images, 0, pads, steps), kernel_shape, given.window_strides, given.rhs_dilation)
        out = _product(view, kernel, groups, len(kernel_shape))
        return out.transpose(order).astype(dtype, copy=False)

    return conv


def _product(view: Any, kernel: Any, groups: int, rank: int) -> Any:
    """Multiply windows, ``(batch, features, *places, *window)``, by the kernel, ``(outs, ins, *window)``."""
    batch, outs, places = view.shape[0], kernel.shape[0], view.shape[2 : 2 + rank]
    out = np.zeros((batch, outs, *places), view.dtype)
    if not out.size or not kernel.size:
        return out
    inner, many = math.prod(kernel.shape[1:]), math.prod(places)
    matrix = kernel.reshape(groups, outs // groups, inner)
    columns = np.moveaxis(view, range(2 + rank, 2 + 2 * rank), range(2, 2 + rank))
    some = max(1, _GATHERED // (groups * inner * many))
    products = out.reshape(batch, groups, outs // groups, many)
    for start in range(0, batch, some):
        part = columns[start : start + some]
        np.matmul(matrix, part.reshape(len(part), groups, inner, many), out=products[start : start + some])
    return out


def _spatial(shape: Ints, spec: Ints, dilation: Ints) -> list[int]:
    """The size of each spatial dimension of ``shape`` with ``dilation``."""
    return [dilated(shape[d], step) for d, step in safe_zip(spec[2:], dilation)]


def _reaches(given: ConvParameters, images: Ints, kernel: Ints, out: Ints) -> Any:
    """For each spatial dimension: the dilated sizes of images, kernel and result, and the lower padding."""
    lhs_spec, rhs_spec, out_spec = given.dimension_numbers
    return safe_zip(
        _spatial(images, lhs_spec, given.lhs_dilation),
        _spatial(kernel, rhs_spec, given.rhs_dilation),
        _spatial(out, out_spec, given.window_strides),
        [low for low, _ in given.padding],
    )


def _swapped(spec: Ints) -> Axes:
    """``spec`` with its first two dimensions exchanged."""
    return (spec[1], spec[0], *spec[2:])


def _merged(x: Any, source: int, target: int) -> Any:
    """``x`` with its dimension ``source`` merged into dimension ``target`` of the result, as its major part."""
    shape = shape_of(x)
    order = [d for d in range(len(shape)) if d != source]
    order.insert(target, source)
    sizes = [shape[d] for d in order]
    sizes[target : target + 2] = [sizes[target] * sizes[target + 1]]
    return reshape(x, sizes, order)


def _divided(x: Any, dim: int, first: int) -> Any:
    """``x`` with its dimension ``dim`` split into two dimensions, the first of size ``first``."""
    shape = shape_of(x)
    return reshape(x, (*shape[:dim], first, shape[dim] // first, *shape[dim + 1 :]))


def _conv_left(ct: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
    """The images' cotangent: the result's cotangent, dilated by the strides, convolved with the reversed kernel."""
    given = ConvParameters(**params)
    lhs_spec, rhs_spec, out_spec = given.dimension_numbers
    pads = []
    for image, window, out, low in _reaches(given, lhs.aval.shape, shape_of(rhs), shape_of(ct)):
        before = window - low - 1
        pads.append((before, image + window - 1 - out - before))
    groups = max(given.feature_group_count, given.batch_group_count)
    if groups > 1:
        rhs = _divided(rhs, rhs_spec[0], groups)
        rhs = _merged(rhs, rhs_spec[0], rhs_spec[1])
    out = _conv_of_any(
        ct,
        rev(rhs, rhs_spec[2:]),
        given._replace(
            window_strides=given.lhs_dilation,
            padding=tuple(pads),
            lhs_dilation=given.window_strides,
            dimension_numbers=ConvDimensionNumbers(out_spec, _swapped(rhs_spec), lhs_spec),
            feature_group_count=groups,
            batch_group_count=1,
            out_sharding=sharding_of_type(lhs.aval, get_aval(ct), get_aval(rhs)),
        ),
    )
    if given.batch_group_count > 1:
        out = _divided(out, lhs_spec[1], given.batch_group_count)
        out = _merged(out, lhs_spec[1], lhs_spec[0])
    return _as(lhs.aval, out)


def _conv_right(ct: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
    """The kernel's cotangent: the images convolved with the result's cotangent; batch and features change places."""
    if not get_aval(ct).size:
        return zero_of(rhs.aval)
    given = ConvParameters(**params)
    lhs_spec, rhs_spec, out_spec = given.dimension_numbers
    reaches = _reaches(given, shape_of(lhs), rhs.aval.shape, shape_of(ct))
    pads = tuple((low, out + window - image - low - 1) for image, window, out, low in reaches)
    out = _conv_of_any(
        lhs,
        ct,
        given._replace(
            window_strides=given.rhs_dilation,
            padding=pads,
            rhs_dilation=given.window_strides,
            dimension_numbers=ConvDimensionNumbers(_swapped(lhs_spec), _swapped(out_spec), _swapped(rhs_spec)),
            feature_group_count=given.batch_group_count,
            batch_group_count=given.feature_group_count,
            out_sharding=sharding_of_type(rhs.aval, get_aval(ct), get_aval(lhs)),
        ),
    )
    return _as(rhs.aval, out)


def _conv_of_any(lhs: Any, rhs: Any, params: ConvParameters) -> Any:
    """Convolve an operand with a cotangent, which may have a wider dtype."""
    dtype = params.preferred_element_type
    if get_aval(lhs).dtype != get_aval(rhs).dtype:
        lhs, rhs = (x if get_aval(x).dtype == dtype else convert(x, dtype) for x in (lhs, rhs))
    return conv_general_dilated_p.bind(lhs, rhs, **params._asdict())


def _as(aval: ShapedArray, ct: Any) -> Any:
    return ct if get_aval(ct).dtype == aval.dtype else convert(ct, aval.dtype)


def _conv_batch(
    args: Values,
    dims: Dims,
    *,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> Any:
    (lhs, rhs), (lhs_dim, rhs_dim) = args, dims
    bind = functools.partial(conv_general_dilated_p.bind, dimension_numbers=dimension_numbers, **params)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    if lhs_dim is not None and rhs_dim is not None:
        size = shape_of(lhs)[lhs_dim]
        by_batch = batch_group_count > 1
        out = bind(
            _merged(lhs, lhs_dim, lhs_spec[0 if by_batch else 1]),
            _merged(rhs, rhs_dim, rhs_spec[0]),
            feature_group_count=feature_group_count if by_batch else feature_group_count * size,
            batch_group_count=batch_group_count * size if by_batch else 1,
        )
        return _divided(out, out_spec[1], size), out_spec[1]
    groups = {"feature_group_count": feature_group_count, "batch_group_count": batch_group_count}
    if lhs_dim is not None:
        size = shape_of(lhs)[lhs_dim]
        out = bind(_into_groups(lhs, lhs_dim, lhs_spec[0], batch_group_count), rhs, **groups)
        return _divided(out, out_spec[0], size), out_spec[0]
    assert rhs_dim is not None
    size, many = shape_of(rhs)[rhs_dim], max(feature_group_count, batch_group_count)
    out = bind(lhs, _into_groups(rhs, rhs_dim, rhs_spec[0], many), **groups)
    at = out_spec[1]
    if many == 1:
        return _divided(out, at, size), at
    # in the result, the first group's features for all examples precede the second group's features
    out = _divided(_divided(out, at, many), at + 1, size)
    return _merged(out, at, at + 1), at


def _into_groups(x: Any, dim: int, target: int, groups: int) -> Any:
    """``x`` with its batch axis ``dim`` merged into dimension ``target``, as the major part of each of its groups."""
    if groups == 1:
        return _merged(x, dim, target)
    x = _divided(x, target + (dim <= target), groups)
    x = _merged(x, dim + (dim > target), target + 1)
    return _merged(x, target, target)


def _spec_text(spec: Ints, first: str, second: str) -> str:
    letters = {spec[0]: first, spec[1]: second, **{d: str(i) for i, d in enumerate(spec[2:])}}
    return f"[{', '.join(letters[d] for d in range(len(spec)))}]"


def _conv_lower(ctx: Any, avals: Any, out_avals: Any, lhs: str, rhs: str, **params: Any) -> str:
    given = ConvParameters(**params)
    lhs_spec, rhs_spec, out_spec = given.dimension_numbers
    images, kernel, out = _spec_text(lhs_spec, "b", "f"), _spec_text(rhs_spec, "o", "i"), _spec_text(out_spec, "b", "f")
    left, right = precision_names(given.precision)
    window = {
        "stride": list(given.window_strides),
        "pad": [list(p) for p in given.padding],
        "lhs_dilate": list(given.lhs_dilation),
        "rhs_dilate": list(given.rhs_dilation),
        "reverse": f"[{', '.join(['false'] * len(given.padding))}]",
    }
    window_text = ", ".join(f"{name} = {value}" for name, value in window.items()) if given.padding else ""
    attributes = (
        f"dim_numbers = {images}x{kernel}->{out}, window = {{{window_text}}} "
        f"{{batch_group_count = {given.batch_group_count} : i64, "
        f"feature_group_count = {given.feature_group_count} : i64, "
        f"precision_config = [#stablehlo<precision {left}>, #stablehlo<precision {right}>]}}"
    )

    def conv(x: str, y: str, types: Sequence[Any], out_type: Any) -> str:
        a, b = map(mlir_type, types)
        return ctx.emit(f"stablehlo.convolution({x}, {y}) {attributes} : ({a}, {b}) -> {mlir_type(out_type)}")

    if not dtypes.is_complex(avals[0].dtype):
        return conv(lhs, rhs, avals, out_avals[0])
    return _complex_text(ctx, conv, avals, out_avals[0], lhs, rhs)


def _complex_text(ctx: Any, conv: Callable[..., str], avals: Any, out: ShapedArray, lhs: str, rhs: str) -> str:
    """A complex convolution as three real ones (Gauss's multiplication)."""
    parts = [a.update(dtype=dtypes.real_dtype(a.dtype)) for a in avals]
    result = out.update(dtype=dtypes.real_dtype(out.dtype))

    def part(which: str, x: str, i: int) -> str:
        return str(ctx.emit(f"stablehlo.{which} {x} : ({mlir_type(avals[i])}) -> {mlir_type(parts[i])}"))

    def emit(op: str, x: str, y: str, aval: ShapedArray) -> str:
        return str(ctx.emit(f"stablehlo.{op} {x}, {y} : {mlir_type(aval)}"))

    a, b = part("real", lhs, 0), part("imag", lhs, 0)
    c, d = part("real", rhs, 1), part("imag", rhs, 1)
    both = conv(emit("add", a, b, parts[0]), c, parts, result)
    across = conv(a, emit("subtract", d, c, parts[1]), parts, result)
    rest = conv(b, emit("add", c, d, parts[1]), parts, result)
    real, imaginary = emit("subtract", both, rest, result), emit("add", both, across, result)
    return str(ctx.emit(f"stablehlo.complex {real}, {imaginary} : {mlir_type(out)}"))


conv_general_dilated_p = Primitive("conv_general_dilated")
declare(
    conv_general_dilated_p,
    abstract=_conv_abstract,
    numpy=_conv_numpy,
    lower=_conv_lower,
    batch=_conv_batch,
    sharding="out_sharding",
)
defbilinear(conv_general_dilated_p, _conv_left, _conv_right)
_compiled = compiled_impl(conv_general_dilated_p)


def _conv_params_read(params: Params, in_avals: Any, out_avals: Any) -> Params:
    return {**params, "precision": read_precision(params["precision"])}


parse_rules[conv_general_dilated_p] = _conv_params_read


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Ints,
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Ints | None = None,
    rhs_dilation: Ints | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The convolution of images with a kernel: for each position of a window, the sum of products.

    The kernel is not flipped.

    Args:
      lhs: images with n dimensions: batch, feature and n - 2 spatial ones.
      rhs: the kernel, in the same dtype, with output feature, input feature and n - 2 spatial dimensions.
      window_strides: n - 2 integers, the distance from window to window in elements.
      padding: ``"SAME"``, ``"SAME_LOWER"``, ``"VALID"``, or a pair (low, high) for each spatial dimension.
      lhs_dilation, rhs_dilation: the distance between elements of the images, and of the kernel; by default 1.
      dimension_numbers: a triple of layouts such as ``("NHWC", "HWIO", "NHWC")`` for images, kernel and result, or the
        result of ``conv_dimension_numbers``. The default is the order above.
      feature_group_count: the number of groups of input features. The kernel's output features are divided into as many
        groups, one for each group of input features.
      batch_group_count: the number of groups of the batch, with one group of output features for each.
      precision: a ``Precision``, its name, or a pair with one for each operand.
      preferred_element_type: the dtype of the sums and of the result; by default the dtype of the operands.
      out_sharding: the result's sharding over a mesh with explicit axes.

    Returns:
      The result: batch, output feature and n - 2 spatial dimensions. ``"SAME"`` gives ceil(size / stride) windows.

    Raises TypeError for dtypes that differ, ValueError for shapes or parameters that do not fit, RuntimeError for an
    unknown name of ``padding``.

    >>> lax.conv_general_dilated(jnp.ones((1, 3, 8, 8)), jnp.ones((4, 3, 3, 3)), (2, 2), "VALID").shape
    (1, 4, 3, 3)
    """
    lhs_shape, rhs_shape = shape_of(lhs), shape_of(rhs)
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    lhs_spec, rhs_spec, _ = numbers = ConvDimensionNumbers(*map(ints, numbers))
    rank = len(lhs_shape) - 2
    if rank < 0:
        raise ValueError(
            f"conv_general_dilated needs a batch and a feature dimension, got shapes {lhs_shape}, {rhs_shape}"
        )
    strides = ints(window_strides)
    lhs_dilation = (1,) * rank if lhs_dilation is None else ints(lhs_dilation)
    rhs_dilation = (1,) * rank if rhs_dilation is None else ints(rhs_dilation)
    if not isinstance(padding, str):
        pads = pairs(padding, "conv_general_dilated")
    elif any(d != 1 for d in lhs_dilation):
        raise ValueError(
            "String padding is not implemented for transposed convolution using this op. Please either exactly specify "
            "the required padding or use conv_transpose."
        )
    elif not len(strides) == len(rhs_dilation) == rank:
        raise ValueError(
            "conv_general_dilated window and window_strides, rhs_dilation must have the same number of dimensions, but "
            f"got {rank}, {len(strides)} and {len(rhs_dilation)}"
        )
    else:
        window = _spatial(rhs_shape, rhs_spec, rhs_dilation)
        pads = tuple(padtype_to_pads([lhs_shape[d] for d in lhs_spec[2:]], window, strides, padding))
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_user_dtype(preferred_element_type, "conv_general_dilated", x64_enabled())
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=pads,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=numbers,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision=canonical_precision(precision),
        preferred_element_type=preferred_element_type,
        out_sharding=None if out_sharding is None else meant_sharding(out_sharding, "conv_general_dilated"),
    )
