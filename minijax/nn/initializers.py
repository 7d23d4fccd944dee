"""``minijax.nn.initializers``: the first parameters of a network.

Each function gives an initializer: ``init(key, shape, dtype=None)`` is an array; ``zeros`` and ``ones`` are themselves
initializers. Without a type, arrays have the one that the initializer was made with, by default that of floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from minijax import numpy as jnp
from minijax import random
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.lacking import borrowing
from minijax.numpy.promotion import typed_scalar, user_dtype

__all__ = [
    "Initializer",
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

# Standard deviations of a standard normal variable cut off at -2 and 2, and of a complex one at absolute value 2.
_TRUNCATED, _TRUNCATED_COMPLEX = 0.87962566103423978, 0.95311164380491208

Axes = int | Sequence[int]


class Initializer(Protocol):
    """What initializers are: functions of a key, a shape and a type."""

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        """An array of the given ``shape`` and type."""
        raise NotImplementedError


def _chosen(given: Any, own: Any, name: str) -> Any:
    """The type that was asked for, else the initializer's own, else that of floats."""
    wanted = own if given is None else given
    return dtypes.default_float_dtype(x64_enabled()) if wanted is None else user_dtype(wanted, name)


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Zeros; the key is not looked at."""
    return jnp.zeros(shape, _chosen(dtype, None, "zeros"))


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Ones; the key is not looked at."""
    return jnp.ones(shape, _chosen(dtype, None, "ones"))


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Arrays filled with ``value``, a number or an array that broadcasts."""
    own = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        return jnp.full(shape, value, _chosen(dtype, own, "constant"))

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Numbers between 0 and ``scale``, equally likely."""
    own = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        dtype = _chosen(dtype, own, "uniform")
        return random.uniform(key, shape, dtype) * jnp.array(scale, dtype)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Normal numbers of mean 0 and standard deviation ``stddev``."""
    own = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        dtype = _chosen(dtype, own, "normal")
        return random.normal(key, shape, dtype) * jnp.array(stddev, dtype)

    return init


def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """Normal numbers of mean 0, cut off at ``lower`` and ``upper`` times ``stddev``.

    ``stddev`` is the deviation before the cut, so that of the numbers is less.
    """
    own = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        dtype = _chosen(dtype, own, "truncated_normal")
        return random.truncated_normal(key, lower, upper, shape, dtype) * jnp.array(stddev, dtype)

    return init


# -------------------------------------------------------------------------------- scaled by the layer's size


def _size(shape: Sequence[int], axes: Axes) -> int:
    return shape[axes] if isinstance(axes, int) else math.prod(shape[i] for i in axes)


def _fans(shape: Sequence[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """How many inputs an output has and how many outputs an input, with the positions that a kernel covers."""
    if len(shape) <= 1:
        raise ValueError(
            f"weights of shape {tuple(shape)} have not two axes, of which one is for inputs and one for outputs: they "
            "must be at least two-dimensional."
        )
    inputs, outputs = _size(shape, in_axis), _size(shape, out_axis)
    positions = math.prod(shape) / inputs / outputs / _size(shape, batch_axis)
    return inputs * positions, outputs * positions


def _denominator(mode: str, fan_in: float, fan_out: float) -> float:
    known = {
        "fan_in": fan_in,
        "fan_out": fan_out,
        "fan_avg": (fan_in + fan_out) / 2,
        "fan_geo_avg": (fan_in * fan_out) ** 0.5,
    }
    if mode not in known:
        raise ValueError(f"variance_scaling has no mode {mode!r}. It has {', '.join(known)}.")
    return known[mode]


def _complex_uniform(key: Any, shape: Any, dtype: Any) -> Any:
    """Numbers of the unit disc, equally likely."""
    key_r, key_theta = random.split(key)
    real = dtypes.real_dtype(dtype)
    r = jnp.sqrt(2 * random.uniform(key_r, shape, real)).astype(dtype)
    theta = 2 * jnp.pi * random.uniform(key_theta, shape, real).astype(dtype)
    return r * jnp.exp(1j * theta)


def _complex_truncated_normal(key: Any, upper: Any, shape: Any, dtype: Any) -> Any:
    """Complex normal numbers of variance 1 whose absolute value is at most ``upper``."""
    key_r, key_theta = random.split(key)
    real = dtypes.real_dtype(dtype)
    t = (1 - jnp.exp(jnp.array(-(upper**2), dtype))) * random.uniform(key_r, shape, real).astype(dtype)
    r = jnp.sqrt(-jnp.log(1 - t))
    theta = 2 * jnp.pi * random.uniform(key_theta, shape, real).astype(dtype)
    return r * jnp.exp(1j * theta)


def _scaled_truncated(key: Any, shape: Any, dtype: Any, variance: Any) -> Any:
    if dtypes.is_complex(dtype):
        stddev = jnp.sqrt(variance) / jnp.array(_TRUNCATED_COMPLEX, dtype)
        return _complex_truncated_normal(key, 2, shape, dtype) * stddev
    stddev = jnp.sqrt(variance) / jnp.array(_TRUNCATED, dtype)
    return random.truncated_normal(key, -2, 2, shape, dtype) * stddev


def _scaled_normal(key: Any, shape: Any, dtype: Any, variance: Any) -> Any:
    return random.normal(key, shape, dtype) * jnp.sqrt(variance)


def _scaled_uniform(key: Any, shape: Any, dtype: Any, variance: Any) -> Any:
    if dtypes.is_complex(dtype):
        return _complex_uniform(key, shape, dtype) * jnp.sqrt(variance)
    return random.uniform(key, shape, dtype, -1) * jnp.sqrt(3 * variance)


_DISTRIBUTIONS = {"truncated_normal": _scaled_truncated, "normal": _scaled_normal, "uniform": _scaled_uniform}


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Numbers of variance ``scale / n``, n being by ``mode`` the number of inputs ('fan_in'), of outputs ('fan_out'),
    or their mean ('fan_avg', 'fan_geo_avg').

    ``distribution`` is 'truncated_normal', 'normal' or 'uniform'. Raises ValueError, when called, for other words and
    for shapes without two axes. Source: He et al. 2015.
    """
    own = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        dtype = _chosen(dtype, own, "variance_scaling")
        shape = tuple(shape)
        denominator = _denominator(mode, *_fans(shape, in_axis, out_axis, batch_axis))
        variance = typed_scalar(scale / denominator, dtype)
        draw = _DISTRIBUTIONS.get(distribution)
        if draw is None:
            known = ", ".join(_DISTRIBUTIONS)
            raise ValueError(f"variance_scaling has no distribution {distribution!r}. It has {known}.")
        return draw(key, shape, dtype, variance)

    return init


def glorot_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Uniform numbers of variance 1 over the mean of inputs and outputs (Glorot and Bengio 2010)."""
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Truncated normal numbers of variance 1 over the mean of inputs and outputs (Glorot and Bengio 2010)."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Uniform numbers of variance 1 over inputs (LeCun et al. 1998)."""
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Truncated normal numbers of variance 1 over inputs (LeCun et al. 1998)."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Uniform numbers of variance 2 over inputs, for ``relu`` (He et al. 2015)."""
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Truncated normal numbers of variance 2 over inputs, for ``relu`` (He et al. 2015)."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


# -------------------------------------------------------------------------------- orthogonal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Matrices with orthogonal rows or columns, whichever are fewer, times ``scale``.

    The columns are along ``column_axis``, the rows along all other axes. Raises ValueError, when called, for shapes
    without two axes. Source: Saxe et al. 2014.
    """
    own = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        dtype = _chosen(dtype, own, "orthogonal")
        if len(shape) < 2:
            raise ValueError(f"orthogonal makes matrices: the shape {tuple(shape)} has not two axes.")
        columns = shape[column_axis]
        others = list(shape)
        del others[column_axis]
        matrix = random.orthogonal(key, math.prod(others), (), dtype, columns)
        return scale * jnp.moveaxis(matrix.reshape((*others, columns)), -1, column_axis)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Kernels of convolutions that are 0 but for an orthogonal matrix in the middle, times ``scale``.

    Raises ValueError, when called, for shapes that are not 3-, 4- or 5-dimensional or have fewer outputs (last) than
    inputs. Source: Xiao et al. 2018.
    """
    own = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        dtype = _chosen(dtype, own, "delta_orthogonal")
        if len(shape) not in (3, 4, 5):
            raise ValueError(f"delta_orthogonal makes kernels of 3 to 5 axes, not of shape {tuple(shape)}.")
        if shape[-1] < shape[-2]:
            raise ValueError(f"delta_orthogonal needs at least as many outputs as inputs: {shape[-1]} < {shape[-2]}.")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        middle = tuple((size - 1) // 2 for size in shape[:-2])
        return jnp.zeros(shape, dtype).at[middle].set(matrix)

    return init


__getattr__, __dir__ = borrowing(globals())
