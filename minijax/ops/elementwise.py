"""The elementwise primitives, one row each, and their functions in ``lax``.

A row has the primitive's name, accepted dtypes, NumPy implementation, StableHLO op, derivative, and the docstring of
its function (see ``ops.nary``). Functions with parameters besides their operands are written out. Operands are
arrays or Python scalars of one dtype and one shape; scalars and dimensions of size 1 are repeated. Other operands
raise TypeError; ``minijax.numpy`` promotes dtypes first. Results have the operands' dtype by default.

The formulas of derivatives are those of JAX, so that jaxprs agree. They call ``bind`` directly (``_mul``, not
``mul``) because they run for every differentiated operation.
"""

from __future__ import annotations

import enum
import functools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.core import avals as types
from minijax.core import dtypes, structural
from minijax.core.array import LiteralArray, get_aval
from minijax.core.avals import ShapedArray, dtype_name, over_mesh_of, sharding_of_type
from minijax.core.primitive import Primitive
from minijax.core.rules import Rule, depends_on_types
from minijax.core.structural import UndefinedPrimal, Zero
from minijax.interpreters.evaluate import by_type
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import batching_rules
from minijax.ir.pretty import parse_rules
from minijax.lowering.lower import lowering_rules
from minijax.lowering.text import mlir_type
from minijax.ops.convert import alike
from minijax.ops.convert import convert_element_type_p as convert_p
from minijax.ops.declare import unchanged
from minijax.ops.elementwise_numpy import (
    abs_numpy,
    atan_numpy,
    by_kind,
    clz_numpy,
    complex_dtype_of,
    complex_numpy,
    cos_numpy,
    digamma_numpy,
    div_numpy,
    erf_inv_numpy,
    in_total_order,
    lgamma_numpy,
    logistic_numpy,
    maximum_numpy,
    minimum_numpy,
    nextafter_numpy,
    polygamma_numpy,
    population_count_numpy,
    pow_numpy,
    rem_numpy,
    rsqrt_numpy,
    scipy_special,
    shift_left_numpy,
    shift_right_arithmetic_numpy,
    shift_right_logical_numpy,
    sign_numpy,
    zero_signs,
)
from minijax.ops.nary import (
    ANY,
    BOOL_OR_INT,
    FLOAT,
    INEXACT,
    INT,
    KEY,
    NO_DERIVATIVE,
    NUM,
    ORDERED,
    ZERO,
    Binary,
    binary,
    binary_function,
    deflinear,
    elementwise,
    eq_p,
    is_row,
    maybe_broadcast,
    op_lowering,
    unary,
    unbroadcast,
)
from minijax.ops.products import mul_p
from minijax.ops.select import select


@functools.lru_cache(maxsize=4096)
def _typed_scalar(dtype: np.dtype, weak_type: bool, kind: Any, text: str) -> LiteralArray:
    value = dtype.type(kind(text))
    literal = LiteralArray(value, ShapedArray((), dtype, weak_type))
    if weak_type:
        # jaxprs show this Python number, which is not rounded to the dtype
        literal.written = type(value.item())(kind(text))
    return literal


def const(example: Any, value: Any) -> LiteralArray:
    """``value`` as a scalar of ``example``'s dtype; weakly typed if ``example`` is a weakly typed scalar."""
    aval = get_aval(example)
    # the key is the repr, because 0.0 and -0.0 are equal but need two entries
    kind: Any = type(value)
    return _typed_scalar(aval.dtype, aval.weak_type and not aval.shape, kind, repr(value))


def _one(example: Any) -> Any:
    """The scalar 1 with ``example``'s dtype, mesh and weak type. Rules use ``_one`` or ``const`` as JAX's rules do."""
    aval = get_aval(example)
    one = _typed_scalar(aval.dtype, aval.weak_type, int, "1")
    return over_mesh_of(one, example) if types.sharded_types_made else one


def _full_like(x: Any, value: Any) -> Any:
    aval = get_aval(x)
    sharding = sharding_of_type(aval) if types.sharded_types_made else None
    return structural.full(aval.shape, value, aval.dtype, aval.weak_type, sharding)


# ---------------------------------------------------------------------------------------------- arithmetic
neg, neg_p = unary("neg", NUM, np.negative, "negate", None, "The negative.")
deflinear(neg_p, lambda ct, x: [_neg(ct)])
_neg: Rule = neg_p.bind

_mul = mul_p.bind


def _sum_jvp(primitive: Any, right: Rule) -> Rule:
    @depends_on_types
    def sum_or_difference_jvp(primals: Any, tangents: Any) -> Any:
        ans = primitive.bind(*primals)
        s, t = tangents
        if type(t) is Zero:
            return ans, s if type(s) is Zero else maybe_broadcast(get_aval(ans).shape, s)
        if type(s) is Zero:
            return ans, maybe_broadcast(get_aval(ans).shape, right(t))
        return ans, primitive.bind(s, t)

    return sum_or_difference_jvp


def _sum_transpose(right: Rule) -> Rule:
    def sum_or_difference_transpose(ct: Any, x: Any, y: Any) -> Any:
        return [
            unbroadcast(x.aval, ct) if type(x) is UndefinedPrimal else None,
            unbroadcast(y.aval, right(ct)) if type(y) is UndefinedPrimal else None,
        ]

    return sum_or_difference_transpose


add, add_p = binary("add", NUM, np.add, "add", [None, None], "The sum.")
jvp_rules[add_p] = _sum_jvp(add_p, unchanged)
transpose_rules[add_p] = _sum_transpose(unchanged)
_add = add_p.bind

sub, sub_p = binary("sub", NUM, np.subtract, "subtract", [None, None], "The difference.")
jvp_rules[sub_p] = _sum_jvp(sub_p, _neg)
transpose_rules[sub_p] = _sum_transpose(_neg)
_sub = sub_p.bind

# The sum of two cotangents. Its primitive is declared in core, because the interpreters need it.
elementwise("add_any", [ANY, ANY], np.add, "add", [None, None], primitive=structural.add_any_p)


@structural.add_any_p.def_abstract_eval
def add_any_abstract(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    """The operands have the same type; the sum has the weak type of the first, as in JAX."""
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        raise TypeError(f"add_any requires operands of one type, got {x} and {y}.")
    return x


jvp_rules[structural.add_any_p] = _sum_jvp(structural.add_any_p, unchanged)


def add_any_batch(args: Any, dims: Any) -> Any:
    """Batch ``add_any``, which broadcasts no operand: both must have the same type."""
    (x, y), (d, e) = args, dims
    if d is None:
        return structural.add_any_p.bind(structural.broadcast(x, get_aval(y).shape[e], e), y), e
    if e is None:
        return structural.add_any_p.bind(x, structural.broadcast(y, get_aval(x).shape[d], d)), d
    return structural.add_any_p.bind(structural.moveaxis(x, d, e), y), e


batching_rules[structural.add_any_p] = add_any_batch
transpose_rules[structural.add_any_p] = _sum_transpose(unchanged)


div, div_p = binary(
    "div", NUM, div_numpy, "divide",
    [lambda g, ans, x, y: _div(g, y), lambda g, ans, x, y: _mul(_mul(_neg(g), x), integer_pow(y, -2))],
    "The quotient. Quotients of integers are rounded towards zero.",
)
_div: Rule = div_p.bind


def div_transpose(ct: Any, x: Any, y: Any) -> Any:
    assert type(x) is UndefinedPrimal and type(y) is not UndefinedPrimal, "div is linear in its numerator only"
    return [unbroadcast(x.aval, _div(ct, y)), None]


transpose_rules[div_p] = div_transpose


rem, rem_p = binary(
    "rem",
    INT + FLOAT,
    rem_numpy,
    "remainder",
    [
        lambda g, ans, x, y: maybe_broadcast(get_aval(ans).shape, g),
        lambda g, ans, x, y: _mul(_neg(g), _mul(_sign(_div(x, y)), _floor(_abs(_div(x, y))))),
    ],
    "The remainder of ``div``, with the sign of ``x``.",
)


def _share(x: Any, ans: Any, y: Any) -> Any:
    """1 where ``x`` is the only extremum, 1/2 where it ties with ``y``, 0 elsewhere."""
    mine = select(_eq(x, ans), _full_like(ans, 1), _full_like(ans, 0))
    ways = select(_eq(y, ans), _full_like(ans, 2), _full_like(ans, 1))
    return _div(mine, ways)


_extremum_derivatives = [
    lambda g, ans, x, y: _mul(g, _share(x, ans, y)),
    lambda g, ans, x, y: _mul(g, _share(y, ans, x)),
]


def _extremum_lower(op: str, direction: str) -> Rule:
    def extremum_lower(ctx: Any, avals: Any, out_avals: Any, x: str, y: str) -> str:
        x, y = ctx.broadcast_operands([x, y], avals, out_avals[0].shape)
        return complex_extremum_text(ctx, direction, x, y, out_avals[0])

    return op_lowering(op, extremum_lower)


def complex_extremum_text(ctx: Any, direction: str, x: str, y: str, aval: ShapedArray) -> str:
    """Emit the extremum of complex operands of type ``aval``, ordered by real parts, then by imaginary parts."""
    part_aval = aval.update(dtype=dtypes.real_dtype(aval.dtype))
    ty, part, flag = mlir_type(aval), mlir_type(part_aval), mlir_type(aval.update(dtype=np.dtype(bool)))

    def compare(direction: str, a: str, b: str) -> str:
        return ctx.emit(f"stablehlo.compare {direction}, {a}, {b}, FLOAT : ({part}, {part}) -> {flag}")

    reals = [ctx.emit(f"stablehlo.real {z} : ({ty}) -> {part}") for z in (x, y)]
    imaginaries = [ctx.emit(f"stablehlo.imag {z} : ({ty}) -> {part}") for z in (x, y)]
    tie, by_real, by_imaginary = compare("EQ", *reals), compare(direction, *reals), compare(direction, *imaginaries)
    first = ctx.emit(f"stablehlo.select {tie}, {by_imaginary}, {by_real} : {flag}, {flag}")
    return ctx.emit(f"stablehlo.select {first}, {x}, {y} : {flag}, {ty}")


max, max_p = binary(
    "max", ANY, maximum_numpy, _extremum_lower("maximum", "GT"),
    _extremum_derivatives, "The greater of the two; nan if either is nan.",
)
min, min_p = binary(
    "min", ANY, minimum_numpy, _extremum_lower("minimum", "LT"),
    _extremum_derivatives, "The lesser of the two; nan if either is nan.",
)


def abs_derivative(g: Any, ans: Any, x: Any) -> Any:
    if dtypes.is_complex(get_aval(x).dtype):
        mirrored = conj(x)
        from_abs = convert_p.bind(ans, new_dtype=get_aval(x).dtype, weak_type=False, sharding=None)
        return _real(_mul(g, _div(mirrored, _replace_zero(from_abs))))
    zero = const(x, 0)
    return select(_ge(x, over_mesh_of(zero, x) if types.sharded_types_made else zero), g, _neg(g))


abs, abs_p = unary(
    "abs", "ifc", abs_numpy, "abs",
    abs_derivative, "The absolute value. It is real for complex numbers.", out=dtypes.real_dtype,
)
_abs: Rule = abs_p.bind

sign, sign_p = unary("sign", NUM, sign_numpy, "sign", ZERO, "-1, 0 or 1; for complex numbers, ``x / abs(x)``.")
_sign: Rule = sign_p.bind


def _sign_lower(ctx: Any, avals: Any, out_avals: Any, x: str) -> str:
    aval = avals[0]
    ty = mlir_type(aval)
    if not dtypes.is_unsigned(aval.dtype):
        return ctx.emit(f"stablehlo.sign {x} : {ty}")
    return ctx.emit(f"stablehlo.minimum {x}, {ctx.full(1, aval)} : {ty}")


lowering_rules[sign_p] = _sign_lower


def _square_lower(ctx: Any, avals: Any, out_avals: Any, x: str) -> str:
    ty = mlir_type(avals[0])
    if dtypes.is_integer(avals[0].dtype):
        return ctx.emit(f"stablehlo.multiply {x}, {x} : {ty}")
    return ctx.emit(f"chlo.square {x} : {ty} -> {ty}")


square, square_p = unary(
    "square", NUM, np.square, _square_lower, lambda g, ans, x: _mul(g, _mul(const(x, 2), x)), "The square."
)
_square = square_p.bind


def integer_pow_derivative(g: Any, ans: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return _full_like(g, 0)
    if y == 1:
        return g
    return _mul(g, _mul(const(x, y), x if y == 2 else integer_pow(x, y - 1)))


def _integer_pow_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, y: int) -> str:
    aval = avals[0]
    ty = mlir_type(aval)
    if y == 0:
        return ctx.full(1, aval)
    result, factor, n = None, x, y if y > 0 else -y
    while True:
        if n & 1:
            result = factor if result is None else ctx.emit(f"stablehlo.multiply {result}, {factor} : {ty}")
        n >>= 1
        if not n:
            break
        factor = ctx.emit(f"stablehlo.multiply {factor}, {factor} : {ty}")
    assert result is not None
    if y > 0:
        return result
    return ctx.emit(f"stablehlo.divide {ctx.full(1, aval, scalars=y == -1)}, {result} : {ty}")


def _integer_pow_check(x: ShapedArray, *, y: int) -> None:
    if y < 0 and dtypes.is_integer(x.dtype):
        raise TypeError(f"Integers cannot be raised to negative powers, got integer_pow({x}, {y}). Convert x to float.")


@by_type
def _integer_pow_numpy(x: Any, y: int) -> Rule:
    # NumPy takes no exponent beyond the dtype of an integer ``x``, and its complex powers lose the signs of zeros
    complex_or_large = dtypes.is_complex(x.dtype) or dtypes.is_integer(x.dtype) and y > dtypes.iinfo(x.dtype).max
    if complex_or_large:
        return functools.partial(_power_by_squaring, y=y)
    return lambda x: np.power(x, y)


def _power_by_squaring(x: Any, y: int) -> Any:
    result, left = None, -y if y < 0 else y
    while left:
        if left & 1:
            result = x if result is None else result * x
        x = x * x
        left >>= 1
    result = np.ones_like(x) if result is None else result
    return result if y >= 0 else (1 / result).astype(x.dtype)


integer_pow_p = elementwise(
    "integer_pow", [NUM], _integer_pow_numpy, _integer_pow_lower, [integer_pow_derivative], check=_integer_pow_check
)


def integer_pow(x: Any, y: int) -> Any:
    """``x`` to the power of the Python integer ``y``. TypeError for another ``y``."""
    return integer_pow_p.bind(x, y=operator.index(y))


def reciprocal(x: Any) -> Any:
    """``1 / x``."""
    return integer_pow_p.bind(x, y=-1)


def _strong(x: Any, dtype: np.dtype) -> Any:
    """``x`` as a strongly typed value of ``dtype``; a number is converted immediately, as in JAX."""
    aval = get_aval(x)
    if aval.dtype == dtype and not aval.weak_type:
        return x
    if isinstance(x, LiteralArray):
        return LiteralArray(dtype.type(x._value()), ShapedArray(aval.shape, dtype))
    return convert_p.bind(x, new_dtype=dtype, weak_type=False, sharding=None)


def pow_left(g: Any, ans: Any, x: Any, y: Any) -> Any:
    dtype, of_integer = get_aval(x).dtype, dtypes.is_integer(get_aval(y).dtype)
    if of_integer:
        shape = get_aval(ans).shape
        x, y = maybe_broadcast(shape, x), maybe_broadcast(shape, y)
    x, y = _strong(x, dtype), _strong(y, dtype)
    power = _pow(x, _sub(y, _full_like(y, 1)))
    if not of_integer:
        return _mul(g, _mul(y, power))
    return _mul(g, select(_eq(y, const(y, 0)), _full_like(y, 0), _mul(_replace_zero(y), power)))


def pow_right(g: Any, ans: Any, x: Any, y: Any) -> Any:
    return _strong(_mul(g, _mul(_log(_replace_zero(x)), ans)), get_aval(ans).dtype)


def _replace_zero(x: Any) -> Any:
    return select(_eq(x, const(x, 0)), _full_like(x, 1), x)


def _pow_lower(ctx: Any, avals: Any, out_avals: Any, x: str, y: str) -> str:
    (out,) = out_avals
    x, y = ctx.broadcast_operands([x, y], avals, out.shape)
    ty = mlir_type(out)
    if avals[1].dtype != out.dtype:
        y = ctx.emit(f"stablehlo.convert {y} : ({mlir_type(out.update(dtype=avals[1].dtype))}) -> {ty}")
    return ctx.emit(f"stablehlo.power {x}, {y} : {ty}")


def _pow_check(x: np.dtype, y: np.dtype) -> np.dtype:
    if x == y or (dtypes.is_inexact(x) and dtypes.is_integer(y)):
        return x
    raise TypeError(
        "the first argument to pow must have an inexact dtype (float or complex), and the second argument must have "
        f"an inexact or integer dtype, and two inexact dtypes must match, but got {x} and {y} respectively."
    )


pow_p = elementwise(
    "pow", [INEXACT, NUM], pow_numpy, _pow_lower, [pow_left, pow_right], out=_pow_check, same_dtypes=False
)
pow = binary_function(pow_p, "pow", "``x`` to the power ``y``; ``y`` may have an integer dtype.")
_pow = pow_p.bind

nextafter, nextafter_p = binary(
    "nextafter", FLOAT, nextafter_numpy, "chlo.next_after",
    NO_DERIVATIVE, "The float next to ``x`` in the direction of ``y``."
)


# ---------------------------------------------------------------------------------------------- rounding
class RoundingMethod(enum.IntEnum):
    """How ``round`` rounds a number halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _round(x: Any, rounding_method: RoundingMethod) -> Any:
    if rounding_method is RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    # add h, the float just below 0.5, and truncate: h + 0.5 is rounded up to 1.0, so adding 0.5 would round h to 1
    almost_half = np.nextafter(x.dtype.type(0.5), x.dtype.type(0))
    return np.trunc(x + np.copysign(almost_half, x))


def _round_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, rounding_method: RoundingMethod) -> str:
    even = rounding_method is RoundingMethod.TO_NEAREST_EVEN
    return ctx.emit(f"stablehlo.round_nearest_{'even' if even else 'afz'} {x} : {mlir_type(avals[0])}")


floor, floor_p = unary("floor", FLOAT, np.floor, "floor", ZERO, "The greatest integer not above ``x``, as a float.")
ceil, ceil_p = unary("ceil", FLOAT, np.ceil, "ceil", ZERO, "The least integer not below ``x``, as a float.")
round_p = elementwise("round", [FLOAT], _round, _round_lower, ZERO)
parse_rules[round_p] = lambda params, *types: {"rounding_method": RoundingMethod(params["rounding_method"])}
is_finite, is_finite_p = unary(
    "is_finite", FLOAT, np.isfinite, "is_finite",
    ZERO, "Whether floats are neither infinite nor nan.", out=lambda dtype: np.dtype(bool),
)
_floor: Rule = floor_p.bind


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The nearest integer, as a float. ``rounding_method`` decides for numbers halfway between two integers."""
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


# ---------------------------------------------------------------------------------------------- exponentials
exp, exp_p = unary(
    "exp", INEXACT, zero_signs(np.exp, "i"), "exponential", lambda g, ans, x: _mul(g, ans), "The exponential function."
)
_exp = exp_p.bind


def _exp2_lower(ctx: Any, avals: Any, out_avals: Any, x: str) -> str:
    ty = mlir_type(avals[0])
    scaled = ctx.emit(f"stablehlo.multiply {ctx.full(np.log(2.0), avals[0], scalars=True)}, {x} : {ty}")
    return ctx.emit(f"stablehlo.exponential {scaled} : {ty}")


exp2, exp2_p = unary(
    "exp2", INEXACT, zero_signs(np.exp2, "i"), _exp2_lower,
    lambda g, ans, x: _mul(_log(const(x, 2)), _mul(g, ans)), "Two to the power ``x``.",
)
log, log_p = unary("log", INEXACT, np.log, "log", lambda g, ans, x: _div(g, x), "The natural logarithm.")
_log: Rule = log_p.bind

expm1, expm1_p = unary(
    "expm1", INEXACT, zero_signs(np.expm1, "i", "r"), "exponential_minus_one",
    lambda g, ans, x: _mul(g, _add(ans, _one(ans))), "``exp(x) - 1``, accurate also for small ``x``.",
)
log1p, log1p_p = unary(
    "log1p", INEXACT, np.log1p, "log_plus_one",
    lambda g, ans, x: _div(g, _add(x, _one(x))), "``log(1 + x)``, accurate also for small ``x``.",
)


def _logistic_lower(ctx: Any, avals: Any, out_avals: Any, x: str) -> str:
    """Emit ``1 / (1 + exp(-x))`` as four operations. JAX does not use StableHLO's ``logistic`` either."""
    ty = mlir_type(avals[0])
    minus = ctx.emit(f"stablehlo.negate {x} : {ty}")
    power = ctx.emit(f"stablehlo.exponential {minus} : {ty}")
    more = ctx.emit(f"stablehlo.add {ctx.full(1, avals[0])}, {power} : {ty}")
    return ctx.emit(f"stablehlo.divide {ctx.full(1, avals[0])}, {more} : {ty}")


logistic, logistic_p = unary(
    "logistic", INEXACT, logistic_numpy, _logistic_lower,
    lambda g, ans, x: _mul(g, _mul(ans, _sub(_one(ans), ans))),
    "The logistic function ``1 / (1 + exp(-x))``.",
)
tanh, tanh_p = unary(
    "tanh", INEXACT, zero_signs(np.tanh, "i"), "tanh",
    lambda g, ans, x: _mul(_add(g, _mul(g, ans)), _sub(_one(x), ans)), "The hyperbolic tangent.",
)
sqrt, sqrt_p = unary(
    "sqrt", INEXACT, zero_signs(np.sqrt, "i"), "sqrt",
    lambda g, ans, x: _mul(g, _div(const(x, 0.5), ans)), "The square root."
)


rsqrt, rsqrt_p = unary(
    "rsqrt", INEXACT, rsqrt_numpy, "rsqrt",
    lambda g, ans, x: _mul(g, _mul(const(x, -0.5), _div(ans, x))), "One over the square root.",
)
_rsqrt = rsqrt_p.bind

cbrt, cbrt_p = unary(
    "cbrt", FLOAT, np.cbrt, "cbrt",
    lambda g, ans, x: _mul(g, _mul(const(x, 1 / 3), integer_pow(ans, -2))),
    "The cube root of real numbers.",
)


# ---------------------------------------------------------------------------------------------- trigonometry
def _circular_lower(op: str, is_sine: bool) -> Rule:
    """Emit ``op``, or for complex operands formulas for both parts. One part is exactly 0 on the imaginary axis."""

    def circular_lower(ctx: Any, avals: Any, out_avals: Any, x: str) -> str:
        (aval,) = avals
        parts = aval.update(dtype=dtypes.real_dtype(aval.dtype))
        ty, part = mlir_type(aval), mlir_type(parts)
        flag = mlir_type(aval.update(dtype=np.dtype(bool)))

        def emit(op: str, *operands: str) -> str:
            return ctx.emit(f"stablehlo.{op} {', '.join(operands)} : {part}")

        a, b = (ctx.emit(f"stablehlo.{which} {x} : ({ty}) -> {part}") for which in ("real", "imag"))
        zero, two = ctx.full(0, parts), ctx.full(2, parts)
        on_axis = ctx.emit(f"stablehlo.compare EQ, {a}, {zero}, FLOAT : ({part}, {part}) -> {flag}")
        sine, cosine = emit("sine", a), emit("cosine", a)
        growing, falling = emit("exponential_minus_one", b), emit("exponential_minus_one", emit("negate", b))
        sinh = emit("divide", emit("subtract", growing, falling), two)
        cosh = emit("divide", emit("add", emit("add", growing, falling), two), two)
        if is_sine:
            re, im = emit("multiply", sine, cosh), emit("multiply", cosine, sinh)
        else:
            re, im = emit("multiply", cosine, cosh), emit("multiply", emit("negate", sine), sinh)
        short = (zero, im) if is_sine else (re, zero)
        whole, exact = (ctx.emit(f"stablehlo.complex {p}, {q} : {ty}") for p, q in ((re, im), short))
        return ctx.emit(f"stablehlo.select {on_axis}, {exact}, {whole} : {flag}, {ty}")

    return op_lowering(op, circular_lower)


sin, sin_p = unary(
    "sin", INEXACT, zero_signs(np.sin, "", "r"), _circular_lower("sine", True),
    lambda g, ans, x: _mul(g, _cos(x)), "The sine."
)
cos, cos_p = unary(
    "cos", INEXACT, cos_numpy, _circular_lower("cosine", False), lambda g, ans, x: _neg(_mul(g, _sin(x))), "The cosine."
)
_sin: Rule = sin_p.bind
_cos: Rule = cos_p.bind

tan, tan_p = unary(
    "tan", INEXACT, zero_signs(np.tan, "r"), "tan",
    lambda g, ans, x: _mul(g, _add(const(x, 1), _square(ans))), "The tangent."
)
asin, asin_p = unary(
    "asin", INEXACT, zero_signs(np.arcsin, "i"), "chlo.asin",
    lambda g, ans, x: _mul(g, _rsqrt(_sub(const(x, 1), _square(x)))), "The arc sine.",
)
acos, acos_p = unary(
    "acos", INEXACT, zero_signs(np.arccos, "i"), "chlo.acos",
    lambda g, ans, x: _mul(g, _neg(_rsqrt(_sub(const(x, 1), _square(x))))), "The arc cosine.",
)
atan, atan_p = unary(
    "atan", INEXACT, atan_numpy, "chlo.atan",
    lambda g, ans, x: _div(g, _add(const(x, 1), _square(x))), "The arc tangent.",
)


def _atan2_complex(x: Any, y: Any) -> Any:
    """``-i log((y + ix) / sqrt(x² + y²))``, as XLA computes it; NumPy has no complex ``arctan2``."""
    return (-1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))).astype(x.dtype)


atan2, atan2_p = binary(
    "atan2",
    INEXACT,
    by_kind("c", _atan2_complex, np.arctan2),
    "atan2",
    [
        lambda g, ans, x, y: _mul(g, _div(y, _add(_square(x), _square(y)))),
        lambda g, ans, x, y: _mul(g, _div(_neg(x), _add(_square(x), _square(y)))),
    ],
    "The angle of the point ``(y, x)``; ``x`` is the vertical coordinate.",
)
sinh, sinh_p = unary(
    "sinh", INEXACT, zero_signs(np.sinh, "", "ri"), "chlo.sinh",
    lambda g, ans, x: _mul(g, _cosh(x)), "The hyperbolic sine.",
)
cosh, cosh_p = unary(
    "cosh", INEXACT, zero_signs(np.cosh, "", "i"), "chlo.cosh",
    lambda g, ans, x: _mul(g, _sinh(x)), "The hyperbolic cosine."
)
_sinh: Rule = sinh_p.bind
_cosh: Rule = cosh_p.bind
asinh, asinh_p = unary(
    "asinh", INEXACT, zero_signs(np.arcsinh, "r"), "chlo.asinh",
    lambda g, ans, x: _mul(g, _rsqrt(_add(_square(x), _one(x)))), "The inverse hyperbolic sine.",
)
acosh, acosh_p = unary(
    "acosh", INEXACT, zero_signs(np.arccosh, "i"), "chlo.acosh",
    lambda g, ans, x: _mul(g, _rsqrt(_sub(_square(x), _one(x)))), "The inverse hyperbolic cosine.",
)
atanh, atanh_p = unary(
    "atanh", INEXACT, zero_signs(np.arctanh, "r"), "chlo.atanh",
    lambda g, ans, x: _mul(integer_pow(_add(_one(x), x), -1), _div(g, _sub(_one(x), x))),
    "The inverse hyperbolic tangent.",
)


# ---------------------------------------------------------------------------------------------- complex numbers
def _generic(op: str) -> Rule:
    def generic_lower(ctx: Any, avals: Any, out_avals: Any, *args: str) -> str:
        (out,) = out_avals
        names = ctx.broadcast_operands(args, avals, out.shape)
        types = ", ".join(mlir_type(a.update(shape=out.shape)) for a in avals)
        return ctx.emit(f'"{op}"({", ".join(names)}) : ({types}) -> {mlir_type(out)}')

    return generic_lower


def _complex_check(*avals: ShapedArray, **params: Any) -> None:
    for aval in avals:
        if aval.dtype.itemsize < 4:
            raise TypeError(
                f"there is no complex number of {dtype_name(aval.dtype)} parts: accepted dtypes are float32, float64, "
                "complex64, complex128. Convert to float32 first."
            )


real, real_p = unary(
    "real", "c", np.real, _generic("stablehlo.real"), None, "The real part of complex numbers.", out=dtypes.real_dtype
)
imag, imag_p = unary(
    "imag", "c", np.imag, _generic("stablehlo.imag"), None, "The imaginary part of complex numbers.",
    out=dtypes.real_dtype,
)
complex, complex_p = binary(
    "complex", FLOAT, complex_numpy, _generic("stablehlo.complex"),
    [None, None], "The complex number ``x + iy``, with float32 or float64 parts.",
    out=complex_dtype_of, check=_complex_check,
)
_real = real_p.bind
_imag = imag_p.bind

_complex = complex_p.bind


def conj(x: Any) -> Any:
    """The complex conjugate. A real number gives a complex result."""
    return conj_p.bind(x, input_dtype=get_aval(x).dtype)


def _conj_lower(ctx: Any, avals: Any, out_avals: Any, x: str, *, input_dtype: np.dtype) -> str:
    aval, (out,) = avals[0], out_avals
    part, ty = mlir_type(aval.update(dtype=dtypes.real_dtype(aval.dtype))), mlir_type(out)
    if not dtypes.is_complex(aval.dtype):
        return ctx.emit(f'"stablehlo.complex"({x}, {ctx.full(0, aval)}) : ({part}, {part}) -> {ty}')
    re = ctx.emit(f'"stablehlo.real"({x}) : ({ty}) -> {part}')
    im = ctx.emit(f'"stablehlo.imag"({x}) : ({ty}) -> {part}')
    minus = ctx.emit(f"stablehlo.negate {im} : {part}")
    return ctx.emit(f'"stablehlo.complex"({re}, {minus}) : ({part}, {part}) -> {ty}')


conj_p = elementwise(
    "conj", [INEXACT], lambda x, input_dtype: np.conj(x).astype(complex_dtype_of(x.dtype)), _conj_lower, [None],
    out=complex_dtype_of, check=_complex_check,
)


def complex_transpose(ct: Any, x: Any, y: Any) -> Any:
    return [
        unbroadcast(x.aval, _real(ct)) if type(x) is UndefinedPrimal else None,
        unbroadcast(y.aval, _imag(_neg(ct))) if type(y) is UndefinedPrimal else None,
    ]


# the zeros are strongly typed, so the cotangent is too
deflinear(real_p, lambda ct, x: [_complex(ct, structural.full((), 0, get_aval(ct).dtype))])
deflinear(imag_p, lambda ct, x: [_complex(structural.full((), 0, get_aval(ct).dtype), _neg(ct))])
deflinear(complex_p, complex_transpose)
deflinear(conj_p, lambda ct, x, input_dtype: [conj(ct) if dtypes.is_complex(input_dtype) else _real(ct)])


# ---------------------------------------------------------------------------------------------- comparisons
def _comparison(
    name: str, accepts: str, numpy: Any, direction: str, doc: str, primitive: Primitive | None = None,
    floats: str = "FLOAT",
) -> tuple[Binary, Primitive]:
    def compare_lower(ctx: Any, avals: Any, out_avals: Any, x: str, y: str) -> str:
        (out,) = out_avals
        x, y = ctx.broadcast_operands([x, y], avals, out.shape)
        dtype = avals[0].dtype
        kind = floats if dtypes.is_inexact(dtype) else "SIGNED" if dtypes.is_signed(dtype) else "UNSIGNED"
        ty = mlir_type(out.update(dtype=dtype))
        return ctx.emit(f"stablehlo.compare {direction}, {x}, {y}, {kind} : ({ty}, {ty}) -> {mlir_type(out)}")

    return binary(
        name, accepts, numpy, compare_lower, ZERO, doc, out=lambda *dtypes_: np.dtype(bool), primitive=primitive
    )


eq, _ = _comparison("eq", ANY + KEY, np.equal, "EQ", "Whether ``x`` equals ``y``.", eq_p)
ne, ne_p = _comparison("ne", ANY + KEY, np.not_equal, "NE", "Whether ``x`` differs from ``y``.")
ge, ge_p = _comparison("ge", ORDERED, np.greater_equal, "GE", "Whether ``x`` is at least ``y``.")
gt, gt_p = _comparison("gt", ORDERED, np.greater, "GT", "Whether ``x`` is greater than ``y``.")
le, le_p = _comparison("le", ORDERED, np.less_equal, "LE", "Whether ``x`` is at most ``y``.")
lt, lt_p = _comparison("lt", ORDERED, np.less, "LT", "Whether ``x`` is less than ``y``.")

# Total order of floats: -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN.
le_to, le_to_p = _comparison(
    "le_to", ORDERED, in_total_order(np.less_equal), "LE", "``x <= y`` in the total order.", None, "TOTALORDER"
)
lt_to, lt_to_p = _comparison(
    "lt_to", ORDERED, in_total_order(np.less), "LT", "``x < y`` in the total order.", None, "TOTALORDER"
)
_eq = eq_p.bind
_ge = ge_p.bind
# in the total order, nan equals nan
_eq_to, eq_to_p = _comparison("eq_to", ORDERED, in_total_order(np.equal), "EQ", "", None, "TOTALORDER")


# ---------------------------------------------------------------------------------------------- bits
bitwise_not, not_p = unary(
    "not", BOOL_OR_INT, np.invert, "not",
    ZERO, "The complement of integers' bits; logical not of booleans.", function="bitwise_not",
)
bitwise_and, and_p = binary(
    "and", BOOL_OR_INT, np.bitwise_and, "and", ZERO, "The bitwise (for booleans, logical) and.", function="bitwise_and"
)
bitwise_or, or_p = binary(
    "or", BOOL_OR_INT, np.bitwise_or, "or", ZERO, "The bitwise (for booleans, logical) or.", function="bitwise_or"
)
bitwise_xor, xor_p = binary(
    "xor", BOOL_OR_INT, np.bitwise_xor, "xor",
    ZERO, "The bitwise (for booleans, logical) exclusive or.", function="bitwise_xor",
)


shift_left, shift_left_p = binary(
    "shift_left", INT, shift_left_numpy, "shift_left", ZERO, "``x`` shifted left by ``y`` bits."
)
shift_right_arithmetic, shift_right_arithmetic_p = binary(
    "shift_right_arithmetic", INT, shift_right_arithmetic_numpy, "shift_right_arithmetic",
    ZERO, "``x`` shifted right by ``y`` bits, keeping its sign.",
)
shift_right_logical, shift_right_logical_p = binary(
    "shift_right_logical", INT, shift_right_logical_numpy, "shift_right_logical",
    ZERO, "``x`` shifted right by ``y`` bits; zeros fill the left.",
)
population_count, population_count_p = unary(
    "population_count", INT, population_count_numpy, "popcnt", NO_DERIVATIVE, "The number of bits set in integers."
)
clz, clz_p = unary(
    "clz", INT, clz_numpy, "count_leading_zeros", NO_DERIVATIVE, "The number of leading zero bits of integers."
)


# ---------------------------------------------------------------------------------------------- special functions
lgamma, lgamma_p = unary(
    "lgamma", FLOAT, lgamma_numpy, "chlo.lgamma",
    lambda g, ans, x: _mul(g, _digamma(x)),
    "The logarithm of the absolute value of the gamma function.",
)
digamma, digamma_p = unary(
    "digamma", FLOAT, digamma_numpy, "chlo.digamma",
    lambda g, ans, x: _mul(g, _polygamma(const(x, 1), x)),
    "The logarithmic derivative of the gamma function.",
)

def _polygamma_by_order(g: Any, ans: Any, m: Any, x: Any) -> Any:
    raise ValueError("polygamma gradient with respect to m is not supported. Pass m as a constant.")


polygamma, polygamma_p = binary(
    "polygamma", FLOAT, polygamma_numpy, "chlo.polygamma",
    [_polygamma_by_order, lambda g, ans, m, x: _mul(*alike(g, _polygamma(_add(m, const(m, 1)), x)))],
    "The derivative of order ``x`` of the digamma function, at ``y``.",
)
_digamma: Rule = digamma_p.bind
_polygamma: Rule = polygamma_p.bind
erf, erf_p = unary(
    "erf", FLOAT, scipy_special("erf"), "chlo.erf",
    lambda g, ans, x: _mul(const(x, 2.0 / float(np.sqrt(np.pi))), _mul(g, _exp(_neg(_square(x))))),
    "The error function.",
)
erfc, erfc_p = unary(
    "erfc", FLOAT, scipy_special("erfc"), "chlo.erfc",
    lambda g, ans, x: _mul(const(x, -2.0 / float(np.sqrt(np.pi))), _mul(g, _exp(_neg(_square(x))))),
    "One minus the error function, accurate also where the result is tiny.",
)
erf_inv, erf_inv_p = unary(
    "erf_inv", FLOAT, erf_inv_numpy, "chlo.erf_inv",
    lambda g, ans, x: _mul(const(x, float(np.sqrt(np.pi)) / 2.0), _mul(g, _exp(_square(ans)))),
    "The inverse of the error function.",
)

if not TYPE_CHECKING:  # mypy then sees the names without an underscore
    # The exports of lax: primitives, functions that rows made, and the functions above that are written out.
    __all__ = [name for name, value in globals().items() if is_row(name, value)]
    __all__ += ["RoundingMethod", "conj", "integer_pow", "reciprocal", "round"]
