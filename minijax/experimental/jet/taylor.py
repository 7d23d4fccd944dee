"""Taylor mode: push truncated Taylor polynomials through a function.

In: for each input its value and the coefficients of t, t^2, ... of a polynomial in t. Out: the same of the outputs.
Invariant: coefficients have the type of the value; a result that does not depend on t is no tracer at all.

A rule, ``rule(series, **params)``, is given for each operand the list of all coefficients, the value first, and gives
that of the result (of each result, if there are several). A primitive without one is differentiated: from y = f(x)
follows y' = J(x) x', of which the coefficients up to one order less are wanted. That is Taylor mode of the jvp of f, so
every primitive that has a jvp rule can be used, loops and branches among them.

Source: Griewank, Walther, Evaluating Derivatives, chapter 13.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from minijax.api.flat import check_callable, describe
from minijax.core import dtypes
from minijax.core.array import get_aval, is_array_like
from minijax.core.primitive import Primitive
from minijax.core.rules import Rule, RuleTable
from minijax.core.structural import instantiate_zeros, zero_of
from minijax.core.trace import Trace, Tracer, under
from minijax.interpreters.jvp import jvp, jvp_rules
from minijax.lax import full_like
from minijax.ops.convert import convert
from minijax.pytree import tree_flatten, tree_structure, tree_unflatten, treedef_is_leaf

Series = list[Any]


class _JetRules(RuleTable):
    """The table of Taylor rules. It is not among the engine's tables: where it has no rule it needs none."""

    def __init__(self) -> None:
        dict.__init__(self)
        self.name = "jet"
        self.holes = {}


jet_rules = _JetRules()


class JetTracer(Tracer):
    """A value with the coefficients of its Taylor polynomial."""

    __slots__ = ("series", "aval")

    aval: Any  # type: ignore[misc]

    def __init__(self, trace: Trace, series: Series) -> None:
        self._trace = trace
        self.series = series
        self.aval = get_aval(series[0])

    def to_concrete_value(self) -> Any:
        value = self.series[0]
        return value.to_concrete_value() if isinstance(value, Tracer) else value

    def _inside(self) -> Tracer | None:
        return self.series[0] if isinstance(self.series[0], Tracer) else None

    def _level(self) -> tuple[str, Any]:
        return f"{self._trace.main!r} adds Taylor coefficients", self.series[0]


class JetTrace(Trace):
    """Applies Taylor rules, up to the order that is its main's data."""

    __slots__ = ("order",)
    rules = jet_rules

    def __init__(self, main: Any) -> None:
        super().__init__(main)
        self.order: int = main.global_data

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        series = [self.series_of(x) for x in args]
        rule = jet_rules.get(primitive)
        found = rule(series, **params) if rule is not None else _by_jvp(primitive, series, params)
        if primitive.multiple_results:
            return [self.box(each) for each in found]
        return self.box(found)

    def series_of(self, x: Any) -> Series:
        """The coefficients of ``x``: zeros of what is a constant to this trace, None of integers."""
        if type(x) is JetTracer and x._trace is self:
            return x.series
        return [x, *[_zero(x)] * self.order]

    def box(self, series: Series) -> Any:
        """The coefficients as a tracer; of integers the value alone."""
        if len(series) == 1 or not dtypes.is_inexact(get_aval(series[0]).dtype):
            return series[0]
        return JetTracer(self, series)

    def rule_of(self, primitive: Primitive) -> Rule | None:
        return jet_rules.get(primitive) or jvp_rules.get(primitive)


def _zero(x: Any) -> Any:
    return full_like(x, 0) if dtypes.is_inexact(get_aval(x).dtype) else None


def jet_flat(
    fun: Callable[..., Sequence[Any]], series: Sequence[Series], order: int, name: str = ""
) -> list[Series]:
    """The coefficients of flat ``fun``'s outputs; each input's have the value first."""

    def push(main: Any) -> list[Series]:
        trace = main.trace
        return [trace.series_of(out) for out in fun(*[trace.box(each) for each in series])]

    return under(JetTrace, "jet", push, order, name)


def _by_jvp(primitive: Primitive, series: Sequence[Series], params: dict[str, Any]) -> Any:
    """The coefficients of a primitive's result by its jvp rule: see the module's text."""
    order = len(series[0]) - 1
    smooth = [dtypes.is_inexact(get_aval(each[0]).dtype) for each in series]
    several = primitive.multiple_results

    def apply(*values: Any) -> list[Any]:
        out = primitive.bind(*values, **params)
        return list(out) if several else [out]

    def derivative(*values: Any) -> list[Any]:
        n = len(series)
        given = iter(values[n:])
        tangents = [
            next(given) if s else zero_of(get_aval(x)) for x, s in zip(values[:n], smooth, strict=True)
        ]
        found = jvp(apply, values[:n], tangents)[1]
        return [instantiate_zeros(t) for t, s in zip(found, smooth_out, strict=True) if s]

    outs = apply(*[each[0] for each in series])
    smooth_out = [dtypes.is_inexact(get_aval(y).dtype) for y in outs]
    results = [[y, *[None] * order] for y in outs]
    if order and any(smooth) and any(smooth_out):
        slopes = [[k * x for k, x in enumerate(each)][1:] for each, s in zip(series, smooth, strict=True) if s]
        found = iter(jet_flat(derivative, [*[each[:-1] for each in series], *slopes], order - 1))
        for result, s in zip(results, smooth_out, strict=True):
            if s:
                result[1:] = [dy / (k + 1) for k, dy in enumerate(next(found))]
    return results if several else results[0]


def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
) -> tuple[Any, Any]:
    """Derivatives of ``fun`` along a curve, up to any order.

    Args:
      fun: a function of arrays that returns a pytree of arrays.
      primals: the point: a value for each argument.
      series: for each argument the derivatives of the curve through the point, of order 1, 2, ..., as many for each.
      factorial_scaled: whether these, and the results, are derivatives; otherwise they are coefficients of Taylor
        polynomials, which are smaller by the factorial of the order.

    Returns:
      ``(out, derivatives)``: what ``fun`` gives at the point, and a pytree like it of lists: the derivatives of the
      outputs along the curve, of order 1, 2, ...

    Raises:
      ValueError: different arguments have different numbers of terms, or one is no array.

    >>> f0, (f1, f2) = jet(jnp.sin, (0.125,), ((0.75, 3.0),))  # doctest: +SKIP
    """
    check_callable(fun)
    lengths = set(map(len, series))
    if len(lengths) != 1:
        raise ValueError(
            f"jet terms have inconsistent lengths for different arguments: {sorted(lengths)}. Fill up with zeros."
        )
    (order,) = lengths
    for i, (x, terms) in enumerate(zip(primals, series, strict=True)):
        for what, value in ((f"primal value at position {i}", x), *_named(i, terms)):
            if not treedef_is_leaf(tree_structure(value)) or not is_array_like(value):
                raise ValueError(f"{what} is not an array; got {value!r}. Give fun arrays for arguments.")
    scales = [math.factorial(k) if factorial_scaled else 1 for k in range(order + 1)]
    full = [_coefficients(x, terms, scales) for x, terms in zip(primals, series, strict=True)]
    trees: list[Any] = []

    def flat(*args: Any) -> list[Any]:
        outs, tree = tree_flatten(fun(*args))
        trees.append(tree)
        return outs

    found = jet_flat(flat, full, order, describe(fun))
    tree = trees[-1]
    derivatives = [
        [full_like(each[0], 0) if x is None else x * scale for x, scale in zip(each[1:], scales[1:], strict=True)]
        for each in found
    ]
    return tree_unflatten(tree, [each[0] for each in found]), tree_unflatten(tree, derivatives)


def _named(i: int, terms: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(f"term {j} for argument {i}", term) for j, term in enumerate(terms)]


def _coefficients(x: Any, terms: Sequence[Any], scales: Sequence[int]) -> Series:
    aval = get_aval(x)
    dtype = aval.dtype if dtypes.is_inexact(aval.dtype) else get_aval(1.0).dtype
    value = convert(x, dtype, aval.weak_type)
    return [value, *[convert(t, dtype) / scale for t, scale in zip(terms, scales[1:], strict=True)]]
