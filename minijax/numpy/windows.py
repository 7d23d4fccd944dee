"""Window functions for signals, and the Bessel function that one of them needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minijax import lax
from minijax.api.autodiff import jvp
from minijax.api.custom_jvp import custom_jvp
from minijax.api.inner import inner_jit
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.numpy import ufuncs
from minijax.numpy.creation import ones
from minijax.numpy.promotion import choose, const, promote, static
from minijax.numpy.ufuncs import INEXACT

__all__ = ["bartlett", "blackman", "hamming", "hanning", "i0", "kaiser"]


def _window(name: str, M: Any, values: Callable[[Any, int], Any]) -> Any:
    """``values(n, M)`` at n = 0, 1, ... below ``M`` in the default float type; ones for less than two points."""
    count = static(M, f"M argument of jnp.{name}", int)
    dtype = dtypes.default_float_dtype(x64_enabled())
    return values(lax.iota(dtype, count), count) if count > 1 else ones(count, dtype)


def bartlett(M: int) -> Any:
    """The triangular window of ``M`` points."""
    return _window("bartlett", M, lambda n, count: 1 - ufuncs.abs(2 * n + 1 - count) / (count - 1))


def blackman(M: int) -> Any:
    """The Blackman window of ``M`` points: 0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1))."""

    def values(n: Any, count: int) -> Any:
        first = 0.42 - 0.5 * ufuncs.cos(2 * math.pi * n / (count - 1))
        return first + 0.08 * ufuncs.cos(4 * math.pi * n / (count - 1))

    return _window("blackman", M, values)


def hamming(M: int) -> Any:
    """The Hamming window of ``M`` points: 0.54 - 0.46 cos(2 pi n / (M - 1))."""
    return _window("hamming", M, lambda n, count: 0.54 - 0.46 * ufuncs.cos(2 * math.pi * n / (count - 1)))


def hanning(M: int) -> Any:
    """The Hann window of ``M`` points: 0.5 (1 - cos(2 pi n / (M - 1)))."""
    return _window("hanning", M, lambda n, count: 0.5 * (1 - ufuncs.cos(2 * math.pi * n / (count - 1))))


def kaiser(M: int, beta: Any) -> Any:
    """The Kaiser window of ``M`` points: i0(beta sqrt(1 - ((n - a) / a)**2)) / i0(beta), a = (M - 1) / 2."""

    def values(n: Any, count: int) -> Any:
        half = 0.5 * (count - 1)
        return i0(beta * ufuncs.sqrt(1 - ((n - half) / half) ** 2)) / i0(beta)

    return _window("kaiser", M, values)


@inner_jit
def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 0. ValueError for complex numbers."""
    (x,) = promote("i0", x, to=INEXACT)
    if not dtypes.is_float(x.aval.dtype):
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {x.aval.dtype}")
    return _i0(x)


def _i0_of_scaled(x: Any) -> Any:
    magnitude = lax.abs(x)
    return lax.mul(lax.exp(magnitude), lax.bessel_i0e(magnitude))


_i0_of_scaled.__name__ = "_i0"  # as programs are to show it
_i0 = custom_jvp(_i0_of_scaled)


@_i0.defjvp
def _i0_jvp(primals: Any, tangents: Any) -> Any:
    # |x| has no derivative at 0, where that of i0 is 0
    out, tangent = jvp(_i0_of_scaled, primals, tangents)
    return out, choose(lax.eq(primals[0], const(primals[0], 0)), 0.0, tangent)
