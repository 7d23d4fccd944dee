"""``reduce_window``: windows combined by any function of scalars, from any initial values.

Parameters: those of ``reduce_window_sum``, and ``jaxpr``, an open one of n accumulators and then n elements, with its
``consts``. Operands: n arrays of one shape, then n scalars to start from. In what order and how often the function is
applied is XLA's choice, so it must be associative and commutative. Outside of ``jit`` it is compiled, too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.structural import Zero, full, instantiate_zeros
from minijax.interpreters.evaluate import commits_itself
from minijax.interpreters.jvp import jvp_jaxpr, jvp_rules
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import batching_rules, bdim_at_front
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr
from minijax.ir.pretty import opened, parse_rules
from minijax.lowering.lower import lower_eqns, lowering_rules
from minijax.lowering.regions import region_text, window_text
from minijax.lowering.text import mlir_type
from minijax.ops.call import jit_p
from minijax.ops.reducer import halves
from minijax.ops.shape import shape_of
from minijax.ops.windows.shapes import Ints, Pads, check_windows, with_window_of_one

__all__ = ["reduce_window_p"]

reduce_window_p = Primitive("reduce_window", multiple_results=True)
reduce_window_p.keeps_signatures = False


@reduce_window_p.def_abstract_eval
def reduce_window_abstract(
    *avals: ShapedArray,
    jaxpr: Jaxpr,
    consts: tuple[Any, ...],
    window_dimensions: Ints,
    window_strides: Ints,
    padding: Pads,
    base_dilation: Ints,
    window_dilation: Ints,
) -> list[Any]:
    operands, inits = halves(avals)
    if any(i.shape for i in inits):
        raise TypeError(
            f"reduce_window expected init_values to be scalars but init_values have shapes {[i.shape for i in inits]}."
        )
    if any(x.shape != operands[0].shape for x in operands):
        raise ValueError(f"reduce_window: the operands must have one shape, got {', '.join(map(str, operands))}")
    shape = check_windows(
        "reduce_window",
        operands[0].shape,
        window_dimensions=window_dimensions,
        window_strides=window_strides,
        padding=padding,
        base_dilation=base_dilation,
        window_dilation=window_dilation,
    )
    for x, init, out in zip(operands, inits, [v.aval for v in jaxpr.outvars], strict=True):
        if not x.dtype == init.dtype == out.dtype or out.shape:
            raise TypeError(
                "reduce_window: an operand, its initial value and what the computation gives for them must be of one "
                f"dtype, and the last a scalar; they are {x}, {init} and {out}. Convert them to one type."
            )
    return [x.update(shape=shape, weak_type=False) for x in operands]


@functools.lru_cache(maxsize=256)
def _program(jaxpr: Jaxpr, avals: tuple[ShapedArray, ...], params: tuple[Any, ...]) -> ClosedJaxpr:
    """The reduction alone, to be compiled."""
    return stage(lambda *xs: reduce_window_p.bind(*xs, jaxpr=jaxpr, **dict(params)), avals, "reduce_window")


@reduce_window_p.def_impl
def reduce_window_impl(*args: Any, jaxpr: Jaxpr, consts: tuple[Any, ...], **params: Any) -> list[Any]:
    make = _program if not consts else _program.__wrapped__
    closed = make(jaxpr, tuple([get_aval(x) for x in args]), (("consts", consts), *params.items()))
    return jit_p.bind(*args, jaxpr=closed, name="reduce_window")


commits_itself.add(reduce_window_p)


def reduce_window_batch(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    operands, inits = halves(args)
    operand_dims, init_dims = halves(dims)
    if any(d is not None for d in init_dims):
        raise NotImplementedError(
            "reduce_window batching is not implemented for initial values: XLA starts all windows from one. Combine "
            "the mapped value with the result, after the reduction."
        )
    size = next(shape_of(x)[d] for x, d in zip(operands, operand_dims, strict=True) if d is not None)
    fronted = [bdim_at_front(x, d, size) for x, d in zip(operands, operand_dims, strict=True)]
    outs = reduce_window_p.bind(*fronted, *inits, **with_window_of_one(0, params))
    return outs, [0] * len(outs)


batching_rules[reduce_window_p] = reduce_window_batch


@functools.lru_cache(maxsize=256)
def _jvp_of(jaxpr: Jaxpr) -> Jaxpr:
    """The computation of pairs (values, tangents) that is the derivative of ``jaxpr``, which has no constants."""
    closed, _ = jvp_jaxpr(ClosedJaxpr(jaxpr), [True] * len(jaxpr.invars), instantiate=True)
    primals, tangents = halves(closed.jaxpr.invars)
    (lefts, rights), (left_tangents, right_tangents) = halves(primals), halves(tangents)
    return closed.jaxpr.replace(invars=[*lefts, *left_tangents, *rights, *right_tangents])


def reduce_window_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, consts: tuple[Any, ...], **params: Any
) -> Any:
    operands, inits = halves(primals)
    operand_tangents, init_tangents = halves(tangents)
    if any(type(t) is not Zero for t in init_tangents):
        raise TypeError(
            "reduce_window jvp does not support non-zero init_value_tangent: it is not differentiated by its initial "
            "value. Combine that with the result, after the reduction."
        )
    if consts:
        raise NotImplementedError("reduce_window is not differentiated where its computation closes over arrays.")
    moved = [instantiate_zeros(t) for t in operand_tangents]
    zeros = [full((), 0, get_aval(t).dtype) for t in moved]
    outs = reduce_window_p.bind(*operands, *moved, *inits, *zeros, jaxpr=_jvp_of(jaxpr), consts=(), **params)
    return halves(outs)


jvp_rules[reduce_window_p] = reduce_window_jvp
transpose_rules.holes[reduce_window_p] = "windows of lax.add, lax.max and lax.min have a reverse mode"


def reduce_window_lower(
    ctx: Any, avals: Any, out_avals: Any, *names: str, jaxpr: Jaxpr, consts: tuple[Any, ...], **params: Any
) -> list[str]:
    scalars = [mlir_type(ShapedArray((), a.dtype)) for a in out_avals]

    def build(inner: Any, *values: str) -> list[str]:
        known = [inner.constant(np.asarray(c), v.aval) for c, v in zip(consts, jaxpr.constvars, strict=True)]
        return lower_eqns(inner, jaxpr, known, values)

    region = region_text(ctx, [*scalars, *scalars], build, scalars)
    ins, outs = ", ".join(map(mlir_type, avals)), ", ".join(map(mlir_type, out_avals))
    op = f'"stablehlo.reduce_window"({", ".join(names)}) <{{{window_text(**params)}}}>'
    return ctx.emit_many(f"{op} {region} : ({ins}) -> ({outs})", len(out_avals))


lowering_rules[reduce_window_p] = reduce_window_lower
parse_rules[reduce_window_p] = opened("jaxpr")
