"""Polynomials as vectors of coefficients, that of the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.numpy import linalg, reductions, ufuncs
from minijax.numpy.convolutions import convolve
from minijax.numpy.creation import array, diag, full, ones, vander, zeros
from minijax.numpy.index_update import IndexUpdate
from minijax.numpy.linear import dot
from minijax.numpy.manipulation import atleast_1d, concatenate, roll
from minijax.numpy.promotion import (
    check_array_like,
    choose,
    const,
    ensure,
    promote,
    promote_dtypes,
    static,
)
from minijax.numpy.replacing import trim_zeros
from minijax.numpy.ufuncs import INEXACT

__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots"]

# ------------------------------------------------------------------------------------------------ values


@inner_jit(static_argnames="unroll")
def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """The value at ``x`` of the polynomial with the coefficients ``p``, by Horner's scheme."""
    p, x = promote_dtypes(*ensure("polyval", p, x))
    shape = lax.broadcast_shapes(p.aval.shape[1:], x.aval.shape)
    start = lax.full_like(x, 0, x.aval.dtype, shape)
    value, _ = lax.scan(lambda y, c: (y * x + c, ()), start, p, unroll=unroll)
    return value


# ------------------------------------------------------------------------------------------------ arithmetic


@inner_jit
def polyadd(a1: Any, a2: Any) -> Any:
    """The coefficients of the sum of two polynomials."""
    a1, a2 = promote_dtypes(*ensure("polyadd", a1, a2))
    if a2.aval.shape[0] <= a1.aval.shape[0]:
        return IndexUpdate(a1)[-a2.aval.shape[0] :].add(a2)
    return IndexUpdate(a2)[-a1.aval.shape[0] :].add(a1)


@inner_jit
def polysub(a1: Any, a2: Any) -> Any:
    """The coefficients of the difference of two polynomials."""
    a1, a2 = promote_dtypes(*ensure("polysub", a1, a2))
    return polyadd(a1, -a2)


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """The coefficients of the product of two polynomials.

    With ``trim_leading_zeros`` those of the highest powers are left out where they are 0, which must be known.
    """
    a1, a2 = promote_dtypes(*ensure("polymul", a1, a2), to=INEXACT)
    if trim_leading_zeros and (a1.aval.size > 1 or a2.aval.size > 1):
        a1, a2 = trim_zeros(a1, trim="f"), trim_zeros(a2, trim="f")
    # no coefficients are those of zero
    a1, a2 = [a if a.aval.size else zeros(1, a.aval.dtype) for a in (a1, a2)]
    return convolve(a1, a2, mode="full")


def _number_of_coefficients(name: str, p: Any) -> int:
    if not p.aval.ndim:
        raise TypeError(f"{name} takes the coefficients of a polynomial as a vector, got a scalar. Give [x] for it.")
    return int(p.aval.shape[0])


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """The coefficients of the quotient and of the rest of two polynomials.

    With ``trim_leading_zeros`` those of the rest are left out where they are nearly 0, which must be known.
    """
    u, v = promote_dtypes(*ensure("polydiv", u, v), to=INEXACT)
    m, n = _number_of_coefficients("polydiv", u) - 1, _number_of_coefficients("polydiv", v) - 1
    scale = 1.0 / v[0]
    quotient = zeros(max(m - n + 1, 1), u.aval.dtype)
    for k in range(m - n + 1):
        factor = scale * u[k]
        quotient = IndexUpdate(quotient)[k].set(factor)
        u = IndexUpdate(u)[k : k + n + 1].add(-factor * v)
    return quotient, trim_zeros_with_tolerance(u, n) if trim_leading_zeros else u


def trim_zeros_with_tolerance(u: Any, keep: int) -> Any:
    """``u`` without its first coefficients that are 0 up to rounding; one at least stays."""
    known = static(u, "'u' of jnp.polydiv with trim_leading_zeros=True", np.asarray)
    size = float(np.sqrt(dtypes.finfo(u.aval.dtype).eps))
    large = np.flatnonzero(np.abs(known) > size)
    first = int(large[0]) if large.size else known.size - 1
    return u[first:]


# ------------------------------------------------------------------------------------------------ calculus


@inner_jit(static_argnames="m")
def polyder(p: Any, m: int = 1) -> Any:
    """The coefficients of the ``m``-th derivative."""
    check_array_like("polyder", p)
    m = static(m, "'m' argument of jnp.polyder")
    (p,) = promote_dtypes(ensure("polyder", p), to=INEXACT)
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return p
    count = max(_number_of_coefficients("polyder", p) - m, 0)
    powers = lax.add(const(p, m), lax.iota(p.aval.dtype, count))
    falling = lax.sub(lax.expand_dims(powers, (0,)), lax.expand_dims(lax.iota(p.aval.dtype, m), (1,)))
    factors = reductions.prod(falling, 0)
    return p[:-m] * factors[::-1]


@inner_jit(static_argnames="m")
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The coefficients of the ``m``-th integral, with the constants ``k``, by default 0."""
    m = static(m, "'m' argument of jnp.polyint")
    p, k = promote_dtypes(*ensure("polyint", p, 0 if k is None else k), to=INEXACT)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    k = atleast_1d(k)
    if k.aval.shape[0] == 1:
        k = full((m,), k[0] if m != 1 else lax.squeeze(k, (0,)))
    if k.aval.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if m == 0:
        return p
    powers = lax.iota(p.aval.dtype, _number_of_coefficients("polyint", p) + m)
    falling = lax.sub(lax.expand_dims(powers, (0,)), lax.expand_dims(lax.iota(p.aval.dtype, m), (1,)))
    divisors = reductions.prod(ufuncs.maximum(1, falling), 0)[::-1]
    return ufuncs.true_divide(concatenate((p, k)), divisors)


# ------------------------------------------------------------------------------------------------ roots


@inner_jit
def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of the polynomial with these roots, or with the eigenvalues of a square matrix as its roots."""
    (zeros_,) = promote("poly", seq_of_zeros, to=INEXACT)
    zeros_ = atleast_1d(zeros_)
    shape = zeros_.aval.shape
    if len(shape) == 2 and shape[0] == shape[1] and shape[0]:
        zeros_ = linalg.eigvals(zeros_)
    if zeros_.aval.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    dtype = zeros_.aval.dtype
    if not zeros_.aval.shape[0]:
        return ones((), dtype)
    found = ones((1,), dtype)
    for i in range(zeros_.aval.shape[0]):
        found = convolve(found, array([1, -zeros_[i]], dtype), mode="full")
    return found


def roots(p: Any, *, strip_zeros: bool = True) -> Any:
    """The roots of the polynomial with the coefficients ``p``, as complex numbers.

    Args:
      p: a vector.
      strip_zeros: whether coefficients of 0 at the beginning are left out, so that there are as many roots as the
        degree: then ``p`` must be known, which it is not under ``jit``. Without it, missing roots are NaN.

    Raises:
      ValueError: ``p`` is no vector.
    """
    (p,) = promote_dtypes(ensure("roots", p), to=INEXACT)
    p = atleast_1d(p)
    if p.aval.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    if p.aval.size < 2:
        return array([], dtypes.to_complex_dtype(p.aval.dtype))
    leading = _leading_zeros(p)
    if strip_zeros:
        known = static(
            leading,
            "The error occurred in the jnp.roots() function. To use this within a JIT-compiled function, pass "
            "strip_zeros=False, but be aware that leading zeros will result in some returned roots being set to NaN.",
        )
        return _roots_no_zeros(p[known:])
    return _roots_with_zeros(p, leading)


def _leading_zeros(p: Any) -> Any:
    zero = lax.eq(p, const(p, 0))
    # compared again, as JAX's program does
    return choose(reductions.all(zero), p.aval.shape[0], reductions.argmin(lax.eq(p, const(p, 0))))


@inner_jit
def _roots_no_zeros(p: Any) -> Any:
    """The eigenvalues of the companion matrix."""
    if p.aval.size < 2:
        return array([], dtypes.to_complex_dtype(p.aval.dtype))
    companion = diag(ones((p.aval.size - 2,), p.aval.dtype), k=-1)
    companion = IndexUpdate(companion)[0, :].set(-p[1:] / p[0])
    return linalg.eigvals(companion)


@inner_jit
def _roots_with_zeros(p: Any, leading: Any) -> Any:
    p = choose(leading == p.aval.shape[0], 1.0, p)  # of 0 = 0, any numbers
    found = _roots_no_zeros(roll(p, -leading, 0))
    # the roots of 0 that the rolled zeros made are sorted to the end
    _, found = lax.sort_key_val(found == 0, found)
    return choose(lax.iota(np.dtype(np.int32), found.aval.size) < found.aval.size - leading, found, complex("nan+nanj"))


# ------------------------------------------------------------------------------------------------ fitting


@inner_jit(static_argnames=("deg", "rcond", "full", "cov"))
def polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """The coefficients of the polynomial of degree ``deg`` nearest to the points, by least squares.

    Args:
      x, y: the points, two vectors; ``y`` may hold several columns.
      deg: the degree.
      rcond: singular values below this part of the largest count as 0.
      full: whether residuals, rank, singular values and ``rcond`` are returned too.
      w: weights of the points.
      cov: whether the covariances of the coefficients are returned too; 'unscaled' if the weights are exact.

    Raises:
      ValueError: a negative degree; too few points for the covariances.
      TypeError: arrays that do not fit.
    """
    if w is None:
        x, y = promote_dtypes(*ensure("polyfit", x, y), to=INEXACT)
    else:
        x, y, w = promote_dtypes(*ensure("polyfit", x, y, w), to=INEXACT)
    deg = static(deg, "deg must be int", int)
    _check_points(x, y, deg)
    if rcond is None:
        rcond = x.aval.shape[0] * dtypes.finfo(x.aval.dtype).eps
    rcond = static(rcond, "rcond must be float", float)
    matrix, right = vander(x, deg + 1), y
    if w is not None:
        if w.aval.ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if w.aval.shape[0] != y.aval.shape[0]:
            raise TypeError("expected w and y to have the same length")
        matrix = matrix * lax.expand_dims(w, (1,))
        right = right * (lax.expand_dims(w, (1,)) if right.aval.ndim == 2 else w)
    # columns scaled to one length make the equations better conditioned
    lengths = ufuncs.sqrt(reductions.sum(matrix * matrix, axis=0))
    matrix = matrix / lax.expand_dims(lengths, (0,))
    found, residuals, rank, singular = linalg.lstsq(matrix, right, rcond)
    found = (found.T / lengths).T if found.aval.ndim == 2 else found / lengths
    if full:
        return found, residuals, rank, singular, array(rcond, x.aval.dtype)
    if not cov:
        return found
    return found, _covariances(matrix, lengths, residuals, x.aval.shape[0], deg, cov, right.aval.ndim)


def _check_points(x: Any, y: Any, deg: int) -> None:
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if x.aval.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if not x.aval.size:
        raise TypeError("expected non-empty vector for x")
    if not 1 <= y.aval.ndim <= 2:
        raise TypeError("expected 1D or 2D array for y")
    if x.aval.shape[0] != y.aval.shape[0]:
        raise TypeError("expected x and y to have same length")


def _covariances(matrix: Any, lengths: Any, residuals: Any, count: int, deg: int, cov: Any, columns: int) -> Any:
    base = linalg.inv(dot(matrix.T, matrix)) / ufuncs.multiply(
        lax.expand_dims(lengths, (1,)), lax.expand_dims(lengths, (0,))
    )
    if cov == "unscaled":
        factor: Any = 1
    else:
        if count <= deg + 1:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residuals / (count - deg - 1)
    factor = atleast_1d(factor)
    if columns == 1:
        return base * (lax.expand_dims(factor, (0,)))
    return lax.expand_dims(base, (2,)) * factor
