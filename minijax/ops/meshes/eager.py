"""Eager evaluation while a mesh is set: results are replicated over the mesh, as in JAX.

Operations on uncommitted operands run on the host, and the result is then replicated over all devices of the mesh.
Such results are marked ``MeshArray.computed_on_host``, and operations on them run on the host too. If the user or a
compiled program put an operand over the mesh, the operation is compiled. ``interpreters.evaluate`` calls this module.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from minijax.core import observe
from minijax.core.array import Array, CommittedArray, LiteralArray, MeshArray, placed_text
from minijax.core.keys import is_key
from minijax.core.meshes import Mesh, context
from minijax.core.primitive import Primitive
from minijax.core.rules import Params, Values
from minijax.core.shardings import NamedSharding, PartitionSpec, Sharding
from minijax.core.trace import Tracer, state
from minijax.ops import custom_jvp, custom_vjp
from minijax.ops.call import jit_p
from minijax.ops.meshes import constraint, reshard, shard_map
from minijax.ops.meshes.known_mesh import is_over_mesh, named, named_by
from minijax.ops.meshes.partitioned import other_devices
from minijax.ops.random.keys import random_wrap_p
from minijax.ops.sharded import over_mesh
from minijax.pytree import tree_leaves, tree_map, tree_unflatten

# Primitives whose impl places its results itself, or calls functions whose operations place their results.
_apart: set[Primitive] = {
    jit_p,
    shard_map.shard_map_p,
    reshard.reshard_p,
    constraint.sharding_constraint_p,
    random_wrap_p,
    custom_jvp.custom_jvp_call_p,
    custom_vjp.custom_vjp_call_p,
}


class _Laying(threading.local):
    """``host``: whether this thread computes on the host now, so that results are not put over the mesh yet."""

    host = False


_laying = _Laying()


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Within the block, results stay on the host; they are not put over the mesh that is set."""
    before, _laying.host = _laying.host, True
    try:
        yield
    finally:
        _laying.host = before


def laying() -> Mesh | None:
    """The mesh over which results are placed. None if no mesh is set, if operations are staged, and in ``on_host``."""
    mesh = context.mesh
    return mesh if isinstance(mesh, Mesh) and not _laying.host and state.dynamic.level == 0 else None


def evaluate(usual: Callable[..., Any], trace: Any, primitive: Primitive, args: Values, params: Params) -> Any:
    """Evaluate an operation by ``usual(trace, primitive, args, params)``, and put its results over the mesh."""
    mesh = laying()
    if mesh is None or primitive in _apart:
        return usual(trace, primitive, args, params)
    _check_devices(args, mesh, primitive.name)
    values = args if primitive.takes_refs else _on_host(args, mesh, params)
    if values is None:
        return usual(trace, primitive, args, params)
    with on_host():
        out = usual(trace, primitive, values, params)
    ins = [*map(is_over_mesh, args)]
    if not isinstance(out, (list, tuple)):
        return laid(out, mesh, named(primitive, ins, params, 1)[0])
    return [laid(x, mesh, known) for x, known in zip(out, named(primitive, ins, params, len(out)), strict=True)]


def _check_devices(args: Values, mesh: Mesh, name: str) -> None:
    """Raise ValueError if one of ``args`` is committed to other devices than those of ``mesh``."""
    devices = tuple(mesh.devices.flat)
    for i, x in enumerate(args):
        if isinstance(x, CommittedArray) and (x.assignment if type(x) is MeshArray else (x.device,)) != devices:
            raise other_devices(placed_text(x, f"args[{i}]", name), devices)


def _on_host(args: Values, mesh: Mesh, params: Params) -> Values | None:
    """``args`` as arrays on the host. None if one is committed to devices, so that the operation must be compiled."""
    if any(isinstance(value, Sharding) for value in params.values()):
        return None
    values = []
    for x in args:
        if type(x) is MeshArray:
            if not (getattr(x, "computed_on_host", False) and x.on_host and x.device.mesh == mesh):
                return None
            x = Array(x._value(), x.aval)
        elif isinstance(x, (CommittedArray, Tracer)):
            return None
        values.append(x)
    return values


def laid(x: Any, mesh: Mesh, names_mesh: bool = False) -> Any:
    """The uncommitted array ``x``, replicated over ``mesh``. Anything else is unchanged."""
    if type(x) is not Array and type(x) is not LiteralArray:
        return x
    ndim = x.aval.ndim if names_mesh and mesh.any_explicit or is_key(x.aval.dtype) else 0
    out = over_mesh(x, NamedSharding(mesh, PartitionSpec(*[None] * ndim)))
    out._host = x._value()
    out.computed_on_host = True
    return out


def made(x: Any) -> Any:
    """Put an array of host values over the mesh that ``laying`` returns, if it returns one."""
    mesh = laying()
    return x if mesh is None else laid(x, mesh)


def called(jitted: Any, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: Params) -> Any:
    """Call a library function ``fun`` that JAX jits, and put its results over the mesh; ``jitted`` is ``jit(fun)``."""
    mesh = laying()
    leaves = tree_leaves((args, kwargs))
    if mesh is None or any(isinstance(x, Tracer) for x in leaves):
        return fun(*args, **kwargs)
    if _on_host(leaves, mesh, {}) is None:
        return jitted(*args, **kwargs)
    with observe.unobserved():
        staged, operands = jitted.staged_call(args, kwargs)
    known = named_by(staged.closed, [*map(is_over_mesh, (*staged.outer, *operands))])
    args, kwargs = tree_map(lambda x: Array(x._value(), x.aval) if type(x) is MeshArray else x, (args, kwargs))
    with on_host():
        outs = tree_leaves(fun(*args, **kwargs))
    return tree_unflatten(staged.out_tree, [*map(laid, outs, [mesh] * len(outs), known)])
