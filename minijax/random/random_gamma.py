"""The primitive ``random_gamma``: numbers with the density of the gamma distribution, from keys.

It is a program of the functions of this package, and so stands here and not in ``minijax.ops``: compiled when
evaluated, a function of the module when it is part of one. The algorithm is that of G. Marsaglia and W. Tsang, "A
simple method for generating gamma variables" (2000), whose letters these are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from minijax import lax
from minijax.api import jit, vmap
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.keys import THREEFRY
from minijax.core.primitive import Primitive
from minijax.core.structural import Zero, zero_tangent
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import batching_rules, bdim_at_front
from minijax.lowering.lower import lowering_rules, lowers_keys
from minijax.ops.programs import call_program
from minijax.ops.random.bits import implementation_of
from minijax.ops.random.keys import random_wrap_p
from minijax.random.arguments import constant, two_keys
from minijax.random.basic import normal, uniform
from minijax.random.keys import split

random_gamma_p = Primitive("random_gamma")
random_gamma_p.refuses_keys = False


@random_gamma_p.def_abstract_eval
def _gamma_abstract(keys: ShapedArray, a: ShapedArray, *, log_space: bool) -> ShapedArray:
    implementation_of("random_gamma", keys)
    if not dtypes.is_float(a.dtype) or a.shape[: keys.ndim] != keys.shape:
        raise TypeError(
            "random_gamma takes keys, and floating-point numbers whose first dimensions are those of the keys, got "
            f"{keys.str_short()} and {a.str_short()}. Call random.gamma or random.loggamma."
        )
    return ShapedArray(a.shape, a.dtype)


# -------------------------------------------------------------------------------- the program


def _samples(keys: Any, a: Any, log_space: bool) -> Any:
    """A number for each element of ``a``, each with a key of its own."""
    aval, count = get_aval(a), get_aval(keys).ndim
    each = split_each(keys, math.prod(aval.shape[count:]))
    flat = lax.reshape(a, (aval.size,))
    one = functools.partial(_one, log_space=log_space)
    each = lax.reshape(each, (aval.size,))
    if keys.dtype is THREEFRY.dtype:
        found = vmap(one)(each, flat)
    else:  # XLA's generators draw other bits for many keys at once
        found = lax.map(lambda pair: one(*pair), (each, flat))
    return lax.reshape(found, aval.shape)


def split_each(keys: Any, count: int) -> Any:
    """``count`` keys made of each of ``keys``, along a new last axis."""
    divide: Callable[..., Any] = functools.partial(split, num=count)
    for _ in range(get_aval(keys).ndim):
        divide = vmap(divide)
    return divide(keys)


def _one(key: Any, a: Any, log_space: bool) -> Any:
    dtype = get_aval(a).dtype
    # the algorithm is for a >= 1: below, a number is drawn for a + 1, and then made smaller
    large = a >= 1
    shifted = lax.select(large, a, a + 1)
    third = constant(1 / 3, dtype)
    d = shifted - third
    c = lax.div(third, lax.sqrt(d))
    key, smaller = two_keys(key)
    v = _cube(key, d, c)
    if log_space:
        log_level = lax.log1p(lax.neg(uniform(smaller, (), dtype)))
        nothing = large | (log_level == 0)
        less = lax.select(nothing, lax.full_like(a, 0), log_level * (1 / a))
        return lax.log(d) + lax.log(v) + less
    level = 1 - uniform(smaller, (), dtype)
    return d * v * lax.select(large, lax.full_like(a, 1), level ** (1 / a))


def _cube(key: Any, d: Any, c: Any) -> Any:
    """The third power of 1 + cx, with x normal and accepted by its density."""
    dtype = get_aval(d).dtype
    zero, one, minus_one, two = (constant(x, dtype) for x in (0, 1, -1, 2))

    def refused(carry: Any) -> Any:
        _, x2, v, u = carry
        at_once = u >= 1 - 0.0331 * (x2 * x2)
        return at_once & (lax.log(u) >= x2 * 0.5 + d * (1 - v + lax.log(v)))

    def positive(carry: Any) -> Any:
        key, _, _ = carry
        key, subkey = two_keys(key)
        x = normal(subkey, (), dtype)
        return key, x, 1 + x * c

    def attempt(carry: Any) -> Any:
        key, first, second = split(carry[0], 3)
        _, x, v = lax.while_loop(lambda found: found[2] <= 0, positive, (first, zero, minus_one))
        return key, x * x, v * v * v, uniform(second, (), dtype)

    return lax.while_loop(refused, attempt, (key, zero, one, two))[2]


# -------------------------------------------------------------------------------- rules

_compiled = jit(_samples, static_argnames="log_space")


@random_gamma_p.def_impl
def gamma_impl(keys: Any, a: Any, *, log_space: bool) -> Any:
    return _compiled(keys, a, log_space=log_space)


@functools.lru_cache(maxsize=256)
def _gamma_program(impl: Any, log_space: bool) -> Callable[..., Any]:
    """What ``random_gamma`` is of the words of keys."""

    def gamma(words: Any, a: Any) -> list[Any]:
        return [_samples(random_wrap_p.bind(words, impl=impl), a, log_space)]

    return gamma


def _gamma_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, log_space: bool) -> str:
    return call_program(ctx, _gamma_program(avals[0].dtype.impl, log_space), avals, names)[0]


def _gamma_batch(args: Sequence[Any], dims: Sequence[int | None], *, log_space: bool) -> Any:
    size = next(get_aval(x).shape[dim] for x, dim in zip(args, dims, strict=True) if dim is not None)
    keys, a = (bdim_at_front(x, dim, size) for x, dim in zip(args, dims, strict=True))
    return random_gamma_p.bind(keys, a, log_space=log_space), 0


def _gamma_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, log_space: bool) -> Any:
    """By the derivative of the inverse distribution function, at the level that was drawn."""
    (keys, a), (_, t) = primals, tangents
    out = random_gamma_p.bind(keys, a, log_space=log_space)
    if type(t) is Zero:
        return out, zero_tangent(out)
    shape, size = get_aval(a).shape, (get_aval(a).size,)
    found, flat_a = lax.reshape(out, size), lax.reshape(a, size)
    if log_space:
        found = lax.exp(found)
        tiny = lax.full_like(found, dtypes.finfo(get_aval(found).dtype).tiny)
        found = lax.select(found == 0, tiny, found)

    def derivative(at: Any) -> Any:
        by_a = lax.random_gamma_grad(*at)
        return by_a / at[1] if log_space else by_a

    factor = lax.map(derivative, (flat_a, found))
    return out, lax.mul(t, lax.reshape(factor, shape))


lowering_rules[random_gamma_p] = _gamma_lower
lowers_keys.add(random_gamma_p)
batching_rules[random_gamma_p] = _gamma_batch
jvp_rules[random_gamma_p] = _gamma_jvp
transpose_rules.holes[random_gamma_p] = "not linear"
