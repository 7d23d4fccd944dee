"""Import and export of equations on mutable array references.

In JAX an equation's index is a tree parameter whose leaves are operands. In minijax the index is a static parameter, in
which placeholders mark the operands (``ops.refs.index``). A program may make references and pass them to inner
programs. A program that closes over a JAX reference is refused.
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


def _import_index(tree: Any, site: Site) -> Index:
    """Convert the index in JAX's ``tree``; only integers and slices are accepted."""
    transforms = jax_module("tree_util").tree_unflatten(tree, [_OPERAND] * tree.num_leaves)
    if not transforms:
        return None
    if len(transforms) > 1 or type(transforms[0]).__name__ != "NDIndexer":
        raise site.refusal("minijax cannot import a view of a view of a mutable reference (r.at[...]). Index it once.")
    return tuple(_entry(x, site) for x in transforms[0].indices)


_OPERAND = object()


def _entry(x: Any, site: Site) -> Slice | None:
    if x is _OPERAND:
        return None
    if x.size is _OPERAND:
        raise site.refusal("minijax cannot import a slice of a mutable reference whose size is traced.")
    return Slice(None if x.start is _OPERAND else x.start, x.size, x.stride)


def _import_new_ref(eqn: Any, site: Site) -> list[JaxprEqn]:
    if eqn.params.get("kind") is not None:
        raise site.refusal(f"new_ref(kind={eqn.params['kind']!r}): minijax has one kind of references.")
    return site.equation(new_ref_p, {})


def _import_end(primitive: Any) -> Any:
    return lambda eqn, site: site.equation(primitive, {})


def _import_access(primitive: Any) -> Any:
    return lambda eqn, site: site.equation(primitive, {"index": _import_index(eqn.params["tree"], site)})


def _import_broadcast(eqn: Any, site: Site) -> list[JaxprEqn]:
    """Broadcast the integers of an index to one shape, as JAX does."""
    shape, (x,) = eqn.params["shape"], site.invars
    dims = tuple(range(len(shape) - len(x.aval.shape), len(shape)))
    return site.equation(broadcast_in_dim_p, {"shape": shape, "broadcast_dimensions": dims, "sharding": None})


import_rules.update(
    {
        "broadcast_to": _import_broadcast,
        "new_ref": _import_new_ref,
        "freeze": _import_end(freeze_p),
        "free_ref": _import_end(free_ref_p),
        "get": _import_access(get_p),
        "swap": _import_access(swap_p),
        "addupdate": _import_access(addupdate_p),
    }
)


def _index_for_jax(eqn: JaxprEqn, operands: list[Any]) -> Any:
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


def _export_whole(name: str) -> Any:
    def rule(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
        found = getattr(jax_module(), name)(*operands)
        return [found] if eqn.outvars else []

    return rule


def _export_get(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    return [jax_module("ref").get(operands[0], _index_for_jax(eqn, operands[1:]))]


def _export_write(name: str) -> Any:
    def rule(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
        ref, value, *integers = operands
        found = getattr(jax_module("ref"), name)(ref, _index_for_jax(eqn, integers), value)
        return [found] if eqn.outvars else []

    return rule


export_rules.update(
    {
        **{name: _export_whole(name) for name in ("new_ref", "freeze", "free_ref")},
        "get": _export_get,
        **{name: _export_write(name) for name in ("swap", "addupdate")},
    }
)
