"""Cumulative reductions along an axis (cumsum and others), and the parallel scan that defines their derivatives."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.primitive import Primitive
from minijax.core.rules import Rule, Values
from minijax.core.structural import full, instantiate_zeros
from minijax.interpreters.evaluate import by_type
from minijax.interpreters.jvp import jvp
from minijax.lowering.regions import region_text, window_text
from minijax.lowering.text import mlir_type, scalar_type
from minijax.ops.accumulate import SHORT, accumulated
from minijax.ops.declare import declare
from minijax.ops.elementwise import add_p, complex_extremum_text, max_p, min_p, mul_p, or_p
from minijax.ops.elementwise_numpy import complex_numpy, maximum_numpy, with_zeros
from minijax.ops.logaddexp import logaddexp
from minijax.ops.nary import NUM, in_lax
from minijax.ops.reduce import accumulator, one_of_dtype, zero_of_dtype
from minijax.ops.shape import canonical_axis, rev, shape_of
from minijax.ops.slicing import concatenate, pad, slice_in_dim

__all__ = [
    "cumlogsumexp",
    "cumlogsumexp_p",
    "cummax",
    "cummax_p",
    "cummin",
    "cummin_p",
    "cumprod",
    "cumprod_p",
    "cumsum",
    "cumsum_p",
]

add = add_p.bind
max = max_p.bind
min = min_p.bind
mul = mul_p.bind


Combine = Callable[[list[Any], list[Any]], Values]


def associative_scan(combine: Combine, elems: Values, axis: int, reverse: bool = False) -> list[Any]:
    """All prefixes of ``elems`` along ``axis`` under the associative ``combine``, in ``2 log2(n)`` rounds.
    The prefixes of neighbouring pairs are the odd elements of the result (Blelloch, "Prefix sums and their
    applications", 1990)."""
    if reverse:
        elems = [rev(x, (axis,)) for x in elems]
    out = _scan(combine, list(elems), canonical_axis(axis, get_aval(elems[0]).ndim))
    return [rev(x, (axis,)) for x in out] if reverse else out


def _scan(combine: Combine, elems: list[Any], axis: int) -> list[Any]:
    n = shape_of(elems[0])[axis]
    if n < 2:
        return elems
    pairs = list(
        combine([slice_in_dim(x, 0, -1, 2, axis) for x in elems], [slice_in_dim(x, 1, None, 2, axis) for x in elems])
    )
    odd = _scan(combine, pairs, axis)
    before = [slice_in_dim(x, 0, -1, 1, axis) for x in odd] if n % 2 == 0 else odd
    later = combine(before, [slice_in_dim(x, 2, None, 2, axis) for x in elems])
    even = [concatenate([slice_in_dim(x, 0, 1, 1, axis), y], axis) for x, y in zip(elems, later, strict=True)]
    return [_interleaved(a, b, axis) for a, b in zip(even, odd, strict=True)]


def _interleaved(a: Any, b: Any, axis: int) -> Any:
    """``a[0], b[0], a[1], b[1], ...``: pad both with zeros in between, and add them."""
    aval = get_aval(a)
    shorter = aval.shape[axis] > shape_of(b)[axis]
    spread: list[Any] = []
    for x, low, high in ((a, 0, int(not shorter)), (b, 1, int(shorter))):
        config = [(0, 0, 0)] * aval.ndim
        config[axis] = (low, high, 1)
        spread.append(pad(x, full((), 0, aval.dtype), config))
    return or_p.bind(*spread) if dtypes.is_bool(aval.dtype) else add(*spread)


NEGATIVE = "XLA operations do not allow negative axes"


def _cumulative_abstract(name: str) -> Rule:
    def cumulative_abstract(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        if axis < 0:
            raise ValueError(NEGATIVE)
        if axis >= x.ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of shape {x.shape}")
        if dtypes.kind(x.dtype) not in NUM:
            raise TypeError(
                f"{name} does not accept dtype {dtype_name(x.dtype)}. Accepted dtypes are subtypes of number."
            )
        return x

    return cumulative_abstract


# A function of (values, axis, dtype) that accumulates along the axis.
Accumulator = Callable[[Any, int, np.dtype], Any]


def _cumulative_numpy(accumulates: Rule) -> Rule:
    """The NumPy rule of a cumulative reduction. ``accumulates(length, dtype)`` returns an ``Accumulator``."""

    @by_type
    def cumulative_numpy(x: Any, axis: int, reverse: bool) -> Rule:
        dtype = x.dtype
        wide = accumulator(dtype)
        accumulate = accumulates(x.shape[axis], wide)
        if wide is dtype and not reverse:
            return lambda x: accumulate(x, axis, dtype)

        def other_way_or_narrower(x: Any) -> Any:
            out = np.flip(accumulate(np.flip(x, axis), axis, wide), axis) if reverse else accumulate(x, axis, wide)
            return out if wide is dtype else out.astype(dtype)

        return other_way_or_narrower

    return cumulative_numpy


def _cumulative_batch(primitive: Primitive) -> Rule:
    def cumulative_batch(args: Values, dims: Values, *, axis: int, reverse: bool) -> Any:
        (x,), (dim,) = args, dims
        return primitive.bind(x, axis=axis if axis < dim else axis + 1, reverse=reverse), dim

    return cumulative_batch


def _cumulative_lower(combine: Rule, identity: Rule) -> Rule:
    """Lower as windows that are as long as the axis. With the padding, a window starts (or ends) at every element."""

    def cumulative_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, axis: int, reverse: bool) -> str:
        (aval,) = avals
        n = aval.shape[axis]
        if aval.size == 0:
            return x
        ones = [1] * aval.ndim
        window = [n if d == axis else 1 for d in range(aval.ndim)]
        padding = [[0, 0] for _ in ones]
        padding[axis] = [0, n - 1] if reverse else [n - 1, 0]
        scalar, ty = scalar_type(aval.dtype), mlir_type(aval)
        start = ctx.scalar(identity(aval.dtype), aval.dtype)
        region = region_text(ctx, [scalar, scalar], lambda inner, a, b: [combine(inner, a, b, aval.dtype)], [scalar])
        attributes = window_text(
            window_dimensions=window, window_strides=ones, padding=padding, base_dilation=ones, window_dilation=ones
        )
        return ctx.emit(
            f'"stablehlo.reduce_window"({x}, {start}) <{{{attributes}}}> {region} : ({ty}, {scalar}) -> {ty}'
        )

    return cumulative_lower


def _one_op(op: str, direction: str = "") -> Rule:
    """The one operation of a window's region. For complex numbers it is the extremum in ``direction``, GT or LT."""

    def combine(inner: Any, a: str, b: str, dtype: np.dtype) -> str:
        scalar = ShapedArray((), dtype)
        if direction and dtypes.is_complex(dtype):
            return complex_extremum_text(inner, direction, a, b, scalar)
        return inner.emit(f"stablehlo.{op} {a}, {b} : {mlir_type(scalar)}")

    return combine


def _sums(ufunc: np.ufunc) -> Rule:
    """Cumulative sums or log-sum-exps. With many floats, ``accumulated`` keeps the error small."""
    of_many = functools.partial(accumulated, ufunc)
    return lambda n, dtype: ufunc.accumulate if n <= SHORT or dtype.kind not in "fc" else of_many


def _extrema(ufunc: np.ufunc, negative: bool) -> Rule:
    """Cumulative maxima or minima. ``negative``: whether -0 wins over 0."""

    def of_floats(x: Any, axis: int, dtype: np.dtype) -> Any:
        out = ufunc.accumulate(x, axis, dtype)
        if not with_zeros(out):
            return out
        met = np.logical_or.accumulate((x == 0) & (np.signbit(x) == negative), axis)
        return np.where((out == 0) & met, dtype.type(-0.0 if negative else 0.0), out)

    return lambda n, dtype: of_floats if dtypes.kind(dtype) == "f" else ufunc.accumulate


def _scan_jvp(combine: Rule) -> Rule:
    """Return a jvp rule, the jvp of an equivalent parallel scan: reductions of windows have no derivative."""

    def cumulative_jvp(primals: Values, tangents: Values, *, axis: int, reverse: bool) -> Any:
        def scan(x: Any) -> list[Any]:
            return associative_scan(lambda a, b: [combine(a[0], b[0])], [x], axis, reverse)

        (out,), (tangent,) = jvp(scan, primals, [instantiate_zeros(t) for t in tangents], "cumulative")
        return out, instantiate_zeros(tangent)

    return cumulative_jvp


def _cumulative(name: str, accumulates: Rule, combine: Rule, identity: Rule, **rules: Any) -> Primitive:
    primitive = Primitive(name)
    return declare(
        primitive,
        abstract=_cumulative_abstract(name),
        numpy=_cumulative_numpy(accumulates),
        lower=_cumulative_lower(combine, identity),
        batch=_cumulative_batch(primitive),
        **rules,
    )


def _cumsum_transpose(ct: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
    return [cumsum_p.bind(ct, axis=axis, reverse=not reverse)]


cumsum_p = _cumulative("cumsum", _sums(np.add), _one_op("add"), zero_of_dtype, transpose=_cumsum_transpose)
cumprod_p = _cumulative(
    "cumprod", lambda n, dtype: np.multiply.accumulate, _one_op("multiply"), one_of_dtype, jvp=_scan_jvp(mul)
)
cummax_p = _cumulative(
    "cummax", _extrema(np.maximum, False), _one_op("maximum", "GT"), dtypes.min_value, jvp=_scan_jvp(max)
)
cummin_p = _cumulative(
    "cummin", _extrema(np.minimum, True), _one_op("minimum", "LT"), dtypes.max_value, jvp=_scan_jvp(min)
)


def _logaddexp_text(ctx: Any, a: str, b: str, ty: str) -> str:
    """Write ``log(exp(a) + exp(b))`` without overflow, for scalars of MLIR type ``ty``; returns its name."""
    flags = "tensor<i1>"
    most = ctx.emit(f"stablehlo.maximum {a}, {b} : {ty}")
    delta = ctx.emit(f"stablehlo.subtract {a}, {b} : {ty}")
    distance = ctx.emit(f"stablehlo.abs {delta} : {ty}")
    minus = ctx.emit(f"stablehlo.negate {distance} : {ty}")
    power = ctx.emit(f"stablehlo.exponential {minus} : {ty}")
    rest = ctx.emit(f"stablehlo.log_plus_one {power} : {ty}")
    usual = ctx.emit(f"stablehlo.add {most}, {rest} : {ty}")
    # the difference of equal infinities is nan; use their sum, which is the correct result
    same = ctx.emit(f"stablehlo.compare NE, {delta}, {delta}, FLOAT : ({ty}, {ty}) -> {flags}")
    total = ctx.emit(f"stablehlo.add {a}, {b} : {ty}")
    return ctx.emit(f"stablehlo.select {same}, {total}, {usual} : {flags}, {ty}")


def _complex_logaddexp_text(ctx: Any, a: str, b: str, aval: ShapedArray) -> str:
    """The same as ``_logaddexp_text`` for complex scalars; the imaginary part is between -pi and pi."""
    part_aval = ShapedArray((), dtypes.real_dtype(aval.dtype))
    ty, part = mlir_type(aval), mlir_type(part_aval)

    def emit(op: str, *operands: str, of: str = part) -> str:
        return ctx.emit(f"stablehlo.{op} {', '.join(operands)} : {of}")

    larger = complex_extremum_text(ctx, "GT", a, b, aval)
    both = emit("add", a, b, of=ty)
    twice = emit("multiply", larger, ctx.full(2, aval), of=ty)
    power = emit("exponential", emit("subtract", both, twice, of=ty), of=ty)
    out = emit("add", larger, emit("log_plus_one", power, of=ty), of=ty)
    real, imaginary = (ctx.emit(f"stablehlo.{which} {out} : ({ty}) -> {part}") for which in ("real", "imag"))
    half, whole, zero = (ctx.full(x, part_aval) for x in (np.pi, 2 * np.pi, 0))
    rest = emit("remainder", emit("add", imaginary, half), whole)
    below = ctx.emit(f"stablehlo.compare LT, {rest}, {zero}, FLOAT : ({part}, {part}) -> tensor<i1>")
    rest = emit("select", below, emit("add", rest, whole), rest, of=f"tensor<i1>, {part}")
    return emit("complex", real, emit("subtract", rest, half), of=ty)


def _logaddexp_combine(inner: Any, a: str, b: str, dtype: np.dtype) -> str:
    aval = ShapedArray((), dtype)
    if dtypes.is_complex(dtype):
        return _complex_logaddexp_text(inner, a, b, aval)
    return _logaddexp_text(inner, a, b, mlir_type(aval))


def _log_of_zero(dtype: np.dtype) -> Any:
    """The identity of log-sum-exp, -inf."""
    if dtypes.is_integer(dtype):
        raise OverflowError(
            f"cannot convert float infinity to integer: cumlogsumexp begins with -inf, which {dtype_name(dtype)} "
            "cannot hold. Convert the operand to a float first."
        )
    return dtypes.min_value(dtype)


def _sums_of_exponentials(n: int, dtype: np.dtype) -> Accumulator:
    _log_of_zero(dtype)
    return _running_logaddexp if dtypes.is_complex(dtype) else _sums(np.logaddexp)(n, dtype)


def _running_logaddexp(x: Any, axis: int, dtype: np.dtype) -> Any:
    out, step, at = np.array(x), 1, (slice(None),) * axis
    while step < x.shape[axis]:
        # here each element is the combination of itself and the ``step - 1`` elements before it
        out[(*at, slice(step, None))] = _logaddexp_complex(out[(*at, slice(-step))], out[(*at, slice(step, None))])
        step *= 2
    return out


def _logaddexp_complex(x: Any, y: Any) -> Any:
    larger = maximum_numpy(x, y)
    with np.errstate(invalid="ignore"):
        out = larger + np.log1p(np.exp(x + y - larger * 2))
    whole = out.real.dtype.type(2 * np.pi)
    turned = out.imag + whole / 2
    return complex_numpy(out.real, turned - whole * np.floor(turned / whole) - whole / 2)


cumlogsumexp_p = _cumulative(
    "cumlogsumexp", _sums_of_exponentials, _logaddexp_combine, _log_of_zero, jvp=_scan_jvp(logaddexp)
)


def _from_front(axis: Any) -> int:
    """``axis`` as an integer. ValueError if it is negative, also under differentiation."""
    if operator.index(axis) < 0:
        raise ValueError(NEGATIVE)
    return operator.index(axis)


def _running(primitive: Primitive, doc: str) -> Rule:
    def function(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        return primitive.bind(operand, axis=_from_front(axis), reverse=bool(reverse))

    return in_lax(function, primitive.name, doc)  # type: ignore[no-any-return]


cumsum = _running(cumsum_p, "The running sum along ``axis``, from the end if ``reverse``; TypeError for booleans.")
cumprod = _running(cumprod_p, "The running product along ``axis``, from the end if ``reverse``.")
cummax = _running(cummax_p, "The running maximum along ``axis``, from the end if ``reverse``.")
cummin = _running(cummin_p, "The running minimum along ``axis``, from the end if ``reverse``.")
cumlogsumexp = _running(
    cumlogsumexp_p, "The running ``log(sum(exp(...)))`` along ``axis``, without overflow; floats only."
)
