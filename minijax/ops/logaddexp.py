"""``log(exp(a) + exp(b))`` and its base 2 variant, with special derivative rules.

The derivative of the formula itself would be NaN for an infinite operand.
"""

from __future__ import annotations

import math
from typing import Any

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.rules import Rule
from minijax.ops.custom_jvp import with_jvp_rule
from minijax.ops.declare import unchanged
from minijax.ops.elementwise import (
    abs_p,
    add_p,
    complex_p,
    const,
    eq_p,
    exp2_p,
    exp_p,
    imag_p,
    log1p_p,
    lt_p,
    max_p,
    mul_p,
    ne_p,
    neg_p,
    real_p,
    rem_p,
    sub_p,
)
from minijax.ops.select import select
from minijax.ops.shape import full_like

add = add_p.bind
complex = complex_p.bind
eq = eq_p.bind
exp = exp_p.bind
imag = imag_p.bind
max = max_p.bind
mul = mul_p.bind
neg = neg_p.bind
real = real_p.bind
rem = rem_p.bind
sub = sub_p.bind


def _per_ln2(x: Any) -> Any:
    return mul(const(x, 1 / math.log(2)), x)


def _sum_of_exponentials(x1: Any, x2: Any, exponential: Rule, scaled: Rule, half_turn: float) -> Any:
    """log-add-exp in the base of ``exponential``; ``scaled`` converts natural logarithms to that base."""
    larger = max(x1, x2)
    if dtypes.is_complex(get_aval(larger).dtype):
        distance = sub(add(x1, x2), mul(larger, const(larger, 2)))
        out = add(larger, scaled(log1p_p.bind(exponential(distance))))
        return complex(real(out), _wrapped(imag(out), half_turn))
    distance = sub(x1, x2)
    # the difference of equal infinities is NaN; use their sum, which is the correct result
    is_nan, total = ne_p.bind(distance, distance), add(x1, x2)
    usual = add(larger, scaled(log1p_p.bind(exponential(neg(abs_p.bind(distance))))))
    return select(is_nan, total, usual)


def _wrapped(x: Any, half_turn: float) -> Any:
    """``x``, shifted by multiples of ``2 * half_turn`` into the range from ``-half_turn`` to ``half_turn``."""
    half, whole = const(x, half_turn), const(x, 2 * half_turn)
    rest = rem(add(x, half), whole)
    rest = select(lt_p.bind(rest, const(x, 0)), add(rest, whole), rest)
    return sub(rest, half)


def _finite_or_zero(x: Any) -> Any:
    """``x``, with 0 where ``x`` is inf; a complex ``x`` counts as inf if its real part is inf."""
    part = real(x) if dtypes.is_complex(get_aval(x).dtype) else x
    return select(eq(part, const(part, math.inf)), full_like(x, 0), x)


def _tangent(exponential: Rule, out: Any, *operands: tuple[Any, Any]) -> Any:
    """The tangent of ``out``, the result; ``operands``: pairs of an operand and its tangent."""
    first, second = [mul(t, exponential(sub(_finite_or_zero(x), _finite_or_zero(out)))) for x, t in operands]
    return add(first, second)


def _logaddexp(x1: Any, x2: Any) -> Any:
    return _sum_of_exponentials(x1, x2, exp, unchanged, math.pi)


def _logaddexp_jvp(x1: Any, x2: Any, t1: Any, t2: Any) -> Any:
    out = logaddexp(x1, x2)
    return out, _tangent(exp, out, (x1, t1), (x2, t2))


def _logaddexp2(x1: Any, x2: Any) -> Any:
    return _sum_of_exponentials(x1, x2, exp2_p.bind, _per_ln2, math.pi / math.log(2))


def _logaddexp2_jvp(x1: Any, x2: Any, t1: Any, t2: Any) -> Any:
    out = logaddexp2(x1, x2)
    return out, _tangent(exp2_p.bind, out, (x1, t1), (x2, t2))


def logaddexp(x1: Any, x2: Any) -> Any:
    """``log(exp(x1) + exp(x2))`` without overflow, for two arrays of one inexact dtype that broadcast."""
    return with_jvp_rule("logaddexp", _logaddexp, _logaddexp_jvp, x1, x2)


def logaddexp2(x1: Any, x2: Any) -> Any:
    """``log2(2**x1 + 2**x2)`` without overflow, for two arrays of one inexact dtype that broadcast."""
    return with_jvp_rule("logaddexp2", _logaddexp2, _logaddexp2_jvp, x1, x2)
