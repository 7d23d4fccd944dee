"""Infer the sharding of an operation's results, and their unreduced and reduced mesh axes, with JAX.

In: a minijax primitive, its operand types and parameters. Out: the result types, from ``abstract_eval`` of JAX's
primitive with that name. ``core.explicit`` and ``core.varying`` call this once per signature, and only where a type or
a parameter names a mesh, so other programs do not import jax.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.explicit import mesh_of_type, spec_of
from minijax.core.meshes import AbstractMesh
from minijax.core.primitive import Primitive
from minijax.core.structural import add_any_p
from minijax.core.varying import current_mesh, manual_axes
from minijax.errors import ShardingTypeError
from minijax.interop.exported import jax_closed
from minijax.interop.params import params_for_jax
from minijax.interop.programs import jax_primitive
from minijax.interop.values import abstract_for_jax, aval_of, circumstances, jax_module, mesh_now, type_for_jax
from minijax.ops.elementwise import add_p
from minijax.ops.select import select_n_p
from minijax.ops.sort import sort_p


def result_types(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any], mesh: AbstractMesh | None
) -> list[ShapedArray]:
    """The types of an operation's results. Operands whose types name no mesh are sharded over ``mesh``.

    Raises JAX's error for an ambiguous sharding: ShardingTypeError, ValueError, TypeError or NotImplementedError.
    """
    theirs = jax_primitive(add_p if primitive is add_any_p else primitive)  # ``add`` also accepts a replicated zero
    if theirs is None:
        raise ShardingTypeError(
            f"sharding rule for {primitive.name} is not implemented. Let the compiler shard its result: "
            "sharding.auto_axes(function, out_sharding=...)."
        )
    asked = params_for_jax(primitive, params, jax_closed)
    with circumstances(), _within(avals, mesh):
        try:
            free = _constants(primitive, avals)
            operands = [type_for_jax(aval, None if i in free else mesh) for i, aval in enumerate(avals)]
            outs, _ = theirs.abstract_eval(*operands, **asked)
        except _refusals() as error:
            raise ShardingTypeError(str(error)) from None
        return [*map(aval_of, outs if primitive.multiple_results else [outs])]


def _refusals() -> tuple[type[Exception], ...]:
    """JAX's sharding errors, which no public JAX module exports."""
    return (
        sys.modules["jax._src.core"].ShardingTypeError,
        sys.modules["jax._src.named_sharding"].DuplicateSpecError,
    )


def _constants(primitive: Primitive, avals: Sequence[ShapedArray]) -> Sequence[int]:
    """The operands of ``sort`` and ``select_n`` that may be constants. In JAX the types of constants name no mesh."""
    if primitive is sort_p or primitive is select_n_p and not any(any(spec_of(aval)) for aval in avals):
        return range(len(avals))
    return (0,) if primitive is select_n_p else ()


def _within(avals: Sequence[ShapedArray], mesh: AbstractMesh | None) -> Any:
    """A context in which JAX infers types inside minijax's ``shard_map``, or with ``mesh`` set."""
    around = current_mesh()
    if around is not None:
        within = ExitStack()
        within.enter_context(mesh_now())
        sizes = [(name, around.shape[name]) for name in around.axis_names if name in manual_axes()]
        # JAX's shard_map does the same; there is no public function for it
        within.enter_context(sys.modules["jax._src.core"].extend_axis_env_nd(sizes))
        return within
    if mesh is None or any(mesh_of_type(aval) not in (None, mesh) for aval in avals):
        return nullcontext()
    return jax_module("sharding").use_abstract_mesh(abstract_for_jax(mesh))
