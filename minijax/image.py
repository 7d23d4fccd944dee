"""``minijax.image``: resizing, by products with matrices of weights.

The methods 'cubic-pytorch' and 'area' are borrowed from JAX.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax import numpy as jnp
from minijax.api.inner import inner_jit
from minijax.core.lacking import borrow, borrowing
from minijax.numpy.promotion import canonical_axis, const, promote_dtypes
from minijax.numpy.ufuncs import INEXACT

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How a pixel of the result is made of those around its place."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method that ``s`` names. ValueError for other words."""
        named = {
            "nearest": ResizeMethod.NEAREST,
            "linear": ResizeMethod.LINEAR,
            "bilinear": ResizeMethod.LINEAR,
            "trilinear": ResizeMethod.LINEAR,
            "triangle": ResizeMethod.LINEAR,
            "lanczos3": ResizeMethod.LANCZOS3,
            "lanczos5": ResizeMethod.LANCZOS5,
            "cubic": ResizeMethod.CUBIC,
            "bicubic": ResizeMethod.CUBIC,
            "tricubic": ResizeMethod.CUBIC,
            "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
            "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
            "area": ResizeMethod.AREA,
        }
        if s not in named:
            raise ValueError(f"there is no method {s!r} of resizing. There are {', '.join(named)}.")
        return named[s]


def _triangle(x: Any) -> Any:
    return jnp.maximum(0, 1 - jnp.abs(x))


def _keys_cubic(x: Any) -> Any:
    """The cubic convolution of Keys 1981, with a = -1/2."""
    near = ((1.5 * x - 2.5) * x) * x + 1.0
    out = jnp.where(x >= 1.0, ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0, near)
    return jnp.where(x >= 2.0, 0.0, out)


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        waves = radius * jnp.sin(math.pi * x) * jnp.sin(math.pi * x / radius)
        out = jnp.where(x > 1e-3, waves / jnp.where(x != 0, math.pi**2 * x**2, 1), 1)
        return jnp.where(x > radius, 0.0, out)

    return kernel


_KERNELS: dict[ResizeMethod, Callable[[Any], Any]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _keys_cubic,
}
_BORROWED = (ResizeMethod.CUBIC_PYTORCH, ResizeMethod.AREA)


def _weights(
    size: int, out_size: int, scale: Any, translation: Any, kernel: Callable[[Any], Any], antialias: bool
) -> Any:
    """The matrix (size, out_size) whose columns say of how much of each input an output is made."""
    dtype = jnp.result_type(scale, translation)
    inverse = 1.0 / scale
    # shrinking by a factor, the kernel is as much wider
    width = jnp.maximum(inverse, 1.0) if antialias else 1.0
    places = (jnp.arange(out_size, dtype=dtype) + 0.5) * inverse - translation * inverse - 0.5
    inputs = jnp.arange(size, dtype=dtype)
    distances = jnp.abs(places[np.newaxis, :] - inputs[:, np.newaxis]) / width
    weights = kernel(distances)
    total = jnp.sum(weights, axis=0, keepdims=True)
    enough = jnp.abs(total) > 1000.0 * float(np.finfo(np.float32).eps)
    weights = jnp.where(enough, jnp.divide(weights, jnp.where(total != 0, total, 1)), 0)
    inside = jnp.logical_and(places >= -0.5, places <= size - 0.5)
    return jnp.where(inside[np.newaxis, :], weights, 0)


def _transformed(
    x: Any,
    shape: Sequence[int],
    axes: Sequence[int],
    scale: Any,
    translation: Any,
    kernel: Callable[[Any], Any],
    antialias: bool,
    precision: Any,
) -> Any:
    if not axes:
        return x
    ndim = x.ndim
    letters = list(range(ndim))
    operands: list[Any] = [x, letters]
    for i, axis in enumerate(axes):
        axis = canonical_axis(axis, ndim)
        matrix = _weights(x.shape[axis], shape[axis], scale[i], translation[i], kernel, antialias)
        letters = [ndim + axis if letter == axis else letter for letter in letters]
        operands += [matrix.astype(x.dtype), [axis, ndim + axis]]
    return jnp.einsum(*operands, letters, precision=precision)


def _method(method: str | ResizeMethod) -> ResizeMethod:
    found = ResizeMethod.from_string(method) if isinstance(method, str) else method
    if not isinstance(found, ResizeMethod):
        raise ValueError(f"there is no method {method!r} of resizing. Name one, 'linear', or give one of ResizeMethod.")
    return found


def _check_shape(shape: Sequence[int], image: Any) -> None:
    if len(shape) != image.ndim:
        raise ValueError(
            f"shape must have length equal to the number of dimensions of the image: {tuple(shape)} for one of shape "
            f"{image.shape}."
        )


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Any:
    """``image`` scaled and shifted along the axes ``spatial_dims``, and cut or filled up with 0 to ``shape``.

    What was at ``x`` is at ``x * scale + translation``, a pixel's place being its middle (its index + 1/2). ``scale``
    and ``translation`` have an element for each axis, and can be differentiated by.

    Raises ValueError for shapes that do not fit, and for the method 'nearest'.
    """
    _check_shape(shape, image)
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        raise ValueError("scale_and_translate does not take the nearest pixel. Pass 'linear' or another method.")
    if chosen in _BORROWED:
        word = chosen.name.lower().replace("_", "-")
        borrowed = borrow("minijax.image", "scale_and_translate")
        return borrowed(image, shape, spatial_dims, scale, translation, word, antialias, precision)
    image, scale, translation = promote_dtypes(image, scale, translation, to=INEXACT)
    for name, x in (("scale", scale), ("translation", translation)):
        if x.shape != (len(spatial_dims),):
            raise AssertionError(f"scale_and_translate: {name} of shape {x.shape} has not an element for each axis.")
    return _transformed(image, shape, spatial_dims, scale, translation, _KERNELS[chosen], antialias, precision)


def _nearest(x: Any, shape: Sequence[int]) -> Any:
    for axis, size in enumerate(shape):
        own = x.shape[axis]
        if own != size:
            middles = jnp.arange(size, dtype=np.float32) + 0.5
            places = middles * const(middles, own) / const(middles, size)
            index: list[Any] = [slice(None)] * x.ndim
            index[axis] = jnp.floor(places).astype(np.int32)
            x = x[tuple(index)]
    return x


@inner_jit(static_argnames=("shape", "method", "antialias", "precision"))
def _resize(image: Any, shape: tuple[int, ...], method: ResizeMethod, antialias: bool, precision: Any) -> Any:
    if method is ResizeMethod.NEAREST:
        return _nearest(image, shape)
    (image,) = promote_dtypes(image, to=INEXACT)
    axes = [i for i, size in enumerate(shape) if image.shape[i] != size]
    scale = [1.0 if not shape[i] else shape[i] / image.shape[i] for i in axes]
    return _transformed(image, shape, axes, scale, [0.0] * len(axes), _KERNELS[method], antialias, precision)


def resize(
    image: Any,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Any:
    """``image`` resized to ``shape``.

    Args:
      image: an array; all its axes can be resized.
      shape: as many sizes as the image has axes.
      method: 'nearest', 'linear', 'cubic', 'lanczos3', 'lanczos5', or one of ``ResizeMethod``.
      antialias: whether kernels get wider where the image shrinks, so that no pixel is left out.
      precision: of the products with the weights.

    Raises ValueError for a shape of another length, and for other methods.
    """
    image = jnp.asarray(image)
    _check_shape(shape, image)
    chosen = _method(method)
    if chosen in _BORROWED:
        word = chosen.name.lower().replace("_", "-")
        return borrow("minijax.image", "resize")(image, shape, word, antialias, precision)
    sizes = tuple(int(size) for size in shape)
    return _resize(image, shape=sizes, method=chosen, antialias=antialias, precision=precision)


__getattr__, __dir__ = borrowing(globals())
