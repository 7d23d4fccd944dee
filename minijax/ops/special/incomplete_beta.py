"""The regularised incomplete beta function, ``regularized_incomplete_beta``.

By its continued fraction (DLMF 8.17.22), which converges fast for ``x < (a + 1) / (a + b + 2)``; elsewhere by that of
the rest of the integral, ``1 - I(b, a, 1 - x)``. Evaluated by the modified method of Lentz (W. Press et al., "Numerical
recipes", 5.2), in the order of operations of JAX's program, so that results agree to the last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core.array import get_aval
from minijax.ops.convert import alike, convert
from minijax.ops.elementwise import (
    abs_p,
    add_p,
    and_p,
    const,
    div_p,
    exp_p,
    ge_p,
    gt_p,
    lgamma_p,
    log1p_p,
    log_p,
    lt_p,
    mul_p,
    ne_p,
    neg_p,
    not_p,
    or_p,
    rem_p,
    sub_p,
)
from minijax.ops.nary import eq_p, maybe_broadcast
from minijax.ops.select import select
from minijax.ops.special.computed import any_of, computed, filled, loop

__all__ = ["betainc", "regularized_incomplete_beta_p"]

add: Callable[..., Any] = add_p.bind
sub: Callable[..., Any] = sub_p.bind
mul: Callable[..., Any] = mul_p.bind
div: Callable[..., Any] = div_p.bind
neg: Callable[..., Any] = neg_p.bind
both: Callable[..., Any] = and_p.bind
either: Callable[..., Any] = or_p.bind


def _small(x: Any) -> Any:
    """What stands for zero, and to what the factors of the fraction come near one."""
    dtype = get_aval(x).dtype
    return dtype.type(np.finfo(dtype).eps / 2)


def _numerator(i: Any, a: Any, b: Any, x: Any) -> Any:
    """The ``i``th partial numerator of the fraction: 1 is the first."""
    shape, dtype = get_aval(x).shape, get_aval(x).dtype

    def everywhere(flag: Any) -> Any:
        return maybe_broadcast(shape, flag)

    half = div(sub(i, np.int32(1)), np.int32(2))
    m = maybe_broadcast(shape, convert(half, dtype))
    one, two = filled(x, 1), filled(x, 2)
    first = div(mul(neg(add(a, b)), x), add(a, one))
    twice = add(a, mul(two, m))
    even = div(mul(mul(neg(add(a, m)), add(add(a, b), m)), x), mul(twice, add(twice, one)))
    odd = div(mul(mul(m, sub(b, m)), x), mul(sub(twice, one), twice))
    is_even = everywhere(eq_p.bind(rem_p.bind(i, np.int32(2)), np.int32(0)))
    later = select(is_even, select(everywhere(eq_p.bind(half, np.int32(0))), first, even), odd)
    return select(everywhere(eq_p.bind(i, np.int32(1))), one, later)


def _terms(x: Any) -> int:
    return 200 if get_aval(x).dtype.itemsize == 4 else 600


def _goes_on(a: Any, b: Any, x: Any, i: Any, more: Any, *state: Any) -> Any:
    return both(lt_p.bind(i, np.int32(_terms(x))), more)


def _nonzero(x: Any) -> Any:
    small = _small(x)
    return select(lt_p.bind(abs_p.bind(x), small), filled(x, small), x)


def _step(a: Any, b: Any, x: Any, i: Any, more: Any, c: Any, d: Any, h: Any) -> list[Any]:
    """The next convergent ``h``, by the ratios ``c`` and ``d`` of numerators and of denominators."""
    numerator, one = _numerator(i, a, b, x), filled(x, 1)
    c = _nonzero(add(one, div(numerator, c)))
    d = div(one, _nonzero(add(one, mul(numerator, d))))
    change = mul(c, d)
    unlike = ge_p.bind(abs_p.bind(sub(change, one)), filled(x, _small(x)))
    return [a, b, x, add(i, np.int32(1)), any_of(unlike), c, d, mul(h, change)]


def _front(a: Any, b: Any, x: Any) -> Any:
    """``x**a (1 - x)**b / (a B(a, b))``; where ``a`` is hardly a number, what that comes to."""
    part = sub(lgamma_p.bind(b), lgamma_p.bind(add(a, b)))
    log_beta = add(lgamma_p.bind(a), part)
    rest = mul(log1p_p.bind(neg(x)), b)
    tiny = lt_p.bind(a, filled(a, 2 * np.finfo(get_aval(a).dtype).tiny))
    usual = div(exp_p.bind(sub(add(mul(log_p.bind(x), a), rest), log_beta)), a)
    return select(tiny, exp_p.bind(sub(rest, part)), usual)


def _betainc(a: Any, b: Any, x: Any) -> Any:
    zero, one = filled(x, 0), filled(x, 1)
    is_zero, is_one = eq_p.bind(x, zero), eq_p.bind(x, one)
    at_0 = either(eq_p.bind(a, zero), eq_p.bind(b, filled(x, np.inf)))  # all of the distribution is at 0
    at_1 = either(eq_p.bind(b, zero), eq_p.bind(a, filled(x, np.inf)))
    gives_0 = either(both(at_1, not_p.bind(is_one)), both(at_0, is_zero))
    gives_1 = either(both(at_0, not_p.bind(is_zero)), both(at_1, is_one))
    wrong = either(lt_p.bind(a, zero), lt_p.bind(b, zero))
    wrong = either(either(wrong, lt_p.bind(x, zero)), gt_p.bind(x, one))
    is_nan = either(either(ne_p.bind(a, a), ne_p.bind(b, b)), ne_p.bind(x, x))
    wrong = either(wrong, either(both(at_0, at_1), is_nan))

    fast = lt_p.bind(x, div(add(a, one), add(add(a, b), filled(x, 2))))
    p, q, y = select(fast, a, b), select(fast, b, a), select(fast, x, sub(one, x))
    small = filled(x, _small(x))
    start = [p, q, y, np.int32(1), np.bool_(True), small, zero, small]
    *_, h = loop(_goes_on, _step, start)
    found = mul(h, _front(p, q, y))
    out = select(fast, found, sub(one, found))
    out = select(gives_1, one, select(gives_0, zero, out))
    return select(wrong, filled(x, np.nan), out)


def _by_shape(g: Any, ans: Any, a: Any, b: Any, x: Any) -> Any:
    raise ValueError(
        "Betainc gradient with respect to a and b not supported. Pass them as constants, by lax.stop_gradient."
    )


def _by_x(g: Any, ans: Any, a: Any, b: Any, x: Any) -> Any:
    """The integrand."""
    log_beta = sub(add(lgamma_p.bind(a), lgamma_p.bind(b)), lgamma_p.bind(add(a, b)))
    upper = mul(*alike(sub(b, const(b, 1)), log1p_p.bind(neg(x))))
    lower = mul(*alike(sub(a, const(a, 1)), log_p.bind(x)))
    return mul(*alike(exp_p.bind(sub(*alike(add(*alike(upper, lower)), log_beta))), g))


regularized_incomplete_beta_p = computed(
    "regularized_incomplete_beta", 3, _betainc, [_by_shape, _by_shape, _by_x]
)


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function: the part up to ``x`` of the integral of ``t**(a-1) (1-t)**(b-1)``.

    Floats of one dtype; differentiated by ``x`` alone.
    """
    return regularized_incomplete_beta_p.bind(a, b, x)


