"""What a borrowed function does whose program depends on values of its arguments while some of them are traced.

JAX is asked again with the values of the arguments that have one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.api.explicit import left_to_compiler
from minijax.core import dtypes
from minijax.core.array import Array, as_array
from minijax.core.avals import AnyArray
from minijax.core.lists import with_items
from minijax.core.trace import Tracer, state
from minijax.interop.functions import imported_function, is_array
from minijax.interop.reports import unknown_value_errors
from minijax.interop.tracing import circumstances
from minijax.interop.values import from_jax_values, jax_module, to_jax_value

# JAX reads the values of the arguments of these functions, so their results have no derivatives.
_OF_VALUES = frozenset(
    "intersect1d setdiff1d setxor1d union1d unique unique_all unique_counts unique_inverse unique_values".split()
)


def is_value(x: Any) -> bool:
    """Whether ``x`` is an array of minijax or a tracer."""
    return isinstance(x, AnyArray)


def on_known_values(theirs: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
    """``theirs(*args, **kwargs)``, traced by JAX with the values of all arrays that are no tracers.

    If JAX needs more values, it gets those that are differentiated too, where the results have no derivatives.

    Raises:
      jax.errors.JAXTypeError, jax.errors.JAXIndexError: JAX needs the value of a tracer.
    """
    jax = jax_module()
    ids = args[1] if len(args) > 1 else kwargs.get("segment_ids")
    if name.startswith("segment_") and len(args) < 3 and isinstance(ids, Array):
        # JAX counts the segments by an operation, which is staged here even if the segments are known.
        kwargs = {"num_segments": int(np.max(ids, initial=-1)) + 1, **kwargs}
    leaves, tree = jax.tree_util.tree_flatten((args, kwargs), is_leaf=is_value)
    known = [to_jax_value(x) if isinstance(x, Array) else x for x in leaves]

    def of_tracers(traced: dict[int, Any]) -> Any:
        given, options = jax.tree_util.tree_unflatten(tree, [traced.get(i, x) for i, x in enumerate(known)])
        return theirs(*given, **options)

    tracers = {i: x for i, x in enumerate(leaves) if isinstance(x, Tracer)}
    try:
        return imported_function(of_tracers)(tracers)
    except unknown_value_errors():
        values = {i: x.to_concrete_value() for i, x in tracers.items()}
        if tracers and state.dynamic.level == 0 and all(x is not None for x in values.values()):
            with circumstances():
                out = from_jax_values(of_tracers({i: to_jax_value(as_array(x)) for i, x in values.items()}))
            if name in _OF_VALUES or not any(dtypes.is_inexact(x.dtype) for x in jax.tree_util.tree_leaves(out)):
                return out
        raise


def with_out_sharding(function: Callable[..., Any], name: str, out_sharding: Any, args: Any, kwargs: Any) -> Any:
    """``function(*args, **kwargs)`` with the results sharded as ``out_sharding`` says; the compiler shards the rest."""
    tree_util = jax_module("tree_util")
    leaves, tree = tree_util.tree_flatten((args, kwargs), is_leaf=is_value)
    places = [i for i, x in enumerate(leaves) if is_array(x) and not isinstance(x, np.ndarray)]

    def of_arrays(*arrays: Any) -> Any:
        given, options = tree_util.tree_unflatten(tree, with_items(leaves, places, arrays))
        return function(*given, **options)

    return left_to_compiler(name, out_sharding, of_arrays, *[leaves[i] for i in places])
