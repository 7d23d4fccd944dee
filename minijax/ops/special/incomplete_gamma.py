"""The regularised incomplete gamma functions ``igamma`` and ``igammac``, their derivative by the first operand
``igamma_grad_a``, and ``random_gamma_grad``.

``igamma(a, x)`` is the integral of ``t**(a-1) exp(-t) / gamma(a)`` from 0 to x, ``igammac`` the rest of it up to
infinity. For small x the power series of the first is summed, elsewhere the continued fraction of the second (DLMF
8.7.1 and 8.9.2), by the recurrence of its numerators p and denominators q, which are scaled down when they grow large.
Both are differentiated by a, term by term, along with the sum. The parts and the order of operations are those of
JAX's programs, so that what is compiled has the same bits.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core.array import get_aval
from minijax.ops.convert import alike, convert
from minijax.ops.elementwise import (
    abs_p,
    add_p,
    and_p,
    digamma_p,
    div_p,
    exp_p,
    ge_p,
    gt_p,
    integer_pow_p,
    le_p,
    lgamma_p,
    log_p,
    lt_p,
    mul_p,
    ne_p,
    neg_p,
    not_p,
    or_p,
    sub_p,
)
from minijax.ops.nary import NO_DERIVATIVE, eq_p
from minijax.ops.select import select
from minijax.ops.shape import broadcast_in_dim, broadcast_shapes, shape_of
from minijax.ops.special.computed import any_of, computed, filled, kept, loop, scalar

__all__ = [
    "igamma",
    "igamma_grad_a",
    "igamma_grad_a_p",
    "igamma_p",
    "igammac",
    "igammac_p",
    "random_gamma_grad",
]

add: Callable[..., Any] = add_p.bind
sub: Callable[..., Any] = sub_p.bind
mul: Callable[..., Any] = mul_p.bind
div: Callable[..., Any] = div_p.bind
neg: Callable[..., Any] = neg_p.bind

# After so many terms the continued fraction is left as it is.
_TERMS = 2000.0


class Wanted(enum.Enum):
    """What is computed: the function, its derivative by a, or that by a of the x at which the function is constant."""

    VALUE = 0
    DERIVATIVE = 1
    SAMPLE_DERIVATIVE = 2


def _eps(x: Any) -> Any:
    dtype = get_aval(x).dtype
    return dtype.type(np.finfo(dtype).eps)


# -------------------------------------------------------------------------------- the power series


def _series_goes_on(enabled: Any, *state: Any) -> Any:
    return any_of(enabled)


def _series_step(wanted: Wanted, enabled: Any, r: Any, c: Any, total: Any, x: Any, dc: Any, dtotal: Any) -> list[Any]:
    """The next term ``c``, and its derivative ``dc`` by a."""
    eps = _eps(x)
    new_r = add(r, scalar(x, 1))
    new_dc = sub(mul(dc, div(x, new_r)), div(mul(c, x), mul(new_r, new_r)))
    new_dtotal = add(dtotal, new_dc)
    new_c = mul(c, div(x, new_r))
    new_total = add(total, new_c)
    if wanted is Wanted.VALUE:
        more = gt_p.bind(div(new_c, new_total), eps)
    else:
        more = gt_p.bind(abs_p.bind(div(new_dc, new_dtotal)), eps)
    new = [new_r, new_c, new_total, x, new_dc, new_dtotal]
    return [and_p.bind(enabled, more), *kept(enabled, new, [r, c, total, x, dc, dtotal])]


_SERIES_STEPS = {wanted: functools.partial(_series_step, wanted) for wanted in Wanted}


def _series(wanted: Wanted, ax: Any, a: Any, x: Any, enabled: Any) -> Any:
    """``igamma`` by its power series, or a derivative of it; ``ax`` is its factor ``x**a exp(-x) / gamma(a)``."""
    start = [enabled, a, filled(a, 1), filled(a, 1), x, filled(a, 0), filled(a, 0)]
    _, _, _, total, _, _, dtotal = loop(_series_goes_on, _SERIES_STEPS[wanted], start)
    if wanted is Wanted.VALUE:
        return div(mul(total, ax), a)
    # the derivative of the logarithm of ax / a
    change = sub(log_p.bind(x), digamma_p.bind(add(a, scalar(a, 1))))
    whole = add(dtotal, mul(total, change))
    return div(mul(ax, whole), a) if wanted is Wanted.DERIVATIVE else div(mul(neg(whole), x), a)


# -------------------------------------------------------------------------------- the continued fraction


def _fraction_goes_on(enabled: Any, value: Any, t: Any, y: Any, z: Any, term: Any, *state: Any) -> Any:
    return and_p.bind(lt_p.bind(term, scalar(term, _TERMS)), any_of(enabled))


def _fraction_step(
    wanted: Wanted,
    enabled: Any,
    value: Any,
    t: Any,
    y: Any,
    z: Any,
    term: Any,
    p1: Any,
    q1: Any,
    p2: Any,
    q2: Any,
    dp2: Any,
    dq2: Any,
    dp1: Any,
    dq1: Any,
    dvalue: Any,
) -> list[Any]:
    """The next convergent: ``p1 / q1`` was the last, ``p2 / q2`` the one before, and ``d``: their derivatives by a."""
    eps = _eps(value)
    term = add(term, scalar(term, 1))
    new_y, new_z = add(y, scalar(y, 1)), add(z, scalar(z, 2))
    factor = mul(new_y, term)
    p = sub(mul(p1, new_z), mul(p2, factor))
    q = sub(mul(q1, new_z), mul(q2, factor))
    nonzero = ne_p.bind(q, scalar(q, 0))
    ratio = div(p, q)
    change = abs_p.bind(div(sub(value, ratio), ratio))
    new_t = select(nonzero, change, filled(t, 1))
    new_value = select(nonzero, ratio, value)

    dp = add(sub(sub(mul(dp1, new_z), p1), mul(dp2, factor)), mul(p2, term))
    dq = add(sub(sub(mul(dq1, new_z), q1), mul(dq2, factor)), mul(q2, term))
    new_dvalue = select(nonzero, div(sub(dp, mul(new_value, dq)), q), dvalue)
    moved = select(nonzero, abs_p.bind(sub(new_dvalue, dvalue)), filled(dvalue, 1))

    large = gt_p.bind(abs_p.bind(p), integer_pow_p.bind(eps, y=-1))
    old = [p1, p, q1, q, dp1, dq1, dp, dq]
    before_p, new_p, before_q, new_q, before_dp, before_dq, new_dp, new_dq = (
        select(large, mul(v, eps), v) for v in old
    )
    more = gt_p.bind(new_t if wanted is Wanted.VALUE else moved, eps)
    named = [new_value, new_t, new_y, new_z]
    rest = [new_p, new_q, before_p, before_q, before_dp, before_dq, new_dp, new_dq, new_dvalue]
    return [
        and_p.bind(enabled, more),
        *kept(enabled, named, [value, t, y, z]),
        term,
        *kept(enabled, rest, [p1, q1, p2, q2, dp2, dq2, dp1, dq1, dvalue]),
    ]


_FRACTION_STEPS = {wanted: functools.partial(_fraction_step, wanted) for wanted in Wanted}


def _fraction(wanted: Wanted, ax: Any, a: Any, x: Any, enabled: Any) -> Any:
    """``igammac`` by its continued fraction, or a derivative of it; ``ax`` as in ``_series``."""
    y = sub(scalar(a, 1), a)
    z = add(add(x, y), scalar(x, 1))
    p2, q2 = filled(x, 1), x
    p1 = add(x, scalar(x, 1))
    q1 = mul(z, x)
    value = div(p1, q1)
    t, dp2, dq2, dp1 = filled(x, 1), filled(x, 0), filled(x, 0), filled(x, 0)
    dq1 = neg(x)
    dvalue = div(sub(dp1, mul(value, dq1)), q1)
    start = [enabled, value, t, y, z, scalar(x, 0), p1, q1, p2, q2, dp2, dq2, dp1, dq1, dvalue]
    _, value, *_, dvalue = loop(_fraction_goes_on, _FRACTION_STEPS[wanted], start)
    if wanted is Wanted.VALUE:
        return mul(value, ax)
    # the derivative of the logarithm of ax
    change = sub(log_p.bind(x), digamma_p.bind(a))
    whole = add(dvalue, mul(value, change))
    return mul(ax, whole) if wanted is Wanted.DERIVATIVE else neg(mul(whole, x))


# -------------------------------------------------------------------------------- the functions


def _factor(a: Any, x: Any) -> tuple[Any, Any]:
    """``x**a exp(-x) / gamma(a)``, and whether it is smaller than any number."""
    log_ax = sub(sub(mul(a, log_p.bind(x)), x), lgamma_p.bind(a))
    dtype = get_aval(x).dtype
    most = log_p.bind(dtype.type(np.finfo(dtype).max))
    return exp_p.bind(log_ax), lt_p.bind(log_ax, neg(most))


def _is_nan(a: Any, x: Any) -> Any:
    return or_p.bind(ne_p.bind(a, a), ne_p.bind(x, x))


def _any(*flags: Any) -> Any:
    return functools.reduce(or_p.bind, flags)


def _wrong(a: Any, x: Any) -> Any:
    """Where the functions are not defined."""
    both = and_p.bind(eq_p.bind(a, filled(a, 0)), eq_p.bind(x, filled(x, 0)))
    return _any(lt_p.bind(x, filled(x, 0)), lt_p.bind(a, filled(a, 0)), both, _is_nan(a, x))


def _igamma(a: Any, x: Any) -> Any:
    at_zero, at_infinity = eq_p.bind(x, filled(x, 0)), eq_p.bind(x, filled(x, np.inf))
    wrong, (ax, tiny) = _wrong(a, x), _factor(a, x)
    by_fraction = and_p.bind(ge_p.bind(x, filled(x, 1)), gt_p.bind(x, a))
    enabled = not_p.bind(_any(at_zero, wrong, tiny, at_infinity))
    rest = sub(filled(x, 1), _fraction(Wanted.VALUE, ax, a, x, and_p.bind(enabled, by_fraction)))
    first = _series(Wanted.VALUE, ax, a, x, and_p.bind(enabled, not_p.bind(by_fraction)))
    out = select(by_fraction, rest, first)
    out = select(at_zero, filled(x, 0), out)
    out = select(at_infinity, filled(x, 1), out)
    return select(wrong, filled(x, np.nan), out)


def _igammac(a: Any, x: Any) -> Any:
    nowhere, at_infinity = eq_p.bind(a, filled(a, 0)), eq_p.bind(x, filled(x, np.inf))
    wrong, (ax, tiny) = _wrong(a, x), _factor(a, x)
    by_series = or_p.bind(lt_p.bind(x, filled(x, 1)), lt_p.bind(x, a))
    enabled = not_p.bind(_any(wrong, tiny, at_infinity, nowhere))
    first = sub(filled(x, 1), _series(Wanted.VALUE, ax, a, x, and_p.bind(enabled, by_series)))
    rest = _fraction(Wanted.VALUE, ax, a, x, and_p.bind(enabled, not_p.bind(by_series)))
    out = select(by_series, first, rest)
    out = select(or_p.bind(at_infinity, nowhere), filled(x, 0), out)
    return select(wrong, filled(x, np.nan), out)


def _derivative_by_a(wanted: Wanted, a: Any, x: Any) -> Any:
    is_nan = _is_nan(a, x)
    at_zero = eq_p.bind(x, filled(x, 0))
    outside = or_p.bind(lt_p.bind(x, filled(x, 0)), le_p.bind(a, filled(a, 0)))
    by_fraction = and_p.bind(gt_p.bind(x, filled(x, 1)), gt_p.bind(x, a))
    log_ax = sub(sub(mul(a, log_p.bind(x)), x), lgamma_p.bind(a))
    dtype = get_aval(x).dtype
    tiny = lt_p.bind(log_ax, neg(log_p.bind(dtype.type(np.finfo(dtype).max))))
    ax = exp_p.bind(log_ax)
    enabled = not_p.bind(_any(at_zero, outside, tiny, is_nan))
    rest = neg(_fraction(wanted, ax, a, x, and_p.bind(enabled, by_fraction)))
    first = _series(wanted, ax, a, x, and_p.bind(enabled, not_p.bind(by_fraction)))
    out = select(by_fraction, rest, first)
    out = select(at_zero, filled(x, 0), out)
    return select(or_p.bind(outside, is_nan), filled(x, np.nan), out)


def _igamma_grad_a(a: Any, x: Any) -> Any:
    return _derivative_by_a(Wanted.DERIVATIVE, a, x)


igamma_grad_a_p = computed("igamma_grad_a", 2, _igamma_grad_a, NO_DERIVATIVE)


def _by_a(g: Any, ans: Any, a: Any, x: Any) -> Any:
    return mul(g, igamma_grad_a_p.bind(a, x))


def _by_x(g: Any, ans: Any, a: Any, x: Any) -> Any:
    """The integrand."""
    exponent = add(*alike(neg(x), mul(*alike(sub(a, filled(a, 1)), log_p.bind(x)))))
    return mul(*alike(g, exp_p.bind(sub(*alike(exponent, lgamma_p.bind(a))))))


igamma_p = computed("igamma", 2, _igamma, [_by_a, _by_x])
igammac_p = computed(
    "igammac", 2, _igammac, [lambda *args: neg(_by_a(*args)), lambda *args: neg(_by_x(*args))]
)


def igamma(a: Any, x: Any) -> Any:
    """The regularised lower incomplete gamma function: the integral of ``t**(a-1) exp(-t) / gamma(a)`` up to ``x``."""
    return igamma_p.bind(a, x)


def igammac(a: Any, x: Any) -> Any:
    """The regularised upper incomplete gamma function, ``1 - igamma(a, x)``, also where that is tiny."""
    return igammac_p.bind(a, x)


def igamma_grad_a(a: Any, x: Any) -> Any:
    """The derivative of ``igamma(a, x)`` by ``a``."""
    return igamma_grad_a_p.bind(a, x)


def random_gamma_grad(a: Any, sample: Any) -> Any:
    """The derivative by ``a`` of a sample of the gamma distribution with that shape: how ``sample`` moves with ``a`` so
    that ``igamma(a, sample)`` stays the same. Arrays of floats of one dtype; ValueError if they do not broadcast.

    (M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients", 2018.)
    """
    shape = broadcast_shapes(shape_of(a), shape_of(sample))
    a, sample = (
        broadcast_in_dim(x, shape, range(len(shape) - len(shape_of(x)), len(shape))) if shape_of(x) != shape else x
        for x in (a, sample)
    )
    dtype = get_aval(a).dtype
    if dtype.itemsize >= 4:
        return _derivative_by_a(Wanted.SAMPLE_DERIVATIVE, a, sample)
    wide = np.dtype(np.float32)
    return convert(_derivative_by_a(Wanted.SAMPLE_DERIVATIVE, convert(a, wide), convert(sample, wide)), dtype)
