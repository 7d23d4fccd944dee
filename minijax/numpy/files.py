"""Arrays from bytes, files, iterators and other libraries, and as text: NumPy does it, and its arrays become ours."""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from minijax.core import dtypes
from minijax.numpy.creation import array, asarray
from minijax.numpy.promotion import ensure, static
from minijax.ops.sharded import placed

__all__ = [
    "array_repr",
    "array_str",
    "from_dlpack",
    "frombuffer",
    "fromfile",
    "fromiter",
    "fromstring",
    "iterable",
    "load",
    "save",
    "savez",
]


def _known(name: str, x: Any) -> np.ndarray:
    """The value of an array. ConcretizationTypeError, naming the function, for a traced one."""
    return static(ensure(name, x), f"jnp.{name} needs the value of its argument.", np.asarray)


def load(file: IO[bytes] | str | os.PathLike[Any], *args: Any, **kwargs: Any) -> Any:
    """The array in a file of NumPy's format (``.npy``); of several (``.npz``), what ``numpy.load`` returns."""
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == np.dtype("V2"):  # NumPy does not know bfloat16, and saved its bytes
        found = found.view(dtypes.as_dtype("bfloat16"))
    return asarray(found)


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Write an array to a file of NumPy's format (``.npy``)."""
    np.save(file, _known("save", arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to a file of NumPy's format (``.npz``): by name, others as ``arr_0``, ``arr_1``, ..."""
    positional = [_known("savez", x) for x in args]
    np.savez(file, *positional, allow_pickle=allow_pickle, **{name: _known("savez", x) for name, x in kwds.items()})


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Any:
    """The bytes of ``buffer`` as a vector of ``dtype``."""
    return asarray(np.frombuffer(buffer=buffer, dtype=np.dtype(_read_as(dtype)), count=count, offset=offset))


def fromfile(*args: Any, **kwargs: Any) -> Any:
    """Not supported, as its results would depend on where it is called: NotImplementedError says what to write."""
    raise NotImplementedError(
        "jnp.fromfile() is not implemented because it may be non-pure and thus unsafe for use with JIT and other "
        "transformations. Consider using jnp.asarray(np.fromfile(...)) instead."
    )


def fromiter(*args: Any, **kwargs: Any) -> Any:
    """Not supported, as an iterator may be used up: NotImplementedError says what to write."""
    raise NotImplementedError(
        "jnp.fromiter() is not implemented because it may be non-pure and thus unsafe for use with JIT and other "
        "transformations. Consider using jnp.asarray(np.fromiter(...)) instead."
    )


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Any:
    """The numbers in ``string``, which ``sep`` separates, as a vector of ``dtype``."""
    return asarray(np.fromstring(string=string, dtype=np.dtype(_read_as(dtype)), count=count, sep=sep))


def _read_as(dtype: Any) -> Any:
    return dtype if isinstance(dtype, type) else getattr(dtype, "dtype", dtype)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array of another library that has the DLPack protocol, by way of this machine's memory."""
    found = array(np.array(np.from_dlpack(x))) if copy is not False else asarray(np.from_dlpack(x))
    return found if device is None else placed(found, device)


def iterable(y: Any) -> bool:
    """Whether ``iter(y)`` works: an array of no dimensions cannot be iterated over."""
    return bool(np.iterable(y)) if not hasattr(y, "aval") else bool(y.aval.ndim)


def array_repr(
    arr: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The text that shows an array, with its type."""
    return np.array_repr(_known("array_repr", arr), max_line_width, precision, suppress_small)


def array_str(
    a: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The text that shows the elements of an array."""
    return np.array_str(_known("array_str", a), max_line_width, precision, suppress_small)
