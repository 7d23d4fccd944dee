"""Logarithms that are multiplied, and what is made of them: entropies, log odds, power transforms.

Products with a logarithm are 0 where the factor is 0, and so are their derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minijax import lax
from minijax.api.custom_jvp import custom_jvp
from minijax.numpy.promotion import choose, promote, refuse_complex, weak_const
from minijax.numpy.ufuncs import INEXACT, isnan

__all__ = ["boxcox", "boxcox1p", "entr", "expit", "kl_div", "logit", "rel_entr", "xlog1py", "xlogy"]


@custom_jvp
def logit(x: Any) -> Any:
    """log(x / (1 - x)), the inverse of ``expit``."""
    (x,) = promote("logit", x, to=INEXACT)
    return lax.log(lax.div(x, lax.sub(weak_const(x, 1), x)))


logit.defjvps(lambda g, ans, x: g / (x * (1 - x)))


def expit(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return lax.logistic(*promote("expit", x, to=INEXACT))


def _product(logarithm: Callable[[Any], Any], x: Any, y: Any) -> Any:
    """``x * logarithm(y)``; 0 where ``x`` is 0, unless ``y`` is NaN."""
    counts = (x != 0.0) | isnan(y)
    return choose(counts, lax.mul(x, logarithm(y)), lax.full_like(x, 0))


@custom_jvp
def xlogy(x: Any, y: Any) -> Any:
    """x * log(y); 0 where ``x`` is 0, unless ``y`` is NaN."""
    return _product(lax.log, *promote("xlogy", x, y, to=INEXACT))


@xlogy.defjvp
def _xlogy_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (x_dot, y_dot) = primals, tangents
    out = xlogy(x, y)
    return out, (x_dot * lax.log(y) + y_dot * x / y).astype(out.dtype)


@custom_jvp
def xlog1py(x: Any, y: Any) -> Any:
    """x * log(1 + y); 0 where ``x`` is 0, unless ``y`` is NaN."""
    return _product(lax.log1p, *promote("xlog1py", x, y, to=INEXACT))


@xlog1py.defjvp
def _xlog1py_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (x_dot, y_dot) = primals, tangents
    out = xlog1py(x, y)
    return out, (x_dot * lax.log1p(y) + y_dot * x / (1 + y)).astype(out.dtype)


@custom_jvp
def _xlogx(x: Any) -> Any:
    return xlogy(x, x)


@_xlogx.defjvp
def _xlogx_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return _xlogx(x), x_dot * (lax.log(x) + 1)


def entr(x: Any) -> Any:
    """-x * log(x); 0 where ``x`` is 0, and -inf where it is negative."""
    (x,) = promote("entr", *refuse_complex("entr", x), to=INEXACT)
    return lax.select(x < 0, lax.full_like(x, -math.inf), lax.neg(_xlogx(x)))


def rel_entr(p: Any, q: Any) -> Any:
    """p * log(p / q) where both are positive; 0 where ``p`` is 0 and ``q`` is not negative; else inf."""
    p, q = promote("rel_entr", *refuse_complex("rel_entr", p, q), to=INEXACT)
    zero = weak_const(p, 0.0)
    both_positive = (p > zero) & (q > zero)
    first_zero = (p == zero) & (q >= zero)
    safe_p, safe_q = choose(both_positive, p, 1), choose(both_positive, q, 1)
    inside = lax.sub(_xlogx(safe_p), xlogy(safe_p, safe_q))
    return choose(both_positive, inside, choose(first_zero, zero, math.inf))


def kl_div(p: Any, q: Any) -> Any:
    """rel_entr(p, q) - p + q: the terms of the Kullback-Leibler divergence."""
    p, q = promote("kl_div", *refuse_complex("kl_div", p, q), to=INEXACT)
    return rel_entr(p, q) - p + q


def _power_transform(logarithm: Callable[[Any], Any], x: Any, lmbda: Any) -> Any:
    is_zero = lmbda == 0
    safe = choose(is_zero, lax.full_like(lmbda, 1), lmbda)
    log_x = logarithm(x)
    return choose(is_zero, log_x, lax.expm1(safe * log_x) / safe)


def boxcox(x: Any, lmbda: Any) -> Any:
    """(x**lmbda - 1) / lmbda, and log(x) where ``lmbda`` is 0 (Box and Cox 1964)."""
    return _power_transform(lax.log, *promote("boxcox", x, lmbda, to=INEXACT))


def boxcox1p(x: Any, lmbda: Any) -> Any:
    """``boxcox`` of 1 + x, accurate near 0."""
    return _power_transform(lax.log1p, *promote("boxcox1p", x, lmbda, to=INEXACT))
