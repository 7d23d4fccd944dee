"""Jacobians and Hessians: the derivative maps applied to a whole basis at once, by ``vmap``.

Above ``api/``, since the basis and its blocks are made with ``minijax.numpy``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minijax.api.autodiff import check_inputs, check_output, jvp, on_leaves, vjp
from minijax.api.batching import vmap
from minijax.api.flat import avals_of, check_callable, fun_name
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import Array, get_aval
from minijax.core.avals import ShapedArray
from minijax.core.observe import observers
from minijax.core.structural import zeros
from minijax.core.trace import state
from minijax.interpreters.stage import JaxprTracer
from minijax.numpy import eye
from minijax.ops.convert import convert_element_type_p
from minijax.ops.nary import reshape_p
from minijax.ops.slicing import split_p
from minijax.pytree import tree_flatten, tree_map, tree_unflatten

# The bases of so many lists of types are kept, of so many elements at most.
MOST_KEPT = 32
LARGEST_KEPT = 100
_bases: dict[Any, list[Any]] = {}


def _evaluating() -> bool:
    """Whether operations on arrays are evaluated at once, and nobody is to see them."""
    return not state.dynamic.level and not observers


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return x if get_aval(x).shape == shape else reshape_p.bind(x, new_sizes=shape, dimensions=None)


def _cut(array: Any, axis: int, avals: Sequence[ShapedArray]) -> Iterator[Any]:
    """``array``, whose ``axis`` runs over all elements of arrays of these types, cut into one block for each."""
    if len(avals) == 1 and type(array) is Array and _evaluating():  # there is nothing to cut
        yield _reshape(array, (*array.shape[:axis], *avals[0].shape, *array.shape[axis + 1 :]))
        return
    shape = get_aval(array).shape
    parts = split_p.bind(array, sizes=tuple(a.size for a in avals), axis=axis)
    for part, aval in zip(parts, avals, strict=True):
        yield _reshape(part, (*shape[:axis], *aval.shape, *shape[axis + 1 :]))


def _basis(avals: Sequence[ShapedArray]) -> list[Any]:
    """The standard basis of the space of arrays of these types: for each, (total size, *shape)."""
    if not avals:
        return []
    key = (*avals, x64_enabled())
    found = _bases.get(key) if _evaluating() else None
    if found is None:
        size = sum(a.size for a in avals)
        columns = eye(size, dtype=dtypes.result_type(*[(a.dtype, a.weak_type) for a in avals])[0])
        found = [_converted(x, a) for x, a in zip(_cut(columns, 1, avals), avals, strict=True)]
        if size <= LARGEST_KEPT and _evaluating():
            if len(_bases) >= MOST_KEPT:
                _bases.clear()
            _bases[key] = found
    return found


def _converted(x: Any, aval: ShapedArray) -> Any:
    """``x`` converted to the type of ``aval``: an equation also where that changes nothing, since JAX has one."""
    params = {"new_dtype": aval.dtype, "weak_type": aval.weak_type}
    if isinstance(x, JaxprTracer):
        trace: Any = x._trace
        return trace.record(convert_element_type_p, (x,), params)
    return convert_element_type_p.bind(x, **params)


def _of_type(x: Any, aval: ShapedArray) -> Any:
    """``x`` with the dtype and weak type of ``aval``; zeros for the float0 derivatives of integers."""
    found = get_aval(x)
    if found.dtype == aval.dtype and found.weak_type == aval.weak_type:
        return x
    if found.dtype == dtypes.float0:
        return zeros(aval.update(shape=found.shape))
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type)


def _blocks(array: Any, axis: int, avals: Sequence[ShapedArray], like: ShapedArray) -> list[Any]:
    """The blocks of ``array`` along ``axis`` (see ``_cut``), of the dtype and weak type of ``like``."""
    if get_aval(array).dtype == dtypes.float0:
        array = _of_type(array, like)
    return [_of_type(x, like) for x in _cut(array, axis % get_aval(array).ndim, avals)] if avals else []


def _on_leaves(
    fun: Callable[..., Any], argnums: int | Sequence[int], args: Any, kwargs: Any, transform: str
) -> tuple[Callable[..., Any], list[Any], Any]:
    """``on_leaves``, with a function that is called as the user's."""
    fun_of_leaves, leaves, tree = on_leaves(fun, argnums, args, kwargs, transform)
    fun_of_leaves.__name__ = fun_name(fun)
    return fun_of_leaves, leaves, tree


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian of ``fun`` in the arguments ``argnums``, column by column (forward mode): for tall Jacobians.

    For an output leaf of shape ``s`` and an input leaf of shape ``t`` the entry has shape ``s + t``; the trees nest,
    the output's outside. Returns ``(jacobian, aux)`` with ``has_aux``. TypeError for integer inputs.
    """
    check_callable(fun)

    @functools.wraps(fun)
    def jacfwd_f(*args: Any, **kwargs: Any) -> Any:
        fun_of_leaves, leaves, tree = _on_leaves(fun, argnums, args, kwargs, "jacfwd")
        avals = avals_of(leaves)
        check_inputs("jacfwd", avals, holomorphic, False)

        def push(*tangents: Any) -> Any:
            return jvp(fun_of_leaves, tuple(leaves), tangents, has_aux)

        out_axes = (None, -1, None) if has_aux else (None, -1)
        value, columns, *aux = vmap(push, out_axes=out_axes)(*_basis(avals))
        for y in tree_flatten(value)[0]:
            if holomorphic:
                check_output("jacfwd", get_aval(y), holomorphic)
        jac = tree_map(lambda y, c: tree_unflatten(tree, _blocks(c, -1, avals, get_aval(y))), value, columns)
        return (jac, aux[0]) if has_aux else jac

    return jacfwd_f


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of ``fun`` in the arguments ``argnums``, row by row (reverse mode): for wide Jacobians.

    The result is laid out as that of ``jacfwd``.
    """
    check_callable(fun)

    @functools.wraps(fun)
    def jacrev_f(*args: Any, **kwargs: Any) -> Any:
        fun_of_leaves, leaves, tree = _on_leaves(fun, argnums, args, kwargs, "jacrev")
        in_avals = avals_of(leaves)
        check_inputs("jacrev", in_avals, holomorphic, allow_int)
        value, pullback, *aux = vjp(fun_of_leaves, *leaves, has_aux=has_aux)
        outs, out_tree = tree_flatten(value)
        out_avals = avals_of(outs)
        for aval in out_avals:
            check_output("jacrev", aval, holomorphic)
        rows = vmap(lambda *cts: pullback(tree_unflatten(out_tree, cts)))(*_basis(out_avals))
        # one list of blocks per input leaf, regrouped as one tree of input blocks per output leaf
        columns = [_blocks(r, 0, out_avals, a) for r, a in zip(rows, in_avals, strict=True)]
        blocks = zip(*columns, strict=True) if columns else [()] * len(outs)
        jac = tree_unflatten(out_tree, [tree_unflatten(tree, list(block)) for block in blocks])
        return (jac, aux[0]) if has_aux else jac

    return jacrev_f


jacobian = jacrev


def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Hessian of ``fun``: the forward-mode Jacobian of the reverse-mode one."""
    inner = jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return jacfwd(inner, argnums, has_aux=has_aux, holomorphic=holomorphic)
