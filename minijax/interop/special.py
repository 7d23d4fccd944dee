"""How equations of JAX's are imported that hold programs or functions: calls, control flow, checkpoint, custom rules.

Each rule is ``rule(eqn, invars, outvars, source) -> equations``, or None where ours cannot say what JAX's says, and the
equation is borrowed whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.named import NamedTuple
from minijax.core.structural import instantiate_zeros, zero_of
from minijax.interop.borrowed import jvp_program, without_sources
from minijax.interop.programs import import_closed, import_once, import_rules, our_primitives
from minijax.interop.signature import JaxCall, equation_call
from minijax.interop.values import aval_of, jax_module, spec_of
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Var
from minijax.ops.call import jit_p
from minijax.ops.custom_derivatives import About, Function

Equations = list[JaxprEqn] | None


# ------------------------------------------------------------------------------------------------ calls


def import_jit(eqn: Any, invars: list[Any], outvars: list[Var], source: Any) -> Equations:
    closed = import_once(eqn.params["jaxpr"], eqn.params["name"])
    params = {"jaxpr": closed, "name": eqn.params["name"], "donated_invars": (False,) * len(invars)}
    return [JaxprEqn(jit_p, invars, params, outvars, source)]


def import_call(eqn: Any, invars: list[Any], outvars: list[Var], source: Any) -> Equations:
    """``closed_call`` and its like: a call that means nothing but what is inside."""
    closed = import_once(eqn.params.get("call_jaxpr") or eqn.params["jaxpr"])
    params = {"jaxpr": closed, "name": eqn.params.get("name", eqn.primitive.name)}
    return [JaxprEqn(jit_p, invars, {**params, "donated_invars": (False,) * len(invars)}, outvars, source)]


# ------------------------------------------------------------------------------------------------ control flow


def _bodied(name: str, bodies: Sequence[str], kept: Sequence[str]) -> Any:
    """The rule for a primitive whose params ``bodies`` are programs without constants; ours has the params ``kept``."""

    def rule(eqn: Any, invars: list[Any], outvars: list[Var], source: Any) -> Equations:
        params = {key: eqn.params[key] for key in kept}
        for body in bodies:
            closed = import_once(params[body])
            if closed.consts:
                return None
            params[body] = closed
        return [JaxprEqn(our_primitives()[name], invars, params, outvars, source)]

    return rule


def import_cond(eqn: Any, invars: list[Any], outvars: list[Var], source: Any) -> Equations:
    branches = tuple(map(import_once, eqn.params["branches"]))
    if any(branch.consts for branch in branches):
        return None
    return [JaxprEqn(our_primitives()["cond"], invars, {"branches": branches}, outvars, source)]


# ------------------------------------------------------------------------------------------------ custom rules


class ImportedJvpRule(Function):
    """The derivative rule of a ``custom_jvp`` function of JAX's; the first ``num_consts`` primals are closed over."""

    def __init__(self, call: JaxCall, num_consts: int, name: str) -> None:
        self.jax_call = call
        self.num_consts = num_consts
        self.about = About(name, name, "custom_jvp rule")

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        perturbed = (False,) * self.num_consts + tuple([not zero for zero in side])
        results = eval_closed(jvp_program(self.jax_call, perturbed), *values)
        return results, tuple([not dtypes.is_inexact(spec.dtype) for spec in self.jax_call.out_specs])


def import_custom_jvp(eqn: Any, invars: list[Any], outvars: list[Var], source: Any) -> Equations:
    num_consts = eqn.params["num_consts"]
    closed = import_once(eqn.params["call_jaxpr"])
    if closed.consts:
        return None
    params = {
        "call_jaxpr": closed,
        "jvp_jaxpr_fun": ImportedJvpRule(equation_call(eqn), num_consts, closed.jaxpr.debug_name),
        "num_consts": num_consts,
        "symbolic_zeros": eqn.params["symbolic_zeros"],
    }
    return [JaxprEqn(our_primitives()["custom_jvp_call"], invars, params, outvars, source)]


class ImportedPasses(NamedTuple):
    """Both passes of a ``custom_vjp`` function for one choice of perturbed inputs; ``given``: which have cotangents."""

    forward: ClosedJaxpr
    backward: ClosedJaxpr
    n_res: int
    given: list[bool]


def passes_of(call: JaxCall, perturbed: tuple[bool, ...]) -> ImportedPasses:
    """What JAX's vjp of ``call`` is made of: its residuals are the leaves of the function that ``jax.vjp`` returns."""

    def make() -> ImportedPasses:
        jax = jax_module()
        positions = [i for i, p in enumerate(perturbed) if p]
        inexact = [bool(jax.dtypes.issubdtype(spec.dtype, jax.numpy.inexact)) for spec in call.out_specs]
        trees: list[Any] = []

        def forward(*values: Any) -> list[Any]:
            def of(*varied: Any) -> list[Any]:
                full = list(values)
                for i, x in zip(positions, varied, strict=True):
                    full[i] = x
                return call.fun(*full)

            outs, vjp = jax.vjp(of, *[values[i] for i in positions])
            residuals, tree = jax.tree_util.tree_flatten(vjp)
            trees.append((tree, len(residuals)))
            return [*residuals, *outs]

        traced = jax.make_jaxpr(forward)(*call.specs)
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
        traced_back = jax.make_jaxpr(backward)(*residual_specs, *cts)
        is_given = [
            p and bool(jax.dtypes.issubdtype(spec.dtype, jax.numpy.inexact))
            for p, spec in zip(perturbed, call.specs, strict=True)
        ]
        return ImportedPasses(
            without_sources(import_closed(traced)), without_sources(import_closed(traced_back)), n_res, is_given
        )

    return call.derived(("vjp", perturbed), make)


class ImportedSide(NamedTuple):
    """What an imported forward pass tells the backward pass."""

    n_res: int
    passes: ImportedPasses


class ImportedForward(Function):
    """The forward pass of a ``custom_vjp`` function of JAX's."""

    def __init__(self, call: JaxCall, num_consts: int, name: str) -> None:
        self.jax_call = call
        self.num_consts = num_consts
        self.about = About(name, name, "custom_vjp fwd")

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        n = self.num_consts
        wanted = (True,) * (len(values) - n) if side is None else tuple(side)
        passes = passes_of(self.jax_call, (False,) * n + wanted)
        return eval_closed(passes.forward, *values), ImportedSide(passes.n_res, passes)


class ImportedBackward(Function):
    """The backward pass of a ``custom_vjp`` function of JAX's."""

    def __init__(self, call: JaxCall, num_consts: int, name: str) -> None:
        self.jax_call = call
        self.num_consts = num_consts
        self.about = About(name, name, "custom_vjp bwd")

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        forward, zeros = side
        residuals, given = values[: forward.n_res], iter(values[forward.n_res :])
        cts = []
        for zero, spec in zip(zeros, self.jax_call.out_specs, strict=True):
            aval = aval_of(spec)
            if not zero:
                ct = next(given)
            elif dtypes.is_inexact(aval.dtype):
                ct = instantiate_zeros(zero_of(aval))
            if dtypes.is_inexact(aval.dtype):
                cts.append(ct)
        found = iter(eval_closed(forward.passes.backward, *residuals, *cts))
        outs = [next(found) if there else None for there in forward.passes.given][self.num_consts :]
        return [ct for ct in outs if ct is not None], tuple([ct is None for ct in outs])


def import_custom_vjp(eqn: Any, invars: list[Any], outvars: list[Var], source: Any) -> Equations:
    num_consts = eqn.params["num_consts"]
    closed = import_once(eqn.params["call_jaxpr"])
    if closed.consts:
        return None
    call, name = equation_call(eqn), closed.jaxpr.debug_name
    params = {
        "call_jaxpr": closed,
        "fwd_jaxpr_thunk": ImportedForward(call, num_consts, name),
        "bwd": ImportedBackward(call, num_consts, name),
        "num_consts": num_consts,
        "symbolic_zeros": eqn.params["symbolic_zeros"],
    }
    return [JaxprEqn(our_primitives()["custom_vjp_call"], invars, params, outvars, source)]


import_rules.update(
    {
        "jit": import_jit,
        "closed_call": import_call,
        "core_call": import_call,
        "cond": import_cond,
        "scan": _bodied("scan", ["jaxpr"], ["jaxpr", "length", "reverse", "unroll", "num_consts", "num_carry"]),
        "while": _bodied(
            "while", ["cond_jaxpr", "body_jaxpr"], ["cond_jaxpr", "cond_nconsts", "body_jaxpr", "body_nconsts"]
        ),
        "remat2": _bodied("remat2", ["jaxpr"], ["jaxpr", "prevent_cse", "differentiated", "policy"]),
        "custom_jvp_call": import_custom_jvp,
        "custom_vjp_call": import_custom_vjp,
    }
)
