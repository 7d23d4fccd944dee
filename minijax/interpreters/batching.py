"""JAX's name for what authors of batching rules need."""

from minijax.core.structural import broadcast, moveaxis
from minijax.interpreters.vmap import (
    AxisData,
    BatchTracer,
    axis_rules,
    batching_rules,
    bdim_at_front,
    not_mapped,
)

primitive_batchers = batching_rules
fancy_primitive_batchers = axis_rules

__all__ = [
    "AxisData",
    "BatchTracer",
    "bdim_at_front",
    "broadcast",
    "fancy_primitive_batchers",
    "moveaxis",
    "not_mapped",
    "primitive_batchers",
]
