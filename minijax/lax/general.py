"""The functions of ``jax.lax`` that are none of one primitive: ``reduce``, ``stop_gradient``, ``zeros_like_array``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.trace import Tracer
from minijax.ops.convert import convert
from minijax.ops.convert import stop_gradient as stop_gradient_of_array
from minijax.ops.elementwise import add, bitwise_and, bitwise_or, bitwise_xor, max, min, mul
from minijax.ops.reduce import (
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reduce_xor,
)
from minijax.ops.shape import full_like
from minijax.pytree import tree_flatten, tree_map

__all__ = ["reduce", "stop_gradient", "zeros_like_array"]


def _all_bits(dtype: np.dtype) -> Any:
    return True if dtypes.is_bool(dtype) else np.array(-1).astype(dtype)[()]


# computation -> the reduction by it, its identity, and whether it is for booleans and integers only
_MONOIDS: dict[Callable[..., Any], tuple[Callable[..., Any], Callable[[np.dtype], Any], bool]] = {
    add: (reduce_sum, lambda dtype: 0, False),
    mul: (reduce_prod, lambda dtype: 1, False),
    max: (reduce_max, dtypes.min_value, False),
    min: (reduce_min, dtypes.max_value, False),
    bitwise_and: (reduce_and, _all_bits, True),
    bitwise_or: (reduce_or, lambda dtype: 0, True),
    bitwise_xor: (reduce_xor, lambda dtype: 0, True),
}


def reduce(
    operands: Any, init_values: Any, computation: Callable[..., Any], dimensions: Sequence[int]
) -> Any:
    """``operands`` combined over ``dimensions`` by ``computation``, from ``init_values``.

    For now ``computation`` is one of ``lax.add``, ``mul``, ``max``, ``min``, ``bitwise_and``, ``bitwise_or``
    and ``bitwise_xor``, ``operands`` one array, and ``init_values`` the computation's identity;
    NotImplementedError otherwise.
    """
    flat, tree = tree_flatten(operands)
    inits, init_tree = tree_flatten(init_values)
    if tree != init_tree:
        raise ValueError(f"Operands must have the same tree structure as init_values: {tree} vs. {init_tree}")
    monoid = _MONOIDS.get(computation)
    if monoid is None or len(flat) != 1:
        raise NotImplementedError(
            f"lax.reduce by {getattr(computation, '__name__', computation)!r} of {len(flat)} array(s): "
            "reduce one array by lax.add, mul, max, min, bitwise_and, bitwise_or or bitwise_xor."
        )
    (x,), (init,) = flat, inits
    aval, init_aval = get_aval(x), get_aval(init)
    reduction, identity, bits_only = monoid
    start = None if isinstance(init, Tracer) or init_aval.shape else np.asarray(init)
    if (
        start is None
        or start != identity(init_aval.dtype)
        or (bits_only and not _is_discrete(init_aval.dtype))
    ):
        raise NotImplementedError(
            f"lax.reduce by {computation.__name__} from {init!r}: the initial value must be the "
            f"computation's identity; apply lax.{computation.__name__} to the result and your initial value "
            "instead."
        )
    return convert(reduction(x, dimensions), None, aval.weak_type and init_aval.weak_type)


def _is_discrete(dtype: np.dtype) -> bool:
    return dtypes.is_bool(dtype) or dtypes.is_integer(dtype)


def stop_gradient(x: Any) -> Any:
    """``x``, an array or a pytree of arrays, as a constant to differentiation."""
    return tree_map(stop_gradient_of_array, x)


def zeros_like_array(x: Any) -> Any:
    """Zeros of the shape and dtype of ``x``."""
    return full_like(x, 0)
