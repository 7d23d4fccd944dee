"""``minijax.extend.random``: implementations of random keys, and how to add one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax import numpy as jnp
from minijax.api import vmap
from minijax.core.keys import RBG, THREEFRY, PRNGImpl
from minijax.ops.random.bits import IMPLEMENTATIONS, PRNG, random_seed_p
from minijax.ops.random.threefry import threefry2x32_p

__all__ = [
    "define_prng_impl",
    "random_seed",
    "rbg_prng_impl",
    "seed_with_impl",
    "threefry2x32_p",
    "threefry_2x32",
    "threefry_prng_impl",
]

threefry_prng_impl, rbg_prng_impl = THREEFRY, RBG


def random_seed(seeds: Any, impl: PRNGImpl) -> Any:
    """Make keys of ``impl`` from integers: one key for each integer."""
    return random_seed_p.bind(jnp.asarray(np.int64(seeds) if isinstance(seeds, int) else seeds), impl=impl)


def seed_with_impl(impl: PRNGImpl, seed: Any) -> Any:
    """Make a key of ``impl`` from the integer ``seed``."""
    return random_seed(seed, impl)


def threefry_2x32(keypair: tuple[Any, Any], count: Any) -> Any:
    """Hash ``count`` with a key's two words, in pairs: a word of each half of ``count``. TypeError unless uint32."""
    count = jnp.asarray(count)
    if count.dtype != np.uint32 or any(jnp.asarray(k).dtype != np.uint32 for k in keypair):
        raise TypeError(f"threefry_2x32 requires uint32 arguments, got {[x.dtype for x in (*keypair, count)]}.")
    flat = count.ravel()
    odd = flat.size % 2
    padded = jnp.concatenate([flat, np.zeros(1, np.uint32)]) if odd else flat
    first, second = padded.reshape(2, -1)
    hashed = jnp.concatenate(threefry2x32_p.bind(*keypair, first, second))
    return (hashed[:-1] if odd else hashed).reshape(count.shape)


def define_prng_impl(
    *,
    key_shape: Sequence[int],
    seed: Callable[[Any], Any],
    split: Callable[[Any, tuple[int, ...]], Any],
    random_bits: Callable[[Any, int, tuple[int, ...]], Any],
    fold_in: Callable[[Any, Any], Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> PRNGImpl:
    """Register an implementation of random bits, for ``random.key(seed, impl=...)``.

    Args:
      key_shape: the shape of a key's array of uint32.
      seed: ``seed(integer) -> key``.
      split: ``split(key, shape) -> array of keys``.
      random_bits: ``random_bits(key, width, shape) -> unsigned integers``.
      fold_in: ``fold_in(key, integer) -> key``.
      name, tag: the implementation's name, and the printed type of its keys.
    """
    impl = PRNGImpl.made(name, key_shape, tag)
    depth = len(impl.key_shape)

    def each(fun: Callable[..., Any], operands: Sequence[Any], dims: int) -> Any:
        """Map ``fun`` over the ``dims`` leading dimensions of the keys or seeds in ``operands``."""
        for _ in range(dims):
            fun = vmap(fun)
        return fun(*operands)

    IMPLEMENTATIONS[impl] = PRNG(
        seed=lambda seeds: each(seed, [seeds], jnp.ndim(seeds)),
        split=lambda words, shape: each(lambda w: split(w, shape), [words], words.ndim - depth),
        fold_in=lambda words, data: each(fold_in, [words, data], words.ndim - depth),
        bits=lambda words, width, shape: each(lambda w: random_bits(w, width, shape), [words], words.ndim - depth),
    )
    return impl
