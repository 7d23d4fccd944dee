"""What the derivatives of pooling by maxima and minima are made of: elements chosen in windows of an operand.

``select_and_gather_add`` gives of each window the tangent of the element that is chosen, ``select_and_scatter_add``
adds the cotangent of each window to the element that is chosen. The parameter ``select_prim``, ``ge`` or ``le``, says
which of two elements is kept, the first of them standing before; the others are those of ``reduce_window_max``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.primitive import Primitive
from minijax.core.structural import UndefinedPrimal, Zero, broadcast, full, moveaxis, zero_tangent
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import mapped_axis
from minijax.ir.pretty import parse_rules
from minijax.lowering.regions import monoid_region, pads_text, region_text, window_text
from minijax.lowering.text import array_text, mlir_type
from minijax.ops.declare import Rule, declare
from minijax.ops.elementwise import ge_p, le_p
from minijax.ops.reduce import accumulator
from minijax.ops.shape import shape_of
from minijax.ops.slicing import pad, slice
from minijax.ops.windows.shapes import Ints, Pads, Windows, check_windows, reduce_window_shape_tuple, with_window_of_one
from minijax.ops.windows.views import padded

__all__ = ["select_and_gather_add_p", "select_and_scatter_add_p"]

# What is chosen: how two elements are compared, by NumPy and in StableHLO, and which element is never chosen.
_SELECTS: dict[Primitive, tuple[Callable[..., Any], str, Callable[[np.dtype], Any]]] = {
    ge_p: (np.greater_equal, "GE", dtypes.min_value),
    le_p: (np.less_equal, "LE", dtypes.max_value),
}


def _check(name: str, values: ShapedArray, operand: ShapedArray, select_prim: Primitive) -> None:
    if select_prim not in _SELECTS:
        raise ValueError(f"{name}: select_prim must be ge_p or le_p, got {select_prim}")
    if values.dtype != operand.dtype:
        raise TypeError(
            f"lax.{name} requires arguments to have the same dtypes, got {dtype_name(values.dtype)}, "
            f"{dtype_name(operand.dtype)}."
        )


def _places(window: Ints, strides: Ints, dilation: Ints, counts: Ints) -> list[tuple[Any, ...]]:
    """For each place in a window, where the elements are that stand there in all windows."""
    return [
        tuple(
            np.s_[i * step : i * step + (many - 1) * stride + 1 : stride] if many else np.s_[:0]
            for i, step, stride, many in zip(place, dilation, strides, counts, strict=True)
        )
        for place in itertools.product(*map(range, window))
    ]


def _compared(ctx: Any, direction: str, a: str, b: str, aval: ShapedArray) -> str:
    dtype, ty = aval.dtype, mlir_type(ShapedArray((), aval.dtype))
    kind = "FLOAT" if dtypes.is_inexact(dtype) else "SIGNED" if dtypes.is_signed(dtype) else "UNSIGNED"
    return str(ctx.emit(f"stablehlo.compare {direction}, {a}, {b}, {kind} : ({ty}, {ty}) -> tensor<i1>"))


def _linear_jvp(primitive: Primitive) -> Rule:
    """Linear in the first operand; the choice that the second makes does not change for small changes of it."""

    def choice_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (values, operand), (t, _) = primals, tangents
        out = primitive.bind(values, operand, **params)
        return out, zero_tangent(out) if type(t) is Zero else primitive.bind(t, operand, **params)

    return choice_jvp


def _choice_batch(primitive: Primitive) -> Rule:
    def choice_batch(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        size, _ = mapped_axis(args, dims)
        fronted = [broadcast(x, size, 0) if d is None else moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)]
        return primitive.bind(*fronted, **with_window_of_one(0, params)), 0

    return choice_batch


def _select_read(params: dict[str, Any], in_avals: Any, out_avals: Any) -> dict[str, Any]:
    """The primitive that the text names."""
    named = {p.name: p for p in _SELECTS}
    return {**params, "select_prim": named.get(params["select_prim"], params["select_prim"])}


# -------------------------------------------------------------------------------- gathering


def _gather_abstract(
    tangents: ShapedArray, operand: ShapedArray, *, select_prim: Primitive, **params: Any
) -> ShapedArray:
    _check("select_and_gather_add", tangents, operand, select_prim)
    if tangents.shape != operand.shape:
        raise ValueError(
            f"select_and_gather_add tangents and operand shapes must match, got {tangents.shape} and {operand.shape}."
        )
    return ShapedArray(check_windows("select_and_gather_add", operand.shape, **params), operand.dtype)


def _gather_numpy(tangents: Any, operand: Any, select_prim: Primitive, **params: Any) -> Any:
    windows = Windows(**params)
    keeps, _, never = _SELECTS[select_prim]
    chosen: Any = never(operand.dtype)
    counts = reduce_window_shape_tuple(operand.shape, *windows)
    values = padded(tangents, 0, windows.padding, windows.base_dilation)
    operand = padded(operand, chosen, windows.padding, windows.base_dilation)
    found = np.zeros(counts, tangents.dtype)
    chosen = np.full(counts, chosen, operand.dtype)
    for place in _places(windows.window_dimensions, windows.window_strides, windows.window_dilation, counts):
        kept = keeps(chosen, operand[place])
        chosen, found = np.where(kept, chosen, operand[place]), np.where(kept, found, values[place])
    return found


def _gather_transpose(
    ct: Any,
    tangents: Any,
    operand: Any,
    *,
    select_prim: Primitive,
    window_dimensions: Ints,
    window_strides: Ints,
    padding: Pads,
    base_dilation: Ints,
    window_dilation: Ints,
) -> list[Any]:
    assert type(tangents) is UndefinedPrimal and type(operand) is not UndefinedPrimal
    if any(d != 1 for d in window_dilation):
        raise NotImplementedError(
            "VJP not implemented for select_and_gather (MaxPool) with window dilation, got "
            f"window_dilation={window_dilation}. XLA has no such operation; forward mode (jvp) works."
        )
    if type(ct) is Zero:
        return [Zero(tangents.aval), None]
    spread = any(d != 1 for d in base_dilation)
    if spread:
        aval = get_aval(operand)
        never = full((), _SELECTS[select_prim][2](aval.dtype), aval.dtype)
        operand = pad(operand, never, [(0, 0, d - 1) for d in base_dilation])
    out = select_and_scatter_add_p.bind(
        ct,
        operand,
        select_prim=select_prim,
        window_dimensions=window_dimensions,
        window_strides=window_strides,
        padding=padding,
    )
    if spread:
        shape = shape_of(out)
        out = slice(out, (0,) * len(shape), shape, base_dilation)
    return [out, None]


def _gather_lower(
    ctx: Any, avals: Any, out_avals: Any, tangents: str, operand: str, *, select_prim: Primitive, **params: Any
) -> str:
    (_, aval), (out,) = avals, out_avals
    _, direction, never = _SELECTS[select_prim]
    scalar = mlir_type(ShapedArray((), aval.dtype))

    def choose(inner: Any, a: str, s: str, b: str, t: str) -> list[str]:
        kept = _compared(inner, direction, a, b, aval)
        return [inner.emit(f"stablehlo.select {kept}, {x}, {y} : tensor<i1>, {scalar}") for x, y in ((a, b), (s, t))]

    starts = ctx.scalar(never(aval.dtype), aval.dtype), ctx.scalar(0, aval.dtype)
    region = region_text(ctx, [scalar] * 4, choose, [scalar] * 2)
    op = f'"stablehlo.reduce_window"({operand}, {tangents}, {", ".join(starts)}) <{{{window_text(**params)}}}> {region}'
    ty, outs = mlir_type(aval), mlir_type(out)
    return str(ctx.emit_many(f"{op} : ({ty}, {ty}, {scalar}, {scalar}) -> ({outs}, {outs})", 2)[1])


select_and_gather_add_p = Primitive("select_and_gather_add")
declare(
    select_and_gather_add_p,
    abstract=_gather_abstract,
    numpy=_gather_numpy,
    lower=_gather_lower,
    batch=_choice_batch(select_and_gather_add_p),
    jvp=_linear_jvp(select_and_gather_add_p),
)

# -------------------------------------------------------------------------------- scattering


def _scatter_abstract(
    source: ShapedArray, operand: ShapedArray, *, select_prim: Primitive, **params: Any
) -> ShapedArray:
    _check("select_and_scatter_add", source, operand, select_prim)
    ones = (1,) * operand.ndim
    counts = check_windows("select_and_scatter_add", operand.shape, base_dilation=ones, window_dilation=ones, **params)
    if source.shape != counts:
        raise ValueError(
            f"select_and_scatter_add: the operand has windows of shape {counts}, but the source is of shape "
            f"{source.shape}: give a value for each window."
        )
    return operand


def _scatter_numpy(
    source: Any,
    operand: Any,
    select_prim: Primitive,
    window_dimensions: Ints,
    window_strides: Ints,
    padding: Pads,
) -> Any:
    keeps, _, never = _SELECTS[select_prim]
    ones = (1,) * operand.ndim
    wide = padded(operand, never(operand.dtype), padding, ones)
    out = np.zeros(wide.shape, accumulator(operand.dtype))
    places = _places(window_dimensions, window_strides, ones, source.shape)
    which = np.zeros(source.shape, np.intp)
    chosen = wide[places[0]] if source.size else source
    for i, place in enumerate(places[1:], 1):
        kept = keeps(chosen, wide[place])
        chosen, which = np.where(kept, chosen, wide[place]), np.where(kept, which, i)
    for i, place in enumerate(places):
        out[place] += np.where(which == i, source, 0)
    return padded(out, 0, [(-low, -high) for low, high in padding], ones).astype(operand.dtype, copy=False)


def _scatter_transpose(ct: Any, source: Any, operand: Any, *, window_dimensions: Ints, **params: Any) -> list[Any]:
    assert type(source) is UndefinedPrimal and type(operand) is not UndefinedPrimal
    if type(ct) is Zero:
        return [Zero(source.aval), None]
    ones = (1,) * len(window_dimensions)
    out = select_and_gather_add_p.bind(
        ct, operand, window_dimensions=window_dimensions, base_dilation=ones, window_dilation=ones, **params
    )
    return [out, None]


def _scatter_lower(
    ctx: Any,
    avals: Any,
    out_avals: Any,
    source: str,
    operand: str,
    *,
    select_prim: Primitive,
    window_dimensions: Ints,
    window_strides: Ints,
    padding: Pads,
) -> str:
    if not padding:
        return source  # a single element has been chosen; XLA's compiler would end the process
    (source_aval, aval), none = avals, [0] * len(padding)
    _, direction, never = _SELECTS[select_prim]
    scalar_aval = ShapedArray((), aval.dtype)
    scalar = mlir_type(scalar_aval)
    lows, highs = ([pair[i] for pair in padding] for i in (0, 1))
    wide_aval = aval.update(shape=tuple(n + a + b for n, a, b in zip(aval.shape, lows, highs, strict=True)))
    ty, wide_ty = mlir_type(aval), mlir_type(wide_aval)
    fill = ctx.scalar(never(aval.dtype), aval.dtype)
    wide = ctx.emit(
        f"stablehlo.pad {operand}, {fill}, low = {lows}, high = {highs}, interior = {none} : ({ty}, {scalar}) -> "
        f"{wide_ty}"
    )
    zero = ctx.scalar(0, aval.dtype)
    keep = region_text(
        ctx, [scalar, scalar], lambda inner, a, b: [_compared(inner, direction, a, b, aval)], ["tensor<i1>"]
    )
    both = f"{keep[:-1]}, {monoid_region(ctx, 'add', aval.dtype)[1:]}"
    attributes = (
        f"{pads_text(((0, 0),) * len(padding))}, window_dimensions = {array_text(window_dimensions)}, "
        f"window_strides = {array_text(window_strides)}"
    )
    out = ctx.emit(
        f'"stablehlo.select_and_scatter"({wide}, {source}, {zero}) <{{{attributes}}}> {both} : '
        f"({wide_ty}, {mlir_type(source_aval)}, {scalar}) -> {wide_ty}"
    )
    if any(low < 0 or high < 0 for low, high in padding):
        back = f"low = {[-n for n in lows]}, high = {[-n for n in highs]}, interior = {none}"
        return str(ctx.emit(f"stablehlo.pad {out}, {zero}, {back} : ({wide_ty}, {scalar}) -> {ty}"))
    parts = ", ".join(f"{low}:{low + n}" for low, n in zip(lows, aval.shape, strict=True))
    return str(ctx.emit(f"stablehlo.slice {out} [{parts}] : ({wide_ty}) -> {ty}"))


select_and_scatter_add_p = Primitive("select_and_scatter_add")
declare(
    select_and_scatter_add_p,
    abstract=_scatter_abstract,
    numpy=_scatter_numpy,
    lower=_scatter_lower,
    batch=_choice_batch(select_and_scatter_add_p),
    jvp=_linear_jvp(select_and_scatter_add_p),
)
for _primitive, _transpose in (
    (select_and_gather_add_p, _gather_transpose),
    (select_and_scatter_add_p, _scatter_transpose),
):
    transpose_rules[_primitive] = _transpose
    transpose_rules.holes.pop(_primitive)
    parse_rules[_primitive] = _select_read
