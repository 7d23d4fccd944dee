"""Forward mode: push (primal, tangent) pairs through a function.

In: primals and tangents. Out: the same. Invariant: a tangent has the tangent type of its primal, and one that is
known to be zero is a symbolic ``Zero``; a result with a zero tangent is no tracer at all.

An operation goes one of two ways, as in linearization: on NumPy values that nobody watches, what is kept of its jvp
rule for its signature is called (``interpreters.jvp_rules``); otherwise the rule is run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.config import debug_nans_enabled
from minijax.core import observe
from minijax.core.array import Array, CommittedArray, as_array, get_aval
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.rules import bad_result
from minijax.core.structural import Zero, instantiate_zeros, zero_of
from minijax.core.trace import Trace, Tracer, records_below, state, under
from minijax.errors import source_info
from minijax.interpreters.evaluate import nan_checks, quiet_numpy
from minijax.interpreters.jvp_rules import jvp_rules, pushforward
from minijax.interpreters.stage import stage
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr

_observers = observe.observers
_new = object.__new__


class DualTracer(Tracer):
    """A primal value with its tangent: what forward mode and linearization have in common."""

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
    """A primal value with its tangent."""

    __slots__ = ("primal", "tangent", "aval")

    aval: Any  # type: ignore[misc]

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.primal = primal
        self.tangent = tangent
        try:
            self.aval = primal.aval
        except AttributeError:
            self.aval = get_aval(primal)

    def _birth(self) -> Any:
        # no line is noted here, which every operation would pay for; in a gradient the tangent is a variable, and its
        # equation knows the line
        return self.tangent._birth() if isinstance(self.tangent, Tracer) else None

    def __repr__(self) -> str:
        return f"JVPTracer(primal={self.primal!s}, tangent={self.tangent!s})"


class JVPTrace(Trace):
    """Applies jvp rules."""

    __slots__ = ("recorded",)
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
    """Applies what is kept of jvp rules, where values are NumPy's: nothing is staged, and no input is a tracer."""

    __slots__ = ()

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if not _observers and not (nan_checks and debug_nans_enabled()):
            # The hottest path of forward mode: whatever is out of the ordinary raises, and is left to ``on_values``.
            try:
                known: Any = primitive.pushforwards
                if len(args) == 1:
                    (x,) = args
                    p, m = x.primal, x.tangent
                    push = known[(p.aval, m.aval, *params.items()) if params else (p.aval, m.aval)]
                    out, tangent = push.function(p._np, m._np)
                else:
                    p, q = args
                    s: Any = None
                    t: Any = None
                    if type(p) is JVPTracer and p._trace is self:
                        p, s = p.primal, p.tangent
                    if type(q) is JVPTracer and q._trace is self:
                        q, t = q.primal, q.tangent
                    if t is None:
                        push = known[(p.aval, s.aval, q.aval, None, *params.items())]
                        out, tangent = push.function(p._np, q._np, s._np)
                    elif s is None:
                        push = known[(p.aval, None, q.aval, t.aval, *params.items())]
                        out, tangent = push.function(p._np, q._np, t._np)
                    else:
                        push = known[(p.aval, s.aval, q.aval, t.aval, *params.items())]
                        out, tangent = push.function(p._np, q._np, s._np, t._np)
                # what JVPTracer(self, Array(..), Array(..)) does, in a third of the time
                tracer = _new(JVPTracer)
                tracer._trace = self
                tracer.primal = primal = _new(Array)
                primal._np = out
                primal.aval = tracer.aval = push.out_aval
                tracer.tangent = moved = _new(Array)
                moved._np = tangent
                moved.aval = push.tangent_aval
                return tracer
            except (KeyError, AttributeError, TypeError, ValueError, ArithmeticError, RuntimeWarning, MemoryError):
                pass
            result = self.on_values(primitive, args, params)
            if result is not None:
                return result
        return JVPTrace.process_primitive(self, primitive, args, params)

    def on_values(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> JVPTracer | None:
        """The result, where all is on NumPy values and a pushforward is kept or worth making; else None."""
        values: list[Any] = []
        moved: list[Any] = []  # the tangents' values, without those that are zero
        avals: list[ShapedArray] = []
        tangent_avals: list[ShapedArray | None] = []
        for x in args:
            primal, tangent = self.split(x)
            for part in (primal, tangent):
                if isinstance(part, (Tracer, CommittedArray)):
                    return None
            try:
                primal = as_array(primal)
                values.append(primal._value())
                avals.append(primal.aval)
                if type(tangent) is Zero:
                    tangent_avals.append(None)
                else:
                    tangent = as_array(tangent)
                    moved.append(tangent._value())
                    tangent_avals.append(tangent.aval)
            except (TypeError, ValueError, OverflowError):
                return None  # the rule will say it
        push = pushforward(primitive, avals, tangent_avals, params)
        if push is None:
            return None
        try:
            out, tangent = push.function(*values, *moved)
        except (ArithmeticError, RuntimeWarning, MemoryError):
            return None
        return JVPTracer(self, Array(out, push.out_aval), Array(tangent, push.tangent_aval))


def jvp(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any], name: str = ""
) -> tuple[list[Any], list[Any]]:
    """Primals and tangents of flat ``fun``'s outputs; tangents may be symbolic zeros, in and out."""

    def push_forward(main: Any) -> list[tuple[Any, Any]]:
        trace = main.trace
        outs = fun(*[trace.join(p, t) for p, t in zip(primals, tangents, strict=True)])
        return [trace.split(out) for out in outs]

    on_numpy = state.dynamic.level == 0 and not any(isinstance(x, Tracer) for x in (*primals, *tangents))
    if on_numpy:
        quiet_numpy()
    pairs = under(NumPyJVPTrace if on_numpy else JVPTrace, "jvp", push_forward, None, name)
    return [p for p, _ in pairs], [t for _, t in pairs]


def jvp_jaxpr(
    closed: ClosedJaxpr, nonzero: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jvp of a jaxpr, as a jaxpr: (primals, nonzero tangents) -> (primals out, nonzero tangents out).

    Also returns which output tangents are nonzero; ``instantiate`` makes real zeros of the others. Kept with
    ``closed``.
    """
    forced = [instantiate] * len(closed.out_avals) if isinstance(instantiate, bool) else list(instantiate)
    key = ("jvp", tuple(nonzero), tuple(forced))
    if key not in closed.memo:
        n = len(closed.in_avals)
        nonzero_out: list[bool] = []

        def jvp_of_jaxpr(*args: Any) -> list[Any]:
            given = iter(args[n:])
            tangents = [
                next(given) if nz else zero_of(aval) for aval, nz in zip(closed.in_avals, nonzero, strict=True)
            ]
            outs, tangents_out = jvp(lambda *xs: eval_closed(closed, *xs), args[:n], tangents)
            tangents_out = [instantiate_zeros(t) if f else t for t, f in zip(tangents_out, forced, strict=True)]
            nonzero_out[:] = [type(t) is not Zero for t in tangents_out]
            return [*outs, *[t for t in tangents_out if type(t) is not Zero]]

        tangent_avals = [a.to_tangent_aval() for a, nz in zip(closed.in_avals, nonzero, strict=True) if nz]
        made = stage(jvp_of_jaxpr, [*closed.in_avals, *tangent_avals], closed.jaxpr.debug_name, "jvp")
        closed.memo[key] = made, nonzero_out
    return closed.memo[key]
