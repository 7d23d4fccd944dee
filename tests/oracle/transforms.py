"""The transformations of every function in the table, written once for either library."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax

from .case import CASES, Case, tangent_leaf

SECOND = ("grad_of_grad", "jvp_of_grad")


def total(ns: Any, tree: Any) -> Any:
    """A scalar with nonzero first and second derivatives, computed from every floating point leaf of ``tree``."""
    leaves = [leaf for leaf in ns.tree_util.tree_leaves(tree) if is_float_leaf(leaf)]
    result = ns.numpy.sum(ns.numpy.sin(leaves[0]))
    for leaf in leaves[1:]:
        result = result + ns.numpy.sum(ns.numpy.sin(leaf))
    return result


def is_float_leaf(leaf: Any) -> bool:
    """Whether a result is real and floating point. It may be an array of the library or a Python scalar."""
    if isinstance(leaf, (bool, int, float, complex)):
        return isinstance(leaf, float)
    return jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)


def build(ns: Any, case: Case, *, inner_jit: bool = False) -> dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]]:
    """name -> (function, arguments) of every transformation that ``case`` supports.

    ``inner_jit`` jits the function of the case before it is transformed.
    """

    def bare(*args: Any) -> Any:
        return case.function(ns, *args)

    f = ns.jit(bare) if inner_jit else bare
    args, argnums = case.args, case.argnums()
    built: dict[str, Any] = {"value": (f, args)}
    if case.vmap:
        mapped = ns.vmap(f, in_axes=case.in_axes())
        built["vmap"] = (mapped, case.batched())
    if not argnums:
        return built

    def of_floats(g: Callable[..., Any], args: Any) -> Callable[..., Any]:
        def function(*floats: Any) -> Any:
            everything = list(args)
            for position, value in zip(argnums, floats, strict=True):
                everything[position] = value
            return g(*everything)

        return function

    def floats(args: Any) -> tuple[Any, ...]:
        return tuple(args[i] for i in argnums)

    def pushed(g: Callable[..., Any]) -> Callable[..., Any]:
        return lambda args, tangents: ns.jvp(of_floats(g, args), floats(args), tangents)

    tangents = jax.tree.map(tangent_leaf, floats(args))
    if case.forward:
        built["jvp"] = (pushed(f), (args, tangents))
    if not case.reverse:
        if case.vmap:
            many = case.batched()
            built["jvp_of_vmap"] = (pushed(mapped), (many, jax.tree.map(tangent_leaf, floats(many))))

        def linearized(args: Any, tangents: Any) -> Any:
            pushed_forward = ns.linearize(of_floats(f, args), *floats(args))[1](*tangents)
            return [t for t in ns.tree_util.tree_leaves(pushed_forward) if t.dtype != jax.dtypes.float0]

        built["linearize"] = (linearized, (args, tangents))
        built["jvp_of_jvp"] = (
            lambda args, tangents: ns.jvp(lambda *xs: ns.jvp(of_floats(f, args), xs, tangents), floats(args), tangents),
            (args, tangents),
        )
        return built

    def scalar(*args: Any) -> Any:
        return total(ns, f(*args))

    grad = ns.grad(scalar, argnums)
    built["grad"] = (grad, args)
    if case.vmap:
        built["vmap_of_grad"] = (ns.vmap(grad, in_axes=case.in_axes()), case.batched())
        built["grad_of_vmap"] = (ns.grad(lambda *args: total(ns, mapped(*args)), argnums), case.batched())
    if case.second:
        built["grad_of_grad"] = (ns.grad(lambda *args: total(ns, grad(*args)), argnums), args)
        if case.forward:
            built["jvp_of_grad"] = (pushed(grad), (args, tangents))
    return built


@cache
def names(case: Case) -> tuple[str, ...]:
    """The names of the transformations of ``case``, in order."""
    return tuple(build(jax, case))


def rows(wanted: tuple[str, ...] | None = None) -> list[tuple[str, str]]:
    """The (case, transformation) pairs of the whole table, or of the ``wanted`` transformations."""
    return [(c.name, t) for c in CASES.values() for t in names(c) if wanted is None or t in wanted]
