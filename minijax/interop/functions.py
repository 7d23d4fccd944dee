"""``from_jax``: a function that was written for JAX, as a function of minijax.

Called with minijax values, it is traced by JAX on their types, its program imported, and that evaluated under whatever
interpreters are at work: so it can be differentiated, batched, staged and watched, equation by equation, with the lines
of the user's program. Tracing happens once for each function and signature.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from minijax.api.flat import fun_name
from minijax.config import x64_enabled
from minijax.core.array import Array, get_aval
from minijax.core.named import NamedTuple
from minijax.core.trace import Tracer
from minijax.interop import special as special  # fills the table of import rules
from minijax.interop.programs import import_closed
from minijax.interop.values import from_jax_value, jax_module, spec_of
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr

# Signatures of one function that are kept.
MAX_SIGNATURES = 1024


class TracedByJax(NamedTuple):
    """What JAX's tracing of a function gave: the program, and how its results are put together.

    ``statics`` has for each leaf of the result None, or a tuple of the leaf itself if it is no array.
    """

    program: ClosedJaxpr
    out_tree: Any
    statics: Sequence[Any]


# copy of a user's function, class or module with other names in it, or what was imported -> the user's own
originals: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
# function -> signature -> what was traced
_traced: weakref.WeakKeyDictionary[Any, dict[Any, TracedByJax]] = weakref.WeakKeyDictionary()


def from_jax(fun: Callable[..., Any]) -> Callable[..., Any]:
    """``fun``, written for JAX, as a function of minijax arrays, tracers, JAX's arrays and NumPy's.

    Args:
      fun: a function that JAX can trace, or one that a transformation of JAX's made; a ``ClosedJaxpr`` of JAX's. Its
        arguments and results are pytrees in JAX's sense; leaves that are no arrays, Python's numbers among them, are
        given to it as they are.

    Returns:
      A function with the same arguments, whose results are minijax arrays in the same trees. It can be transformed by
      minijax, and what it does is recorded with the lines of ``fun``'s source.

    Raises (when it is called):
      NotImplementedError: the function does what minijax cannot show, such as acting on the world.
    """
    if isinstance(fun, FunctionType):
        fun = originals.get(fun, fun)
    if type(fun).__name__ == "ClosedJaxpr":
        program = import_closed(fun)
        return lambda *args: eval_closed(program, *map(_value, args))

    @functools.wraps(fun)
    def imported(*args: Any, **kwargs: Any) -> Any:
        jax = jax_module()
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs), is_leaf=lambda x: isinstance(x, (Array, Tracer)))
        arrays = [i for i, leaf in enumerate(leaves) if is_array(leaf)]
        traced = _signature(fun, leaves, arrays, tree)
        outs = iter(eval_closed(traced.program, *[_value(leaves[i]) for i in arrays]))
        full = [next(outs) if static is None else static[0] for static in traced.statics]
        return jax.tree_util.tree_unflatten(traced.out_tree, full)

    return imported


def is_array(x: Any) -> bool:
    """Whether a leaf is an array, ours, JAX's or NumPy's, or stands for one."""
    return isinstance(x, (Array, Tracer, np.ndarray, np.generic)) or isinstance(x, jax_module().Array)


def _value(x: Any) -> Any:
    return x if isinstance(x, (Array, Tracer)) else from_jax_value(x)


def _type(x: Any) -> Any:
    """What JAX is to take the array for."""
    return spec_of(get_aval(x)) if isinstance(x, (Array, Tracer)) else jax_module().typeof(x)


def _signature(fun: Any, leaves: list[Any], arrays: list[int], tree: Any) -> TracedByJax:
    """What tracing ``fun`` at these arguments gives; done once for each signature that can be compared."""
    is_varied = set(arrays)
    types = [_type(leaves[i]) for i in arrays]
    key: Any = (
        x64_enabled(),
        tree,
        tuple([(t.shape, t.dtype, t.weak_type) for t in types]),
        tuple([None if i in is_varied else (type(leaf), leaf) for i, leaf in enumerate(leaves)]),
    )
    try:
        known = _traced.setdefault(fun, {})
        found = known.get(key)
    except TypeError:  # a leaf without a hash, or a function that cannot be referred to weakly
        return _trace(fun, leaves, arrays, tree, types)
    if found is None:
        if len(known) >= MAX_SIGNATURES:
            known.clear()
        found = known[key] = _trace(fun, leaves, arrays, tree, types)
    return found


def _trace(fun: Any, leaves: list[Any], arrays: list[int], tree: Any, types: list[Any]) -> TracedByJax:
    jax = jax_module()
    found: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        full = list(leaves)
        for i, x in zip(arrays, values, strict=True):
            full[i] = x
        args, kwargs = jax.tree_util.tree_unflatten(tree, full)
        out_leaves, out_tree = jax.tree_util.tree_flatten(fun(*args, **kwargs))
        statics = [None if is_array(x) or isinstance(x, (bool, int, float, complex)) else (x,) for x in out_leaves]
        found[:] = [out_tree, statics]
        return [x for x, static in zip(out_leaves, statics, strict=True) if static is None]

    with jax.enable_x64(x64_enabled()):
        traced = jax.make_jaxpr(flat)(*[jax.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t in types])
    return TracedByJax(import_closed(traced, fun_name(fun)), *found)
