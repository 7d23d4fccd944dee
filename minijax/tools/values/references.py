"""Programs with refs, evaluated without refs: each equation passes the value of a ref on to the next one.

In: a jaxpr. Out: equations without refs; the variables of arrays are unchanged. An equation that uses a ref becomes a
call of its discharged form (``ops.refs.discharge``), which also returns the new value of the ref.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core import lazy
from minijax.core.refs import AbstractRef
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.ops.call import jit_p

DISCHARGE = "minijax.ops.refs.discharge"


def is_reference(atom: Any) -> bool:
    """Whether a variable is a ref."""
    return type(atom.aval) is AbstractRef


def without_references(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Discharge a program if it creates all refs that it uses; return other programs unchanged."""
    if not AbstractRef.made or any(map(is_reference, closed.jaxpr.invars)) or not _uses(closed.jaxpr):
        return closed
    copy = ClosedJaxpr(closed.jaxpr, closed.consts)
    found: ClosedJaxpr = lazy.public(DISCHARGE, "discharge")(copy)
    return found


def _uses(jaxpr: Jaxpr) -> bool:
    return any(
        any(map(is_reference, (*eqn.invars, *eqn.outvars))) or any(map(_uses, subjaxprs(eqn.params)))
        for eqn in jaxpr.eqns
    )


def equations(jaxpr: Jaxpr) -> Sequence[JaxprEqn]:
    """The equations of ``jaxpr``, with the values of refs in place of the refs."""
    if not AbstractRef.made or not any(any(map(is_reference, (*e.invars, *e.outvars))) for e in jaxpr.eqns):
        return jaxpr.eqns
    # ref -> the variable or literal with its current value
    holds: dict[Any, Any] = {v: v for v in (*jaxpr.invars, *jaxpr.constvars) if is_reference(v)}
    found: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if any(map(is_reference, eqn.invars)):
            found.append(_on_copies(eqn, holds))
        elif any(map(is_reference, eqn.outvars)):
            holds[eqn.outvars[0]] = eqn.invars[0]  # a new ref
        else:
            found.append(eqn)
    return found


def _on_copies(eqn: JaxprEqn, holds: dict[Any, Any]) -> JaxprEqn:
    """A call that takes the values of the refs in ``eqn`` from ``holds``, and stores the new values in ``holds``."""
    operands = list(dict.fromkeys(v for v in eqn.invars if type(v) is not Literal))
    own = {v: Var(v.aval) for v in operands}
    outs = [Var(v.aval) for v in eqn.outvars]
    alone = eqn.replace(invars=[own.get(v, v) if type(v) is not Literal else v for v in eqn.invars], outvars=outs)
    program = ClosedJaxpr(Jaxpr([], [own[v] for v in operands], outs, [alone], eqn.primitive.name))
    places = [i for i, v in enumerate(operands) if is_reference(v)]
    closed = lazy.public(DISCHARGE, "discharge")(program, places)
    given = [holds[v] if is_reference(v) else v for v in operands]
    after = [Var(closed.jaxpr.invars[i].aval) for i in places]
    holds.update((operands[i], v) for i, v in zip(places, after, strict=True))
    params = {"jaxpr": closed, "name": eqn.primitive.name}
    return JaxprEqn(jit_p, given, params, [*eqn.outvars, *after], eqn.source)
