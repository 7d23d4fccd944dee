"""Finds the results whose type names a mesh in JAX. Such a result has the spec ``P(None,)`` if it is replicated.

While a mesh with explicit axes is set, the result of an operation with no operand or several operands is over that
mesh. The result of a unary operation is over the operand's mesh. JAX's type of an array over a mesh names the mesh.
Our types do not name the mesh of a replicated array, so this module finds it by going through the program.
"""

from __future__ import annotations

from typing import Any

from minijax.core.array import MeshArray
from minijax.core.lists import safe_zip
from minijax.core.primitive import Primitive
from minijax.core.rules import Flags, Params
from minijax.core.shardings import NamedSharding
from minijax.ir.jaxpr import ClosedJaxpr, Var
from minijax.ops import cond, nary, while_loop

# Names of primitives whose results are over the mesh that is set, whatever their operands are.
_naming = frozenset(
    "broadcast_in_dim iota concatenate stack select_n gather scatter scatter-add scatter-sub scatter-mul scatter-min "
    "scatter-max random_bits random_fold_in random_split reshard threefry2x32".split()
)
# each result is over the mesh of the operand at the same position
_each_its_own = ("sort", "optimization_barrier", "reduce")
# primitive -> the position of the operand whose mesh the results have; for all other primitives it is the first
_followed = {"clamp": 1, "select_and_scatter_add": 1, "linear_solve": -1}
# the results are over no mesh
_never = ("pure_callback", "io_callback")


def named(primitive: Primitive, ins: Flags, params: Params, outs: int) -> list[bool]:
    """For each of ``outs`` results, whether its type names a mesh; ``ins``: whether each operand's type does."""
    if primitive in nary.elementwise_primitives:
        return [len(ins) > 1 or any(ins)] * outs
    name = primitive.name
    if name in _naming or not ins and name not in _never:
        return [True] * outs
    if name in _never:
        return [False] * outs
    if name in _each_its_own:
        return [*ins[:outs]]
    program = _program(primitive, ins, params)
    if program is not None:
        return named_by(*program)
    if name == "dot_general":
        return [any(ins)] * outs
    at = _followed.get(name, 0)
    return [ins[at] if -len(ins) <= at < len(ins) else ins[0]] * outs


def _program(primitive: Primitive, ins: Flags, params: Params) -> tuple[ClosedJaxpr, list[bool]] | None:
    """The program that computes the results of an operation, and which of its inputs name a mesh."""
    if primitive is cond.cond_p:
        return params["branches"][0], [*ins[1:]]
    if primitive is while_loop.while_p:
        return params["body_jaxpr"], [*ins[params["cond_nconsts"] :]]
    for value in params.values():
        if isinstance(value, ClosedJaxpr) and len(value.in_avals) == len(ins):
            return value, [*ins]
    return None


def named_by(closed: ClosedJaxpr, ins: Flags) -> list[bool]:
    """Whether each result of a program has a type that names a mesh; computed once for each ``ins``."""
    key = ("names a mesh", *ins)
    found: list[bool] | None = closed.memo.get(key)
    if found is None:
        known: dict[Any, bool] = dict(safe_zip(closed.jaxpr.invars, ins))
        known |= {var: is_over_mesh(x) for var, x in safe_zip(closed.jaxpr.constvars, closed.consts)}
        for eqn in closed.eqns:
            operands = [isinstance(x, Var) and known[x] for x in eqn.invars]
            known |= safe_zip(eqn.outvars, named(eqn.primitive, operands, eqn.params, len(eqn.outvars)))
        found = closed.memo[key] = [isinstance(x, Var) and known[x] for x in closed.jaxpr.outvars]
    return found


def is_over_mesh(x: Any) -> bool:
    """Whether ``x``, an array or a ShapeDtypeStruct, is over a mesh."""
    sharding = x.device if type(x) is MeshArray else getattr(x, "sharding", None) if not hasattr(x, "_buffer") else None
    return isinstance(sharding, NamedSharding)
