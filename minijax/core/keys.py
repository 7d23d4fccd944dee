"""Element types of random keys, ``key<fry>``, and how their values are stored.

A key is a few 32-bit words that only random functions read. An array of keys has its own dtype and shape. On a device
it is the *physical* array of words: ``uint32`` with one more dimension for the words (``physical_aval``). On the host
it is a NumPy array of the same shape; each element has the bytes of one key (``KeyType.storage``). So NumPy rearranges
keys like numbers. Users never see the stored form.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minijax.core.records import Immutable

WORD = np.dtype(np.uint32)


class extended(np.generic):  # noqa: N801, as JAX names it
    """The parent of all dtypes that NumPy does not have: ``jnp.issubdtype(x.dtype, dtypes.extended)``."""


class prng_key(extended):  # noqa: N801
    """The parent of the dtypes of random keys: ``jnp.issubdtype(x.dtype, dtypes.prng_key)``."""


class PRNGImpl(Immutable):
    """An implementation of random keys: ``name``, ``key_shape`` (of its words) and ``tag`` (in types) identify it.

    Its functions are registered in ``ops.random.bits``. ``theirs`` is JAX's implementation, if one was imported.
    """

    __slots__ = ("name", "key_shape", "tag", "dtype", "theirs")
    known: dict[tuple[Any, ...], PRNGImpl] = {}

    name: str
    key_shape: tuple[int, ...]
    tag: str
    dtype: KeyType
    theirs: Any

    def __new__(cls, name: str, key_shape: Any, tag: str) -> PRNGImpl:
        key = (name, tuple(map(int, key_shape)), tag)
        self = cls.known.get(key)
        if self is None:
            self = object.__new__(cls)
            self.name, self.key_shape, self.tag = key
            self.theirs = None
            self.dtype = object.__new__(KeyType)
            self.dtype.impl = self
            self = cls.known.setdefault(key, self)
        return self

    @classmethod
    def made(cls, name: str, key_shape: Any, tag: str) -> PRNGImpl:
        """A new implementation, which replaces the old one of that name. Existing keys keep the old one."""
        cls.known.pop((name, tuple(map(int, key_shape)), tag), None)
        return cls(name, key_shape, tag)

    def __reduce__(self) -> Any:
        return PRNGImpl, (self.name, self.key_shape, self.tag)

    def __str__(self) -> str:
        return self.tag

    def __repr__(self) -> str:
        return f"PRNGImpl({self.name!r}, {self.key_shape}, {self.tag!r})"


class KeyType(Immutable):
    """The dtype of arrays of keys, in place of a ``numpy.dtype``: ``KeyType(impl) is impl.dtype``."""

    __slots__ = ("impl",)
    kind = "k"
    isnative = True
    isbuiltin = 0
    type = prng_key

    impl: PRNGImpl

    def __new__(cls, impl: PRNGImpl) -> KeyType:
        return impl.dtype

    @property
    def name(self) -> str:
        """``key<fry>``."""
        return f"key<{self.impl.tag}>"

    @property
    def words(self) -> int:
        """The number of 32-bit words of a key."""
        return math.prod(self.impl.key_shape)

    @property
    def itemsize(self) -> int:
        return self.words * WORD.itemsize

    @property
    def storage(self) -> np.dtype:
        """The NumPy type of a key's bytes."""
        return np.dtype((np.void, self.itemsize))

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return KeyType, (self.impl,)


# JAX's implementations, in its order.
PHILOX2, PHILOX4 = PRNGImpl("philox2x32", (1,), "phx2"), PRNGImpl("philox4x32", (2,), "phx4")
THREEFRY = PRNGImpl("threefry2x32", (2,), "fry")
RBG, UNSAFE_RBG = PRNGImpl("rbg", (4,), "rbg"), PRNGImpl("unsafe_rbg", (4,), "urbg")
THREEFRY4 = PRNGImpl("threefry4x32", (4,), "fry4")


def impl_of(theirs: Any) -> PRNGImpl:
    """Our implementation for JAX's ``theirs``. It borrows JAX's functions unless minijax has this algorithm."""
    ours = PRNGImpl(theirs.name, theirs.key_shape, theirs.tag)
    ours.theirs = theirs
    return ours


def is_key(dtype: Any) -> bool:
    """Whether this is the element type of random keys."""
    return type(dtype) is KeyType


def key_type(name: str) -> KeyType:
    """The type with the name ``key<fry>``. ValueError if no implementation has that tag."""
    for impl in PRNGImpl.known.values():
        if impl.dtype.name == name:
            return impl.dtype
    names = ", ".join(impl.dtype.name for impl in PRNGImpl.known.values())
    raise ValueError(f"{name!r} is not the name of a key type; known are {names}")


def storage(dtype: Any) -> np.dtype:
    """The NumPy dtype of values of ``dtype`` on the host: ``dtype`` itself, except for keys."""
    return dtype.storage if type(dtype) is KeyType else dtype


def words_of(value: Any, dtype: KeyType) -> np.ndarray:
    """The physical array of keys stored as ``value``: ``uint32``, with a key's words along the last dimensions."""
    keys = np.ascontiguousarray(value)
    return keys.reshape(-1).view(WORD).reshape(np.shape(value) + dtype.impl.key_shape)


def keys_of(words: Any, dtype: KeyType) -> np.ndarray:
    """The stored form of keys whose physical array is ``words``: the inverse of ``words_of``; a view if possible."""
    shape = words.shape[: words.ndim - len(dtype.impl.key_shape)]
    flat = np.ascontiguousarray(words, WORD).reshape(-1)
    return flat.view(dtype.storage).reshape(shape)
