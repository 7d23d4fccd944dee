"""Random bits from keys: ``random_seed``, ``random_split``, ``random_fold_in``, ``random_bits``, ``random_clone``.

The functions of a key's implementation (``PRNG``) compute on its words. Evaluation runs them in NumPy; lowering writes
them as a function of the module. Results equal JAX's bit for bit. Implementations borrowed from JAX are not here: their
primitives are borrowed too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.keys import RBG, THREEFRY, WORD, KeyType, PRNGImpl, is_key, keys_of, words_of
from minijax.core.lists import safe_zip
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.rules import Rule, Shape
from minijax.core.structural import full
from minijax.interpreters.evaluate import by_type
from minijax.interpreters.program import program
from minijax.ir.pretty import parse_rules
from minijax.lowering.lower import lowers_keys
from minijax.ops.convert import convert
from minijax.ops.declare import axis_stays, declare, operand_lower, same_aval, unchanged
from minijax.ops.elementwise import and_p, or_p, shift_left_p, shift_right_logical_p, xor_p
from minijax.ops.nary import ZERO, broadcast_shape, nary_batching
from minijax.ops.programs import Program, call_program, staged
from minijax.ops.random.keys import impl_read
from minijax.ops.random.threefry import FEW, hash_one, threefry2x32_p
from minijax.ops.shape import iota, reshape, shape_of
from minijax.ops.slicing import concatenate, index_in_dim, stack


class PRNG(NamedTuple):
    """Functions on arrays of words: ``seed(seeds)``, ``split(words, shape)`` and ``fold_in(words, data)`` return words,
    and ``bits(words, width, shape)`` returns unsigned integers. New dimensions come after the operands' dimensions."""

    seed: Rule
    split: Rule
    fold_in: Rule
    bits: Rule | None


def _seed_fry(seeds: Any) -> Any:
    """The 64 bits of an integer as two words, upper word first. The upper word of a 32-bit integer is 0."""
    aval = get_aval(seeds)
    low = seeds
    if aval.dtype.itemsize == 8:
        unsigned = convert(seeds, np.dtype(np.uint64))
        high = convert(shift_right_logical_p.bind(unsigned, np.uint64(32)), WORD)
        low = and_p.bind(unsigned, np.uint64(0xFFFFFFFF))
    else:
        high = full(aval.shape, 0, WORD)
    return stack([high, convert(low, WORD)], len(aval.shape))


def _key_words(words: Any, new: int) -> list[Any]:
    """Both words of Threefry keys, as two arrays with ``new`` further dimensions of size 1 at the end."""
    lead = shape_of(words)[:-1]
    return [reshape(index_in_dim(words, i, len(lead), keepdims=False), (*lead, *[1] * new)) for i in (0, 1)]


def _counted(words: Any, shape: Shape) -> list[Any]:
    """The hashes of the counters 0, 1, 2, ... in an array of ``shape``, for each key."""
    size = math.prod(shape)
    if size > 1 << 32:
        raise NotImplementedError(f"a key cannot give an array of more than 2**32 elements, such as shape {shape}")
    first, second = _key_words(words, len(shape))
    lead = (1,) * (len(shape_of(words)) - 1)
    counts = reshape(iota(WORD, size), (*lead, *shape))
    return threefry2x32_p.bind(first, second, full((1,) * len(shape_of(counts)), 0, WORD), counts)


def _split_fry(words: Any, shape: Shape) -> Any:
    parts = _counted(words, shape)
    return stack(parts, len(shape_of(parts[0])))


def _fold_in_fry(words: Any, data: Any) -> Any:
    first, second = _key_words(words, 0)
    parts = threefry2x32_p.bind(first, second, full((1,) * len(shape_of(data)), 0, WORD), data)
    return stack(parts, len(shape_of(parts[0])))


def _bits_fry(words: Any, width: int, shape: Shape) -> Any:
    high, low = _counted(words, shape)
    dtype = np.dtype(f"uint{width}")
    if width == 64:
        return or_p.bind(shift_left_p.bind(convert(high, dtype), np.uint64(32)), convert(low, dtype))
    return convert(xor_p.bind(high, low), dtype)


def _halves(words: Any) -> tuple[Any, Any]:
    """The four words of rbg keys as the words of two Threefry keys."""
    shape = shape_of(words)
    pairs = reshape(words, (*shape[:-1], 2, 2))
    return tuple(index_in_dim(pairs, i, len(shape) - 1, keepdims=False) for i in (0, 1))  # type: ignore[return-value]


def _of_halves(compute: Callable[..., Any]) -> Rule:
    """Make a function that applies ``compute`` to both halves of keys and joins the results."""

    def each(words: Any, *args: Any) -> Any:
        parts = [compute(half, *args) for half in _halves(words)]
        return concatenate(parts, len(shape_of(parts[0])) - 1)

    return each


def _seed_rbg(seeds: Any) -> Any:
    half = _seed_fry(seeds)
    return concatenate([half, half], len(shape_of(half)) - 1)


IMPLEMENTATIONS: dict[PRNGImpl, PRNG] = {
    THREEFRY: PRNG(_seed_fry, _split_fry, _fold_in_fry, _bits_fry),
    # no function ``bits``: XLA's own generator computes them, as in JAX
    RBG: PRNG(_seed_rbg, _of_halves(_split_fry), _of_halves(_fold_in_fry), None),
}


def _implementation(name: str, impl: PRNGImpl, bits: bool = False) -> PRNG:
    found = IMPLEMENTATIONS.get(impl)
    if found is None or (bits and found.bits is None):
        raise NotImplementedError(f"{name} of {impl.dtype.name} is borrowed from JAX: call minijax.random's functions")
    return found


def implementation_of(name: str, keys: ShapedArray) -> PRNGImpl:
    """The implementation of ``keys``, operand of the primitive ``name``. TypeError if they are not keys."""
    if not is_key(keys.dtype):
        raise TypeError(f"{name} takes random keys, got {keys.str_short()}. random.key(seed) makes one.")
    return keys.dtype.impl


def _seed_abstract(seeds: ShapedArray, *, impl: PRNGImpl) -> ShapedArray:
    _implementation("random_seed", impl)
    if dtypes.kind(seeds.dtype) not in "biu":
        raise TypeError(f"PRNG key seed must be an integer; got {seeds.str_short()}")
    return ShapedArray(seeds.shape, impl.dtype)


def _seed(seeds: Any, impl: PRNGImpl) -> list[Any]:
    return [IMPLEMENTATIONS[impl].seed(seeds)]


def _split_abstract(keys: ShapedArray, *, shape: Shape) -> ShapedArray:
    _implementation("random_split", implementation_of("random_split", keys))
    return ShapedArray(keys.shape + shape, keys.dtype)


def _split(words: Any, impl: PRNGImpl, shape: Shape) -> list[Any]:
    return [IMPLEMENTATIONS[impl].split(words, shape)]


def _fold_in_abstract(keys: ShapedArray, data: ShapedArray) -> ShapedArray:
    _implementation("random_fold_in", implementation_of("random_fold_in", keys))
    if data.dtype != WORD:
        raise TypeError(f"random_fold_in takes data of type uint32, got {data.str_short()}")
    return ShapedArray(broadcast_shape("random_fold_in", [keys.shape, data.shape]), keys.dtype)


def _fold_in(words: Any, data: Any, impl: PRNGImpl) -> list[Any]:
    return [IMPLEMENTATIONS[impl].fold_in(words, data)]


def _bits_abstract(keys: ShapedArray, *, bit_width: int, shape: Shape) -> ShapedArray:
    _implementation("random_bits", implementation_of("random_bits", keys), bits=True)
    if bit_width not in (8, 16, 32, 64):
        raise TypeError(f"random_bits requires 8-, 16-, 32- or 64-bit field width, got {bit_width}.")
    return ShapedArray(keys.shape + shape, np.dtype(f"uint{bit_width}"))


def _bits(words: Any, impl: PRNGImpl, width: int, shape: Shape) -> list[Any]:
    return [IMPLEMENTATIONS[impl].bits(words, width, shape)]  # type: ignore[misc]


@functools.lru_cache(maxsize=1024)
def _with(function: Rule, **params: Any) -> Program:
    """``function`` with these parameters. The result is cached, because its staged program is cached with it."""
    return functools.partial(function, **params)


def _seed_program(seeds: Any, *, impl: PRNGImpl) -> Program:
    return _with(_seed, impl=impl)


def _split_program(keys: Any, *, shape: Shape) -> Program:
    return _with(_split, impl=keys.dtype.impl, shape=shape)


def _fold_in_program(keys: Any, data: Any) -> Program:
    return _with(_fold_in, impl=keys.dtype.impl)


def _bits_program(keys: Any, *, bit_width: int, shape: Shape) -> Program:
    return _with(_bits, impl=keys.dtype.impl, width=bit_width, shape=shape)


def _split_few(keys: Any, *, shape: Shape) -> Rule | None:
    """A fast function that splits one Threefry key into a few keys, as half of all random calls do. Otherwise None."""
    count = math.prod(shape)
    if keys.shape or keys.dtype is not THREEFRY.dtype or count > FEW:
        return None
    dtype = keys.dtype

    def split(value: Any) -> Any:
        first, second = words_of(value, dtype).tolist()
        hashed = [hash_one(first, second, 0, i) for i in range(count)]
        return np.array(hashed, WORD).reshape(-1).view(dtype.storage).reshape(shape)

    return split


def _evaluated(compute: Program, avals: Sequence[Any], out: KeyType | None) -> Rule:
    """``compute`` on NumPy values, with keys stored as in ``core.keys``. ``out``: the result's key type, or None."""
    run = program(staged(compute, tuple(avals))).function
    kinds = [aval.dtype if is_key(aval.dtype) else None for aval in avals]

    def evaluate(*values: Any) -> Any:
        words = [np.asarray(v) if kind is None else words_of(v, kind) for v, kind in safe_zip(values, kinds)]
        (result,) = run(*words)
        return result if out is None else keys_of(result, out)

    return evaluate


def _declare(
    name: str,
    abstract: Any,
    compute: Callable[..., Program],
    batch: Any = None,
    few: Callable[..., Rule | None] | None = None,
) -> Primitive:
    """A primitive that applies ``compute(*avals, **params)`` to its operands' words. ``few`` may give a faster rule."""
    p = Primitive(name)

    def random_numpy(*avals: Any, **params: Any) -> Rule:
        out = p.abstract_eval(*avals, **params).dtype
        quick = few(*avals, **params) if few is not None else None
        if quick is not None:
            return quick
        return _evaluated(compute(*avals, **params), avals, out if is_key(out) else None)

    def random_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, **params: Any) -> str:
        return call_program(ctx, compute(*avals, **params), avals, names)[0]

    lowers_keys.add(p)
    return declare(
        p,
        abstract=abstract,
        numpy=by_type(random_numpy),
        lower=random_lower,
        batch=batch(p) if batch is not None else axis_stays(p),
        derivative=ZERO,
        takes_keys=True,
    )


random_seed_p = _declare("random_seed", _seed_abstract, _seed_program)
random_split_p = _declare("random_split", _split_abstract, _split_program, few=_split_few)
random_fold_in_p = _declare("random_fold_in", _fold_in_abstract, _fold_in_program, nary_batching)
random_bits_p = _declare("random_bits", _bits_abstract, _bits_program)
parse_rules[random_seed_p] = impl_read

random_clone_p = declare(
    "random_clone", abstract=same_aval, numpy=unchanged, lower=operand_lower, derivative=ZERO, takes_keys=True
)
