"""Bring operands of NumPy's functions to one type and one rank.

The rules are JAX's (docs.jax.dev, "Type promotion semantics"): a lattice of types, in which Python scalars are weak. A
scalar constant is converted immediately, without an equation. Scalars are not broadcast: elementwise primitives repeat
them.

JAX wraps some of its functions in an inner ``jit``. Inside such a function a Python scalar is a variable of a weak
type, so an equation converts it. ``fold=False`` selects this behaviour.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from minijax import errors
from minijax.api.inner import inner_jit
from minijax.config import promotes_strictly, rank_promotion, x64_enabled
from minijax.core import dtypes
from minijax.core.array import Array, LiteralArray, as_array, check_int, get_aval, is_foreign
from minijax.core.avals import AnyArray, ShapedArray, common_sharding, dtype_name, sharded_part, sharding_of_type
from minijax.core.keys import is_key
from minijax.core.structural import broadcast_in_dim_p
from minijax.core.trace import Tracer, state
from minijax.ops.convert import convert_element_type_p, convert_numpy
from minijax.ops.elementwise import ne_p
from minijax.ops.select import select
from minijax.ops.shape import broadcast_shapes

BOOL = np.dtype(bool)
SCALARS = (bool, int, float, complex)
SCALAR_CLASSES = (*SCALARS, np.generic, np.ndarray)
# The classes of operands that an operator accepts. For any other class Python tries its reflected operator.
OPERANDS = (Array, Tracer, int, float, complex, np.generic, np.ndarray)


def public_names(namespace: dict[str, Any], *others: str) -> list[str]:
    """The ``__all__`` of the module whose globals are ``namespace``: the names ``others`` and its public functions."""
    functions = [n for n, x in namespace.items() if type(x) is FunctionType and x.__module__ == namespace["__name__"]]
    return [*others, *(name for name in functions if name[0] != "_")]


def is_array_like(x: Any) -> bool:
    """Whether NumPy's functions take ``x``: an array, a tracer, a scalar; not a list, a string or None."""
    if isinstance(x, OPERANDS) or hasattr(x, "__jax_array__") or is_foreign(x):
        return True
    return np.isscalar(x) and not isinstance(x, (str, bytes, memoryview))


def check_array_like(name: str, *args: Any) -> None:
    """Raise TypeError, with JAX's text, for the first argument that is neither an array nor a scalar."""
    for position, x in enumerate(args):
        if not is_array_like(x):
            hint = " Convert it first: jnp.array(x)." if isinstance(x, (list, tuple)) else ""
            raise TypeError(f"{name} requires ndarray or scalar arguments, got {type(x)} at position {position}.{hint}")


def ensure(name: str, *args: Any) -> Any:
    """Convert an argument to an array or tracer; several arguments give a list. TypeError for non-arrays."""
    check_array_like(name, *args)
    arrays = [asarray(x) for x in args]
    return arrays[0] if len(arrays) == 1 else arrays


def asarray(x: Any) -> Any:
    """Convert an array-like argument to ``Array`` or tracer, with its own type."""
    if isinstance(x, (Array, Tracer)):
        return x
    return as_array(x)


def checked_bool(name: str, where: Any) -> Any:
    """Check a ``where=`` argument, which is None or a boolean array. ValueError for other types."""
    if where is None:
        return None
    where = ensure(name, where)
    if where.aval.dtype != BOOL:
        raise ValueError(f"jnp.{name}: where must be None or a boolean array; got where.dtype={where.aval.dtype!r}.")
    return where


def no_out(name: str, out: Any) -> None:
    """NotImplementedError for an ``out=`` argument: arrays are immutable."""
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported.")


def user_dtype(dtype: Any, name: str) -> np.dtype:
    """The canonical form of a ``dtype=`` argument. TypeError if arrays cannot have it."""
    return dtypes.check_user_dtype(dtype, name, x64_enabled(), stacklevel=6)


def static(value: Any, what: str, convert: Callable[[Any], Any] = operator.index) -> Any:
    """Apply ``convert`` to ``value``. ConcretizationTypeError with the text ``what`` if the value is not known."""
    if isinstance(value, Tracer):
        concrete = value.to_concrete_value()
        if concrete is None:
            raise errors.ConcretizationTypeError(value, what)
        value = concrete
    return convert(value)


def known_value(x: Any) -> np.ndarray | None:
    """The value of an array-like argument if it is known during tracing, else None."""
    if isinstance(x, Tracer):
        x = x.to_concrete_value()
    return None if x is None else np.asarray(x)


def canonical_axis(axis: Any, ndim: int) -> int:
    """``axis`` counted from the front. ValueError if there is no such axis."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim if ndim else axis


def canonical_axes(axes: Any, ndim: int) -> tuple[int, ...]:
    """A tuple of axes counted from the front, for one axis, several axes, or None (all axes)."""
    if axes is None:
        return tuple(range(ndim))
    if isinstance(axes, (tuple, list, np.ndarray)) and np.ndim(axes) == 1:
        return tuple(canonical_axis(a, ndim) for a in axes)
    return (canonical_axis(axes, ndim),)


def index_tuple(x: Any) -> tuple[int, ...]:
    """An integer or a sequence of integers as a tuple."""
    try:
        return (operator.index(x),)
    except TypeError:
        return tuple(operator.index(i) for i in x)


def typed_scalar(value: Any, dtype: np.dtype, weak_type: bool = False) -> LiteralArray:
    """A constant scalar of ``dtype``, which programs contain as a literal. An integer out of range wraps around."""
    if is_key(dtype):
        raise ValueError(f"Cannot convert_element_type from {dtype_name(get_aval(value).dtype)} to {dtype_name(dtype)}")
    found = np.asarray(value)
    # an integer beyond 64 bits is an array of objects, with its own conversion rules
    converted = found.astype(dtype) if found.dtype.kind == "O" else convert_numpy(found, dtype)
    literal = LiteralArray(converted[()], ShapedArray((), dtype, weak_type))
    if weak_type and isinstance(value, float):
        # keep the kind of ``dtype``, so that the literal is read back with the same type
        literal.written = complex(value) if dtypes.is_complex(dtype) else value
    return literal


def weak_const(x: Any, value: Any) -> LiteralArray:
    """``value`` as a scalar of the dtype of ``x``; weakly typed if ``x`` is a weakly typed scalar."""
    return typed_scalar(value, x.aval.dtype, x.aval.weak_type and not x.aval.shape)


def const(x: Any, value: Any) -> LiteralArray:
    """``value`` as a strongly typed scalar of the dtype of ``x``, an array or tracer."""
    return typed_scalar(value, x.aval.dtype)


def evaluating() -> bool:
    """Whether nothing is being staged on this thread."""
    return state.dynamic.level == 0


def convert(x: Any, dtype: np.dtype, weak_type: bool = False, fold: bool = True) -> Any:
    """Convert ``x`` to ``dtype`` and ``weak_type``. Arrays of this type, and scalars if ``fold``, need no equation."""
    if not isinstance(x, Tracer):
        constant = fold or evaluating()
        if not isinstance(x, Array):
            if constant and isinstance(x, SCALAR_CLASSES) and np.ndim(x) == 0 and dtype != dtypes.float0:
                if isinstance(x, int):
                    check_int(x)
                return typed_scalar(x, dtype, weak_type)
            x = as_array(x)
        elif constant and isinstance(x, LiteralArray) and (x.aval.dtype != dtype or x.aval.weak_type != weak_type):
            return typed_scalar(x._value(), dtype, weak_type)
    if x.aval.dtype == dtype and x.aval.weak_type == weak_type:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type, sharding=None)


def astype(x: Any, dtype: np.dtype) -> Any:
    """``x`` with elements of ``dtype``, strongly typed."""
    return convert(x, dtype, False)


def type_of(x: Any) -> tuple[np.dtype, bool]:
    """``(dtype, weak_type)`` of an argument, which decide the promotion."""
    aval = getattr(x, "aval", None)
    if type(aval) is not ShapedArray:
        aval = get_aval(x)
    return aval.dtype, aval.weak_type


def result_dtype(*args: Any) -> tuple[np.dtype, bool]:
    """The common type of ``args``, as ``(dtype, weak_type)``. TypePromotionError if there is none."""
    return dtypes.lattice_result(*map(type_of, args), x64=x64_enabled(), strict=promotes_strictly())


def promote_dtypes(*args: Any, to: Callable[[Any], np.dtype] | None = None, fold: bool = True) -> list[Any]:
    """Convert ``args`` to their common type, or to the type that the function ``to`` returns for it."""
    if to is None and len(args) < 2:
        return [asarray(x) for x in args]
    dtype, weak_type = result_dtype(*args)
    if to is not None:
        dtype = to(dtype)
    return [convert(x, dtype, weak_type, fold) for x in args]


def promote_shapes(name: str, *args: Any) -> list[Any]:
    """Add leading axes of size 1 to operands, so that all but the scalars have the same rank."""
    found = 0
    for x in args:
        ndim = len(x.aval.shape)
        if ndim and ndim != found:
            if found:
                break
            found = ndim
    else:
        return list(args)
    shapes = [x.aval.shape for x in args]
    how = rank_promotion()
    if how != "allow":
        _report_rank_promotion(how, name, shapes)
    rank, out = _common_rank(*shapes), list(args)
    for i, shape in enumerate(shapes):
        if len(shape) < rank:
            out[i] = broadcast(out[i], (1,) * (rank - len(shape)))
    return out


@functools.lru_cache(maxsize=1024)
def _common_rank(*shapes: tuple[int, ...]) -> int:
    """The rank to which these shapes broadcast. ValueError if they do not."""
    return len(broadcast_shapes(*shapes))


def _report_rank_promotion(how: str, name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    shown = " ".join(map(str, shapes))
    if how == "raise":
        raise ValueError(
            f"Operands could not be broadcast together for {name} on shapes {shown} and with the config option "
            "jax_numpy_rank_promotion='raise'. Reshape the smaller operand, or set the option to 'allow'."
        )
    warnings.warn(
        f"Following NumPy automatic rank promotion for {name} on shapes {shown}. Set the jax_numpy_rank_promotion "
        "config option to 'allow' to disable this warning.",
        stacklevel=5,
    )


def _are_of_one_type(x: Any, y: Any) -> bool:
    """Whether two arrays have the same dtype and weak type. False for all but integers and floats of up to 32 bits."""
    if not isinstance(x, AnyArray) or not isinstance(y, AnyArray):
        return False
    a, b = x.aval, y.aval
    return a.dtype == b.dtype and a.weak_type == b.weak_type and a.dtype.kind in "iuf" and a.dtype.itemsize <= 4


def promote(name: str, *args: Any, to: Callable[[Any], np.dtype] | None = None) -> list[Any]:
    """Convert the operands of the function ``name`` to one type and, except for scalars, one rank.

    ``to`` maps the common type to the type of the computation, as ``dtypes.to_inexact_dtype`` does. TypeError for
    non-arrays and float0, ValueError for ranks that do not broadcast.
    """
    if to is None and len(args) == 2 and _are_of_one_type(*args):
        return promote_shapes(name, *args)
    check_array_like(name, *args)
    arrays = [x.__jax_array__() if hasattr(x, "__jax_array__") else x for x in args]
    for x in arrays:
        dtype = type_of(x)[0]
        if is_key(dtype) and any(type_of(y)[0] is not dtype for y in arrays):
            raise TypeError(f"{name} does not accept dtypes {', '.join(dtype_name(type_of(y)[0]) for y in arrays)}.")
        if dtype == dtypes.float0:
            raise TypeError(
                f"Called {name} with a float0 array. float0s do not support any operations by design: they are the "
                "tangents of integers and booleans. Did you differentiate with respect to an integer argument?"
            )
    return promote_shapes(name, *promote_dtypes(*arrays, to=to))


def broadcast(x: Any, sizes: tuple[int, ...]) -> Any:
    """``x`` broadcast along new leading axes of the given ``sizes``."""
    if not sizes:
        return x
    shape = x.aval.shape
    dims = tuple(range(len(sizes), len(sizes) + len(shape)))
    return broadcast_in_dim_p.bind(x, shape=(*sizes, *shape), broadcast_dimensions=dims, sharding=None)


def broadcast_to(x: Any, shape: tuple[int, ...], sharding: Any = None) -> Any:
    """Broadcast ``x`` to ``shape`` by NumPy's rules, and shard it by ``sharding``. ValueError if it does not fit."""
    own = x.aval.shape
    if own == shape:
        if sharding is None or (sharding_of_type(x.aval) or sharding.with_spec([None] * len(own))) == sharding:
            return x
    lead = len(shape) - len(own)
    if lead < 0:
        raise ValueError(f"Cannot broadcast to shape with fewer dimensions: arr_shape={own} shape={shape}")
    agree = all(a in (1, b) for a, b in zip(own, shape[lead:], strict=True))
    if sharding is not None:
        parts = enumerate(sharding.spec[lead:])
        agree = agree and all(sharded_part(x.aval, i) in (None, part) for i, part in parts)
    if not agree:
        wanted = f"{dtype_name(x.aval.dtype)}[{','.join(map(str, shape))}]"
        raise ValueError(f"Incompatible types for broadcasting: input type={x.aval} and requested type={wanted}")
    dims = tuple(range(lead, len(shape)))
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dims, sharding=sharding)


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """The arrays, broadcast to their common shape."""
    shapes = [x.aval.shape for x in arrays]
    if len(set(shapes)) < 2:
        return list(arrays)
    shape = broadcast_shapes(*shapes)
    sharding = common_sharding([x.aval for x in arrays], len(shape))
    return [broadcast_to(x, shape, sharding) for x in arrays]


@inner_jit(name="_where")
def choose(condition: Any, x: Any, y: Any) -> Any:
    """``where(condition, x, y)``: promote ``x`` and ``y``, and broadcast all three. A scalar condition stays scalar."""
    condition = ensure("where", condition)
    if condition.aval.dtype != BOOL:
        condition = nonzero(condition)
    x, y = promote_dtypes(x, y, fold=False)
    if condition.aval.shape:
        condition, x, y = broadcast_arrays(condition, x, y)
    else:
        x, y = broadcast_arrays(x, y)
    return select(condition, x, y) if x.aval.size else x


def nonzero(x: Any) -> Any:
    """Where the elements of the array ``x`` differ from zero."""
    return ne_p.bind(x, const(x, 0))
