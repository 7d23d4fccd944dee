"""Elementwise primitives that are computed by a program of this package's operations.

Compiled, the program is a function of the module; evaluated, it runs on NumPy, as programs do outside of ``jit``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.structural import full
from minijax.interpreters.evaluate import by_type
from minijax.interpreters.program import program
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ops.convert import convert
from minijax.ops.elementwise import and_p
from minijax.ops.nary import FLOAT, elementwise
from minijax.ops.programs import call_program, program_of, staged
from minijax.ops.reduce import reduce_or_p
from minijax.ops.select import select
from minijax.ops.while_loop import while_p

_FLOAT32 = np.dtype(np.float32)


def computed(name: str, operands: int, compute: Callable[..., Any], derivatives: Any) -> Primitive:
    """A primitive of floats of one dtype.

    Args:
      name: as jaxprs print it.
      operands: how many it takes.
      compute: of arrays of one shape, float32 or float64, to the result; smaller floats are widened for it.
      derivatives: see ``elementwise``.
    """

    @functools.wraps(compute)
    def widened(*xs: Any) -> list[Any]:
        dtype = get_aval(xs[0]).dtype
        if dtype.itemsize >= _FLOAT32.itemsize:
            return [compute(*xs)]
        return [convert(compute(*[convert(x, _FLOAT32) for x in xs]), dtype)]

    def computed_lower(ctx: Any, avals: Any, out_avals: Any, *names: str) -> str:
        (out,) = out_avals
        strong = out.update(weak_type=False)
        return call_program(ctx, widened, [strong] * operands, ctx.broadcast_operands(names, avals, out.shape))[0]

    @by_type
    def computed_numpy(*avals: Any) -> Callable[..., Any]:
        shape = np.broadcast_shapes(*[a.shape for a in avals])
        run = program(staged(widened, (ShapedArray(shape, avals[0].dtype),) * operands)).function
        return lambda *xs: run(*[np.broadcast_to(x, shape) for x in xs])[0]

    return elementwise(name, [FLOAT] * operands, computed_numpy, computed_lower, derivatives)


# -------------------------------------------------------------------------------- what programs are written with


def filled(x: Any, value: Any) -> Any:
    """``value`` in the shape and dtype of ``x``."""
    aval = get_aval(x)
    return full(aval.shape, value, aval.dtype)


def scalar(x: Any, value: float) -> Any:
    """``value`` as a scalar of the dtype of ``x``."""
    return get_aval(x).dtype.type(value)


def any_of(flags: Any) -> Any:
    """Whether one of the booleans holds."""
    return reduce_or_p.bind(flags, axes=tuple(range(get_aval(flags).ndim)))


def loop(more: Callable[..., Any], step: Callable[..., Sequence[Any]], state: Sequence[Any]) -> list[Any]:
    """``state`` after as many ``step``s as ``more`` holds of it before; neither closes over arrays."""
    avals = tuple([get_aval(x).strip_weak_type() for x in state])
    cond, body = _condition(more, avals), staged(step, avals)
    return while_p.bind(*state, cond_jaxpr=cond, cond_nconsts=0, body_jaxpr=body, body_nconsts=0)


@functools.lru_cache(maxsize=256)
def _condition(more: Callable[..., Any], avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    return program_of(functools.wraps(more)(lambda *xs: [more(*xs)]), avals)


def kept(enabled: Any, new: Sequence[Any], old: Sequence[Any]) -> list[Any]:
    """``new`` where ``enabled`` holds, else ``old``."""
    return [select(enabled, x, y) for x, y in zip(new, old, strict=True)]


def conjunction(first: Any, *others: Any) -> Any:
    """All of the booleans, from left to right."""
    return functools.reduce(and_p.bind, others, first)
