"""Elementwise choice: ``select_n``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.primitive import Primitive
from minijax.core.rules import Dims, Values
from minijax.core.structural import UndefinedPrimal, Zero, broadcast, broadcast_in_dim_p, full, moveaxis, zero_of, zeros
from minijax.interpreters.vmap import bdim_at_front, mapped_axis
from minijax.lowering.text import mlir_type
from minijax.ops.declare import all_weak, declare, set_rules
from minijax.ops.nary import check_same_dtypes, eq_p

__all__ = ["select", "select_n", "select_n_p"]


def _select_abstract(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    if not cases:
        raise TypeError("select must have at least one case")
    shape = cases[0].shape
    if any(c.shape != shape for c in cases):
        raise TypeError(f"select cases must have the same shapes, got [{', '.join(str(c.shape) for c in cases)}].")
    if which.shape and which.shape != shape:
        raise TypeError(
            "select `which` must be scalar or have the same shape as cases, "
            f"got `which` shape {which.shape} but case shape {shape}."
        )
    check_same_dtypes("select", cases)
    if dtypes.kind(which.dtype) not in "biu":
        raise TypeError(f"select `which` must be boolean or integer type, got {dtype_name(which.dtype)}.")
    if dtypes.is_bool(which.dtype) and len(cases) > 2:
        raise TypeError("select with boolean `which` cannot have > 2 cases.")
    return ShapedArray(shape, cases[0].dtype, all_weak(cases))


def _select_numpy(which: Any, *cases: Any) -> Any:
    if which.dtype.kind == "b":
        if len(cases) == 1:
            return cases[0]
        if which.ndim == 0:
            return cases[1] if which else cases[0]
        return np.where(which, cases[1], cases[0])
    # an index out of range selects the nearest case, as in XLA
    if which.ndim == 0:
        return cases[max(0, min(int(which), len(cases) - 1))]
    out = cases[0]
    for i, case in enumerate(cases[1:], 1):
        out = np.where(which >= i, case, out)
    return out


def _select_jvp(primals: Values, tangents: Values) -> Any:
    which, *cases = primals
    out = select_n_p.bind(which, *cases)
    moved = tangents[1:]
    example = next((t for t in moved if type(t) is not Zero), None)
    if example is None:
        return out, zero_of(get_aval(out))
    zero = zeros(get_aval(example))
    return out, select_n_p.bind(which, *[zero if type(t) is Zero else t for t in moved])


def _select_transpose(ct: Any, which: Any, *cases: Any) -> Any:
    assert type(which) is not UndefinedPrimal, "select is not linear in its selector"
    if len(cases) == 1:
        return [None, ct]
    zero = zeros(get_aval(ct))
    if dtypes.is_bool(get_aval(which).dtype):
        order = [(zero, ct), (ct, zero)]
        parts = [select(which, *order[i]) if type(c) is UndefinedPrimal else None for i, c in enumerate(cases)]
    else:
        parts = [
            select(eq_p.bind(which, full((), i, get_aval(which).dtype)), ct, zero)
            if type(c) is UndefinedPrimal
            else None
            for i, c in enumerate(cases)
        ]
    return [None, *parts]


def _select_batch(args: Values, dims: Dims) -> Any:
    which, *cases = args
    which_dim, *case_dims = dims
    shapes = [get_aval(c).shape for c in cases]
    which_shape = get_aval(which).shape
    if all(d == which_dim for d in case_dims):
        if which_shape != shapes[0]:  # without the batch axis the selector is a scalar: repeat it
            which = broadcast_in_dim_p.bind(which, shape=shapes[0], broadcast_dimensions=(which_dim,), sharding=None)
        return select_n_p.bind(which, *cases), which_dim
    if not which_shape and all(d is not None for d in case_dims):
        dim: Any = case_dims[0]
        if all(d == dim for d in case_dims) or all(s == shapes[0] for s in shapes):
            moved = [moveaxis(c, d, dim) if d is not None else c for c, d in zip(cases, case_dims, strict=True)]
            return select_n_p.bind(which, *moved), dim
    size, division = mapped_axis(args, dims)
    if which_shape:
        which = bdim_at_front(which, which_dim, size, division)
    if any(shapes):
        cases = [bdim_at_front(c, d, size, division) for c, d in zip(cases, case_dims, strict=True)]
    which_shape, case_shape = get_aval(which).shape, get_aval(cases[0]).shape
    if 0 < len(which_shape) < len(case_shape):
        which = broadcast_in_dim_p.bind(which, shape=case_shape, broadcast_dimensions=(0,), sharding=None)
    elif len(which_shape) > len(case_shape):
        cases = [broadcast(c, size, 0, division) for c in cases]
    return select_n_p.bind(which, *cases), 0


def _select_lower(ctx: Any, avals: Any, out_avals: Any, which: str, *cases: str) -> str:
    aval, ty = avals[0], mlir_type(out_avals[0])
    if dtypes.is_bool(aval.dtype):
        if len(cases) == 1:
            return cases[0]
        return ctx.emit(f"stablehlo.select {which}, {cases[1]}, {cases[0]} : {mlir_type(aval)}, {ty}")
    index, bools = mlir_type(aval), mlir_type(aval.update(dtype=np.dtype(bool)))
    kind = "SIGNED" if dtypes.is_signed(aval.dtype) else "UNSIGNED"

    def choose(first: int, some: Sequence[str]) -> str:
        if len(some) == 1:
            return some[0]
        half = len(some) // 2
        bound = ctx.full(first + half, aval, scalars=True)
        below = ctx.emit(f"stablehlo.compare LT, {which}, {bound}, {kind} : ({index}, {index}) -> {bools}")
        left, right = choose(first, some[:half]), choose(first + half, some[half:])
        return ctx.emit(f"stablehlo.select {below}, {left}, {right} : {bools}, {ty}")

    return choose(0, cases)


def _select_words(ctx: Any, avals: Any, out_avals: Any, which: str, *cases: str) -> str:
    """Select among keys: apply the selection to each of their words."""
    (aval, *rest), (out,) = avals, out_avals
    wide = aval.update(shape=out.shape)
    which = ctx.broadcast(which, aval, wide.shape, range(aval.ndim))
    return _select_lower(ctx, [wide, *rest], out_avals, which, *cases)


select_n_p = Primitive("select_n")
declare(
    select_n_p,
    abstract=_select_abstract,
    numpy=_select_numpy,
    lower=_select_lower,
    batch=_select_batch,
    jvp=_select_jvp,
    transpose=_select_transpose,
    takes_keys=True,
)
set_rules(select_n_p, lower_keys=_select_words)


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """``on_true`` where the boolean ``pred`` holds, and ``on_false`` elsewhere: arrays of one shape and dtype.

    ``pred`` is a scalar or has the same shape. Raises TypeError if shapes or dtypes do not fit.
    """
    return select_n_p.bind(pred, on_false, on_true)


def select_n(which: Any, *cases: Any) -> Any:
    """``cases[which]``, element by element. ``which``, integer or boolean, is a scalar or has the shape of the cases.

    Raises ValueError without cases, TypeError if shapes or dtypes do not agree.
    """
    if not cases:
        raise ValueError("select_n() must have at least one case")
    return select_n_p.bind(which, *cases)
