"""Derivatives of high order. ``jet`` is borrowed from JAX and uses Taylor rules, or ``jvp`` if a rule is missing."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from minijax.api import jvp
from minijax.core.borrowing import borrow
from minijax.core.dtypes import float0
from minijax.numpy import zeros_like
from minijax.pytree import tree_map

__all__ = ["jet"]


def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]], factorial_scaled: bool = True
) -> tuple[Any, Any]:
    """Derivatives of ``fun`` along a curve, up to any order.

    Args:
      fun: a function of arrays that returns a pytree of arrays.
      primals: a value for each argument; together they are the point.
      series: for each argument the derivatives of the curve at the point, of order 1, 2, ... Every argument needs the
          same number of them.
      factorial_scaled: whether ``series`` and the results are derivatives. If not, they are coefficients of Taylor
          polynomials: the derivative of order n, divided by n!.

    Returns ``(out, derivatives)``. ``out`` is the value of ``fun`` at the point. ``derivatives`` is a pytree like
    ``out``; its leaves are lists of the derivatives along the curve, of order 1, 2, ... ValueError if the numbers of
    terms differ, or if an argument is not an array.

    >>> f0, (f1, f2) = jet(jnp.sin, (0.125,), ((0.75, 3.0),))  # doctest: +SKIP
    """
    try:
        return borrow(__name__, "jet")(fun, primals, series, factorial_scaled)  # type: ignore[no-any-return]
    except KeyError:  # JAX raises it for a missing rule
        return _by_jvp(fun, primals, series, factorial_scaled)


def _by_jvp(fun: Any, primals: Sequence[Any], series: Sequence[Sequence[Any]], factorial_scaled: bool) -> Any:
    scales = [math.factorial(k + 1) if factorial_scaled else 1 for k in range(len(series[0]))]

    def along_curve(t: Any) -> Any:
        def point(x: Any, terms: Sequence[Any]) -> Any:
            return x + sum(
                term * t ** (k + 1) / scale for k, (term, scale) in enumerate(zip(terms, scales, strict=True))
            )

        return fun(*map(point, primals, series))

    def derivative(f: Callable[..., Any], t: Any) -> Any:
        outs, tangents = jvp(f, (t,), (1.0,))
        return tree_map(lambda x, dx: zeros_like(x) if dx.dtype == float0 else dx, outs, tangents)

    orders = [along_curve]
    for _ in scales:
        orders.append(functools.partial(derivative, orders[-1]))
    out, *terms = [f(0.0) for f in orders]
    if not factorial_scaled:
        terms = [tree_map(lambda x, k=k: x / math.factorial(k), term) for k, term in enumerate(terms, 1)]
    return out, tree_map(lambda x, *each: list(each), out, *terms)
