"""Import rules, ``rule(eqn, site) -> equations``, for JAX's calls, control flow, checkpoint and custom rules."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.api import checkpoint as ad_checkpoint
from minijax.api.checkpoint import checkpoint_policies
from minijax.backend import pjrt
from minijax.core import dtypes
from minijax.core.lists import with_items
from minijax.core.meshes import NO_MESH
from minijax.core.records import Frozen, NamedTuple
from minijax.core.shardings import PartitionSpec
from minijax.core.structural import UNSPECIFIED, instantiate_zeros, zero_of
from minijax.core.trace import state
from minijax.interop.borrowed import jvp_program, without_sources
from minijax.interop.programs import Site, import_closed, import_once, import_rules, jax_primitive, our_primitives
from minijax.interop.signature import JaxCall, equation_call
from minijax.interop.values import aval_of, jax_module, mesh_of_jax, part_of_jax, sharding_of_jax, spec_of
from minijax.interpreters import recompute
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn
from minijax.ops.call import jit_p
from minijax.ops.custom_derivatives import About, Function
from minijax.ops.linear_solve import _LinearSolveTuple as LinearSolveTuple
from minijax.ops.linear_solve import linear_solve_p
from minijax.ops.meshes.constraint import sharding_constraint_p
from minijax.ops.meshes.reshard import reshard_p
from minijax.ops.meshes.shard_map import on_each_device, shard_map_p
from minijax.ops.parallel import all_to_all_p, group_size
from minijax.ops.subjaxprs import hoist_consts, join_consts

Equations = list[JaxprEqn] | None


def import_jit(eqn: Any, site: Site) -> Equations:
    """Import a call of ``jit``, without donation because the operands may share memory with JAX's arrays."""
    name = eqn.params["name"]
    closed = import_once(eqn.params["jaxpr"], name)
    params = {"jaxpr": closed, "name": name, "donated_invars": (False,) * len(site.invars)}
    for key in ("in_shardings", "out_shardings"):
        shardings = [sharding_of_jax(each) or UNSPECIFIED for each in eqn.params.get(key, ())]
        if any([each is not UNSPECIFIED for each in shardings]):
            params[key] = tuple(shardings)
            pjrt.note_committed()
    mesh = eqn.params.get("ctx_mesh")
    if mesh is not None and not mesh.empty:
        params["ctx_mesh"] = mesh_of_jax(mesh)
    return site.equation(jit_p, params)


def import_sharding_constraint(eqn: Any, site: Site) -> Equations:
    """Import a sharding constraint. None, to borrow JAX's equation, if minijax's shardings cannot express JAX's."""
    sharding = sharding_of_jax(eqn.params["sharding"])
    if sharding is None:
        return None
    pjrt.note_committed()
    free = frozenset(eqn.params["unconstrained_dims"])
    around = eqn.params["context_mesh"]
    mesh = NO_MESH if around is None or around.empty else mesh_of_jax(around)
    own = {"sharding": sharding, "layout": None, "context_mesh": mesh, "unconstrained_dims": free}
    return site.equation(sharding_constraint_p, own)


def import_reshard(eqn: Any, site: Site) -> Equations:
    """Import a reshard. The operand's mesh comes from JAX's type, which has a mesh even for replicated arrays."""
    sharding = sharding_of_jax(eqn.params["dst_sharding"])
    if sharding is None:
        return None
    given, around = eqn.params["concrete_mesh"], eqn.invars[0].aval.sharding.mesh
    own = {
        "dst_sharding": sharding,
        "concrete_mesh": None if given is None else mesh_of_jax(given),
        "operand_mesh": None if around.empty else mesh_of_jax(around),
    }
    return site.equation(reshard_p, own)


def import_call(eqn: Any, site: Site) -> Equations:
    """Import ``closed_call`` or ``call``, and its body."""
    params = {"call_jaxpr": import_once(eqn.params["call_jaxpr"])}
    if "name" in eqn.params:
        params["name"] = eqn.params["name"]
    return site.equation(our_primitives()[eqn.primitive.name], params)


def import_scan(eqn: Any, site: Site) -> Equations:
    closed, consts = hoist_consts(import_once(eqn.params["jaxpr"]))
    params = {name: eqn.params[name] for name in ("length", "reverse", "unroll", "num_consts", "num_carry")}
    params.update(jaxpr=closed, num_consts=params["num_consts"] + len(consts))
    return site.equation(our_primitives()["scan"], params, consts)


def import_while(eqn: Any, site: Site) -> Equations:
    cond, cond_consts = hoist_consts(import_once(eqn.params["cond_jaxpr"]))
    body, body_consts = hoist_consts(import_once(eqn.params["body_jaxpr"]))
    n = eqn.params["cond_nconsts"]
    params = {
        "cond_jaxpr": cond,
        "cond_nconsts": n + len(cond_consts),
        "body_jaxpr": body,
        "body_nconsts": eqn.params["body_nconsts"] + len(body_consts),
    }
    # the constants of the body follow the operands of the condition
    site.invars[n:n] = map(site.program.constant, body_consts)
    return site.equation(our_primitives()["while"], params, cond_consts)


def import_cond(eqn: Any, site: Site) -> Equations:
    branches, consts = join_consts(list(map(import_once, eqn.params["branches"])))
    index, *operands = site.invars
    site.invars = [index, *map(site.program.constant, consts), *operands]
    return site.equation(our_primitives()["cond"], {"branches": branches})


def import_linear_solve(eqn: Any, site: Site) -> Equations:
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    operands = iter(site.invars)
    invars: list[Any] = []
    found, numbers = [], []
    for n, theirs in zip(lengths, jaxprs, strict=True):
        ours, consts = (None, []) if theirs is None else hoist_consts(import_once(theirs))
        invars += [*map(site.program.constant, consts), *itertools.islice(operands, n)]
        found.append(ours)
        numbers.append(n + len(consts))
    site.invars = [*invars, *operands]
    return site.equation(
        linear_solve_p, {"const_lengths": LinearSolveTuple(*numbers), "jaxprs": LinearSolveTuple(*found)}
    )


def import_checkpoint(eqn: Any, site: Site) -> Equations:
    closed, consts = hoist_consts(import_once(eqn.params["jaxpr"]))
    prevent_cse = eqn.params["prevent_cse"]
    if isinstance(prevent_cse, tuple):
        prevent_cse = (False,) * len(consts) + prevent_cse
    params = {
        "jaxpr": closed,
        "prevent_cse": prevent_cse,
        "differentiated": eqn.params["differentiated"],
        "policy": policy_of(eqn.params["policy"]),
    }
    return site.equation(our_primitives()["remat2"], params, consts)


def policy_of(theirs: Any) -> Any:
    """Convert JAX's checkpoint policy: by name if it is JAX's own, else by wrapping the user's function."""
    if theirs is None:
        return None
    ours = getattr(ad_checkpoint, type(theirs).__name__, None)
    if ours is not None and hasattr(theirs, "__dataclass_fields__"):
        return ours(*[getattr(theirs, name) for name in theirs.__dataclass_fields__])
    for name, policy in vars(jax_module().checkpoint_policies).items():
        if policy is theirs and hasattr(checkpoint_policies, name):
            return getattr(checkpoint_policies, name)
    return ImportedPolicy(theirs)


class ImportedPolicy(Frozen):
    """A checkpoint policy for minijax. It calls ``theirs``, a policy for JAX, with JAX's primitives and types."""

    theirs: Callable[..., Any]

    def __call__(self, primitive: Any, *avals: Any, **params: Any) -> Any:
        """Convert the answer to minijax's classes."""
        core = jax_module("core")
        types = [core.ShapedArray(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]
        answer = self.theirs(jax_primitive(primitive), *types, **params)
        name = (answer if isinstance(answer, type) else type(answer)).__name__
        if name == "Offloadable" and not isinstance(answer, type):
            return recompute.Offloadable(answer.src, answer.dst)
        return {"SaveableType": recompute.Saveable, "RecomputeType": recompute.Recompute}.get(name, answer)


def import_shard_map(eqn: Any, site: Site) -> Equations:
    """Import a program that each device of a mesh runs. JAX's ``pmap`` makes such a program too."""
    params = eqn.params
    mesh, axes, checked = mesh_of_jax(params["mesh"]), frozenset(params["newly_manual_axes"]), params["check_vma"]
    with on_each_device(mesh, axes, checked):
        closed, consts = hoist_consts(import_once(params["jaxpr"]))
    own = {
        "check_vma": checked,
        "in_specs": (*[PartitionSpec()] * len(consts), *map(part_of_jax, params["in_specs"])),
        "jaxpr": closed,
        "mesh": mesh,
        "newly_manual_axes": axes,
        "out_specs": tuple(map(part_of_jax, params["out_specs"])),
    }
    return site.equation(shard_map_p, own, consts)


def import_all_to_all(eqn: Any, site: Site) -> Equations:
    """Import ``all_to_all``. minijax's primitive has one more parameter: the axis size."""
    names = eqn.params["axis_name"]
    groups = eqn.params["axis_index_groups"]
    return site.equation(all_to_all_p, {**eqn.params, "axis_size": group_size(names, groups)})


def _refusing(why: str) -> Any:
    def refuse(eqn: Any, site: Site) -> Equations:
        raise site.refusal(why.format(eqn.primitive.name))

    return refuse


_NO_REFERENCES = "{} makes a mutable reference in a way that minijax lacks. Make it from an array with new_ref."


# Files of JAX functions whose rules call no user function.
_JAXS_OWN = re.compile(r"[/\\]jax[/\\]_src[/\\](nn|numpy|image|scipy[/\\]special|lax[/\\]other\.py)")


def _is_jaxs(eqn: Any) -> bool:
    """Whether the ``custom_jvp`` or ``custom_vjp`` function that ``eqn`` calls is part of JAX."""
    info = getattr(eqn.params["call_jaxpr"].jaxpr, "debug_info", None)
    return bool(_JAXS_OWN.search(getattr(info, "func_filename", None) or ""))


class ImportedRule(Function):
    """The derivative rule of a JAX function, which is the parameter called ``param`` of ``eqn``.

    The first ``num_consts`` operands are closed over. The first ``num_own`` of these are constants hoisted out of the
    program, which JAX's call does not take. ``of_library``: whether the rule calls no user function.
    """

    kind: str

    def __init__(self, eqn: Any, call: JaxCall, num_own: int, param: str) -> None:
        name = getattr(getattr(eqn.params[param], "debug_info", None), "func_name", "") or param
        self.jax_call = call
        self.num_own = num_own
        self.num_consts = eqn.params["num_consts"] + num_own
        self.about = About(name, name, self.kind)
        self.of_library = _is_jaxs(eqn)


class ImportedJvpRule(ImportedRule):
    """The derivative rule of JAX's ``custom_jvp`` function."""

    kind = "custom_jvp rule"

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        perturbed = (False,) * (self.num_consts - self.num_own) + tuple([not zero for zero in side])
        results = eval_closed(jvp_program(self.jax_call, perturbed), *values[self.num_own :])
        return results, tuple([not dtypes.is_inexact(spec.dtype) for spec in self.jax_call.out_specs])


def import_custom_jvp(eqn: Any, site: Site) -> Equations:
    closed, consts = hoist_consts(import_once(eqn.params["call_jaxpr"]))
    rule = ImportedJvpRule(eqn, equation_call(eqn, state.axis_env), len(consts), "jvp_jaxpr_fun")
    params = {
        "call_jaxpr": closed,
        "jvp_jaxpr_fun": rule,
        "num_consts": rule.num_consts,
        "symbolic_zeros": eqn.params["symbolic_zeros"],
    }
    return site.equation(our_primitives()["custom_jvp_call"], params, consts)


class ImportedPasses(NamedTuple):
    """Both passes of a ``custom_vjp`` function for one choice of perturbed inputs.

    ``given``: for each input, whether ``backward`` returns a cotangent.
    """

    forward: ClosedJaxpr
    backward: ClosedJaxpr
    n_res: int
    given: list[bool]


def passes_of(call: JaxCall, perturbed: tuple[bool, ...]) -> ImportedPasses:
    """Trace JAX's forward and backward pass of ``call``. Residuals are the leaves of JAX's vjp function."""

    def make() -> ImportedPasses:
        jax = jax_module()
        positions = [i for i, p in enumerate(perturbed) if p]
        inexact = [bool(jax.dtypes.issubdtype(spec.dtype, jax.numpy.inexact)) for spec in call.out_specs]
        trees: list[Any] = []

        def forward(*values: Any) -> list[Any]:
            def of(*varied: Any) -> list[Any]:
                return call.fun(*with_items(values, positions, varied))

            outs, vjp = jax.vjp(of, *[values[i] for i in positions])
            residuals, tree = jax.tree_util.tree_flatten(vjp)
            trees.append((tree, len(residuals)))
            return [*residuals, *outs]

        traced = call.traced(forward, call.specs)
        tree, n_res = trees[-1]

        def backward(*values: Any) -> list[Any]:
            given = iter(values[n_res:])
            cts = [
                next(given) if there else np.zeros(spec.shape, jax.dtypes.float0)
                for there, spec in zip(inexact, call.out_specs, strict=True)
            ]
            found = jax.tree_util.tree_unflatten(tree, values[:n_res])(cts)
            return [ct for ct in found if ct.dtype != jax.dtypes.float0]

        residual_specs = list(map(spec_of, traced.out_avals[:n_res]))
        cts = [spec for there, spec in zip(inexact, call.out_specs, strict=True) if there]
        traced_back = call.traced(backward, [*residual_specs, *cts])
        is_given = [
            p and bool(jax.dtypes.issubdtype(spec.dtype, jax.numpy.inexact))
            for p, spec in zip(perturbed, call.specs, strict=True)
        ]
        return ImportedPasses(
            without_sources(import_closed(traced)), without_sources(import_closed(traced_back)), n_res, is_given
        )

    return call.derived(("vjp", perturbed), make)


class ImportedForward(ImportedRule):
    """The forward pass of JAX's ``custom_vjp`` function."""

    kind = "custom_vjp fwd"

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        n = self.num_consts
        wanted = (True,) * (len(values) - n) if side is None else tuple(side)
        passes = passes_of(self.jax_call, (False,) * (n - self.num_own) + wanted)
        return eval_closed(passes.forward, *values[self.num_own :]), passes


class ImportedBackward(ImportedRule):
    """The backward pass of JAX's ``custom_vjp`` function."""

    kind = "custom_vjp bwd"

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        passes, zeros = side
        residuals, given = values[: passes.n_res], iter(values[passes.n_res :])
        cts = []
        for zero, spec in zip(zeros, self.jax_call.out_specs, strict=True):
            aval = aval_of(spec)
            if not zero:
                ct = next(given)
            elif dtypes.is_inexact(aval.dtype):
                ct = instantiate_zeros(zero_of(aval))
            if dtypes.is_inexact(aval.dtype):
                cts.append(ct)
        found = iter(eval_closed(passes.backward, *residuals, *cts))
        outs = [next(found) if there else None for there in passes.given][self.num_consts - self.num_own :]
        return [ct for ct in outs if ct is not None], tuple([ct is None for ct in outs])


def import_custom_vjp(eqn: Any, site: Site) -> Equations:
    closed, consts = hoist_consts(import_once(eqn.params["call_jaxpr"]))
    call = equation_call(eqn, state.axis_env)
    fwd = ImportedForward(eqn, call, len(consts), "fwd_jaxpr_thunk")
    bwd = ImportedBackward(eqn, call, len(consts), "bwd")
    params = {
        "call_jaxpr": closed,
        "fwd_jaxpr_thunk": fwd,
        "bwd": bwd,
        "num_consts": fwd.num_consts,
        "symbolic_zeros": eqn.params["symbolic_zeros"],
    }
    return site.equation(our_primitives()["custom_vjp_call"], params, consts)


import_rules.update(
    {
        "jit": import_jit,
        "closed_call": import_call,
        "call": import_call,
        "cond": import_cond,
        "scan": import_scan,
        "while": import_while,
        "remat2": import_checkpoint,
        "custom_jvp_call": import_custom_jvp,
        "custom_vjp_call": import_custom_vjp,
        "custom_linear_solve": import_linear_solve,
        "shard_map": import_shard_map,
        "sharding_constraint": import_sharding_constraint,
        "reshard": import_reshard,
        "all_to_all": import_all_to_all,
    }
)
for _name in ("empty_ref", "run_state"):
    import_rules[_name] = _refusing(_NO_REFERENCES)
