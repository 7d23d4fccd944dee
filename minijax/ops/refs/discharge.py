"""Discharge: rewrite a program so that its equations use no references, only their contents, which are arrays.

In: a jaxpr that takes or makes references. Out: a jaxpr on arrays alone. It takes the contents of the references, and
returns the final contents of the references that it writes. Invariant: equations keep their order.

Tracing to a jaxpr stages a call of a program with references (``jit``, ``cond``, ``while``, ``scan``, ``remat2``)
unchanged. Every other interpreter reads the references, binds the discharged call, and writes the references
(``bind_call``). So no interpreter handles references in subjaxprs.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from minijax.core.array import get_aval
from minijax.core.lists import safe_zip
from minijax.core.primitive import Primitive
from minijax.core.refs import AbstractRef, AccumEffect, WriteEffect, is_ref
from minijax.core.rules import Ints, Params, Values
from minijax.core.trace import find_top_trace
from minijax.interpreters.stage import JaxprTrace, stage
from minijax.ir.evaluate import bind_eqn, eval_by
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.ops.call import jit_p, set_without_refs
from minijax.ops.checkpoint import remat_p
from minijax.ops.cond import cond_p
from minijax.ops.custom_jvp import custom_jvp_call_p
from minijax.ops.custom_vjp import custom_vjp_call_p
from minijax.ops.linear_solve import linear_solve_p
from minijax.ops.meshes.shard_map import inside, shard_map_p
from minijax.ops.refs.index import accumulate, read, write
from minijax.ops.refs.primitives import addupdate_p, free_ref_p, freeze_p, get_p, new_ref_p, swap_p
from minijax.ops.scan import scan_p
from minijax.ops.while_loop import while_p

REF_PRIMITIVES = frozenset((new_ref_p, freeze_p, free_ref_p, get_p, swap_p, addupdate_p))


_uses: weakref.WeakKeyDictionary[Jaxpr, bool] = weakref.WeakKeyDictionary()


def uses_refs(jaxpr: Jaxpr) -> bool:
    """Whether a program, or a program inside it, uses references."""
    found = _uses.get(jaxpr)
    if found is None:
        found = any(type(v.aval) is AbstractRef for v in (*jaxpr.invars, *jaxpr.constvars)) or any(
            eqn.primitive in REF_PRIMITIVES or any(map(uses_refs, subjaxprs(eqn.params))) for eqn in jaxpr.eqns
        )
        _uses[jaxpr] = found
    return found


def written(closed: ClosedJaxpr) -> list[int]:
    """The positions of the reference inputs that the program writes to."""
    if "written" not in closed.memo:
        targets = {e.variable for e in closed.effects if type(e) in (WriteEffect, AccumEffect)}
        closed.memo["written"] = [i for i, v in enumerate(closed.jaxpr.invars) if v in targets]
    return closed.memo["written"]


class Held:
    """A reference during discharge: its content ``held``, which changes, and its type."""

    __slots__ = ("held", "aval")

    def __init__(self, held: Any, aval: AbstractRef) -> None:
        self.held = held
        self.aval = aval


def discharge(closed: ClosedJaxpr, finals: Ints = ()) -> ClosedJaxpr:
    """``closed`` with arrays for references. Its last results are the final contents of the inputs ``finals``."""
    key = ("discharged", tuple(finals))
    if key not in closed.memo:
        types: list[Any] = closed.in_avals
        avals = [a.inner_aval if type(a) is AbstractRef else a for a in types]

        def without_refs(*values: Any) -> list[Any]:
            args = [Held(x, a) if type(a) is AbstractRef else x for x, a in safe_zip(values, types)]
            outs = _run(closed, args)
            return [*outs, *[args[i].held for i in finals]]

        closed.memo[key] = stage(without_refs, avals, closed.jaxpr.debug_name, "form without references")
    return closed.memo[key]


def lowerable(closed: ClosedJaxpr) -> ClosedJaxpr:
    """``closed`` without the references that it makes, for lowering. ValueError if it takes references."""
    for aval in closed.in_avals:
        if type(aval) is AbstractRef:
            raise ValueError(
                f"a program that takes a mutable array reference, of type {aval}, is not lowered by itself: call the "
                "jitted function, which reads the reference before and writes it after."
            )
    return discharge(closed) if uses_refs(closed.jaxpr) else closed


set_without_refs(lowerable)


def _run(closed: ClosedJaxpr, args: Values) -> list[Any]:
    """Evaluate ``closed`` on ``args``, where ``Held`` objects replace references."""
    return eval_by(_run_eqn, closed, args)


def _run_eqn(eqn: JaxprEqn, env: dict[Var, Any]) -> None:
    primitive = eqn.primitive
    args = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
    if primitive is new_ref_p:
        aval: Any = eqn.outvars[0].aval
        env[eqn.outvars[0]] = Held(args[0], aval)
    elif primitive in REF_PRIMITIVES and type(args[0]) is Held:
        env.update(safe_zip(eqn.outvars, _on_place(primitive, *args, index=eqn.params.get("index"))))
    elif any(type(x) is Held for x in args) or any(map(uses_refs, subjaxprs(eqn.params))):
        outs = call_without(primitive, args, eqn.params)
        env.update(safe_zip(eqn.outvars, outs))
    else:
        bind_eqn(eqn, env)


def _on_place(primitive: Primitive, place: Held, *args: Any, index: Any) -> list[Any]:
    if primitive is freeze_p:
        return [place.held]
    if primitive is free_ref_p:
        return []
    if primitive is get_p:
        return [read(place.held, index, args)]
    value, *operands = args
    held = place.held
    if primitive is addupdate_p:
        place.held = accumulate(held, index, operands, value)
        return []
    place.held = write(held, index, operands, value)
    return [read(held, index, operands)]


def _read(x: Any) -> Any:
    """An operand of the discharged call: the content of the reference ``x``, or ``x`` itself if ``x`` is none."""
    if type(x) is Held:
        return x.held
    return get_p.bind(x, index=None) if is_ref(x) else x


def _write(ref: Any, value: Any) -> None:
    if type(ref) is Held:
        ref.held = value
    else:
        swap_p.bind(ref, value, index=None)


def _written_back(args: Values, positions: Ints, outs: Values) -> list[Any]:
    """Write the last results of a discharged call to the references at ``positions``; return the other results."""
    n = len(outs) - len(positions)
    for i, value in safe_zip(positions, outs[n:]):
        _write(args[i], value)
    return list(outs[:n])


def _call_without(primitive: Primitive, args: Values, params: Params) -> list[Any]:
    """The rule for ``jit`` and ``remat2``, whose operands are the inputs of the jaxpr."""
    closed = params["jaxpr"]
    finals = written(closed)
    outs = primitive.bind(*map(_read, args), **{**params, "jaxpr": discharge(closed, finals)})
    return _written_back(args, finals, outs)


def _cond_without(primitive: Primitive, args: Values, params: Params) -> list[Any]:
    branches = params["branches"]
    finals = sorted({i for branch in branches for i in written(branch)})
    made = tuple(discharge(branch, finals) for branch in branches)
    outs = cond_p.bind(*map(_read, args), **{**params, "branches": made})
    return _written_back(args[1:], finals, outs)


def _rearranged(closed: ClosedJaxpr, invars: Values, outvars: Values, key: Any) -> ClosedJaxpr:
    if key not in closed.memo:
        closed.memo[key] = ClosedJaxpr(closed.jaxpr.replace(invars=invars, outvars=outvars), closed.consts)
    return closed.memo[key]


def _scan_without(primitive: Primitive, args: Values, params: Params) -> list[Any]:
    """References that the body writes become carried values if they are constants, and ys if they are among the xs."""
    n, m = params["num_consts"], params["num_carry"]
    finals = written(params["jaxpr"])
    body = discharge(params["jaxpr"], finals)
    carried, stacked = [i for i in finals if i < n], [i for i in finals if i >= n + m]
    ins, outs = body.jaxpr.invars, body.jaxpr.outvars
    n_outs = len(outs) - len(finals)
    final = dict(safe_zip(finals, outs[n_outs:]))
    kept = [i for i in range(n) if i not in carried]
    order = [*kept, *carried, *range(n, len(args))]
    results = [*[final[i] for i in carried], *outs[:n_outs], *[final[i] for i in stacked]]
    body = _rearranged(body, [ins[i] for i in order], results, ("references carried", n, m))
    given = {**params, "jaxpr": body, "num_consts": len(kept), "num_carry": m + len(carried)}
    found = scan_p.bind(*[_read(args[i]) for i in order], **given)
    k = len(carried)
    return _written_back(args, [*stacked, *carried], [*found[k:], *found[:k]])


def _while_without(primitive: Primitive, args: Values, params: Params) -> list[Any]:
    """References that the body writes become carried values; the condition reads them from the carry."""
    n, m = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts, carry = args[:n], args[n : n + m], args[n + m :]
    finals = written(params["body_jaxpr"])
    if written(params["cond_jaxpr"]):
        raise NotImplementedError(
            "a while loop whose condition writes to a reference is not supported: write to the reference in the body."
        )
    body, cond = discharge(params["body_jaxpr"], finals), discharge(params["cond_jaxpr"])
    kept = [i for i in range(m) if i not in finals]
    ins, outs = body.jaxpr.invars, body.jaxpr.outvars
    n_outs = len(outs) - len(finals)
    order = [*kept, *finals, *range(m, len(ins))]
    body = _rearranged(body, [ins[i] for i in order], [*outs[n_outs:], *outs[:n_outs]], ("references carried", m))
    same = [next((j for j, c in enumerate(cond_consts) if c is body_consts[i]), None) for i in finals]
    cond_ins = cond.jaxpr.invars
    fixed = [j for j in range(n) if j not in same]
    types = [body.jaxpr.invars[len(kept) + k].aval for k in range(len(finals))]
    carried = [Var(aval) if j is None else cond_ins[j] for j, aval in safe_zip(same, types)]
    wanted = [*[cond_ins[j] for j in fixed], *carried, *cond_ins[n:]]
    cond = _rearranged(cond, wanted, cond.jaxpr.outvars, ("carried", *same, *types))
    given = {"cond_jaxpr": cond, "cond_nconsts": len(fixed), "body_jaxpr": body, "body_nconsts": len(kept)}
    operands = [
        *[cond_consts[j] for j in fixed],
        *[body_consts[i] for i in kept],
        *[body_consts[i] for i in finals],
        *carry,
    ]
    found = while_p.bind(*map(_read, operands), **{**params, **given})
    k = len(finals)
    return _written_back(body_consts, finals, [*found[k:], *found[:k]])


_RULES: dict[Primitive, Callable[..., list[Any]]] = {
    jit_p: _call_without,
    remat_p: _call_without,
    cond_p: _cond_without,
    scan_p: _scan_without,
    while_p: _while_without,
}


def call_without(primitive: Primitive, args: Values, params: Params) -> list[Any]:
    """Call the discharged program: read its references before and write them after. NotImplementedError if a
    primitive without a rule takes a reference."""
    rule = _RULES.get(primitive)
    if rule is not None:
        return rule(primitive, args, params)
    if any(type(x) is Held or is_ref(x) for x in args):
        raise NotImplementedError(
            f"{primitive.name} of a function that takes or closes over a mutable array reference is not supported. "
            "Make the reference inside of the function, or pass its content, r[...], and return the new content."
        )
    with inside(params) if primitive is shard_map_p else contextlib.nullcontext():
        inner = {
            name: discharge(value) if type(value) is ClosedJaxpr and uses_refs(value.jaxpr) else value
            for name, value in params.items()
        }
    outs = primitive.bind(*args, **inner)
    return outs if primitive.multiple_results else [outs]


def check_aliases(primitive: Primitive, args: Values, params: Params) -> None:
    """ValueError if a program takes one reference twice: a write through one would change the other too."""
    groups = [args]
    if primitive is while_p:
        n, m = params["cond_nconsts"], params["body_nconsts"]
        groups = [args[:n], args[n : n + m]]
    for group in groups:
        seen: dict[int, int] = {}
        for i, x in enumerate(group):
            if is_ref(x) and seen.setdefault(id(x), i) != i:
                raise ValueError(
                    "only one reference to a mutable array may be passed as an argument to a function, but the mutable "
                    f"array reference of type {get_aval(x)} appeared at both operand {seen[id(x)]} and operand {i} of "
                    f"{params.get('name', primitive.name)}. Pass it once."
                )


def bind_call(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Replaces ``primitive.bind`` of the primitives in ``CALLS`` as soon as the first reference is made."""
    original = type(primitive).bind
    takes = any(map(is_ref, args))
    if takes:
        check_aliases(primitive, args, params)
    if takes or any(map(uses_refs, subjaxprs(params))):
        if not isinstance(find_top_trace(args), JaxprTrace):
            return call_without(primitive, args, params)
    return original(primitive, *args, **params)


CALLS = (*_RULES, custom_jvp_call_p, custom_vjp_call_p, linear_solve_p, shard_map_p)
