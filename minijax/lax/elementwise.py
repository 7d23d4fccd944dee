"""The elementwise functions of ``jax.lax``: one for each elementwise primitive.

Operands are arrays or Python scalars of one dtype (TypeError otherwise; ``minijax.numpy`` converts by
itself), of one shape but for scalars and dimensions of size 1. Results have the operands' dtype where
nothing else is said.
"""

from __future__ import annotations

from typing import Any

from minijax.core.array import get_aval
from minijax.ops.elementwise import (
    RoundingMethod,
    abs_p,
    acos_p,
    acosh_p,
    add_p,
    and_p,
    asin_p,
    asinh_p,
    atan2_p,
    atan_p,
    atanh_p,
    cbrt_p,
    ceil_p,
    clz_p,
    complex_p,
    conj_p,
    cos_p,
    cosh_p,
    digamma_p,
    div_p,
    eq_p,
    erf_inv_p,
    erf_p,
    erfc_p,
    exp2_p,
    exp_p,
    expm1_p,
    floor_p,
    ge_p,
    gt_p,
    imag_p,
    integer_pow_p,
    is_finite_p,
    le_p,
    lgamma_p,
    log1p_p,
    log_p,
    logistic_p,
    lt_p,
    max_p,
    min_p,
    mul_p,
    ne_p,
    neg_p,
    nextafter_p,
    not_p,
    or_p,
    polygamma_p,
    population_count_p,
    pow_p,
    real_p,
    rem_p,
    round_p,
    rsqrt_p,
    shift_left_p,
    shift_right_arithmetic_p,
    shift_right_logical_p,
    sign_p,
    sin_p,
    sinh_p,
    sqrt_p,
    square_p,
    sub_p,
    tan_p,
    tanh_p,
    xor_p,
)

__all__ = [
    "RoundingMethod",
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clz",
    "complex",
    "conj",
    "cos",
    "cosh",
    "digamma",
    "div",
    "eq",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "ge",
    "gt",
    "imag",
    "integer_pow",
    "is_finite",
    "le",
    "lgamma",
    "log",
    "log1p",
    "logistic",
    "lt",
    "max",
    "min",
    "mul",
    "ne",
    "neg",
    "nextafter",
    "polygamma",
    "population_count",
    "pow",
    "real",
    "reciprocal",
    "rem",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "tan",
    "tanh",
]


def abs(x: Any) -> Any:
    """The absolute value; of complex numbers, as real numbers."""
    return abs_p.bind(x)


def acos(x: Any) -> Any:
    """The arc cosine."""
    return acos_p.bind(x)


def acosh(x: Any) -> Any:
    """The inverse hyperbolic cosine."""
    return acosh_p.bind(x)


def add(x: Any, y: Any) -> Any:
    """The sum."""
    return add_p.bind(x, y)


def asin(x: Any) -> Any:
    """The arc sine."""
    return asin_p.bind(x)


def asinh(x: Any) -> Any:
    """The inverse hyperbolic sine."""
    return asinh_p.bind(x)


def atan(x: Any) -> Any:
    """The arc tangent."""
    return atan_p.bind(x)


def atan2(x: Any, y: Any) -> Any:
    """The angle of the point ``(y, x)``, for floats ``x`` (the ordinate) and ``y``."""
    return atan2_p.bind(x, y)


def atanh(x: Any) -> Any:
    """The inverse hyperbolic tangent."""
    return atanh_p.bind(x)


def bitwise_and(x: Any, y: Any) -> Any:
    """The bitwise (for booleans, logical) and."""
    return and_p.bind(x, y)


def bitwise_not(x: Any) -> Any:
    """The complement of integers' bits; logical not of booleans."""
    return not_p.bind(x)


def bitwise_or(x: Any, y: Any) -> Any:
    """The bitwise (for booleans, logical) or."""
    return or_p.bind(x, y)


def bitwise_xor(x: Any, y: Any) -> Any:
    """The bitwise (for booleans, logical) exclusive or."""
    return xor_p.bind(x, y)


def cbrt(x: Any) -> Any:
    """The cube root of real numbers."""
    return cbrt_p.bind(x)


def ceil(x: Any) -> Any:
    """The least integer not below, as a float."""
    return ceil_p.bind(x)


def clz(x: Any) -> Any:
    """The number of leading zero bits of integers."""
    return clz_p.bind(x)


def complex(x: Any, y: Any) -> Any:
    """The complex number ``x + iy``, of float32 or float64 parts."""
    return complex_p.bind(x, y)


def conj(x: Any) -> Any:
    """The complex conjugate; of real numbers, as complex ones."""
    return conj_p.bind(x, input_dtype=get_aval(x).dtype)


def cos(x: Any) -> Any:
    """The cosine."""
    return cos_p.bind(x)


def cosh(x: Any) -> Any:
    """The hyperbolic cosine."""
    return cosh_p.bind(x)


def digamma(x: Any) -> Any:
    """The logarithmic derivative of the gamma function."""
    return digamma_p.bind(x)


def div(x: Any, y: Any) -> Any:
    """The quotient; of integers, rounded towards zero."""
    return div_p.bind(x, y)


def eq(x: Any, y: Any) -> Any:
    """Whether ``x`` equals ``y``."""
    return eq_p.bind(x, y)


def erf(x: Any) -> Any:
    """The error function."""
    return erf_p.bind(x)


def erf_inv(x: Any) -> Any:
    """The inverse of the error function."""
    return erf_inv_p.bind(x)


def erfc(x: Any) -> Any:
    """One minus the error function, also where that is tiny."""
    return erfc_p.bind(x)


def exp(x: Any) -> Any:
    """The exponential function."""
    return exp_p.bind(x)


def exp2(x: Any) -> Any:
    """Two to the power ``x``."""
    return exp2_p.bind(x)


def expm1(x: Any) -> Any:
    """``exp(x) - 1``, also for small ``x``."""
    return expm1_p.bind(x)


def floor(x: Any) -> Any:
    """The greatest integer not above, as a float."""
    return floor_p.bind(x)


def ge(x: Any, y: Any) -> Any:
    """Whether ``x`` is at least ``y``."""
    return ge_p.bind(x, y)


def gt(x: Any, y: Any) -> Any:
    """Whether ``x`` is greater than ``y``."""
    return gt_p.bind(x, y)


def imag(x: Any) -> Any:
    """The imaginary part of complex numbers."""
    return imag_p.bind(x)


def integer_pow(x: Any, y: int) -> Any:
    """``x`` to the power of the Python integer ``y``."""
    return integer_pow_p.bind(x, y=y)


def is_finite(x: Any) -> Any:
    """Whether floats are neither infinite nor nan."""
    return is_finite_p.bind(x)


def le(x: Any, y: Any) -> Any:
    """Whether ``x`` is at most ``y``."""
    return le_p.bind(x, y)


def lgamma(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function."""
    return lgamma_p.bind(x)


def log(x: Any) -> Any:
    """The natural logarithm."""
    return log_p.bind(x)


def log1p(x: Any) -> Any:
    """``log(1 + x)``, also for small ``x``."""
    return log1p_p.bind(x)


def logistic(x: Any) -> Any:
    """The logistic function ``1 / (1 + exp(-x))``."""
    return logistic_p.bind(x)


def lt(x: Any, y: Any) -> Any:
    """Whether ``x`` is less than ``y``."""
    return lt_p.bind(x, y)


def max(x: Any, y: Any) -> Any:
    """The greater of both; nan if either is."""
    return max_p.bind(x, y)


def min(x: Any, y: Any) -> Any:
    """The lesser of both; nan if either is."""
    return min_p.bind(x, y)


def mul(x: Any, y: Any) -> Any:
    """The product."""
    return mul_p.bind(x, y)


def ne(x: Any, y: Any) -> Any:
    """Whether ``x`` differs from ``y``."""
    return ne_p.bind(x, y)


def neg(x: Any) -> Any:
    """The negative."""
    return neg_p.bind(x)


def nextafter(x: Any, y: Any) -> Any:
    """The float next to ``x`` in the direction of ``y``."""
    return nextafter_p.bind(x, y)


def polygamma(x: Any, y: Any) -> Any:
    """The derivative of order ``x`` of the digamma function, at ``y``."""
    return polygamma_p.bind(x, y)


def population_count(x: Any) -> Any:
    """The number of bits set in integers."""
    return population_count_p.bind(x)


def pow(x: Any, y: Any) -> Any:
    """``x`` to the power ``y``; ``y`` may be of an integer dtype."""
    return pow_p.bind(x, y)


def real(x: Any) -> Any:
    """The real part of complex numbers."""
    return real_p.bind(x)


def reciprocal(x: Any) -> Any:
    """``1 / x``."""
    return integer_pow_p.bind(x, y=-1)


def rem(x: Any, y: Any) -> Any:
    """The remainder of ``div``, with the sign of ``x``."""
    return rem_p.bind(x, y)


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The nearest integer, as a float; ``rounding_method`` says where halves go."""
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


def rsqrt(x: Any) -> Any:
    """One over the square root."""
    return rsqrt_p.bind(x)


def shift_left(x: Any, y: Any) -> Any:
    """``x`` shifted left by ``y`` bits."""
    return shift_left_p.bind(x, y)


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """``x`` shifted right by ``y`` bits, keeping its sign."""
    return shift_right_arithmetic_p.bind(x, y)


def shift_right_logical(x: Any, y: Any) -> Any:
    """``x`` shifted right by ``y`` bits, zeros coming in."""
    return shift_right_logical_p.bind(x, y)


def sign(x: Any) -> Any:
    """-1, 0 or 1; of complex numbers, ``x / abs(x)``."""
    return sign_p.bind(x)


def sin(x: Any) -> Any:
    """The sine."""
    return sin_p.bind(x)


def sinh(x: Any) -> Any:
    """The hyperbolic sine."""
    return sinh_p.bind(x)


def sqrt(x: Any) -> Any:
    """The square root."""
    return sqrt_p.bind(x)


def square(x: Any) -> Any:
    """The square."""
    return square_p.bind(x)


def sub(x: Any, y: Any) -> Any:
    """The difference."""
    return sub_p.bind(x, y)


def tan(x: Any) -> Any:
    """The tangent."""
    return tan_p.bind(x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return tanh_p.bind(x)
