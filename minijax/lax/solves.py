"""Solvers with implicit derivatives: ``custom_linear_solve`` and ``custom_root``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.api.autodiff import linear_transpose, linearize
from minijax.api.bodies import Body, stage_body
from minijax.api.custom_jvp import custom_jvp
from minijax.api.flat import avals_of, check_callable, to_value
from minijax.core import dtypes
from minijax.core.array import get_aval, is_array_like
from minijax.core.lists import split_list
from minijax.core.records import NamedTuple
from minijax.core.structural import instantiate_zeros, zero_of, zeros
from minijax.interpreters.jvp import jvp as jvp_flat
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ops.elementwise import neg_p
from minijax.ops.linear_solve import bind_linear_solve
from minijax.ops.subjaxprs import hoist_consts
from minijax.pytree import keystr, tree_flatten, tree_flatten_with_path, tree_unflatten

__all__ = ["custom_linear_solve", "custom_root"]


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve ``matvec(x) = b`` for x by ``solve``. Derivatives follow from the equation, not from ``solve``.

    Args:
      matvec: a linear, differentiable function of a value like ``b``. It may close over differentiated values.
      b: the right side, a pytree of arrays.
      solve: ``solve(matvec, b) -> x``, where x has the structure and shapes of b. It need not be differentiable.
      transpose_solve: ``transpose_solve(vecmat, b) -> x`` solves the transposed equation. Reverse mode needs it.
      symmetric: ``matvec`` is its own transpose, so ``solve`` also solves the transposed equation.
      has_aux: both solvers and this function return ``(x, auxiliary_data)``; the latter has no derivative.

    Raises:
      TypeError: a function's output has another structure than b. ValueError: an output has other shapes than b, or
        lacks auxiliary data. NotImplementedError: ``matvec`` is not linear.
    """
    for fun in (matvec, solve) if transpose_solve is None else (matvec, solve, transpose_solve):
        check_callable(fun)
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    return linear_solve(matvec, matvec if symmetric else None, b, solve, transpose_solve, has_aux)


def linear_solve(
    matvec: Callable[[Any], Any],
    vecmat: Callable[[Any], Any] | None,
    b: Any,
    solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None,
    has_aux: bool = False,
) -> Any:
    """``custom_linear_solve`` with ``vecmat``, the transpose of ``matvec``; if None, ``matvec`` is transposed."""
    leaves, tree, in_tree = _values("custom_linear_solve", "b", b)
    avals = avals_of(leaves)

    def staged(fun: Callable[..., Any], what: str, aux: bool) -> Body:
        body = stage_body(fun, in_tree, avals, f"custom_linear_solve {what}")
        _check_output(what, body, "b", tree, aux, avals)
        return body

    of_matvec = staged(matvec, "matvec", False)
    of_solve = staged(functools.partial(solve, matvec), "solve", has_aux)
    of_vecmat = of_transpose = None
    if transpose_solve is not None:
        is_symmetric = vecmat is matvec
        vecmat = vecmat or _transpose_of(matvec, b)
        of_vecmat = of_matvec if is_symmetric else staged(vecmat, "vecmat", False)
        of_transpose = staged(functools.partial(transpose_solve, vecmat), "transpose_solve", has_aux)
    jaxprs = [None if body is None else body.closed for body in (of_matvec, of_vecmat, of_solve, of_transpose)]
    return tree_unflatten(of_solve.out_tree, bind_linear_solve(jaxprs, [()] * 4, leaves))


def _transpose_of(matvec: Callable[[Any], Any], b: Any) -> Callable[[Any], Any]:
    transposed = linear_transpose(matvec, b)

    def vecmat(y: Any) -> Any:
        (x,) = transposed(y)
        return x

    return vecmat


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[..., Any],
    tangent_solve: Callable[..., Any],
    has_aux: bool = False,
) -> Any:
    """Solve ``f(x) = 0`` for x by ``solve``. The result is differentiable in the values that ``f`` closes over.

    The derivatives follow from the implicit function theorem
    (https://en.wikipedia.org/wiki/Implicit_function_theorem).

    Args:
      f: a differentiable function from x to a value of the same structure. It may close over differentiated values.
      initial_guess: the start of ``solve``, a pytree of arrays. The derivative with respect to it is zero.
      solve: ``solve(f, initial_guess) -> x``. It need not be differentiable.
      tangent_solve: ``tangent_solve(g, y) -> x`` solves ``g(x) = y``, where g is linear: ``f`` linearized at its root.
          For scalars, ``lambda g, y: y / g(1.0)``.
      has_aux: ``solve`` and this function return ``(x, auxiliary_data)``; the latter has no derivative.

    Raises:
      TypeError: a function's output has another structure than ``initial_guess``. ValueError: no auxiliary output.
    """
    for fun in (f, solve, tangent_solve):
        check_callable(fun)
    guess, tree, in_tree = _values("custom_root", "initial_guess", initial_guess)
    avals = avals_of(guess)

    def linearize_and_solve(x: Any, b: Any) -> Any:
        _, g = linearize(f, x)
        return tangent_solve(g, b)

    two_trees = tree_flatten(((initial_guess, initial_guess), {}))[1]
    of_f = stage_body(f, in_tree, avals, "custom_root f")
    _check_output("f", of_f, "initial_guess", tree, False)
    of_solve = stage_body(functools.partial(solve, f), in_tree, avals, "custom_root solve")
    _check_output("solve", of_solve, "initial_guess", tree, has_aux)
    of_tangent = stage_body(linearize_and_solve, two_trees, [*avals, *avals], "custom_root tangent_solve")
    _check_output("tangent_solve", of_tangent, "x", tree, False)
    opened = [hoist_consts(body.closed) for body in (of_f, of_solve, of_tangent)]
    lengths = tuple(len(consts) for _, consts in opened)
    operands = [x for _, consts in opened for x in consts]
    outs = _custom_root(lengths, tuple(jaxpr for jaxpr, _ in opened), *operands, *guess)
    return tree_unflatten(of_solve.out_tree, map(to_value, outs))


class RootOperands(NamedTuple):
    """The inputs of a root search: the constants of the three functions, and the guess."""

    f: list[Any]
    solve: list[Any]
    tangent_solve: list[Any]
    guess: list[Any]

    @staticmethod
    def of(items: Sequence[Any], lengths: Sequence[int]) -> RootOperands:
        """Split ``items``, one per operand, into the fields; ``lengths`` counts the constants of each function."""
        return RootOperands(*split_list(items, *lengths))


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _custom_root(lengths: tuple[int, ...], jaxprs: tuple[ClosedJaxpr, ...], *args: Any) -> list[Any]:
    """Evaluate ``solve``; ``args`` are the ``RootOperands``."""
    given = RootOperands.of(args, lengths)
    return eval_closed(jaxprs[1], *given.solve, *given.guess)


@_custom_root.defjvp
def _root_jvp(
    lengths: tuple[int, ...], jaxprs: tuple[ClosedJaxpr, ...], primals: Sequence[Any], tangents: Sequence[Any]
) -> Any:
    """The derivative rule. F(m, x(m)) = 0 for all values m that F closes over, so dx solves ``F_x dx = -F_m dm``."""
    of_f, _, tangent_solve = jaxprs
    outs = _custom_root(lengths, jaxprs, *primals)
    given, dots = RootOperands.of(primals, lengths), RootOperands.of(tangents, lengths)
    x, aux = split_list(outs, len(of_f.out_avals))
    moving = [
        t if dtypes.is_inexact(get_aval(c).dtype) else zero_of(get_aval(c))
        for c, t in zip(given.f, dots.f, strict=True)
    ]
    still = [zero_of(get_aval(v)) for v in x]
    _, moved = jvp_flat(lambda *args: eval_closed(of_f, *args), [*given.f, *x], [*moving, *still])
    found = eval_closed(tangent_solve, *given.tangent_solve, *x, *map(instantiate_zeros, moved))
    return outs, [*map(neg_p.bind, found), *[zeros(get_aval(v).to_tangent_aval()) for v in aux]]


def _values(what: str, parameter: str, tree: Any) -> tuple[list[Any], Any, Any]:
    """The leaves and structure of ``tree``, and the argument structure of a call on it. TypeError for a non-array."""
    for path, x in tree_flatten_with_path(tree)[0]:
        if not is_array_like(x):
            raise TypeError(
                f"{what}: the argument {parameter}{keystr(path)} is {x!r} of type {type(x)}, which is not a valid JAX "
                "type. Pass an array, a number, or a pytree of them."
            )
    leaves, structure = tree_flatten(tree)
    return [to_value(x) for x in leaves], structure, tree_flatten(((tree,), {}))[1]


def _check_output(
    what: str, body: Body, expected: str, tree: Any, has_aux: bool, avals: Sequence[Any] | None = None
) -> None:
    """Raise unless the output of ``what`` has the tree and the shapes of the argument named ``expected``.
    With ``has_aux`` the output is a pair, and its first part is compared."""
    found = body.out_tree
    if has_aux:
        parts = found.children()
        if len(parts) != 2:
            raise ValueError(
                f"{what}() produced a pytree with structure {found}, but a pytree tuple with auxiliary output was "
                "expected because has_aux was set to True."
            )
        found = parts[0]
    if avals is not None:
        shapes = [a.shape for a in body.closed.out_avals[: found.num_leaves]]
        wanted = [a.shape for a in avals]
        if shapes != wanted:
            raise ValueError(f"{what}() output shapes must match {expected}, got {shapes} and {wanted}")
    if found != tree:
        raise TypeError(f"{what}() output pytree structure must match {expected}, got {found} and {tree}.")
