"""Jaxprs in parameters of control flow. They have no constants: all their values come from operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.lists import chosen
from minijax.core.rules import Dims, Rule
from minijax.core.structural import Zero
from minijax.ir.jaxpr import ClosedJaxpr, Var

Flags = list[bool]


def fixpoint(flags: Sequence[bool], step: Rule) -> tuple[Flags, Any]:
    """Set more of ``flags`` until a loop's body adds none; ``step(flags) -> (result, flags after the body)``.
    Return the final flags and the last result."""
    now = list(flags)
    while True:
        result, after = step(now)
        more = [a or b for a, b in zip(now, after, strict=True)]
        if more == now:
            return now, result
        now = more


def nonzeros(tangents: Sequence[Any]) -> tuple[Flags, list[Any]]:
    """Flags of those ``tangents`` that are not symbolic zeros, and a list of these tangents."""
    flags = [type(t) is not Zero for t in tangents]
    return flags, chosen(flags, tangents)


def in_front(batched: Sequence[bool]) -> list[int | None]:
    """Batch axes for values: 0 if the value's flag in ``batched`` is true, else None."""
    return [0 if b else None for b in batched]


def mapped(dims: Dims) -> Flags:
    return [d is not None for d in dims]


def hoist_consts(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """``closed`` with its constants as leading inputs, and these constants. The jaxpr is cached with ``closed``."""
    if not closed.consts:
        return closed, []
    key = "hoisted"
    if key not in closed.memo:
        jaxpr = closed.jaxpr
        closed.memo[key] = ClosedJaxpr(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]))
    return closed.memo[key], closed.consts


def join_consts(branches: Sequence[ClosedJaxpr]) -> tuple[tuple[ClosedJaxpr, ...], list[Any]]:
    """``branches`` with the constants of all branches as leading inputs, and these constants without duplicates."""
    if not any(closed.consts for closed in branches):
        return tuple(branches), []
    # (id of a constant, number of earlier occurrences in its jaxpr) -> a variable for it, and the constant
    all_consts: dict[tuple[int, int], tuple[Var, Any]] = {}
    own_vars: list[dict[tuple[int, int], Var]] = []
    for closed in branches:
        own: dict[tuple[int, int], Var] = {}
        for var, const in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            occurrence = 0
            while (id(const), occurrence) in own:
                occurrence += 1
            own[id(const), occurrence] = var
            all_consts.setdefault((id(const), occurrence), (var, const))
        own_vars.append(own)
    joined = []
    for closed, own in zip(branches, own_vars, strict=True):
        leading = [own[key] if key in own else Var(var.aval) for key, (var, _) in all_consts.items()]
        joined.append(ClosedJaxpr(closed.jaxpr.replace(constvars=[], invars=[*leading, *closed.jaxpr.invars])))
    return tuple(joined), [const for _, const in all_consts.values()]
