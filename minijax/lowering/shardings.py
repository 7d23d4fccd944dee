"""Shardings as text of Shardy's dialect: the meshes of a module, and the shardings of values.

In: ``core.shardings``. Out: ``sdy.mesh @mesh = <["x"=4, "y"=2]>``, ``#sdy.sharding<@mesh, [{"x"}, {}]>`` and the
operation ``sdy.sharding_constraint``. ``MeshTable`` has a module's meshes. ``spec_text`` writes a partition spec as
text, ``placed_text`` any sharding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.avals import ShapedArray, physical_aval
from minijax.core.explicit import common_mesh, mesh_of_type, type_with_sharding, whole_spec
from minijax.core.lists import safe_zip
from minijax.core.meshes import AbstractMesh
from minijax.core.rules import Ints, Names, Shape
from minijax.core.shardings import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding, axes_of_part
from minijax.ir.jaxpr import JaxprEqn
from minijax.lowering.text import FunctionWriter, mlir_type


class MeshTable:
    """The meshes of one module and their symbols, in order of first use."""

    def __init__(self) -> None:
        # the text between < and > -> symbol
        self.symbols: dict[str, str] = {}

    def symbol(self, axes: Sequence[tuple[str, int]], order: Ints = ()) -> str:
        """The symbol of the mesh with these (name, size) axes. ``order``: the device numbers, if not 0, 1, 2, ..."""
        text = ", ".join(f'"{name}"={size}' for name, size in axes)
        text = f"[{text}], device_ids=[{', '.join(map(str, order))}]" if len(order) else f"[{text}]"
        found = self.symbols.get(text)
        if found is None:
            n = sum(symbol.startswith("mesh") for symbol in self.symbols.values())
            found = self.symbols[text] = f"mesh_{n - 1}" if n else "mesh"
        return found

    def of(self, mesh: AbstractMesh) -> str:
        return self.symbol(mesh.shape_tuple)

    def first_device(self) -> str:
        """The symbol of a mesh of the first device alone, for operations that only this device performs."""
        return self.symbols.setdefault("[], device_ids=[0]", "maximal_mesh_0")

    def lines(self) -> list[str]:
        """The operations that define the meshes."""
        return [f"  sdy.mesh @{symbol} = <{text}>" for text, symbol in self.symbols.items()]


def dimension_text(axes: Names, is_open: bool = False) -> str:
    """``{"x", "y"}``: one dimension, sharded over these axes. ``is_open``: the compiler may shard it over more axes."""
    return "{" + ", ".join([*(f'"{name}"' for name in axes), *["?"] * is_open]) + "}"


def spec_text(meshes: MeshTable, mesh: AbstractMesh, spec: PartitionSpec, ndim: int, is_open: bool = False) -> str:
    """``<@mesh, [{"x"}, {}]>`` for ``ndim`` dimensions. ``is_open``: the compiler may add axes, ``[{"x", ?}, {?}]``."""
    parts = [dimension_text(axes_of_part(part), is_open or part is PartitionSpec.UNCONSTRAINED) for part in spec]
    parts += [dimension_text((), is_open)] * (ndim - len(parts))
    unreduced = [name for name in mesh.axis_names if name in spec.unreduced]
    sums = f", unreduced={dimension_text(unreduced)}" if unreduced else ""
    return f"<@{meshes.of(mesh)}, [{', '.join(parts)}]{sums}>"


def placed_text(meshes: MeshTable, sharding: Sharding, aval: ShapedArray) -> str:
    """``<@mesh, [{"x"}, {}]>``: the ``sharding`` of a value of type ``aval``."""
    ndim = physical_aval(aval).ndim
    if isinstance(sharding, NamedSharding):
        return spec_text(meshes, sharding.mesh, sharding.spec, ndim)
    tiles = sharding.tiles(aval.ndim)
    axes = [(f"_axis_{i}", size) for i, size in enumerate(tiles.shape)]
    order = tiles.ravel()
    symbol = meshes.symbol(axes, () if (order == np.arange(order.size)).all() else [*map(int, order)])
    parts = [dimension_text([name] if size > 1 else []) for name, size in axes[:-1]]
    parts += ["{}"] * (ndim - len(parts))
    return f"<@{symbol}, [{', '.join(parts)}]>"


def sharding_attribute(meshes: MeshTable, sharding: Sharding | None, aval: ShapedArray) -> str:
    """``sdy.sharding = #sdy.sharding<...>``, for an argument or a result; '' if the compiler chooses."""
    if sharding is None or isinstance(sharding, SingleDeviceSharding):
        return ""
    return f"sdy.sharding = #sdy.sharding{placed_text(meshes, sharding, aval)}"


def on_one(meshes: MeshTable, count: int) -> str:
    """The attribute of an operation that only the first device performs; it has ``count`` results."""
    return f", sdy.sharding = #sdy.sharding_per_value<[{', '.join([f'<@{meshes.first_device()}, []>'] * count)}]>"


def constrained(ctx: FunctionWriter, x: str, aval: ShapedArray, sharding: Any) -> str:
    """``x`` constrained to ``sharding``; unchanged if ``sharding`` is None or of a single device."""
    if not isinstance(sharding, Sharding) or isinstance(sharding, SingleDeviceSharding):
        return x
    text = placed_text(ctx.module.meshes, sharding, aval)
    return ctx.emit(f"sdy.sharding_constraint {x} {text} : {mlir_type(aval)}")


def as_typed(ctx: FunctionWriter, eqn: JaxprEqn, env: dict[Any, str]) -> None:
    """Constrain the results of ``eqn``, named in ``env``, to the shardings of their types.
    A result whose type names no mesh axis is replicated if another type in ``eqn`` names a mesh; otherwise the compiler
    decides. ``reshard`` constrains its result if the mesh of ``dst_sharding`` has Explicit axes."""
    if "dst_sharding" in eqn.params:
        mesh = eqn.params["dst_sharding"].mesh
        if not mesh.any_explicit:
            return
    else:
        mesh = common_mesh(v.aval for v in (*eqn.outvars, *eqn.invars))
        if mesh is None or eqn.primitive.effectful:
            return
    for v in eqn.outvars:
        if "dst_sharding" in eqn.params and v.aval.unreduced:
            env[v] = _constrained(ctx, mesh, eqn.invars[0].aval, env[v])
        env[v] = _constrained(ctx, mesh, v.aval, env[v])


def sums_constrained(ctx: FunctionWriter, avals: Sequence[ShapedArray], names: Names) -> list[str]:
    """Constrain the unreduced values among ``names`` to their types ``avals``; return the names of all values."""
    meshes = [mesh_of_type(aval) if aval.unreduced else None for aval in avals]
    return [x if mesh is None else _constrained(ctx, mesh, aval, x) for aval, mesh, x in safe_zip(avals, meshes, names)]


def repeated_sum(ctx: FunctionWriter, x: str, aval: ShapedArray, shape: Shape) -> str:
    """Repeat an unreduced ``x`` to ``shape``. XLA would sum before it repeats, so ``x`` is reshaped and constrained."""
    mesh, spec = mesh_of_type(aval), whole_spec(aval)
    assert mesh is not None, "the type of a sum over devices names their mesh"
    kept = [d for d in range(aval.ndim) if aval.shape[d] == shape[d]]

    def summed(name: str, shape: Shape, parts: Sequence[Any]) -> tuple[str, ShapedArray]:
        made = type_with_sharding(aval.update(shape=shape), NamedSharding(mesh, spec.update(parts)))
        return _constrained(ctx, mesh, made, name), made

    small, parts = tuple(aval.shape[d] for d in kept), [spec.partitions[d] for d in kept]
    narrow = ctx.emit(f"stablehlo.reshape {x} : ({mlir_type(aval)}) -> {mlir_type(aval.update(shape=small))}")
    x, aval = summed(narrow, small, parts)
    wide = [parts[kept.index(d)] if d in kept else None for d in range(len(shape))]
    return summed(ctx.broadcast(x, aval, shape, kept), shape, wide)[0]


def _constrained(ctx: FunctionWriter, mesh: AbstractMesh, aval: ShapedArray, x: str) -> str:
    """``x``, constrained to the sharding of its type ``aval`` over ``mesh``."""
    physical = physical_aval(aval)
    text = spec_text(ctx.module.meshes, mesh, whole_spec(aval), physical.ndim, is_open=bool(mesh.auto_axes))
    return ctx.emit(f"sdy.sharding_constraint {x} {text} : {mlir_type(physical)}")  # type: ignore[no-any-return]
