"""Threefry: the primitive ``threefry2x32``, which hashes pairs of words with a key of two words.

The algorithm is by J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.keys import WORD
from minijax.core.rules import Dims, Values
from minijax.core.structural import zero_tangent
from minijax.ops.convert import convert
from minijax.ops.declare import declare
from minijax.ops.elementwise import add_p, lt_p, or_p, shift_left_p, shift_right_logical_p, sub_p, xor_p
from minijax.ops.nary import broadcast_shape, maybe_broadcast, nary_batching
from minijax.ops.programs import call_program, program_of
from minijax.ops.shape import shape_of
from minijax.ops.slicing import index_in_dim
from minijax.ops.while_loop import while_p

add = add_p.bind
xor = xor_p.bind

# The rotations of the rounds, in groups of four; after each group two words of the key are added.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_GROUPS = 5
_PARITY, _MASK = 0x1BD11BDA, 0xFFFFFFFF
# Up to this many numbers are hashed in Python, which takes less time than NumPy's fixed cost.
FEW = 16


def _threefry_abstract(*avals: ShapedArray) -> list[ShapedArray]:
    if any(a.dtype != WORD for a in avals):
        found = ", ".join(a.str_short() for a in avals)
        raise TypeError(f"Arguments to threefry2x32 must have uint32 type, got {found}")
    return [ShapedArray(broadcast_shape("threefry2x32", [a.shape for a in avals]), WORD)] * 2


def _threefry_numpy(*operands: Any) -> list[Any]:
    shape = np.broadcast_shapes(*map(np.shape, operands))
    words = [np.broadcast_to(x, shape) for x in operands]
    if words[0].size > FEW:
        return _hash_many(*words)
    hashed = [hash_one(*row) for row in zip(*[w.ravel().tolist() for w in words], strict=True)]
    parts = np.array(hashed, WORD).reshape(-1, 2)
    return [parts[:, i].reshape(words[0].shape) for i in (0, 1)]


def hash_one(key1: int, key2: int, x: int, y: int) -> tuple[int, int]:
    """The hash of two Python integers. For a few numbers this is faster than NumPy."""
    keys = (key1, key2, key1 ^ key2 ^ _PARITY)
    x, y = (x + key1) & _MASK, (y + key2) & _MASK
    for group in range(_GROUPS):
        for r in _ROTATIONS[group % 2]:
            x = (x + y) & _MASK
            y = ((y << r & _MASK) | y >> 32 - r) ^ x
        x = (x + keys[(group + 1) % 3]) & _MASK
        y = (y + keys[(group + 2) % 3] + group + 1) & _MASK
    return x, y


def _hash_many(key1: Any, key2: Any, x: Any, y: Any) -> list[Any]:
    keys = (key1, key2, key1 ^ key2 ^ np.uint32(_PARITY))
    x, y = x + key1, y + key2
    shifted = np.empty_like(x)
    for group in range(_GROUPS):
        for r in _ROTATIONS[group % 2]:
            np.add(x, y, out=x)
            np.left_shift(y, np.uint32(r), out=shifted)
            np.right_shift(y, np.uint32(32 - r), out=y)
            np.bitwise_or(y, shifted, out=y)
            np.bitwise_xor(y, x, out=y)
        np.add(x, keys[(group + 1) % 3], out=x)
        np.add(y, keys[(group + 2) % 3], out=y)
        np.add(y, np.uint32(group + 1), out=y)
    return [x, y]


def _rotated(x: Any, by: Any) -> Any:
    """The words ``x`` with their bits rotated left, by ``by`` places."""
    back = shift_right_logical_p.bind(x, sub_p.bind(np.uint32(32), by))
    return or_p.bind(shift_left_p.bind(x, by), back)


def _threefry(key1: Any, key2: Any, x1: Any, x2: Any) -> list[Any]:
    """The hash as a loop over groups of rounds: XLA compiles unrolled rounds slowly."""
    wide = broadcast_shape("threefry2x32", [shape_of(k) for k in (key1, key2)])
    keys = [maybe_broadcast(wide, k) for k in (key1, key2, xor(xor(key1, key2), np.uint32(_PARITY)))]
    shape = broadcast_shape("threefry2x32", [shape_of(v) for v in (key1, key2, x1, x2)])
    x, y = (maybe_broadcast(shape, add(v, k)) for v, k in ((x1, keys[0]), (x2, keys[1])))
    state = [np.int32(0), x, y, keys[1], keys[2], keys[0], *(np.array(r, WORD) for r in _ROTATIONS)]
    avals = [get_aval(v) for v in state]
    cond, body = program_of(_more_groups, avals), program_of(_group, avals)
    outs = while_p.bind(*state, cond_jaxpr=cond, cond_nconsts=0, body_jaxpr=body, body_nconsts=0)
    return [outs[1], outs[2]]


def _more_groups(i: Any, *rest: Any) -> list[Any]:
    return [lt_p.bind(i, np.int32(_GROUPS))]


def _group(i: Any, x: Any, y: Any, first: Any, second: Any, third: Any, now: Any, then: Any) -> list[Any]:
    """Four rounds with the rotations ``now``, then two of the three key words are added; the key words take turns."""
    for j in range(len(_ROTATIONS[0])):
        x = add(x, y)
        y = xor(_rotated(y, index_in_dim(now, j, 0, keepdims=False)), x)
    following = add(i, np.int32(1))
    y = add(add(y, second), convert(following, WORD))
    return [following, add(x, first), y, second, third, first, then, now]


def _threefry_lower(ctx: Any, avals: Any, out_avals: Any, *names: str) -> list[str]:
    return call_program(ctx, _threefry, avals, names)


def _threefry_batch(args: Values, dims: Dims) -> Any:
    outs, dim = nary_batching(threefry2x32_p)(args, dims)
    return outs, [dim] * 2


def _threefry_jvp(primals: Values, tangents: Values) -> Any:
    outs = threefry2x32_p.bind(*primals)
    return outs, [zero_tangent(x) for x in outs]


threefry2x32_p = declare(
    "threefry2x32",
    abstract=_threefry_abstract,
    numpy=_threefry_numpy,
    lower=_threefry_lower,
    batch=_threefry_batch,
    jvp=_threefry_jvp,
    multiple_results=True,
)
