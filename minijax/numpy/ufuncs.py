"""NumPy's elementwise functions that promote their operands and bind one primitive.

These are the most called functions, so each has a fast path: operands that need no promotion go directly to the
primitive, and a Python scalar beside an array is converted once and cached.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.config import promotes_strictly, x64_enabled
from minijax.core import dtypes
from minijax.core.array import LiteralArray, as_array, check_int, scalar_aval
from minijax.core.avals import ShapedArray
from minijax.core.borrowing import borrow
from minijax.core.keys import is_key
from minijax.numpy.promotion import (
    BOOL,
    SCALARS,
    choose,
    const,
    convert,
    ensure,
    promote,
    typed_scalar,
    weak_const,
)
from minijax.ops import elementwise as ew

INEXACT = dtypes.to_inexact_dtype
NUMERIC = dtypes.to_numeric_dtype


_SCALAR_KINDS = frozenset(SCALARS)
# (class, value, type of the other operand) -> the converted scalar. The class is needed because 2 == 2.0.
_constants: dict[tuple[type, Any, ShapedArray], LiteralArray] = {}
MAX_CONSTANTS = 4096


def _scalar_operand(value: Any, aval: ShapedArray) -> LiteralArray | None:
    """Convert the Python scalar ``value`` to the other operand's type ``aval``. None if the operand needs promotion."""
    kind = type(value)
    if aval.dtype == dtypes.float0 or is_key(aval.dtype):
        return None
    own = scalar_aval(kind)
    if kind is int:
        check_int(value)
    there = (aval.dtype, aval.weak_type)
    met = dtypes.lattice_result(there, (own.dtype, own.weak_type), x64=x64_enabled(), strict=promotes_strictly())
    if met != there:
        return None
    scalar = typed_scalar(value, *there)
    # do not cache a float or complex zero (0.0 equals -0.0), NaN, or a number whose conversion depends on settings
    if kind is bool and aval.dtype.kind != "b":
        return scalar
    if value == value and (value or kind is int or kind is bool) and (kind is not int or -(1 << 31) <= value < 1 << 31):
        if len(_constants) >= MAX_CONSTANTS:
            _constants.clear()
        _constants[(kind, value, aval)] = scalar
    return scalar


def fast_binary(bind: Callable[..., Any], slow: Callable[..., Any], kinds: str, reflected: bool = False) -> Any:
    """``bind(x, y)`` for operands of one dtype among ``kinds``, or an array and a scalar; otherwise ``slow(x, y)``.

    ``reflected``: swap the operands. Array operators make their own slow path from the attribute ``slow``.
    """

    def operation(x: Any, y: Any, /) -> Any:
        try:
            aval = x.aval
            if type(y) in _SCALAR_KINDS:
                scalar = _constants.get((type(y), y, aval))
                if scalar is None:
                    scalar = _scalar_operand(y, aval)
                if scalar is None or aval.dtype.kind not in kinds:
                    return slow(x, y)
                y = scalar
            elif y.aval is not aval or aval.dtype.kind not in kinds:
                return slow(x, y)
        except AttributeError:
            return slow(x, y)
        return bind(y, x) if reflected else bind(x, y)

    operation.slow = slow  # type: ignore[attr-defined]
    return operation


JNP = "minijax.numpy"


def named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.__module__ = JNP
    return function


def alias(name: str, function: Any) -> Any:
    """``function`` under another ``name``. ``function`` must not be an inner ``jit``."""
    made = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    made.__dict__.update(vars(function))
    made.__qualname__, made.__module__, made.__doc__ = name, function.__module__, function.__doc__
    return made


class _Method:
    """A method of a ufunc (``jnp.add.reduce``): borrowed from JAX on first use."""

    def __init__(self, function: str, name: str) -> None:
        self.__name__, self._of = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return borrow(JNP, f"{self._of}.{self.__name__}")(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<method {self.__name__} of jnp.{self._of}>"


def as_ufunc(function: Any, identity: Any = None, nin: int = 2) -> Any:
    """``function`` with the attributes and methods of a ufunc."""
    function.nin, function.nout, function.nargs, function.identity = nin, 1, nin, identity
    for name in ("reduce", "accumulate", "reduceat", "at", "outer"):
        setattr(function, name, _Method(function.__name__, name))
    return function


def _unary(name: str, primitive: Any, doc: str, to: Any = INEXACT, kinds: str = "fc") -> Callable[[Any], Any]:
    """Make the function ``name``. It converts its operand by ``to`` unless the operand's dtype is among ``kinds``."""
    bind = primitive.bind

    def function(x: Any, /) -> Any:
        try:
            direct = x.aval.dtype.kind in kinds
        except AttributeError:
            if type(x) is float and "f" in kinds:
                return bind(as_array(x))
            direct = False
        return bind(x) if direct else bind(*promote(name, x, to=to))

    return named(function, name, doc)


def _binary(
    name: str, primitive: Any, doc: str, to: Any = None, kinds: str = "iufc", of_bools: Any = None
) -> Callable[[Any, Any], Any]:
    """Make the function ``name``. For booleans it uses the primitive ``of_bools`` instead of ``primitive``."""

    def slow(x: Any, y: Any) -> Any:
        x, y = promote(name, x, y, to=to)
        if of_bools is not None and x.aval.dtype == BOOL:
            return of_bools.bind(x, y)
        return primitive.bind(x, y)

    return named(fast_binary(primitive.bind, slow, kinds), name, doc)


def _ordering(name: str, primitive: Any, doc: str) -> Callable[[Any, Any], Any]:
    """Make the function ``name``, an order comparison. Complex numbers compare by real, then by imaginary parts."""

    def slow(x: Any, y: Any) -> Any:
        x, y = promote(name, x, y)
        if not dtypes.is_complex(x.aval.dtype):
            return primitive.bind(x, y)
        same = lax.eq(lax.real(x), lax.real(y))
        return lax.select(same, primitive.bind(lax.imag(x), lax.imag(y)), primitive.bind(lax.real(x), lax.real(y)))

    return named(fast_binary(primitive.bind, slow, "biuf"), name, doc)


def _logical(name: str, primitive: Any, doc: str) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any, /) -> Any:
        return primitive.bind(*map(_truth, promote(name, x, y)))

    return named(function, name, doc)


def _truth(x: Any) -> Any:
    return x if x.aval.dtype == BOOL else ew.ne_p.bind(x, ew.const(x, 0))


sin = _unary("sin", ew.sin_p, "Sine of each element (radians).")
cos = _unary("cos", ew.cos_p, "Cosine of each element (radians).")
tan = _unary("tan", ew.tan_p, "Tangent of each element (radians).")
arcsin = _unary("arcsin", ew.asin_p, "Inverse sine of each element.")
asin = _unary("asin", ew.asin_p, "Inverse sine of each element.")
arccos = _unary("arccos", ew.acos_p, "Inverse cosine of each element.")
acos = _unary("acos", ew.acos_p, "Inverse cosine of each element.")
arctan = _unary("arctan", ew.atan_p, "Inverse tangent of each element.")
atan = _unary("atan", ew.atan_p, "Inverse tangent of each element.")
sinh = _unary("sinh", ew.sinh_p, "Hyperbolic sine of each element.")
cosh = _unary("cosh", ew.cosh_p, "Hyperbolic cosine of each element.")
tanh = _unary("tanh", ew.tanh_p, "Hyperbolic tangent of each element.")
arcsinh = _unary("arcsinh", ew.asinh_p, "Inverse hyperbolic sine of each element.")
asinh = _unary("asinh", ew.asinh_p, "Inverse hyperbolic sine of each element.")
arctanh = _unary("arctanh", ew.atanh_p, "Inverse hyperbolic tangent of each element.")
atanh = _unary("atanh", ew.atanh_p, "Inverse hyperbolic tangent of each element.")
exp = _unary("exp", ew.exp_p, "e to the power of each element.")
exp2 = _unary("exp2", ew.exp2_p, "2 to the power of each element.")
expm1 = _unary("expm1", ew.expm1_p, "exp(x) - 1 of each element, accurate near 0.")
log = _unary("log", ew.log_p, "Natural logarithm of each element.")
log1p = _unary("log1p", ew.log1p_p, "log(1 + x) of each element, accurate near 0.")
sqrt = _unary("sqrt", ew.sqrt_p, "Square root of each element.")
cbrt = _unary("cbrt", ew.cbrt_p, "Cube root of each element.")
negative = _unary("negative", ew.neg_p, "Each element with its sign changed.", to=None, kinds="iufc")
sign = _unary("sign", ew.sign_p, "-1, 0 or 1 by the sign of each element.", to=None, kinds="iufc")
square = _unary("square", ew.square_p, "Each element times itself.", to=NUMERIC, kinds="iufc")
bitwise_not = _unary("bitwise_not", ew.not_p, "Each element with all its bits flipped.", to=None, kinds="biu")
bitwise_invert = _unary("bitwise_invert", ew.not_p, "Each element with all its bits flipped.", to=None, kinds="biu")
invert = _unary("invert", ew.not_p, "Each element with all its bits flipped.", to=None, kinds="biu")


@inner_jit
def arccosh(x: Any, /) -> Any:
    """Inverse hyperbolic cosine of each element. A complex result has a real part of at least 0."""
    out = ew.acosh_p.bind(*promote("arccosh", x, to=INEXACT))
    if dtypes.is_complex(out.aval.dtype):
        part = lax.real(out)
        return choose(lax.lt(part, const(part, 0)), lax.neg(out), out)
    return out


def acosh(x: Any, /) -> Any:
    """Inverse hyperbolic cosine of each element."""
    return arccosh(x)


def positive(x: Any, /) -> Any:
    """``+x``: ``x`` itself, as an array."""
    return promote("positive", x)[0]


def absolute(x: Any, /) -> Any:
    """The absolute value of each element. It is real for complex elements."""
    x = ensure("absolute", x)
    return x if dtypes.kind(x.aval.dtype) in "bu" else ew.abs_p.bind(x)


abs = alias("abs", absolute)


def fabs(x: Any, /) -> Any:
    """The absolute value of each element as a float. TypeError for complex numbers."""
    x = ensure("fabs", x)
    if dtypes.is_complex(x.aval.dtype):
        raise TypeError("ufunc 'fabs' does not support complex dtypes; use jnp.abs")
    return ew.abs_p.bind(*promote("fabs", x, to=INEXACT))


def _rounding(name: str, primitive: Any, doc: str) -> Callable[[Any], Any]:
    def function(x: Any, /) -> Any:
        x = ensure(name, x)
        return x if dtypes.kind(x.aval.dtype) in "biu" else primitive.bind(x)

    return named(function, name, f"The {doc} each element. Integers and booleans are unchanged.")


floor = _rounding("floor", ew.floor_p, "greatest integer not above")
ceil = _rounding("ceil", ew.ceil_p, "least integer not below")


def reciprocal(x: Any, /) -> Any:
    """1 divided by each element."""
    (x,) = promote("reciprocal", x, to=INEXACT)
    return ew.integer_pow_p.bind(x, y=-1)


def log2(x: Any, /) -> Any:
    """Logarithm to the base 2 of each element."""
    (x,) = promote("log2", x, to=INEXACT)
    if not dtypes.is_complex(x.aval.dtype):
        return lax.div(lax.log(x), lax.log(const(x, 2)))
    found = lax.log(x)
    re, im = lax.real(found), lax.imag(found)
    ln2 = lax.log(const(re, 2))
    return lax.complex(lax.div(re, ln2), lax.div(im, ln2))


def log10(x: Any, /) -> Any:
    """Logarithm to the base 10 of each element."""
    (x,) = promote("log10", x, to=INEXACT)
    scale = 1 / np.log(10.0)
    if not dtypes.is_complex(x.aval.dtype):
        return lax.mul(lax.log(x), const(x, scale))
    found = lax.log(x)
    re, im = lax.real(found), lax.imag(found)
    return lax.complex(lax.mul(re, const(re, scale)), lax.mul(im, const(im, scale)))


def deg2rad(x: Any, /) -> Any:
    """Each element converted from degrees to radians."""
    (x,) = promote("deg2rad", x, to=INEXACT)
    return lax.mul(x, weak_const(x, np.pi / 180))


def rad2deg(x: Any, /) -> Any:
    """Each element converted from radians to degrees."""
    (x,) = promote("rad2deg", x, to=INEXACT)
    return lax.mul(x, weak_const(x, 180 / np.pi))


degrees = alias("degrees", rad2deg)
radians = alias("radians", deg2rad)


def conjugate(x: Any, /) -> Any:
    """The complex conjugate of each element. Real arrays are unchanged."""
    x = ensure("conjugate", x)
    return lax.conj(x) if dtypes.is_complex(x.aval.dtype) else x


conj = alias("conj", conjugate)


def real(val: Any, /) -> Any:
    """The real part of each element. Real arrays are unchanged."""
    val = ensure("real", val)
    return lax.real(val) if dtypes.is_complex(val.aval.dtype) else val


def imag(val: Any, /) -> Any:
    """The imaginary part of each element; zeros for real arrays."""
    val = ensure("imag", val)
    return lax.imag(val) if dtypes.is_complex(val.aval.dtype) else lax.full_like(val, 0)


add = _binary("add", ew.add_p, "Sum, element by element; for booleans, logical or.", of_bools=ew.or_p)
subtract = _binary("subtract", ew.sub_p, "Difference, element by element.")
multiply = _binary("multiply", ew.mul_p, "Product, element by element; for booleans, logical and.", of_bools=ew.and_p)
true_divide = _binary("true_divide", ew.div_p, "Quotient, element by element, as floats.", to=INEXACT, kinds="fc")
divide = _binary("divide", ew.div_p, "Quotient, element by element, as floats.", to=INEXACT, kinds="fc")
maximum = _binary("maximum", ew.max_p, "The larger, element by element; NaN if either is NaN.", kinds="biufc")
minimum = _binary("minimum", ew.min_p, "The smaller, element by element; NaN if either is NaN.", kinds="biufc")
arctan2 = _binary("arctan2", ew.atan2_p, "The angle of the point (x2, x1), between -pi and pi.", to=INEXACT, kinds="f")
atan2 = _binary("atan2", ew.atan2_p, "The angle of the point (x2, x1), between -pi and pi.", to=INEXACT, kinds="f")
float_power = _binary("float_power", ew.pow_p, "x to the power of y, as floats.", to=INEXACT, kinds="fc")
nextafter = _binary("nextafter", ew.nextafter_p, "The next float after x towards y.", to=INEXACT, kinds="f")
bitwise_and = _binary("bitwise_and", ew.and_p, "Bits set in both, element by element.", kinds="biu")
bitwise_or = _binary("bitwise_or", ew.or_p, "Bits set in either, element by element.", kinds="biu")
bitwise_xor = _binary("bitwise_xor", ew.xor_p, "Bits set in exactly one of the two, element by element.", kinds="biu")
left_shift = _binary("left_shift", ew.shift_left_p, "x * 2**y, by shifting bits.", to=NUMERIC, kinds="iu")
bitwise_left_shift = _binary("bitwise_left_shift", ew.shift_left_p, "x * 2**y, by shifting bits.", NUMERIC, "iu")
equal = _binary("equal", ew.eq_p, "Whether elements are equal.", kinds="biufc")
not_equal = _binary("not_equal", ew.ne_p, "Whether elements differ.", kinds="biufc")
greater_equal = _ordering("greater_equal", ew.ge_p, "x >= y, element by element.")
greater = _ordering("greater", ew.gt_p, "x > y, element by element.")
less_equal = _ordering("less_equal", ew.le_p, "x <= y, element by element.")
less = _ordering("less", ew.lt_p, "x < y, element by element.")
logical_and = _logical("logical_and", ew.and_p, "Whether both are nonzero, element by element.")
logical_or = _logical("logical_or", ew.or_p, "Whether either is nonzero, element by element.")
logical_xor = _logical("logical_xor", ew.xor_p, "Whether exactly one is nonzero, element by element.")


def logical_not(x: Any, /) -> Any:
    """Whether each element is zero."""
    return ew.not_p.bind(_truth(promote("logical_not", x)[0]))


def right_shift(x1: Any, x2: Any, /) -> Any:
    """Bits shifted right; the sign is kept for signed integers."""
    x1, x2 = promote("right_shift", x1, x2, to=NUMERIC)
    unsigned = dtypes.is_unsigned(x1.aval.dtype)
    return (ew.shift_right_logical_p if unsigned else ew.shift_right_arithmetic_p).bind(x1, x2)


bitwise_right_shift = alias("bitwise_right_shift", right_shift)


@inner_jit
def bitwise_count(x: Any, /) -> Any:
    """The number of set bits in the absolute value of each element, as uint8."""
    (x,) = promote("bitwise_count", x, to=NUMERIC)
    return convert(ew.population_count_p.bind(absolute(x)), np.dtype(np.uint8))


def isnan(x: Any, /) -> Any:
    """Whether each element is NaN."""
    x = ensure("isnan", x)
    return ew.ne_p.bind(x, x)


def isfinite(x: Any, /) -> Any:
    """Whether each element is a finite number."""
    x = ensure("isfinite", x)
    kind = dtypes.kind(x.aval.dtype)
    if kind == "f":
        return ew.is_finite_p.bind(x)
    if kind == "c":
        return ew.and_p.bind(ew.is_finite_p.bind(lax.real(x)), ew.is_finite_p.bind(lax.imag(x)))
    return lax.full_like(x, True, dtype=BOOL)


@inner_jit
def isinf(x: Any, /) -> Any:
    """Whether each element is infinite, of either sign."""
    x = ensure("isinf", x)
    kind = dtypes.kind(x.aval.dtype)
    if kind == "f":
        return lax.eq(lax.abs(x), const(x, np.inf))
    if kind == "c":
        return ew.or_p.bind(isinf(lax.real(x)), isinf(lax.imag(x)))
    return lax.full_like(x, False, dtype=BOOL)


if not TYPE_CHECKING:  # mypy already sees all names without an underscore
    __all__ = [
        name
        for name, value in globals().items()
        if getattr(value, "__module__", None) in (JNP, __name__)
        and name[0] != "_"
        and name not in ("alias", "as_ufunc", "fast_binary", "named")
    ]


for _function, _identity in (
    (add, 0),
    (multiply, 1),
    (subtract, None),
    (maximum, None),
    (minimum, None),
    (bitwise_and, -1),
    (bitwise_or, 0),
    (bitwise_xor, 0),
    (logical_and, True),
    (logical_or, False),
    (logical_xor, False),
):
    as_ufunc(_function, _identity)
as_ufunc(negative, nin=1)
