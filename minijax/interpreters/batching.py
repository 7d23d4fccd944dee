"""JAX's interface for authors of batching rules.

``primitive_batchers[p] = rule`` with ``rule(args, dims, **params) -> (out, out_dim)``: ``dims`` are the batch axes,
None (``not_mapped``) for an argument without one. ``fancy_primitive_batchers[p]`` is ``rule(axis_data, args, dims,
**params)``, ``axis_primitive_batchers[p]`` is ``rule(size, axis_name, None, args, dims, **params)``. The ``def...``
functions give a primitive a common rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.primitive import Primitive
from minijax.core.structural import broadcast, moveaxis
from minijax.interpreters.vmap import (
    AxisData,
    BatchTracer,
    axis_rules,
    batching_rules,
    bdim_at_front,
    not_mapped,
)
from minijax.ops.nary import nary_batching

primitive_batchers = batching_rules
fancy_primitive_batchers = axis_rules


class AxisPrimitiveBatchers:
    """The table for batching rules that take the axis's size and name as two arguments. Equinox fills it."""

    def __setitem__(self, prim: Primitive, rule: Any) -> None:
        def axis_batch(axis_data: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
            return rule(axis_data.size, axis_data.name, None, args, dims, **params)

        axis_rules[prim] = axis_batch


axis_primitive_batchers = AxisPrimitiveBatchers()

__all__ = [
    "AxisData",
    "BatchTracer",
    "axis_primitive_batchers",
    "bdim_at_front",
    "broadcast",
    "defbroadcasting",
    "defreducer",
    "defvectorized",
    "fancy_primitive_batchers",
    "moveaxis",
    "not_mapped",
    "primitive_batchers",
]


def defvectorized(prim: Primitive) -> None:
    """Batch ``prim``, which treats all axes alike: its operands and result are batched along one axis."""

    def vectorized_batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        if any(d != dims[0] for d in dims):
            raise ValueError(
                f"vmap of {prim.name}: its operands must all be mapped, along one axis, but they are along {dims}. "
                "Use defbroadcasting for a primitive that repeats scalars and sizes of 1, or write a batching rule."
            )
        return prim.bind(*args, **params), dims[0]

    batching_rules[prim] = vectorized_batch


def defbroadcasting(prim: Primitive) -> None:
    """Batch ``prim``, which is elementwise and repeats scalars and dimensions of size 1."""
    batching_rules[prim] = nary_batching(prim)


def defreducer(prim: Primitive) -> None:
    """Batch ``prim``, which reduces its one operand over the dimensions in its parameter ``axes``."""

    def reducer_batch(args: Sequence[Any], dims: Sequence[Any], *, axes: Sequence[int], **params: Any) -> Any:
        (x,), (dim,) = args, dims
        moved = tuple(int(a) for a in np.where(np.less(axes, dim), axes, np.add(axes, 1)))
        return prim.bind(x, axes=moved, **params), dim - sum(a < dim for a in moved)

    batching_rules[prim] = reducer_batch
