"""Forward mode: push (primal, tangent) pairs through a function.

In: primals and tangents. Out: primals and tangents of the results. Invariant: a tangent has the tangent type of its
primal; a result with a zero tangent is no tracer. On NumPy values a cached function for the signature runs
(``interpreters.jvp_rules``). On other values, or if observers watch, the rule runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.config import evaluated_singly
from minijax.core import lazy, observe
from minijax.core.array import get_aval
from minijax.core.numpy_warnings import quiet_numpy
from minijax.core.primitive import Primitive, evaluation_watched
from minijax.core.rules import bad_result
from minijax.core.structural import Zero, instantiate_zeros, zero_of
from minijax.core.trace import Trace, Tracer, records_below, state, under
from minijax.errors import source_info
from minijax.interpreters.jvp_rules import jvp_rules, pushforward
from minijax.interpreters.physical import Bottom, Type, bottom
from minijax.interpreters.stage import stage
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr

_observers = observe.observers
_followers = observe.followers
_new = object.__new__


def tally_of(trace: Any, bottom: Bottom) -> Any:
    """The ``Tally`` that counts for ``trace``, ``bottom``'s vmaps and evaluation; None if observers need the rules."""
    if not observe.only_counted():
        return None
    if not hasattr(trace, "tally"):
        tally = lazy.public("minijax.core.counting", "Tally")
        trace.tally = tally((trace.level, *[axis.level for axis in bottom.axes]), trace.level)
    return trace.tally


class DualTracer(Tracer):
    """A primal value with its tangent: the base of the tracers of forward mode and linearization."""

    __slots__ = ()
    primal: Any
    tangent: Any

    def to_concrete_value(self) -> Any:
        primal = self.primal
        return primal.to_concrete_value() if isinstance(primal, Tracer) else primal

    def _inside(self) -> Tracer | None:
        primal = self.primal
        return primal if isinstance(primal, Tracer) else None

    def _level(self) -> tuple[str, Any]:
        return f"{self._trace.main!r} adds a tangent", self.primal


class JVPTracer(DualTracer):
    """A primal value with its tangent; ``raw`` and ``moved`` are their physical values, if known."""

    __slots__ = ("raw", "raw_type", "moved", "moved_type", "aval", "primal", "tangent")

    aval: Any  # type: ignore[misc]
    raw: Any
    raw_type: Type
    moved: Any
    moved_type: Type

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.primal = primal
        self.tangent = tangent
        try:
            self.aval = primal.aval
        except AttributeError:
            self.aval = get_aval(primal)

    def __getattr__(self, name: str) -> Any:
        """Make ``primal`` or ``tangent`` from the physical value that an operation left."""
        trace: Any = self._trace
        if name == "primal":
            self.primal = found = trace.bottom.up(self.raw, self.raw_type)
        elif name == "tangent":
            self.tangent = found = trace.bottom.up(self.moved, self.moved_type)
        else:
            return self.__getattribute__(name)  # raises AttributeError
        return found

    def _birth(self) -> Any:
        # No line is noted, since that would slow every operation. In a gradient the tangent's equation has a line.
        return self.tangent._birth() if isinstance(self.tangent, Tracer) else None

    def __repr__(self) -> str:
        return f"JVPTracer(primal={self.primal!s}, tangent={self.tangent!s})"


class JVPTrace(Trace):
    """Applies jvp rules."""

    __slots__ = ("recorded",)
    reaches_all = False
    rules = jvp_rules

    def __init__(self, main: Any) -> None:
        super().__init__(main)
        self.recorded = records_below(main.level)

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals = []
        tangents = []
        active = False
        for x in args:
            if type(x) is JVPTracer and x._trace is self:
                primals.append(x.primal)
                tangent = x.tangent
                tangents.append(tangent)
                if type(tangent) is not Zero:
                    active = True
            else:
                primals.append(x)
                tangents.append(zero_of(get_aval(x)))
        if not active:
            return primitive.bind(*primals, **params)
        noting = self.recorded and state.source is None
        if noting:
            state.source = source_info(3)
        try:
            result = jvp_rules[primitive](primals, tangents, **params)
        finally:
            if noting:
                state.source = None
        try:
            out, tangent_out = result
            if primitive.multiple_results:
                return [self.join(p, t) for p, t in zip(out, tangent_out, strict=True)]
        except (TypeError, ValueError) as error:
            raise bad_result(jvp_rules, primitive, result, "(primal_out, tangent_out)", error) from None
        return out if type(tangent_out) is Zero else JVPTracer(self, out, tangent_out)

    def join(self, primal: Any, tangent: Any) -> Any:
        """The pair as a tracer, or just the primal if the tangent is symbolically zero."""
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def split(self, x: Any) -> tuple[Any, Any]:
        """The primal and tangent of ``x``, which may be a constant to this trace."""
        if type(x) is JVPTracer and x._trace is self:
            return x.primal, x.tangent
        return x, zero_of(get_aval(x))


class NumPyJVPTrace(JVPTrace):
    """Calls cached functions of jvp rules. It is used if nothing is staged and all input tracers belong to vmaps."""

    __slots__ = ("bottom", "tally", "counted")
    tally: Any  # made if an observer counts

    def __init__(self, main: Any) -> None:
        super().__init__(main)
        self.counted = False
        self.bottom: Bottom = main.global_data

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if not _followers and not (evaluation_watched and evaluated_singly()):
            # The hottest path of forward mode: every other case raises and goes to ``on_values``.
            try:
                known: Any = primitive.pushforwards
                if len(args) == 1:
                    (x,) = args
                    push = known[(x.raw_type, x.moved_type, *params.items()) if params else (x.raw_type, x.moved_type)]
                    out, tangent = push.function(x.raw, x.moved)
                else:
                    x, y = args
                    s: Any = None
                    t: Any = None
                    if type(x) is JVPTracer and x._trace is self:
                        a, a_type, s, s_type = x.raw, x.raw_type, x.moved, x.moved_type
                    else:
                        a, a_type, s_type = x._np, x.aval, None
                    if type(y) is JVPTracer and y._trace is self:
                        b, b_type, t, t_type = y.raw, y.raw_type, y.moved, y.moved_type
                    else:
                        b, b_type, t_type = y._np, y.aval, None
                    key: Any = a_type, s_type, b_type, t_type
                    push = known[(*key, *params.items()) if params else key]
                    if t_type is None:
                        out, tangent = push.function(a, b, s)
                    elif s_type is None:
                        out, tangent = push.function(a, b, t)
                    else:
                        out, tangent = push.function(a, b, s, t)
                if _observers:
                    self.tally.add(push.function, args)
                    self.counted = True
                tracer = _new(JVPTracer)
                tracer._trace = self
                tracer.raw = out
                tracer.raw_type = push.out_type
                tracer.aval = push.out_aval
                tracer.moved = tangent
                tracer.moved_type = push.tangent_type
                return tracer
            except (KeyError, AttributeError, TypeError, ValueError, ArithmeticError, RuntimeWarning, MemoryError):
                pass
            result = self.on_values(primitive, args, params)
            if result is not None:
                return result
        return JVPTrace.process_primitive(self, primitive, args, params)

    def on_values(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> JVPTracer | None:
        """The result if all operands are NumPy values and a pushforward is cached or worth deriving; else None."""
        operands = self.operands(args)
        if operands is None:
            return None
        values, moved, types, tangent_types = operands
        push = pushforward(primitive, types, tangent_types, params)
        if push is None:
            return None
        if _observers:
            tally = tally_of(self, self.bottom)
            if tally is None:
                return None
            known = tally.knows(push.function, args, push.binds)
            if known is None:
                by_rule = functools.partial(JVPTrace.process_primitive, self, primitive, args, params)
                return tally.measured(push.function, args, push.binds, by_rule)  # type: ignore[no-any-return]
            if not known:
                return None
        try:
            out, tangent = push.function(*values, *moved)
        except (ArithmeticError, RuntimeWarning, MemoryError):
            return None
        if _observers:
            self.tally.add(push.function, args)
            self.counted = True
        tracer = JVPTracer(self, self.bottom.up(out, push.out_type), self.bottom.up(tangent, push.tangent_type))
        tracer.raw, tracer.raw_type, tracer.moved, tracer.moved_type = out, push.out_type, tangent, push.tangent_type
        return tracer

    def operands(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], list[Type], list[Type | None]] | None:
        """Physical values of ``args`` and of nonzero tangents, and their types; None if some value is not physical."""
        values: list[Any] = []
        moved: list[Any] = []  # the values of the nonzero tangents
        types: list[Type] = []
        tangent_types: list[Type | None] = []
        for x in args:
            if type(x) is JVPTracer and x._trace is self:
                if not hasattr(x, "moved") and not self.bring_down(x):
                    return None
                value, type_, tangent_type = x.raw, x.raw_type, x.moved_type
                moved.append(x.moved)
            else:
                found = self.bottom.down(x)
                if found is None:
                    return None
                (value, type_), tangent_type = found, None
            values.append(value)
            types.append(type_)
            tangent_types.append(tangent_type)
        return values, moved, types, tangent_types

    def bring_down(self, x: JVPTracer, fetch: bool = True) -> bool:
        """Set the physical values of ``x``. False if it has none, or one is on a device and ``fetch`` is false."""
        if type(x.tangent) is Zero:
            return False
        primal, tangent = self.bottom.down(x.primal, fetch), self.bottom.down(x.tangent, fetch)
        if primal is None or tangent is None:
            return False
        (x.raw, x.raw_type), (x.moved, x.moved_type) = primal, tangent
        return True


def jvp(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any], name: str = ""
) -> tuple[list[Any], list[Any]]:
    """Primals and tangents of the outputs of flat ``fun``; input and output tangents may be symbolic zeros."""

    def push_forward(main: Any) -> list[tuple[Any, Any]]:
        trace = main.trace
        ins = [p if type(t) is Zero else JVPTracer(trace, p, t) for p, t in zip(primals, tangents, strict=True)]
        if type(trace) is NumPyJVPTrace:
            for x in ins:
                if type(x) is JVPTracer and x._trace is trace:
                    trace.bring_down(x, fetch=False)
        outs = fun(*ins)
        return [trace.split(out) for out in outs]

    found = bottom()
    if found is not None and found.carries((*primals, *tangents)):
        quiet_numpy()
        pairs = under(NumPyJVPTrace, "jvp", push_forward, found, name)
    else:
        pairs = under(JVPTrace, "jvp", push_forward, None, name)
    return [p for p, _ in pairs], [t for _, t in pairs]


def with_zeros(outs: Sequence[Any], nonzero: Sequence[bool]) -> tuple[list[Any], list[Any]]:
    """Primals and tangents of ``outs``, the results of a ``jvp_jaxpr``; missing tangents become symbolic zeros."""
    n = len(nonzero)
    primals, found = list(outs[:n]), iter(outs[n:])
    return primals, [next(found) if nz else zero_of(get_aval(x)) for x, nz in zip(primals, nonzero, strict=True)]


def jvp_jaxpr(
    closed: ClosedJaxpr, nonzero: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jvp of a jaxpr, (primals, nonzero tangents) -> (outputs, nonzero tangents), and which outputs have a tangent.

    ``instantiate``: outputs that get a tangent even if it is zero. Cached in ``closed``.
    """
    forced = [instantiate] * len(closed.out_avals) if isinstance(instantiate, bool) else list(instantiate)
    key = ("jvp", tuple(nonzero), tuple(forced))
    if key not in closed.memo:
        n = len(closed.in_avals)
        nonzero_out: list[bool] = []

        def jvp_of_jaxpr(*args: Any) -> list[Any]:
            given = iter(args[n:])
            tangents = [next(given) if nz else zero_of(aval) for aval, nz in zip(closed.in_avals, nonzero, strict=True)]
            outs, tangents_out = jvp(lambda *xs: eval_closed(closed, *xs), args[:n], tangents)
            tangents_out = [instantiate_zeros(t) if f else t for t, f in zip(tangents_out, forced, strict=True)]
            nonzero_out[:] = [type(t) is not Zero for t in tangents_out]
            return [*outs, *[t for t in tangents_out if type(t) is not Zero]]

        tangent_avals = [a.to_tangent_aval() for a, nz in zip(closed.in_avals, nonzero, strict=True) if nz]
        made = stage(jvp_of_jaxpr, [*closed.in_avals, *tangent_avals], closed.jaxpr.debug_name, "jvp")
        closed.memo[key] = made, nonzero_out
    return closed.memo[key]
