"""JAX's interface for authors of differentiation rules.

``primitive_jvps[p] = rule`` sets the jvp rule ``rule(primals, tangents, **params) -> (primal_out, tangent_out)``; a
tangent may be a symbolic ``Zero``. ``primitive_transposes[p] = rule`` sets the transpose rule ``rule(ct, *args,
**params)``. In it a linear argument is an ``UndefinedPrimal``; the rule returns one cotangent per argument, and None
for known arguments. ``primitive_linearizations[p] = rule`` replaces the jvp rule in reverse mode. The ``def...``
functions build such rules from shorter ones. A rule marked with ``depends_on_types`` runs once per signature. Other
rules run at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.primitive import Primitive
from minijax.core.rules import Rule, depends_on_types
from minijax.core.structural import UndefinedPrimal, Zero, add_any_p, instantiate_zeros, is_undefined_primal
from minijax.core.structural import add_tangents as add_tangents
from minijax.core.structural import zeros as zeros_like_aval
from minijax.interpreters.jvp import JVPTrace, JVPTracer, jvp_rules
from minijax.interpreters.linearize import LinearizeTrace, LinearizeTracer, linearize_rules
from minijax.interpreters.transpose import backward_pass, transpose_rules
from minijax.ops import nary

primitive_jvps = jvp_rules
primitive_linearizations = linearize_rules
primitive_transposes = transpose_rules
add_jaxvals_p = add_any_p

__all__ = [
    "JVPTrace",
    "JVPTracer",
    "LinearizeTrace",
    "LinearizeTracer",
    "UndefinedPrimal",
    "Zero",
    "add_jaxvals",
    "add_jaxvals_p",
    "add_tangents",
    "backward_pass",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "depends_on_types",
    "get_primitive_transpose",
    "instantiate_zeros",
    "is_undefined_primal",
    "primitive_jvps",
    "primitive_linearizations",
    "primitive_transposes",
    "zeros_like_aval",
]


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two arrays of one type."""
    return add_any_p.bind(x, y)


def get_primitive_transpose(p: Primitive) -> Rule:
    """The transpose rule of ``p``; NotImplementedError if it has none."""
    return transpose_rules[p]


def defjvp(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """Set the jvp rule of ``primitive`` from one ``rule(g, *primals, **params)`` per operand; None means zero."""

    def without_answer(rule: Callable[..., Any]) -> Callable[..., Any]:
        return lambda g, ans, *primals, **params: rule(g, *primals, **params)

    _differentiate(primitive, [None if rule is None else without_answer(rule) for rule in rules], rules)


def defjvp2(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """``defjvp`` whose rules also take the result: ``rule(g, ans, *primals, **params)``."""
    _differentiate(primitive, rules, rules)


def _differentiate(primitive: Primitive, rules: Sequence[Any], written: Sequence[Any]) -> None:
    """Set the jvp rule made of ``rules``. ``written``: the author's functions; views show the first one."""
    made: Any = nary.nary_jvp(primitive, rules)
    made.__wrapped__ = next(filter(None, written), None)
    by_types = all([rule is None or _depends_on_types(rule) for rule in written])
    jvp_rules[primitive] = depends_on_types(made) if by_types else made


def _depends_on_types(rule: Any) -> bool:
    return bool(getattr(rule, "depends_on_types", False))


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """Make ``primitive`` linear in all its operands; ``transpose_rule(ct, **params)`` gives their cotangents."""
    by_types = _depends_on_types(transpose_rule)
    nary.deflinear(primitive, lambda ct, *args, **params: transpose_rule(ct, **params), by_types)


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """Make ``primitive`` linear in all its operands; ``transpose_rule(ct, *args, **params)`` gives their cotangents."""
    nary.deflinear(primitive, transpose_rule, _depends_on_types(transpose_rule))


def defbilinear(primitive: Primitive, left: Callable[..., Any], right: Callable[..., Any]) -> None:
    """Make ``primitive`` linear in each of two operands: ``left(ct, x, y)`` and ``right`` give their cotangents."""
    nary.defbilinear(primitive, left, right, _depends_on_types(left) and _depends_on_types(right))
