"""``reduce_window``: sums, maxima, minima of windows, or what any function makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.primitive import Primitive
from minijax.core.trace import Tracer
from minijax.lax.reductions import stage_reduction
from minijax.ops.elementwise import add, max, min
from minijax.ops.shape import shape_of
from minijax.ops.windows.reduce_window import reduce_window_max_p, reduce_window_min_p, reduce_window_sum_p
from minijax.ops.windows.reducer import reduce_window_p
from minijax.ops.windows.shapes import check_windows, dilated, ints, padtype_to_pads, pairs
from minijax.pytree import tree_flatten, tree_unflatten

__all__ = ["reduce_window"]

# computation -> the primitive for it, and what it starts from
_MONOIDS: dict[Callable[..., Any], tuple[Primitive, Callable[[np.dtype], Any]]] = {
    add: (reduce_window_sum_p, lambda dtype: 0),
    max: (reduce_window_max_p, dtypes.min_value),
    min: (reduce_window_min_p, dtypes.max_value),
}


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """The elements of each window of ``operand`` combined by ``computation``, from ``init_value``.

    Args:
      operand, init_value: an array and a scalar of its dtype, or trees of them, all arrays of one shape.
      computation: takes two trees of scalars to one; associative and commutative, as it is applied in whatever order
        XLA chooses. ``lax.add``, ``lax.max`` and ``lax.min`` from their identity are differentiated in both modes,
        others forward.
      window_dimensions: a window's size in each dimension.
      window_strides: how far it is from window to window; by default 1.
      padding: ``"VALID"``, ``"SAME"``, ``"SAME_LOWER"``, or a pair (low, high) for each dimension, of ``init_value``.
      base_dilation, window_dilation: how far elements of the operand, and of a window, are apart; by default 1.

    Raises TypeError or ValueError for trees, shapes, dtypes or windows that do not fit, NotImplementedError if
    ``computation`` closes over tracers.
    """
    flat, tree = tree_flatten(operand)
    inits, init_tree = tree_flatten(init_value)
    if not flat:
        raise ValueError("reduce_window must have at least one operand.")
    if tree != init_tree:
        raise ValueError(f"Operands must have the same tree structure as init_values: {tree} vs. {init_tree}")
    window, shape = ints(window_dimensions), shape_of(flat[0])
    ones = (1,) * len(window)
    params = {
        "window_dimensions": window,
        "window_strides": ones if window_strides is None else ints(window_strides),
        "base_dilation": ones if base_dilation is None else ints(base_dilation),
        "window_dilation": ones if window_dilation is None else ints(window_dilation),
    }
    params["padding"] = _pads(shape, padding, params)
    if len(flat) == 1:
        primitive = _monoid(computation, inits[0])
        if primitive is not None:
            return tree_unflatten(tree, [primitive.bind(flat[0], **params)])
    avals = [get_aval(x) for x in inits]
    if any(a.shape for a in avals):
        raise TypeError(
            f"reduce_window expected init_values to be scalars but init_values have shapes {[a.shape for a in avals]}."
        )
    closed = stage_reduction("reduce_window", computation, tree, avals)
    outs = reduce_window_p.bind(*flat, *inits, jaxpr=closed.jaxpr, consts=tuple(closed.consts), **params)
    return tree_unflatten(tree, outs)


def _pads(shape: tuple[int, ...], padding: Any, params: dict[str, tuple[int, ...]]) -> Any:
    """``padding`` in pairs; one that is called by name, for windows that are dilated."""
    if not isinstance(padding, str):
        return pairs(padding, "reduce_window")
    check_windows("reduce_window", shape, padding=((0, 0),) * len(shape), **params)
    window, strides, dilation = (params[name] for name in ("window_dimensions", "window_strides", "window_dilation"))
    reach = [dilated(w, d) for w, d in zip(window, dilation, strict=True)]
    return tuple(padtype_to_pads(shape, reach, strides, padding))


def _monoid(computation: Callable[..., Any], init: Any) -> Primitive | None:
    """The reduction by a primitive of its own that starts from ``init``; None if there is none."""
    found = _MONOIDS.get(computation)
    if found is None or isinstance(init, Tracer) or get_aval(init).shape:
        return None
    primitive, identity = found
    dtype = get_aval(init).dtype
    return primitive if np.asarray(init, dtype) == identity(dtype) else None
