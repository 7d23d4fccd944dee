"""Creates arrays: from Python values, from one repeated value, ranges, grids, identity matrices."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax import errors, lax
from minijax.api.inner import inner_jit
from minijax.config import context_mesh, promotes_strictly, x64_enabled
from minijax.core import dtypes, lazy
from minijax.core.array import Array, CommittedArray, LiteralArray, MeshArray, as_array, is_foreign
from minijax.core.avals import sharded_as, sharding_of_type
from minijax.core.keys import is_key
from minijax.core.lazy import HigherModule
from minijax.core.primitive import evaluation_watched
from minijax.core.trace import Tracer
from minijax.core.varying import varying_like
from minijax.numpy.promotion import (
    BOOL,
    SCALARS,
    broadcast_shapes,
    check_array_like,
    choose,
    const,
    convert,
    ensure,
    evaluating,
    promote,
    public_names,
    result_dtype,
    static,
    type_of,
    typed_scalar,
    user_dtype,
)
from minijax.numpy.promotion import asarray as as_is
from minijax.numpy.promotion import broadcast_to as _broadcast_to
from minijax.ops.convert import convert_element_type_p, copy_p
from minijax.ops.shape import meant_sharding
from minijax.ops.sharded import placed

_numpy = HigherModule("numpy")


def array(
    object: Any,
    dtype: Any = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Make an array of ``object``: an array, a tracer, a scalar, or nested lists of these.

    Without ``dtype`` the elements are promoted to a common type. If all are Python scalars, the result is weakly typed.
    Arrays are copied: a staged program contains a copy. TypeError for non-numeric values, ValueError for ragged lists.
    """
    if order not in (None, "K"):
        raise NotImplementedError("Only implemented for order='K'")
    sharding = None if out_sharding is None else _sharding_of(device, out_sharding, "array")
    dtype = None if dtype is None else user_dtype(dtype, "array")
    if hasattr(object, "__jax_array__"):
        object = object.__jax_array__()
    elif is_foreign(object):
        object = as_array(object)
    if isinstance(object, (Array, Tracer)):
        out = copy_p.bind(object) if copy else object
        out = convert(out, out.aval.dtype if dtype is None else dtype, dtype is None and out.aval.weak_type)
    elif isinstance(object, (list, tuple)):
        out = _from_sequence(object, dtype)
    else:
        out = _from_value(object, dtype)
        if isinstance(out, LiteralArray) and evaluating():
            # an array that a function closes over becomes a constant, not a literal
            out = Array(out._value(), out.aval)
    if evaluation_watched and device is None and out is not object:
        out = _over_set_mesh(out)
    if ndmin > out.aval.ndim:
        out = lax.expand_dims(out, tuple(range(ndmin - out.aval.ndim)))
    if sharding is not None:
        return convert_element_type_p.bind(
            out, new_dtype=out.aval.dtype, weak_type=out.aval.weak_type, sharding=sharding
        )
    return out if device is None else placed(out, device)


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """``a`` as an array, unchanged if it has the right type. NotImplementedError if ``order`` is not 'K' or None."""
    if order not in (None, "K"):
        raise NotImplementedError("Only implemented for order='K'")
    if dtype is None and not copy and out_sharding is None and isinstance(a, (Array, Tracer)):
        return a if device is None else placed(a, device)
    wanted = None if dtype is None else user_dtype(dtype, "asarray")
    return array(a, wanted, bool(copy), order, device=device, out_sharding=out_sharding)


def _from_value(x: Any, dtype: np.dtype | None) -> Array:
    """Convert a scalar, a NumPy array or a buffer."""
    if x is None:
        raise ValueError("None is not a valid value for jnp.array")
    if dtype is not None:
        x = _numpy_array(x, dtype)
    elif not isinstance(x, (np.ndarray, np.generic, *SCALARS)):
        x = np.asarray(x)  # a buffer, a range, or an object with __array__
    return as_array(x)


def _leaves(x: Any) -> list[Any]:
    if isinstance(x, (list, tuple)):
        return [leaf for item in x for leaf in _leaves(item)]
    return [x]


def _from_sequence(items: Sequence[Any], dtype: np.dtype | None) -> Any:
    """Convert nested lists: row by row if they contain minijax arrays, else by NumPy."""
    leaves = _leaves(items)
    if any(leaf is None for leaf in leaves):
        raise ValueError("None is not a valid value for jnp.array")
    if dtype is None:
        if leaves:
            dtype, _ = result_dtype(*[leaf if _has_type(leaf) else np.asarray(leaf) for leaf in leaves])
        else:
            dtype = dtypes.default_float_dtype(x64_enabled())
    if not any(isinstance(leaf, (Array, Tracer)) or hasattr(leaf, "__jax_array__") for leaf in leaves):
        return as_array(_numpy_array(items, dtype))
    rows = [lax.expand_dims(array(item, dtype, False), (0,)) for item in items]
    while len(rows) > 16:
        rows = [lax.concatenate(rows[i : i + 16], 0) for i in range(0, len(rows), 16)]
    return convert(lax.concatenate(rows, 0), dtype)


def _has_type(x: Any) -> bool:
    return isinstance(x, (Array, Tracer, np.ndarray, np.generic, *SCALARS)) or hasattr(x, "__jax_array__")


def _numpy_array(x: Any, dtype: np.dtype) -> np.ndarray:
    """Convert a value or nested lists to a NumPy array. OverflowError for an integer that ``dtype`` cannot hold."""
    try:
        return np.asarray(x, dtype)
    except OverflowError as error:
        raise OverflowError(f"{error}. Give dtype= a wider type.") from None


def copy(a: Any, order: str | None = None) -> Any:
    """A copy of ``a``."""
    check_array_like("copy", a)
    return array(a, copy=True, order=order)


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """Convert the elements of ``x`` to ``dtype``; None means the default float type."""
    x = ensure("astype", x)
    wanted = dtypes.default_float_dtype(x64_enabled()) if dtype is None else user_dtype(dtype, "astype")
    if dtypes.is_complex(x.aval.dtype) and wanted == BOOL:
        x = lax.ne(x, const(x, 0))
    out = convert(x, wanted)
    out = copy_p.bind(out) if copy else out
    return out if device is None else placed(out, device)


def _shape(shape: Any, name: str) -> tuple[int, ...]:
    """Convert a ``shape=`` argument to a tuple. TypeError for other values, ConcretizationTypeError for a tracer."""
    context = "Shapes must be 1D sequences of concrete values of integer type."
    items = tuple(shape) if isinstance(shape, (tuple, list)) or np.ndim(shape) == 1 else (shape,)
    sizes = []
    for d in items:
        try:
            sizes.append(static(d, context))
        except errors.TracerIntegerConversionError as error:
            raise errors.ConcretizationTypeError(d, context) from error
        except TypeError as error:
            if isinstance(error, errors.JAXTypeError):
                raise
            raise TypeError(f"{context} Got {shape!r} as the shape argument of jnp.{name}.") from None
    for d in sizes:
        if d < 0:
            raise TypeError(f"jnp.{name}: shape must have every element be nonnegative, got {tuple(sizes)}")
    return tuple(sizes)


def _check_forgotten_tuple(name: str, shape: Any, dtype: Any) -> None:
    if isinstance(dtype, int) and not isinstance(dtype, bool) and isinstance(shape, int):
        raise TypeError(
            f"Cannot interpret '{dtype}' as a data type.\n\nDid you accidentally write `jax.numpy.{name}({shape}, "
            f"{dtype})` when you meant `jax.numpy.{name}(({shape}, {dtype}))`, i.e. with a single tuple argument for "
            "the shape?"
        )


def _sharding_of(device: Any, out_sharding: Any, name: str) -> Any:
    """``out_sharding`` as a sharding, for the function ``name``. ValueError if ``device`` is given too."""
    if device is not None:
        raise ValueError(
            f"Only one of `device` or `out_sharding` can be set. Got {device=} and {out_sharding=}. Leave one of them "
            f"out of jnp.{name}."
        )
    return meant_sharding(out_sharding, f"jnp.{name}")


def _over_set_mesh(out: Any) -> Any:
    """Place the new array ``out`` over the current mesh, if a mesh is set and nothing is staged."""
    return lazy.public("minijax.ops.meshes.eager", "made")(out) if context_mesh() is not None else out


def _filled(name: str, shape: Any, value: Any, dtype: Any, device: Any, out_sharding: Any) -> Any:
    _check_forgotten_tuple(name, shape, dtype)
    dtype = user_dtype(float if dtype is None else dtype, name)
    sharding = None if out_sharding is None else _sharding_of(device, out_sharding, name)
    out = _repeated(value, (dtype, False), _shape(shape, name), sharding)
    if evaluation_watched:
        out = _over_set_mesh(out)
    return out if device is None else placed(out, device)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros, float32 by default (float64 with x64).

    ``shape`` is an int or a tuple of ints. TypeError for a negative size, ConcretizationTypeError for a traced size.
    """
    return _filled("zeros", shape, 0, dtype, device, out_sharding)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of ones; ``shape``, ``dtype`` and errors are those of ``zeros``."""
    return _filled("ones", shape, 1, dtype, device, out_sharding)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros: minijax has no uninitialised memory."""
    return _filled("empty", shape, 0, dtype, device, out_sharding)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array filled with ``fill_value``, which broadcasts to ``shape``. The default type is that of ``fill_value``.

    ValueError for a ``fill_value`` that does not broadcast.

    >>> jnp.full((2,), 7.)
    Array([7., 7.], dtype=float32, weak_type=True)
    """
    check_array_like("full", fill_value)
    wanted = type_of(fill_value) if dtype is None else (user_dtype(dtype, "full"), False)
    sharding = None if out_sharding is None else _sharding_of(device, out_sharding, "full")
    if dtype is None and is_key(wanted[0]):
        out = _broadcast_to(ensure("full", fill_value), _shape(shape, "full"), sharding)
    else:
        out = _repeated(fill_value, wanted, _shape(shape, "full"), sharding)
    if evaluation_watched:
        out = _over_set_mesh(out)
    return out if device is None else placed(out, device)


def _repeated(value: Any, wanted: tuple[np.dtype, bool], shape: tuple[int, ...], sharding: Any = None) -> Any:
    if is_key(wanted[0]) and not np.ndim(value):
        return lax.full(shape, value, wanted[0])
    value = typed_scalar(value, *wanted) if type(value) in SCALARS else convert(value, *wanted)
    if value.aval.shape:
        return _broadcast_to(value, shape, sharding)
    return lax.broadcast(value, shape, out_sharding=sharding)


def _like(name: str, a: Any, value: Any, dtype: Any, shape: Any, device: Any, out_sharding: Any = None) -> Any:
    sharding = None if out_sharding is None else _sharding_of(device, out_sharding, name)
    committed = isinstance(a, CommittedArray) and (shape is None or type(a) is not MeshArray)
    if committed and device is None and sharding is None:
        device = a.device
    number = type(a) if isinstance(a, SCALARS) else None  # a Python number is weakly typed, an enum's member is not
    if number is int:  # only the type of ``a`` is needed; the integer may be too large to convert
        a = 0
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        check_array_like(name, a)
        a = as_is(a)
    if hasattr(a, "aval"):
        own = a.aval.dtype, a.aval.weak_type and (number is None or number in SCALARS)
    else:
        dtypes.check_valid_dtype(dtypes.as_dtype(a.dtype), a)
        own = dtypes.canonicalize_dtype(a.dtype, x64_enabled()), False
    wanted = own if dtype is None else (user_dtype(dtype, name), False)
    sharding = sharding or (sharding_of_type(a.aval) if shape is None and hasattr(a, "aval") else None)
    out = varying_like(_repeated(value, wanted, tuple(a.shape) if shape is None else _shape(shape, name), sharding), a)
    return out if device is None else placed(out, device)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Zeros of the shape and type of ``a``."""
    return _like("zeros_like", a, 0, dtype, shape, device, out_sharding)


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Ones of the shape and type of ``a``."""
    return _like("ones_like", a, 1, dtype, shape, device, out_sharding)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Zeros of the shape and type of ``prototype``."""
    return _like("empty_like", prototype, 0, dtype, shape, device)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """``fill_value`` repeated to the shape, and by default the type, of ``a``."""
    check_array_like("full_like", fill_value)
    return _like("full_like", a, fill_value, dtype, shape, device, out_sharding)


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """``start``, ``start + step``, ... below ``stop``; with one argument, 0, 1, ... below this argument.

    The result has shape (max(0, ceil((stop - start) / step)),) and the promoted dtype of the arguments. With a negative
    ``step`` it counts down and ends above ``stop``. The arguments must be concrete: they decide the shape.

    ConcretizationTypeError for a traced argument, ValueError for one with dimensions, ZeroDivisionError for step 0.

    >>> jnp.arange(5, 0, -2)
    Array([5, 3, 1], dtype=int32)
    """
    sharding = None if out_sharding is None else _sharding_of(device, out_sharding, "arange")
    out = _arange(start, stop, step, dtype, sharding)
    return out if device is None else placed(out, device)


def _arange(start: Any, stop: Any, step: Any, dtype: Any, sharding: Any = None) -> Any:
    if dtype is not None:
        dtype = user_dtype(dtype, "arange")
    given = [x for x in (start, stop, step) if x is not None]
    for position, x in enumerate((start, stop, step)):
        if x is not None and not isinstance(x, (list, tuple)):
            check_array_like("arange", x)
        elif x is not None or position == 0:
            raise TypeError(
                f"arange requires ndarray, scalar, or None arguments, got {type(x)} at position {position}."
            )
    first = "stop" if stop is None and step is None else "start"
    concrete = [
        None if x is None else static(x, f"It arose in the jnp.arange argument '{what}'", lambda v: v)
        for what, x in ((first, start), ("stop", stop), ("step", step))
    ]
    if any(x is not None and np.ndim(x) for x in concrete):
        raise ValueError("jax.numpy.arange: arguments must be scalars")
    if dtype is None:
        dtype = _result_type(*given)
    if any(dtypes.is_complex(type_of(x)[0]) for x in given):
        raise ValueError("complex start, stop or step of jnp.arange are not supported")
    low, high, by = (0 if x is None else np.asarray(x).item() for x in concrete)
    if stop is None:
        low, high = 0, low
    if step is not None:
        working = np.dtype(np.float32) if dtypes.is_float(dtype) and dtypes.bits(dtype) < 32 else dtype
        count = max(0, math.ceil((high - low) / by))
        steps = lax.mul(typed_scalar(by, working), lax.broadcasted_iota(working, (count,), 0, out_sharding=sharding))
        return convert(lax.add(typed_scalar(low, working), steps), dtype)
    count = max(0, math.ceil(high - low))
    numbers = lax.broadcasted_iota(dtype, (count,), 0, out_sharding=sharding)
    return numbers if low == 0 else lax.add(typed_scalar(low, dtype), numbers)


def _result_type(*args: Any) -> np.dtype:
    return dtypes.result_type(*map(type_of, args), x64=x64_enabled(), strict=promotes_strictly())[0]


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """``num`` evenly spaced values from ``start`` to ``stop``, along ``axis``; ``retstep`` also returns the spacing.

    ``start`` and ``stop`` are numbers or arrays that broadcast. They may be traced, but ``num`` must be concrete. The
    result has an axis of size ``num`` at ``axis``. Integers give float32 (float64 with x64); ``dtype`` overrides this.
    Without ``endpoint``, ``stop`` is left out. ValueError for a negative ``num``.

    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    num = static(num, "'num' argument of jnp.linspace")
    axis = static(axis, "'axis' argument of jnp.linspace")
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    ndim = len(broadcast_shapes(np.shape(start), np.shape(stop))) + 1
    if not -ndim <= axis < ndim:
        raise IndexError(f"linspace: axis {axis} is out of bounds for a result of dimension {ndim}")
    out = _linspace(start, stop, num, endpoint, retstep, dtype, axis)
    if device is None:
        return out
    return (placed(out[0], device), out[1]) if retstep else placed(out, device)


@inner_jit(static_argnames=("num", "endpoint", "retstep", "dtype", "axis"))
def _linspace(start: Any, stop: Any, num: int, endpoint: bool, retstep: bool, dtype: Any, axis: int) -> Any:
    start, stop = ensure("linspace", start, stop)
    wanted = dtypes.to_inexact_dtype(_result_type(start, stop)) if dtype is None else user_dtype(dtype, "linspace")
    computed = dtypes.to_inexact_dtype(wanted)
    start, stop = convert(start, computed), convert(stop, computed)
    shape = broadcast_shapes(start.aval.shape, stop.aval.shape)
    axis = axis + len(shape) + 1 if axis < 0 else axis
    unit = (*shape[:axis], 1, *shape[axis:])
    first, last = _broadcast_to(start, shape), _broadcast_to(stop, shape)
    if num == 0:
        delta: Any = typed_scalar(math.nan, computed)
        out = lax.broadcast(typed_scalar(0, wanted), (*shape[:axis], 0, *shape[axis:]))
    elif num == 1:
        delta = typed_scalar(math.nan, computed) if endpoint else lax.sub(*promote("subtract", stop, start))
        out = lax.reshape(first, unit)
    else:
        delta, out = _spaced(start, stop, first, last, num, endpoint, axis, unit, computed)
    if dtypes.is_integer(wanted) and not dtypes.is_integer(out.aval.dtype):
        out = lax.floor(out)
    out = convert(out, wanted)
    return (out, delta) if retstep else out


def _spaced(
    start: Any,
    stop: Any,
    first: Any,
    last: Any,
    num: int,
    endpoint: bool,
    axis: int,
    unit: Any,
    dtype: np.dtype,
) -> tuple[Any, Any]:
    parts = num - 1 if endpoint else num
    delta = lax.div(lax.sub(*promote("subtract", stop, start)), typed_scalar(parts, dtype))
    sizes = tuple(parts if i == axis else 1 for i in range(len(unit)))
    real = dtypes.real_dtype(dtype)
    numbers = lax.reshape(lax.broadcasted_iota(real, (parts,), 0), sizes)
    weight = convert(lax.div(numbers, typed_scalar(parts, real)), dtype)
    first = lax.reshape(first, unit)
    rising = lax.mul(first, lax.sub(const(weight, 1), weight))
    out = lax.add(rising, lax.mul(lax.reshape(last, unit), weight))
    if endpoint:
        out = lax.concatenate([out, lax.expand_dims(last, (axis,))], axis)
    return delta, out


def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = None, *, device: Any = None) -> Any:
    """Ones on the ``k``-th diagonal of an ``N`` by ``M`` matrix, zeros elsewhere."""
    if type(k) is int:  # if ``k`` is beyond the index type, the diagonal is outside the matrix
        info = dtypes.iinfo(dtypes.default_int_dtype(x64_enabled()))
        k = min(max(k, info.min), info.max)
    out = _eye(N, M, k, dtype)
    return out if device is None else placed(out, device)


def _eye(N: Any, M: Any, k: Any, dtype: Any) -> Any:
    dtype = user_dtype(float if dtype is None else dtype, "eye")
    offset = ensure("eye", k)
    if offset.aval.shape or not dtypes.is_integer(offset.aval.dtype):
        raise ValueError(f"k must be a scalar integer; got {k}")
    rows, columns = operator.index(N), operator.index(N if M is None else M)
    if rows < 0 or columns < 0:
        raise ValueError(f"negative dimensions are not allowed, got {N} and {M}")
    i = lax.broadcasted_iota(offset.aval.dtype, (rows, columns), 0)
    j = lax.broadcasted_iota(offset.aval.dtype, (rows, columns), 1)
    return convert(lax.eq(lax.add(*promote("add", i, offset)), j), dtype)


def identity(n: Any, dtype: Any = None) -> Any:
    """The ``n`` by ``n`` identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones at and below the ``k``-th diagonal, zeros above."""
    numbers = dtypes.default_int_dtype(x64_enabled())
    dtype = np.dtype(np.float32) if dtype is None else user_dtype(dtype, "tri")
    shape = (N, N if M is None else M)
    rows = lax.add(lax.broadcasted_iota(numbers, shape, 0), convert(k, numbers))
    return convert(lax.ge(rows, lax.broadcasted_iota(numbers, shape, 1)), dtype)


def _triangle(name: str, m: Any, k: int, lower: bool) -> Any:
    m = ensure(name, m)
    shape = m.aval.shape
    if len(shape) < 2:
        raise ValueError(f"Argument to jax.numpy.{name} must be at least 2D")
    mask = sharded_as(lax.broadcast(tri(shape[-2], shape[-1], k, BOOL), shape[:-2]), m)
    zero = lax.full_like(m, 0)
    return lax.select(mask, m, zero) if lower else lax.select(mask, zero, m)


@inner_jit(static_argnames="k")
def tril(m: Any, k: int = 0) -> Any:
    """``m`` with zeros above its ``k``-th diagonal."""
    return _triangle("tril", m, k, True)


@inner_jit(static_argnames="k")
def triu(m: Any, k: int = 0) -> Any:
    """``m`` with zeros below its ``k``-th diagonal."""
    return _triangle("triu", m, k - 1, False)


def diag(v: Any, k: int = 0) -> Any:
    """A matrix with ``v`` on its ``k``-th diagonal, or the ``k``-th diagonal of a matrix."""
    return _diag(v, operator.index(k))


@inner_jit(static_argnames="k")
def _diag(v: Any, k: int) -> Any:
    v = ensure("diag", v)
    if v.aval.ndim == 2:
        return _numpy.diagonal(v, k)
    if v.aval.ndim != 1:
        raise ValueError("diag input must be 1d or 2d")
    zero = typed_scalar(0, v.aval.dtype, v.aval.weak_type)
    size = v.aval.shape[0] + abs(k)
    padded = lax.pad(v, zero, ((max(0, -k), max(0, k), 0),))
    return choose(eye(size, k=k, dtype=BOOL), lax.expand_dims(padded, (1,)), zero)


if not TYPE_CHECKING:  # mypy already sees all names without an underscore
    __all__ = public_names(globals())
