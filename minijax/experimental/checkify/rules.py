"""How a program is run so that what its checks find is handed from equation to equation.

``run`` binds the equations of a jaxpr and has an error beside them. A rule, ``rule(error, enabled, args, params)``,
gives the error afterwards and the results; a primitive without one is bound as it is. Programs inside of equations get
the error's arrays as inputs and results (``with_errors``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minijax import numpy as jnp
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.keys import is_key
from minijax.core.primitive import Primitive
from minijax.experimental.checkify.failures import (
    DivisionByZeroError,
    Error,
    FailedCheckError,
    Failure,
    NaNError,
    OOBError,
    Structure,
    flatten,
    in_order,
    init_error,
    kind_of,
    new_details,
    unflatten,
)
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import AxisData, axis_rules, bdim_at_front
from minijax.ir.evaluate import eval_by
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.ir.pretty import hide, pp_rules
from minijax.lax import select_n
from minijax.lowering.lower import lowering_rules
from minijax.ops.call import jit_p
from minijax.ops.checkpoint import remat_p
from minijax.ops.cond import cond_p
from minijax.ops.custom_jvp import custom_jvp_call_p
from minijax.ops.custom_vjp import custom_vjp_call_p
from minijax.ops.dynamic import dynamic_slice_p, dynamic_update_slice_p
from minijax.ops.elementwise import div_p
from minijax.ops.index import gather_p
from minijax.ops.scan import scan_p
from minijax.ops.scatter import scatter_add_p, scatter_max_p, scatter_min_p, scatter_mul_p, scatter_p
from minijax.ops.while_loop import while_p

Enabled = frozenset[type]
Checked = tuple[Error, list[Any]]
Rule = Callable[[Error, Enabled, Sequence[Any], dict[str, Any]], Checked]
error_rules: dict[Primitive, Rule] = {}

# ------------------------------------------------------------------------------------------------ one failure


def merged(error: Error, kind: Failure, pred: Any, code: Any, payload: list[Any], details: dict[int, Any]) -> Error:
    """``error`` with a failure more, which counts unless there has been one of this kind."""
    known = kind in error.preds
    before, code_before = (error.preds[kind], error.codes[kind]) if known else (np.bool_(False), -1)
    any_failed, first = jnp.logical_or(before, pred), select_n(before, code, code_before)
    if known:
        payload = [select_n(before, new, old) for new, old in zip(payload, error.payloads[kind], strict=True)]
    return error.updated(kind, any_failed, first, payload, details)


def failing(error: Error, cls: type, pred: Any, payload: Any, *details: Any) -> Error:
    """``error`` with a failure of class ``cls`` more, if ``pred`` holds."""
    code, made = new_details(cls, *details)
    return merged(error, kind_of(cls, payload), pred, code, list(payload), made)


def with_kinds(error: Error, kinds: Iterable[Failure]) -> Error:
    """``error`` with all of ``kinds``, of which there are no failures if it has not got them."""
    for kind in kinds:
        if kind not in error.preds:
            payload = [jnp.ones(a.shape, a.dtype) for a in kind.payload_avals]
            error = error.updated(kind, np.bool_(False), -1, payload, {})
    return error


# ------------------------------------------------------------------------------------------------ programs


def run(closed: ClosedJaxpr, error: Error, enabled: Enabled, args: Sequence[Any]) -> Checked:
    """The error and the results of ``closed`` on ``args``."""

    def run_eqn(eqn: JaxprEqn, env: dict[Var, Any]) -> None:
        nonlocal error
        operands = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
        rule = error_rules.get(eqn.primitive)
        if rule is not None:
            error, outs = rule(error, enabled, operands, eqn.params)
        else:
            bound = eqn.primitive.bind(*operands, **eqn.params)
            outs = bound if eqn.primitive.multiple_results else [bound]
            if NaNError in enabled and eqn.primitive.name in _MAY_GIVE_NAN:
                error = nan_check(error, eqn.primitive.name, outs)
        env.update(zip(eqn.outvars, outs, strict=True))

    found = eval_by(run_eqn, closed, args)
    return error, found


def with_errors(closed: ClosedJaxpr, enabled: Enabled, error: Error) -> tuple[ClosedJaxpr, Structure]:
    """The program that takes the arrays of an error like ``error`` first and gives those of its own error first.

    Also the structure of that. Made once for each structure, and kept with ``closed``.
    """
    leaves, structure = flatten(error)
    key = ("checkify", enabled, structure.kinds)
    if key not in closed.memo:
        avals = list(map(get_aval, leaves))
        found: list[Structure] = []

        def checked(*values: Any) -> list[Any]:
            inner = unflatten(Structure(structure.kinds, ()), values[: len(leaves)])
            after, outs = run(closed, inner, enabled, values[len(leaves) :])
            after_leaves, after_structure = flatten(after)
            found.append(after_structure)
            if after_structure.kinds == structure.kinds:  # as what is carried through a loop, and given by branches
                after_leaves = _typed(after_leaves, after_structure)
            return [*after_leaves, *outs]

        made = stage(checked, [*avals, *closed.in_avals], closed.jaxpr.debug_name, "checkify")
        closed.memo[key] = made, found[-1]
    return closed.memo[key]


def _typed(leaves: list[Any], structure: Structure) -> list[Any]:
    """The arrays of an error in the types that its kinds say, so that they can be carried through a loop."""
    n = len(structure.kinds)
    wanted = [a for kind in structure.kinds for a in kind.payload_avals]
    return [
        *[jnp.asarray(x, np.bool_) for x in leaves[:n]],
        *[jnp.asarray(x, np.int32) for x in leaves[n : 2 * n]],
        *[jnp.asarray(x, a.dtype) for x, a in zip(leaves[2 * n :], wanted, strict=True)],
    ]


def _kinds(closed: ClosedJaxpr, enabled: Enabled) -> tuple[Failure, ...]:
    """The kinds of failures that a program can have of itself."""
    return with_errors(closed, enabled, init_error)[1].kinds


def _entering(error: Error, enabled: Enabled, programs: Sequence[ClosedJaxpr]) -> Checked:
    """``error`` with the kinds of all ``programs``, which then keep its structure; and its arrays."""
    error = with_kinds(error, in_order({k for closed in programs for k in _kinds(closed, enabled)}))
    leaves, structure = flatten(error)
    leaves = _typed(leaves, structure)
    return unflatten(structure, leaves), leaves


def _leaving(error: Error, structures: Sequence[Structure], outs: Sequence[Any]) -> Checked:
    """The error and the results in what a call gave, whose programs' details are among ``structures``."""
    details = dict(error.details)
    for structure in structures:
        details.update(structure.details)
    kinds = structures[0].kinds
    n = sum(2 + len(kind.payload_avals) for kind in kinds)
    return unflatten(Structure(kinds, tuple(details.items())), outs[:n]), list(outs[n:])


def jit_check(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
    leaves, _ = flatten(error)
    closed, structure = with_errors(params["jaxpr"], enabled, error)
    donated = (False,) * len(leaves) + tuple(params.get("donated_invars", ()))
    given = {**params, "jaxpr": closed, "donated_invars": donated}
    return _leaving(error, [structure], jit_p.bind(*leaves, *args, **given))


def remat_check(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
    leaves, _ = flatten(error)
    closed, structure = with_errors(params["jaxpr"], enabled, error)
    prevent = params["prevent_cse"]
    if isinstance(prevent, tuple):
        prevent = (False,) * len(leaves) + prevent
    outs = remat_p.bind(*leaves, *args, **{**params, "jaxpr": closed, "prevent_cse": prevent})
    return _leaving(error, [structure], outs)


def cond_check(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
    error, leaves = _entering(error, enabled, params["branches"])
    made = [with_errors(branch, enabled, error) for branch in params["branches"]]
    index, *operands = args
    given = {**params, "branches": tuple(closed for closed, _ in made)}
    outs = cond_p.bind(index, *leaves, *operands, **given)
    return _leaving(error, [structure for _, structure in made], outs)


def scan_check(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
    """The error is carried, in front of what else is."""
    error, leaves = _entering(error, enabled, [params["jaxpr"]])
    closed, structure = with_errors(params["jaxpr"], enabled, error)
    n, k = params["num_consts"], len(leaves)
    ins = closed.jaxpr.invars
    body = _with_inputs(closed, [*ins[k : k + n], *ins[:k], *ins[k + n :]])
    given = {**params, "jaxpr": body, "num_carry": params["num_carry"] + k}
    return _leaving(error, [structure], scan_p.bind(*args[:n], *leaves, *args[n:], **given))


def while_check(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
    """The condition is checked before the loop, and at the end of each round for the next one."""
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    n, m = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts, carry = args[:n], args[n : n + m], args[n + m :]
    error, _ = _entering(error, enabled, [cond, body])
    structures: list[Structure] = []
    if _kinds(cond, enabled):
        error, _ = run(cond, error, enabled, [*cond_consts, *carry])
    error, leaves = _entering(error, enabled, [cond, body])
    k = len(leaves)

    def checked(*values: Any) -> list[Any]:
        for_cond, for_body, rest = values[:n], values[n : n + m], values[n + m :]
        inner = unflatten(Structure(flatten(error)[1].kinds, ()), rest[:k])
        after, outs = run(body, inner, enabled, [*for_body, *rest[k:]])
        if _kinds(cond, enabled):
            after, _ = run(cond, after, enabled, [*for_cond, *outs])
        after_leaves, structure = flatten(after)
        structures.append(structure)
        return [*_typed(after_leaves, structure), *outs]

    avals = [get_aval(x) for x in (*cond_consts, *body_consts, *leaves)]
    made = stage(checked, [*avals, *body.in_avals[m:]], body.jaxpr.debug_name, "checkify")
    condition = _unchecked(cond)
    ins = condition.jaxpr.invars
    ignoring = [*ins[:n], *_variables(leaves), *ins[n:]]
    given = {
        "cond_jaxpr": ClosedJaxpr(condition.jaxpr.replace(invars=ignoring), condition.consts),
        "body_jaxpr": made,
        "body_nconsts": n + m,
    }
    outs = while_p.bind(*cond_consts, *cond_consts, *body_consts, *leaves, *carry, **{**params, **given})
    return _leaving(error, structures[-1:], outs)


def custom_check(primitive: Primitive) -> Rule:
    """Of a call with a derivative rule of its own: the call stays, for that; what it does is checked beside it."""

    def rule(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
        closed = params["call_jaxpr"]
        error, _ = run(closed, error, enabled, args)
        return error, primitive.bind(*args, **{**params, "call_jaxpr": _unchecked(closed)})

    return rule


def _variables(values: Sequence[Any]) -> list[Any]:
    """An input for each of ``values``, which nothing reads."""
    return stage(lambda *xs: (), [get_aval(x) for x in values]).jaxpr.invars


def _with_inputs(closed: ClosedJaxpr, invars: list[Any]) -> ClosedJaxpr:
    key = ("checkify inputs", len(invars))
    if key not in closed.memo:
        closed.memo[key] = ClosedJaxpr(closed.jaxpr.replace(invars=invars), closed.consts)
    return closed.memo[key]


def _unchecked(closed: ClosedJaxpr) -> ClosedJaxpr:
    """``closed`` without the user's checks, which were made elsewhere."""
    if not _has_checks(closed.jaxpr):
        return closed
    if "unchecked" not in closed.memo:
        run_unchecked = lambda *xs: run(closed, init_error, frozenset(), xs)[1]  # noqa: E731
        closed.memo["unchecked"] = stage(run_unchecked, closed.in_avals, closed.jaxpr.debug_name, "checkify")
    return closed.memo["unchecked"]


def _has_checks(jaxpr: Jaxpr) -> bool:
    return any(eqn.primitive is check_p or any(map(_has_checks, subjaxprs(eqn.params))) for eqn in jaxpr.eqns)


error_rules[jit_p] = jit_check
error_rules[remat_p] = remat_check
error_rules[cond_p] = cond_check
error_rules[scan_p] = scan_check
error_rules[while_p] = while_check
error_rules[custom_jvp_call_p] = custom_check(custom_jvp_call_p)
error_rules[custom_vjp_call_p] = custom_check(custom_vjp_call_p)

# ------------------------------------------------------------------------------------------------ NaN, zero, bounds

# What can make a NaN of numbers; JAX's table.
_MAY_GIVE_NAN = frozenset(
    "acos acosh add asin asinh atan2 atan atanh bessel_i0e bessel_i1e cbrt conv_general_dilated cos cosh cumlogsumexp "
    "cummax cummin cumprod cumsum digamma div dot_general erf_inv erf erfc exp expm1 fft igamma_grad_a igamma igammac "
    "integer_pow lgamma custom_linear_solve log1p log logistic mul pad pow psum reduce reduce_prod reduce_sum "
    "reduce_window reduce_window_sum regularized_incomplete_beta rem rng_uniform rsqrt sin sinh sqrt sub tan "
    "tanh".split()
)


def _is_nan(x: Any) -> Any:
    dtype = get_aval(x).dtype
    return np.bool_(False) if is_key(dtype) or dtype == dtypes.float0 else jnp.any(jnp.isnan(x))


def nan_check(error: Error, name: str, outs: Sequence[Any]) -> Error:
    """``error`` with a failure more if one of ``outs`` has a NaN."""
    found = _is_nan(outs[0]) if len(outs) == 1 else jnp.any(jnp.array([_is_nan(x) for x in outs]))
    return failing(error, NaNError, found, (), name)


def div_check(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
    if DivisionByZeroError in enabled:
        error = failing(error, DivisionByZeroError, jnp.any(jnp.equal(args[1], 0)), ())
    outs = [div_p.bind(*args, **params)]
    return (nan_check(error, "div", outs) if NaNError in enabled else error), outs


def _out_of_bounds(error: Error, name: str, shape: Any, mask: Any, indices: Any, axes: Sequence[int]) -> Error:
    """``error`` with a failure more if ``mask`` holds anywhere; the last dimension of ``indices`` is for ``axes``."""
    first = jnp.argmin(jnp.logical_not(mask))
    axis = jnp.array(list(axes))[jnp.unravel_index(first, get_aval(indices).shape)[-1]]
    payload = jnp.array([jnp.ravel(indices)[first], axis, jnp.array(list(shape))[axis]], dtype=np.int32)
    return failing(error, OOBError, jnp.any(mask), (payload,), name, tuple(shape))


def _block_check(primitive: Primitive, first: int) -> Rule:
    """Of a dynamic slice, whose starts are the operands from ``first`` on."""

    def rule(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
        out = primitive.bind(*args, **params)
        starts = args[first:]
        if OOBError not in enabled or not starts:
            return error, [out]
        shape = get_aval(args[0]).shape
        sizes = params["slice_sizes"] if first == 1 else get_aval(args[1]).shape
        indices = jnp.array(starts)
        mask = (indices < 0) | (indices + np.array(sizes, indices.dtype) > np.array(shape, indices.dtype))
        return _out_of_bounds(error, primitive.name, shape, mask, indices, range(len(shape))), [out]

    return rule


def _mask(indices: Any, bounds: Sequence[int]) -> Any:
    return (indices < 0) | (indices > np.array(bounds, get_aval(indices).dtype))


def gather_check(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
    out = gather_p.bind(*args, **params)
    if OOBError not in enabled:
        return error, [out]
    shape, indices = get_aval(args[0]).shape, args[1]
    axes = params["dimension_numbers"].start_index_map
    mask = _mask(indices, [shape[a] - params["slice_sizes"][a] for a in axes])
    return _out_of_bounds(error, "gather", shape, mask, indices, axes), [out]


def _scatter_check(primitive: Primitive) -> Rule:
    def rule(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
        out = primitive.bind(*args, **params)
        if OOBError not in enabled:
            return error, [out]
        shape, indices = get_aval(args[0]).shape, args[1]
        numbers = params["dimension_numbers"]
        window = iter([get_aval(args[2]).shape[d] for d in numbers.update_window_dims])
        batching = getattr(numbers, "operand_batching_dims", ())
        fixed = (*numbers.inserted_window_dims, *batching)
        sizes = [1 if d in fixed else next(window) for d in range(len(shape))]
        axes = numbers.scatter_dims_to_operand_dims
        mask = _mask(indices, [shape[a] - sizes[a] for a in axes])
        error = _out_of_bounds(error, primitive.name, shape, mask, indices, axes)
        return (nan_check(error, primitive.name, [out]) if NaNError in enabled else error), [out]

    return rule


error_rules[div_p] = div_check
error_rules[dynamic_slice_p] = _block_check(dynamic_slice_p, 1)
error_rules[dynamic_update_slice_p] = _block_check(dynamic_update_slice_p, 2)
error_rules[gather_p] = gather_check
for _scatter in (scatter_p, scatter_add_p, scatter_mul_p, scatter_min_p, scatter_max_p):
    error_rules[_scatter] = _scatter_check(_scatter)

# ------------------------------------------------------------------------------------------------ the user's checks

check_p = Primitive("check", multiple_results=True)
check_p.effectful = True
check_p.keeps_signatures = False
pp_rules[check_p] = hide("err_tree")


@check_p.def_abstract_eval
def check_abstract(*avals: ShapedArray, err_tree: Structure, debug: bool) -> list[ShapedArray]:
    return []


@check_p.def_impl
def check_impl(*leaves: Any, err_tree: Structure, debug: bool) -> list[Any]:
    if not debug:
        unflatten(err_tree, leaves).throw()
    return []


def check_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, err_tree: Structure, debug: bool) -> list[str]:
    if debug:
        return []
    raise ValueError(
        "Cannot abstractly evaluate a checkify.check which was not functionalized. This probably means you tried to "
        "stage (jit/scan/pmap/...) a `check` without functionalizing it through `checkify.checkify`. Call "
        "checkify.checkify(f), which gives the error beside f's results, or use checkify.debug_check."
    )


def check_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return check_p.bind(*primals, **params), []


def check_batch(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """The one failure that is reported: the last one."""
    fronted = [bdim_at_front(x, d, axis.size, axis.division) for x, d in zip(args, dims, strict=True)]
    error = unflatten(params["err_tree"], fronted)
    check_p.bind(*flatten(any_of(error))[0], **params)
    return [], []


def any_of(error: Error) -> Error:
    """One error of a batch of them."""
    found = error
    for kind in error.preds:
        last = jnp.argsort(error.preds[kind])[-1]
        pred, code = error.preds[kind][last], error.codes[kind][last]
        found = found.updated(kind, pred, code, [x[last] for x in error.payloads[kind]], {})
    return found


def check_transpose(cts: Any, *args: Any, **params: Any) -> list[None]:
    return [None] * len(args)


jvp_rules[check_p] = check_jvp
axis_rules[check_p] = check_batch
transpose_rules[check_p] = check_transpose
lowering_rules[check_p] = check_lower


def check_check(error: Error, enabled: Enabled, args: Sequence[Any], params: dict[str, Any]) -> Checked:
    """A user's check becomes part of the error."""
    if FailedCheckError not in enabled:
        return error, []
    own = unflatten(params["err_tree"], args)
    for kind in in_order(own.preds):
        error = merged(error, kind, own.preds[kind], own.codes[kind], own.payloads[kind], own.details)
    return error, []


error_rules[check_p] = check_check
