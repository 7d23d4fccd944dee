"""What a borrowed function does whose program depends on values of its arguments while some of them are traced.

JAX is asked again with the values of the arguments that have one. If it still needs the value of a tracer, the error is
minijax's, and names the user's tracer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax import errors
from minijax.api.explicit import left_to_compiler
from minijax.core.array import Array
from minijax.core.trace import Tracer
from minijax.interop.functions import from_jax, is_array
from minijax.interop.values import jax_module, to_jax_value


def _is_leaf(x: Any) -> bool:
    return isinstance(x, (Array, Tracer))


def on_known_values(theirs: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """``theirs(*args, **kwargs)``, traced by JAX with the values of all arrays that are no tracers.

    Raises:
      errors.JAXTypeError, errors.JAXIndexError: JAX needs the value of a tracer.
    """
    jax = jax_module()
    leaves, tree = jax.tree_util.tree_flatten((args, kwargs), is_leaf=_is_leaf)
    known = [to_jax_value(x) if isinstance(x, Array) else x for x in leaves]

    def of_tracers(traced: dict[int, Any]) -> Any:
        given, options = jax.tree_util.tree_unflatten(tree, [traced.get(i, x) for i, x in enumerate(known)])
        return theirs(*given, **options)

    tracers = {i: x for i, x in enumerate(leaves) if isinstance(x, Tracer)}
    try:
        return from_jax(of_tracers)(tracers)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise _error_of_ours(error, list(tracers.values())) from None


def _error_of_ours(error: Exception, tracers: list[Tracer]) -> Exception:
    """The error of minijax with the class name of ``error``, for the one of ``tracers`` whose value JAX asked for."""
    kind: Any = getattr(errors, type(error).__name__)
    # JAX's text ends with lines about its own trace
    about, _, rest = str(error).partition("\n")
    context = "" if rest.startswith("The error occurred") else rest.partition("\nThe error occurred")[0]
    found: Exception
    if not tracers:
        found = kind.__new__(kind, f"{about}\n{context}".strip())
        return found
    tracer = next((x for x in tracers if errors.aval_text(x) in about), tracers[0])
    found = kind(tracer, context) if kind is errors.ConcretizationTypeError else kind(tracer)
    return found


def with_out_sharding(function: Callable[..., Any], name: str, out_sharding: Any, args: Any, kwargs: Any) -> Any:
    """``function(*args, **kwargs)`` with the results sharded as ``out_sharding`` says; the compiler shards the rest."""
    tree_util = jax_module("tree_util")
    leaves, tree = tree_util.tree_flatten((args, kwargs), is_leaf=_is_leaf)
    places = [i for i, x in enumerate(leaves) if is_array(x) and not isinstance(x, np.ndarray)]

    def of_arrays(*arrays: Any) -> Any:
        full = list(leaves)
        for i, x in zip(places, arrays, strict=True):
            full[i] = x
        given, options = tree_util.tree_unflatten(tree, full)
        return function(*given, **options)

    return left_to_compiler(name, out_sharding, of_arrays, *[leaves[i] for i in places])
