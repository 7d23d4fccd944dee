"""``custom_linear_solve``: the solution of a linear equation, with derivatives that do not depend on the solver.

The equation is ``matvec(x) = b``; ``solve`` finds x. The tangent dx solves ``A dx = db - dA x``. The transpose solves
the transposed equation. Invariant: each of the four functions (``matvec``, ``vecmat``, ``solve``, ``transpose_solve``)
is linear in its last operands, which have the types of ``b``; its constants are operands of the primitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.array import as_array
from minijax.core.avals import AnyArray
from minijax.core.lists import safe_zip, split_list
from minijax.core.records import NamedTuple
from minijax.core.rules import Dims, Flags, Params, Values
from minijax.core.structural import UndefinedPrimal, Zero, add_tangents, instantiate_zeros, zero_of
from minijax.interpreters.jvp import jvp
from minijax.interpreters.named_axes import AxisPrimitive
from minijax.interpreters.vmap import match_axis, vmap_jaxpr
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ir.pretty import readable
from minijax.ir.typecheck import same_type
from minijax.lowering.lower import lower_eqns
from minijax.ops.declare import set_rules
from minijax.ops.elementwise import neg_p
from minijax.ops.subjaxprs import fixpoint, hoist_consts, in_front, mapped

__all__ = ["linear_solve_p"]


class _LinearSolveTuple(NamedTuple):
    """One item for each of the four functions: ``matvec``, ``vecmat``, ``solve`` and ``transpose_solve``."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transpose(self) -> _LinearSolveTuple:
        return _LinearSolveTuple(self.vecmat, self.matvec, self.transpose_solve, self.solve)


readable(_LinearSolveTuple)


linear_solve_p = AxisPrimitive("custom_linear_solve", multiple_results=True)
linear_solve_p.keeps_signatures = False


def bind_linear_solve(jaxprs: Sequence[ClosedJaxpr | None], consts: Sequence[Values], b: Values) -> Any:
    """Bind the primitive. It returns the leaves of x, then those of ``solve``'s auxiliary output.
    ``jaxprs`` are those of ``matvec``, ``vecmat``, ``solve`` and ``transpose_solve``, or None for a missing function.
    ``consts`` has the values of each jaxpr's first inputs."""
    opened: list[Any] = []
    operands: list[list[Any]] = []
    for closed, given in safe_zip(jaxprs, consts):
        hoisted, own = (None, []) if closed is None else hoist_consts(closed)
        opened.append(hoisted)
        operands.append([*own, *given])
    return linear_solve_p.bind(
        *[x for group in operands for x in group],
        *b,
        const_lengths=_LinearSolveTuple(*map(len, operands)),
        jaxprs=_LinearSolveTuple(*opened),
    )


def _split(operands: Values, const_lengths: Any) -> tuple[_LinearSolveTuple, list[Any]]:
    """Split the operands into the constants of each function, and the leaves of b."""
    *groups, b = split_list(operands, *const_lengths)
    return _LinearSolveTuple(*groups), b


@linear_solve_p.def_abstract_eval
def linear_solve_abstract(*avals: Any, const_lengths: Any, jaxprs: Any) -> list[Any]:
    b = avals[sum(const_lengths) :]
    outs = jaxprs.solve.out_avals
    # the results in x have the types of b, including weak types
    return [*[v if same_type(v, x) else x for v, x in zip(b, outs, strict=False)], *outs[len(b) :]]


def linear_solve_typecheck(in_avals: Sequence[Any], params: Params) -> list[Any]:
    consts, b = _split(in_avals, params["const_lengths"])
    for name, closed, own in safe_zip(_LinearSolveTuple._fields, params["jaxprs"], consts):
        if closed is None:
            continue
        operands = [*own, *b]
        if len(operands) != len(closed.in_avals) or not all(map(same_type, operands, closed.in_avals)):
            found = ", ".join(a.str_short() for a in operands)
            wanted = ", ".join(a.str_short() for a in closed.in_avals)
            raise TypeError(f"the jaxpr of {name} expects ({wanted}), but its operands have types ({found})")
    return linear_solve_abstract(*in_avals, **params)


@linear_solve_p.def_impl
def linear_solve_impl(*args: Any, const_lengths: Any, jaxprs: Any) -> list[Any]:
    consts, b = _split(args, const_lengths)
    found = eval_closed(jaxprs.solve, *consts.solve, *b)
    return [x if isinstance(x, AnyArray) else as_array(x) for x in found]


def linear_solve_jvp(primals: Values, tangents: Values, *, const_lengths: Any, jaxprs: Any) -> Any:
    outs = linear_solve_p.bind(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    consts, b = _split(primals, const_lengths)
    consts_dot, rhs = _split(tangents, const_lengths)
    x = outs[: len(b)]
    if any(type(t) is not Zero for t in consts_dot.matvec):
        still = [zero_of(a) for a in jaxprs.matvec.out_avals]
        _, moved = jvp(
            lambda *args: eval_closed(jaxprs.matvec, *args), [*consts.matvec, *x], [*consts_dot.matvec, *still]
        )
        moved = [m if type(m) is Zero else neg_p.bind(m) for m in moved]
        rhs = list(map(add_tangents, rhs, moved))
    zeros = [zero_of(a) for a in jaxprs.solve.out_avals]
    if all(type(t) is Zero for t in rhs):
        return outs, zeros
    x_dot = bind_linear_solve(jaxprs, consts, [instantiate_zeros(t) for t in rhs])[: len(b)]
    return outs, [*x_dot, *zeros[len(b) :]]


def linear_solve_transpose(cts: Values, *args: Any, const_lengths: Any, jaxprs: Any) -> list[Any]:
    if jaxprs.transpose_solve is None:
        raise TypeError(
            "transpose_solve required for backwards mode automatic differentiation of custom_linear_solve: pass "
            "transpose_solve, or symmetric=True if matvec is its own transpose."
        )
    consts, b = _split(args, const_lengths)
    if any(type(x) is UndefinedPrimal for group in consts for x in group):
        raise NotImplementedError(
            "custom_linear_solve is linear in b alone, so it can be transposed with respect to b, but not with "
            "respect to the values that matvec closes over."
        )
    if any(type(ct) is not Zero for ct in cts[len(b) :]):
        raise NotImplementedError("the auxiliary output of custom_linear_solve cannot be transposed.")
    x_cts = [instantiate_zeros(ct) for ct in cts[: len(b)]]
    found = bind_linear_solve(jaxprs.transpose(), consts.transpose(), x_cts)[: len(b)]
    b_cts = [ct if type(x) is UndefinedPrimal else None for ct, x in safe_zip(found, b)]
    return [*[None] * sum(const_lengths), *b_cts]


def linear_solve_batch(axis: Any, args: Values, dims: Dims, *, const_lengths: Any, jaxprs: Any) -> Any:
    consts, b = _split(args, const_lengths)
    const_dims, b_dims = _split(dims, const_lengths)
    n_aux = len(jaxprs.solve.out_avals) - len(b)

    # find which leaves of b, and so of x, are batched: each of the four functions may add some, until nothing changes
    def step(batched: list[bool]) -> Any:
        results: dict[str, Any] = {}
        grown: Flags = batched
        # as in JAX, the functions that return x come first; the others then take the batched x
        for name in ("solve", "vecmat", "matvec", "transpose_solve"):
            closed, own = getattr(jaxprs, name), getattr(const_dims, name)
            if closed is None:
                results[name] = None
                continue
            given = batched if name in ("solve", "vecmat") else grown
            forced = [*given, *[True] * (n_aux if "solve" in name else 0)]
            results[name], out = _batch_in_front(closed, axis, [*mapped(own), *given], forced)
            grown = [g or o for g, o in zip(grown, out, strict=False)]
        return results, grown

    batched, results = fixpoint(mapped(b_dims), step)
    moved = [
        [x if d is None else match_axis(x, d, axis.size, 0, axis.division) for x, d in safe_zip(xs, ds)]
        for xs, ds in safe_zip(consts, const_dims)
    ]
    new_b = [match_axis(x, d, axis.size, 0, axis.division) if bat else x for x, d, bat in safe_zip(b, b_dims, batched)]
    outs = bind_linear_solve(_LinearSolveTuple(**results), moved, new_b)
    return outs, [*in_front(batched), *[0] * n_aux]


def _batch_in_front(closed: ClosedJaxpr, axis: Any, batched_in: Flags, forced: Flags) -> tuple[ClosedJaxpr, list[bool]]:
    """``closed`` batched along first axes, and which outputs are batched: at least those in ``forced``."""
    dims = in_front(batched_in)
    made, out_dims = vmap_jaxpr(closed, axis, dims, forced)
    out = mapped(out_dims)
    if any(out_dims):
        made, _ = vmap_jaxpr(closed, axis, dims, out)
    return made, out


def linear_solve_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, const_lengths: Any, jaxprs: Any) -> list[str]:
    consts, b = _split(names, const_lengths)
    return lower_eqns(ctx, jaxprs.solve.jaxpr, [], [*consts.solve, *b])


set_rules(
    linear_solve_p,
    jvp=linear_solve_jvp,
    axis_batch=linear_solve_batch,
    transpose=linear_solve_transpose,
    lower=linear_solve_lower,
    typecheck=linear_solve_typecheck,
)
