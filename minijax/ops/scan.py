"""``scan``: a loop of known length that carries values along and takes one slice of each array per step.

The body is a jaxpr ``(consts, carry, x) -> (carry, y)``. Operands are the consts, the initial carry, and arrays
``xs``, whose leading axis has one slice for each step; results are the last carry and the ``ys``, stacked along a
leading axis. Each transformation of a scan is a scan of the transformed body. The transformation may affect more
carried values in each step, because one step's results are the next step's inputs. A fixed-point iteration finds all.

Outside ``jit`` a body first runs on NumPy, which costs less than compiling it. After enough work on NumPy the scan is
compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.array import Array, as_array, get_aval
from minijax.core.avals import Avals, ShapedArray, cotangent_type
from minijax.core.keys import storage
from minijax.core.lists import chosen, merge, partition, safe_zip, split_list, spread
from minijax.core.records import NamedTuple
from minijax.core.rules import Dims, Params, Rule, Values
from minijax.core.structural import UndefinedPrimal, Zero, broadcast, instantiate_zeros, moveaxis, zero_of, zeros
from minijax.core.trace import check_alive
from minijax.interpreters.evaluate import compiled_over_meshes
from minijax.interpreters.jvp import jvp_jaxpr, with_zeros
from minijax.interpreters.linear_parts import LinearizedJaxpr, linearize_jaxpr
from minijax.interpreters.named_axes import AxisPrimitive
from minijax.interpreters.partial_eval import dce_jaxpr, live_eqns, partial_eval_jaxpr, split_now, without_custom_rules
from minijax.interpreters.program import AGAIN_WORTH_COMPILING, SCAN_WORTH_COMPILING, program
from minijax.interpreters.recompute import allows, split_by_policy
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import backward_pass_closed
from minijax.interpreters.vmap import vmap_jaxpr
from minijax.ir.evaluate import bind_eqn, eval_jaxpr
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, inlined, is_effectful, matters
from minijax.ir.typecheck import same_type
from minijax.ops.call import compiled, one_equation
from minijax.ops.declare import set_rules
from minijax.ops.scan_lowering import scan_lower, slice_aval
from minijax.ops.subjaxprs import Flags, fixpoint, in_front, mapped, nonzeros

__all__ = ["scan_p"]

scan_p = AxisPrimitive("scan", multiple_results=True)
scan_p.keeps_signatures = False
compiled_over_meshes.add(scan_p)


class ScanParts(NamedTuple):
    """Lists with one item for each input of a scan's body: operands, types, tangents, flags or dimensions."""

    consts: list[Any]
    carry: list[Any]
    xs: list[Any]

    @staticmethod
    def of(items: Values, num_consts: int, num_carry: int) -> ScanParts:
        """Divide ``items``, one for each input of the body, by kind."""
        return ScanParts(*split_list(items, num_consts, num_carry))

    def beside(self, others: ScanParts) -> list[Any]:
        """One list: the consts of ``self`` and of ``others``, then the carries of each, then the xs of each."""
        return [x for both in safe_zip(self, others) for part in both for x in part]

    def flat(self) -> list[Any]:
        """One list, in the order of a scan's operands."""
        return [*self.consts, *self.carry, *self.xs]

    def counts(self) -> dict[str, int]:
        """``num_consts`` and ``num_carry`` of a scan with only the inputs whose flag is true. Items must be flags."""
        return {"num_consts": sum(self.consts), "num_carry": sum(self.carry)}


class ScanResults(NamedTuple):
    """Lists with one item for each result of a scan's body."""

    carry: list[Any]
    ys: list[Any]

    @staticmethod
    def of(items: Values, num_carry: int) -> ScanResults:
        """Divide ``items``, one for each result of the body, by kind."""
        return ScanResults(*split_list(items, num_carry))

    def beside(self, others: ScanResults) -> list[Any]:
        """One list: the carries of ``self`` and of ``others``, then the ys of each."""
        return [*self.carry, *others.carry, *self.ys, *others.ys]


@scan_p.def_abstract_eval
def scan_abstract(*avals: ShapedArray, jaxpr: ClosedJaxpr, length: int, num_carry: int, **params: Any) -> list[Any]:
    if len(avals) != len(jaxpr.in_avals):
        raise ValueError(f"scan of a body with {len(jaxpr.in_avals)} inputs got {len(avals)} operands")
    body = ScanResults.of(jaxpr.out_avals, num_carry)
    return [*body.carry, *[y.stacked(length) for y in body.ys]]


def _listed(avals: Avals) -> str:
    return "[" + ", ".join(a.str_short(short_dtypes=False) for a in avals) + "]"


def scan_typecheck(in_avals: tuple[ShapedArray, ...], params: Params) -> list[ShapedArray]:
    """Check that operands have the types of the body's inputs, and that the carry keeps its types."""
    body, length = params["jaxpr"], params["length"]
    sizes = (params["num_consts"], params["num_carry"])
    for name, low in (("length", 0), ("num_consts", 0), ("num_carry", 0), ("unroll", 0)):
        if type(params[name]) is not int or params[name] < low:
            raise TypeError(f"scan param {name} must be a non-negative int, got {params[name]!r}")
    out_avals = scan_abstract(*in_avals, **params)
    given, taken = ScanParts.of(in_avals, *sizes), ScanParts.of(body.in_avals, *sizes)
    if any(not x.ndim or x.shape[0] != length for x in given.xs):
        raise TypeError(f"scan of length {length} over sequences of types {_listed(given.xs)}")
    pairs = (
        ("takes constants", taken.consts, given.consts),
        ("takes a carry", taken.carry, given.carry),
        ("returns a carry", body.out_avals[: sizes[1]], given.carry),
        ("takes slices", taken.xs, [slice_aval(x) for x in given.xs]),
    )
    for what, inner, outer in pairs:
        if not all(map(same_type, inner, outer)):
            raise TypeError(f"scan jaxpr {what} of types {_listed(inner)}, but is used at {_listed(outer)}")
    return out_avals


def _looped(
    jaxpr: ClosedJaxpr, length: int, reverse: bool, num_consts: int, num_carry: int, **params: Any
) -> tuple[Callable[..., list[Any]], int]:
    """The scan as a function of NumPy values, and its weight: the number of NumPy calls it makes."""
    body = program(jaxpr)
    first_x = num_consts + num_carry
    n_xs = len(jaxpr.in_avals) - first_x
    ys_avals = [a.stacked(length) for a in jaxpr.out_avals[num_carry:]]

    def run(*values: Any) -> list[Any]:
        consts, carry = values[:num_consts], values[num_consts:first_x]
        xs, step = [*map(np.asarray, values[first_x:])], body.function
        ys = [np.empty(a.shape, storage(a.dtype)) for a in ys_avals]
        for i in reversed(range(length)) if reverse else range(length):
            outs = step(*consts, *carry, *[x[i] for x in xs])
            carry = outs[:num_carry]
            for y, out in zip(ys, outs[num_carry:], strict=True):
                y[i] = out
        return [*carry, *ys]

    return run, length * (body.weight + n_xs + len(ys_avals)) + 1


class _Evaluated:
    """Evaluates a scan outside ``jit``: first on NumPy, after enough work as a compiled program."""

    __slots__ = ("call", "run", "weight", "spent", "executable", "out_avals")

    def __init__(self, in_avals: Avals, params: Params) -> None:
        self.call = one_equation(scan_p, in_avals, params)
        self.out_avals = self.call.out_avals
        self.run, self.weight = _looped(**params)
        self.spent = 0
        self.executable: Any = None

    def __call__(self, args: Values) -> list[Any]:
        if self.executable is not None:
            return self.executable(*args)
        limit = AGAIN_WORTH_COMPILING if self.spent else SCAN_WORTH_COMPILING
        self.spent += self.weight
        if self.spent > limit:
            self.executable = compiled(self.call, "scan")
            return self.executable(*args)
        values = [x._value() for x in args]
        with np.errstate(all="ignore"):
            outs = self.run(*values)
        return list(map(Array, outs, self.out_avals))


@scan_p.def_impl
def scan_impl(*args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    arrays = [x if type(x) is Array else as_array(check_alive(x)) for x in args]
    avals = tuple([x.aval for x in arrays])
    key = ("scan_evaluated", avals, *params.items())
    evaluated = jaxpr.memo.get(key)
    if evaluated is None:
        evaluated = jaxpr.memo[key] = _Evaluated(avals, {**params, "jaxpr": jaxpr})
    return evaluated(arrays)


def _scan_jvp_jaxpr(closed: ClosedJaxpr, nonzero: Flags, num_consts: int, num_carry: int) -> Any:
    """The jvp of the body. The tangents of each kind (consts, carry...) follow the primals of that kind. Also returns
    which inputs (by kind) and which results have tangents."""
    key = ("scan_jvp", tuple(nonzero), num_consts, num_carry)
    if key not in closed.memo:
        given = ScanParts.of(nonzero, num_consts, num_carry)
        n_ys = len(closed.out_avals) - num_carry

        def step(carry_nz: Flags) -> Any:
            made, out_nz = jvp_jaxpr(closed, [*given.consts, *carry_nz, *given.xs], [*carry_nz, *[False] * n_ys])
            return (made, out_nz), out_nz[:num_carry]

        carry_nz, (made, out_nz) = fixpoint(given.carry, step)
        in_nz = given._replace(carry=carry_nz)
        ins, ins_dot = split_list(made.jaxpr.invars, len(closed.in_avals))
        outs, outs_dot = split_list(made.jaxpr.outvars, len(closed.out_avals))
        invars = ScanParts.of(ins, num_consts, num_carry).beside(ScanParts.of(ins_dot, **in_nz.counts()))
        outvars = ScanResults.of(outs, num_carry).beside(ScanResults.of(outs_dot, sum(carry_nz)))
        jaxpr = made.jaxpr.replace(invars=invars, outvars=outvars)
        closed.memo[key] = ClosedJaxpr(jaxpr, made.consts), in_nz, out_nz
    return closed.memo[key]


def scan_jvp(
    primals: Values, tangents: Values, *, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **params: Any
) -> Any:
    nonzero = [type(t) is not Zero for t in tangents]
    made, in_nz, out_nz = _scan_jvp_jaxpr(jaxpr, nonzero, num_consts, num_carry)
    xs = ScanParts.of(primals, num_consts, num_carry)
    ts = ScanParts.of(tangents, num_consts, num_carry)
    dots = ScanParts(
        *[[instantiate_zeros(t) for t, nz in safe_zip(part, flags) if nz] for part, flags in safe_zip(ts, in_nz)]
    )
    num_consts, num_carry = num_consts + len(dots.consts), num_carry + len(dots.carry)
    outs = scan_p.bind(*xs.beside(dots), jaxpr=made, num_consts=num_consts, num_carry=num_carry, **params)
    both = ScanResults.of(outs, num_carry)
    carry, carry_dot = split_list(both.carry, len(xs.carry))
    ys, ys_dot = split_list(both.ys, len(jaxpr.out_avals) - len(carry))
    return with_zeros([*carry, *ys, *carry_dot, *ys_dot], out_nz)


def _scan_vmap_jaxpr(closed: ClosedJaxpr, axis: Any, batched: Flags, num_consts: int, num_carry: int) -> Any:
    """The body batched along leading axes. Also returns which carried values, and which ys, are batched."""
    given = ScanParts.of(batched, num_consts, num_carry)
    n_ys = len(closed.out_avals) - num_carry

    def at(carry_b: Flags, ys_front: Flags) -> Any:
        dims = in_front((*given.consts, *carry_b, *given.xs))
        return vmap_jaxpr(closed, axis, dims, [*carry_b, *ys_front])

    def step(carry_b: Flags) -> Any:
        made, out_dims = at(carry_b, [False] * n_ys)
        return (made, out_dims), mapped(out_dims[:num_carry])

    carry_b, (made, out_dims) = fixpoint(given.carry, step)
    ys_b = mapped(out_dims[num_carry:])
    if any(out_dims):  # stage the body again, so that it moves every batch axis to the front
        made, _ = at(carry_b, ys_b)
    return made, carry_b, ys_b


def scan_batch(
    axis: Any, args: Values, dims: Dims, *, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **params: Any
) -> Any:
    batched = mapped(dims)
    made, carry_b, ys_b = _scan_vmap_jaxpr(jaxpr, axis, batched, num_consts, num_carry)
    fronted = []
    for i, (x, d) in enumerate(safe_zip(args, dims)):
        if d is not None:
            x = moveaxis(x, d, 0 if i < num_consts + num_carry else 1)
        elif 0 <= i - num_consts < num_carry and carry_b[i - num_consts]:
            x = broadcast(x, axis.size, 0, axis.division)
        fronted.append(x)
    outs = scan_p.bind(*fronted, jaxpr=made, num_consts=num_consts, num_carry=num_carry, **params)
    return outs, [*in_front(carry_b), *[1 if b else None for b in ys_b]]


class _Split:
    """A scan split into a known and a later loop. Loop-invariant values are hoisted out of the known loop. ``later``
    flags the inputs (or tangents) of the later loop, ``later_out`` its results; ``hoisted`` is a jaxpr from the known
    consts to the hoisted values. The origin of a residual is a pair: ``("const", i)``, the i-th known const;
    ``("hoisted", i)``; ``("literal", atom)``; ``("xs", i)``, the i-th known array; ``("stacked", i)``, a result of the
    known loop. The first three become consts of the later loop, the others become its ``xs``."""

    __slots__ = (
        "later",
        "later_out",
        "hoisted",
        "known_loop",
        "known_consts",
        "later_loop",
        "same_residuals",
        "each_residuals",
    )

    def __init__(self, parts: LinearizedJaxpr, taken: ScanParts, later: ScanParts) -> None:
        known, after, self.later_out, n_res = parts
        self.later = later
        known_outs, residuals = split_list(known.jaxpr.outvars, len(known.out_avals) - n_res)
        before, during = _hoist(known.jaxpr, taken.consts)
        same = {v for eqn in before for v in eqn.outvars}

        places: dict[Any, tuple[str, Any]] = {v: ("const", i) for i, v in enumerate(taken.consts)}
        places.update((v, ("xs", i)) for i, v in enumerate(taken.xs))
        places.update((v, ("literal", v)) for v in residuals if type(v) is Literal)
        stacked = [v for v in residuals if v not in places and v not in same]
        places.update((v, ("stacked", i)) for i, v in enumerate(stacked))
        loop_outs = [*known_outs, *stacked]
        during = live_eqns(during, loop_outs)
        read = {v for atoms in (*[eqn.invars for eqn in during], loop_outs) for v in atoms if type(v) is not Literal}
        kept = read.union(residuals)
        hoisted_outs = [v for eqn in before for v in eqn.outvars if v in kept]
        places.update((v, ("hoisted", i)) for i, v in enumerate(hoisted_outs))
        before = live_eqns(before, hoisted_outs)
        self.hoisted = Jaxpr([], taken.consts, hoisted_outs, before)
        loop_consts = [v for v in (*taken.consts, *hoisted_outs) if v in read]
        self.known_consts = [places[v] for v in loop_consts]
        used = [(v, c) for v, c in safe_zip(known.jaxpr.constvars, known.consts) if v in read]
        loop_in = [*loop_consts, *taken.carry, *taken.xs]
        loop = Jaxpr([v for v, _ in used], loop_in, loop_outs, during, known.jaxpr.debug_name)
        self.known_loop = ClosedJaxpr(loop, [c for _, c in used])

        # inputs of the later loop: first the invariant residuals, last the residuals of each step
        res_vars, others = split_list(after.jaxpr.invars, n_res)
        at = [(v, places[atom]) for v, atom in safe_zip(res_vars, residuals)]
        same_at = [(v, place) for v, place in at if place[0] in ("const", "hoisted", "literal")]
        each_at = [(v, place) for v, place in at if place[0] in ("xs", "stacked")]
        self.same_residuals = [place for _, place in same_at]
        self.each_residuals = [place for _, place in each_at]
        invars = [*[v for v, _ in same_at], *others, *[v for v, _ in each_at]]
        self.later_loop = ClosedJaxpr(after.jaxpr.replace(invars=invars), after.consts)

    def counts(self) -> dict[str, int]:
        """Parameters of the later loop: its numbers of consts and carried values."""
        n_consts = len(self.same_residuals) + sum(self.later.consts)
        return {"num_consts": n_consts, "num_carry": sum(self.later.carry)}


def _parts(split: Rule, closed: ClosedJaxpr, flags: Flags, num_consts: int, num_carry: int) -> Any:
    """Split a body repeatedly until the carry's flags stay the same. Return both parts, and the body's input flags."""
    given = ScanParts.of(flags, num_consts, num_carry)
    not_ys = [False] * (len(closed.out_avals) - num_carry)

    def step(carry: Flags) -> Any:
        made = LinearizedJaxpr(*split(closed, [*given.consts, *carry, *given.xs], [*carry, *not_ys]))
        return made, made.nonzero_out[:num_carry]

    carry, parts = fixpoint(given.carry, step)
    return parts, given._replace(carry=carry)


def _partial_eval_body(closed: ClosedJaxpr, unknown_in: Flags, num_consts: int, num_carry: int) -> _Split:
    """The two loops of a scan with unknown operands."""
    # as in JAX, a split loop drops the custom derivative rules in its body, because one of them has been applied
    closed = ClosedJaxpr(without_custom_rules(closed.jaxpr), closed.consts)
    parts, unknown = _parts(partial_eval_jaxpr, closed, unknown_in, num_consts, num_carry)
    taken = ScanParts.of(parts.known.jaxpr.invars, unknown.consts.count(False), unknown.carry.count(False))
    return _Split(parts, taken, unknown)


def _linearize_body(closed: ClosedJaxpr, nonzero: Flags, num_consts: int, num_carry: int) -> _Split:
    """The two loops of a scan whose operands have tangents."""
    parts, nonzero_in = _parts(linearize_jaxpr, closed, nonzero, num_consts, num_carry)
    # the known loop drops the custom derivative rules, as in JAX and as after partial evaluation
    known = ClosedJaxpr(without_custom_rules(parts.known.jaxpr), parts.known.consts)
    taken = ScanParts.of(known.jaxpr.invars, num_consts, num_carry)
    return _Split(parts._replace(known=known), taken, nonzero_in)


def _hoist(jaxpr: Jaxpr, const_vars: Sequence[Var]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Split the equations into those that depend only on ``const_vars``, and the others."""
    same = set(const_vars)
    before, during = [], []
    for eqn in jaxpr.eqns:
        if not is_effectful(eqn) and all(type(v) is Literal or v in same for v in eqn.invars):
            before.append(eqn)
            same.update(eqn.outvars)
        else:
            during.append(eqn)
    return before, during


def _split(how: Any, closed: ClosedJaxpr, flags: Sequence[bool], num_consts: int, num_carry: int) -> _Split:
    """The body split by ``how``: ``_partial_eval_body`` or ``_linearize_body``. The split is cached with the body."""
    key = ("scan_split", how, tuple(flags), num_consts, num_carry)
    split = closed.memo.get(key)
    if split is None:
        split = closed.memo[key] = how(closed, list(flags), num_consts, num_carry)
    return split


def scan_partial_eval_jaxpr(eqn: JaxprEqn, unknown_in: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    params = eqn.params
    closed, num_consts, num_carry, length = (params[k] for k in ("jaxpr", "num_consts", "num_carry", "length"))
    split = _split(_partial_eval_body, closed, unknown_in, num_consts, num_carry)
    known_in, unknown_atoms = partition(split.later.flat(), eqn.invars)
    known_out, unknown_out = partition(split.later_out, eqn.outvars)
    known = ScanParts.of(known_in, split.later.consts.count(False), split.later.carry.count(False))
    before, hoisted = inlined(split.hoisted, known.consts)
    stacked = [Var(a.stacked(length)) for a in split.known_loop.out_avals[len(known_out) :]]
    found = {"const": known.consts, "hoisted": hoisted, "xs": known.xs, "stacked": stacked}
    first = [found[kind][i] for kind, i in split.known_consts]
    now = JaxprEqn(
        scan_p,
        [*first, *known.carry, *known.xs],
        {**params, "jaxpr": split.known_loop, "num_consts": len(first), "num_carry": len(known.carry)},
        [*known_out, *stacked],
        eqn.source,
    )
    same = [i if kind == "literal" else found[kind][i] for kind, i in split.same_residuals]
    each = [found[kind][i] for kind, i in split.each_residuals]
    then = JaxprEqn(
        scan_p,
        [*same, *unknown_atoms, *each],
        {**params, "jaxpr": split.later_loop, **split.counts()},
        unknown_out,
        eqn.source,
    )
    return [*before, *([now] if matters(now) else [])], [then]


def scan_linearize(
    is_vjp: bool,
    nonzero: Sequence[bool],
    *primals: Any,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> Any:
    split = _split(_linearize_body, jaxpr, nonzero, num_consts, num_carry)
    known = ScanParts.of(primals, num_consts, num_carry)
    found = {"const": known.consts, "xs": known.xs, "hoisted": eval_jaxpr(split.hoisted, [], *known.consts)}
    first = [found[kind][i] for kind, i in split.known_consts]
    counts = {"num_consts": len(first), "num_carry": num_carry}
    made = scan_p.bind(*first, *known.carry, *known.xs, jaxpr=split.known_loop, **counts, **params)
    outs, found["stacked"] = split_list(made, len(jaxpr.out_avals))
    same = [i.val if kind == "literal" else found[kind][i] for kind, i in split.same_residuals]
    each = [found[kind][i] for kind, i in split.each_residuals]

    def linear_scan(residuals: Values, *tangents: Any) -> list[Any]:
        same, each = residuals
        given = [instantiate_zeros(t) for t, nz in safe_zip(tangents, split.later.flat()) if nz]
        results = scan_p.bind(*same, *given, *each, jaxpr=split.later_loop, **split.counts(), **params)
        return spread(split.later_out, results)

    return outs, split.later_out, (same, each), linear_scan


def scan_recompute(eqn: JaxprEqn, unknown_in: Sequence[bool], policy: Any) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Split a scan for a checkpoint policy: the known loop stacks saved values, the staged loop recomputes others."""
    params = eqn.params
    closed, n_consts, n_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
    if allows(policy, eqn):
        now, later = scan_partial_eval_jaxpr(eqn, unknown_in) if any(unknown_in) else ([eqn], [])
        return now, later
    given = ScanParts.of(unknown_in, n_consts, n_carry)
    not_ys = [False] * (len(closed.out_avals) - n_carry)

    def step(carry_uk: list[bool]) -> Any:
        flags, carried = given._replace(carry=carry_uk), [*[True] * n_carry, *not_ys]
        made = split_by_policy(closed, flags.flat(), policy, True, [*carry_uk, *not_ys], carried)
        return made, made.unknown_out[:n_carry]

    carry_uk, split = fixpoint(given.carry, step)
    is_carry = [n_consts <= i < n_consts + n_carry for i in range(len(eqn.invars))]
    known = [not u for u in given._replace(carry=carry_uk).flat()]
    n_known_out = split.unknown_out.count(False)
    residuals = [Var(a.stacked(params["length"])) for a in split.known.out_avals[n_known_out:]]

    def loop(body: ClosedJaxpr, own: Sequence[Var], taken: Sequence[bool], more: Sequence[Var]) -> JaxprEqn:
        """A scan of ``body``. It takes the inputs ``own``, which the flags ``taken`` select, and slices of ``more``."""
        variables = iter(own)
        ins = [
            (i, next(variables) if used else Var(a))
            for i, (used, carried, a) in enumerate(safe_zip(taken, is_carry, closed.in_avals))
            if used or (carried and (body is split.staged or known[i]))
        ]
        first = body.jaxpr.invars[: len(more)]
        jaxpr = body.jaxpr.replace(invars=[*[v for _, v in ins], *first])
        counts = {"num_consts": sum(i < n_consts for i, _ in ins), "num_carry": sum(is_carry[i] for i, _ in ins)}
        new = {**params, **counts, "jaxpr": ClosedJaxpr(jaxpr, body.consts)}
        return JaxprEqn(scan_p, [*[eqn.invars[i] for i, _ in ins], *more], new, [], eqn.source)

    known_taken = merge(known, [False] * known.count(False), split.known_used)
    first = loop(split.known, split.known.jaxpr.invars, known_taken, [])
    first.outvars = [*partition(split.unknown_out, eqn.outvars)[0], *residuals]
    staged = loop(split.staged, split.staged.jaxpr.invars[split.n_res :], split.staged_used, residuals)
    staged.outvars = chosen(split.staged_out, eqn.outvars)
    return [e for e in (first,) if matters(e)], [e for e in (staged,) if matters(e)]


def scan_dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    closed, num_consts, num_carry = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
    key = ("scan_dce", tuple(used), num_consts, num_carry)
    if key not in closed.memo:
        read = ScanResults.of(used, num_carry)

        def step(carry: Flags) -> Any:
            pruned, used_in = dce_jaxpr(closed.jaxpr, [*carry, *read.ys])
            parts = ScanParts.of(used_in, num_consts, num_carry)
            return (pruned, parts), parts.carry

        carry, (pruned, used_in) = fixpoint(read.carry, step)
        # a carried value stays an input of the body even if the body only overwrites it
        kept = used_in._replace(carry=carry)
        invars = chosen(kept.flat(), closed.jaxpr.invars)
        made = None
        if not (all(kept.flat()) and all(read.ys) and pruned.eqns == closed.eqns):
            made = ClosedJaxpr(pruned.replace(invars=invars), closed.consts)
        closed.memo[key] = made, kept, [*carry, *read.ys]
    made, kept, used_out = closed.memo[key]
    if made is None:  # everything is used
        return eqn
    return eqn.replace(
        invars=chosen(kept.flat(), eqn.invars),
        outvars=chosen(used_out, eqn.outvars),
        params={**eqn.params, "jaxpr": made, **kept.counts()},
    )


class LinearCounts(NamedTuple):
    """How many inputs of each kind a linear scan's body has. The slices, which come last, are not counted."""

    residuals: int
    consts: int
    carry: int
    xs: int


class LinearParts(NamedTuple):
    """The inputs of a linear scan's body: residuals, linear consts, carry and xs, then slices of stacked residuals."""

    residuals: list[Any]
    consts: list[Any]
    carry: list[Any]
    xs: list[Any]
    slices: list[Any]

    @staticmethod
    def of(items: Values, counts: LinearCounts) -> LinearParts:
        """Divide ``items``, one for each input of the body, by kind."""
        return LinearParts(*split_list(items, *counts))


def _transposed_body(closed: ClosedJaxpr, counts: LinearCounts, arriving: Flags, ct_avals: Avals) -> ClosedJaxpr:
    """The reverse body: ``(residuals, ct_consts, ct_carry, ct_ys, slices) -> (ct_consts, ct_carry, ct_xs)``.
    ``counts``: the numbers of the body's inputs. ``arriving``: which ys have a cotangent. The cotangents of consts
    add up in the carry."""
    key = ("scan_transpose", counts, tuple(arriving), tuple(ct_avals))
    if key in closed.memo:
        return closed.memo[key]
    types = LinearParts.of(closed.in_avals, counts)
    # linear inputs get the types of their cotangents, which may be strongly typed where the body's types are weak
    strong = map(cotangent_type, ct_avals[: counts.consts + counts.carry])
    jaxpr = _retyped(closed.jaxpr, [*types.residuals, *strong, *types.xs, *types.slices])
    # make each linear const an output too, whose cotangent is the running sum; then terms are added in order of use
    outvars = [*jaxpr.outvars, *LinearParts.of(jaxpr.invars, counts).consts]
    adding = ClosedJaxpr(jaxpr.replace(outvars=outvars), closed.consts)
    linear_avals = [*types.consts, *types.carry, *types.xs]

    def transposed_body(*values: Any) -> list[Any]:
        # the cotangents of ys take the place of the xs
        given = LinearParts.of(values, counts._replace(xs=sum(arriving)))
        absent, _ = partition(arriving, closed.out_avals[counts.carry :])
        ct_ys = merge(arriving, map(zero_of, absent), given.xs)
        args = [*given.residuals, *map(UndefinedPrimal, linear_avals), *given.slices]
        found = backward_pass_closed(adding, args, [*given.carry, *ct_ys, *given.consts])
        return [instantiate_zeros(ct) for ct in found[counts.residuals :][: len(linear_avals)]]

    in_avals = [*types.residuals, *ct_avals, *types.slices]
    made = stage(transposed_body, in_avals, closed.jaxpr.debug_name, "transpose")
    closed.memo[key] = made
    return made


def _retyped(jaxpr: Jaxpr, in_avals: Avals) -> Jaxpr:
    """``jaxpr`` with inputs of types ``in_avals``, which may differ from its own only in ``weak_type``."""
    new = {v: Var(a) for v, a in safe_zip(jaxpr.invars, in_avals) if v.aval is not a}
    if not new:
        return jaxpr

    def renamed(atoms: Values) -> list[Any]:
        return [v if type(v) is Literal else new.get(v, v) for v in atoms]

    eqns = [eqn.replace(invars=renamed(eqn.invars)) for eqn in jaxpr.eqns]
    return jaxpr.replace(invars=renamed(jaxpr.invars), outvars=renamed(jaxpr.outvars), eqns=eqns)


def _is_linear_form(linear: Flags, closed: ClosedJaxpr, num_consts: int, num_carry: int) -> bool:
    """Whether the operands are in this order: residuals; linear consts, carry (or known zeros), xs; more residuals."""
    parts = ScanParts.of(linear, num_consts, num_carry)
    if parts.consts != sorted(parts.consts) or parts.xs != sorted(parts.xs, reverse=True):
        return False
    return all(parts.carry) or all(_split(_partial_eval_body, closed, linear, num_consts, num_carry).later.carry)


def scan_transpose(
    cts: Values, *args: Any, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **params: Any
) -> list[Any]:
    linear = [type(x) is UndefinedPrimal for x in args]
    params.update(jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry)
    if _is_linear_form(linear, jaxpr, num_consts, num_carry):
        return _transpose_linear(cts, args, **params)
    # part of the loop is not linear (a counter, say) and runs first
    invars = [Var(get_aval(x)) for x in args]
    eqn = JaxprEqn(scan_p, invars, params, [Var(get_aval(ct)) for ct in cts])
    known_eqns, (later,) = scan_partial_eval_jaxpr(eqn, linear)
    env: dict[Any, Any] = dict(safe_zip(invars, args))
    for known in known_eqns:
        bind_eqn(known, env)
    ct_of = dict(safe_zip(eqn.outvars, cts))
    operands = [v.val if type(v) is Literal else env[v] for v in later.invars]
    found = _transpose_linear([ct_of[v] for v in later.outvars], operands, **later.params)
    given = dict(safe_zip(later.invars, found))
    return [given.get(v) for v in invars]


def _transpose_linear(
    cts: Values, args: Values, *, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, reverse: bool, **params: Any
) -> list[Any]:
    linear = ScanParts.of([type(x) is UndefinedPrimal for x in args], num_consts, num_carry)
    n_consts = sum(linear.consts)
    counts = LinearCounts(num_consts - n_consts, n_consts, num_carry, sum(linear.xs))
    parts, results = LinearParts.of(args, counts), ScanResults.of(cts, num_carry)
    ct_carry = [instantiate_zeros(ct) for ct in results.carry]
    ct_consts = [zeros(get_aval(x).to_tangent_aval()) for x in parts.consts]
    arriving, given = nonzeros(results.ys)
    ct_avals = [get_aval(ct) for ct in (*ct_consts, *ct_carry)] + [slice_aval(get_aval(ct)) for ct in given]
    outs = scan_p.bind(
        *[*parts.residuals, *ct_consts, *ct_carry, *given, *parts.slices],
        jaxpr=_transposed_body(jaxpr, counts, arriving, ct_avals),
        num_consts=counts.residuals,
        num_carry=n_consts + num_carry,
        reverse=not reverse,
        **params,
    )
    found = [*[None] * counts.residuals, *outs, *[None] * len(parts.slices)]
    return [ct if type(x) is UndefinedPrimal else None for x, ct in safe_zip(args, found)]


set_rules(
    scan_p,
    jvp=scan_jvp,
    linearize=scan_linearize,
    axis_batch=scan_batch,
    transpose=scan_transpose,
    partial_eval=split_now(scan_p),
    partial_eval_jaxpr=scan_partial_eval_jaxpr,
    dce=scan_dce,
    recompute=scan_recompute,
    lower=scan_lower,
    typecheck=scan_typecheck,
    program=_looped,
)
