"""Lowers a ``scan`` to a counted ``while``: each round reads slices of the xs and writes slices of the ys.

In: the names and types of a scan's operands. Out: the names of its results. See ``ops.scan``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.avals import Avals, ShapedArray, physical_aval
from minijax.core.lists import safe_zip, split_list
from minijax.core.rules import Names
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.lowering.lower import lower_inline
from minijax.lowering.regions import region_text
from minijax.lowering.text import dims_text, mlir_type
from minijax.ops.shape import reshape_text
from minijax.ops.slicing import concatenate_text, slice_text


def slice_aval(aval: ShapedArray) -> ShapedArray:
    """The type of one slice of an array or a reference along the leading axis."""
    return aval.part(0)


def scan_lower(
    ctx: Any,
    avals: Avals,
    out_avals: Avals,
    *names: str,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    unroll: int,
    num_consts: int,
    num_carry: int,
) -> list[str]:
    """Write a counted ``while``: each round runs ``unroll`` steps on a block of the xs and writes a block of the ys.
    The remaining steps follow without a loop. If one round has all steps and ``unroll`` is not 1, there is no loop."""
    consts, carry, xs = split_list(names, num_consts, num_carry)
    rounds, rest = divmod(length, unroll) if unroll else (0, length)
    if unroll != 1 and rounds == 1 and not rest:
        rounds, rest = 0, length
    xs_avals, ys_avals = avals[num_consts + num_carry :], out_avals[num_carry:]
    steps = _StepWriter(jaxpr, consts, num_carry, reverse)
    if unroll == 1:
        carry, ys = _loop_text(ctx, steps, rounds, carry, xs, xs_avals, [ctx.full(0, a) for a in ys_avals], ys_avals)
        return [*carry, *ys]
    left: Names = ()
    if rest:
        cut = rest if reverse else length - rest
        pairs = list(safe_zip(xs, xs_avals))
        first = [_cut_text(ctx, x, a, 0, cut) for x, a in pairs]
        second = [_cut_text(ctx, x, a, cut, length) for x, a in pairs]
        left, xs = (first, second) if reverse else (second, first)
    whole = rounds * unroll
    done_avals = [_leading(a, whole) for a in ys_avals]
    if rounds:
        blocks = [_leading(a, rounds, unroll) for a in xs_avals]
        xs = [reshape_text(ctx, x, _leading(a, whole), b.shape) for x, a, b in safe_zip(xs, xs_avals, blocks)]
        sums = [_leading(a, rounds, unroll) for a in ys_avals]
        carry, ys = _loop_text(ctx, steps, rounds, carry, xs, blocks, [ctx.full(0, a) for a in sums], sums, unroll)
        ys = [reshape_text(ctx, y, a, done.shape) for y, a, done in safe_zip(ys, sums, done_avals)]
    else:
        ys = [ctx.full(0, a) for a in done_avals]
    if rest:
        now, last = steps.several(ctx, rest, carry, left, [_leading(a, rest) for a in xs_avals])
        carry = list(now)
        parts = [[(y, whole), (z, rest)][:: -1 if reverse else 1] for y, z in safe_zip(ys, last)]
        ys = [_joined_text(ctx, part, a) for part, a in safe_zip(parts, ys_avals)]
    return [*carry, *ys]


def _loop_text(
    ctx: Any,
    steps: _StepWriter,
    rounds: int,
    carry: Names,
    xs: Names,
    xs_avals: Avals,
    ys: Names,
    ys_avals: Avals,
    unroll: int = 1,
) -> tuple[list[str], list[str]]:
    """Write the loop. Each round reads slices of the xs and writes slices of the ys. Return the carry and the ys."""
    if not rounds:
        return list(carry), list(ys)
    counter = ShapedArray((), np.dtype(np.int32))
    types = [mlir_type(a) for a in (counter, *steps.closed.out_avals[: len(carry)], *ys_avals)]

    def test(inner: Any, i: str, *state: str) -> list[str]:
        last = inner.scalar(rounds, counter.dtype)
        return [inner.emit(f"stablehlo.compare LT, {i}, {last}, SIGNED : ({types[0]}, {types[0]}) -> tensor<i1>")]

    def body(inner: Any, i: str, *state: str) -> list[str]:
        at, one, zero = i, inner.scalar(1, counter.dtype), inner.scalar(0, counter.dtype)
        if steps.reverse:
            at = inner.emit(f"stablehlo.subtract {inner.scalar(rounds, counter.dtype)}, {i} : {types[0]}")
            at = inner.emit(f"stablehlo.subtract {at}, {one} : {types[0]}")
        slices = [_slice_text(inner, x, a, at, zero) for x, a in safe_zip(xs, xs_avals)]
        now: Names = state[: len(carry)]
        if unroll == 1:
            now, new = steps.one(inner, now, slices)
        else:
            now, new = steps.several(inner, unroll, now, slices, list(map(slice_aval, xs_avals)))
        rows = safe_zip(state[len(carry) :], new, ys_avals)
        updated = [_update_text(inner, y, row, a, at, zero) for y, row, a in rows]
        return [inner.emit(f"stablehlo.add {i}, {one} : {types[0]}"), *now, *updated]

    init = [ctx.scalar(0, counter.dtype), *carry, *ys]
    regions = [region_text(ctx, types, test, ["tensor<i1>"]), region_text(ctx, types, body, types)]
    both = ", ".join(region[1:-1] for region in regions)
    listed = ", ".join(types)
    op = f'"stablehlo.while"({", ".join(init)}) ({both}) : ({listed}) -> ({listed})'
    outs = ctx.emit_many(op, len(types))
    return outs[1 : 1 + len(carry)], outs[1 + len(carry) :]


class _StepWriter:
    """Writes steps of the loop: the body on the constants, the carry and slices of the xs."""

    __slots__ = ("closed", "consts", "num_carry", "reverse")

    def __init__(self, closed: ClosedJaxpr, consts: Names, num_carry: int, reverse: bool) -> None:
        self.closed = closed
        self.consts = consts
        self.num_carry = num_carry
        self.reverse = reverse

    def one(self, ctx: Any, carry: Names, xs: Names) -> tuple[Names, Names]:
        """Write one step, inlined. Return the names of the carry and the ys."""
        closed = self.closed
        outs = lower_inline(ctx, closed, [*self.consts, *carry, *xs])
        return outs[: self.num_carry], outs[self.num_carry :]

    def several(self, ctx: Any, n: int, carry: Names, xs: Names, avals: Avals) -> tuple[Names, Names]:
        """Write ``n`` steps on xs of length ``n``, each a call of the body. Return the carry and the stacked ys."""
        closed = self.closed
        symbol = ctx.module.function(closed, "scan_body")
        ys: list[Names] = []
        for k in reversed(range(n)) if self.reverse else range(n):
            rows = [_cut_text(ctx, x, a, k, k + 1) for x, a in safe_zip(xs, avals)]
            row = [reshape_text(ctx, r, _leading(a, 1), a.shape[1:]) for r, a in safe_zip(rows, avals)]
            made = ctx.call(symbol, [*self.consts, *carry, *row], closed.in_avals, closed.out_avals)
            carry = made[: self.num_carry]
            ys.append(made[self.num_carry :])
        ordered = ys[:: -1 if self.reverse else 1]
        return carry, [
            _stacked_text(ctx, [step[i] for step in ordered], aval)
            for i, aval in enumerate(map(physical_aval, closed.out_avals[self.num_carry :]))
        ]


def _leading(aval: ShapedArray, *sizes: int) -> ShapedArray:
    """``aval`` with its leading axis replaced by ``sizes``."""
    return ShapedArray((*sizes, *aval.shape[1:]), aval.dtype)


def _cut_text(ctx: Any, x: str, aval: ShapedArray, start: int, stop: int) -> str:
    """Write a slice of ``x``: the rows from ``start`` up to ``stop``."""
    out = _leading(aval, stop - start)
    return slice_text(ctx, x, aval, out, [start, *[0] * (aval.ndim - 1)], [stop, *aval.shape[1:]])


def _stacked_text(ctx: Any, rows: Names, aval: ShapedArray) -> str:
    """Stack ``rows``, each of type ``aval``."""
    one = ShapedArray((1, *aval.shape), aval.dtype)
    return _joined_text(ctx, [(ctx.broadcast(r, aval, one.shape, range(1, one.ndim)), 1) for r in rows], one)


def _joined_text(ctx: Any, parts: Sequence[tuple[str, int]], aval: ShapedArray) -> str:
    """Concatenate ``parts``, pairs of name and length. ``aval`` is their type, except for the length."""
    total = _leading(aval, sum(n for _, n in parts))
    return concatenate_text(ctx, [x for x, _ in parts], [_leading(aval, n) for _, n in parts], total, 0)


def _starts(aval: ShapedArray, at: str, zero: str) -> tuple[str, str]:
    return ", ".join([at] + [zero] * (aval.ndim - 1)), ", ".join(["tensor<i32>"] * aval.ndim)


def _slice_text(ctx: Any, x: str, aval: ShapedArray, at: str, zero: str) -> str:
    """Write slice number ``at`` of ``x``, of type ``aval``, without its leading axis."""
    starts, types = _starts(aval, at, zero)
    one = ShapedArray((1, *aval.shape[1:]), aval.dtype)
    sliced = ctx.emit(
        f"stablehlo.dynamic_slice {x}, {starts}, sizes = {dims_text(one.shape)} : "
        f"({mlir_type(aval)}, {types}) -> {mlir_type(one)}"
    )
    return reshape_text(ctx, sliced, one, slice_aval(aval).shape)


def _update_text(ctx: Any, y: str, new: str, aval: ShapedArray, at: str, zero: str) -> str:
    """Write ``y``, of type ``aval``, with slice number ``at`` along the leading axis replaced by ``new``."""
    starts, types = _starts(aval, at, zero)
    one = ShapedArray((1, *aval.shape[1:]), aval.dtype)
    row = ctx.broadcast(new, slice_aval(aval), one.shape, range(1, aval.ndim))
    return ctx.emit(
        f"stablehlo.dynamic_update_slice {y}, {row}, {starts} : "
        f"({mlir_type(aval)}, {mlir_type(one)}, {types}) -> {mlir_type(aval)}"
    )
