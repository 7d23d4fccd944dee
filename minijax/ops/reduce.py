"""Reductions over axes: sum, product, maximum, minimum, bitwise and logical ones, argmax and argmin."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, dtype_name, sharded_part, sharding_of_type
from minijax.core.primitive import Primitive
from minijax.core.rules import Axes, Ints, Rule, Shape, Values
from minijax.core.structural import batched_sharding, full, instantiate_zeros
from minijax.interpreters.evaluate import by_type
from minijax.interpreters.jvp import jvp
from minijax.lowering.regions import region_text
from minijax.lowering.text import array_text, dims_text, mlir_type, scalar_type
from minijax.ops.accumulate import SHORT, sum_of
from minijax.ops.convert import convert
from minijax.ops.declare import declare, unchanged
from minijax.ops.elementwise import complex_extremum_text, div_p, mul_p
from minijax.ops.elementwise_numpy import with_zeros
from minijax.ops.nary import BOOL_OR_INT, NO_DERIVATIVE, NUM, ZERO, eq_p, in_lax, reduce_sum_p
from minijax.ops.shape import meant_sharding, repeated, reshape, squeeze
from minijax.ops.slicing import pad, slice_in_dim

__all__ = [
    "argmax",
    "argmax_p",
    "argmin",
    "argmin_p",
    "reduce_and",
    "reduce_and_p",
    "reduce_max",
    "reduce_max_p",
    "reduce_min",
    "reduce_min_p",
    "reduce_or",
    "reduce_or_p",
    "reduce_prod",
    "reduce_prod_p",
    "reduce_sum",
    "reduce_sum_p",
    "reduce_xor",
    "reduce_xor_p",
]

div = div_p.bind
mul = mul_p.bind

_FLOAT32 = np.dtype(np.float32)


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype in which XLA adds numbers of ``dtype``: float32 for 8- and 16-bit floats."""
    return _FLOAT32 if dtype.itemsize < 4 and dtypes.kind(dtype) == "f" else dtype


def reduced_shape(x: ShapedArray, axes: Axes) -> Shape:
    """The shape of ``x`` without ``axes``. ValueError for invalid axes."""
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axes' of reduction: {axes}")
    if any(not 0 <= a < x.ndim for a in axes):
        raise ValueError(f"reduction axes {axes} contains out-of-bounds indices for {x}.")
    return tuple(n for i, n in enumerate(x.shape) if i not in axes)


def _reduce_abstract(name: str, accepts: str | None) -> Rule:
    def reduce_abstract(x: ShapedArray, *, axes: Axes, out_sharding: Any = None) -> ShapedArray:
        if accepts == BOOL_OR_INT and dtypes.kind(x.dtype) not in accepts:
            raise TypeError(f"logical reduction requires operand dtype bool or int, got {dtype_name(x.dtype)}.")
        shape = reduced_shape(x, axes)
        if accepts == NUM and dtypes.kind(x.dtype) not in accepts:
            raise TypeError(
                f"{name} does not accept dtype {dtype_name(x.dtype)}. Accepted dtypes are subtypes of number."
            )
        weak = x.weak_type and accepts != BOOL_OR_INT
        return ShapedArray(shape, x.dtype, weak)

    return reduce_abstract


def _arithmetic_numpy(ufunc: np.ufunc, of_many: Rule | None = None) -> Rule:
    """Sums and products in the operand's dtype (NumPy widens small integers). ``of_many`` adds long rows of floats."""

    @by_type
    def reduce_numpy(x: Any, axes: Axes, out_sharding: Any = None) -> Rule:
        if not axes:
            return unchanged
        dtype = x.dtype
        wide = accumulator(dtype)
        many = math.prod([x.shape[a] for a in axes]) > SHORT and wide.kind in "fc"
        reduce = of_many if of_many is not None and many else ufunc.reduce
        if wide is dtype:
            return lambda x: reduce(x, axes, dtype)
        return lambda x: reduce(x, axes, wide).astype(dtype)

    return reduce_numpy


def _extremum_numpy(ufunc: np.ufunc, identity: Rule, negative: bool) -> Rule:
    """Maxima and minima; the identity if there are no elements. ``negative``: whether -0 wins over 0."""

    @by_type
    def reduce_numpy(x: Any, axes: Axes) -> Rule:
        if not axes:
            return unchanged
        if x.size == 0:
            return lambda x: ufunc.reduce(x, axes, initial=identity(x.dtype))
        if dtypes.kind(x.dtype) != "f":
            return lambda x: ufunc.reduce(x, axes)
        has_zeros = operator.not_ if len(axes) == x.ndim else with_zeros

        def of_floats(x: Any) -> Any:
            out = ufunc.reduce(x, axes)
            if not has_zeros(out):
                return out
            met = np.any((x == 0) & (np.signbit(x) == negative), axes)
            return np.where((out == 0) & met, x.dtype.type(-0.0 if negative else 0.0), out)

        return of_floats

    return reduce_numpy


def _bitwise_numpy(ufunc: np.ufunc) -> Rule:
    def reduce_numpy(x: Any, axes: Axes) -> Any:
        return ufunc.reduce(x, axes, x.dtype) if axes else x

    return reduce_numpy


def _reduce_batch(primitive: Primitive) -> Rule:
    def reduce_batch(args: Values, dims: Values, *, axes: Axes, **params: Any) -> Any:
        (x,), (dim,) = args, dims
        out_dim = dim - len([a for a in axes if a < dim])
        moved = tuple(a if a < dim else a + 1 for a in axes)
        if primitive.sharding_param:
            sharding, part = params[primitive.sharding_param], sharded_part(get_aval(x), dim)
            params[primitive.sharding_param] = batched_sharding(sharding, out_dim, part)
        return primitive.bind(x, axes=moved, **params), out_dim

    return reduce_batch


# The direction of the comparison by which complex numbers are reduced; StableHLO has no order for them.
_COMPLEX_ORDER = {"maximum": "GT", "minimum": "LT"}


def _reduce_lower(op: str, identity: Rule) -> Rule:
    def reduce_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, axes: Axes, out_sharding: Any = None) -> str:
        (aval,), (out,) = avals, out_avals
        start = ctx.scalar(identity(aval.dtype), aval.dtype)
        types = f"({mlir_type(aval)}, {scalar_type(aval.dtype)}) -> {mlir_type(out)}"
        if aval.dtype.kind == "c" and op in _COMPLEX_ORDER:
            scalar = scalar_type(aval.dtype)
            region = region_text(
                ctx,
                [scalar, scalar],
                lambda inner, a, b: [
                    complex_extremum_text(inner, _COMPLEX_ORDER[op], a, b, ShapedArray((), aval.dtype))
                ],
                [scalar],
            )
            return ctx.emit(
                f'"stablehlo.reduce"({x}, {start}) <{{dimensions = {array_text(axes)}}}> {region} : {types}'
            )
        return ctx.emit(
            f"stablehlo.reduce({x} init: {start}) applies stablehlo.{op} across dimensions = "
            f"{dims_text(axes)} : {types}"
        )

    return reduce_lower


def _reducer(
    primitive: Primitive, accepts: str | None, numpy: Rule, op: str, identity: Rule, **rules: Any
) -> Primitive:
    """A reduction with the parameter ``axes``. ``op``: its StableHLO operation. ``rules``: its derivative rules."""
    return declare(
        primitive,
        abstract=_reduce_abstract(primitive.name, accepts),
        numpy=numpy,
        lower=_reduce_lower(op, identity),
        batch=_reduce_batch(primitive),
        **rules,
    )


def zero_of_dtype(dtype: np.dtype) -> Any:
    return dtype.type(0)


def one_of_dtype(dtype: np.dtype) -> Any:
    return dtype.type(1)


def _all_ones(dtype: np.dtype) -> Any:
    return np.bool_(True) if dtypes.is_bool(dtype) else np.array(-1).astype(dtype)[()]


def _reduce_sum_transpose(ct: Any, x: Any, *, axes: Axes, out_sharding: Any) -> list[Any]:
    shape = x.aval.shape
    if not axes and out_sharding is None:
        return [ct]
    kept = tuple(d for d in range(len(shape)) if d not in axes)
    return [repeated(ct, shape, kept, sharding_of_type(x.aval, get_aval(ct)))]


_reducer(
    reduce_sum_p,
    NUM,
    _arithmetic_numpy(np.add, sum_of),
    "add",
    zero_of_dtype,
    transpose=_reduce_sum_transpose,
    sharding="out_sharding",
)


def _product_by_halves(x: Any, one: Any, shape: Shape) -> Any:
    """The product along axis 0: multiply the first half by the second half until one element is left."""
    while get_aval(x).shape[0] > 1:
        n = get_aval(x).shape[0]
        half = (n + 1) // 2
        first, second = slice_in_dim(x, 0, half), slice_in_dim(x, half, None)
        if n % 2:
            second = pad(second, one, [(0, 1, 0), *[(0, 0, 0)] * len(shape)])
        x = mul(first, second)
    if get_aval(x).shape[0] == 0:
        return full(shape, 1, get_aval(x).dtype)
    return squeeze(x, (0,))


def _reduce_prod_jvp(primals: Values, tangents: Values, *, axes: Axes) -> Any:
    (x,), (t,) = primals, map(instantiate_zeros, tangents)
    shape = get_aval(x).shape
    kept = [d for d in range(len(shape)) if d not in axes]
    rest = tuple(shape[d] for d in kept)
    new_shape = (math.prod(shape[a] for a in axes), *rest)
    one = full((), 1, get_aval(x).dtype)
    x, t = reshape(x, new_shape, (*axes, *kept)), reshape(t, new_shape, (*axes, *kept))
    (out,), (tangent,) = jvp(lambda x: [_product_by_halves(x, one, rest)], [x], [t], "reduce_prod")
    return out, instantiate_zeros(tangent)


reduce_prod_p = _reducer(
    Primitive("reduce_prod"), NUM, _arithmetic_numpy(np.multiply), "multiply", one_of_dtype, jvp=_reduce_prod_jvp
)


def _extremum_derivative(g: Any, ans: Any, x: Any, *, axes: Axes) -> Any:
    """The mean of the tangents of all elements equal to the extremum."""
    kept = tuple(1 if d in axes else n for d, n in enumerate(get_aval(x).shape))
    attained = convert(eq_p.bind(x, reshape(ans, kept)), get_aval(g).dtype)
    count = reduce_sum_p.bind(attained, axes=axes, out_sharding=None)
    return div(reduce_sum_p.bind(mul(g, attained), axes=axes, out_sharding=None), count)


reduce_max_p = _reducer(
    Primitive("reduce_max"),
    None,
    _extremum_numpy(np.maximum, dtypes.min_value, False),
    "maximum",
    dtypes.min_value,
    derivative=_extremum_derivative,
)
reduce_min_p = _reducer(
    Primitive("reduce_min"),
    None,
    _extremum_numpy(np.minimum, dtypes.max_value, True),
    "minimum",
    dtypes.max_value,
    derivative=_extremum_derivative,
)


reduce_and_p = _reducer(
    Primitive("reduce_and"), BOOL_OR_INT, _bitwise_numpy(np.bitwise_and), "and", _all_ones, derivative=NO_DERIVATIVE
)
reduce_or_p = _reducer(
    Primitive("reduce_or"), BOOL_OR_INT, _bitwise_numpy(np.bitwise_or), "or", zero_of_dtype, derivative=NO_DERIVATIVE
)
reduce_xor_p = _reducer(
    Primitive("reduce_xor"), BOOL_OR_INT, _bitwise_numpy(np.bitwise_xor), "xor", zero_of_dtype, derivative=NO_DERIVATIVE
)


def _arg_abstract(x: ShapedArray, *, axes: Axes, index_dtype: np.dtype) -> ShapedArray:
    (axis,) = axes
    if dtypes.is_complex(x.dtype):
        raise TypeError(
            f"argmin and argmax do not accept dtype {dtype_name(x.dtype)}: complex numbers have no order. Apply argmax "
            "or argmin to the absolute value or to the real part."
        )
    if not 0 <= axis < x.ndim:
        raise ValueError(f"Invalid axis {axis} for operand shape {x.shape}")
    if x.shape[axis] < 1:
        raise ValueError(f"argmin and argmax require non-empty reduced dimension. operand.shape={x.shape} axis={axis}")
    if not dtypes.is_integer(index_dtype):
        raise TypeError(f"index_dtype must be an integer type, but got {dtype_name(index_dtype)}")
    return ShapedArray((*x.shape[:axis], *x.shape[axis + 1 :]), index_dtype)


def _arg_numpy(find: Rule) -> Rule:
    def arg_numpy(x: Any, axes: Axes, index_dtype: np.dtype) -> Any:
        if accumulator(x.dtype) is not x.dtype:
            x = x.astype(_FLOAT32)  # NumPy's argmax of small floats ignores nan
        return find(x, axes[0]).astype(index_dtype)

    return arg_numpy


def _arg_lower(better: str, identity: Rule) -> Rule:
    """Reduce pairs (value, index) to the pair with the better value, or the lower index if values tie. nan is best."""

    def arg_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, axes: Axes, index_dtype: np.dtype) -> str:
        (aval,), (out,) = avals, out_avals
        indices = aval.update(dtype=index_dtype)
        value, index, flag = (scalar_type(d) for d in (aval.dtype, index_dtype, np.dtype(bool)))
        kind = "FLOAT" if dtypes.is_inexact(aval.dtype) else "SIGNED" if dtypes.is_signed(aval.dtype) else "UNSIGNED"
        index_kind = "SIGNED" if dtypes.is_signed(index_dtype) else "UNSIGNED"

        def compare(inner: Any, direction: str, a: str, b: str, how: str, ty: str) -> str:
            return inner.emit(f"stablehlo.compare {direction}, {a}, {b}, {how} : ({ty}, {ty}) -> {flag}")

        def choose(inner: Any, a: str, i: str, b: str, j: str) -> list[str]:
            wins = compare(inner, better, a, b, kind, value)
            nan = compare(inner, "NE", a, a, kind, value)
            wins = inner.emit(f"stablehlo.or {wins}, {nan} : {flag}")
            ties = compare(inner, "EQ", a, b, kind, value)
            earlier = compare(inner, "LT", i, j, index_kind, index)
            first = inner.emit(f"stablehlo.and {ties}, {earlier} : {flag}")
            take = inner.emit(f"stablehlo.or {wins}, {first} : {flag}")
            return [
                inner.emit(f"stablehlo.select {wins}, {a}, {b} : {flag}, {value}"),
                inner.emit(f"stablehlo.select {take}, {i}, {j} : {flag}, {index}"),
            ]

        counts = ctx.emit(f"stablehlo.iota dim = {axes[0]} : {mlir_type(indices)}")
        worst = ctx.scalar(identity(aval.dtype), aval.dtype)
        zero = ctx.scalar(0, index_dtype)
        region = region_text(ctx, [value, index, value, index], choose, [value, index])
        types = f"({mlir_type(aval)}, {mlir_type(indices)}, {value}, {index})"
        outs = f"({mlir_type(out.update(dtype=aval.dtype))}, {mlir_type(out)})"
        op = f'"stablehlo.reduce"({x}, {counts}, {worst}, {zero}) <{{dimensions = array<i64: {axes[0]}>}}>'
        return ctx.emit_many(f"{op} {region} : {types} -> {outs}", 2)[1]

    return arg_lower


def _index_of_extremum(name: str, find: Rule, better: str, identity: Any) -> Primitive:
    primitive = Primitive(name)
    return declare(
        primitive,
        abstract=_arg_abstract,
        numpy=_arg_numpy(find),
        lower=_arg_lower(better, identity),
        batch=_reduce_batch(primitive),
        derivative=ZERO,
    )


argmax_p = _index_of_extremum("argmax", np.argmax, "GT", dtypes.min_value)
argmin_p = _index_of_extremum("argmin", np.argmin, "LT", dtypes.max_value)


def _axes(axes: Ints) -> Axes:
    return tuple(map(operator.index, axes))


def reduce_sum(operand: Any, axes: Ints, *, out_sharding: Any = None) -> Any:
    """The sum over ``axes`` (counted from the front), in ``operand``'s dtype; TypeError for booleans.

    ``out_sharding`` is the result's sharding over a mesh with explicit axes.
    """
    if out_sharding is not None:
        out_sharding = meant_sharding(out_sharding, "reduce_sum")
    return reduce_sum_p.bind(operand, axes=_axes(axes), out_sharding=out_sharding)


def _reduction(primitive: Primitive, doc: str) -> Rule:
    def function(operand: Any, axes: Ints) -> Any:
        return primitive.bind(operand, axes=_axes(axes))

    return in_lax(function, primitive.name, doc)  # type: ignore[no-any-return]


reduce_prod = _reduction(reduce_prod_p, "The product over ``axes``, in ``operand``'s dtype; TypeError for booleans.")
reduce_max = _reduction(
    reduce_max_p, "The maximum over ``axes``; nan if there is one; of no elements, the least value of the dtype."
)
reduce_min = _reduction(
    reduce_min_p, "The minimum over ``axes``; nan if there is one; of no elements, the greatest value of the dtype."
)
reduce_and = _reduction(reduce_and_p, "The bitwise and (for booleans: all) over ``axes``; TypeError for floats.")
reduce_or = _reduction(reduce_or_p, "The bitwise or (for booleans: any) over ``axes``; TypeError for floats.")
reduce_xor = _reduction(reduce_xor_p, "The bitwise exclusive or over ``axes``; TypeError for floats.")


def _place_function(primitive: Primitive, what: str) -> Rule:
    def function(operand: Any, axis: int, index_dtype: Any) -> Any:
        dtype = dtypes.check_user_dtype(index_dtype, primitive.name, x64_enabled())
        return primitive.bind(operand, axes=(operator.index(axis),), index_dtype=dtype)

    doc = f"The first index, of ``index_dtype``, of the {what}imum along ``axis``, nan counting as "
    return in_lax(function, primitive.name, doc + ("greatest." if what == "max" else "least."))  # type: ignore[no-any-return]


argmax, argmin = _place_function(argmax_p, "max"), _place_function(argmin_p, "min")
