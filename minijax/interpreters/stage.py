"""Staging: run a function on abstract values and record a jaxpr.

In: a function and input types. Out: a jaxpr and the values of its constants. Invariant: while the function runs,
every primitive is recorded in program order, even on constants (omnistaging: the trace is dynamic).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from minijax.config import tracing_forbidden
from minijax.core import observe
from minijax.core.array import LiteralArray, as_array
from minijax.core.avals import AnyArray, ShapedArray
from minijax.core.collector import collecting_new_objects
from minijax.core.primitive import Primitive, abstract_eval, abstract_rules
from minijax.core.refs import AbstractRef, Ref
from minijax.core.rules import Rule, RuleTable
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.core.trace import Trace, Tracer, check_alive, state, under
from minijax.errors import source_info, summarize
from minijax.ir.evaluate import bind_eqn
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

_new = object.__new__

# primitive -> rule(trace, *args, **params) for primitives that stage themselves; the others record one equation
staging_rules = RuleTable("stage", "Staging rule for '{name}' not implemented", "most primitives need none")


class JaxprTracer(Tracer):
    """A variable of the jaxpr being recorded."""

    __slots__ = ("aval", "variable")

    aval: ShapedArray  # type: ignore[misc]

    def __init__(self, trace: Trace, aval: ShapedArray, var: Var) -> None:
        self._trace = trace
        self.aval = aval
        self.variable = var

    def __repr__(self) -> str:
        show = self._trace.builder.show_value  # type: ignore[attr-defined]
        return f"JitTracer({self.aval})" if show is None else show(self)

    def _equation(self) -> JaxprEqn | None:
        """The equation that computes this tracer, None for an input."""
        eqns = self._trace.builder.eqns  # type: ignore[attr-defined]
        return next((eqn for eqn in reversed(eqns) if any(v is self.variable for v in eqn.outvars)), None)

    def _birth(self) -> Any:
        eqn = self._equation()
        return None if eqn is None else eqn.source

    def _birth_text(self) -> str:
        inputs = self._trace.builder.in_vars  # type: ignore[attr-defined]
        index = next((i for i, v in enumerate(inputs) if v is self.variable), None)
        return super()._birth_text() if index is None else f"input {index} of that function"

    def _level(self) -> tuple[str, Any]:
        return f"a variable of the jaxpr of {self._trace.main!r}", None

    def _made_by(self) -> tuple[Sequence[JaxprEqn], Var]:
        return self._trace.builder.eqns, self.variable  # type: ignore[attr-defined]

    def _origin(self) -> str:
        origin = super()._origin()
        if not origin:
            return ""
        names = self._trace.builder.arguments_behind(self.variable)  # type: ignore[attr-defined]
        if names:
            return (
                f"{origin} This concrete value was not available in Python because it depends on the "
                f"value{'s' * (len(names) > 1)} of the argument{'s' * (len(names) > 1)} {' and '.join(names)}."
            )
        eqn = self._equation()
        if eqn is None:
            return origin
        return (
            f"{origin} This value became a tracer due to operations on constants, which are recorded too: the last is "
            f"{eqn.primitive.name} at {summarize(eqn.source)}."
        )


def _literal(x: LiteralArray) -> Literal:
    """The literal of ``x`` in programs: one object for all equations that read it."""
    atom: Literal | None = getattr(x, "atom", None)
    if atom is None:
        atom = x.atom = Literal(x.literal(), x.aval)
    return atom


class JaxprBuilder:
    """The jaxpr under construction: its equations so far, and the constants that they read."""

    def __init__(self) -> None:
        self.eqns: list[JaxprEqn] = []
        # cache of the user's lines: see ``errors.source_info``
        self.sources: dict[int, Any] = {}
        # whether ``JaxprTrace.stage_value`` has made tracers of constants
        self.stages_values = False
        self.in_vars: list[Var] = []
        # gives the names of the inputs, for errors
        self.name_inputs: Callable[[], Sequence[str]] | None = None
        # gives the text of a tracer, if the values of the inputs are known
        self.show_value: Callable[[JaxprTracer], str] | None = None
        # id of a constant -> its variable, its value, and the constant itself, so that its id is not used again
        self.consts: dict[int, tuple[Var, Any, Any]] = {}

    def atom_of_constant(self, x: Any) -> Any:
        """A literal for a number or NumPy scalar, a constvar for an array or an outer tracer."""
        if isinstance(x, LiteralArray):
            return _literal(x)
        entry = self.consts.get(id(x))
        if entry is None:
            value = x if isinstance(x, (AnyArray, ShapeDtypeStruct, Ref)) else as_array(x)
            if isinstance(value, LiteralArray):
                return _literal(value)
            entry = self.consts[id(x)] = (Var(check_alive(value).aval), value, x)
        return entry[0]

    def arguments_behind(self, var: Var) -> list[str]:
        """The names of the inputs that ``var`` depends on; empty if the names are unknown."""
        if self.name_inputs is None:
            return []
        wanted = {var}
        for eqn in reversed(self.eqns):
            if any(v in wanted for v in eqn.outvars):
                wanted.update(v for v in eqn.invars if isinstance(v, Var))
        return [name for v, name in zip(self.in_vars, self.name_inputs(), strict=False) if v in wanted]

    def so_far(self, var: Var) -> ClosedJaxpr:
        """The jaxpr that computes ``var``, from the equations recorded so far."""
        wanted: set[Any] = {var}
        eqns = []
        for eqn in reversed(self.eqns):
            if not wanted.isdisjoint(eqn.outvars):
                wanted.update(v for v in eqn.invars if isinstance(v, Var))
                eqns.append(eqn)
        return self.build([var], eqns[::-1], "so far")

    def build(self, outs: Sequence[Any], eqns: Sequence[JaxprEqn], name: str) -> ClosedJaxpr:
        """The jaxpr of ``outs``, with its constants."""
        const_vars = [var for var, _, _ in self.consts.values()]
        consts = [value for _, value, _ in self.consts.values()]
        return ClosedJaxpr(Jaxpr(const_vars, self.in_vars, outs, eqns, name), consts)


class JaxprTrace(Trace):
    """Records equations in the ``JaxprBuilder`` of its ``MainTrace``."""

    __slots__ = ("builder",)
    checks_leaks = True
    rules = abstract_rules
    records = True

    def __init__(self, main: Any) -> None:
        super().__init__(main)
        self.builder: JaxprBuilder = main.global_data

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Append one equation; returns the tracer(s) of its result(s)."""
        return self.process_primitive(primitive, args, params, by_rule=False)

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any], by_rule: bool = True
    ) -> Any:
        """Append one equation, or apply the primitive's own staging rule; returns the tracer(s) of its result(s)."""
        if by_rule:
            own = staging_rules.get(primitive)
            if own is not None:
                return own(self, *args, **params)
        atoms = []
        avals = []
        for x in args:
            atom = x.variable if type(x) is JaxprTracer and x._trace is self else self.builder.atom_of_constant(x)
            atoms.append(atom)
            avals.append(atom.aval)
        try:
            out = primitive.signatures[(tuple(avals), *params.items()) if params else tuple(avals)]
        except (KeyError, TypeError):
            out = None
        if out is None:
            out = abstract_eval(primitive, tuple(avals), params)
        if primitive.multiple_results:
            out_vars = [*map(Var, out)]
            result: Any = [*map(JaxprTracer, repeat(self), out, out_vars)]  # in a closure, self would be slower
        else:
            var = _new(Var)  # takes half the time of ``Var(out)``
            var.aval = out
            out_vars = [var]
            result = _new(JaxprTracer)
            result._trace = self
            result.aval = out
            result.variable = var
        eqn = _new(JaxprEqn)
        eqn.primitive = primitive
        eqn.invars = atoms
        eqn.params = params
        eqn.outvars = out_vars
        eqn.source = state.source or source_info(3, self.builder.sources)
        self.builder.eqns.append(eqn)
        if observe.on_equation:
            observe.emit(observe.on_equation, self.main, eqn)
        return result

    def run_program(self, program: Any, args: Sequence[Any]) -> list[Any]:
        """The results of a ``CachedProgram``: appends its equations with new variables."""
        closed = program.closed
        if closed.consts or observe.on_equation:
            return program.evaluate(args)  # type: ignore[no-any-return]
        jaxpr, append = closed.jaxpr, self.builder.eqns.append
        values = dict(zip(jaxpr.invars, args, strict=True))
        atoms: dict[Any, Any] = {}
        source = state.source or source_info(4, self.builder.sources)
        for eqn in jaxpr.eqns:
            if eqn.primitive in staging_rules and type(values.get(eqn.invars[0])) is LiteralArray:
                bind_eqn(eqn, values)  # the staging rule may return a number, which stays inline
                continue
            operands = []
            for v in eqn.invars:
                if type(v) is Literal:
                    operands.append(v)
                    continue
                if v not in atoms:  # constants become constvars in the order of the equations
                    atoms[v] = self.atom(values[v])
                operands.append(atoms[v])
            out_vars = []
            for v in eqn.outvars:
                var = atoms[v] = _new(Var)
                var.aval = v.aval
                out_vars.append(var)
            append(JaxprEqn(eqn.primitive, operands, eqn.params, out_vars, source))
        return [
            v.val if type(v) is Literal else values[v] if v in values else JaxprTracer(self, v.aval, atoms[v])
            for v in jaxpr.outvars
        ]

    def stage_value(self, x: Any) -> JaxprTracer:
        """A tracer of this trace for the constant ``x``, so that the caller does not see its value."""
        self.builder.stages_values = True
        atom: Any = self.builder.atom_of_constant(x)
        return JaxprTracer(self, atom.aval, atom)

    def new_input(self, aval: ShapedArray) -> JaxprTracer:
        var = Var(aval)
        return JaxprTracer(self, aval, var)

    def atom(self, x: Any) -> Any:
        """The variable or literal of ``x`` in the jaxpr."""
        if type(x) is JaxprTracer and x._trace is self:
            return x.variable
        return self.builder.atom_of_constant(x)

    def rule_of(self, primitive: Primitive) -> Rule | None:
        return staging_rules.get(primitive) or abstract_rules.get(primitive)


@collecting_new_objects
def stage(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    name: str = "",
    kind: str = "staged",
    label: str = "jaxpr",
) -> ClosedJaxpr:
    """The jaxpr of ``fun`` (from flat values to a flat sequence of values) on inputs of ``in_avals``.

    ``kind`` tells observers the jaxpr's purpose. Errors call the transformation ``label`` and the function ``name``.
    """
    if tracing_forbidden():
        raise RuntimeError(
            f"re-tracing function {name or 'that is unnamed'} for `{label}`, but 'no_tracing' is set. Call it before, "
            "with arguments of the same types."
        )
    builder = JaxprBuilder()

    def record(main: Any) -> ClosedJaxpr:
        trace = main.trace
        tracers = [trace.new_input(aval) for aval in in_avals]
        builder.in_vars = [t.variable for t in tracers]
        builder.name_inputs = getattr(fun, "input_names", None)
        outs = [trace.atom(check_alive(out)) for out in fun(*tracers)]
        if AbstractRef.made and kind == "staged":
            _check_no_refs(outs, builder, name, label)
        return builder.build(outs, builder.eqns, name)

    outer_source, state.source = state.source, None
    try:
        closed = under(JaxprTrace, label, record, builder, name, dynamic=True)
    finally:
        builder.name_inputs = builder.show_value = None  # a leaked tracer must not keep the function
        state.source = outer_source
    if kind != "staged":
        closed.memo["made_by"] = kind
    if observe.on_jaxpr:
        observe.emit(observe.on_jaxpr, kind, closed, name)
    return closed


def _check_no_refs(outs: Sequence[Any], builder: JaxprBuilder, name: str, label: str) -> None:
    """ValueError if a user's function returns a reference: its caller would have two names for one array."""
    for v in outs:
        if type(v.aval) is AbstractRef:
            names = builder.name_inputs() if builder.name_inputs is not None else ()
            passed = next((n for x, n in zip(builder.in_vars, names, strict=False) if x is v), "")
            made = next((eqn.source for eqn in builder.eqns if any(x is v for x in eqn.outvars)), None)
            if passed:
                where = f"was passed in as the argument {passed}"
            else:
                where = "was closed over" if made is None else f"was created on line {summarize(made)}"
            raise ValueError(
                f"function {name} traced for {label} returned a mutable array reference of type {v.aval}, but mutable "
                f"array references cannot be returned.\n\nThe returned mutable array {where}. Return what it holds, "
                "r[...], instead."
            )
