"""JAX's ``api_util``: functions that flatten and unflatten calls, for packages with their own transformations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.borrowing import borrow
from minijax.core.lists import safe_map as safe_map
from minijax.pytree import PyTreeDef, tree_flatten, tree_structure, tree_unflatten
from minijax.pytree.prefix import prefix_leaves

__all__ = [
    "DebugInfo",
    "argnums_partial",
    "debug_info",
    "donation_vector",
    "flatten_axes",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "rebase_donate_argnums",
    "safe_map",
    "shaped_abstractify",
]


_LINEAR_UTIL = "minijax.extend.linear_util"
transformation = borrow(_LINEAR_UTIL, "transformation")
transformation_with_aux = borrow(_LINEAR_UTIL, "transformation_with_aux")
debug_info, DebugInfo = borrow(__name__, "debug_info"), borrow("minijax.extend.core", "DebugInfo")


@transformation_with_aux
def flatten_fun(in_tree: PyTreeDef, *args: Any) -> Any:
    """Make a function of leaves from a function of ``*args, **kwargs``; also return a getter of the result tree."""
    args, kwargs = tree_unflatten(in_tree, args)
    out = yield args, kwargs
    yield tree_flatten(out)


@transformation_with_aux
def flatten_fun_nokwargs(in_tree: PyTreeDef, *args: Any) -> Any:
    """Like ``flatten_fun``, for a tree of positional arguments."""
    out = yield tree_unflatten(in_tree, args), {}
    yield tree_flatten(out)


@transformation
def _with_others(dynamic: tuple[int, ...], others: tuple[Any, ...], *given: Any, **kwargs: Any) -> Any:
    rest, own = iter(others), dict(zip(dynamic, given, strict=True))
    count = len(dynamic) + len(others)
    yield (yield tuple(own[i] if i in own else next(rest) for i in range(count)), kwargs)


def argnums_partial(
    f: Any, dyn_argnums: int | Sequence[int], args: Sequence[Any], require_static_args_hashable: bool = True
) -> tuple[Any, tuple[Any, ...]]:
    """Return ``f`` as a function of only the arguments at ``dyn_argnums``. Also return those arguments.

    ValueError if ``require_static_args_hashable`` and another argument has no hash.
    """
    dynamic = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    dynamic = tuple(i % len(args) for i in dynamic)
    others = tuple(x for i, x in enumerate(args) if i not in dynamic)
    for other in others if require_static_args_hashable else ():
        try:
            hash(other)
        except TypeError:
            raise ValueError(
                f"Non-hashable static arguments are used: {other!r} of type {type(other)}. Pass a hashable value (a "
                "tuple in place of a list)."
            ) from None
    return _with_others(f, dynamic, others), tuple(args[i] for i in dynamic)


def shaped_abstractify(x: Any) -> ShapedArray:
    """The type of a value."""
    return get_aval(x)


def flatten_axes(
    name: str, treedef: PyTreeDef, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False
) -> list[Any]:
    """Broadcast the prefix ``axis_tree`` to the leaves of ``treedef``; None is a leaf. ``name`` is for errors."""
    return prefix_leaves(axis_tree, treedef, name=name)


def donation_vector(
    donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: PyTreeDef, kws: bool = True
) -> tuple[bool, ...]:
    """For each leaf of ``(args, kwargs)``, or of ``args`` if not ``kws``: whether it is donated."""
    call = tree_unflatten(in_tree, range(in_tree.num_leaves))
    args, kwargs = call if kws else (call, {})
    flags: list[bool] = []
    for i, arg in enumerate(args):
        flags += [i in donate_argnums] * tree_structure(arg).num_leaves
    for key in sorted(kwargs):
        flags += [key in donate_argnames] * tree_structure(kwargs[key]).num_leaves
    return tuple(flags)


def rebase_donate_argnums(donate_argnums: Sequence[int], static_argnums: Sequence[int]) -> tuple[int, ...]:
    """Positions of donated arguments, counted without the static ones. ValueError for an argument that is both."""
    both = set(donate_argnums) & set(static_argnums)
    if both:
        raise ValueError(f"static_argnums {tuple(static_argnums)} and donate_argnums cannot intersect, got {both}.")
    return tuple(sorted(i - sum(j < i for j in static_argnums) for i in donate_argnums))
