"""``auto_axes`` and ``explicit_axes`` change the types of mesh axes inside a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minijax.api.devices import device_put
from minijax.core.array import MeshArray, get_aval
from minijax.core.explicit import explicit_part, meant_sharding, note_explicit, spec_of
from minijax.core.meshes import AbstractMesh, AxisType, Mesh, context
from minijax.core.shardings import NamedSharding, PartitionSpec
from minijax.ops.meshes.reshard import resharded
from minijax.pytree import tree_leaves, tree_map


@contextmanager
def _within(mesh: Any) -> Iterator[None]:
    """Set ``mesh`` on this thread within the block. None unsets the mesh."""
    before, named = context.mesh, context.named
    context.set(mesh, named)
    try:
        yield
    finally:
        context.set(before, named)


@contextmanager
def use_abstract_mesh(mesh: AbstractMesh) -> Iterator[None]:
    """Within the block, trace programs for ``mesh``. Its axis types may differ from those of the current mesh."""
    now = context.mesh
    if now is not None and isinstance(now, Mesh) and mesh.shape_tuple == now.shape_tuple:
        mesh = now.update_axis_types(dict(zip(mesh.axis_names, mesh.axis_types, strict=True)))
    with _within(None if mesh.empty else mesh):
        yield


def auto_axes(
    f: Callable[..., Any] | None = None, /, *, axes: str | Sequence[str] | None = None, out_sharding: Any = None
) -> Any:
    """``f`` with ``axes`` of type Auto: the compiler shards arrays over them. Without ``f``, a decorator.

    ``axes``: names of mesh axes, all by default. ``out_sharding``: the shardings of results outside of ``f``: a
    ``PartitionSpec``, a ``NamedSharding``, or a tree of these that is a prefix of the result; if None, each call takes
    it as a keyword. TypeError, when called, if it is missing; ValueError if its mesh is not the current one.
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    @functools.wraps(f)
    def within_auto(*args: Any, **kwargs: Any) -> Any:
        shardings = _given(out_sharding, kwargs, "out_sharding")
        before = _mesh(shardings, "auto_axes")
        if before is None:
            return f(*args, **kwargs)
        named = _names(axes, before)
        if {*before.auto_axes} == {*named}:
            return f(*args, **kwargs)
        inside = _retyped(before, named, AxisType.Auto)
        with _within(inside):
            out = f(*tree_map(lambda x: _left(x, inside, before), args), **kwargs)
        return resharded(out, shardings, inside)

    return within_auto


def left_to_compiler(name: str, out_sharding: Any, f: Callable[..., Any], *args: Any) -> Any:
    """Call ``f`` with automatic sharding and reshard its results to ``out_sharding``; ``name`` is for messages."""
    to = meant_sharding(out_sharding, name)
    return f(*args) if to is None else auto_axes(f, axes=to.mesh.explicit_axes, out_sharding=to)(*args)


def explicit_axes(
    f: Callable[..., Any] | None = None, /, *, axes: str | Sequence[str] | None = None, in_sharding: Any = None
) -> Any:
    """``f`` with ``axes`` of type Explicit: types name the sharding of arrays over them. Without ``f``, a decorator.

    ``axes``: names of mesh axes, all by default. ``in_sharding``: the shardings of arguments inside ``f``: a
    ``PartitionSpec``, a ``NamedSharding``, or a tree of these that is a prefix of the arguments; if None, each call
    takes it as a keyword. TypeError, when called, if it is missing; ValueError without a current mesh.
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    @functools.wraps(f)
    def within_explicit(*args: Any, **kwargs: Any) -> Any:
        shardings = _given(in_sharding, kwargs, "in_sharding")
        before = context.mesh
        if before is None:
            raise ValueError(
                "Context mesh cannot be empty. Please use `jax.set_mesh` API to enter into a mesh context when using "
                "`explicit_axes` API."
            )
        inside = _retyped(before, _names(axes, before), AxisType.Explicit)
        with _within(inside):
            out = f(*resharded(args, shardings, before), **kwargs)
        return tree_map(lambda x: _left(x, before, inside), out)

    return within_explicit


def _given(given: Any, kwargs: dict[str, Any], name: str) -> Any:
    if given is not None:
        return given
    if name not in kwargs:
        raise TypeError(f"Missing required keyword argument: '{name}'. Give it here, or to each call.")
    return kwargs.pop(name)


def _mesh(shardings: Any, name: str) -> Any:
    """The current mesh, or else the mesh in ``shardings``, or None without both. ValueError if two meshes differ."""
    found: Any = context.mesh
    for each in tree_leaves(shardings):
        if isinstance(each, NamedSharding):
            if found is not None and found.abstract_mesh != each.mesh.abstract_mesh:
                raise ValueError(
                    f"Context mesh {found.abstract_mesh} must match the mesh passed to shardings "
                    f"{each.mesh.abstract_mesh}, of {name}. Set that mesh around the call, with set_mesh."
                )
            found = found or each.mesh
    return found


def _names(axes: str | Sequence[str] | None, mesh: AbstractMesh) -> tuple[str, ...]:
    if axes is None:
        return mesh.axis_names
    return (axes,) if isinstance(axes, str) else tuple(axes)


def _retyped(mesh: AbstractMesh, names: Sequence[str], kind: AxisType) -> AbstractMesh:
    manual = [name for name in names if name in mesh.manual_axes]
    if manual:
        raise NotImplementedError(
            f"Going from `Manual` AxisType to `Auto` or `Explicit` AxisType is not allowed, and {manual} of {mesh} are "
            "Manual. Use it outside of shard_map."
        )
    note_explicit()
    return mesh.update_axis_types(dict.fromkeys(names, kind))


def _left(x: Any, mesh: AbstractMesh, before: AbstractMesh) -> Any:
    """Move ``x`` from mesh ``before`` to ``mesh``: its type names only the explicit axes of ``mesh``. No data moves."""
    if type(x) is MeshArray and not x.aval.unreduced and type(x.device) is NamedSharding and isinstance(mesh, Mesh):
        return device_put(x, NamedSharding(mesh, PartitionSpec(*x.device.spec)))
    aval, explicit = get_aval(x), frozenset(mesh.explicit_axes)
    sums = {"unreduced": aval.unreduced & explicit, "reduced": aval.reduced & explicit}
    return resharded(x, PartitionSpec(*[explicit_part(mesh, part) for part in spec_of(aval)], **sums), before)
