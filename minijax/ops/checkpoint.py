"""``checkpoint`` (``remat``): a call that recomputes its intermediate values for derivatives instead of saving them.

Evaluation, batching and forward derivatives treat the call like its jaxpr. Partial evaluation differs: the unknown part
is a call that takes the inputs and the values that the policy saves, and recomputes the rest. This module also has
``name``, the identity that policies look for, and ``optimization_barrier``, which keeps XLA from merging the
recomputation with the first computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core import avals as types
from minijax.core import dtypes, lazy
from minijax.core.array import as_value, get_aval
from minijax.core.lists import chosen, merge, partition, safe_zip
from minijax.core.primitive import Primitive
from minijax.core.rules import Dims, Flags, Names, Params, Values
from minijax.core.structural import UndefinedPrimal, instantiate_zeros, zero_of
from minijax.interpreters.jvp import jvp_jaxpr, with_zeros
from minijax.interpreters.named_axes import AxisPrimitive
from minijax.interpreters.partial_eval import dce_call, dce_jaxpr, partial_eval_jaxpr
from minijax.interpreters.recompute import Split, call_recompute, recompute_rules, split_by_policy
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import backward_pass_closed, call_operands, operand_cotangents, transpose_rules
from minijax.interpreters.vmap import vmap_jaxpr
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var, matters
from minijax.ir.typecheck import call_rule
from minijax.lowering.lower import lower_eqns
from minijax.lowering.text import mlir_type
from minijax.ops.convert import reduce_precision_p
from minijax.ops.declare import declare, operand_lower, same_aval, set_rules, unchanged
from minijax.ops.subjaxprs import hoist_consts, nonzeros
from minijax.pytree import tree_flatten, tree_unflatten

__all__ = ["optimization_barrier", "optimization_barrier_p"]


def _name_jvp(primals: Any, tangents: Any, *, name: str) -> Any:
    # the tangent gets no name: a policy that saves the name should save only the primal value
    return name_p.bind(primals[0], name=name), tangents[0]


name_p = declare("name", abstract=same_aval, numpy=unchanged, lower=operand_lower, jvp=_name_jvp, takes_keys=True)
transpose_rules.holes[name_p] = "tangents carry no name"


optimization_barrier_p = Primitive("optimization_barrier", multiple_results=True)


def _barrier_jvp(primals: Values, tangents: Values) -> Any:
    has_tangent = [dtypes.is_inexact(get_aval(x).dtype) for x in primals]
    none, given = partition(has_tangent, tangents)
    outs = optimization_barrier_p.bind(*primals)
    return outs, merge(has_tangent, none, optimization_barrier_p.bind(*map(instantiate_zeros, given)))


def _barrier_lower(ctx: Any, avals: Any, out_avals: Any, *names: str) -> list[str]:
    if not names:
        return []
    text = ", ".join(map(mlir_type, avals))
    return ctx.emit_many(f"stablehlo.optimization_barrier {', '.join(names)} : {text}", len(names))


declare(
    optimization_barrier_p,
    abstract=lambda *avals: list(avals),
    numpy=lambda *xs: list(xs),
    lower=_barrier_lower,
    batch=lambda args, dims: (optimization_barrier_p.bind(*args), dims),
    jvp=_barrier_jvp,
    takes_keys=True,
)


def _barrier_transpose(cts: Values, *args: Any) -> list[Any]:
    return optimization_barrier_p.bind(*map(instantiate_zeros, cts))


transpose_rules[optimization_barrier_p] = _barrier_transpose


def optimization_barrier(operand: Any) -> Any:
    """The identity on the pytree ``operand``. XLA moves no code across it, and cannot see that it is the identity."""
    leaves, tree = tree_flatten(operand)
    return tree_unflatten(tree, optimization_barrier_p.bind(*leaves))


# jaxprs print JAX's name of the primitive
remat_p = AxisPrimitive("remat2", multiple_results=True)
remat_p.keeps_signatures = False


@remat_p.def_abstract_eval
def remat_abstract(*avals: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    return jaxpr.out_avals


@remat_p.def_impl
def remat_impl(*args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    return [*map(as_value, eval_closed(jaxpr, *args))]


def _bind(closed: ClosedJaxpr, args: Values, prevent_cse: Any, params: Params) -> list[Any]:
    """Call ``closed`` with its constants as further operands; ``prevent_cse`` has flags for ``args`` alone."""
    jaxpr, consts = hoist_consts(closed)
    if isinstance(prevent_cse, tuple):
        prevent_cse = (False,) * len(consts) + prevent_cse
    return remat_p.bind(*consts, *args, jaxpr=jaxpr, prevent_cse=prevent_cse, **params)


def _select(flags: Flags, prevent_cse: Any) -> Any:
    """The entries of ``prevent_cse`` whose flag is true. A single boolean, which is for all entries, is unchanged."""
    return tuple(chosen(flags, prevent_cse)) if isinstance(prevent_cse, tuple) else prevent_cse


def remat_jvp(primals: Values, tangents: Values, *, jaxpr: ClosedJaxpr, prevent_cse: Any, **params: Any) -> Any:
    nonzero, given = nonzeros(tangents)
    jvp_of, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
    if isinstance(prevent_cse, tuple):
        prevent_cse += (True,) * len(given)
    outs = _bind(jvp_of, [*primals, *given], prevent_cse, params)
    return with_zeros(outs, nonzero_out)


def remat_batch(axis: Any, args: Values, dims: Dims, *, jaxpr: ClosedJaxpr, prevent_cse: Any, **params: Any) -> Any:
    batched, out_dims = vmap_jaxpr(jaxpr, axis, dims)
    if any(d not in (None, 0) for d in out_dims):
        batched, out_dims = vmap_jaxpr(jaxpr, axis, dims, [d is not None for d in out_dims])
    return _bind(batched, args, prevent_cse, params), out_dims


def remat_dce(eqn: JaxprEqn, used: Flags) -> JaxprEqn:
    return dce_call(eqn, used, ["prevent_cse"], [])


def nothing_saveable(*args: Any, **params: Any) -> bool:
    """The policy that saves only the inputs. ``checkpoint`` uses it by default."""
    return False


def _exact(known: ClosedJaxpr, n_res: int) -> ClosedJaxpr:
    """``known`` with its last ``n_res`` outputs, the residuals, rounded to their own precision wherever they are used.
    A fusion may keep more precision than a saved value has. Source: https://github.com/jax-ml/jax/pull/22244."""
    key = ("exact", n_res)
    if key not in known.memo:
        known.memo[key] = _round_residuals(known, n_res)
    return known.memo[key]


def _round_residuals(known: ClosedJaxpr, n_res: int) -> ClosedJaxpr:
    jaxpr = known.jaxpr
    read = {v for e in jaxpr.eqns for v in e.invars if type(v) is not Literal}
    targets = {
        v
        for v in jaxpr.outvars[len(jaxpr.outvars) - n_res :]
        if type(v) is not Literal and dtypes.is_float(v.aval.dtype) and v in read
    }
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive is reduce_precision_p or not any(v in targets for v in eqn.outvars):
            eqns.append(eqn)
            continue
        raw = [Var(v.aval) if v in targets else v for v in eqn.outvars]
        eqns.append(eqn.replace(outvars=raw))
        for x, v in safe_zip(raw, eqn.outvars):
            if v in targets:
                info = dtypes.finfo(v.aval.dtype)
                params = {"exponent_bits": info.nexp, "mantissa_bits": info.nmant}
                eqns.append(JaxprEqn(reduce_precision_p, [x], params, [v], eqn.source))
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), known.consts)


def _later_params(split: Split, prevent_cse: Any, params: Params) -> Params:
    """The parameters of the call that is the unknown part."""
    if isinstance(prevent_cse, tuple):
        prevent_cse = (True,) * split.n_res + _select(split.staged_used, prevent_cse)
    return {**params, "jaxpr": split.staged, "prevent_cse": prevent_cse, "differentiated": True}


def remat_partial_eval(trace: Any, *args: Any, jaxpr: ClosedJaxpr, prevent_cse: Any, **params: Any) -> list[Any]:
    unknown_in = [trace.is_unknown(x) for x in args]
    split = split_by_policy(jaxpr, unknown_in, params["policy"] or nothing_saveable)
    known_args = partition(unknown_in, args)[0]
    found = eval_closed(_exact(split.known, split.n_res), *chosen(split.known_used, known_args))
    known_outs, residuals = found[: len(found) - split.n_res], found[len(found) - split.n_res :]
    unknown_outs: list[Any] = []
    if any(split.unknown_out) or split.staged.eqns:
        operands = [*residuals, *chosen(split.staged_used, args)]
        unknown_outs = trace.record(remat_p, operands, _later_params(split, prevent_cse, params))
    return merge(split.unknown_out, known_outs, unknown_outs)


def remat_partial_eval_jaxpr(eqn: JaxprEqn, unknown_in: Flags) -> Any:
    params = eqn.params
    split = split_by_policy(params["jaxpr"], unknown_in, params["policy"] or nothing_saveable)
    known_in = chosen(split.known_used, partition(unknown_in, eqn.invars)[0])
    known_out, later_out = partition(split.unknown_out, eqn.outvars)
    known = _exact(split.known, split.n_res)
    residuals = [Var(a) for a in known.out_avals[len(known_out) :]]
    now = _inlined(known, known_in, [*known_out, *residuals], eqn)
    later_in = [*residuals, *chosen(split.staged_used, eqn.invars)]
    later_params = _later_params(split, params["prevent_cse"], params)
    later = JaxprEqn(remat_p, later_in, later_params, later_out, eqn.source)
    return now, [e for e in (later,) if matters(e)]


def _inlined(closed: ClosedJaxpr, ins: Values, outs: Sequence[Var], call: JaxprEqn) -> list[JaxprEqn]:
    """Inline ``closed`` with the variables ``ins`` and ``outs``. The call is kept if two outputs are equal, or if no
    equation computes one of them."""
    jaxpr = closed.jaxpr
    defined = {v for e in jaxpr.eqns for v in e.outvars}
    if len(set(jaxpr.outvars)) < len(outs) or not defined.issuperset(jaxpr.outvars) or closed.consts:
        hoisted, consts = hoist_consts(closed)
        assert not consts, "the jaxpr of a checkpoint has no constants"
        prevent_cse = call.params["prevent_cse"]
        if isinstance(prevent_cse, tuple):
            prevent_cse = (False,) * len(ins)
        params = {**call.params, "jaxpr": hoisted, "prevent_cse": prevent_cse}
        return [call.replace(invars=ins, outvars=outs, params=params)]
    env: dict[Any, Any] = dict(safe_zip(jaxpr.invars, ins))
    env.update(safe_zip(jaxpr.outvars, outs))
    eqns = []
    for e in jaxpr.eqns:
        operands = [v if type(v) is Literal else env[v] for v in e.invars]
        results = [env.setdefault(v, type(v)(v.aval)) for v in e.outvars]
        eqns.append(JaxprEqn(e.primitive, operands, e.params, results, e.source))
    return eqns


def _remat_known_params(eqn: JaxprEqn, unknown_in: Flags, split: Split) -> Params:
    prevent_cse = eqn.params["prevent_cse"]
    if isinstance(prevent_cse, tuple):
        prevent_cse = _select(split.known_used, tuple(partition(unknown_in, prevent_cse)[0]))
    return {**eqn.params, "jaxpr": split.known, "prevent_cse": prevent_cse}


recompute_rules[remat_p] = call_recompute(
    remat_p, _remat_known_params, lambda eqn, split: _later_params(split, eqn.params["prevent_cse"], eqn.params)
)


def _transposed(
    closed: ClosedJaxpr, linear: Flags, nonzero_cts: Flags, ct_avals: Values
) -> tuple[ClosedJaxpr, list[bool]]:
    """A jaxpr from known inputs and nonzero cotangents to cotangents of linear inputs, and which inputs get one.
    Unlike ``transpose_jaxpr``, it splits off the nonlinear part, also of nested calls, and recomputes it first."""
    key = ("remat_transpose", tuple(linear), tuple(nonzero_cts), tuple(ct_avals))
    if key not in closed.memo:
        known, unknown, unknown_out, n_res = partial_eval_jaxpr(closed, linear)
        n_known_out = len(known.out_avals) - n_res
        again, used = dce_jaxpr(known.jaxpr, [False] * n_known_out + [True] * n_res)
        again_closed = ClosedJaxpr(again, known.consts)
        n_known = len(known.in_avals)
        nonzero_out: list[bool] = []

        def transposed_jaxpr(*values: Any) -> list[Any]:
            residuals = eval_closed(again_closed, *chosen(used, values[:n_known]))
            given = iter(values[n_known:])
            cts = [next(given) if nz else zero_of(a) for a, nz in safe_zip(closed.out_avals, nonzero_cts)]
            args = [*residuals, *map(UndefinedPrimal, unknown.in_avals[n_res:])]
            found = backward_pass_closed(unknown, args, chosen(unknown_out, cts))[n_res:]
            nonzero_out[:], arriving = nonzeros(found)
            return arriving

        made = stage(transposed_jaxpr, [*known.in_avals, *ct_avals], closed.jaxpr.debug_name, "transpose")
        closed.memo[key] = made, nonzero_out
    return closed.memo[key]


def remat_transpose(cts: Values, *args: Any, jaxpr: ClosedJaxpr, prevent_cse: Any, **params: Any) -> list[Any]:
    linear, nonzero, known, given = call_operands(cts, args)
    transposed, arrives = _transposed(jaxpr, linear, nonzero, [get_aval(ct) for ct in given])
    if isinstance(prevent_cse, tuple):
        prevent_cse = tuple(partition(linear, prevent_cse)[0]) + (True,) * len(given)
    return operand_cotangents(args, arrives, _bind(transposed, [*known, *given], prevent_cse, params))


def remat_lower(
    ctx: Any, avals: Any, out_avals: Any, *names: str, jaxpr: ClosedJaxpr, prevent_cse: Any, **params: Any
) -> list[str]:
    guarded = prevent_cse if isinstance(prevent_cse, tuple) else (prevent_cse,) * len(names)
    operands: Names = names
    if params["differentiated"]:
        behind = _barrier_lower(ctx, chosen(guarded, avals), None, *chosen(guarded, names))
        operands = merge(guarded, partition(guarded, names)[0], behind)
        if types.sharded_types_made and ctx.module.divided:  # XLA forgets which operands are sums over devices
            operands = lazy.public("minijax.lowering.shardings", "sums_constrained")(ctx, avals, operands)
    return lower_eqns(ctx, jaxpr.jaxpr, [], operands)


set_rules(
    remat_p,
    jvp=remat_jvp,
    axis_batch=remat_batch,
    transpose=remat_transpose,
    partial_eval=remat_partial_eval,
    partial_eval_jaxpr=remat_partial_eval_jaxpr,
    dce=remat_dce,
    lower=remat_lower,
    typecheck=call_rule("jaxpr"),
)
