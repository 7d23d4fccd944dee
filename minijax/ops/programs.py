"""Primitives whose programs come from a Python function. The function is staged once per signature, and called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import observe
from minijax.core.avals import ShapedArray, physical_aval
from minijax.core.rules import Values
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr

Program = Callable[..., Values]


def program_of(compute: Program, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The program of ``compute``. Its equations take the source line of their call."""
    with observe.unobserved():
        closed = stage(compute, avals, getattr(compute, "func", compute).__name__.strip("_"))
    bare = closed.jaxpr.replace(eqns=[eqn.replace(source=None) for eqn in closed.eqns])
    return ClosedJaxpr(bare, closed.consts)


@functools.lru_cache(maxsize=1024)
def staged(compute: Program, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """``compute`` staged for operands of types ``avals`` (keys as raw words); cached by ``compute`` and types."""
    return program_of(compute, tuple(map(physical_aval, avals)))


def call_program(ctx: Any, compute: Program, avals: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Write a call of ``compute``, which becomes a function of the module."""
    # sharding and varying axes belong to the equation; the function is called with plain types
    closed = staged(compute, tuple([ShapedArray(aval.shape, aval.dtype, aval.weak_type) for aval in avals]))
    symbol = ctx.module.function(closed, closed.jaxpr.debug_name)
    found: list[str] = ctx.call(symbol, names, closed.in_avals, closed.out_avals)
    return found
