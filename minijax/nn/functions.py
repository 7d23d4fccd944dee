"""The functions of ``minijax.nn`` that most networks use: activations, softmax, one-hot."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.custom_jvp import custom_jvp
from minijax.api.inner import inner_jit
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.avals import whole_sharding
from minijax.numpy import creation, logarithms, reductions, ufuncs
from minijax.numpy import operators as _operators  # noqa: F401  (arrays need their operators here)
from minijax.numpy.promotion import canonical_axis, choose, convert, ensure, promote, typed_scalar
from minijax.numpy.ufuncs import INEXACT

__all__ = [
    "gelu",
    "log_softmax",
    "logsumexp",
    "one_hot",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "swish",
    "tanh",
]

tanh = ufuncs.tanh


@custom_jvp
@inner_jit
def relu(x: Any) -> Any:
    """The larger of ``x`` and 0; its derivative at 0 is 0 (Bertoin et al. 2021)."""
    return ufuncs.maximum(x, 0)


def _relu_tangent(g: Any, ans: Any, x: Any) -> Any:
    return lax.select(x > 0, g, lax.full_like(g, 0))


relu.defjvps(_relu_tangent)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return lax.logistic(x)


@inner_jit
def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return logarithms.logaddexp(x, 0)


@inner_jit
def silu(x: Any) -> Any:
    """x * sigmoid(x)."""
    x = ensure("silu", x)
    return x * sigmoid(x)


swish = silu


def _float_if_large(x: Any) -> Any:
    """Convert a Python integer that fits no integer type to float; return any other value unchanged."""
    limits = np.iinfo(np.int64 if x64_enabled() else np.int32)
    return float(x) if type(x) is int and not limits.min <= x <= limits.max else x


def gelu(x: Any, approximate: bool = True) -> Any:
    """x times the normal distribution function at x; ``approximate`` replaces this function by a formula with tanh."""
    (x,) = promote("gelu", _float_if_large(x), to=INEXACT)
    dtype = x.aval.dtype
    if approximate:
        scale = typed_scalar(math.sqrt(2 / math.pi), dtype)
        return x * (0.5 * (1.0 + tanh(scale * (x + 0.044715 * x**3))))
    half = typed_scalar(math.sqrt(0.5), dtype)
    return creation.array(0.5 * x * lax.erfc(-x * half), dtype=dtype)


def _shifted(name: str, x: Any, axis: Any, where: Any) -> Any:
    """``x`` minus its maximum along ``axis``; derivatives treat the maximum as a constant. -inf where not ``where``."""
    x = ensure(name, x)
    peak = reductions.max(x, axis, None, True, -np.inf, where)
    safe = x if where is None else choose(where, x, -np.inf)
    return safe - lax.stop_gradient(peak)


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """exp(x) divided by its sum along ``axis``, without overflow. Only elements selected by ``where`` count.

    The result has the shape of ``x``; integers give float32 (float64 with x64). Elements that ``where`` leaves out
    are 0. ``axis`` may be a tuple; ValueError if it is out of bounds.

    >>> nn.softmax(jnp.ones(3), where=jnp.array([True, True, False]))
    Array([0.5, 0.5, 0. ], dtype=float32)
    """
    unnormalised = ufuncs.exp(_shifted("softmax", x, axis, where))
    out = unnormalised / reductions.sum(unnormalised, axis, keepdims=True, where=where)
    return out if where is None else choose(where, out, 0)


@inner_jit(static_argnames="axis")
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """The logarithm of ``softmax``, without overflow."""
    shifted = _shifted("log_softmax", x, axis, where)
    out = shifted - ufuncs.log(reductions.sum(ufuncs.exp(shifted), axis, keepdims=True, where=where))
    return out if where is None else choose(where, out, -np.inf)


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """log(sum(b * exp(a))) along ``axis``, without overflow.

    By default ``axis`` is all axes. An empty sum gives -inf, and a negative sum gives nan. With ``return_sign`` the
    function returns the logarithm of the sum's magnitude, and the sum's sign.

    >>> nn.logsumexp(jnp.array([1000., 1000.]))
    Array(1000.6932, dtype=float32)
    """
    if where is not None:
        a = choose(where, a, 0)
    if b is None or type(b) is int:
        (a,) = promote("logsumexp", _float_if_large(a), to=INEXACT)
    if b is not None:
        a, b = promote("logsumexp", a, _float_if_large(b), to=INEXACT)
        a = choose(b != 0, a, -np.inf)
    axes = reductions.reduction_axes(axis, a.aval.ndim)
    peak = reductions.max(ufuncs.real(a), axes, None, keepdims, -np.inf, where)
    peak = lax.stop_gradient(lax.select(ufuncs.isfinite(peak), peak, lax.full_like(peak, 0)))
    shift = peak if keepdims else lax.expand_dims(peak, axes)
    scaled = lax.exp(lax.sub(a, convert(shift, a.aval.dtype)))
    if b is not None:
        scaled = lax.mul(scaled, b)
    total = reductions.sum(scaled, axes, keepdims=keepdims, where=where)
    real = not dtypes.is_complex(a.aval.dtype)
    sign = lax.sign(total)
    if return_sign or real:
        total = lax.abs(total)
    out = lax.add(lax.log(total), convert(peak, total.aval.dtype))
    if return_sign:
        return out, sign
    if b is not None and real:
        out = choose(sign < 0, typed_scalar(math.nan, out.aval.dtype), out)
    return out


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Any:
    """For each index in ``x``, a vector of ``num_classes`` numbers along a new ``axis``: 1 at that index, 0 elsewhere.

    The result is float32 (float64 with x64) unless ``dtype`` is given. An index out of bounds, such as -1, gives zeros.
    ``axis`` may also name a mapped axis of size ``num_classes``: then instance i gets number i of each vector.
    NameError if no such axis is mapped.

    >>> nn.one_hot(jnp.array([0, 5]), 3)
    Array([[1., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    wanted = dtypes.default_float_dtype(x64_enabled()) if dtype is None else dtype
    return _one_hot(creation.asarray(x), num_classes=operator.index(num_classes), dtype=wanted, axis=axis)


@inner_jit(static_argnames=("num_classes", "dtype", "axis"))
def _one_hot(x: Any, num_classes: int, dtype: Any, axis: Any) -> Any:
    ndim = x.aval.ndim + 1
    if not hasattr(axis, "__index__"):
        if num_classes != lax.axis_size(axis):
            raise ValueError(f"one_hot: {num_classes} classes along {axis!r}, an axis of size {lax.axis_size(axis)}")
        return creation.asarray(x == lax.axis_index(axis), dtype)
    axis = canonical_axis(axis, ndim)
    shape = tuple(num_classes if i == axis else 1 for i in range(ndim))
    expanded = lax.expand_dims(x, (axis,))
    classes = lax.broadcasted_iota(x.aval.dtype, shape, axis, out_sharding=whole_sharding(x.aval, ndim))
    return creation.astype(expanded == classes, dtype)
