"""JAX's name for what authors of lowering rules need.

A rule is ``rule(ctx, *values, **params)``: ``ctx`` is a ``LoweringRuleContext``, a value is one of MLIR's Python
bindings, and it returns the list of its results' values::

    from minijax.extend.mlir.dialects import stablehlo as hlo
    from minijax.interpreters import mlir

    def multiply_add_lowering(ctx, x, y, z):
        return [hlo.add(hlo.multiply(x, y), z)]

    mlir.register_lowering(multiply_add_p, multiply_add_lowering)

The bindings (``ir`` and the dialects) are loaded when a rule first asks for them. See
https://docs.jax.dev/en/latest/jax-primitives.html.
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
    """Set how ``prim`` is compiled.

    Args:
      prim: the primitive.
      rule: ``rule(ctx, *values, **params)`` to the list of its results' MLIR values (see the module's text), or
        what ``lower_fun`` returns.
      platform: 'cpu', 'cuda', 'rocm', 'tpu', or 'gpu' for both in the middle; by default the rule serves every
        platform that has none of its own.
      inline, cacheable: accepted for JAX's sake. A rule becomes a function of the module, once per signature, and XLA
        puts it in line.

    Raises:
      NotImplementedError: no such platform.
    """
    foreign.register(prim, rule, platform)


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """The lowering rule that does what ``fun``, a function of arrays written with ``minijax.numpy`` or ``lax``, does.

    ``fun(*arrays, **params)`` returns a sequence of arrays, or one array with ``multiple_results=False``.
    """
    return foreign.LoweredFun(fun, multiple_results)


def core_call_lowering(
    ctx: LoweringRuleContext, *args: Any, name: str, backend: Any = None, call_jaxpr: ClosedJaxpr | Jaxpr
) -> list[Any]:
    """The lowering rule of a primitive that calls the jaxpr ``call_jaxpr``: a function ``name`` of the module.

    With ``functools.partial(core_call_lowering, name="f")`` it is a rule for a primitive with that one parameter. An
    open jaxpr has no constants; ``backend`` is JAX's.
    """
    closed = call_jaxpr if isinstance(call_jaxpr, ClosedJaxpr) else ClosedJaxpr(call_jaxpr)
    return foreign.called(ctx, closed, name, args)


def aval_to_ir_types(*args: Any) -> tuple[Any, ...]:
    """The MLIR types of an aval, of which there is one."""
    return (aval_to_ir_type(*args),)


def ir_constants(val: Any, *, aval: Any = None) -> tuple[Any, ...]:
    """The MLIR values of a constant, of which there is one."""
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
