"""Smooth functions whose formula has no derivative at some point, with a rule of their own there."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.custom_jvp import custom_jvp
from minijax.api.inner import inner_jit
from minijax.numpy.promotion import choose, promote, weak_const
from minijax.numpy.ufuncs import INEXACT, add, as_ufunc, multiply
from minijax.ops import logaddexp as ops_logaddexp

__all__ = ["logaddexp", "logaddexp2", "sinc"]


@inner_jit
def sinc(x: Any, /) -> Any:
    """sin(pi x) / (pi x), and 1 at 0."""
    (x,) = promote("sinc", x, to=INEXACT)
    at_zero = lax.eq(x, weak_const(x, 0))
    scaled = lax.mul(weak_const(x, np.pi), x)
    safe = choose(at_zero, weak_const(x, 1), scaled)
    return choose(at_zero, _sinc_maclaurin(0, scaled), lax.div(lax.sin(safe), safe))


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _sinc_maclaurin(k: int, x: Any) -> Any:
    """The ``k``-th derivative of sin(x) / x at 0, for an ``x`` that is 0 where the result is used."""
    zero = multiply(x, 0)
    return zero if k % 2 else add(zero, weak_const(x, (-1) ** (k // 2) / (k + 1)))


@_sinc_maclaurin.defjvp
def _sinc_maclaurin_jvp(k: int, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _sinc_maclaurin(k, x), multiply(_sinc_maclaurin(k + 1, x), t)


@functools.partial(as_ufunc, identity=-np.inf)
def logaddexp(x1: Any, x2: Any, /) -> Any:
    """log(exp(x1) + exp(x2)) without overflow."""
    return ops_logaddexp.logaddexp(*promote("logaddexp", x1, x2, to=INEXACT))


@functools.partial(as_ufunc, identity=-np.inf)
def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """log2(2**x1 + 2**x2) without overflow."""
    return ops_logaddexp.logaddexp2(*promote("logaddexp2", x1, x2, to=INEXACT))
