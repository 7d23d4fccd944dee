"""``while_loop`` and ``fori_loop``: functions of pytrees over the primitives ``while`` and ``scan``."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from minijax.api.bodies import Body, stage_body
from minijax.api.flat import avals_of, check_args, fun_name, leaf_names, to_value
from minijax.config import jit_disabled
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.structural import full
from minijax.core.trace import Tracer
from minijax.errors import ConcretizationTypeError
from minijax.lax.scanning import check_carry, promote_weak, scan
from minijax.ops.convert import convert
from minijax.ops.elementwise import add_p, lt_p
from minijax.ops.subjaxprs import hoist_consts
from minijax.ops.while_loop import carry_to_consts, while_outputs, while_p
from minijax.pytree import tree_flatten, tree_map, tree_structure, tree_unflatten

__all__ = ["fori_loop", "while_loop"]


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """Repeat ``val = body_fun(val)``, starting from ``init_val``, while ``cond_fun(val)`` holds; return ``val``.

    Args:
      cond_fun: maps the carry to a boolean scalar.
      body_fun: maps the carry to the next carry, with the same tree, shapes and dtypes.
      init_val: the first carry, a pytree of arrays. Weakly typed leaves (Python numbers) take the body's dtype.

    Forward mode works (``jvp``, ``linearize``); reverse mode does not: the number of iterations is unknown.

    Raises:
      TypeError: an argument is not callable, ``init_val`` has a non-array leaf, ``cond_fun`` does not return a
        boolean scalar, or the carry changes its tree or types.
    """
    if not (callable(cond_fun) and callable(body_fun)):
        raise TypeError(
            f"lax.while_loop: body_fun and cond_fun arguments should be callable, got {body_fun!r} and {cond_fun!r}."
        )
    leaves, tree = tree_flatten(init_val)
    leaves = check_args(leaves, "while_loop", body_fun, tree_structure(((init_val,), {})))
    if jit_disabled():
        try:
            return _in_python(cond_fun, body_fun, init_val)
        except ConcretizationTypeError:
            pass  # the condition is traced: the primitive runs the loop
    return _while(cond_fun, body_fun, leaves, tree, lambda *types: check_carry("while_loop body", body_fun, *types))


def _in_python(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    val = tree_map(to_value, init_val)
    while cond_fun(val):
        val = tree_map(to_value, body_fun(val))
    return val


def _while(cond_fun: Any, body_fun: Any, init: list[Any], tree: Any, check: Callable[..., None]) -> Any:
    init = [to_value(x) for x in init]
    avals = avals_of(init)
    cond, body = _stage(cond_fun, body_fun, tree, avals)
    if len(body.closed.out_avals) == len(avals):
        init, changed = promote_weak(init, body.closed.out_avals)
        if changed:
            avals = avals_of(init)
            cond, body = _stage(cond_fun, body_fun, tree, avals)
    check(tree, avals, body.out_tree, body.closed.out_avals)
    cond_jaxpr, cond_consts = hoist_consts(cond.closed)
    body_jaxpr, body_consts = hoist_consts(body.closed)
    cond_jaxpr, body_jaxpr, moved = carry_to_consts(cond_jaxpr, len(cond_consts), body_jaxpr, len(body_consts))
    body_consts = [*[x for x, m in zip(init, moved, strict=True) if m], *body_consts]
    outs = while_p.bind(
        *cond_consts,
        *body_consts,
        *[x for x, m in zip(init, moved, strict=True) if not m],
        cond_jaxpr=cond_jaxpr,
        cond_nconsts=len(cond_consts),
        body_jaxpr=body_jaxpr,
        body_nconsts=len(body_consts),
    )
    return tree_unflatten(body.out_tree, while_outputs(outs, moved, init))


def _stage(cond_fun: Any, body_fun: Any, tree: Any, avals: list[ShapedArray]) -> tuple[Body, Body]:
    in_tree = tree_structure(((tree_unflatten(tree, avals),), {}))
    cond = stage_body(cond_fun, in_tree, avals, "while_cond")
    body = stage_body(body_fun, in_tree, avals, getattr(body_fun, "construct", "while_body"))
    out_avals = cond.closed.out_avals
    if len(out_avals) != 1 or cond.out_tree != tree_structure(0):
        advice = "Combine several conditions with jnp.logical_and." if out_avals else "Return a comparison."
        raise TypeError(f"cond_fun must return a boolean scalar, but got pytree {cond.out_tree}. {advice}")
    (pred,) = out_avals
    if pred.shape or not dtypes.is_bool(pred.dtype):
        advice = "Reduce it with jnp.any or jnp.all." if pred.shape else "Compare it with something, as in x != 0."
        raise TypeError(f"cond_fun must return a boolean scalar, but got output type(s) {[str(pred)]}. {advice}")
    return cond, body


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Run ``val = body_fun(i, val)`` for each i in ``range(lower, upper)``, starting from ``init_val``; return ``val``.

    Args:
      lower, upper: integers of one dtype (a Python number takes the dtype of the other). If both are known, the loop is
        a ``scan``, differentiable in reverse mode; if one is traced, it is a ``while_loop``.
      body_fun: maps the index and the carry to the next carry, with the same tree, shapes and dtypes.
      init_val: the first carry, a pytree of arrays.
      unroll: the number of steps in one iteration of the compiled loop (True: all); only with known bounds.

    Raises:
      TypeError: ``body_fun`` is not callable, the bounds have different dtypes, or the carry changes its tree or types.
      ValueError: ``unroll`` with traced bounds.
    """
    if not callable(body_fun):
        raise TypeError(f"lax.fori_loop: body_fun argument should be callable, got {body_fun!r}.")
    dtype = _index_dtype(get_aval(lower), get_aval(upper))
    start, stop = _concrete(lower), _concrete(upper)
    if start is not None and stop is not None:
        length = max(stop - start, 0)
        if jit_disabled() and length == 0:
            return init_val
        one_round = _round_of(body_fun, ScanRound)
        (_, out), _ = scan(one_round, (start, init_val), None, length=length, unroll=unroll or False)
        return out
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically known: pass Python integers, or "
            "leave unroll out."
        )
    bounds = [x if get_aval(x).dtype == dtype else convert(x, dtype) for x in (lower, upper)]
    leaves, tree = tree_flatten((*bounds, init_val))
    check_args(leaves[2:], "fori_loop", body_fun, tree_structure(((init_val,), {})))
    if jit_disabled():
        try:
            return _in_python(_more_rounds, _round_of(body_fun, WhileRound), (*bounds, init_val))[2]
        except ConcretizationTypeError:
            pass

    def check(in_tree: Any, in_avals: Any, out_tree: Any, out_avals: Any) -> None:
        # messages name the user's part of the carry after the second parameter of ``body_fun``
        of_carry = functools.partial(body_fun, None)
        trees = in_tree.children()[2], out_tree.children()[2]
        check_carry("fori_loop body", of_carry, trees[0], in_avals[2:], trees[1], out_avals[2:])

    return _while(_more_rounds, _round_of(body_fun, WhileRound), leaves, tree, check)[2]


def _index_dtype(lower: ShapedArray, upper: ShapedArray) -> Any:
    if lower.dtype == upper.dtype:
        return lower.dtype
    if dtypes.is_signed(lower.dtype) and dtypes.is_signed(upper.dtype) and lower.weak_type != upper.weak_type:
        return upper.dtype if lower.weak_type else lower.dtype
    raise TypeError(
        "lower and upper arguments to fori_loop must have equal types, got "
        f"{dtype_name(lower.dtype)} and {dtype_name(upper.dtype)}. Convert one of them with .astype."
    )


def _concrete(bound: Any) -> int | None:
    """The bound as an integer; None if it is traced or not a scalar."""
    value = bound.to_concrete_value() if isinstance(bound, Tracer) else bound
    if value is None or get_aval(value).shape:
        return None
    try:
        return int(value)
    except TypeError:
        return None


def _more_rounds(loop_carry: Any) -> Any:
    i, upper, _ = loop_carry
    return lt_p.bind(i, upper)


class _Round:
    """A ``fori_loop`` body as the body of a ``scan`` or ``while_loop``. It refers weakly to the user's function."""

    __slots__ = ("fun", "__name__", "__code__", "__weakref__")
    construct = "fori_loop"

    def __init__(self, body_fun: Callable[[Any, Any], Any]) -> None:
        try:
            self.fun: Callable[[], Any] = weakref.ref(body_fun)
        except TypeError:
            self.fun = lambda: body_fun
        self.__name__ = fun_name(body_fun)
        self.__code__ = getattr(body_fun, "__code__", None)

    def input_names(self, in_tree: Any) -> list[str]:
        """Name the leaves of a step's input after the body function's parameters; the bound is ``upper``."""
        (carry, *_), _ = tree_unflatten(in_tree, range(in_tree.num_leaves))
        index, *others = leaf_names(self.fun(), tree_structure(((carry[0], carry[-1]), {})))
        return [index, *["upper"] * (len(carry) - 2), *others]


class WhileRound(_Round):
    """The ``while_loop`` body over the index, its bound and the carry."""

    __slots__ = ()

    def __call__(self, loop_carry: Any) -> Any:
        i, upper, x = loop_carry
        aval = get_aval(i)
        return add_p.bind(i, full((), 1, aval.dtype, aval.weak_type)), upper, self.fun()(i, x)


class ScanRound(_Round):
    """The ``scan`` body over the index and the carry."""

    __slots__ = ()

    def __call__(self, loop_carry: Any, _: Any) -> Any:
        i, x = loop_carry
        return (i + 1, self.fun()(i, x)), None


_rounds: weakref.WeakKeyDictionary[Any, dict[type[_Round], _Round]] = weakref.WeakKeyDictionary()


def _round_of(body_fun: Callable[[Any, Any], Any], kind: type[_Round]) -> Any:
    try:
        made = _rounds.setdefault(body_fun, {})
    except TypeError:  # ``body_fun`` has no weak references or no hash
        made = {}
    if kind not in made:
        made[kind] = kind(body_fun)
    return made[kind]
