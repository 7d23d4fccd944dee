"""``make_jaxpr`` and ``eval_shape``: compute the program of a function, or only the types of its results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.api.flat import (
    FlatFun,
    avals_of,
    check_args,
    check_callable,
    describe,
    int_or_ints,
    named_like,
    positions,
)
from minijax.core.shape_structs import ShapeDtypeStruct, stood_in
from minijax.interpreters.named_axes import bound_axes
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.pytree import tree_flatten, tree_unflatten

__all__ = ["eval_shape", "make_jaxpr"]


def _stage(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[ClosedJaxpr, Any]:
    leaves, in_tree = tree_flatten((tuple(args), kwargs))
    leaves = [*map(stood_in, leaves)]
    leaves = check_args(leaves, "make_jaxpr", fun, in_tree)
    flat = FlatFun(fun, in_tree, "make_jaxpr")
    return stage(flat, avals_of(leaves), describe(fun), label="make_jaxpr"), flat.out_tree


def _shapes(closed: ClosedJaxpr, out_tree: Any) -> Any:
    return tree_unflatten(out_tree, [*map(ShapeDtypeStruct.of, closed.out_avals)])


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """Make a function that returns the jaxpr of ``fun`` for given arguments, which may be ``ShapeDtypeStruct``s.

    ``fun`` is traced, not computed. The result is a ``ClosedJaxpr``; ``print`` shows its text.

    ``static_argnums``: positions of arguments that pass to ``fun`` unchanged. ``axis_env``: names and sizes of mapped
    axes, outermost first. ``return_shape``: return ``(jaxpr, tree of types)``. TypeError if an argument or an output is
    no array.

    >>> make_jaxpr(lambda x: jnp.sin(x) * 2.)(3.)
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }
    """
    check_callable(fun)
    numbers = int_or_ints(static_argnums, "static_argnums")

    @functools.wraps(fun)
    def make_jaxpr_f(*args: Any, **kwargs: Any) -> Any:
        static = positions(numbers, len(args), "make_jaxpr with", "static_argnums", ValueError)
        dynamic = [a for i, a in enumerate(args) if i not in static]

        def of_dynamic(*values: Any, **kw: Any) -> Any:
            given = iter(values)
            return fun(*[a if i in static else next(given) for i, a in enumerate(args)], **kw)

        staged = named_like(of_dynamic, fun, static) if static else fun
        if axis_env:
            with bound_axes(axis_env):
                closed, out_tree = _stage(staged, dynamic, kwargs)
        else:
            closed, out_tree = _stage(staged, dynamic, kwargs)
        return (closed, _shapes(closed, out_tree)) if return_shape else closed

    return make_jaxpr_f


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Compute the shapes and dtypes of ``fun``'s outputs, as ``ShapeDtypeStruct``s, without running it.

    Arguments are pytrees of arrays or of ``ShapeDtypeStruct``s. The result has the tree of ``fun``'s output. Errors in
    shapes or dtypes are raised as in a call.

    >>> eval_shape(jnp.dot, jnp.ones((2, 3)), jnp.ones((3, 4)))
    ShapeDtypeStruct(shape=(2, 4), dtype=float32)
    """
    check_callable(fun)
    return _shapes(*_stage(fun, args, kwargs))
