"""The meaning of a jaxpr: one digest per result. Programs that differ only in order and dead code have equal digests.

Second derivatives of control flow are compared by meaning: the libraries agree in every equation, but not
always in the order of residuals of a loop or branch. The term of a result has its primitive, parameters, types, and the
terms of its operands. Terms go through calls and into branches and loop bodies, so a permutation of carried or
stacked values has no effect, and a different equation anywhere changes the digest.
"""

from __future__ import annotations

import hashlib
from typing import Any

from .normalise import CALLS, acts, show_params, show_type, show_value

Term = tuple[str, ...]  # one text for each summand; only the result of ``add_any`` has several


def digest(*parts: Any) -> str:
    """A short text that differs when the parts differ."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def meaning(jaxpr: Any) -> list[str]:
    """The digests of the results of a ``Jaxpr`` or ``ClosedJaxpr`` of either library."""
    opened = getattr(jaxpr, "jaxpr", jaxpr)
    arguments = [(digest("argument", i, show_type(v.aval)),) for i, v in enumerate(opened.invars)]
    return [digest(*term) for term in results(jaxpr, arguments)]


def results(jaxpr: Any, arguments: list[Term]) -> list[Term]:
    opened = getattr(jaxpr, "jaxpr", jaxpr)
    environment = dict(zip(opened.invars, arguments, strict=True))
    for var, value in zip(opened.constvars, getattr(jaxpr, "consts", ()), strict=True):
        environment[var] = (digest("constant", show_value(value), show_type(var.aval)),)

    def term(atom: Any) -> Term:
        if hasattr(atom, "val"):
            return (digest("literal", show_value(atom.val), show_type(atom.aval)),)
        return environment[atom]

    for eqn in opened.eqns:
        operands = [term(a) for a in eqn.invars]
        outs = equation(eqn, operands)
        environment.update(zip(eqn.outvars, outs, strict=True))
    return [term(a) for a in opened.outvars]


def equation(eqn: Any, operands: list[Term]) -> list[Term]:
    """The terms of an equation's results."""
    name, params = eqn.primitive.name, eqn.params
    if name in CALLS or name == "call":
        return results(params[CALLS.get(name, "call_jaxpr")], operands)
    if acts(name) or name == "get":
        raise NotImplementedError(f"{name}: terms cannot express the order of side effects")
    if name == "add_any":
        return [tuple(sorted(operands[0] + operands[1]))]
    if name == "empty2":  # if a derivative reads the placeholder, JAX writes the zero that it represents
        return [(digest("literal", show_value(eqn.params["dtype"].type(0)), show_type(eqn.outvars[0].aval)),)]
    if name == "cond":
        return cond(params["branches"], *operands)
    if name == "scan":
        return scan(params, operands)
    if name == "while":
        return while_loop(params, operands)
    if name in ("checkpoint", "remat2", "custom_jvp_call", "custom_vjp_call"):
        inner = params.get("jaxpr") or params.get("call_jaxpr")
        return [(digest(name, term),) for term in results(inner, operands)]
    whole = digest(name, show_params(params), operands)
    return [(digest(whole, i, show_type(v.aval)),) for i, v in enumerate(eqn.outvars)]


def carried(label: str, initial: list[Term]) -> list[Term]:
    """Terms for the carried values inside a loop's body, made from the terms of their initial values."""
    return [(digest(label, term),) for term in initial]


# the term of a cond's result -> the term of the cond's index, and the term of the result in each branch
_chosen: dict[Term, tuple[Term, tuple[Term, ...]]] = {}


def cond(branches: Any, index: Term, *operands: Term) -> list[Term]:
    """The terms of a cond's results. If a branch reads a result of an earlier cond with the same index, it reads the
    term from the same branch of the earlier cond. So the residuals of several branches may share a variable.
    """
    outs = []
    for k, branch in enumerate(branches):
        seen = [_chosen[o][1][k] if o in _chosen and _chosen[o][0] == index else o for o in operands]
        outs.append(results(branch, seen))
    terms: list[Term] = [(digest("cond", index, of_branches),) for of_branches in zip(*outs, strict=True)]
    _chosen.update((term, (index, made)) for term, made in zip(terms, zip(*outs, strict=True), strict=True))
    return terms


def scan(params: Any, operands: list[Term]) -> list[Term]:
    n, k = params["num_consts"], params["num_consts"] + params["num_carry"]
    elements = [(digest("element", term),) for term in operands[k:]]
    outs = results(params["jaxpr"], [*operands[:n], *carried("carried", operands[n:k]), *elements])
    updates = outs[: k - n]
    how = (params["length"], params["reverse"], params["unroll"])
    loop = digest("scan", how, sorted(zip(operands[n:k], updates, strict=True)))
    last = [(digest(loop, "last", start, out),) for start, out in zip(operands[n:k], updates, strict=True)]
    return last + [(digest(loop, "stacked", out),) for out in outs[k - n :]]


def while_loop(params: Any, operands: list[Term]) -> list[Term]:
    m, n = params["cond_nconsts"], params["body_nconsts"]
    initial = operands[m + n :]
    inside = carried("carried", initial)
    going = results(params["cond_jaxpr"], [*operands[:m], *inside])
    updates = results(params["body_jaxpr"], [*operands[m : m + n], *inside])
    loop = digest("while", going, sorted(zip(initial, updates, strict=True)))
    return [(digest(loop, "last", start, out),) for start, out in zip(initial, updates, strict=True)]
