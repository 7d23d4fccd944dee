"""Equations that work on mutable array references, in both directions.

JAX keeps the index of an equation in a tree among its params, whose leaves are operands; ours is static, with the same
operands in the same order (``ops.refs.index``). A program may make references and hand them to the programs inside;
one that closes over a reference of JAX's is refused, since that lives on JAX's side.
"""

from __future__ import annotations

from typing import Any

from minijax.core.refs import Index, Slice
from minijax.core.structural import broadcast_in_dim_p
from minijax.interop.exported import export_rules
from minijax.interop.programs import Site, import_rules
from minijax.interop.values import jax_module
from minijax.ir.jaxpr import JaxprEqn
from minijax.ops.refs.primitives import addupdate_p, free_ref_p, freeze_p, get_p, new_ref_p, swap_p

# ------------------------------------------------------------------------------------------------ import


def _import_index(tree: Any, site: Site) -> Index:
    """The index in JAX's ``tree``; refused if it is not one by integers and slices."""
    transforms = jax_module("tree_util").tree_unflatten(tree, [_OPERAND] * tree.num_leaves)
    if not transforms:
        return None
    if len(transforms) > 1 or type(transforms[0]).__name__ != "NDIndexer":
        raise site.refusal("a view of a view of a mutable reference (r.at[...]) cannot be taken over. Index it once.")
    return tuple(_entry(x, site) for x in transforms[0].indices)


_OPERAND = object()


def _entry(x: Any, site: Site) -> Slice | None:
    if x is _OPERAND:
        return None
    if x.size is _OPERAND:
        raise site.refusal("a slice of a mutable reference whose size is traced cannot be taken over.")
    return Slice(None if x.start is _OPERAND else x.start, x.size, x.stride)


def _import_new_ref(eqn: Any, site: Site) -> list[JaxprEqn]:
    if eqn.params.get("kind") is not None:
        raise site.refusal(f"new_ref(kind={eqn.params['kind']!r}): minijax has one kind of references.")
    return site.equation(new_ref_p, {})


def _import_freeze(eqn: Any, site: Site) -> list[JaxprEqn]:
    return site.equation(freeze_p, {})


def _import_access(primitive: Any) -> Any:
    def rule(eqn: Any, site: Site) -> list[JaxprEqn]:
        return site.equation(primitive, {"index": _import_index(eqn.params["tree"], site)})

    return rule


def _import_free_ref(eqn: Any, site: Site) -> list[JaxprEqn]:
    return site.equation(free_ref_p, {})


def _import_broadcast(eqn: Any, site: Site) -> list[JaxprEqn]:
    """What JAX brings integers of an index to one shape by."""
    shape, (x,) = eqn.params["shape"], site.invars
    dims = tuple(range(len(shape) - len(x.aval.shape), len(shape)))
    return site.equation(broadcast_in_dim_p, {"shape": shape, "broadcast_dimensions": dims, "sharding": None})


import_rules.update(
    {
        "broadcast_to": _import_broadcast,
        "new_ref": _import_new_ref,
        "freeze": _import_freeze,
        "free_ref": _import_free_ref,
        "get": _import_access(get_p),
        "swap": _import_access(swap_p),
        "addupdate": _import_access(addupdate_p),
    }
)

# ------------------------------------------------------------------------------------------------ export


def _index_for_jax(eqn: JaxprEqn, operands: list[Any]) -> Any:
    """What is written in brackets for JAX."""
    index: Index = eqn.params["index"]
    if index is None:
        return ...
    given = iter(operands)
    found: list[Any] = []
    for entry in index:
        if entry is None:
            found.append(next(given))
        else:
            start = next(given) if entry.start is None else entry.start
            found.append(jax_module().ds(start, entry.size) if entry.stride == 1 else _strided(start, entry))
    return tuple(found)


def _strided(start: Any, entry: Slice) -> Any:
    return slice(start, start + (entry.size - 1) * entry.stride + 1, entry.stride)


def _export_new_ref(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    return [jax_module().new_ref(operands[0])]


def _export_freeze(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    return [jax_module().freeze(operands[0])]


def _export_free_ref(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    jax_module().free_ref(operands[0])
    return []


def _export_get(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    return [jax_module("ref").get(operands[0], _index_for_jax(eqn, operands[1:]))]


def _export_swap(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    return [jax_module("ref").swap(operands[0], _index_for_jax(eqn, operands[2:]), operands[1])]


def _export_addupdate(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    jax_module("ref").addupdate(operands[0], _index_for_jax(eqn, operands[2:]), operands[1])
    return []


export_rules.update(
    {
        "new_ref": _export_new_ref,
        "freeze": _export_freeze,
        "free_ref": _export_free_ref,
        "get": _export_get,
        "swap": _export_swap,
        "addupdate": _export_addupdate,
    }
)
