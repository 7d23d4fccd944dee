"""``cond`` and ``switch``: functions of pytrees over the primitive ``cond``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.api.bodies import Body, stage_body
from minijax.api.flat import avals_of, check_args, describe, to_value
from minijax.config import jit_disabled
from minijax.core import dtypes
from minijax.core.array import Array, get_aval, is_array_like
from minijax.core.avals import dtype_name
from minijax.core.structural import full
from minijax.core.trace import Tracer
from minijax.core.varying import ordered
from minijax.ir.typecheck import same_type
from minijax.lax.scanning import type_difference
from minijax.ops.clamp import clamp_p
from minijax.ops.cond import cond_p, join_branches
from minijax.ops.convert import convert
from minijax.ops.elementwise import ne_p
from minijax.pytree import keystr, tree_flatten, tree_flatten_with_path, tree_unflatten
from minijax.pytree.prefix import tree_diff

__all__ = ["cond", "switch"]

_NOT_GIVEN = object()
_INT32 = np.dtype(np.int32)


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NOT_GIVEN,
) -> Any:
    """Return ``true_fun(*operands)`` if ``pred`` holds, else ``false_fun(*operands)``.

    Args:
      pred: a boolean scalar, or a real number (true if nonzero).
      true_fun, false_fun: functions of the operands whose results have the same tree, shapes and dtypes. Both are
        traced, but only one runs. Closed-over values are operands too, so derivatives include them.
      operands, operand: pytrees of arrays. A single pytree may also be passed as the keyword ``operand``.

    The older form ``cond(pred, true_operand, true_fun, false_operand, false_fun)`` works too. Under ``vmap`` with a
    ``pred`` that differs between elements, both branches run and ``select`` picks the result.

    Raises:
      TypeError: ``pred`` is not such a scalar, a function cannot be called, an operand has a non-array leaf, or
        the results differ in tree or types.
    """
    if not (callable(true_fun) and callable(false_fun)):
        if callable(false_fun) and len(operands) == 2 and callable(operands[1]):
            return _cond_of_two_operands(pred, true_fun, false_fun, *operands)
        raise TypeError(
            f"lax.cond: true_fun and false_fun arguments should be callable, got {true_fun!r} and {false_fun!r}."
        )
    operands = _operands(operands, operand)
    pred = _predicate(pred)
    if jit_disabled() and (concrete := _concrete(pred)) is not None:
        return true_fun(*operands) if concrete else false_fun(*operands)
    leaves, in_tree = _flattened(operands, "cond", true_fun)
    avals = avals_of(leaves)
    bodies = [stage_body(fun, in_tree, avals, "cond") for fun in (true_fun, false_fun)]
    _check_same_outputs("cond", ["true_fun", "false_fun"], [true_fun, false_fun], bodies)
    index = convert(pred, _INT32)
    # ``true_fun`` is staged first, so its constants come first; but it is branch 1, because True is 1
    return _bind(index, bodies, leaves, order=[1, 0])


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _NOT_GIVEN) -> Any:
    """Return ``branches[index](*operands)``; an ``index`` out of bounds is clamped.

    Args:
      index: an integer scalar.
      branches: functions of the operands whose results have the same tree, shapes and dtypes. All are traced, but only
        one runs. A single branch is called directly.
      operands, operand: pytrees of arrays. A single pytree may also be passed as the keyword ``operand``.

    Raises:
      TypeError: ``index`` is no integer scalar, a branch cannot be called, an operand has a non-array leaf, or
        the results differ in tree or types.
      ValueError: there is no branch.
    """
    branches = tuple(branches)
    for i, branch in enumerate(branches):
        if not callable(branch):
            raise TypeError(
                f"lax.switch: branches argument should be a sequence of callables, but branch {i} is {branch!r}."
            )
    operands = _operands(operands, operand)
    if np.ndim(index) != 0:
        raise TypeError(f"Branch index must be scalar, got {index} of shape {np.shape(index)}.")
    if not is_array_like(index):
        raise TypeError(f"Index type must be an integer, got {index}.")
    dtype = get_aval(index).dtype
    if dtype.kind not in "iu":  # integers of any width
        raise TypeError(f"Index type must be an integer, got {index} as {dtype_name(dtype)}")
    if not branches:
        raise ValueError("Empty branch sequence: lax.switch needs at least one function to choose from.")
    if len(branches) == 1:
        return branches[0](*operands)
    chosen = clamp_p.bind(_bound(0), convert(index, _INT32), _bound(len(branches) - 1))
    if jit_disabled() and (concrete := _concrete(chosen)) is not None:
        return branches[int(concrete)](*operands)
    leaves, in_tree = _flattened(operands, "switch", branches[0])
    avals = avals_of(leaves)
    bodies = [stage_body(fun, in_tree, avals, "switch") for fun in branches]
    names = ["branch 0", *[f"branch{i}" for i in range(1, len(branches))]]
    _check_same_outputs("switch", names, branches, bodies)
    return _bind(chosen, bodies, leaves, order=range(len(branches)))


def _bound(value: int) -> Any:
    return full((), value, _INT32)


def _cond_of_two_operands(
    pred: Any,
    true_operand: Any,
    true_fun: Callable[[Any], Any],
    false_operand: Any,
    false_fun: Callable[[Any], Any],
) -> Any:
    return cond(pred, lambda x, _: true_fun(x), lambda _, x: false_fun(x), true_operand, false_operand)


def _operands(operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is _NOT_GIVEN:
        return operands
    if operands:
        raise TypeError(
            "if 'operand' keyword is passed then no positional operands can be passed, got "
            f"operand={operand!r} and positional operands {operands}"
        )
    return (operand,)


def _predicate(pred: Any) -> Any:
    """Check ``pred`` and convert it to a boolean, which is an array or a tracer only if ``pred`` is."""
    if pred is None:
        raise TypeError("cond predicate is None: pass a boolean scalar.")
    if isinstance(pred, Sequence):
        raise TypeError(f"Pred must be a scalar, got {pred} of type {type(pred)}")
    if np.ndim(pred) != 0:
        raise TypeError(
            f"Pred must be a scalar, got {pred} of shape {np.shape(pred)}. Use jnp.where to choose element by element."
        )
    if not is_array_like(pred):
        raise TypeError(f"Pred type must be either boolean or number, got {pred}.")
    aval = get_aval(pred)
    if dtypes.is_bool(aval.dtype):
        return pred
    if aval.dtype.kind not in "iuf":  # NumPy's own numbers only: bfloat16 and similar have no truth value
        raise TypeError(f"Pred type must be either boolean or number, got {dtype_name(aval.dtype)}.")
    if isinstance(pred, (Array, Tracer)):
        return ne_p.bind(pred, full((), 0, aval.dtype, aval.weak_type))
    return bool(pred)


def _concrete(x: Any) -> Any:
    return x.to_concrete_value() if isinstance(x, (Array, Tracer)) else np.asarray(x)


def _flattened(operands: tuple[Any, ...], transform: str, fun: Callable[..., Any]) -> tuple[list[Any], Any]:
    leaves, in_tree = tree_flatten((operands, {}))
    leaves = check_args(leaves, transform, fun, in_tree)
    return leaves, in_tree


def _bind(index: Any, bodies: Sequence[Body], leaves: Sequence[Any], order: Sequence[int]) -> Any:
    """Bind ``cond``. The ``bodies`` were staged in this order, and branch ``k`` is ``bodies[order[k]]``."""
    staged, consts, forwards = join_branches([body.closed for body in bodies])
    inputs = [*consts, *leaves]
    found = iter(cond_p.bind(index, *inputs, branches=tuple(staged[k] for k in order)))
    outs = [next(found) if forward is None else to_value(inputs[forward]) for forward in forwards]
    return tree_unflatten(bodies[0].out_tree, outs)


def _check_same_outputs(
    name: str, names: Sequence[str], functions: Sequence[Callable[..., Any]], bodies: Sequence[Body]
) -> None:
    """TypeError, which lists the differences, unless all results have the tree and types of the first result."""
    first = bodies[0]
    for other_name, other_fun, other in zip(names[1:], functions[1:], bodies[1:], strict=True):
        if other.out_tree == first.out_tree and all(map(same_type, first.closed.out_avals, other.closed.out_avals)):
            continue
        who = f"{names[0]} is {describe(functions[0])}\n{other_name} is {describe(other_fun)}\n\n"
        advice = f"\n\nRevise {names[0]} and/or {other_name} so that "
        if other.out_tree != first.out_tree:
            found = [
                f"{names[0]} output{_at(path)} is {_a(one)} but {other_name} output{_at(path)} is {_a(two)}, so {why}"
                for path, one, two, why in tree_diff(first.out_tree, other.out_tree)
            ]
            if found:
                raise TypeError(
                    f"{name} branch outputs must have the same pytree structure, but they differ:\n\n"
                    f"{who}{_listed(found)}{advice}they have the same pytree structure."
                )
        found = _type_differences(names[0], first, other_name, other)
        if found:
            cast = _casts(names[0], first, other_name, other)
            raise TypeError(
                f"{name} branches must have equal output types but they differ.\n\n"
                f"{who}{_listed(found)}{cast}{advice}all output types match."
            )


def _type_differences(name: str, first: Body, other_name: str, other: Body) -> list[str]:
    avals = first.closed.out_avals
    paths = [path for path, _ in tree_flatten_with_path(tree_unflatten(first.out_tree, avals))[0]]
    return [
        f"The output of {name}{_at(path)} has type {a} but the corresponding output of {other_name} has type {b}, "
        f"so {type_difference(a, b)}"
        for path, a, b in zip(paths, avals, other.closed.out_avals, strict=True)
        if not same_type(a, b)
    ]


def _casts(name: str, first: Body, other_name: str, other: Body) -> str:
    """Suggest ``pcast`` where one branch's output varies along more mesh axes than the other's."""
    found = [
        f"This might be fixed by applying `jax.lax.pcast(..., {ordered(more)}, to='varying')` to the output of {who}."
        for a, b in zip(first.closed.out_avals, other.closed.out_avals, strict=True)
        for who, more in ((name, b.vma - a.vma), (other_name, a.vma - b.vma))
        if more
    ]
    return "".join(f"\n\n{each}" for each in dict.fromkeys(found))


def _at(path: Any) -> str:
    return f" at path {keystr(path)}" if path else ""


def _a(thing: str) -> str:
    return thing if thing.startswith("a ") else f"a {thing}"


def _listed(sentences: Sequence[str]) -> str:
    if len(sentences) == 1:
        return f"{sentences[0]}."
    return "\n".join(f"  * {s}{'.' if s is sentences[-1] else ';'}" for s in sentences)
