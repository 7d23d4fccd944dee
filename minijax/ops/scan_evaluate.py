"""Evaluation and lowering of ``scan``.

Outside ``jit`` a body is interpreted on NumPy the first time, which costs less than compiling it, and compiled once
it has been run often enough that compiling would have paid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.array import Array, as_array
from minijax.core.avals import ShapedArray
from minijax.core.lists import split_list
from minijax.core.trace import check_alive
from minijax.interpreters.program import called_jaxprs, program, program_makers
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from minijax.lowering.lower import lower_eqns, lowering_rules
from minijax.lowering.text import dims_text, mlir_type
from minijax.ops.call import compiled, jit_p
from minijax.ops.regions import region_text
from minijax.ops.scan import scan_abstract, scan_p, slice_aval, stacked_aval
from minijax.ops.shape import reshape_text

called_jaxprs[jit_p] = "jaxpr"

# ---------------------------------------------------------------------------------------------- interpretation


def _looped(
    jaxpr: ClosedJaxpr, length: int, reverse: bool, num_consts: int, num_carry: int, **params: Any
) -> tuple[Callable[..., list[Any]], int]:
    """The scan as a function of NumPy values, and its weight in NumPy calls."""
    body = program(jaxpr)
    first_x = num_consts + num_carry
    n_in = len(jaxpr.in_avals)
    carry_out, ys_out = body.outputs[:num_carry], body.outputs[num_carry:]
    ys_avals = [stacked_aval(a, length) for a in jaxpr.out_avals[num_carry:]]
    steps = body.steps

    def run(*values: Any) -> list[Any]:
        frame = body.frame()
        frame[:first_x] = values[:first_x]
        xs = list(zip(range(first_x, n_in), map(np.asarray, values[first_x:]), strict=True))
        ys = [np.empty(a.shape, a.dtype) for a in ys_avals]
        written = list(zip(ys, ys_out, strict=True))
        for i in reversed(range(length)) if reverse else range(length):
            for slot, x in xs:
                frame[slot] = x[i]
            for step in steps:
                step(frame)
            for y, slot in written:
                y[i] = frame[slot]
            frame[num_consts:first_x] = [frame[slot] for slot in carry_out]
        return [*frame[num_consts:first_x], *ys]

    return run, length * (body.weight + n_in - first_x + len(ys_out)) + 1


program_makers[scan_p] = _looped

# Compiling a loop takes as long as this many NumPy calls (about 50 ms): beyond that it is compiled at once.
COMPILED_AT_ONCE = 100_000
# A loop that is run again is compiled if all of its runs take more than so many NumPy calls together.
COMPILED_AGAIN = 1_000


class _Evaluated:
    """A scan that is evaluated outside ``jit``: the NumPy function at first, then the executable."""

    __slots__ = ("call", "run", "weight", "spent", "executable", "out_avals")

    def __init__(self, in_avals: Sequence[ShapedArray], params: dict[str, Any]) -> None:
        self.out_avals = scan_abstract(*in_avals, **params)
        invars, outvars = list(map(Var, in_avals)), list(map(Var, self.out_avals))
        self.call = ClosedJaxpr(Jaxpr([], invars, outvars, [JaxprEqn(scan_p, invars, params, outvars)], "scan"))
        self.run, self.weight = _looped(**params)
        self.spent = 0
        self.executable: Any = None

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        if self.executable is not None:
            return self.executable(*args)
        limit = COMPILED_AGAIN if self.spent else COMPILED_AT_ONCE
        self.spent += self.weight
        if self.spent > limit:
            self.executable = compiled(self.call, "scan")
            return self.executable(*args)
        values = [x._value() for x in args]
        with np.errstate(all="ignore"):
            outs = self.run(*values)
        return list(map(Array, outs, self.out_avals))


@scan_p.def_impl
def scan_impl(*args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    arrays = [x if type(x) is Array else as_array(check_alive(x)) for x in args]
    avals = tuple([x.aval for x in arrays])
    key = ("scan_evaluated", avals, *params.items())
    evaluated = jaxpr.memo.get(key)
    if evaluated is None:
        evaluated = jaxpr.memo[key] = _Evaluated(avals, {**params, "jaxpr": jaxpr})
    return evaluated(arrays)


# ---------------------------------------------------------------------------------------------- lowering


def scan_lower(
    ctx: Any,
    avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    *names: str,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    unroll: int,
    num_consts: int,
    num_carry: int,
) -> list[str]:
    """A counted ``while`` whose carry is the counter, the carried values and the ys so far.

    ``unroll`` steps are written into one round; the steps that do not make a whole round come after the loop, and so do
    all of them if they are one round.
    """
    consts, carry, xs = split_list(names, num_consts, num_carry)
    xs_avals = list(avals[num_consts + num_carry :])
    ys_avals = list(out_avals[num_carry:])
    ys = [ctx.full(0, a) for a in ys_avals]
    rounds, rest = divmod(length, unroll) if unroll else (0, length)
    if unroll != 1 and rounds == 1 and not rest:
        rounds, rest = 0, length
    writer = _StepWriter(jaxpr, xs_avals, ys_avals, num_carry, inlined=unroll == 1)
    counter = ShapedArray((), np.dtype(np.int32))
    types = [mlir_type(a) for a in (counter, *jaxpr.in_avals[num_consts : num_consts + num_carry], *ys_avals)]

    def test(inner: Any, i: str, *state: str) -> list[str]:
        last = inner.scalar(rounds, counter.dtype)
        return [inner.emit(f"stablehlo.compare LT, {i}, {last}, SIGNED : ({types[0]}, {types[0]}) -> tensor<i1>")]

    def body(inner: Any, i: str, *state: str) -> list[str]:
        now, so_far = list(state[:num_carry]), list(state[num_carry:])
        for k in range(unroll):
            at = _position(inner, i, k, unroll, length, reverse, types[0])
            now, so_far = writer.step(inner, consts, now, xs, so_far, at)
        one = inner.scalar(1, counter.dtype)
        return [inner.emit(f"stablehlo.add {i}, {one} : {types[0]}"), *now, *so_far]

    if rounds:
        init = [ctx.scalar(0, counter.dtype), *carry, *ys]
        regions = [region_text(ctx, types, test, ["tensor<i1>"]), region_text(ctx, types, body, types)]
        both = ", ".join(region[1:-1] for region in regions)
        listed = ", ".join(types)
        op = f'"stablehlo.while"({", ".join(init)}) ({both}) : ({listed}) -> ({listed})'
        outs = ctx.emit_many(op, len(types))
        carry, ys = outs[1 : 1 + num_carry], outs[1 + num_carry :]
    for k in range(length - rest, length):
        at = ctx.scalar(length - 1 - k if reverse else k, counter.dtype)
        carry, ys = writer.step(ctx, consts, carry, xs, ys, at)
    return [*carry, *ys]


def _position(ctx: Any, i: str, k: int, unroll: int, length: int, reverse: bool, ty: str) -> str:
    """The index of step ``k`` of round ``i``."""
    index = i
    if unroll != 1:
        index = ctx.emit(f"stablehlo.multiply {index}, {ctx.scalar(unroll, np.dtype(np.int32))} : {ty}")
    if k:
        index = ctx.emit(f"stablehlo.add {index}, {ctx.scalar(k, np.dtype(np.int32))} : {ty}")
    if reverse:
        index = ctx.emit(f"stablehlo.subtract {ctx.scalar(length - 1, np.dtype(np.int32))}, {index} : {ty}")
    return index


class _StepWriter:
    """Writes one step: slices of the xs, the body, and the update of the ys."""

    __slots__ = ("closed", "xs_avals", "ys_avals", "num_carry", "inlined")

    def __init__(
        self, closed: ClosedJaxpr, xs_avals: Sequence[Any], ys_avals: Sequence[Any], num_carry: int, inlined: bool
    ) -> None:
        self.closed = closed
        self.xs_avals = xs_avals
        self.ys_avals = ys_avals
        self.num_carry = num_carry
        # a body that is written several times becomes a function
        self.inlined = inlined

    def step(
        self, ctx: Any, consts: Sequence[str], carry: Sequence[str], xs: Sequence[str], ys: Sequence[str], at: str
    ) -> tuple[list[str], list[str]]:
        """The carry and the ys after the step at index ``at``."""
        zero = ctx.scalar(0, np.dtype(np.int32))
        slices = [_slice_text(ctx, x, a, at, zero) for x, a in zip(xs, self.xs_avals, strict=True)]
        outs = self._body(ctx, [*consts, *carry, *slices])
        updated = [
            _update_text(ctx, y, new, a, at, zero)
            for y, new, a in zip(ys, outs[self.num_carry :], self.ys_avals, strict=True)
        ]
        return outs[: self.num_carry], updated

    def _body(self, ctx: Any, args: list[str]) -> list[str]:
        closed = self.closed
        if self.inlined:
            consts = [ctx.constant(c, v.aval) for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)]
            return lower_eqns(ctx, closed.jaxpr, consts, args)
        symbol = ctx.module.function(closed, "scan_body")
        ins, outs = ", ".join(map(mlir_type, closed.in_avals)), ", ".join(map(mlir_type, closed.out_avals))
        return ctx.emit_many(f"func.call @{symbol}({', '.join(args)}) : ({ins}) -> ({outs})", len(closed.out_avals))


def _starts(aval: ShapedArray, at: str, zero: str) -> tuple[str, str]:
    return ", ".join([at] + [zero] * (aval.ndim - 1)), ", ".join(["tensor<i32>"] * aval.ndim)


def _slice_text(ctx: Any, x: str, aval: ShapedArray, at: str, zero: str) -> str:
    """Slice ``at`` of ``x``, of type ``aval``, along its leading axis, which is dropped."""
    starts, types = _starts(aval, at, zero)
    one = ShapedArray((1, *aval.shape[1:]), aval.dtype)
    sliced = ctx.emit(
        f"stablehlo.dynamic_slice {x}, {starts}, sizes = {dims_text(one.shape)} : "
        f"({mlir_type(aval)}, {types}) -> {mlir_type(one)}"
    )
    return reshape_text(ctx, sliced, one, slice_aval(aval).shape)


def _update_text(ctx: Any, y: str, new: str, aval: ShapedArray, at: str, zero: str) -> str:
    """``y``, of type ``aval``, with ``new`` as slice ``at`` along its leading axis."""
    starts, types = _starts(aval, at, zero)
    one = ShapedArray((1, *aval.shape[1:]), aval.dtype)
    row = reshape_text(ctx, new, slice_aval(aval), one.shape)
    return ctx.emit(
        f"stablehlo.dynamic_update_slice {y}, {row}, {starts} : "
        f"({mlir_type(aval)}, {mlir_type(one)}, {types}) -> {mlir_type(aval)}"
    )


lowering_rules[scan_p] = scan_lower
