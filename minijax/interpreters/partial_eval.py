"""Partial evaluation: compute the known values now, and record a jaxpr for the unknown ones.

``PartialEvalTrace`` gives a function's known results, and equations that compute its unknown results from unknown
inputs and residuals. ``partial_eval_jaxpr`` splits a jaxpr in two. Invariant: only an equation with an unknown input is
recorded; its known operands are ``Residual``s, variables with values.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from minijax.core import observe
from minijax.core.array import LiteralArray, as_array, get_aval
from minijax.core.avals import AnyArray, ShapedArray
from minijax.core.lists import partition
from minijax.core.primitive import Primitive, abstract_eval
from minijax.core.rules import Rule, RuleTable
from minijax.core.trace import Trace, Tracer, state, under
from minijax.errors import source_info
from minijax.interpreters.stage import JaxprTracer, stage
from minijax.ir.evaluate import bind_eqn
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, inlined, is_effectful

# rule(trace, *args, **params) -> result(s): for primitives with subjaxprs that may be partly known
partial_eval_rules = RuleTable(
    "partial_eval", "Partial evaluation rule for '{name}' not implemented", "most primitives need none"
)
# rule(eqn, unknown_in) -> (known equations, unknown equations), which together define eqn's outvars
partial_eval_jaxpr_rules = RuleTable(
    "partial_eval_jaxpr", "Partial evaluation rule for '{name}' not implemented", "most primitives need none"
)
# Primitives that call a function with a custom derivative rule -> the parameter that holds its jaxpr.
custom_rule_calls: dict[Primitive, str] = {}
# rule(eqn, used_outputs) -> eqn without its unused parts
dce_rules = RuleTable("dce", "Dead-code rule for '{name}' not implemented", "most primitives need none")


class Residual(Var):
    """A variable of the jaxpr for the unknown values; ``val`` is its known value."""

    __slots__ = ("val",)

    def __init__(self, val: Any) -> None:
        self.aval = get_aval(val)
        self.val = val


class PartialEvalTracer(Tracer):
    """An unknown value, represented by its variable."""

    __slots__ = ("aval", "variable")

    aval: ShapedArray  # type: ignore[misc]

    def __init__(self, trace: Trace, var: Var) -> None:
        self._trace = trace
        self.aval = var.aval
        self.variable = var

    def _made_by(self) -> tuple[Sequence[JaxprEqn], Var]:
        return self._trace.eqns, self.variable  # type: ignore[attr-defined]

    def _birth(self) -> Any:
        defining = (eqn for eqn in reversed(self._made_by()[0]) if any(v is self.variable for v in eqn.outvars))
        return next((eqn.source for eqn in defining), None)

    def __repr__(self) -> str:
        # JAX prints this name of its interpreter
        return f"Traced<{self.aval}:JaxprTrace>"


class PartialEvalTrace(Trace):
    """Records the equations of unknown values, in program order."""

    __slots__ = ("eqns",)
    reaches_all = False
    rules = partial_eval_rules
    records = True

    def __init__(self, main: Any) -> None:
        super().__init__(main)
        self.eqns: list[JaxprEqn] = main.global_data

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        own = partial_eval_rules.get(primitive)
        if own is not None:
            return own(self, *args, **params)
        return self.record(primitive, args, params)

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Append one equation; returns the tracer(s) of its unknown result(s)."""
        atoms: list[Var] = []
        avals = []
        for x in args:
            atom = x.variable if type(x) is PartialEvalTracer and x._trace is self else Residual(x)
            atoms.append(atom)
            avals.append(atom.aval)
        try:
            out = primitive.signatures[(tuple(avals), *params.items()) if params else tuple(avals)]
        except (KeyError, TypeError):
            out = None
        if out is None:
            out = abstract_eval(primitive, tuple(avals), params)
        if primitive.multiple_results:
            out_vars = [Var(aval) for aval in out]
            result: Any = [PartialEvalTracer(self, var) for var in out_vars]
        else:
            var = Var(out)
            out_vars = [var]
            result = PartialEvalTracer(self, var)
        eqn = JaxprEqn(primitive, atoms, params, out_vars, state.source or source_info(3))
        self.eqns.append(eqn)
        if observe.on_equation:
            observe.emit(observe.on_equation, self.main, eqn)
        return result

    def new_unknown(self, aval: ShapedArray) -> PartialEvalTracer:
        return PartialEvalTracer(self, Var(aval))

    def is_unknown(self, x: Any) -> bool:
        """Whether ``x`` is this trace's tracer (everything else is known to it)."""
        return type(x) is PartialEvalTracer and x._trace is self

    def atom(self, x: Any) -> Any:
        """The variable of ``x``: its own if unknown, a new residual if known."""
        return x.variable if type(x) is PartialEvalTracer and x._trace is self else Residual(x)

    def rule_of(self, primitive: Primitive) -> Rule | None:
        return partial_eval_rules.get(primitive)


def split_now(primitive: Primitive) -> Rule:
    """A ``partial_eval_rules`` rule made of the primitive's ``partial_eval_jaxpr_rules`` rule: bind known parts now."""

    def rule(trace: PartialEvalTrace, *args: Any, **params: Any) -> list[Any]:
        unknown_in = [trace.is_unknown(x) for x in args]
        invars = [x.variable if u else Var(get_aval(x)) for x, u in zip(args, unknown_in, strict=True)]
        out_avals = abstract_eval(primitive, tuple(v.aval for v in invars), params)
        eqn = JaxprEqn(primitive, invars, params, [Var(aval) for aval in out_avals], state.source)
        known_eqns, unknown_eqns = partial_eval_jaxpr_rules[primitive](eqn, unknown_in)
        env: dict[Any, Any] = dict(zip(invars, args, strict=True))
        for known in known_eqns:
            bind_eqn(known, env)
        for later in unknown_eqns:
            operands = [v.val if type(v) is Literal else env[v] for v in later.invars]
            out = trace.record(later.primitive, operands, later.params)
            env.update(zip(later.outvars, out if later.primitive.multiple_results else [out], strict=True))
        return [env[v] for v in eqn.outvars]

    return rule


class LinearProgram:
    """A linear program: ``eqns`` compute ``outs`` (variables or symbolic zeros) from ``in_vars`` and residuals."""

    __slots__ = ("in_vars", "eqns", "recorded", "outs", "name", "mixed", "known", "_closed")

    def __init__(
        self,
        in_vars: Sequence[Var],
        eqns: list[JaxprEqn],
        outs: Sequence[Any],
        name: str = "",
        mixed: bool = False,
    ) -> None:
        self.in_vars = list(in_vars)
        # all equations, unused ones too
        self.recorded = eqns
        # Unused equations are removed because of loops: a loop would compute the unused tangents in its carry. The
        # backward pass skips other unused equations.
        self.eqns = dce_eqns(eqns, outs)[0] if any(e.primitive in dce_rules for e in eqns) else eqns
        self.outs = list(outs)
        self.name = name
        # whether some equations have no linear operand
        self.mixed = mixed
        # variable -> value, for variables that are not inputs, results of equations or ``Residual``s
        self.known: dict[Var, Any] = {}
        self._closed: ClosedJaxpr | None = None

    def with_residuals(self, values: Sequence[Any]) -> LinearProgram:
        """The same program with ``values`` as residuals, in the order of the constants of ``closed()``."""
        jaxpr = self.closed().jaxpr
        found = iter(jaxpr.outvars)
        outs = [next(found) if isinstance(v, (Var, Literal)) else v for v in self.outs]
        other = LinearProgram(jaxpr.invars, jaxpr.eqns, outs, self.name, self.mixed)
        other.known = dict(zip(jaxpr.constvars, values, strict=True))
        other._closed = ClosedJaxpr(jaxpr, values)
        return other

    def closed(self) -> ClosedJaxpr:
        """The program as a closed jaxpr without dead equations and zeros; residuals are its constants."""
        if self._closed is None:
            self._closed = _close(self, [v for v in self.outs if isinstance(v, Var)])
        return self._closed


def _close(program: LinearProgram, outs: list[Var]) -> ClosedJaxpr:
    in_vars, name = program.in_vars, program.name
    kept = live_eqns(program.eqns, outs)
    consts: dict[int, tuple[Var, Any]] = {}

    def constant(v: Residual) -> Any:
        value = v.val if isinstance(v.val, AnyArray) else as_array(v.val)
        if isinstance(value, LiteralArray):
            return Literal(value.literal(), v.aval)
        entry = consts.get(id(v.val))
        if entry is None:
            entry = consts[id(v.val)] = (Var(v.aval), v.val)
        return entry[0]

    new_eqns = [
        JaxprEqn(
            e.primitive,
            [constant(v) if type(v) is Residual else v for v in e.invars],
            e.params,
            e.outvars,
            e.source,
        )
        for e in kept
    ]
    out_atoms = [constant(v) if type(v) is Residual else v for v in outs]
    if len(consts) > 1 and len(kept) < len(program.recorded):
        # as in JAX, residuals are in the order of their first use, which may be in an unused equation
        met = dict.fromkeys(id(v.val) for eqn in program.recorded for v in eqn.invars if type(v) is Residual)
        consts = {key: consts[key] for key in [*[key for key in met if key in consts], *consts]}
    const_vars = [var for var, _ in consts.values()]
    return ClosedJaxpr(Jaxpr(const_vars, in_vars, out_atoms, new_eqns, name), [c for _, c in consts.values()])


def live_eqns(eqns: Sequence[JaxprEqn], outs: Sequence[Any]) -> list[JaxprEqn]:
    """The equations that ``outs`` depend on, and equations with effects, in order."""
    needed = {v for v in outs if isinstance(v, Var)}
    kept = []
    for eqn in reversed(eqns):
        if not needed.isdisjoint(eqn.outvars) or is_effectful(eqn):
            kept.append(eqn)
            needed.update(eqn.invars)  # literals as well, but no equation defines these
    kept.reverse()
    return kept


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool], keep_inputs: bool = False) -> tuple[Jaxpr, list[bool]]:
    """``jaxpr`` with only its used outputs, and for each input whether it is used. ``keep_inputs`` keeps all inputs."""
    outs = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    kept, needed = dce_eqns(jaxpr.eqns, outs)
    used_in = [True if keep_inputs else v in needed for v in jaxpr.invars]
    in_vars = [v for v, used in zip(jaxpr.invars, used_in, strict=True) if used]
    if all(used_outputs) and all(used_in) and kept == jaxpr.eqns:
        return jaxpr, used_in
    return Jaxpr(jaxpr.constvars, in_vars, outs, kept, jaxpr.debug_name), used_in


def dce_closed(closed: ClosedJaxpr, used_outputs: Sequence[bool]) -> tuple[ClosedJaxpr, list[bool]]:
    """``dce_jaxpr`` of a closed jaxpr, cached in it; ``closed`` itself if everything is used."""
    key = ("dce", tuple(used_outputs))
    found = closed.memo.get(key)
    if found is None:
        pruned, used_in = dce_jaxpr(closed.jaxpr, used_outputs)
        # store None instead of ``closed``: a reference cycle would keep it alive
        found = None if pruned is closed.jaxpr else ClosedJaxpr(pruned, closed.consts), used_in
        closed.memo[key] = found
    return found[0] or closed, found[1]


def dce_call(
    eqn: JaxprEqn, used: Sequence[bool], operands: Sequence[str] = (), results: Sequence[str] = (), param: str = "jaxpr"
) -> JaxprEqn:
    """``eqn`` calls its parameter ``param``, a jaxpr. Return it without unused results; ``eqn`` itself if all are used.

    ``operands`` and ``results`` name parameters that may be tuples with an element for each operand or result.
    """
    pruned, used_in = dce_closed(eqn.params[param], used)
    if pruned is eqn.params[param]:
        return eqn
    params = {**eqn.params, param: pruned}
    for names, kept in ((operands, used_in), (results, used)):
        for name in names:
            if isinstance(params.get(name), tuple):
                params[name] = tuple(partition(kept, params[name])[1])
    return eqn.replace(invars=partition(used_in, eqn.invars)[1], outvars=partition(used, eqn.outvars)[1], params=params)


def dce_eqns(eqns: Sequence[JaxprEqn], outs: Sequence[Any]) -> tuple[list[JaxprEqn], set[Any]]:
    """The equations that ``outs`` need or with effects, with pruned subjaxprs; and the variables and literals read."""
    needed = {v for v in outs if isinstance(v, Var)}
    # Fast path: if every result is read, each equation feeds an output (by induction from the last), so all are used.
    read = needed.union(*[eqn.invars for eqn in eqns])
    if read.issuperset(chain.from_iterable([eqn.outvars for eqn in eqns])):
        if dce_rules.keys().isdisjoint([eqn.primitive for eqn in eqns]):
            return list(eqns), read
    kept: list[JaxprEqn] = []
    for eqn in reversed(eqns):
        outvars = eqn.outvars
        unread = needed.isdisjoint(outvars)
        if unread and not is_effectful(eqn):
            continue
        rule = dce_rules.get(eqn.primitive)
        if rule is not None:
            eqn = rule(eqn, [v in needed for v in outvars])
        elif unread or len(outvars) > 1:
            eqn = _without_unread(eqn, needed)
        kept.append(eqn)
        needed.update(eqn.invars)
    kept.reverse()
    return kept, needed


def _without_unread(eqn: JaxprEqn, needed: set[Any]) -> JaxprEqn:
    """``eqn`` with a ``DropVar`` for each result that is not ``needed``; ``eqn`` itself if all are needed."""
    if all(v in needed or type(v) is DropVar for v in eqn.outvars):
        return eqn
    return eqn.replace(outvars=[v if v in needed else DropVar(v.aval) for v in eqn.outvars])


def partial_eval_jaxpr(
    closed: ClosedJaxpr, unknown_in: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], int]:
    """Split ``closed`` by ``unknown_in``: (known jaxpr, unknown jaxpr, unknown outputs, n residuals).

    The known jaxpr gives known outputs and residuals; the unknown one takes residuals and unknown inputs.
    ``instantiate``: outputs to treat as unknown.
    """
    jaxpr = closed.jaxpr
    unknown: set[Any] = {v for v, u in zip(jaxpr.invars, unknown_in, strict=True) if u}
    known_eqns: list[JaxprEqn] = []
    unknown_eqns: list[JaxprEqn] = []

    for eqn in jaxpr.eqns:
        eqn_unknown = [type(v) is not Literal and v in unknown for v in eqn.invars]
        if not any(eqn_unknown):
            known_eqns.append(eqn)
            continue
        rule = partial_eval_jaxpr_rules.get(eqn.primitive)
        known, later = rule(eqn, eqn_unknown) if rule is not None else ((), (eqn,))
        known_eqns.extend(known)
        unknown_eqns.extend(later)
        unknown.update(v for e in later for v in e.outvars)
    forced = [instantiate] * len(jaxpr.outvars) if isinstance(instantiate, bool) else list(instantiate)
    unknown_out = [f or (type(v) is not Literal and v in unknown) for v, f in zip(jaxpr.outvars, forced, strict=True)]
    known_outs, unknown_outs = partition(unknown_out, jaxpr.outvars)
    later_eqns = live_eqns(unknown_eqns, unknown_outs)
    needed = [v for e in later_eqns for v in e.invars] + unknown_outs
    residuals = dict.fromkeys(v for v in needed if type(v) is not Literal and v not in unknown)  # an ordered set
    # each of the two jaxprs gets the constants that it uses
    const_of = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    res_vars = [v for v in residuals if v not in const_of]
    known_ins, unknown_ins = partition(unknown_in, jaxpr.invars)
    known_jaxpr = _close_over(const_of, known_ins, [*known_outs, *res_vars], known_eqns, jaxpr.debug_name)
    unknown_jaxpr = _close_over(const_of, [*res_vars, *unknown_ins], unknown_outs, later_eqns, jaxpr.debug_name)
    return known_jaxpr, unknown_jaxpr, unknown_out, len(res_vars)


def without_custom_rules(jaxpr: Jaxpr) -> Jaxpr:
    """``jaxpr``, in which calls of functions with custom derivative rules are inlined."""
    if not any(e.primitive in custom_rule_calls for e in jaxpr.eqns):
        return jaxpr
    same_as: dict[Any, Any] = {}  # result of an inlined call -> the variable or literal that has its value

    def read(atoms: Sequence[Any]) -> list[Any]:
        return [a if type(a) is Literal else same_as.get(a, a) for a in atoms]

    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        eqn = eqn.replace(invars=read(eqn.invars))
        param = custom_rule_calls.get(eqn.primitive)
        called = None if param is None else eqn.params[param]
        if called is None or called.consts:
            eqns.append(eqn)
        else:
            body, outs = inlined(without_custom_rules(called.jaxpr), eqn.invars)
            eqns.extend(body)
            same_as.update(zip(eqn.outvars, outs, strict=True))
    return jaxpr.replace(eqns=eqns, outvars=read(jaxpr.outvars))


def _close_over(
    const_of: dict[Var, Any], in_vars: list[Var], outs: list[Any], eqns: list[JaxprEqn], name: str
) -> ClosedJaxpr:
    used = {v for e in eqns for v in e.invars if type(v) is not Literal}
    used.update(v for v in outs if type(v) is not Literal)
    const_vars = [v for v in const_of if v in used]
    return ClosedJaxpr(Jaxpr(const_vars, in_vars, outs, eqns, name), [const_of[v] for v in const_vars])


# ------------------------------------------------------------------------------ under JAX's names, for its interfaces

DynamicJaxprTracer = JaxprTracer


class PartialVal(tuple[Any, Any]):
    """``(None, value)`` for a known value, ``(aval, None)`` for an unknown value of type ``aval``. Flax uses it."""

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """An unknown value of type ``aval``."""
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self) -> Any:
        return self[1]

    def get_aval(self) -> ShapedArray:
        return get_aval(self[1]) if self[0] is None else self[0]


def trace_to_jaxpr_dynamic(
    fun: Any, in_avals: Sequence[ShapedArray], *, keep_inputs: Sequence[bool] | None = None, **options: Any
) -> tuple[Jaxpr, list[ShapedArray], list[Any]]:
    """Stage ``fun``, a ``WrappedFun``. Returns the jaxpr, the result types and the constants.
    ``keep_inputs`` selects the inputs that the jaxpr keeps.
    """
    closed = stage(fun.call_wrapped, in_avals, fun.__name__, label="trace_to_jaxpr_dynamic")
    jaxpr = closed.jaxpr
    if keep_inputs is not None:
        jaxpr = jaxpr.replace(invars=partition(keep_inputs, jaxpr.invars)[1])
    return jaxpr, closed.out_avals, closed.consts


def trace_to_jaxpr_nounits(
    fun: Any, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], tuple[Any, ...]]:
    """Run ``fun``, a ``WrappedFun``, on known values and record the rest.

    Returns the jaxpr of the unknown results; for each result, its value or type; and the jaxpr's constants.
    ``instantiate`` makes known results part of the jaxpr.
    """

    def run(main: Any) -> tuple[list[PartialVal], ClosedJaxpr]:
        trace = main.trace
        ins = [pval.get_known() if pval.is_known() else trace.new_unknown(pval.get_aval()) for pval in pvals]
        outs = list(fun.call_wrapped(*ins))
        forced = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
        later = [trace.is_unknown(x) or f for x, f in zip(outs, forced, strict=True)]
        found = [
            PartialVal.unknown(get_aval(x)) if u else PartialVal.known(x) for x, u in zip(outs, later, strict=True)
        ]
        in_vars = [x.variable for x, pval in zip(ins, pvals, strict=True) if not pval.is_known()]
        recorded = [trace.atom(x if trace.is_unknown(x) else as_array(x)) for x in partition(later, outs)[1]]
        return found, LinearProgram(in_vars, trace.eqns, recorded, fun.__name__).closed()

    out_pvals, closed = under(PartialEvalTrace, "partial_eval", run, [], fun.__name__)
    return closed.jaxpr, out_pvals, tuple(closed.consts)
