"""Random keys, and functions that draw bits with them. Arrays of keys have their own element type, ``key<fry>``."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.config import default_prng, x64_enabled
from minijax.core import dtypes, lazy
from minijax.core.array import is_foreign
from minijax.core.avals import AnyArray
from minijax.core.borrowing import borrow
from minijax.core.keys import THREEFRY, KeyType, PRNGImpl, is_key
from minijax.numpy.creation import asarray
from minijax.numpy.promotion import OPERANDS
from minijax.ops.random.bits import (
    IMPLEMENTATIONS,
    random_bits_p,
    random_clone_p,
    random_fold_in_p,
    random_seed_p,
    random_split_p,
)
from minijax.ops.random.keys import random_unwrap_p, random_wrap_p
from minijax.ops.shape import canonical_shape

# Arguments of samplers that are never arrays. Of the other arguments, Python numbers are resharded too, as in JAX.
_STATIC = ("shape", "dtype", "axis", "independent", "replace")


def sampler(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument ``out_sharding`` to a sampler: the sharding of the result.

    The compiler chooses how the values inside the sampler are sharded.
    """
    signature = inspect.signature(fun)
    name = fun.__name__

    @functools.wraps(fun)
    def sample(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        if out_sharding is None:
            return fun(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {k: x for k, x in bound.arguments.items() if k not in _STATIC and not isinstance(x, (str, type(None)))}
        if type(given.get("x")) is int:  # the length of a permutation
            del given["x"]
        known = {k: x for k, x in bound.arguments.items() if k not in given}

        def run(*arrays: Any) -> Any:
            return fun(**dict(zip(given, arrays, strict=True)), **known)

        within = lazy.public("minijax.api.explicit", "left_to_compiler")
        return within(name, out_sharding, run, *given.values())

    keyword = inspect.Parameter("out_sharding", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
    found: Any = sample
    found.__signature__ = signature.replace(parameters=[*signature.parameters.values(), keyword])
    return sample


__all__ = [
    "PRNGKey",
    "bits",
    "clone",
    "fold_in",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "split",
    "wrap_key_data",
]

_MODULE = "minijax.random"


def _implementation(spec: Any) -> PRNGImpl:
    """The implementation for ``spec``: a name, a key type or an implementation. None means the default one."""
    if spec is None:
        spec = default_prng()
        if spec == THREEFRY.name:
            return THREEFRY
    if isinstance(spec, PRNGImpl):
        return spec
    if isinstance(spec, KeyType):
        return spec.impl
    if not isinstance(spec, str):
        raise TypeError(
            f"unrecognized type {type(spec)} for specifying PRNG implementation. Give its name, such as 'threefry2x32'."
        )
    for impl in PRNGImpl.known.values():
        if impl.name == spec:
            return impl
    names = ", ".join(f'"{impl.name}"' for impl in PRNGImpl.known.values())
    raise ValueError(f'unrecognized PRNG implementation "{spec}". Did you mean one of: {names}?')


def _chosen(name: str, impl: Any, dtype: Any) -> PRNGImpl:
    """The implementation for the arguments ``impl`` and ``dtype`` of ``name``. ValueError if both are given."""
    if impl is not None and dtype is not None:
        raise ValueError(f"Cannot specify both `impl` and `dtype` arguments to jax.random.{name}")
    return _implementation(dtype if impl is None else impl)


def typed_keys(name: str, key: Any, batched: bool = False) -> tuple[Any, bool]:
    """Convert ``key`` to typed keys. Also return whether it was an array of words, such as ``PRNGKey`` makes.

    ValueError for more than one key unless ``batched``. TypeError if ``key`` is no key.
    """
    if isinstance(key, AnyArray) and is_key(key.dtype):
        keys, raw = key, False
    elif isinstance(key, OPERANDS) or is_foreign(key):
        if not np.ndim(key):
            raise TypeError(
                f"{name} was given invalid PRNG key data: a key of words has at least one axis, but this is a number. "
                "If vmap maps the keys, make an array of keys with random.split."
            )
        keys, raw = random_wrap_p.bind(key, impl=_implementation(None)), True
    else:
        raise TypeError(f"unexpected PRNG key type {type(key)}. {name} takes a key, such as random.key(seed).")
    if keys.ndim and not batched:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {np.shape(key)} != (). "
            "Use jax.vmap for batching."
        )
    return keys, raw


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Make an array of keys from their words, the last dimension of the uint32 array ``key_bits_array``.

    ``impl`` (or ``dtype``): the implementation's name or type, default 'threefry2x32'. TypeError if the words differ.
    """
    return random_wrap_p.bind(key_bits_array, impl=_chosen("wrap_key_data", impl, dtype))


def key_data(keys: Any) -> Any:
    """The words of keys: an array of uint32 with one dimension more than ``keys``."""
    return random_unwrap_p.bind(typed_keys("key_data", keys, batched=True)[0])


def key_dtype(impl_spec: Any = None) -> KeyType:
    """The element type of keys of the implementation ``impl_spec``, by default 'threefry2x32'."""
    return _implementation(impl_spec).dtype


def key_impl(keys: Any) -> str:
    """The name of the keys' implementation."""
    return typed_keys("key_impl", keys, batched=True)[0].dtype.impl.name


def _seeded(name: str, seed: Any, impl: PRNGImpl) -> Any:
    if is_key(getattr(seed, "dtype", None)):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key.")
    if np.ndim(seed):
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape {np.shape(seed)} != (). Use jax.vmap for "
            "batching"
        )
    if isinstance(seed, int):  # a Python integer of more than 32 bits counts modulo 2**32, like a NumPy integer
        seed = np.int64(seed)
    return random_seed_p.bind(asarray(seed), impl=impl)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Make a key from an integer for the implementation ``impl`` (or ``dtype``). TypeError if ``seed`` is no integer.

    ``seed`` is an integer scalar and may be traced. The result has shape () and a key dtype, ``key<fry>`` for the
    default 'threefry2x32'. ValueError for an unknown ``impl``.
    """
    chosen = _chosen("key", impl, dtype)
    if chosen not in IMPLEMENTATIONS:
        return borrow(_MODULE, "key")(seed, impl=chosen.name)
    return _seeded("key", seed, chosen)


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:  # noqa: N802, as JAX names it
    """The words of ``key(seed)`` as an array of uint32. Random functions accept it in place of a key."""
    chosen = _implementation(impl)
    if chosen not in IMPLEMENTATIONS:
        return borrow(_MODULE, "PRNGKey")(seed, impl=chosen.name)
    return random_unwrap_p.bind(_seeded("PRNGKey", seed, chosen))


def _as_given(keys: Any, raw: bool) -> Any:
    """Return ``keys``, as words if the user passed words (``raw``)."""
    return random_unwrap_p.bind(keys) if raw else keys


def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """Make ``num`` new keys from one: an array of that size or shape.

    The result is an array of keys of the type of ``key``; a ``PRNGKey`` gives uint32 words of shape (num, 2). Do not
    use ``key`` again. ValueError for an array of keys (``vmap`` over it), TypeError for a ``key`` that is no key.

    >>> random.split(random.key(0), 3).shape
    (3,)
    """
    keys, raw = typed_keys("split", key)
    if keys.dtype.impl not in IMPLEMENTATIONS:
        return borrow(_MODULE, "split")(key, num)
    shape = tuple(num) if isinstance(num, Sequence) else (num,)
    return _as_given(random_split_p.bind(keys, shape=tuple(map(operator.index, shape))), raw)


def fold_in(key: Any, data: Any) -> Any:
    """Make a new key from ``key`` and the 32-bit unsigned integer ``data``.

    ``data`` is a scalar that may be traced, such as the step of a loop. Equal keys and data give equal results. The
    result has the type of ``key``. OverflowError for a negative or larger Python integer, TypeError for an array.
    """
    keys, raw = typed_keys("fold_in", key)
    if keys.dtype.impl not in IMPLEMENTATIONS:
        return borrow(_MODULE, "fold_in")(key, data)
    if np.ndim(data):
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {np.shape(data)} != (). Use jax.vmap for "
            "batching."
        )
    return _as_given(random_fold_in_p.bind(keys, asarray(data, np.uint32)), raw)


@sampler
def bits(key: Any, shape: Sequence[int] = (), dtype: Any = None) -> Any:
    """Random bits: unsigned integers of ``dtype`` (default uint32, with x64 uint64). ValueError for another type."""
    keys, _ = typed_keys("bits", key)
    default = np.dtype(np.uint64 if x64_enabled() else np.uint32)
    chosen = default if dtype is None else dtypes.check_user_dtype(dtype, "bits", x64_enabled())
    if not dtypes.is_unsigned(chosen):
        raise ValueError(f"dtype argument to `bits` must be an unsigned int dtype, got {dtypes.as_dtype(dtype)}")
    implementation = IMPLEMENTATIONS.get(keys.dtype.impl)
    if implementation is None or implementation.bits is None:
        return borrow(_MODULE, "bits")(key, shape, dtype)
    return random_bits_p.bind(keys, bit_width=8 * chosen.itemsize, shape=canonical_shape(shape))


def clone(key: Any) -> Any:
    """A copy of ``key`` that the check for reused keys treats as another key."""
    return random_clone_p.bind(asarray(key))
