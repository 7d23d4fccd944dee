"""``empty2``: a scalar whose value nobody will read, which is how JAX fills the places that a branch leaves open."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core.avals import ShapedArray
from minijax.core.keys import storage
from minijax.core.primitive import Primitive
from minijax.core.structural import broadcast_in_dim_p
from minijax.interpreters.evaluate import numpy_rules
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import batching_rules
from minijax.lowering.lower import lowering_rules

empty2_p = Primitive("empty2")


@empty2_p.def_abstract_eval
def empty2_abstract(*, dtype: np.dtype) -> ShapedArray:
    return ShapedArray((), dtype)


def _empty2_numpy(*, dtype: np.dtype) -> Any:
    return np.zeros((), storage(dtype))


def _empty2_lower(ctx: Any, avals: Any, out_avals: Any, *, dtype: np.dtype) -> str:
    return ctx.full(0, out_avals[0])


numpy_rules[empty2_p] = _empty2_numpy
lowering_rules[empty2_p] = _empty2_lower
for table in (jvp_rules, transpose_rules, batching_rules):
    table.holes[empty2_p] = "it has no operands, hence nothing to transform"


def empty_of(aval: ShapedArray) -> Any:
    """A placeholder of ``aval``'s shape and dtype: zeros, in fact."""
    scalar = empty2_p.bind(dtype=aval.dtype)
    return broadcast_in_dim_p.bind(scalar, shape=aval.shape, broadcast_dimensions=()) if aval.shape else scalar
