"""Modified Bessel functions of the first kind, plain and scaled by exp(-abs(x))."""

from __future__ import annotations

from typing import Any

from minijax import lax
from minijax.numpy.promotion import promote
from minijax.numpy.ufuncs import INEXACT

__all__ = ["i0", "i0e", "i1", "i1e"]


def i0e(x: Any) -> Any:
    """exp(-abs(x)) * i0(x)."""
    return lax.bessel_i0e(*promote("i0e", x, to=INEXACT))


def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind, of order 0."""
    (x,) = promote("i0", x, to=INEXACT)
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i0e(x))


def i1e(x: Any) -> Any:
    """exp(-abs(x)) * i1(x)."""
    return lax.bessel_i1e(*promote("i1e", x, to=INEXACT))


def i1(x: Any) -> Any:
    """The modified Bessel function of the first kind, of order 1."""
    (x,) = promote("i1", x, to=INEXACT)
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i1e(x))
