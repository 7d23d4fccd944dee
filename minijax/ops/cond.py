"""``cond``: runs one of several jaxprs, chosen by an index.

``cond[branches] index *operands``: all branches take the operands and have equal types, except for weak types; the
results have the types of branch 0. An index out of range selects the last branch. A transformed ``cond`` is a
``cond`` of transformed branches. If one branch has a tangent, batch axis or residual, all others get one too, so
that types agree. Only ``vmap`` with a batched index makes other operations: all branches run, and ``select_n`` chooses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import Array, as_array, get_aval, retyped
from minijax.core.avals import Avals, ShapedArray, cotangent_type, sharding_of_type
from minijax.core.keys import storage
from minijax.core.lists import chosen, merge, partition, safe_zip, split_list, spread
from minijax.core.primitive import Primitive
from minijax.core.rules import Dims, Flags, Params, Values
from minijax.core.structural import UndefinedPrimal, broadcast_in_dim_p, full, moveaxis, zeros
from minijax.core.trace import Tracer
from minijax.interpreters.evaluate import compiled_over_meshes
from minijax.interpreters.jvp import jvp_jaxpr, jvp_rules, with_zeros
from minijax.interpreters.linear_parts import linearize_jaxpr
from minijax.interpreters.named_axes import AxisPrimitive
from minijax.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr, split_now
from minijax.interpreters.program import program
from minijax.interpreters.recompute import Policy, Split, split_by_policy
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import call_operands, operand_cotangents, transpose_jaxpr, transpose_rules
from minijax.interpreters.vmap import AxisData, batching_rules, bdim_at_front, vmap_jaxpr
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var, all_eqns, keep_together, matters
from minijax.ir.typecheck import call_rule, same_type
from minijax.lowering.lower import lower_inline
from minijax.lowering.regions import block_text
from minijax.lowering.text import mlir_type
from minijax.ops.convert import stop_gradient
from minijax.ops.declare import set_rules
from minijax.ops.nary import eq_p
from minijax.ops.select import select_n_p
from minijax.ops.subjaxprs import in_front, join_consts, mapped, nonzeros

__all__ = ["cond_p"]

Branches = tuple[ClosedJaxpr, ...]

cond_p = AxisPrimitive("cond", multiple_results=True)
cond_p.keeps_signatures = False
compiled_over_meshes.add(cond_p)


@cond_p.def_abstract_eval
def cond_abstract(*avals: ShapedArray, branches: Branches) -> list[ShapedArray]:
    return branches[0].out_avals


def _any(rows: Sequence[Flags]) -> list[bool]:
    """For each column, whether any row is true."""
    return [any(column) for column in safe_zip(*rows)]


# An operation that makes a placeholder: JAX fills unused outputs of a branch with placeholders.
empty2_p = Primitive("empty2")


@empty2_p.def_abstract_eval
def empty2_abstract(*, dtype: np.dtype) -> ShapedArray:
    return ShapedArray((), dtype)


def _empty2_numpy(*, dtype: np.dtype) -> Any:
    return np.zeros((), storage(dtype))


def _empty2_lower(ctx: Any, avals: Any, out_avals: Any, *, dtype: np.dtype) -> str:
    return ctx.full(0, out_avals[0])


def _empty2_shown(eqn: JaxprEqn, printer: Any) -> Any:
    """The printed parameters. JAX prints a memory space here; minijax has only one."""
    return [("dtype", eqn.params["dtype"]), ("memory_space", "MemorySpace.Device")]


def _empty2_read(params: Params, in_avals: Any, out_avals: Any) -> Params:
    return {"dtype": params["dtype"]}


set_rules(empty2_p, lower=_empty2_lower, numpy=_empty2_numpy, shown=_empty2_shown, parse=_empty2_read)
for table in (jvp_rules, transpose_rules, batching_rules):
    table.holes[empty2_p] = "it has no operands, hence nothing to transform"


def empty_of(aval: ShapedArray) -> Any:
    """A placeholder of ``aval``'s shape and dtype, filled with zeros."""
    scalar = empty2_p.bind(dtype=aval.dtype)
    if not aval.shape:
        return scalar
    return broadcast_in_dim_p.bind(scalar, shape=aval.shape, broadcast_dimensions=(), sharding=sharding_of_type(aval))


def join_branches(closeds: Sequence[ClosedJaxpr]) -> tuple[Branches, list[Any], list[int | None]]:
    """``(branches, constants, forwards)`` of staged functions.
    For each result, ``forwards`` has the number of the input that all branches copy to it, or None."""
    if any(isinstance(const, Tracer) for closed in closeds for const in closed.consts):
        return _join_branches(closeds)  # not cached: the constants are tracers of one run
    return keep_together(closeds, "cond join", lambda: _join_branches(closeds))


def _join_branches(closeds: Sequence[ClosedJaxpr]) -> tuple[Branches, list[Any], list[int | None]]:
    branches, consts = join_consts(closeds)
    forwards = [row[0] if len(set(row)) == 1 else None for row in safe_zip(*map(_forwarded, branches))]
    if any(f is not None for f in forwards):
        remaining = {c: ClosedJaxpr(c.jaxpr.replace(outvars=_where(c.jaxpr.outvars, forwards))) for c in branches}
        branches = tuple(remaining[c] for c in branches)
    return branches, consts, forwards


def _forwarded(closed: ClosedJaxpr) -> list[int | None]:
    """For each output, the number of the input that it copies, or None."""
    position = {v: i for i, v in enumerate(closed.jaxpr.invars)}
    return [None if type(v) is Literal else position.get(v) for v in closed.jaxpr.outvars]


def _where(outvars: Values, forwards: Dims) -> list[Any]:
    return [v for v, f in safe_zip(outvars, forwards) if f is None]


def _completed(closed: ClosedJaxpr, outs: Values, avals: Avals, fill: Any) -> ClosedJaxpr:
    """``closed`` with the outputs ``outs``. Each None becomes ``fill`` of the type at its place in ``avals``."""
    jaxpr = closed.jaxpr
    missing = [aval for atom, aval in safe_zip(outs, avals) if atom is None]
    filler = stage(lambda: list(map(fill, missing)), [], label="cond").jaxpr
    found = iter(filler.outvars)
    whole = [next(found) if atom is None else atom for atom in outs]
    return ClosedJaxpr(jaxpr.replace(outvars=whole, eqns=[*jaxpr.eqns, *filler.eqns]), closed.consts)


def _branch(index: Any, branches: Branches) -> ClosedJaxpr:
    position = int(index)
    return branches[position if 0 <= position < len(branches) else -1]


@cond_p.def_impl
def cond_impl(index: Any, *operands: Any, branches: Branches) -> list[Any]:
    chosen = _branch(as_array(index), branches)
    return [*map(_typed, eval_closed(chosen, *operands), branches[0].out_avals)]


def _typed(x: Any, aval: ShapedArray) -> Any:
    """Convert ``x``, the result of a branch, to type ``aval``. ``x`` may be a number, or have another weak type."""
    if type(x) is Array and x.aval is aval:
        return x
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return retyped(as_array(x), aval)


def _cond_program(*, branches: Branches) -> Any:
    """The NumPy function of a cond (see ``interpreters.program``), with the weight of its heaviest branch."""
    programs = [program(branch) for branch in branches]
    last = len(programs) - 1

    def chosen(index: Any, *values: Any) -> Values:
        return programs[index if 0 <= index <= last else last].function(*values)

    return chosen, 1 + max(p.weight for p in programs)


def cond_jvp(primals: Values, tangents: Values, *, branches: Branches) -> Any:
    nonzero, given = nonzeros(tangents[1:])
    out_nonzero = _any([jvp_jaxpr(branch, nonzero)[1] for branch in branches])
    pushed = tuple(
        closed if found == out_nonzero else jvp_jaxpr(branch, nonzero, out_nonzero)[0]
        for branch in branches
        for closed, found in [jvp_jaxpr(branch, nonzero)]
    )
    outs = cond_p.bind(*primals, *given, branches=pushed)
    return with_zeros(outs, out_nonzero)


def cond_batch(axis: AxisData, args: Values, dims: Dims, *, branches: Branches) -> Any:
    if any(e.primitive.name == "io_callback" for branch in branches for e in all_eqns(branch.jaxpr)):
        raise NotImplementedError(
            "IO effect not supported in vmap-of-cond: a branch has an io_callback. Call it outside of the cond, or "
            "map with lax.map."
        )
    if dims[0] is not None:
        return _batch_index(axis, args, dims, branches)
    index, *operands = args
    front = [x if d is None else moveaxis(x, d, 0) for x, d in safe_zip(operands, dims[1:])]
    in_dims = [None if d is None else 0 for d in dims[1:]]
    found = [vmap_jaxpr(branch, axis, in_dims) for branch in branches]
    batched = _any([mapped(out_dims) for _, out_dims in found])
    out_dims = in_front(batched)
    whole = tuple(
        closed if own == out_dims else vmap_jaxpr(branch, axis, in_dims, batched)[0]
        for branch, (closed, own) in safe_zip(branches, found)
    )
    return cond_p.bind(index, *front, branches=whole), out_dims


def _batch_index(axis: AxisData, args: Values, dims: Dims, branches: Branches) -> Any:
    """Run every branch on all elements and select among their results."""
    index, *operands = [bdim_at_front(x, d, axis.size, axis.division) for x, d in safe_zip(args, dims)]
    in_dims = [0] * len(operands)
    outs = []
    for i, branch in enumerate(branches):
        batched, _ = vmap_jaxpr(branch, axis, in_dims, True)
        mine = eq_p.bind(index, full((), i, get_aval(index).dtype))
        # A branch may have an infinite or nan derivative at elements for which another branch is selected, and zero
        # times infinity is nan. So each branch takes these elements as constants.
        # Source: https://github.com/jax-ml/jax/issues/1052
        guarded = [_select(mine, stop_gradient(x), x) for x in operands]
        outs.append(eval_closed(batched, *guarded))
    return [_select(index, *cases) for cases in safe_zip(*outs)], [0] * len(branches[0].out_avals)


def _select(which: Any, *cases: Any) -> Any:
    """``select_n`` with the vector ``which`` as the selector: a number for each index of the first axis."""
    shape = get_aval(cases[0]).shape
    if len(shape) > 1:
        which = broadcast_in_dim_p.bind(which, shape=shape, broadcast_dimensions=(0,), sharding=None)
    return select_n_p.bind(which, *cases)


def cond_partial_eval_jaxpr(eqn: JaxprEqn, unknown_in: Flags) -> Any:
    index_unknown, *unknown = unknown_in
    if index_unknown:
        return [], [eqn]
    branches = eqn.params["branches"]
    key = ("cond split", tuple(unknown))
    known, later, unknown_out = keep_together(branches, key, lambda: _split(branches, unknown))
    unknown_args = chosen(unknown, eqn.invars[1:])
    return _two_eqns(eqn, unknown, known, later, unknown_out, unknown_args, chosen(unknown_out, eqn.outvars))


def _two_eqns(
    eqn: JaxprEqn,
    unknown: Flags,
    known: Branches,
    later: Branches,
    unknown_out: Flags,
    later_in: Values,
    results: list[Any],
) -> Any:
    """The equations of the ``known`` and of the ``later`` branches. The later equation computes ``results``."""
    index, *operands = eqn.invars
    known_out = partition(unknown_out, eqn.outvars)[0]
    residuals = [Var(aval) for aval in known[0].out_avals[len(known_out) :]]
    known_in = partition(unknown, operands)[0]
    now = JaxprEqn(cond_p, [index, *known_in], {"branches": known}, [*known_out, *residuals], eqn.source)
    then = JaxprEqn(cond_p, [index, *residuals, *later_in], {"branches": later}, results, eqn.source)
    return ([now] if matters(now) else []), [then]


def _split(branches: Branches, unknown: Flags) -> tuple[Branches, Branches, list[bool]]:
    """The known and the unknown part of each branch, and which outputs are unknown in at least one branch."""
    parts = [partial_eval_jaxpr(branch, unknown) for branch in branches]
    unknown_out = _any([part[2] for part in parts])
    parts = [
        part if part[2] == unknown_out else partial_eval_jaxpr(branch, unknown, unknown_out)
        for branch, part in safe_zip(branches, parts)
    ]
    known, later = _join_residuals([(first, second, n_res) for first, second, _, n_res in parts])
    return known, later, unknown_out


def _join_residuals(parts: Sequence[tuple[ClosedJaxpr, ClosedJaxpr, int]]) -> tuple[Branches, Branches]:
    """Give all branches the same residuals. ``parts`` has ``(known, later, number of residuals)`` for each branch.
    Residuals are the last outputs of a known jaxpr and the first inputs of a later one. Residuals of equal type in
    different branches share a place."""
    places: dict[Any, int] = {}  # (type, number of earlier residuals of that type in the branch) -> place
    positions: list[list[int]] = []
    for known, _, n_res in parts:
        seen: Counter[ShapedArray] = Counter()
        mine = []
        for aval in known.out_avals[len(known.out_avals) - n_res :]:
            mine.append(places.setdefault((aval, seen[aval]), len(places)))
            seen[aval] += 1
        positions.append(mine)
    avals = [aval for aval, _ in places]
    producers, consumers = [], []
    for (known, later, n_res), mine in safe_zip(parts, positions):
        outs, invars = known.jaxpr.outvars, later.jaxpr.invars
        n_out = len(outs) - n_res
        atoms: list[Any] = [None] * len(avals)
        variables: list[Any] = [Var(aval) for aval in avals]
        for place, atom, var in safe_zip(mine, outs[n_out:], invars[:n_res]):
            atoms[place], variables[place] = atom, var
        producers.append(_with_residuals(known, outs[:n_out], atoms, avals))
        consumers.append(ClosedJaxpr(later.jaxpr.replace(invars=[*variables, *invars[n_res:]]), later.consts))
    return tuple(producers), tuple(consumers)


def _with_residuals(closed: ClosedJaxpr, outs: Values, atoms: Values, avals: Avals) -> ClosedJaxpr:
    """``closed`` with ``outs`` and the residuals ``atoms`` as outputs. Placeholders of types ``avals`` replace None."""
    filler = stage(lambda: list(map(empty_of, avals)), [], label="cond").jaxpr
    residuals = [empty if atom is None else atom for atom, empty in safe_zip(atoms, filler.outvars)]
    jaxpr = closed.jaxpr.replace(outvars=[*outs, *residuals], eqns=[*closed.eqns, *filler.eqns])
    return ClosedJaxpr(jaxpr, closed.consts)


def cond_recompute(eqn: JaxprEqn, unknown_in: Flags, policy: Policy) -> Any:
    """Partial evaluation by a checkpoint policy. Values that the policy saves are residuals, others are recomputed."""
    index_unknown, *unknown = unknown_in
    if index_unknown:
        return [], [eqn]
    branches = eqn.params["branches"]
    splits = [split_by_policy(branch, unknown, policy, recompute_outputs=True) for branch in branches]
    unknown_out = _any([split.unknown_out for split in splits])
    later_out = _any([unknown_out, *[split.staged_out for split in splits]])
    parts = [_whole_parts(b, unknown, s, unknown_out, later_out) for b, s in safe_zip(branches, splits)]
    known, later = _join_residuals(parts)
    results = chosen(later_out, eqn.outvars)
    now, then = _two_eqns(eqn, unknown, known, later, unknown_out, eqn.invars[1:], results)
    return now, then if results else []


def _whole_parts(
    branch: ClosedJaxpr, unknown: Flags, split: Split, unknown_out: Flags, later_out: Flags
) -> tuple[ClosedJaxpr, ClosedJaxpr, int]:
    """The known and the later part of a branch that a policy has split, both with all their inputs; and the number
    of residuals. Known outputs that ``later_out`` includes are also residuals."""
    known, staged = split.known.jaxpr, split.staged.jaxpr
    known_in = [Var(aval) for aval in partition(unknown, branch.in_avals)[0]]
    all_in = [Var(aval) for aval in branch.in_avals]
    n_known = len(known.outvars) - split.n_res
    own_outs = iter(known.outvars[:n_known])
    atoms = [None if u else next(own_outs) for u in split.unknown_out]
    staged_outs = iter(staged.outvars)
    saved: list[tuple[Any, Var]] = []
    outs: list[Any] = []
    for atom, is_staged, wanted in safe_zip(atoms, split.staged_out, later_out):
        var = next(staged_outs) if is_staged else None
        if var is None and wanted:
            assert atom is not None, "an unknown output is staged"
            var = Var(atom.aval)
            saved.append((atom, var))
        if wanted:
            outs.append(var)
    kept_out = partition(unknown_out, atoms)[0]
    now = known.replace(
        invars=merge(split.known_used, partition(split.known_used, known_in)[0], known.invars),
        outvars=[*kept_out, *known.outvars[n_known:], *[atom for atom, _ in saved]],
    )
    res_in, own_in = staged.invars[: split.n_res], staged.invars[split.n_res :]
    rest = merge(split.staged_used, partition(split.staged_used, all_in)[0], own_in)
    later = staged.replace(invars=[*res_in, *[var for _, var in saved], *rest], outvars=outs)
    return (ClosedJaxpr(now, split.known.consts), ClosedJaxpr(later, split.staged.consts), split.n_res + len(saved))


def cond_linearize(is_vjp: bool, nonzero: Flags, index: Any, *operands: Any, branches: Branches) -> Any:
    key = ("cond linearized", tuple(nonzero))
    known, linear, nonzero_out = keep_together(branches, key, lambda: _linearized(branches, nonzero[1:]))
    made = cond_p.bind(index, *operands, branches=known)
    outs, residuals = split_list(made, len(nonzero_out))

    def linear_cond(residuals: Values, *tangents: Any) -> list[Any]:
        return spread(nonzero_out, cond_p.bind(*residuals, *nonzeros(tangents)[1], branches=linear))

    return outs, nonzero_out, [index, *residuals], linear_cond


def _linearized(branches: Branches, nonzero: Flags) -> tuple[Branches, Branches, list[bool]]:
    """The known and the linear part of each branch, and which results have a tangent in at least one branch."""
    nonzero_out = _any([linearize_jaxpr(branch, nonzero).nonzero_out for branch in branches])
    parts = [linearize_jaxpr(branch, nonzero, nonzero_out) for branch in branches]
    known, linear = _join_residuals([(part.known, part.linear, part.n_res) for part in parts])
    return known, linear, nonzero_out


def cond_dce(eqn: JaxprEqn, used: Flags) -> JaxprEqn:
    branches = eqn.params["branches"]
    pruned, used_in = keep_together(branches, ("cond dce", tuple(used)), lambda: _prune(branches, used))
    if pruned is None:  # every output and input is used
        return eqn
    return eqn.replace(
        invars=[eqn.invars[0], *chosen(used_in, eqn.invars[1:])],
        outvars=chosen(used, eqn.outvars),
        params={"branches": pruned},
    )


def _prune(branches: Branches, used: Flags) -> tuple[Branches | None, list[bool]]:
    """The branches with the ``used`` outputs, and which inputs they read; None for the branches if nothing changes."""
    used_in = _any([dce_jaxpr(branch.jaxpr, used)[1] for branch in branches])
    pruned = [dce_jaxpr(branch.jaxpr, used, keep_inputs=True)[0] for branch in branches]
    if all(used_in) and all(jaxpr is branch.jaxpr for jaxpr, branch in safe_zip(pruned, branches)):
        return None, used_in
    invars = [chosen(used_in, jaxpr.invars) for jaxpr in pruned]
    parts = safe_zip(pruned, invars, branches)
    return tuple(ClosedJaxpr(jaxpr.replace(invars=v), branch.consts) for jaxpr, v, branch in parts), used_in


def cond_transpose(cts: Values, index: Any, *operands: Any, branches: Branches) -> list[Any]:
    assert type(index) is not UndefinedPrimal, "cond is not linear in its index"
    linear, nonzero, known, given = call_operands(cts, operands)
    ct_avals = [get_aval(ct) for ct in given]
    transposed, arrives = keep_together(
        branches,
        ("cond transpose", tuple(linear), tuple(nonzero), tuple(ct_avals)),
        lambda: _transpose(branches, linear, nonzero, ct_avals),
    )
    found = cond_p.bind(index, *known, *given, branches=transposed) if any(arrives) else ()
    return [None, *operand_cotangents(operands, arrives, found)]


def _transpose(branches: Branches, linear: Flags, nonzero: Flags, ct_avals: Avals) -> tuple[Branches, list[bool]]:
    """The transposed branches, and which linear inputs get a cotangent in at least one branch."""
    parts = [transpose_jaxpr(branch, linear, nonzero, ct_avals) for branch in branches]
    arrives = _any([part[1] for part in parts])
    all_avals = chosen(linear, branches[0].in_avals)
    avals = [*map(cotangent_type, chosen(arrives, all_avals))]
    whole = []
    for closed, own in parts:
        outs = iter(closed.jaxpr.outvars)
        atoms = [next(outs) if mine else None for mine, some in safe_zip(own, arrives) if some]
        whole.append(closed if own == arrives else _completed(closed, atoms, avals, zeros))
    return tuple(whole), arrives


def cond_lower(ctx: Any, avals: Any, out_avals: Avals, index: str, *operands: str, branches: Branches) -> list[str]:
    """``stablehlo.case``: its regions take no arguments and read the surrounding values."""
    ordered = any(e.params.get("ordered") for branch in branches for e in all_eqns(branch.jaxpr))
    types = [mlir_type(a) for a in out_avals]
    start = None
    if ordered:
        start = ctx.token or ctx.emit("stablehlo.create_token : !stablehlo.token")
        types.insert(0, "!stablehlo.token")

    def region(branch: ClosedJaxpr) -> str:
        def build(inner: Any) -> list[str]:
            inner.token = start
            outs = lower_inline(inner, branch, operands)
            return [inner.token, *outs] if ordered else outs

        return block_text(ctx, [], build, types)

    regions = ", ".join(map(region, branches))
    results = f"({', '.join(types)})"
    names: list[str] = ctx.emit_many(f'"stablehlo.case"({index}) ({regions}) : (tensor<i32>) -> {results}', len(types))
    if ordered:
        ctx.token = names.pop(0)
    return names


def cond_typecheck(in_avals: tuple[ShapedArray, ...], params: Params) -> Avals:
    branches = params["branches"]
    if type(branches) is not tuple or not branches or not all(type(b) is ClosedJaxpr for b in branches):
        raise TypeError(f"cond requires a tuple of at least one ClosedJaxpr as its branches, got {branches!r}")
    first = branches[0]
    for i, branch in enumerate(branches[1:], 1):
        for what, mine, other in (
            ("input", first.in_avals, branch.in_avals),
            ("output", first.out_avals, branch.out_avals),
        ):
            if len(mine) != len(other):
                raise TypeError(f"cond branch 0 has {len(mine)} {what}s, branch {i} has {len(other)}")
            if not all(map(same_type, mine, other)):
                raise TypeError(
                    f"cond branches 0 and {i} have mismatching {what} types: {_short(mine)} vs {_short(other)}"
                )
    if not in_avals or in_avals[0] is not _INDEX:
        found = in_avals[0].str_short() if in_avals else "nothing"
        raise TypeError(f"cond called with index of type {found} instead of i32[]")
    return _check_operands(in_avals[1:], {"jaxpr": first})


_INDEX = ShapedArray((), np.dtype(np.int32))
_check_operands = call_rule("jaxpr")


def _short(avals: Avals) -> str:
    return " ".join(aval.str_short() for aval in avals)


set_rules(
    cond_p,
    jvp=cond_jvp,
    linearize=cond_linearize,
    axis_batch=cond_batch,
    transpose=cond_transpose,
    partial_eval=split_now(cond_p),
    partial_eval_jaxpr=cond_partial_eval_jaxpr,
    dce=cond_dce,
    recompute=cond_recompute,
    lower=cond_lower,
    typecheck=cond_typecheck,
    program=_cond_program,
)
