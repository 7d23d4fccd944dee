"""Jacobians and Hessians: ``vmap`` applies the derivative maps to a whole basis at once.

This module is above ``api/``, since it makes the basis and its blocks with ``minijax.numpy``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minijax.api.autodiff import check_inputs, check_output, linearize_flat, lower_aux, on_leaves, pull_back
from minijax.api.batching import map_leaves, place_axis
from minijax.api.flat import FlatFun, avals_of, check_callable, fun_name, wraps
from minijax.config import context_mesh, x64_enabled
from minijax.core import avals as types
from minijax.core import dtypes
from minijax.core.array import Array, get_aval
from minijax.core.avals import ShapedArray, cotangent_type, sharded_part, sharded_to, sharding_of_parts
from minijax.core.observe import observers
from minijax.core.primitive import evaluation_watched
from minijax.core.structural import instantiate_zeros, zeros
from minijax.core.trace import state
from minijax.interpreters.jvp import jvp as jvp_flat
from minijax.interpreters.stage import JaxprTracer
from minijax.numpy import eye
from minijax.ops.convert import convert_element_type_p
from minijax.ops.nary import reshape_p
from minijax.ops.slicing import split_p
from minijax.pytree import tree_of_leaves

# At most ``MOST_KEPT`` bases are cached. A basis of more than ``LARGEST_KEPT`` vectors is not cached.
MOST_KEPT = 32
LARGEST_KEPT = 100
_bases: dict[Any, list[Any]] = {}


def _evaluating() -> bool:
    """Whether operations on arrays are evaluated immediately, without observers and without a mesh."""
    return not (state.dynamic.level or observers or evaluation_watched and context_mesh() is not None)


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return x if get_aval(x).shape == shape else reshape_p.bind(x, new_sizes=shape, dimensions=None, sharding=None)


def _cut(array: Any, axis: int, avals: Sequence[ShapedArray]) -> Iterator[Any]:
    """Split ``array`` along ``axis`` into a block for each type. The axis is as long as all types' sizes together."""
    if len(avals) == 1 and type(array) is Array and _evaluating():  # one block
        yield _reshape(array, (*array.shape[:axis], *avals[0].shape, *array.shape[axis + 1 :]))
        return
    shape = get_aval(array).shape
    parts = split_p.bind(array, sizes=tuple(a.size for a in avals), axis=axis)
    for part, aval in zip(parts, avals, strict=True):
        yield _reshape(part, (*shape[:axis], *aval.shape, *shape[axis + 1 :]))


def _basis(avals: Sequence[ShapedArray]) -> list[Any]:
    """The standard basis of arrays of these types: for each type, an array of shape (total size, *shape)."""
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
    """``x`` converted to the dtype of ``aval``. As in JAX, this is an equation even if the dtype stays."""
    params = {"new_dtype": aval.dtype, "weak_type": aval.weak_type, "sharding": None}
    if isinstance(x, JaxprTracer):
        trace: Any = x._trace
        if types.sharded_types_made:
            parts = [None, *[sharded_part(aval, i) for i in range(aval.ndim)]]
            params["sharding"] = sharding_of_parts(parts, aval)
        return trace.record(convert_element_type_p, (x,), params)
    return convert_element_type_p.bind(x, **params)


def _of_type(x: Any, aval: ShapedArray) -> Any:
    """``x`` with the dtype and weak type of ``aval``. Derivatives of integers (float0) become zeros."""
    found = get_aval(x)
    if found.dtype == aval.dtype and found.weak_type == aval.weak_type:
        return x
    if found.dtype == dtypes.float0:
        return zeros(aval.update(shape=found.shape))
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None)


def _sums(seeds: Sequence[Any], avals: Sequence[ShapedArray]) -> Sequence[Any]:
    """``seeds``, resharded to their types ``avals`` where these are unreduced or reduced."""
    pairs = zip(seeds, avals, strict=True)
    return [sharded_to(x, aval) if aval.unreduced or aval.reduced else x for x, aval in pairs]


def _blocks(array: Any, axis: int, avals: Sequence[ShapedArray], like: ShapedArray) -> list[Any]:
    """The blocks of ``array`` along ``axis`` (see ``_cut``), with the dtype and weak type of ``like``."""
    if get_aval(array).dtype == dtypes.float0:
        array = _of_type(array, like)
    return [_of_type(x, like) for x in _cut(array, axis % get_aval(array).ndim, avals)] if avals else []


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian of ``fun`` in the arguments ``argnums``, column by column (forward mode): for tall Jacobians.

    For output leaves of shape ``s`` and input leaves of shape ``t`` the blocks have shape ``s + t``. The result is a
    tree like the output, whose leaves are trees like the input. Returns ``(jacobian, aux)`` with ``has_aux``. TypeError
    for integer inputs.
    """
    check_callable(fun)

    @wraps(fun)
    def jacfwd_f(*args: Any, **kwargs: Any) -> Any:
        fun_of_leaves, leaves, tree = on_leaves(fun, argnums, args, kwargs, "jacfwd")
        avals = avals_of(leaves)
        check_inputs("jacfwd", avals, holomorphic, False)
        name = fun_name(fun)
        flat = FlatFun(fun_of_leaves, tree_of_leaves(len(leaves)), "jvp", has_aux, name)
        flat_aux = FlatFun(flat, flat.in_tree, "vmap", subject=name)

        def push(*tangents: Any) -> list[Any]:
            seeds = _sums(tangents, avals) if types.sharded_types_made else tangents
            outs, moved = jvp_flat(flat, leaves, seeds, name)
            outs += map(instantiate_zeros, moved)
            return outs + flat_aux.flat(lower_aux(flat.aux)) if has_aux else outs

        found, axes, mapped = map_leaves(push, _basis(avals), "push")
        n = flat.out_tree.num_leaves
        wanted = [*[None] * n, *[-1] * n, *[None] * (len(found) - 2 * n)]
        found = [place_axis(x, axis, w, mapped, push) for x, axis, w in zip(found, axes, wanted, strict=True)]
        outs = found[:n]
        if holomorphic:
            for y in outs:
                check_output("jacfwd", get_aval(y), holomorphic)
        blocks = [_blocks(c, -1, avals, get_aval(y)) for y, c in zip(outs, found[n:], strict=False)]
        jac = flat.out_tree.unflatten([*map(tree.unflatten, blocks)])
        return (jac, flat_aux.out_tree.unflatten(found[2 * n :])) if has_aux else jac

    return jacfwd_f


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of ``fun`` in the arguments ``argnums``, row by row (reverse mode), laid out as in ``jacfwd``."""
    check_callable(fun)

    @wraps(fun)
    def jacrev_f(*args: Any, **kwargs: Any) -> Any:
        fun_of_leaves, leaves, tree = on_leaves(fun, argnums, args, kwargs, "jacrev")
        in_avals = avals_of(leaves)
        check_inputs("jacrev", in_avals, holomorphic, allow_int)
        name = fun_name(fun)
        flat = FlatFun(fun_of_leaves, tree_of_leaves(len(leaves)), "vjp", has_aux, name)
        outs, program = linearize_flat(flat, leaves, [True] * len(leaves), name, lines=False)
        out_avals = avals_of(outs)
        for aval in out_avals:
            check_output("jacrev", aval, holomorphic)

        def pullback(*cts: Any) -> list[Any]:
            seeds = _sums(cts, [*map(cotangent_type, out_avals)]) if types.sharded_types_made else cts
            return pull_back(program, in_avals, seeds)

        rows, axes, mapped = map_leaves(pullback, _basis(out_avals), "pullback")
        rows = [place_axis(x, axis, 0, mapped, pullback) for x, axis in zip(rows, axes, strict=True)]
        # one list of blocks per input leaf -> one tree of input blocks per output leaf
        columns = [_blocks(r, 0, out_avals, a) for r, a in zip(rows, in_avals, strict=True)]
        blocks = [*zip(*columns, strict=True)] if columns else [()] * len(outs)
        jac = flat.out_tree.unflatten([*map(tree.unflatten, blocks)])
        return (jac, lower_aux(flat.aux)) if has_aux else jac

    return jacrev_f


jacobian = jacrev


def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Hessian of ``fun``: the forward-mode Jacobian of the reverse-mode one.

    For a scalar ``fun`` and an argument of shape ``s`` the result has shape ``s + s``. For other outputs and trees the
    layout is that of ``jacfwd``, applied twice. A call with integer inputs raises TypeError.

    >>> hessian(lambda x: (x**3).sum())(jnp.arange(2.))
    Array([[0., 0.],
           [0., 6.]], dtype=float32)
    """
    inner = jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return jacfwd(inner, argnums, has_aux=has_aux, holomorphic=holomorphic)
