"""Arrays: immutable values with a dtype and weak type, on the host (NumPy) or on a device.

An ``Array`` holds a NumPy value, a device buffer, or both. The value is copied at first use, and both copies are kept.
``minijax.numpy.operators`` adds operators, indexing, methods and devices to it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.avals import AnyArray, ShapedArray, dtype_name, sharded_by
from minijax.core.keys import KeyType, impl_of, is_key, keys_of, words_of
from minijax.core.refs import AbstractRef

# Set by the backend. ``fetch_buffer``: buffer -> read-only NumPy array. ``place_value``: value, type, device -> buffer.
fetch_buffer: Callable[[Any], np.ndarray]
place_value: Callable[[Any, ShapedArray, Any], Any]
# Set by the backend. ``gather_parts``: buffer over several devices, its sharding, its type -> NumPy value.
gather_parts: Callable[[Any, Any, ShapedArray], Any]


def set_transfers(
    fetch: Callable[[Any], np.ndarray],
    place: Callable[[Any, ShapedArray, Any], Any],
    gather: Callable[[Any, Any, ShapedArray], Any],
) -> None:
    """Install the functions that copy a device buffer to the host, a value to a device, and shards to the host."""
    global fetch_buffer, place_value, gather_parts
    fetch_buffer, place_value, gather_parts = fetch, place, gather


class Array(AnyArray):
    """An immutable n-dimensional array: ``shape``, ``dtype``, ``weak_type``.

    Arrays are made by ``minijax.numpy.array`` and by operations, not by calling this class. The slots ``_np`` (a
    read-only NumPy array or scalar) and ``_buffer`` (a device buffer) may be unset. Evaluation reads ``x._np``
    without a test: an AttributeError means that ``x`` is not an array on the host.

    An array of random keys has the shape and type of keys; ``core.keys`` describes its ``_np`` and ``_buffer``.
    """

    __slots__ = ("_np", "_buffer", "aval", "__weakref__")
    __array_priority__ = 100

    aval: ShapedArray
    _np: Any
    _buffer: Any
    __hash__ = None  # type: ignore[assignment]
    # type and place, as the key by which a repeated call is found; set below and in subclasses
    kind: object = None

    def __init__(self, value: Any, aval: ShapedArray) -> None:
        self._np = value
        self.aval = aval

    def _value(self) -> Any:
        """The NumPy value, fetched from the device at first use."""
        try:
            return self._np
        except AttributeError:
            pass
        value = self._np = _fetched(self._buffer, self.aval)
        return value

    @property
    def on_host(self) -> bool:
        """Whether the value is on the host, so that reading it does not wait."""
        return hasattr(self, "_np")

    @property
    def on_device(self) -> bool:
        """Whether the value is in a device buffer."""
        return hasattr(self, "_buffer")

    def forget_host_copy(self) -> None:
        """Drop the NumPy value: the buffer was donated, so the array is deleted."""
        if self.on_host:
            del self._np

    @property
    def nbytes(self) -> int:
        return self.aval.size * self.aval.dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self.aval.dtype.itemsize

    def to_concrete_value(self) -> Array:
        """Return ``self``: an array is concrete."""
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if is_key(self.aval.dtype):
            raise TypeError(
                "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use jax.random.key_data(arr) if "
                "you wish to extract the underlying integer array."
            )
        value = np.asarray(self._value())
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(
                    f"Unable to avoid copy while creating an array as requested: the values are {value.dtype}, but "
                    f"{np.dtype(dtype)} was requested. Use numpy.asarray, which copies if it must."
                )
            return value.astype(dtype)
        if copy:
            return value.copy()
        # NumPy can make a view writable again while the array that owns its memory is writable
        owner = value if value.base is None else value.base
        if isinstance(owner, np.ndarray):
            owner.flags.writeable = False
        view = value.view()
        view.flags.writeable = False
        return view

    def __dlpack__(self, **kwargs: Any) -> Any:
        value = self.__array__()
        try:
            return value.__dlpack__(**kwargs)
        except BufferError:
            # an old version of the protocol has no "read-only", so it gets a copy
            return value.copy().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def item(self, *args: int) -> Any:
        """The single element as a Python scalar."""
        return self.__array__().item(*args)

    def tolist(self) -> Any:
        """Nested lists of Python scalars."""
        return self.__array__().tolist()

    def __bool__(self) -> bool:
        if is_key(self.aval.dtype):
            raise TypeError("key array cannot be converted to boolean. Compare keys with ==, which gives booleans.")
        if self.aval.size > 1:
            raise ValueError(
                f"The truth value of an array with more than one element is ambiguous (shape {self.aval.shape}). "
                "Use a.any() or a.all()"
            )
        if self.aval.size == 0:
            raise ValueError("The truth value of an empty array is ambiguous. Use `array.size > 0` to check for it.")
        return bool(self._value())

    def _scalar(self) -> Any:
        if self.aval.ndim:
            raise TypeError(f"Only scalar arrays can be converted to Python scalars; got {self.aval.ndim=}")
        return self.item()

    def __float__(self) -> float:
        return float(self._scalar())

    def __int__(self) -> int:
        return int(self._scalar())

    def __complex__(self) -> complex:
        return complex(self._scalar())

    def __index__(self) -> int:
        if not dtypes.is_integer(self.aval.dtype) or self.aval.ndim:
            raise TypeError(f"Only integer scalar arrays can be converted to a scalar index; got {self.aval!r}")
        return int(self._value())

    def __format__(self, spec: str) -> str:
        if is_key(self.aval.dtype):
            return object.__format__(self, spec)
        return format(np.asarray(self._value())[()], spec)

    def __len__(self) -> int:
        return len(self.aval)

    def __str__(self) -> str:
        if is_key(self.aval.dtype):
            return repr(self)
        return str(np.asarray(self._value()))

    def __repr__(self) -> str:
        if is_key(self.aval.dtype):
            words = words_of(self._value(), self.aval.dtype)
            return f"Array({self.aval.shape}, dtype={self.aval.dtype.name}) overlaying:\n{words}"
        name = dtype_name(self.aval.dtype)
        weak = ", weak_type=True" if self.aval.weak_type else ""
        value = np.asarray(self._value())
        if self.aval.size == 0:
            return f"Array([], shape={self.aval.shape}, dtype={name}{weak})"
        body = np.array2string(value, prefix="Array(", separator=", ", suffix=",")
        tail = f"dtype={name}{weak})"
        # as in JAX, a dtype that does not fit into the last line stays on that line, after more spaces
        fits = len(body) - body.rfind("\n") + 2 + len(tail) <= np.get_printoptions()["linewidth"]
        return f"Array({body},{' ' if fits else '      '}{tail}"

    def __reduce__(self) -> Any:
        return (_rebuild, (np.asarray(self._value()), self.aval))


Array.kind = vars(Array)["aval"]  # another name of the slot, equally fast to read

_new = object.__new__


def _fetched(buffer: Any, aval: ShapedArray) -> Any:
    """The NumPy value of an array of type ``aval`` in a device buffer."""
    value = fetch_buffer(buffer)
    return keys_of(value, aval.dtype) if type(aval.dtype) is KeyType else value


def device_array(buffer: Any, aval: ShapedArray) -> Array:
    """The array in a device buffer."""
    x: Array = _new(Array)
    x._buffer = buffer
    x.aval = aval
    return x


class CommittedArray(Array):
    """An array that the user put on ``device``, or that was computed from such an array. Operations on it run there.

    Its slot ``_np`` is never set. Evaluation reads that slot first, so only its slow path handles committed arrays.
    """

    __slots__ = ("device", "_host")

    device: Any
    _host: Any

    kind = property(lambda self: kind_of(self.aval, self.device))  # type: ignore[assignment]

    def __init__(self, buffer: Any, aval: ShapedArray, device: Any) -> None:
        self._buffer = buffer
        self.aval = aval
        self.device = device

    def _value(self) -> Any:
        try:
            return self._host
        except AttributeError:
            pass
        value = self._host = self._fetch()
        return value

    def _fetch(self) -> Any:
        return _fetched(self._buffer, self.aval)

    @property
    def on_host(self) -> bool:
        return hasattr(self, "_host")

    def forget_host_copy(self) -> None:
        if self.on_host:
            del self._host


class MeshArray(CommittedArray):
    """An array over the devices of a sharding: ``_buffer`` is a buffer over them, ``device`` is the sharding.

    ``kind``, one object for each pair of type and sharding, is part of cache keys. ``computed_on_host``: whether the
    array depends only on values from the host; it is on every device only because a mesh is set.
    """

    __slots__ = ("kind", "computed_on_host")

    computed_on_host: bool

    aval = property(operator.attrgetter("kind.aval"))  # type: ignore[assignment]
    device = property(operator.attrgetter("kind.place"))

    def __init__(self, buffer: Any, aval: ShapedArray, sharding: Any) -> None:
        self._buffer = buffer
        self.kind = kind_of(placed_type(aval, sharding), sharding)

    def _fetch(self) -> Any:
        if self.aval.unreduced:
            raise NotImplementedError(
                f"An array of type {self.aval.str_short()} is unreduced: each device has a term of its value. "
                "Sum the terms first, with sharding.reshard(x, P(...))."
            )
        return gather_parts(self._buffer, self.device, self.aval)

    def __repr__(self) -> str:
        if self.aval.unreduced:
            weak = ", weak_type=True" if self.aval.weak_type else ""
            return f"Array(shape={self.aval.shape}, dtype={dtype_name(self.aval.dtype)}{weak}, sharding={self.device})"
        if self.device.is_fully_addressable or self.device.is_fully_replicated:
            return super().__repr__()
        return f"Array({self.aval.shape}, dtype={dtype_name(self.aval.dtype)})"

    def __str__(self) -> str:
        return repr(self) if self.aval.unreduced else super().__str__()

    @property
    def assignment(self) -> tuple[Any, ...]:
        """The devices, in the order that programs use."""
        return self.device.assignment  # type: ignore[no-any-return]


def placed_type(aval: ShapedArray, sharding: Any) -> ShapedArray:
    """The type of an array of type ``aval`` with sharding ``sharding``: see ``core.explicit``."""
    mesh = getattr(sharding, "mesh", None)
    if type(aval) is ShapedArray and (mesh is None or not mesh.any_explicit):
        return aval
    return sharded_by(aval, sharding)  # type: ignore[no-any-return]


class Kind:
    """A type of arrays and their place: a sharding, a device, or None."""

    __slots__ = ("aval", "place")

    def __init__(self, aval: ShapedArray, place: Any) -> None:
        self.aval = aval
        self.place = place


_kinds: dict[tuple[ShapedArray, Any], Kind] = {}
MOST_KINDS = 8192


def kind_of(aval: ShapedArray, place: Any) -> Kind:
    """The unique ``Kind`` of this type and place; sharded arrays have it as ``MeshArray.kind``."""
    found = _kinds.get((aval, place))
    if found is None:
        if len(_kinds) >= MOST_KINDS:
            _kinds.clear()
        found = _kinds[aval, place] = Kind(aval, place)
    return found


# The classes of committed arrays.
HELD: frozenset[type] = frozenset((CommittedArray, MeshArray))


def committed(x: Any, device: Any) -> Any:
    """Commit ``x`` to ``device`` if it is an uncommitted array. Tracers, committed and float0 arrays stay unchanged."""
    if type(x) is not Array and type(x) is not LiteralArray:
        return x
    out = CommittedArray(place_value(x._value(), x.aval, device), x.aval, device)
    out._host = x._value()
    return out


def uncommitted(x: Any) -> Any:
    """Turn a committed array into an uncommitted one. Return other objects unchanged."""
    return Array(x._value(), placed_type(x.aval, None)) if type(x) in HELD else x


def retyped(x: Array, aval: ShapedArray) -> Array:
    """``x`` on its device with type ``aval``, which differs from its own type only in ``weak_type``."""
    if isinstance(x, CommittedArray):
        return type(x)(x._buffer, aval, x.device)
    return Array(x._value(), aval) if x.on_host else device_array(x._buffer, aval)


def common_device(args: Sequence[Any], name: str, label: Callable[[int], str] = "args[{}]".format) -> Any:
    """The device of the committed ``args``: a tuple for a mesh, None without such args. ValueError if two differ."""
    found: Any = None
    over_mesh = False
    for i, x in enumerate(args):
        kind = type(x)
        if kind is CommittedArray:
            place = (x.device,)
            if type(x.aval) is not ShapedArray:
                _check_left_mesh(x, label(i), name)
        elif kind is MeshArray:
            place, over_mesh = x.assignment, True
        else:
            continue
        if found is None:
            found, first = place, i
        elif place is not found and place != found:
            one, other = (placed_text(args[k], label(k), name) for k in (first, i))
            raise ValueError(
                f"Received incompatible devices for jitted computation. Got {one} and {other}. Bring them together "
                "with device_put."
            )
    return found if over_mesh or found is None else found[0]


def _check_left_mesh(x: CommittedArray, label: str, name: str) -> None:
    """ValueError if the operand ``x`` is on one device but its type is sharded over several."""
    size = getattr(getattr(x.aval.sharding, "mesh", None), "size", 1)
    if size > 1:
        raise ValueError(
            f"Length of device assignment 1 is not equal to the size of the mesh {size} of aval {x.aval.str_short()}: "
            f"argument {label} of {name} was brought from a mesh to one device, and its type still says how the mesh "
            "divides it. Copy it through the host instead: device_put(numpy.asarray(x), device)."
        )


def placed_text(x: CommittedArray, label: str, name: str) -> str:
    """The place of the operand ``label`` of ``name``, as text."""
    devices = x.assignment if isinstance(x, MeshArray) else (x.device,)
    return (
        f"argument {label} of {name} with shape {x.aval} and with device ids {[each.id for each in devices]} on "
        f"platform {devices[0].platform.upper()}"
    )


class LiteralArray(Array):
    """A scalar that a rule or function of minijax made. Staging makes it a literal; a user's array becomes a constvar.

    ``written`` is the scalar as jaxprs print it: the Python scalar that it was made from (0.7, not the nearest
    float32), else the result of ``literal``. ``atom`` is the jaxpr literal, which equations share.
    """

    __slots__ = ("written", "atom")

    written: Any
    atom: Any

    def literal(self) -> Any:
        """The scalar in jaxprs: Python's if weakly typed (so that it stays weak), else NumPy's."""
        try:
            return self.written
        except AttributeError:
            value = np.asarray(self._value())
        self.written = value.item() if self.aval.weak_type else value[()]
        return self.written


def _rebuild(value: np.ndarray, aval: ShapedArray) -> Array:
    return Array(value, aval)


_SCALAR_TYPES = (bool, int, float, complex)
_scalar_avals: dict[Any, ShapedArray] = {}


def scalar_aval(kind: type) -> ShapedArray:
    """The type of a Python scalar of class ``kind``: weak, except for ``bool``."""
    key = (kind, x64_enabled())
    aval = _scalar_avals.get(key)
    if aval is None:
        dtype = dtypes.canonicalize_dtype(np.dtype(kind), key[1])
        aval = _scalar_avals[key] = ShapedArray((), dtype, kind is not bool)
    return aval


def check_int(x: int) -> None:
    """OverflowError for a Python integer that does not fit int32, or int64 with x64 enabled."""
    if not -0x80000000 <= x <= 0x7FFFFFFF:
        bits = 63 if x64_enabled() else 31
        if not -(1 << bits) <= x < 1 << bits:
            shown = x if x.bit_length() < 256 else f"of {x.bit_length()} bits"
            wider = "" if bits == 63 else ', or config.update("jax_enable_x64", True) for 64 bits'
            raise OverflowError(
                f"Python int {shown} too large to convert to {scalar_aval(int).dtype}. Give its type, "
                f"jnp.asarray(x, dtype){wider}."
            )


def _from_scalar(x: Any) -> Array:
    kind = type(x)
    aval = scalar_aval(kind)
    if kind is int:
        check_int(x)
    literal = LiteralArray(aval.dtype.type(x), aval)
    literal.written = x
    return literal


class _Typed:
    """A Python scalar with an ``aval``. Transformations pass such scalars to the user's function."""

    __slots__ = ()
    kind: type

    @property
    def aval(self) -> ShapedArray:
        return scalar_aval(self.kind)

    @property
    def dtype(self) -> np.dtype:
        return self.aval.dtype

    def __str__(self) -> str:
        return str(self.kind(self))  # type: ignore[call-arg]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind(self)}, dtype={dtype_name(self.dtype)})"  # type: ignore[call-arg]


class TypedInt(_Typed, int):
    """An ``int`` with the dtype of its array."""

    kind = int


class TypedFloat(_Typed, float):
    """A ``float`` with the dtype of its array."""

    kind = float


class TypedComplex(_Typed, complex):
    """A ``complex`` with the dtype of its array."""

    kind = complex


_TYPED: dict[type, type] = {int: TypedInt, float: TypedFloat, complex: TypedComplex}


def as_value(x: Any) -> Any:
    """``x`` in the form that the user's function gets: a tracer, an ``Array``, or a Python scalar."""
    if isinstance(getattr(x, "aval", None), (ShapedArray, AbstractRef)) or type(x) is bool:
        return x
    typed = _TYPED.get(type(x))
    if typed is None:
        return as_array(x)
    if typed is TypedInt:
        _from_scalar(x)  # raises OverflowError
    return typed(x)


def _canonical(dtype: np.dtype) -> np.dtype:
    return dtypes.canonicalize_dtype(dtype, x64_enabled())


def _from_numpy(x: Any) -> Array:
    aval = numpy_aval(x)
    if not x.ndim and type(x) is not np.ma.MaskedArray:  # a NumPy scalar, or an array of shape ()
        return LiteralArray(x.astype(aval.dtype)[()], aval)
    if type(x) is not np.ndarray:
        _refuse_masked(x)
    # Always a copy: the caller may write to ``x`` afterwards, and results may be views of their operands.
    return Array(np.array(x, dtype=aval.dtype), aval)


def _refuse_masked(x: Any) -> None:
    """ValueError for a masked array: arrays have no masks, so the caller must choose the values."""
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(
            "numpy masked arrays are not supported as direct inputs: their mask would be lost. Use x.filled(value), "
            "or x.data and the mask x.mask as two arrays."
        )


def as_array(x: Any) -> Array:
    """``x`` as an ``Array``. Python scalars are weakly typed; without x64, 64 bits become 32. Else TypeError."""
    if isinstance(x, Array):
        return x
    if type(x) in _SCALAR_TYPES:
        return _from_scalar(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return _from_numpy(x)
    converted = _protocol(x)
    return converted if isinstance(converted, Array) else _from_numpy(converted)


def not_an_array(value: Any) -> TypeError:
    """The error for a ``value`` that cannot be an array. It holds the value, so that ``bind`` can name the operand."""
    error = TypeError(f"Value {value!r} of type {type(value)} is not a valid JAX type")
    error.refused = value  # type: ignore[attr-defined]
    return error


def _protocol(x: Any) -> Any:
    """``x`` as a scalar, or converted by ``__jax_array__``. TypeError for other objects, even with ``__array__``."""
    if isinstance(x, _SCALAR_TYPES):  # a subclass, such as an IntEnum
        kind: Any = next(kind for kind in _SCALAR_TYPES if isinstance(x, kind))
        return _from_scalar(kind(x))
    method = getattr(x, "__jax_array__", None)
    if method is not None:
        return method()
    if is_foreign(x):
        # immutable like our arrays: on a CPU no copy is needed
        if hasattr(getattr(x, "dtype", None), "_impl"):  # random keys
            aval = _foreign_aval(x)
            return Array(keys_of(np.asarray(x._base_array), aval.dtype), aval)
        value, aval = np.asarray(x), _foreign_aval(x)
        return Array(value if value.dtype == aval.dtype else value.astype(aval.dtype), aval)
    raise not_an_array(x)


def is_array_like(x: Any) -> bool:
    """Whether ``x`` can be an argument of a primitive: an array, a tracer, a ShapeDtypeStruct, a number."""
    return (
        isinstance(x, (AnyArray, np.generic, *_SCALAR_TYPES))
        or (isinstance(x, np.ndarray) and x.dtype.kind not in "OSU")
        or isinstance(getattr(x, "aval", None), (ShapedArray, AbstractRef))
        or hasattr(x, "__jax_array__")
        or is_foreign(x)
    )


def is_foreign(x: Any) -> bool:
    """Whether ``x`` is an array of JAX itself."""
    return hasattr(type(x), "__array__") and hasattr(x, "aval") and not isinstance(x, AnyArray)


def _foreign_aval(x: Any) -> ShapedArray:
    dtype = x.dtype
    if not isinstance(dtype, np.dtype):  # random keys, or another dtype that NumPy does not know
        dtype = impl_of(dtype._impl).dtype if hasattr(dtype, "_impl") else np.asarray(x).dtype
    dtypes.check_valid_dtype(dtype, x)
    return ShapedArray(x.shape, _canonical(dtype), getattr(x, "weak_type", False))


# (shape, dtype.num, x64) of a NumPy array of builtin dtype -> its type
_numpy_avals: dict[Any, ShapedArray] = {}


def numpy_aval(x: Any) -> ShapedArray:
    """The type of a NumPy array or scalar. TypeError if no array can have this type."""
    dtype = x.dtype
    if dtype.isbuiltin != 1:  # byte-swapped, structured, or of ml_dtypes: its number is not unique
        dtypes.check_valid_dtype(dtype, x)
        return ShapedArray(x.shape, _canonical(dtype))
    key = (x.shape, dtype.num, x64_enabled())
    aval = _numpy_avals.get(key)
    if aval is None:
        dtypes.check_valid_dtype(dtype, x)
        if len(_numpy_avals) >= 4096:
            _numpy_avals.clear()
        aval = _numpy_avals[key] = ShapedArray(x.shape, _canonical(dtype))
    return aval


_ndarray = np.ndarray  # saves a lookup for every operand of every rule


def get_aval(x: Any) -> Any:
    """The type of ``x``: a tracer, an array, a reference, or anything that ``as_array`` takes. Else TypeError."""
    if isinstance(x, AnyArray):
        return x.aval
    if type(x) is _ndarray:
        return numpy_aval(x)
    try:
        aval = x.aval
    except AttributeError:
        pass
    else:
        if isinstance(aval, (ShapedArray, AbstractRef)):
            return aval
        if is_foreign(x):
            return _foreign_aval(x)
    if type(x) in _SCALAR_TYPES:
        return scalar_aval(type(x))
    if isinstance(x, np.generic):
        return numpy_aval(x)
    if isinstance(x, np.ndarray):
        _refuse_masked(x)
        return numpy_aval(x)
    return as_array(x).aval
