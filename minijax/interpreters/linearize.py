"""Linearization: compute a function's value, and record the linear program of its derivative.

In: primals, and which of them have tangents. Out: the outputs and a ``Tape``. The results equal the results of jvp
over partial evaluation. A ``LinearizeTracer`` is a known primal with the place of its tangent on the tape.

Without observers, a program derived for the signature runs on NumPy values (``interpreters.derived``). Otherwise the
rule runs on primals and unknown tangents. A ``TangentTrace`` half a level below records the operations on tangents; it
detects a rule that lets a tangent into a primal. Invariant: both ways write the same equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from minijax.config import evaluated_singly
from minijax.core import dtypes, observe
from minijax.core.array import Array, LiteralArray, as_array, get_aval
from minijax.core.avals import AnyArray, ShapedArray
from minijax.core.numpy_warnings import quiet_numpy
from minijax.core.primitive import Primitive, evaluation_watched
from minijax.core.rules import Rule, bad_result
from minijax.core.structural import Zero, zero_of
from minijax.core.trace import HALF_LEVEL, Trace, Tracer, reaching, state, under
from minijax.errors import source_info
from minijax.interpreters.derived import PASSED_ON, Derived, derive
from minijax.interpreters.jvp import DualTracer, tally_of
from minijax.interpreters.jvp_rules import derived_once, jvp_rules, table_of
from minijax.interpreters.linear_parts import linearize_rules
from minijax.interpreters.partial_eval import (
    PartialEvalTrace,
    PartialEvalTracer,
    Residual,
)
from minijax.interpreters.physical import Type, bottom
from minijax.interpreters.tape import Tape
from minijax.interpreters.vmap import BatchTracer
from minijax.ir.jaxpr import Var

_observers = observe.observers
_followers = observe.followers
_new = object.__new__


class LinearizeTracer(DualTracer):
    """A primal value and the place of its tangent on the tape; ``raw`` is its physical value, if known."""

    __slots__ = ("raw", "raw_type", "aval", "place", "_primal")

    aval: ShapedArray  # type: ignore[misc]
    raw: Any
    raw_type: Type

    def __init__(self, trace: Trace, primal: Any, place: int) -> None:
        self._trace = trace
        self.place = place
        self._primal = primal
        self.aval = get_aval(primal)

    @property
    def primal(self) -> Any:  # type: ignore[override]
        try:
            return self._primal
        except AttributeError:
            trace: Any = self._trace
            as_seen = trace.tape.residual if trace.notes_lines else trace.bottom.up
            primal = self._primal = as_seen(self.raw, self.raw_type)
            return primal

    @property
    def variable(self) -> Var:
        """The variable of this tracer's tangent in the linear program."""
        return self._trace.tape.variable(self.place)  # type: ignore[attr-defined]

    @property
    def tangent(self) -> PartialEvalTracer:
        """The tangent as jvp rules get it: a tracer of an unknown value."""
        return PartialEvalTracer(self._trace.tangents, self.variable)  # type: ignore[attr-defined]

    def _birth(self) -> Any:
        return self._trace.tape.source(self.place)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"GradTracer(primal={self.primal!s}, typeof(tangent)={self.variable.aval.str_short()})"


class TangentTrace(PartialEvalTrace):
    """Records the operations of rules on tangents, for the ``LinearizeTrace`` of the same ``MainTrace``."""

    __slots__ = ("linear", "mixed")

    def __init__(self, main: Any) -> None:
        Trace.__init__(self, main)
        self.level = main.level - HALF_LEVEL
        self.eqns = []
        # whether the linear function of a linearization rule is running; then every operation is recorded
        self.linear = False
        # whether such a function has recorded an operation without a linear operand
        self.mixed = False

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self.linear:
            self.mixed = self.mixed or not any(map(self.is_unknown, args))
            return self.record(primitive, args, params)
        return PartialEvalTrace.process_primitive(self, primitive, args, params)

    @property
    def stack(self) -> Any:  # type: ignore[override]
        """This trace is on the stack while the ``LinearizeTrace`` above it is."""
        return self.main.trace.stack

    @stack.setter
    def stack(self, stack: Any) -> None:
        assert stack is None


class LinearizeTrace(Trace):
    """Runs the derived programs of jvp rules, or the rules themselves, and writes the tape of its ``MainTrace``."""

    __slots__ = ("tape", "_tangents", "on_numpy", "notes_lines", "bottom", "tally", "counted")
    tally: Any  # made if an observer counts
    reaches_all = False
    resumes = False
    rules = jvp_rules
    records = True

    def __init__(self, main: Any) -> None:
        self.main = main  # as in ``Trace.__init__``
        self.level = main.level
        self.stack = None
        self.counted = False
        self.tape: Tape
        self.on_numpy: bool
        self.notes_lines: bool
        # Whether operands are NumPy values below vmaps: nothing is staged, and all input tracers belong to vmaps.
        self.tape, self.on_numpy, self.notes_lines = main.global_data
        self._tangents: TangentTrace | None = None
        # the ``Bottom`` of these NumPy values, or None
        self.bottom: Any = self.tape.bottom
        if self.bottom is None:  # note lines if a derivative below does
            for below in reversed(state.stack):
                if type(below.trace) is LinearizeTrace:
                    self.notes_lines = self.notes_lines or below.trace.notes_lines
                    if self.notes_lines or below.trace.bottom is None:  # this covers the traces below
                        break

    @property
    def tangents(self) -> TangentTrace:
        """The trace that records the operations on tangents, made when the first rule runs."""
        if self._tangents is None:
            self._tangents = TangentTrace(self.main)
        return self._tangents

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self.on_numpy and not _followers and not (evaluation_watched and evaluated_singly()):
            # The hottest path of reverse mode: every other case raises and goes to ``by_program``.
            try:
                table: Any = primitive.linearizations
                source = None
                if len(args) == 1:
                    (x,) = args
                    derived = table[(x.raw_type, *params.items()) if params else x.raw_type]
                    out, residuals = derived.forward(x.raw)
                    places = x.place
                    if _observers:
                        self.tally.runs[derived] += 1  # ``Tally.add``, inlined
                        self.counted = True
                        source = state.source or source_info(4)
                    elif self.notes_lines:
                        source = state.source or source_info(3)
                else:
                    x, y = args
                    kind = 0
                    if type(x) is LinearizeTracer and x._trace is self:
                        a, s, places, kind = x.raw, x.raw_type, x.place, 1
                    else:
                        a, s = x._np, x.aval
                    if type(y) is LinearizeTracer and y._trace is self:
                        b, t, places = y.raw, y.raw_type, (places, y.place) if kind else y.place
                        kind += 2
                    else:
                        b, t = y._np, y.aval
                    derived = table[(s, t, kind, *params.items()) if params else (s, t, kind)]
                    out, residuals = derived.forward(a, b)
                    if _observers or self.notes_lines:
                        if kind == 1:
                            x, a, s = y, b, t
                        if _observers:
                            if kind == 3:
                                self.tally.runs[derived] += 1
                            elif type(x) is LiteralArray:  # the key also has the bit of this operand
                                self.tally.runs[derived, 3 - kind] += 1
                            else:
                                self.tally.add(derived, args)
                            self.counted = True
                        if isinstance(x, Array):
                            self.tape.arrays[id(a), s] = a, x  # ``Tape.know``, inlined
                        source = state.source or source_info(4 if _observers else 3)
                entries = self.tape.entries
                tracer = _new(LinearizeTracer)
                tracer._trace = self
                tracer.raw = out
                tracer.raw_type = derived.out_type
                tracer.aval = derived.out_aval
                if residuals is PASSED_ON:
                    tracer.place = places if type(places) is int else places[derived.passes_on]
                    return tracer
                tracer.place = len(entries)
                entries.append((derived, residuals, places, source))
                return tracer
            except (KeyError, AttributeError, TypeError, ValueError, ArithmeticError, RuntimeWarning, MemoryError):
                pass
        result = self.by_program(primitive, args, params)
        return self.by_rule(primitive, args, params) if result is None else result

    def by_program(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> LinearizeTracer | None:
        """The result of a derived program; None if the rule must run instead."""
        on_numpy = self.on_numpy
        if _followers or evaluation_watched and evaluated_singly() or self.tape.eqns is not None:
            return None
        if self.tape.by_rules or _observers and not on_numpy:
            return None
        table = primitive.linearizations
        if table is None:
            table = table_of(primitive, "linearizations")
        operands = None if table is None else self.operands(args)
        if operands is None:
            return None
        values, types, places, kind = operands
        derived = self.derived_for(primitive, table, types, kind, params)  # type: ignore[arg-type]
        staging = bool(state.dynamic.level)
        if derived is None or staging and not derived.stageable:
            return None
        if _observers:
            tally = tally_of(self, self.bottom) if derived.typed_alike else None
            if tally is None:
                return None
            known = tally.knows(derived, args, derived.binds)
            if known is None:
                by_rule = partial(self.by_rule, primitive, args, params)
                return tally.measured(derived, args, derived.binds, by_rule)  # type: ignore[no-any-return]
            if not known:
                return None
        source, outer_source = None, state.source
        if self.notes_lines or staging:
            source = state.source = outer_source or source_info(4)
        try:
            result = self.apply(derived, values, places, source)
        finally:
            state.source = outer_source
        if result is None:
            return None
        if _observers:
            self.tally.add(derived, args)
            self.counted = True
        if source is not None and on_numpy:
            for x, value, type_ in zip(args, values, types, strict=True):
                if not isinstance(x, LinearizeTracer):
                    self.tape.know(value, type_, x)
        return result

    def apply(
        self, derived: Derived, values: Sequence[Any], places: Sequence[int], source: Any
    ) -> LinearizeTracer | None:
        """Run a derived program and put it on the tape. None if NumPy raises: then the rule reports the error."""
        tracer = _new(LinearizeTracer)
        tracer._trace, tracer.aval = self, derived.out_aval
        residuals: Any
        if self.on_numpy:
            try:
                tracer.raw, residuals = derived.forward(*values)
            except (ArithmeticError, RuntimeWarning, MemoryError):
                return None
            tracer.raw_type = derived.out_type
        else:
            tracer._primal, *residuals = derived.run(values)
            residuals = residuals[0] if len(residuals) == 1 else tuple(residuals)
        if derived.passes_on is not None:
            tracer.place = places[derived.passes_on]
            return tracer
        entries = self.tape.entries
        tracer.place = len(entries)
        entries.append((derived, residuals, places[0] if len(places) == 1 else tuple(places), source))
        return tracer

    def operands(self, args: Sequence[Any]) -> tuple[list[Any], list[Type], list[int], int] | None:
        """Values for programs, their types, the places of tangents, and ``kind`` with a bit for each active operand.

        None if an operand is not an array, or is not a NumPy value below the vmaps. While a function is staged,
        also None for a NumPy array, because a jaxpr must have one variable for each array.
        """
        values: list[Any] = []
        types: list[Type] = []
        places, kind, on_numpy = [], 0, self.on_numpy
        for i, x in enumerate(args):
            if type(x) is LinearizeTracer and x._trace is self:
                places.append(x.place)
                kind |= 1 << i
                if not on_numpy:
                    values.append(x._primal)
                    types.append(x.aval)
                    continue
                if not hasattr(x, "raw"):
                    found = self.bottom.down(x.primal)
                    if found is None or _observers and not self.typed_alike(x):
                        return None
                    x.raw, x.raw_type = found
                    if self.notes_lines:
                        self.tape.know(x.raw, x.raw_type, x.primal)
                values.append(x.raw)
                types.append(x.raw_type)
            elif on_numpy:
                found = self.bottom.down(x)
                if found is None:
                    return None
                values.append(found[0])
                types.append(found[1])
            else:
                if not isinstance(x, AnyArray):
                    if state.dynamic.level:
                        return None
                    try:
                        x = as_array(x)
                    except (TypeError, ValueError, OverflowError):
                        return None  # the rule reports the error
                values.append(x)
                types.append(x.aval)
        return values, types, places, kind

    def typed_alike(self, x: LinearizeTracer) -> bool:
        """Whether the tangent of ``x`` is a variable of its tangent type. If not, operations would be miscounted."""
        var = self.tape.variable(x.place)
        return type(var) is Var and var.aval is x.aval.to_tangent_aval()

    def derived_for(
        self, primitive: Primitive, table: dict[Any, Any], types: list[Type], kind: int, params: dict[str, Any]
    ) -> Derived | None:
        """The derived programs for a signature, if cached or worth deriving; ``kind`` has the active operands' bits."""
        if len(types) > 1:
            key: Any = (*types, kind, *params.items())
        else:
            key = (types[0], *params.items()) if params else types[0]
        try:
            found = table[key]
            if type(found) is not int:
                return found  # type: ignore[no-any-return]
        except (KeyError, TypeError):
            pass
        active = [bool(kind >> i & 1) for i in range(len(types))]
        return derived_once(table, key, lambda: derive(primitive, types, active, params))  # type: ignore[no-any-return]

    def by_rule(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run the rule on the primals, and record its operations on tangents."""
        tangents, tape = self.tangents, self.tape
        primals: list[Any] = []
        given: list[Any] = []
        place_of: dict[Var, int] = {}
        for x in args:
            if type(x) is LinearizeTracer and x._trace is self:
                primals.append(x.primal)
                var = tape.variable(x.place)
                if type(var) is Var:
                    given.append(PartialEvalTracer(tangents, var))
                    place_of[var] = x.place
                else:  # a constant from a rule, or the tangent of a reference
                    given.append(var.val if type(var) is Residual else var)
            else:
                primals.append(x)
                given.append(zero_of(get_aval(x)))
        first = len(tangents.eqns)
        noting = state.source is None
        if noting:
            state.source = source_info(4)
        try:
            out, tangents_out = self.applied(primitive, primals, given, params)
        finally:
            if noting:
                state.source = None
        if not primitive.multiple_results:
            if type(tangents_out) is Zero:
                return out
            return self.join(out, self.recorded(first, place_of, [tangents.atom(tangents_out)])[0])
        active = [type(t) is not Zero for t in tangents_out]
        out_vars = [tangents.atom(t) for t, a in zip(tangents_out, active, strict=True) if a]
        places = iter(self.recorded(first, place_of, out_vars))
        return [self.join(x, next(places)) if a else x for x, a in zip(out, active, strict=True)]

    def recorded(self, first: int, place_of: dict[Var, int], out_vars: list[Var]) -> list[int]:
        """The places of ``out_vars``, the tangents of results that a rule recorded from equation ``first`` on."""
        if self.tape.eqns is not None:
            return self.tape.add_variables(out_vars)
        eqns = self.tangents.eqns
        recorded = eqns[first:]
        del eqns[first:]
        return self.tape.add(recorded, place_of, out_vars)

    def join(self, primal: Any, place: int) -> LinearizeTracer:
        if self.notes_lines and type(primal) is Array and primal.on_host:
            self.tape.know(primal._np, primal.aval, primal)
        return LinearizeTracer(self, primal, place)

    def record_all(self) -> None:
        """Record all further operations as equations, because any of them may read a reference."""
        if self.tape.eqns is None:
            self.on_numpy = False
            self.tangents.eqns = self.tape.record_all()

    def tangent_of(self, x: Any) -> Any:
        """The tangent of ``x`` for rules; a symbolic zero for a constant."""
        if type(x) is not LinearizeTracer or x._trace is not self:
            return zero_of(get_aval(x))
        var = self.tape.variable(x.place)
        return var.val if type(var) is Residual else x.tangent

    def holding(self, ref: Any, tangent: Any) -> LinearizeTracer:
        """The tracer of the reference ``ref``; ``tangent`` is the reference to its tangent."""
        (place,) = self.tape.add_variables([tangent])
        return LinearizeTracer(self, ref, place)

    def applied(
        self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        """The results of the primitive's rule, and their tangents."""
        own = linearize_rules.get(primitive)
        if own is not None:
            nonzero = [type(t) is not Zero for t in tangents]
            out, nonzero_out, residuals, linear = own(True, nonzero, *primals, **params)
            outer, reaches = state.dynamic, self.main in reaching
            try:
                reaching[self.main] = None
                state.dynamic, self.tangents.linear = self.tangents, True
                found = linear(residuals, *tangents)
            finally:
                state.dynamic, self.tangents.linear = outer, False
                if not reaches:
                    del reaching[self.main]
            if not primitive.multiple_results:
                return out, found if nonzero_out else zero_of(get_aval(out))
            return out, [t if nz else zero_of(get_aval(x)) for x, t, nz in zip(out, found, nonzero_out, strict=True)]
        result = jvp_rules[primitive](primals, tangents, **params)
        try:
            out, found = result
            if primitive.multiple_results:
                pairs = [*zip(out, found, strict=True)]
                return [x for x, _ in pairs], [t for _, t in pairs]
        except (TypeError, ValueError) as error:
            raise bad_result(jvp_rules, primitive, result, "(primal_out, tangent_out)", error) from None
        return out, found

    def rule_of(self, primitive: Primitive) -> Rule | None:
        return linearize_rules.get(primitive) or jvp_rules.get(primitive)

    def table_of(self, primitive: Primitive) -> str:
        return "linearize" if primitive in linearize_rules else "jvp"

    def split(self, x: Any) -> tuple[Any, int | None]:
        """The primal of ``x`` and the place of its tangent, which is None for a zero tangent."""
        if type(x) is LinearizeTracer and x._trace is self:
            return x.primal, x.place
        return x, None


def _is_staged(x: Any) -> bool:
    """Whether ``x``, under any number of vmaps, belongs to the function that is being staged."""
    while type(x) is BatchTracer:
        x = x.val
    return not isinstance(x, Tracer) or x._trace is state.dynamic


def linearize(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], wrt: Sequence[bool], name: str = "", lines: bool = True
) -> tuple[list[Any], Tape]:
    """Outputs of flat ``fun``, and the tape of its derivative in inexact inputs ``wrt``. ``lines``: note user lines."""
    tape = Tape(name)

    def run(main: Any) -> list[Any]:
        trace = main.trace
        ins = []
        for x, active in zip(primals, wrt, strict=True):
            aval = x.aval if isinstance(x, AnyArray) else get_aval(x)
            if active and (aval.dtype.kind == "f" or dtypes.is_inexact(aval.dtype)):
                tracer = _new(LinearizeTracer)
                tracer._trace, tracer._primal, tracer.aval, tracer.place = trace, x, aval, tape.new_input(aval)
                found = tape.bottom.down(x) if tape.bottom is not None and type(aval) is ShapedArray else None
                if found is not None:
                    tracer.raw, tracer.raw_type = found
                    if on_numpy and lines:  # only a program with lines shows which array a residual is
                        tape.know(tracer.raw, tracer.raw_type, x)
                ins.append(tracer)
            else:
                ins.append(x)
        outs: list[Any] = []
        places: list[int | None] = []
        avals = []
        for out in fun(*ins):
            if type(out) is LinearizeTracer and out._trace is trace:
                outs.append(out.primal)
                places.append(out.place)
                avals.append(out.aval)
            else:
                outs.append(out)
                places.append(None)
                avals.append(get_aval(out))
        tape.finish(places, avals, trace._tangents is not None and trace._tangents.mixed)
        return outs

    # If observers watch, rules run and record equations. Observers that only count get the program, with its lines.
    now = None if _observers and not observe.only_counted() else bottom()
    lines = lines or bool(_observers and now is not None)
    if now is not None and now.carries(primals):
        tape.bottom = now
    if state.dynamic.level:  # nested derivatives that are staged
        tape.by_rules = not all(map(_is_staged, primals))
    on_numpy = tape.bottom is not None
    if on_numpy:
        quiet_numpy()
    outs = under(LinearizeTrace, "linearize", run, (tape, on_numpy, lines), name)
    return outs, tape
