"""Taylor rules of the primitives for which there is a shorter way than by their jvp rules.

Linear ones act on each coefficient, products are convolutions, and what satisfies a differential equation has its
coefficients from a recurrence. The formulas are those of Griewank and Walther, Evaluating Derivatives, section 13.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.array import get_aval
from minijax.core.lists import split_list
from minijax.core.primitive import Primitive
from minijax.core.structural import add_any_p
from minijax.experimental.jet.taylor import Series, jet_flat, jet_rules
from minijax.interpreters.stage import stage
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ops import elementwise as ew
from minijax.ops.call import jit_p
from minijax.ops.convert import convert_element_type_p
from minijax.ops.cumulative import cumsum_p
from minijax.ops.dot import dot_general_p
from minijax.ops.reduce import reduce_sum_p
from minijax.ops.shape import broadcast_in_dim_p, reshape_p, rev_p, squeeze_p, transpose_p
from minijax.ops.slicing import concatenate_p, pad_p, slice_p


def _total(terms: Sequence[Any]) -> Any:
    return functools.reduce(ew.add_p.bind, terms)


def _convolved(a: Series, b: Series, k: int, times: Callable[[Any, Any], Any]) -> Any:
    """The coefficient of t^k of a product."""
    return _total([times(a[j], b[k - j]) for j in range(k + 1)])


def _integrated(u: Series, slopes: Series, k: int) -> Any:
    """The coefficient of t^k of what has the derivative ``slope(t) u'(t)``, of whose slope k are known."""
    return _total([j * u[j] * slopes[k - j] for j in range(1, k + 1)]) / k


def linear(primitive: Primitive) -> None:
    """The rule of a primitive that is linear in all of its operands together."""

    def linear_jet(series: Sequence[Series], **params: Any) -> Series:
        return [primitive.bind(*terms, **params) for terms in zip(*series, strict=True)]

    jet_rules[primitive] = linear_jet


def bilinear(primitive: Primitive) -> None:
    """The rule of a product."""

    def bilinear_jet(series: Sequence[Series], **params: Any) -> Series:
        a, b = series
        times = functools.partial(primitive.bind, **params)
        return [_convolved(a, b, k, times) for k in range(len(a))]

    jet_rules[primitive] = bilinear_jet


for _p in (
    *(ew.neg_p, ew.add_p, ew.sub_p, add_any_p, ew.real_p, ew.imag_p, convert_element_type_p),
    *(broadcast_in_dim_p, reshape_p, rev_p, squeeze_p, transpose_p, concatenate_p, pad_p, slice_p),
    *(reduce_sum_p, cumsum_p),
):
    linear(_p)
for _p in (ew.mul_p, dot_general_p):
    bilinear(_p)


def div_jet(series: Sequence[Series]) -> Series:
    u, v = series
    w: Series = []
    for k in range(len(u)):
        known = [w[j] * v[k - j] for j in range(k)]
        w.append(ew.div_p.bind(u[k] - _total(known) if known else u[k], v[0]))
    return w


def exp_jet(series: Sequence[Series], **params: Any) -> Series:
    (u,) = series
    v = [ew.exp_p.bind(u[0], **params)]
    for k in range(1, len(u)):
        v.append(_integrated(u, v, k))
    return v


def log_jet(series: Sequence[Series], **params: Any) -> Series:
    (u,) = series
    v = [ew.log_p.bind(u[0], **params)]
    for k in range(1, len(u)):
        known = [j * v[j] * u[k - j] for j in range(1, k)]
        v.append((u[k] - _total(known) / k if known else u[k]) / u[0])
    return v


def _pair(sign: int, first: Primitive, second: Primitive, wanted: int) -> Callable[..., Series]:
    """Of s and c with s' = c u' and c' = sign s u'."""

    def pair_jet(series: Sequence[Series], **params: Any) -> Series:
        (u,) = series
        s, c = [first.bind(u[0], **params)], [second.bind(u[0], **params)]
        for k in range(1, len(u)):
            s_k, c_k = _integrated(u, c, k), _integrated(u, s, k)
            s.append(s_k)
            c.append(c_k if sign > 0 else -c_k)
        return (s, c)[wanted]

    return pair_jet


def _by_slope(primitive: Primitive, slope: Callable[[Series, int], Any]) -> Callable[..., Series]:
    """Of v with v' = g u', where the coefficient of t^k of g follows from those of v up to that."""

    def slope_jet(series: Sequence[Series], **params: Any) -> Series:
        (u,) = series
        v = [primitive.bind(u[0], **params)]
        slopes: Series = []
        for k in range(1, len(u)):
            slopes.append(slope(v, k - 1))
            v.append(_integrated(u, slopes, k))
        return v

    return slope_jet


def _tanh_slope(v: Series, k: int) -> Any:
    """1 - v^2"""
    square = _convolved(v, v, k, ew.mul_p.bind)
    return -square if k else 1 - square


def _logistic_slope(v: Series, k: int) -> Any:
    """v - v^2"""
    return v[k] - _convolved(v, v, k, ew.mul_p.bind)


def sqrt_jet(series: Sequence[Series], **params: Any) -> Series:
    (u,) = series
    v = [ew.sqrt_p.bind(u[0], **params)]
    for k in range(1, len(u)):
        known = [v[j] * v[k - j] for j in range(1, k)]
        v.append((u[k] - _total(known) if known else u[k]) / (2 * v[0]))
    return v


def integer_pow_jet(series: Sequence[Series], *, y: int) -> Series:
    """By squaring, so that it holds at 0 too."""
    (u,) = series
    times = jet_rules[ew.mul_p]
    powers, result, rest = u, None, abs(y)
    while rest:
        if rest & 1:
            result = powers if result is None else times([result, powers])
        rest >>= 1
        if rest:
            powers = times([powers, powers])
    one = [ew.integer_pow_p.bind(u[0], y=0), *[x * 0 for x in u[1:]]]
    if result is None:
        return one
    return div_jet([one, result]) if y < 0 else result


jet_rules.update(
    {
        ew.div_p: div_jet,
        ew.exp_p: exp_jet,
        ew.log_p: log_jet,
        ew.sqrt_p: sqrt_jet,
        ew.integer_pow_p: integer_pow_jet,
        ew.sin_p: _pair(-1, ew.sin_p, ew.cos_p, 0),
        ew.cos_p: _pair(-1, ew.sin_p, ew.cos_p, 1),
        ew.sinh_p: _pair(1, ew.sinh_p, ew.cosh_p, 0),
        ew.cosh_p: _pair(1, ew.sinh_p, ew.cosh_p, 1),
        ew.tanh_p: _by_slope(ew.tanh_p, _tanh_slope),
        ew.logistic_p: _by_slope(ew.logistic_p, _logistic_slope),
    }
)


def jit_jet(series: Sequence[Series], *, jaxpr: ClosedJaxpr, name: str, **params: Any) -> list[Series]:
    """A call of the Taylor mode of the program, staged once for each order."""
    order = len(series[0]) - 1 if series else 0
    flat = [x for each in series for x in each if x is not None]
    smooth = tuple(each[-1] is not None for each in series)
    key = ("jet", order, smooth)
    if key not in jaxpr.memo:
        sizes: list[int] = []

        def jet_of_jaxpr(*values: Any) -> list[Any]:
            given = iter(values)
            parts = [[next(given) for _ in range(order + 1 if s else 1)] for s in smooth]
            whole = [each if len(each) > order else [*each, *[None] * order] for each in parts]
            found = jet_flat(lambda *xs: eval_closed(jaxpr, *xs), whole, order)
            outs = [[x for x in each if x is not None] for each in found]
            sizes[:] = map(len, outs)
            return [x for each in outs for x in each]

        jaxpr.memo[key] = stage(jet_of_jaxpr, list(map(get_aval, flat)), jaxpr.jaxpr.debug_name, "jet"), sizes
    closed, sizes = jaxpr.memo[key]
    outs = split_list(jit_p.bind(*flat, jaxpr=closed, name=name), *sizes)[:-1]
    return [[*each, *[None] * (order + 1 - len(each))] for each in outs]


jet_rules[jit_p] = jit_jet
