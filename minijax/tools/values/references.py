"""Programs with references, evaluated on copies: what a reference holds is handed on from equation to equation.

In: a jaxpr. Out: equations without references, of the same variables where these are arrays. Each that works on a
reference becomes a call of its own form without (``ops.refs.discharge``), which also gives what is held afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core import late
from minijax.core.refs import AbstractRef
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.ops.call import jit_p

DISCHARGE = "minijax.ops.refs.discharge"


def is_reference(atom: Any) -> bool:
    """Whether a variable stands for a reference."""
    return type(atom.aval) is AbstractRef


def without_references(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program that only makes references of its own, in the form without; any other as it is."""
    if not AbstractRef.made or any(map(is_reference, closed.jaxpr.invars)) or not _uses(closed.jaxpr):
        return closed
    copy = ClosedJaxpr(closed.jaxpr, closed.consts)
    found: ClosedJaxpr = late.public(DISCHARGE, "discharge")(copy)
    return found


def _uses(jaxpr: Jaxpr) -> bool:
    return any(
        any(map(is_reference, (*eqn.invars, *eqn.outvars))) or any(map(_uses, subjaxprs(eqn.params)))
        for eqn in jaxpr.eqns
    )


def equations(jaxpr: Jaxpr) -> Sequence[JaxprEqn]:
    """The equations of ``jaxpr``, on what references hold in place of the references."""
    if not AbstractRef.made or not any(any(map(is_reference, (*e.invars, *e.outvars))) for e in jaxpr.eqns):
        return jaxpr.eqns
    # what each reference holds now: an atom
    holds: dict[Any, Any] = {v: v for v in (*jaxpr.invars, *jaxpr.constvars) if is_reference(v)}
    found: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if any(map(is_reference, eqn.invars)):
            found.append(_on_copies(eqn, holds))
        elif any(map(is_reference, eqn.outvars)):
            holds[eqn.outvars[0]] = eqn.invars[0]  # one is made
        else:
            found.append(eqn)
    return found


def _on_copies(eqn: JaxprEqn, holds: dict[Any, Any]) -> JaxprEqn:
    """A call that reads what references hold from ``holds``, and says there what they hold afterwards."""
    operands = list(dict.fromkeys(v for v in eqn.invars if type(v) is not Literal))
    own = {v: Var(v.aval) for v in operands}
    outs = [Var(v.aval) for v in eqn.outvars]
    alone = eqn.replace(invars=[own.get(v, v) if type(v) is not Literal else v for v in eqn.invars], outvars=outs)
    program = ClosedJaxpr(Jaxpr([], [own[v] for v in operands], outs, [alone], eqn.primitive.name))
    places = [i for i, v in enumerate(operands) if is_reference(v)]
    closed = late.public(DISCHARGE, "discharge")(program, places)
    given = [holds[v] if is_reference(v) else v for v in operands]
    after = [Var(closed.jaxpr.invars[i].aval) for i in places]
    holds.update((operands[i], v) for i, v in zip(places, after, strict=True))
    params = {"jaxpr": closed, "name": eqn.primitive.name}
    return JaxprEqn(jit_p, given, params, [*eqn.outvars, *after], eqn.source)
