"""Evaluate a jaxpr: bind its equations one after the other under the interpreters on the stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.observe import on_run
from minijax.core.trace import state
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var


def bind_eqn(eqn: JaxprEqn, env: dict[Var, Any]) -> None:
    """Bind one equation's primitive on the values in ``env``, and store its results there."""
    args = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
    out = eqn.primitive.bind(*args, **eqn.params)
    if eqn.primitive.multiple_results:
        env.update(zip(eqn.outvars, out, strict=True))
    else:
        env[eqn.outvars[0]] = out


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """The outputs of ``jaxpr`` on ``args``; values are released after their last use."""
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    last_use: dict[Var, JaxprEqn | None] = {}
    for eqn in jaxpr.eqns:
        for v in eqn.invars:
            if type(v) is not Literal:
                last_use[v] = eqn
    for v in jaxpr.outvars:
        if type(v) is not Literal:
            last_use[v] = None
    outer_source = state.source
    for hook in on_run:
        hook(jaxpr.invars, args)
    try:
        for eqn in jaxpr.eqns:
            # An equation of a rule has no line of its own: it gets the line of the operation that uses the rule.
            source = eqn.source
            state.source = outer_source if source is None else source
            bind_eqn(eqn, env)
            if on_run:
                for hook in on_run:
                    hook(eqn.outvars, [env[v] for v in eqn.outvars])
            for v in eqn.invars:
                if type(v) is not Literal and last_use[v] is eqn:
                    env.pop(v, None)
    finally:
        state.source = outer_source
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def eval_by(run_eqn: Callable[[JaxprEqn, dict[Var, Any]], None], closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """The outputs of ``closed`` on ``args``; each equation is run by ``run_eqn`` in place of ``bind_eqn``."""
    jaxpr = closed.jaxpr
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    outer_source = state.source
    try:
        for eqn in jaxpr.eqns:
            state.source = outer_source if eqn.source is None else eqn.source
            run_eqn(eqn, env)
    finally:
        state.source = outer_source
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def eval_closed(closed: ClosedJaxpr, *args: Any) -> list[Any]:
    """The outputs of ``closed`` on ``args``."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)
