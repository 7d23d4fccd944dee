"""Give ``Array`` and ``Tracer`` operators, methods and devices: ``core`` declares both classes without operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from minijax import errors, lax
from minijax.backend import pjrt
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import Array, MeshArray, is_foreign
from minijax.core.avals import AnyArray, ShapedArray
from minijax.core.borrowing import borrow
from minijax.core.lazy import HigherModule
from minijax.core.operands import levels_text
from minijax.core.trace import Tracer
from minijax.numpy import creation, manipulation, mathematics, products, reductions, ufuncs
from minijax.numpy.index_update import IndexUpdate, take
from minijax.numpy.indexing import rewrite_index
from minijax.numpy.promotion import OPERANDS, asarray, convert, ensure, index_tuple
from minijax.ops import elementwise as ew
from minijax.ops.call import to_buffer
from minijax.ops.sharded import (
    addressable_data,
    addressable_shards,
    device_of,
    devices_of,
    global_shards,
    is_committed,
    is_fully_addressable,
    is_fully_replicated,
    placed,
    sharding_of,
)

_numpy = HigherModule("numpy")

Function = Callable[..., Any]


def _operand(x: Any) -> bool:
    return isinstance(x, OPERANDS) or hasattr(x, "__jax_array__") or is_foreign(x)


def _refuse(symbol: str, left: Any, right: Any) -> NoReturn:
    raise TypeError(
        f"unsupported operand type(s) for {symbol}: {type(left).__name__!r} and {type(right).__name__!r}. Convert the "
        f"{'list' if list in map(type, (left, right)) else 'other operand'} with jnp.array first."
    )


def _forward(function: Function, symbol: str = "", refused: tuple[type, ...] = ()) -> Function:
    """Make ``x.__op__(other)``. It returns NotImplemented for unknown classes. TypeError for classes in ``refused``."""

    def operator(self: Any, other: Any) -> Any:
        if _operand(other):
            return function(self, other)
        if type(other) in refused:
            _refuse(symbol, self, other)
        return NotImplemented

    return operator


def _reflected(function: Function, symbol: str = "", refused: tuple[type, ...] = ()) -> Function:
    """Make ``x.__rop__(other)``, which is ``other op x``."""

    def operator(self: Any, other: Any) -> Any:
        if _operand(other):
            return function(other, self)
        if type(other) in refused:
            _refuse(symbol, other, self)
        return NotImplemented

    return operator


def _pair(name: str, primitive: Any, kinds: str, function: Function, symbol: str, refused: Any = ()) -> dict[str, Any]:
    """Make ``__op__`` and ``__rop__`` of a binary operator, with the fast path of ``ufuncs.fast_binary``."""
    slow = function.slow  # type: ignore[attr-defined]
    forward = ufuncs.fast_binary(primitive.bind, _forward(slow, symbol, refused), kinds)
    reflected = ufuncs.fast_binary(primitive.bind, _reflected(slow, symbol, refused), kinds, reflected=True)
    return {f"__{name}__": forward, f"__r{name}__": reflected}


def _comparison(primitive: Any, kinds: str, function: Function, symbol: str, refused: Any = ()) -> Function:
    return ufuncs.fast_binary(primitive.bind, _forward(function, symbol, refused), kinds)


def _power(self: Any, other: Any) -> Any:
    if type(other) is int and self.aval.dtype.kind in "fc":
        return ew.integer_pow_p.bind(self, y=other)
    return mathematics.power(self, other) if _operand(other) else NotImplemented


def _matmul(self: Any, other: Any) -> Any:
    return products.matmul(self, other) if isinstance(other, AnyArray) or _operand(other) else NotImplemented


def _round(self: Any, ndigits: int | None = None) -> Any:
    out = mathematics.round(self, ndigits or 0)
    return out if ndigits is not None else convert(out, dtypes.default_int_dtype(x64_enabled()))


def _contains(self: Any, item: Any) -> Any:
    if item is None or isinstance(item, str):
        raise TypeError(f"Array.__contains__: unsupported operand type {type(item)}.")
    query = ensure("Array.__contains__", item)
    if self.aval.ndim != 1:
        raise ValueError(f"Array.__contains__: search array must be one-dimensional, got arr.shape={self.aval.shape}.")
    if query.aval.ndim:
        raise ValueError(f"Array.__contains__: query value must be a scalar, got query.shape={query.aval.shape!r}")
    return reductions.any(ufuncs.equal(self, query))


def _iterate(self: Any) -> Iterator[Any]:
    if not self.aval.shape:
        raise TypeError("iteration over a 0-d array")
    if type(self) is MeshArray and not self.device.is_fully_replicated:
        # as in JAX, the rows of a sharded array do not inherit its sharding
        value, aval = self._value(), ShapedArray(self.aval.shape[1:], self.aval.dtype)
        return (Array(value[i, ...], aval) for i in range(len(value)))
    return (lax.index_in_dim(self, i, 0, False) for i in range(self.aval.shape[0]))


def _set_item(self: Any, index: Any, value: Any) -> NoReturn:
    raise TypeError(
        "JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] = y, use "
        "x = x.at[idx].set(y) or another .at[] method."
    )


OPERATORS: dict[str, Any] = {
    **_pair("add", ew.add_p, "iufc", ufuncs.add, "+", (tuple, list)),
    **_pair("sub", ew.sub_p, "iufc", ufuncs.subtract, "-"),
    **_pair("mul", ew.mul_p, "iufc", ufuncs.multiply, "*", (tuple, list)),
    **_pair("truediv", ew.div_p, "fc", ufuncs.true_divide, "/"),
    **_pair("and", ew.and_p, "biu", ufuncs.bitwise_and, "&"),
    **_pair("or", ew.or_p, "biu", ufuncs.bitwise_or, "|"),
    **_pair("xor", ew.xor_p, "biu", ufuncs.bitwise_xor, "^"),
    **_pair("lshift", ew.shift_left_p, "iu", ufuncs.left_shift, "<<"),
    "__rshift__": _forward(ufuncs.right_shift),
    "__rrshift__": _reflected(ufuncs.right_shift),
    "__floordiv__": _forward(mathematics.floor_divide),
    "__rfloordiv__": _reflected(mathematics.floor_divide),
    "__mod__": _forward(mathematics.remainder),
    "__rmod__": _reflected(mathematics.remainder),
    "__divmod__": _forward(mathematics.divmod),
    "__rdivmod__": _reflected(mathematics.divmod),
    "__pow__": _power,
    "__rpow__": _reflected(mathematics.power),
    "__matmul__": _matmul,
    "__rmatmul__": _reflected(products.matmul),
    "__eq__": _comparison(ew.eq_p, "biufc", ufuncs.equal, "==", (dict, list, set, tuple)),
    "__ne__": _comparison(ew.ne_p, "biufc", ufuncs.not_equal, "!=", (dict, list, set, tuple)),
    "__lt__": _comparison(ew.lt_p, "biuf", ufuncs.less, "<"),
    "__le__": _comparison(ew.le_p, "biuf", ufuncs.less_equal, "<="),
    "__gt__": _comparison(ew.gt_p, "biuf", ufuncs.greater, ">"),
    "__ge__": _comparison(ew.ge_p, "biuf", ufuncs.greater_equal, ">="),
    "__neg__": ufuncs.negative,
    "__pos__": ufuncs.positive,
    "__abs__": ufuncs.absolute,
    "__invert__": ufuncs.invert,
    "__round__": _round,
    "__getitem__": rewrite_index,
    "__setitem__": _set_item,
    "__iter__": _iterate,
    "__contains__": _contains,
}


def _reshape(self: Any, *args: Any, order: str = "C", out_sharding: Any = None) -> Any:
    """``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
    return manipulation.reshape(self, args[0] if len(args) == 1 else args, order, out_sharding=out_sharding)


def _transpose(self: Any, *args: Any) -> Any:
    """``x.transpose()``, ``x.transpose(1, 0)`` or ``x.transpose((1, 0))``."""
    if not args or args[0] is None:
        return manipulation.transpose(self)
    return manipulation.transpose(self, index_tuple(args[0]) if len(args) == 1 else index_tuple(args))


def _flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements in one dimension."""
    return manipulation.ravel(self, order, out_sharding=out_sharding)


def _clip(self: Any, min: Any = None, max: Any = None) -> Any:
    """Clip the elements between ``min`` and ``max``."""
    return mathematics.clip(self, min, max)


def _delete(self: Any) -> None:
    """Free this array's memory now; using the array afterwards is a RuntimeError."""
    if not self.is_deleted():
        to_buffer(self).delete()
        self.forget_host_copy()


def _is_deleted(self: Array) -> bool:
    """Whether this array was deleted, or donated to a program."""
    return not self.on_host and self._buffer.is_deleted()


def _buffer_protocol(self: Array, flags: int) -> memoryview:
    """``memoryview(x)``, read-only (used by Python 3.12 and later)."""
    value: Any = self.__array__()
    return memoryview(value)


def _block_until_ready(self: Any) -> Any:
    """Wait until this array has been computed, and return it."""
    if isinstance(self, Array) and self.on_device:
        pjrt.block_until_ready(self._buffer)
    return self


def _to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """This array on ``device``."""
    return placed(self, device)


def _of_later(name: str) -> Function:
    """A method that calls the function ``name`` of ``minijax.numpy``. Its module is imported on first use."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_numpy, name)(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``minijax.numpy.{name}`` of this array."
    return method


def _compress(self: Any, condition: Any, axis: int | None = None, **options: Any) -> Any:
    """The slices along ``axis`` where the vector ``condition`` is true."""
    return _numpy.compress(condition, self, axis, **options)


def _trace(self: Any, offset: Any = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """The sum along the diagonal of two axes."""
    return _numpy.trace(self, offset, axis1, axis2, dtype, out)


def _view(self: Any, dtype: Any = None, type: Any = None) -> Any:
    """The bytes of this array read as elements of ``dtype``."""
    return borrow("minijax.numpy", "ndarray.view")(self, dtype, type)


METHODS: dict[str, Function] = {
    **{
        name: getattr(module, name)
        for module, names in (
            (creation, "astype copy"),
            (products, "dot"),
            (manipulation, "squeeze swapaxes"),
            (mathematics, "round"),
            (reductions, "all any argmax argmin argsort cumprod cumsum max mean min prod sort std sum var"),
            (ufuncs, "conj conjugate"),
        )
        for name in names.split()
    },
    **{name: _of_later(name) for name in "argpartition choose diagonal nonzero ptp repeat searchsorted".split()},
    "block_until_ready": _block_until_ready,
    "clip": _clip,
    "compress": _compress,
    "flatten": _flatten,
    "ravel": _flatten,
    "reshape": _reshape,
    "take": take,
    "to_device": _to_device,
    "trace": _trace,
    "transpose": _transpose,
    "view": _view,
}

PROPERTIES: dict[str, Function] = {
    "T": manipulation.transpose,
    "mT": manipulation.matrix_transpose,
    "real": ufuncs.real,
    "imag": ufuncs.imag,
    "at": IndexUpdate,
}


def _concrete(self: Tracer, context: str) -> Array:
    """The concrete value of a tracer. ConcretizationTypeError with the text ``context`` if it has no such value."""
    value = self.to_concrete_value()
    if value is None:
        raise errors.ConcretizationTypeError(self, context)
    return asarray(value)


def _scalar_conversion(kind: Callable[[Any], Any]) -> Function:
    context = (
        f"The problem arose with the `{kind.__name__}` function. If trying to convert the data type of a value, try "
        f"using `x.astype({kind.__name__})` or `jnp.array(x, {kind.__name__})` instead."
    )

    def conversion(self: Tracer) -> Any:
        # as in JAX, refuse ``float(x)`` even if the primal value is known: the result would lose its derivative
        if kind is not int:
            raise errors.ConcretizationTypeError(self, context)
        return kind(_concrete(self, context))

    return conversion


def _bool(self: Tracer) -> bool:
    value = self.to_concrete_value()
    if value is None:
        raise errors.TracerBoolConversionError(self)
    return bool(value)


def _index(self: Tracer) -> int:
    value = self.to_concrete_value()
    if value is None:
        raise errors.TracerIntegerConversionError(self)
    return asarray(value).__index__()


def _array(self: Tracer, *args: Any, **kwargs: Any) -> NoReturn:
    raise errors.TracerArrayConversionError(self)


def _format(self: Tracer, spec: str) -> str:
    if not spec:
        return str(self)
    if spec == "levels":  # the value at each interpreter level, which print does not show
        return levels_text(self)
    raise TypeError(
        f"unsupported format string passed to {type(self).__name__}.__format__: {spec!r}, but this value is traced and "
        "has no digits yet. Let debug.print format it when the program runs: debug.print('{x:" + spec + "}', x=x)."
    )


def _item(self: Tracer, *args: int) -> Any:
    """The single element as a Python scalar. ConcretizationTypeError for a tracer without a known value."""
    return _concrete(self, "This occurred in the item() method of jax.Array").item(*args)


def _tolist(self: Tracer) -> Any:
    """Nested lists of Python scalars. ConcretizationTypeError for a tracer without a known value."""
    return _concrete(self, "This occurred in the tolist() method of jax.Array").tolist()


TRACER_METHODS: dict[str, Any] = {
    "__bool__": _bool,
    "__float__": _scalar_conversion(float),
    "__int__": _scalar_conversion(int),
    "__complex__": _scalar_conversion(complex),
    "__index__": _index,
    "__array__": _array,
    "__format__": _format,
    "__len__": lambda self: len(self.aval),
    "item": _item,
    "tolist": _tolist,
    "nbytes": property(lambda self: self.aval.size * self.aval.dtype.itemsize),
    "itemsize": property(lambda self: self.aval.dtype.itemsize),
}


# Members of arrays only: tracers have no value and no device.
ARRAY_MEMBERS: dict[str, Any] = {
    "__buffer__": _buffer_protocol,
    "delete": _delete,
    "is_deleted": _is_deleted,
    "device": property(device_of),
    "devices": devices_of,
    "committed": property(is_committed),
    "sharding": property(sharding_of),
    "addressable_shards": property(addressable_shards),
    "addressable_data": addressable_data,
    "global_shards": property(global_shards),
    "is_fully_addressable": property(is_fully_addressable),
    "is_fully_replicated": property(is_fully_replicated),
}


def _complete_classes() -> None:
    """Add the members above to the classes of ``core``, which cannot import the primitives that the methods need."""
    for name, function in {**OPERATORS, **METHODS}.items():
        setattr(AnyArray, name, function)
    for name, function in PROPERTIES.items():
        setattr(AnyArray, name, property(function))
    for name, function in TRACER_METHODS.items():
        setattr(Tracer, name, function)
    for name, member in ARRAY_MEMBERS.items():
        setattr(Array, name, member)


_complete_classes()
