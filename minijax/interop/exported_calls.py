"""Export rules, ``rule(eqn, operands) -> results``, for equations with programs. The rules call JAX's functions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import dtypes
from minijax.core.lists import split_list
from minijax.core.records import Frozen
from minijax.core.shardings import Sharding
from minijax.core.varying import current_mesh, is_checked, manual_axes
from minijax.errors import UnexpectedTracerError
from minijax.interop.effects import JaxCallback
from minijax.interop.exported import ExportRule, eval_by_jax, export_rules, jax_closed, named
from minijax.interop.nested_programs import ImportedPolicy
from minijax.interop.programs import jax_primitive, our_primitives
from minijax.interop.values import (
    aval_of,
    from_jax_value,
    jax_module,
    mesh_for_jax,
    sharding_for_jax,
    spec_for_jax,
    spec_of,
    to_jax_value,
)
from minijax.interpreters import recompute
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn
from minijax.ops.callback import ORDERED
from minijax.ops.custom_derivatives import Closed, closed_over_message
from minijax.ops.meshes.shard_map import on_each_device
from minijax.pytree import tree_unflatten


def _function(closed: ClosedJaxpr, name: str) -> Callable[..., Any]:
    """The program as a function of JAX's arrays: the same object each time, so that JAX traces it once."""
    key = ("function of jax", name)
    if key not in closed.memo:
        closed.memo[key] = named(lambda *args: eval_by_jax(closed, *args), name)
    found: Callable[..., Any] = closed.memo[key]
    return found


def export_jit(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    closed, name = eqn.params["jaxpr"], eqn.params["name"]
    options = {key: eqn.params[key] for key in ("keep_unused", "inline") if eqn.params.get(key)}
    for which in ("in_shardings", "out_shardings"):
        if which in eqn.params:
            shardings = [sharding_for_jax(s) if isinstance(s, Sharding) else None for s in eqn.params[which]]
            options[which] = tuple(shardings) if which == "in_shardings" else shardings
    key = ("jitted by jax", name, *options, eqn.params.get("in_shardings"), eqn.params.get("out_shardings"))
    if key not in closed.memo:
        closed.memo[key] = jax_module().jit(_function(closed, name), **options)
    outs: list[Any] = closed.memo[key](*operands)
    return outs


def export_sharding_constraint(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    return [jax_module("lax").with_sharding_constraint(operands[0], sharding_for_jax(eqn.params["sharding"]))]


def _with_programs(*names: str) -> Any:
    """The rule for a primitive that JAX also has, with the same params. The params ``names`` hold programs."""

    def rule(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
        params = dict(eqn.params)
        for name in names:
            value = params[name]
            params[name] = tuple(map(jax_closed, value)) if isinstance(value, tuple) else jax_closed(value)
        return list(jax_primitive(eqn.primitive).bind(*operands, **params))

    return rule


def export_linear_solve(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    *consts, b = split_list(operands, *lengths)

    def closing(closed: Any, own: Sequence[Any]) -> Any:
        return None if closed is None else lambda *xs: eval_by_jax(closed, *own, *xs)

    matvec, vecmat, solve, transpose_solve = map(closing, jaxprs, consts)
    n = len(b)

    def solving(inner: Any) -> Any:
        def of(_: Any, rhs: Any) -> Any:
            outs = inner(*rhs)
            return (outs[:n], outs[n:])

        return None if inner is None else of

    found = jax_module("lax").custom_linear_solve(
        lambda xs: matvec(*xs),
        b,
        solving(solve),
        solving(transpose_solve),
        symmetric=jaxprs.matvec is jaxprs.vecmat,
        has_aux=True,  # there may be no auxiliary results
    )
    return list(itertools.chain(*found))


def export_checkpoint(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    params = {**eqn.params, "policy": policy_for_jax(eqn.params["policy"]), "jaxpr": _opened(eqn.params["jaxpr"])}
    return list(jax_primitive(eqn.primitive).bind(*operands, **params))


def _opened(closed: ClosedJaxpr) -> Any:
    found = jax_closed(closed)
    assert not found.consts
    return found.jaxpr


def policy_for_jax(policy: Any) -> Any:
    """JAX's checkpoint policy for a minijax policy."""
    if policy is None:
        return None
    if isinstance(policy, ImportedPolicy):
        return policy.theirs
    policies = jax_module().checkpoint_policies
    kind = type(policy).__name__
    if kind == "DotsSaveable":
        return policies.dots_with_no_batch_dims_saveable if policy.only_if_no_batch_dims else policies.dots_saveable
    if kind == "SaveOnlyTheseNames":
        return policies.save_only_these_names(*policy.saveable_names)
    if kind == "SaveAnyNamesButThese":
        return policies.save_any_names_but_these(*policy.names)
    return getattr(policies, getattr(policy, "__name__", ""), None) or ExportedPolicy(policy)


class ExportedPolicy(Frozen):
    """A checkpoint policy for JAX. It calls ``ours``, a policy for minijax, with minijax's primitives and types."""

    ours: Callable[..., Any]

    def __call__(self, primitive: Any, *avals: Any, **params: Any) -> Any:
        """Convert the policy's answer to one that JAX accepts."""
        answer = self.ours(our_primitives().get(primitive.name, primitive), *map(aval_of, avals), **params)
        kind: Any = answer if isinstance(answer, type) else type(answer)
        return {recompute.Saveable: True, recompute.Recompute: False}.get(kind, answer)


def _evaluated(staged: Closed, values: Sequence[Any]) -> list[Any]:
    """Evaluate a staged minijax rule on JAX's values."""
    return eval_by_jax(staged.jaxpr, *map(to_jax_value, staged.consts), *values)


def _zeros(tangents: Sequence[Any]) -> tuple[bool, ...]:
    """Mark the (co)tangents that are zero for JAX: symbolic zeros, and those of integers."""
    symbolic = jax_module("custom_derivatives").SymbolicZero
    return tuple([isinstance(t, symbolic) or t.dtype == dtypes.float0 for t in tangents])


def _nonzero(tangents: Sequence[Any], zeros: Sequence[bool]) -> list[Any]:
    return [t for t, zero in zip(tangents, zeros, strict=True) if not zero]


def _closed_over(eqn: JaxprEqn, perturbed: Sequence[bool], kind: str) -> int:
    """Count the closed-over operands. UnexpectedTracerError if one is differentiated: the custom rule ignores them."""
    n: int = eqn.params["num_consts"]
    if any(perturbed[:n]):
        raise UnexpectedTracerError(closed_over_message(eqn.params["call_jaxpr"].jaxpr.debug_name, kind))
    return n


def _there(rule: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Give ``rule``, which JAX calls later, its ``name``, and let it run inside the current ``shard_map``."""
    mesh, axes = current_mesh(), manual_axes()
    checked = is_checked(axes)

    def run(*args: Any) -> Any:
        if mesh is None:
            return rule(*args)
        with on_each_device(mesh, axes, checked):
            return rule(*args)

    run.__name__ = name
    return run


def export_custom_jvp(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    jax = jax_module()
    closed, rule = eqn.params["call_jaxpr"], eqn.params["jvp_jaxpr_fun"]
    symbolic = eqn.params["symbolic_zeros"] or bool(eqn.params["num_consts"])

    def jvp(primals: Any, tangents: Any) -> Any:
        zeros = _zeros(tangents)
        n = _closed_over(eqn, [not zero for zero in zeros], "jvp")
        zeros, tangents = zeros[n:], tangents[n:]
        given = [a.to_tangent_aval() for a, zero in zip(closed.in_avals[n:], zeros, strict=True) if not zero]
        staged = rule.close(zeros, [*closed.in_avals, *given])
        results = _evaluated(staged, [*primals, *_nonzero(tangents, zeros)])
        outs, nonzero = results[: len(staged.side)], iter(results[len(staged.side) :])
        zero_of = functools.partial(jax.custom_derivatives.zero_from_primal, symbolic_zeros=symbolic)
        return outs, [zero_of(x) if zero else next(nonzero) for x, zero in zip(outs, staged.side, strict=True)]

    fun = jax.custom_jvp(_function(closed, closed.jaxpr.debug_name))
    fun.defjvp(_there(jvp, rule.about.name), symbolic_zeros=symbolic)
    return list(fun(*operands))


def export_custom_vjp(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    jax = jax_module()
    closed, forward, backward = (eqn.params[key] for key in ("call_jaxpr", "fwd_jaxpr_thunk", "bwd"))
    symbolic = eqn.params["symbolic_zeros"] or bool(eqn.params["num_consts"])

    def fwd(*args: Any) -> Any:
        perturbed = [x.perturbed for x in args] if symbolic else []
        n = _closed_over(eqn, perturbed, "vjp")
        staged = forward.close(tuple(perturbed[n:]) if eqn.params["symbolic_zeros"] else None, closed.in_avals)
        results = _evaluated(staged, [x.value for x in args] if symbolic else args)
        n_res = staged.side.n_res
        return results[n_res:], jax.tree_util.Partial(_Side(staged.side), *results[:n_res])

    def bwd(residuals: Any, cts: Any) -> Any:
        zeros = _zeros(cts)
        values = [*residuals.args, *_nonzero(cts, zeros)]
        avals = [aval_of(jax.typeof(x)) for x in values]
        staged = backward.close((residuals.func.side, zeros), avals)
        found = iter(_evaluated(staged, values))
        return (*[None] * eqn.params["num_consts"], *[None if zero else next(found) for zero in staged.side])

    fun = jax.custom_vjp(_function(closed, closed.jaxpr.debug_name))
    passes = _there(fwd, forward.about.name), _there(bwd, backward.about.name)
    fun.defvjp(*passes, symbolic_zeros=symbolic)
    return list(fun(*operands))


class _Side:
    """The static part of a forward pass's residuals."""

    def __init__(self, side: Any) -> None:
        self.side = side

    def __call__(self) -> None:
        """Make this object callable, as ``Partial`` needs; nothing calls it."""


def _callback(ours: Any) -> tuple[Callable[..., Any], Any]:
    """The function that JAX calls back, and JAX's tree of its arguments (None if it takes the leaves)."""
    if isinstance(ours, JaxCallback):
        theirs = ours.theirs
        return getattr(theirs, "callback_func", theirs), getattr(theirs, "in_tree", None)

    def call(*leaves: Any) -> list[Any]:
        return ours(*map(from_jax_value, leaves))

    call.__name__ = getattr(getattr(ours, "callback_func", ours), "__name__", "callback")
    return call, None


def _calling_back(module: str, name: str, option: str) -> ExportRule:
    def rule(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
        through, tree_util = getattr(jax_module(module), name), jax_module("tree_util")
        callback, tree = _callback(eqn.params["callback"])
        specs, options = list(map(spec_of, eqn.params["result_avals"])), {option: eqn.params[option]}
        if tree is None:
            return list(through(callback, specs, *operands, **options))
        args, kwargs = tree_util.tree_unflatten(tree, operands)
        flat = lambda *args, **kwargs: tree_util.tree_leaves(callback(*args, **kwargs))  # noqa: E731
        return list(through(flat, specs, *args, **options, **kwargs))

    return rule


def export_debug_callback(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    callback, _ = _callback(eqn.params["callback"])
    jax_module().debug.callback(callback, *operands, ordered=eqn.params["effect"] == ORDERED)
    return []


def export_debug_print(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    static, given = dict(eqn.params["static_args"]), iter(operands)
    leaves = [static[i] if i in static else next(given) for i in range(len(static) + len(operands))]
    args, kwargs = tree_unflatten(eqn.params["in_tree"], leaves)
    jax_module().debug.print(eqn.params["fmt"], *args, ordered=eqn.params["ordered"], **kwargs)
    return []


def export_random_wrap(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    return [jax_module("random").wrap_key_data(*operands, impl=eqn.params["impl"].name)]


def export_shard_map(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    params = eqn.params
    mesh = mesh_for_jax(params["mesh"])
    if mesh == jax_module("sharding").get_abstract_mesh() or current_mesh() is not None:
        mesh = None  # JAX takes the current mesh: inside an outer shard_map, the mesh of that shard_map

    def of_part(*args: Any) -> tuple[Any, ...]:
        with on_each_device(params["mesh"], params["newly_manual_axes"], params["check_vma"]):
            return tuple(eval_by_jax(params["jaxpr"], *args))

    mapped = jax_module().shard_map(
        named(of_part, params["jaxpr"].jaxpr.debug_name),
        mesh=mesh,
        in_specs=tuple(map(spec_for_jax, params["in_specs"])),
        out_specs=tuple(map(spec_for_jax, params["out_specs"])),
        axis_names=set(params["newly_manual_axes"]),
        check_vma=params["check_vma"],
    )
    return list(mapped(*operands))


def _cast(to: str) -> Any:
    def export(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
        return [jax_module("lax").pcast(operands[0], eqn.params["axes"], to=to)]

    return export


def export_psum_invariant(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    return [jax_module("lax").psum(operands[0], eqn.params["axes"])]


def export_all_gather_invariant(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    params = eqn.params
    to = "reduced" if eqn.primitive.name == "all_gather_reduced" else "invarying"
    at = {"axis": params["all_gather_dimension"], "tiled": params["tiled"], "to": to}
    return [jax_module("lax").all_gather(operands[0], params["axis_name"], **at)]


def export_unreduced_reduce_scatter(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    at = {key: eqn.params[key] for key in ("scatter_dimension", "tiled")}
    return [jax_module("lax").psum_scatter(operands[0], eqn.params["axis_name"], **at)]


def export_call(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    fun = functools.partial(eval_by_jax, eqn.params["call_jaxpr"])
    info = jax_module("api_util").debug_info(eqn.primitive.name, fun, tuple(operands), {})
    wrapped = jax_module("extend.linear_util").wrap_init(fun, debug_info=info)
    named_as = {"name": eqn.params["name"]} if "name" in eqn.params else {}
    theirs = getattr(jax_module("extend.core.primitives"), f"{eqn.primitive.name}_p")
    return list(theirs.bind(*operands, subfuns=(wrapped,), **named_as))


export_rules.update(
    {
        "jit": export_jit,
        "call": export_call,
        "closed_call": export_call,
        "scan": _with_programs("jaxpr"),
        "while": _with_programs("cond_jaxpr", "body_jaxpr"),
        "cond": _with_programs("branches"),
        "remat2": export_checkpoint,
        "custom_linear_solve": export_linear_solve,
        "custom_jvp_call": export_custom_jvp,
        "custom_vjp_call": export_custom_vjp,
        "pure_callback": _calling_back("", "pure_callback", "vmap_method"),
        "io_callback": _calling_back("experimental", "io_callback", "ordered"),
        "debug_callback": export_debug_callback,
        "debug_print": export_debug_print,
        "shard_map": export_shard_map,
        "sharding_constraint": export_sharding_constraint,
        "pvary": _cast("varying"),
        "reduced_vary_cast_p": _cast("varying"),
        "vary_unreduced_cast_p": _cast("unreduced"),
        "preduced": _cast("reduced"),
        "psum_invariant": export_psum_invariant,
        "unreduced_psum": export_psum_invariant,
        "unreduced_reduce_scatter": export_unreduced_reduce_scatter,
        "all_gather_invariant": export_all_gather_invariant,
        "all_gather_reduced": export_all_gather_invariant,
        "random_wrap": export_random_wrap,
        "random_unwrap": lambda eqn, operands: [jax_module("random").key_data(*operands)],
    }
)
