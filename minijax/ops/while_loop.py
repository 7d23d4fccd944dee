"""``while``: repeats a body on a carry as long as a condition on the carry holds.

Operands are the condition's constants, the body's constants and the initial carry; results are the final carry. Each
jaxpr takes its own constants and then the whole carry. The carry's types are the same in every round. A batched
condition gives one predicate per element: the body runs while any predicate is true, and an element whose predicate
is false keeps its carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import Array, as_array
from minijax.core.avals import Avals, ShapedArray, physical_aval
from minijax.core.lists import chosen, merge, partition, safe_zip, split_list
from minijax.core.records import NamedTuple
from minijax.core.rules import Dims, Flags, Names, Params, Rule, Values
from minijax.core.structural import instantiate_zeros
from minijax.core.trace import check_alive, state
from minijax.errors import summarize
from minijax.interpreters.evaluate import compiled_over_meshes
from minijax.interpreters.jvp import jvp_jaxpr, with_zeros
from minijax.interpreters.named_axes import AxisPrimitive
from minijax.interpreters.partial_eval import dce_jaxpr, dce_rules, partial_eval_jaxpr, split_now
from minijax.interpreters.program import AGAIN_WORTH_COMPILING, ASSUMED_ROUNDS, WHILE_WORTH_COMPILING, program
from minijax.interpreters.vmap import match_axis, vmap_jaxpr
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Var, all_eqns, is_effectful, keep_together
from minijax.ir.typecheck import same_type
from minijax.lowering.lower import lower_inline
from minijax.lowering.regions import block_text, monoid_region
from minijax.lowering.text import mlir_type
from minijax.ops.call import compiled
from minijax.ops.declare import set_rules
from minijax.ops.subjaxprs import fixpoint, in_front, mapped, nonzeros

__all__ = ["while_p"]

while_p = AxisPrimitive("while", multiple_results=True)
while_p.keeps_signatures = False
compiled_over_meshes.add(while_p)


class WhileParts(NamedTuple):
    """Lists with one item for each operand of a loop: types, tangents, flags or batch axes."""

    cond_consts: list[Any]
    body_consts: list[Any]
    carry: list[Any]

    @staticmethod
    def of(items: Values, cond_nconsts: int, body_nconsts: int) -> WhileParts:
        """Divide ``items``, one for each operand, by kind."""
        return WhileParts(*split_list(items, cond_nconsts, body_nconsts))


@while_p.def_abstract_eval
def while_abstract(*avals: Any, body_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    return body_jaxpr.out_avals


def _while_typecheck(in_avals: tuple[ShapedArray, ...], params: Params) -> Avals:
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    given = WhileParts.of(in_avals, params["cond_nconsts"], params["body_nconsts"])
    for name, jaxpr, consts in (("cond", cond, given.cond_consts), ("body", body, given.body_consts)):
        _check_types(f"operands of the {name} jaxpr", [*consts, *given.carry], jaxpr.in_avals)
    _check_types("results of the body jaxpr", body.out_avals, given.carry)
    (pred,) = cond.out_avals
    if not dtypes.is_bool(pred.dtype):
        raise TypeError(f"the cond jaxpr returns {pred.str_short()}, not booleans")
    return body.out_avals


def _check_types(what: str, found: Avals, expected: Avals) -> None:
    if len(found) != len(expected):
        raise TypeError(f"{len(found)} {what}, {len(expected)} expected")
    for k, (a, b) in enumerate(safe_zip(found, expected)):
        if not same_type(a, b):
            raise TypeError(f"{what}: number {k} has type {a.str_short()}, expected {b.str_short()}")


class Loop:
    """Evaluates a loop in NumPy until that has cost as much as compilation would, then compiles the loop. So the loop
    takes at most twice the time of the better choice between the two.
    """

    __slots__ = ("closed", "cond_nconsts", "body_nconsts", "batched", "cond", "body", "spent", "executable")

    def __init__(self, cond_jaxpr: ClosedJaxpr, cond_nconsts: int, body_jaxpr: ClosedJaxpr, body_nconsts: int) -> None:
        avals = [*cond_jaxpr.in_avals[:cond_nconsts], *body_jaxpr.in_avals]
        invars, outvars = list(map(Var, avals)), list(map(Var, body_jaxpr.out_avals))
        params = {
            "cond_jaxpr": cond_jaxpr,
            "cond_nconsts": cond_nconsts,
            "body_jaxpr": body_jaxpr,
            "body_nconsts": body_nconsts,
        }
        eqn = JaxprEqn(while_p, invars, params, outvars)
        self.closed = ClosedJaxpr(Jaxpr([], invars, outvars, [eqn], "while_loop"))
        self.cond_nconsts = cond_nconsts
        self.body_nconsts = body_nconsts
        self.batched = bool(cond_jaxpr.out_avals[0].shape)
        self.cond = program(cond_jaxpr)
        self.body = program(_remember(body_jaxpr, "live", lambda: _live(body_jaxpr)))
        self.spent = 0
        self.executable: Any = None

    @property
    def round_weight(self) -> int:
        """The work of one round, in NumPy calls."""
        return self.cond.weight + self.body.weight + 1

    def __call__(self, *args: Any) -> list[Array]:
        """The final carry, for operands that are arrays."""
        if self.spent > AGAIN_WORTH_COMPILING:
            return self._compiled()(*args)
        values, done = self._interpret([as_array(check_alive(x))._value() for x in args])
        if done:
            return list(map(Array, values[self.cond_nconsts + self.body_nconsts :], self.closed.out_avals))
        return self._compiled()(*map(Array, values, self.closed.in_avals))

    def on_values(self, *values: Any) -> list[Any]:
        """The final carry, for operands that are NumPy values: the interpreter of an enclosing loop calls this."""
        operands, done = self._interpret(values) if self.executable is None else (values, False)
        if not done:
            return [x._value() for x in self._compiled()(*map(Array, operands, self.closed.in_avals))]
        return list(operands[self.cond_nconsts + self.body_nconsts :])

    def _compiled(self) -> Any:
        if self.executable is None:
            self.executable = compiled(self.closed, "while_loop")
        return self.executable

    def _interpret(self, values: Values) -> tuple[list[Any], bool]:
        """Run rounds in NumPy until compiling pays. Return the next operands, and whether the loop has ended."""
        n_consts, n_cond = self.cond_nconsts + self.body_nconsts, self.cond_nconsts
        carry: Values = values[n_consts:]
        cond_consts, body_consts = values[:n_cond], values[n_cond:n_consts]
        cond, body, batched = self.cond.function, self.body.function, self.batched
        rounds = max(1, (WHILE_WORTH_COMPILING - self.spent) // self.round_weight)
        before, done = rounds, False
        with np.errstate(all="ignore"):
            while rounds:
                rounds -= 1
                (pred,) = cond(*cond_consts, *carry)
                if not (pred.any() if batched else pred):
                    done = True
                    break
                new = body(*body_consts, *carry)
                carry = [_where(pred, a, b) for a, b in safe_zip(new, carry)] if batched else new
        self.spent += (before - rounds) * self.round_weight
        return [*values[:n_consts], *carry], done


def _live(closed: ClosedJaxpr) -> ClosedJaxpr:
    """``closed`` without the dead code that splitting a loop leaves."""
    pruned, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals), keep_inputs=True)
    return ClosedJaxpr(pruned, closed.consts)


def _where(pred: np.ndarray, new: Any, old: Any) -> Any:
    """``new`` for the elements that continue, ``old`` for the others; ``pred`` has the leading axes of both."""
    return np.where(pred.reshape(pred.shape + (1,) * (np.ndim(new) - pred.ndim)), new, old)


def _loop(cond_jaxpr: ClosedJaxpr, cond_nconsts: int, body_jaxpr: ClosedJaxpr, body_nconsts: int) -> Loop:
    made_of = (cond_jaxpr, cond_nconsts, body_jaxpr, body_nconsts)
    return keep_together([cond_jaxpr, body_jaxpr], ("loop", cond_nconsts, body_nconsts), lambda: Loop(*made_of))


@while_p.def_impl
def while_impl(*args: Any, **params: Any) -> list[Array]:
    return _loop(**params)(*args)


def _inner_loop(**params: Any) -> tuple[Callable[..., list[Any]], int]:
    loop = _loop(**params)
    return loop.on_values, ASSUMED_ROUNDS * loop.round_weight


def _remember(closed: ClosedJaxpr, key: Any, make: Rule) -> ClosedJaxpr:
    """A jaxpr derived from ``closed``, cached so that a second execution finds the same jaxpr."""
    if key not in closed.memo:
        closed.memo[key] = make()
    return closed.memo[key]


def _with_inputs(closed: ClosedJaxpr, invars: Sequence[Var]) -> ClosedJaxpr:
    return ClosedJaxpr(closed.jaxpr.replace(invars=invars), closed.consts)


def while_jvp(
    primals: Values,
    tangents: Values,
    *,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
) -> Any:
    """Each carry with a nonzero tangent gets a tangent carry. The condition reads only primals."""
    xs, ts = WhileParts.of(primals, cond_nconsts, body_nconsts), WhileParts.of(tangents, cond_nconsts, body_nconsts)
    const_nonzero, const_dots = nonzeros(ts.body_consts)
    init_nonzero, _ = nonzeros(ts.carry)
    nonzero, of_body = fixpoint(init_nonzero, lambda nz: jvp_jaxpr(body_jaxpr, [*const_nonzero, *nz], nz))
    init_dots = [instantiate_zeros(t) for t, nz in safe_zip(ts.carry, nonzero) if nz]

    def constants_first() -> ClosedJaxpr:
        primal_in, tangent_in = split_list(of_body.jaxpr.invars, len(body_jaxpr.in_avals))
        consts, carry = split_list(primal_in, body_nconsts)
        const_dot, carry_dot = split_list(tangent_in, len(const_dots))
        return _with_inputs(of_body, [*consts, *const_dot, *carry, *carry_dot])

    dot_avals = tuple(
        aval.to_tangent_aval() for aval, nz in safe_zip(body_jaxpr.in_avals[body_nconsts:], nonzero) if nz
    )
    widened = _remember(
        cond_jaxpr,
        ("unread inputs", dot_avals),
        lambda: _with_inputs(cond_jaxpr, [*cond_jaxpr.jaxpr.invars, *map(Var, dot_avals)]),
    )
    outs = while_p.bind(
        *xs.cond_consts,
        *xs.body_consts,
        *const_dots,
        *xs.carry,
        *init_dots,
        cond_jaxpr=widened,
        cond_nconsts=cond_nconsts,
        body_jaxpr=_remember(of_body, ("constants first", body_nconsts), constants_first),
        body_nconsts=body_nconsts + len(const_dots),
    )
    return with_zeros(outs, nonzero)


def while_batch(
    axis: Any,
    args: Values,
    dims: Dims,
    *,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
) -> Any:
    """Carries that are, or become, batched get the batch axis. If the condition is batched, all carries get it."""
    batched = WhileParts.of(mapped(dims), cond_nconsts, body_nconsts)
    axes = WhileParts.of(dims, cond_nconsts, body_nconsts)
    given = WhileParts.of(args, cond_nconsts, body_nconsts)

    def carries(flags: list[bool]) -> tuple[None, list[bool]]:
        _, found = vmap_jaxpr(body_jaxpr, axis, in_front([*batched.body_consts, *flags]), flags)
        return None, mapped(found)

    carry_batched, _ = fixpoint(batched.carry, carries)
    _, (pred_dim,) = vmap_jaxpr(cond_jaxpr, axis, in_front([*batched.cond_consts, *carry_batched]))
    if pred_dim is not None:
        if any(e.primitive.name == "io_callback" for c in (cond_jaxpr, body_jaxpr) for e in all_eqns(c.jaxpr)):
            raise NotImplementedError(
                "Unordered IO effects not supported in while_loop with batched predicate: the callback "
                "would run again for elements whose loop has ended. Make the condition independent of mapped values."
            )
        carry_batched = [True] * len(given.carry)
        at = 0
    else:
        # the axes that an earlier vmap gave the predicate stay in front of each carry
        at = cond_jaxpr.out_avals[0].ndim
    carry_dims = [at if b else None for b in carry_batched]
    body, _ = vmap_jaxpr(body_jaxpr, axis, [*axes.body_consts, *carry_dims], carry_batched, at)
    cond, _ = vmap_jaxpr(cond_jaxpr, axis, [*axes.cond_consts, *carry_dims], pred_dim is not None)
    placed = [
        x if d is None else match_axis(x, old, axis.size, d, axis.division)
        for x, old, d in safe_zip(given.carry, axes.carry, carry_dims)
    ]
    outs = while_p.bind(
        *given.cond_consts,
        *given.body_consts,
        *placed,
        cond_jaxpr=cond,
        cond_nconsts=cond_nconsts,
        body_jaxpr=body,
        body_nconsts=body_nconsts,
    )
    return outs, carry_dims


def while_partial_eval_jaxpr(eqn: JaxprEqn, unknown_in: Flags) -> Any:
    """Return a loop of the known carries, then the whole loop. The whole loop computes the known carries again, because
    residuals cannot be stacked without a known length."""
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    cond_nconsts, body_nconsts = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    given = WhileParts.of(unknown_in, cond_nconsts, body_nconsts)
    unknown, known_body = fixpoint(given.carry, lambda u: _known_part(body, [*given.body_consts, *u], u))
    known_cond, (pred_unknown,) = _known_part(cond, [*given.cond_consts, *unknown], [False])
    if pred_unknown or all(unknown):
        return [], [eqn]
    known_in, _ = partition([*given.cond_consts, *given.body_consts, *unknown], eqn.invars)
    known_out, _ = partition(unknown, eqn.outvars)
    params = {
        "cond_jaxpr": known_cond,
        "cond_nconsts": cond_nconsts - sum(given.cond_consts),
        "body_jaxpr": known_body,
        "body_nconsts": body_nconsts - sum(given.body_consts),
    }
    now = JaxprEqn(while_p, known_in, params, known_out, eqn.source)
    later_out = [v if u else DropVar(v.aval) for v, u in safe_zip(eqn.outvars, unknown)]
    return [now], [eqn.replace(outvars=later_out)]


def _known_part(closed: ClosedJaxpr, unknown_in: Flags, instantiate: Flags) -> tuple[ClosedJaxpr, list[bool]]:
    """The part of ``closed`` from known inputs to known outputs, without residuals. Also flags the unknown outputs."""
    key = ("known part", tuple(unknown_in), tuple(instantiate))
    if key not in closed.memo:
        known, _, unknown_out, n_residuals = partial_eval_jaxpr(closed, unknown_in, instantiate)
        # as in JAX, equations that compute residuals stay; they are dead and never run
        outs = known.jaxpr.outvars[: len(known.out_avals) - n_residuals]
        closed.memo[key] = ClosedJaxpr(known.jaxpr.replace(outvars=outs), known.consts), unknown_out
    return closed.memo[key]


def while_transpose(cts: Values, *args: Any, **params: Any) -> Any:
    """Raise ValueError: the reverse loop needs the values of every round, and the number of rounds is unknown."""
    where = "" if state.source is None else f"\nThe loop is at {summarize(state.source)}."
    raise ValueError(
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic start/stop values."
        f"{where}\nUse lax.scan, or lax.fori_loop with a start and a stop that are Python integers."
    )


dce_rules.holes[while_p] = "every carry stays, so that a printed loop has the same operands as in JAX"


def while_lower(
    ctx: Any,
    avals: Avals,
    out_avals: Avals,
    *names: str,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
) -> list[str]:
    """Write ``stablehlo.while``. Its two regions take all operands, including constants. XLA drops an ordered effect
    in the condition, so an effectful condition runs before the loop and after each round; its predicate is carried."""
    pred_aval = cond_jaxpr.out_avals[0]
    types = list(map(mlir_type, avals))
    operands = list(names)
    carries_pred = not pred_aval.shape and any(map(is_effectful, cond_jaxpr.eqns))
    effects = any(map(is_effectful, (*cond_jaxpr.eqns, *body_jaxpr.eqns)))

    def holds(inner: Any, consts: Names, carry: Names) -> str:
        (pred,) = lower_inline(inner, cond_jaxpr, [*consts, *carry])
        return _any(inner, pred, pred_aval)

    if effects:  # the carry gets the token that orders the effects of all rounds and of later operations
        ctx.token = ctx.token or ctx.emit("stablehlo.create_token : !stablehlo.token")
        if carries_pred:
            parts = WhileParts.of(names, cond_nconsts, body_nconsts)
            operands.insert(0, holds(ctx, parts.cond_consts, parts.carry))
            types.insert(0, "tensor<i1>")
        operands.insert(0, ctx.token)
        types.insert(0, "!stablehlo.token")

    def split(inner: Any, values: Names) -> WhileParts:
        if effects:
            inner.token, values = values[0], values[1 + carries_pred :]
        return WhileParts.of(values, cond_nconsts, body_nconsts)

    def cond(inner: Any, *values: str) -> list[str]:
        cond_consts, _, carry = split(inner, values)
        return [values[1] if carries_pred else holds(inner, cond_consts, carry)]

    def body(inner: Any, *values: str) -> list[str]:
        cond_consts, body_consts, carry = split(inner, values)
        new = lower_inline(inner, body_jaxpr, [*body_consts, *carry])
        if pred_aval.shape:
            (pred,) = lower_inline(inner, cond_jaxpr, [*cond_consts, *carry])
            rows = safe_zip(new, carry, map(physical_aval, body_jaxpr.out_avals))
            new = [_select(inner, pred, pred_aval, *row) for row in rows]
        again = [holds(inner, cond_consts, new)] if carries_pred else []
        return [*([inner.token] if effects else []), *again, *cond_consts, *body_consts, *new]

    regions = f"{block_text(ctx, types, cond, ['tensor<i1>'])}, {block_text(ctx, types, body, types)}"
    listed = ", ".join(types)
    op = f'"stablehlo.while"({", ".join(operands)}) ({regions}) : ({listed}) -> ({listed})'
    outs = ctx.emit_many(op, len(types))
    if effects:
        ctx.token = outs[0]
        outs = outs[1 + carries_pred :]
    return outs[cond_nconsts + body_nconsts :]


def _any(ctx: Any, pred: str, aval: ShapedArray) -> str:
    """Write whether any element of ``pred`` is true."""
    if not aval.shape:
        return pred
    region = monoid_region(ctx, "or", aval.dtype)
    axes = ", ".join(map(str, range(aval.ndim)))
    return ctx.emit(
        f'"stablehlo.reduce"({pred}, {ctx.scalar(False, aval.dtype)}) {region} '
        f"{{dimensions = array<i64: {axes}>}} : ({mlir_type(aval)}, tensor<i1>) -> tensor<i1>"
    )


def _select(ctx: Any, pred: str, pred_aval: ShapedArray, new: str, old: str, aval: ShapedArray) -> str:
    """Write ``new`` where ``pred`` is true, and ``old`` elsewhere; ``pred`` has the leading axes of both."""
    pred = ctx.broadcast(pred, pred_aval, aval.shape, range(pred_aval.ndim))
    bools = mlir_type(ShapedArray(aval.shape, pred_aval.dtype))
    return ctx.emit(f"stablehlo.select {pred}, {new}, {old} : {bools}, {mlir_type(aval)}")


set_rules(
    while_p,
    jvp=while_jvp,
    axis_batch=while_batch,
    transpose=while_transpose,
    partial_eval=split_now(while_p),
    partial_eval_jaxpr=while_partial_eval_jaxpr,
    lower=while_lower,
    typecheck=_while_typecheck,
    program=_inner_loop,
)


def carry_to_consts(
    cond: ClosedJaxpr, cond_nconsts: int, body: ClosedJaxpr, body_nconsts: int
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool]]:
    """Turn carries that the body returns unchanged, and the condition does not read, into the body's first constants:
    constants need no batch axis and no tangent. Return both jaxprs, and flags of the carries that moved."""
    forwarded = [i == body_nconsts + k for k, i in enumerate(_forwarding(body.jaxpr))]
    _, read = dce_jaxpr(cond.jaxpr, [True])
    moved = [f and not r for f, r in safe_zip(forwarded, read[cond_nconsts:])]
    if not any(moved):
        return cond, body, moved

    def smaller_cond() -> ClosedJaxpr:
        pruned, _ = dce_jaxpr(cond.jaxpr, [True], keep_inputs=True)
        kept = partition([*[False] * cond_nconsts, *moved], pruned.invars)[0]
        return ClosedJaxpr(pruned.replace(invars=kept), cond.consts)

    def smaller_body() -> ClosedJaxpr:
        staying, first = partition([*[False] * body_nconsts, *moved], body.jaxpr.invars)
        outs, _ = partition(moved, body.jaxpr.outvars)
        return ClosedJaxpr(body.jaxpr.replace(invars=[*first, *staying], outvars=outs), body.consts)

    key = ("carry to consts", cond_nconsts, body_nconsts, tuple(moved))
    return _remember(cond, key, smaller_cond), _remember(body, key, smaller_body), moved


def _forwarding(jaxpr: Jaxpr) -> list[int | None]:
    """For each output, the number of the input that it copies, directly or through ``jit``; None if it is computed."""
    source: dict[Any, Any] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "jit":
            for v, i in safe_zip(eqn.outvars, _forwarding(eqn.params["jaxpr"].jaxpr)):
                if i is not None and isinstance(eqn.invars[i], Var):
                    source[v] = source.get(eqn.invars[i], eqn.invars[i])
    position = {v: i for i, v in enumerate(jaxpr.invars)}
    return [position.get(source.get(v, v)) if isinstance(v, Var) else None for v in jaxpr.outvars]


def while_outputs(outs: Values, moved: Flags, init: Values) -> list[Any]:
    """The final carry, merged from the results of the loop and the initial values of the moved carries."""
    return merge(moved, outs, chosen(moved, init))
