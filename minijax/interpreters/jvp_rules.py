"""The jvp rules, and functions that are derived from a rule once per signature.

In: a jvp rule, the types of operands and tangents, the parameters. Out: the rule's jaxpr (``staged_rule``), from which
``interpreters.derived`` starts, or a function of NumPy values (``Pushforward``). Only rules that depend on types alone
are derived: the rules in ``ops``, and rules that their author marked (``core.rules.depends_on_types``). Other rules run
at every call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import lazy, observe
from minijax.core.avals import ShapedArray
from minijax.core.primitive import MAX_SIGNATURES, Primitive
from minijax.core.records import NamedTuple
from minijax.core.rules import ReplaceableRules
from minijax.core.structural import Zero, zero_of
from minijax.core.trace import state
from minijax.interpreters.physical import Type, logical, staged_on
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr, is_effectful

jvp_rules = ReplaceableRules(
    "jvp",
    "Differentiation rule for '{name}' not implemented",
    "add: minijax.interpreters.ad.primitive_jvps[primitive] = rule"
    "   # rule(primals, tangents, **params) -> (primal_out, tangent_out)",
)

# Deriving takes as long as some dozens of runs of a rule, so a signature must be seen this often first.
WORTH_DERIVING = 4


def derives(primitive: Primitive) -> bool:
    """Whether the jvp rule of ``primitive`` runs once per signature, and its derived functions are cached."""
    return (
        getattr(jvp_rules.get(primitive), "depends_on_types", False)
        and not primitive.multiple_results
        and primitive.keeps_signatures
    )


# The primitives that have a table of derived functions.
_have_tables: list[Primitive] = []


def table_of(primitive: Primitive, name: str) -> dict[Any, Any] | None:
    """The table ``name`` of ``primitive``, made at first use; None if its jvp rule runs at each call."""
    table: dict[Any, Any] | None = getattr(primitive, name)
    if table is None and derives(primitive):
        table = {}
        setattr(primitive, name, table)
        _have_tables.append(primitive)
    return table


def derived_once(table: dict[Any, Any], key: Any, derive: Callable[[], Any], worth: int | None = None) -> Any:
    """``table[key]``, made by ``derive()`` after ``worth`` requests. None before that, and if ``derive`` fails."""
    try:
        found = table.get(key, 0)
    except TypeError:  # a parameter is not hashable
        return None
    if type(found) is not int:
        return found
    if found < (WORTH_DERIVING if worth is None else worth):  # ``found`` counts requests
        table[key] = found + 1
        return None
    if len(table) >= MAX_SIGNATURES:
        table.clear()
    table[key] = None
    with contextlib.suppress(Exception):  # the rule rejects the operands
        table[key] = derive()
    return table[key]


class StagedRule(NamedTuple):
    """A jvp rule's jaxpr, and whether the rule makes values itself, which are staged as constants."""

    closed: ClosedJaxpr
    stages_values: bool


def staged_rule(
    primitive: Primitive,
    avals: Sequence[ShapedArray],
    tangent_avals: Sequence[ShapedArray | None],
    params: dict[str, Any],
) -> StagedRule | None:
    """The jvp rule as a jaxpr: (operands, nonzero tangents) -> (result, tangent). None if it cannot be cached."""
    n = len(avals)
    has_tangent = stages_values = False

    def rule(*args: Any) -> list[Any]:
        nonlocal has_tangent, stages_values
        given = iter(args[n:])
        tangents = [
            zero_of(aval) if tangent is None else next(given)
            for aval, tangent in zip(avals, tangent_avals, strict=True)
        ]
        out, tangent = jvp_rules[primitive](list(args[:n]), tangents, **params)
        staging: Any = state.dynamic
        stages_values = staging.builder.stages_values
        has_tangent = type(tangent) is not Zero
        return [out, tangent] if has_tangent else [out]

    given_avals = [aval for aval in tangent_avals if aval is not None]
    outer_source = state.source
    try:
        with observe.unobserved():
            closed = stage(rule, [*avals, *given_avals], primitive.name, "rule")
    finally:
        state.source = outer_source
    # a rule may create integers, whose types depend on whether 64-bit types are enabled
    makes_integers = any(v.aval.dtype.kind in "iu" for eqn in closed.eqns for v in eqn.outvars)
    if not has_tangent or makes_integers or any(map(is_effectful, closed.eqns)):
        return None
    return StagedRule(closed, stages_values)


class Pushforward(NamedTuple):
    """``function(*primals, *tangents) -> (result, tangent)`` at one signature. ``binds``: see ``core.counting``."""

    function: Callable[..., Any]
    out_aval: ShapedArray
    out_type: Type
    tangent_type: Type
    binds: dict[Any, Any]


def pushforward(
    primitive: Primitive, types: Sequence[Type], tangent_types: Sequence[Type | None], params: dict[str, Any]
) -> Pushforward | None:
    """The cached pushforward for physical types (None for a zero tangent); None if there is no pushforward."""
    table = table_of(primitive, "pushforwards")
    if table is None:
        return None
    key = [type_ for pair in zip(types, tangent_types, strict=True) for type_ in pair]

    def derive() -> Pushforward | None:
        tangent_avals = [None if t is None else logical(t) for t in tangent_types]
        staged = staged_rule(primitive, [*map(logical, types)], tangent_avals, params)
        if staged is None:
            return None
        given = [*types, *[t for t in tangent_types if t is not None]]
        closed, out_types = staged_on(staged.closed, given, primitive.name)
        function = lazy.public("minijax.interpreters.program", "forward_function")(closed)
        out_type, tangent_type = out_types
        return Pushforward(function, staged.closed.out_avals[0], out_type, tangent_type, {})

    return derived_once(table, (*key, *params.items()), derive)  # type: ignore[no-any-return]


def _forget() -> None:
    """Drop all derived functions: a rule has been replaced."""
    for primitive in _have_tables:
        primitive.pushforwards = primitive.linearizations = None
    _have_tables.clear()


ReplaceableRules.forgetting.append(_forget)
