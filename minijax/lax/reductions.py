"""``lax.reduce``: it uses a primitive such as ``reduce_max`` where one fits, otherwise it stages the computation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.api.bodies import stage_body
from minijax.api.flat import describe
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.trace import Tracer
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ops.convert import convert
from minijax.ops.elementwise import add, bitwise_and, bitwise_or, bitwise_xor, max, min
from minijax.ops.products import mul
from minijax.ops.reduce import (
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reduce_xor,
)
from minijax.ops.reducer import reduce_p
from minijax.pytree import tree_flatten, tree_structure, tree_unflatten

__all__ = ["reduce"]


# computation -> its specialised reduction, the identity, and whether this reduction takes only booleans and integers
_MONOIDS: dict[Callable[..., Any], tuple[Callable[..., Any], Callable[[np.dtype], Any], bool]] = {
    add: (reduce_sum, lambda dtype: 0, False),
    mul: (reduce_prod, lambda dtype: 1, False),
    max: (reduce_max, dtypes.min_value, False),
    min: (reduce_min, dtypes.max_value, False),
    bitwise_and: (reduce_and, dtypes.all_bits, True),
    bitwise_or: (reduce_or, lambda dtype: 0, True),
    bitwise_xor: (reduce_xor, lambda dtype: 0, True),
}


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[..., Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Combine ``operands``, a tree of arrays, over ``dimensions`` by ``computation``, starting from ``init_values``.

    ``init_values`` is a tree of scalars like ``operands``. The operands have one shape; the results have that shape
    without ``dimensions``, and the operands' dtypes.
    ``computation(a, b)`` maps trees of scalars; it must be associative and commutative, since XLA chooses the order.
    Raises ValueError for trees, shapes or dtypes that do not fit, NotImplementedError if ``computation`` closes over
    tracers.
    ``out_sharding`` shards a sum that starts from 0. As in JAX, other specialised reductions (such as ``lax.max``,
    starting from the least value) raise NotImplementedError for it, and all other computations ignore it.

    >>> lax.reduce(jnp.arange(6.).reshape(2, 3), 0., lax.add, (1,))
    Array([ 3., 12.], dtype=float32)
    """
    flat, tree = tree_flatten(operands)
    inits, init_tree = tree_flatten(init_values)
    if tree != init_tree:
        raise ValueError(f"Operands must have the same tree structure as init_values: {tree} vs. {init_tree}")
    if not flat:
        raise ValueError("reduce: there are no operands")
    init_avals = [get_aval(x) for x in inits]
    if any(a.shape for a in init_avals):
        raise ValueError(f"reduce found non-scalar initial value: {[a.shape for a in init_avals]}")
    if len(flat) == 1:
        reduction = _monoid_reduction(computation, inits[0])
        if reduction is not None:
            weak = get_aval(flat[0]).weak_type and init_avals[0].weak_type
            if out_sharding is not None:
                if reduction is not reduce_sum:
                    raise NotImplementedError(
                        f"reduce by {describe(computation)} takes no out_sharding; only sums do. Reshard the "
                        "result with sharding.reshard."
                    )
                reduction = functools.partial(reduction, out_sharding=out_sharding)
            return tree_unflatten(tree, [convert(reduction(flat[0], dimensions), None, weak)])
    closed = stage_reduction("reduce", computation, tree, init_avals)
    params = {"computation": computation, "jaxpr": closed, "dimensions": tuple(dimensions)}
    return tree_unflatten(tree, reduce_p.bind(*flat, *inits, **params))


def _monoid_reduction(computation: Callable[..., Any], init: Any) -> Callable[..., Any] | None:
    """The specialised reduction for ``computation``; None if there is none, or if ``init`` is not its identity."""
    monoid = _MONOIDS.get(computation)
    if monoid is None or isinstance(init, Tracer):
        return None
    reduction, identity, bits_only = monoid
    dtype = get_aval(init).dtype
    same = np.asarray(init) == identity(dtype) and (not bits_only or _is_discrete(dtype))
    return reduction if same else None


def stage_reduction(name: str, computation: Callable[..., Any], tree: Any, avals: Sequence[Any]) -> ClosedJaxpr:
    """Stage ``computation`` on two trees of scalars of types ``avals``; error messages name the caller ``name``."""
    scalars = tree_unflatten(tree, avals)
    in_tree = tree_structure(((scalars, scalars), {}))
    closed, out_tree = stage_body(computation, in_tree, [*avals, *avals], name)
    if out_tree != tree:
        raise ValueError(
            f"{name}: the computation's output must have the same tree structure as the operands: {out_tree} vs. {tree}"
        )
    if any(isinstance(c, Tracer) for c in closed.consts):
        raise NotImplementedError(
            f"Reduction computations can't close over Tracers: {describe(computation)} does. Pass the closed-over "
            "values as operands."
        )
    return closed


def _is_discrete(dtype: np.dtype) -> bool:
    return dtypes.is_bool(dtype) or dtypes.is_integer(dtype)
