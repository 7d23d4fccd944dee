"""JAX's interface for authors of lowering rules.

A rule is ``rule(ctx, *values, **params)``. ``ctx`` is a ``LoweringRuleContext``; the values are MLIR values. A rule
returns the list of its results' values. ``mlir.register_lowering(p, rule)`` registers it. Its operations come from
``minijax.extend.mlir.dialects``, such as ``stablehlo``. See https://docs.jax.dev/en/latest/jax-primitives.html.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.primitive import Primitive
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr
from minijax.lowering import bindings, foreign
from minijax.lowering.bindings import make_context as make_ir_context
from minijax.lowering.foreign import (
    LoweringRuleContext,
    ModuleContext,
    aval_to_ir_type,
    dtype_to_ir_type,
    ir_attribute,
    ir_constant,
)

LoweringRule = Callable[..., Any]

__all__ = [
    "LoweringRule",
    "LoweringRuleContext",
    "ModuleContext",
    "aval_to_ir_type",
    "aval_to_ir_types",
    "core_call_lowering",
    "dense_int_array",
    "dense_int_elements",
    "dtype_to_ir_type",
    "hlo",  # noqa: F822  (see __getattr__)
    "i32_attr",
    "i64_attr",
    "ir",  # noqa: F822
    "ir_attribute",
    "ir_constant",
    "ir_constants",
    "lower_fun",
    "make_ir_context",
    "register_lowering",
]


def __getattr__(name: str) -> Any:
    if name == "ir":
        return bindings.ir()
    if name == "hlo":
        return bindings.dialect("stablehlo")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register_lowering(
    prim: Primitive, rule: LoweringRule, platform: str | None = None, inline: bool = True, cacheable: bool = True
) -> None:
    """Set the lowering rule of ``prim`` on ``platform`` ('cpu', 'cuda', 'rocm', 'tpu', 'gpu'), or the default rule.

    ``rule(ctx, *values, **params)`` gives the list of its results' MLIR values, or is made by ``lower_fun``.
    ``inline`` and ``cacheable`` exist for JAX's sake, and are ignored. NotImplementedError for an unknown platform.
    """
    foreign.register(prim, rule, platform)


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """The lowering rule of ``fun(*arrays, **params)``, which uses ``minijax.numpy`` and returns a sequence."""
    return foreign.LoweredFun(fun, multiple_results)


def core_call_lowering(
    ctx: LoweringRuleContext, *args: Any, name: str, backend: Any = None, call_jaxpr: ClosedJaxpr | Jaxpr
) -> list[Any]:
    """The lowering rule of a primitive that calls ``call_jaxpr`` as the module's function ``name``."""
    closed = call_jaxpr if isinstance(call_jaxpr, ClosedJaxpr) else ClosedJaxpr(call_jaxpr)
    return foreign.called(ctx, closed, name, args)


def aval_to_ir_types(*args: Any) -> tuple[Any, ...]:
    """The MLIR types of an aval: a tuple of one."""
    return (aval_to_ir_type(*args),)


def ir_constants(val: Any, *, aval: Any = None) -> tuple[Any, ...]:
    """The MLIR values of a constant: a tuple of one."""
    return (ir_constant(val, aval=aval),)


def i32_attr(i: int) -> Any:
    """``i`` as an attribute of 32 bits."""
    return bindings.ir().IntegerAttr.get(bindings.ir().IntegerType.get_signless(32), i)


def i64_attr(i: int) -> Any:
    """``i`` as an attribute of 64 bits."""
    return bindings.ir().IntegerAttr.get(bindings.ir().IntegerType.get_signless(64), i)


def dense_int_array(xs: Sequence[int]) -> Any:
    """The attribute ``array<i64: ...>`` of integers."""
    return bindings.ir().DenseI64ArrayAttr.get(np.asarray(xs, np.int64))


def dense_int_elements(xs: Sequence[int]) -> Any:
    """The attribute ``dense<...> : tensor<nxi64>`` of integers."""
    return bindings.ir().DenseIntElementsAttr.get(np.asarray(xs, np.int64))
