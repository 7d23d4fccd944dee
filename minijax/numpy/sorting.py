"""Sorting: ``sort`` and ``argsort``."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.avals import sharding_of_type
from minijax.numpy.promotion import canonical_axis, ensure, user_dtype
from minijax.ops.index import index_dtype

__all__ = ["argsort", "sort"]


def _sorting_operand(name: str, a: Any, axis: int | None, kind: Any, order: Any) -> tuple[Any, int]:
    a = ensure(name, a)
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")
    if axis is None:
        a, axis = lax.reshape(a, (a.aval.size,)), 0
    return a, canonical_axis(axis, a.aval.ndim)


@inner_jit(static_argnames=("axis", "kind", "order", "stable", "descending"))
def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: Any = None,
    order: Any = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """``a`` sorted along ``axis``, nan last; flattened if ``axis`` is None."""
    a, axis = _sorting_operand("sort", a, axis, kind, order)
    out = lax.sort(a, axis, stable)
    return lax.rev(out, (axis,)) if descending else out


@inner_jit(static_argnames=("axis", "kind", "order", "stable", "descending", "dtype"))
def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: Any = None,
    order: Any = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Any:
    """The indices that sort ``a`` along ``axis``; of the flattened array if ``axis`` is None."""
    a, axis = _sorting_operand("argsort", a, axis, kind, order)
    shape = a.aval.shape
    if dtype is not None:
        out_dtype = user_dtype(dtype, "argsort")
    else:
        out_dtype = index_dtype((shape[axis],))
        if out_dtype == np.int32:
            out_dtype = dtypes.default_dtype("i", x64_enabled())
    places = lax.broadcasted_iota(out_dtype, shape, axis, out_sharding=sharding_of_type(a.aval))
    if descending and stable:
        # reversed now and again at the end, so that equal elements keep their order
        a, places = lax.rev(a, (axis,)), lax.rev(places, (axis,))
    _, places = lax.sort_key_val(a, places, axis, stable)
    return lax.rev(places, (axis,)) if descending else places
