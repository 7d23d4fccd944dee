"""``closure_convert`` and ``custom_gradient``: derivative rules for functions that close over traced values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.api.custom_vjp import custom_vjp
from minijax.api.flat import FlatFun, avals_of, check_args, check_callable, describe
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.trace import Tracer
from minijax.interpreters.jvp import DualTracer
from minijax.interpreters.stage import stage
from minijax.interpreters.vmap import BatchTracer
from minijax.ir.evaluate import eval_jaxpr
from minijax.pytree import (
    PyTreeDef,
    register_pytree_node_class,
    tree_flatten,
    tree_leaves,
    tree_structure,
    tree_unflatten,
    treedef_is_leaf,
)


def custom_gradient(fun: Callable[..., Any]) -> custom_vjp:
    """Make a ``custom_vjp`` function of ``fun``, which returns ``(value, pullback)``.

    ``pullback(cotangent)`` returns one cotangent, or a tuple of several. It is traced, and may close over values from
    ``fun``.
    """
    check_callable(fun)

    def pair(*args: Any) -> Any:
        result = fun(*args)
        if isinstance(result, (tuple, list)) and len(result) == 2:
            return result
        kind = ValueError if isinstance(result, (tuple, list)) else TypeError
        raise kind(
            f"custom_gradient: the function {describe(fun)} must return a pair (value, pullback), but returned "
            f"{result!r}."
        )

    @functools.wraps(fun)
    def value_of(*args: Any) -> Any:
        return pair(*args)[0]

    def fwd(*args: Any) -> Any:
        value, pullback = pair(*args)
        leaves, out_tree = tree_flatten((value,))
        flat = FlatFun(pullback, tree_structure(((value,), {})), "custom_gradient")
        avals = [get_aval(x).to_tangent_aval() for x in leaves]
        closed = stage(flat, avals, describe(pullback), label="custom_gradient")
        return value, _Pullback(closed.jaxpr, flat.out_tree, closed.consts)

    def bwd(pullback: _Pullback, cotangent: Any) -> Any:
        leaves = tree_leaves((cotangent,))
        found = tree_unflatten(pullback.out_tree, eval_jaxpr(pullback.jaxpr, pullback.consts, *leaves))
        return (found,) if treedef_is_leaf(pullback.out_tree) else found

    converted = custom_vjp(value_of)
    converted.defvjp(fwd, bwd)
    return converted


@register_pytree_node_class
class _Pullback:
    """The residuals of ``custom_gradient``: a pytree that holds the staged pullback. Its leaves are the constants."""

    def __init__(self, jaxpr: Any, out_tree: PyTreeDef, consts: Sequence[Any]) -> None:
        self.jaxpr = jaxpr
        self.out_tree = out_tree
        self.consts = consts

    def tree_flatten(self) -> Any:
        return self.consts, (self.jaxpr, self.out_tree)

    @classmethod
    def tree_unflatten(cls, aux: Any, consts: Sequence[Any]) -> _Pullback:
        jaxpr, out_tree = aux
        return cls(jaxpr, out_tree, consts)


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Turn the differentiable values that ``fun`` closes over into additional arguments.

    Returns ``(converted, values)``: ``converted(*args, *values)`` is ``fun(*args)``, for arguments of the trees, shapes
    and dtypes of ``example_args`` (TypeError for another tree). ``values`` are the inexact tracers that ``fun`` used.
    """
    check_callable(fun)
    leaves, in_tree = tree_flatten(example_args)
    flat = FlatFun(fun, tree_structure((example_args, {})), "closure_convert")
    leaves = check_args(leaves, "closure_convert", fun, flat.in_tree)
    closed = stage(flat, avals_of(leaves), describe(fun), label="closure_convert")
    out_tree = flat.out_tree
    hoisted = [_maybe_perturbed(c) for c in closed.consts]
    values = [c for c, h in zip(closed.consts, hoisted, strict=True) if h]

    def converted(*args_and_values: Any) -> Any:
        n = len(args_and_values) - len(values)
        args, given = args_and_values[:n], iter(args_and_values[n:])
        arg_leaves, tree = tree_flatten(tuple(args))
        if tree != in_tree:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the same Pytree structure as the "
                f"example arguments passed when closure_convert was called. Expected {in_tree}, but got {tree}"
            )
        consts = [next(given) if h else c for c, h in zip(closed.consts, hoisted, strict=True)]
        return tree_unflatten(out_tree, eval_jaxpr(closed.jaxpr, consts, *arg_leaves))

    return converted, values


def _maybe_perturbed(x: Any) -> bool:
    """Whether ``x`` has a tangent, or may get one later."""
    while isinstance(x, BatchTracer):
        x = x.val
    return isinstance(x, DualTracer) or isinstance(x, Tracer) and dtypes.is_inexact(x.aval.dtype)
