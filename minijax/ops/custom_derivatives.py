"""Functions with side inputs and outputs, the parts of ``custom_jvp_call`` and ``custom_vjp_call``.

A ``Function`` maps arrays to arrays. It also maps a side input to a side output. Both are known while tracing: they
tell which tangents are symbolic zeros, or along which axes residuals are batched. Derivative rules, forward passes and
backward passes are ``Function``s, so they are all transformed alike.

A call has two forms. In the *function form* the user's Python functions are parameters of ``bind``. The call goes
through all interpreters on the stack, innermost first, because the functions may close over their tracers. Staging
gives the *equation form*: the function is a jaxpr, closed-over values are operands, and the rules are staged when they
are first needed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import dtypes, observe
from minijax.core.array import as_value, get_aval
from minijax.core.lists import chosen, safe_zip
from minijax.core.primitive import Primitive, bind_at
from minijax.core.records import NamedTuple
from minijax.core.rules import Flags, Rule, Values
from minijax.core.structural import Zero, instantiate_zeros
from minijax.core.trace import (
    HALF_LEVEL,
    MainTrace,
    Result,
    Trace,
    Tracer,
    bury,
    check_alive,
    push_again,
    reaching,
    state,
)
from minijax.errors import UnexpectedTracerError
from minijax.interpreters.named_axes import AxisPrimitive
from minijax.interpreters.partial_eval import dce_jaxpr
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import backward_pass_closed
from minijax.interpreters.vmap import AxisData, BatchTrace, batch, match_axis
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from minijax.ir.pretty import Params, Printer, unread_functions
from minijax.ir.typecheck import call_rule
from minijax.lowering.lower import lower_eqns
from minijax.ops.declare import set_rules
from minijax.ops.reduce import reduce_sum
from minijax.ops.subjaxprs import hoist_consts

Dims = Sequence[int | None]


# ------------------------------------------------------------------------------------------------ functions
class Closed(NamedTuple):
    """A staged function: its jaxpr, whose first inputs are the closed-over values ``consts``, and its side output."""

    jaxpr: ClosedJaxpr
    consts: list[Any]
    side: Any

    def evaluate(self, *values: Any) -> list[Any]:
        """The results for ``values``, which begin with the closed-over values."""
        return eval_closed(self.jaxpr, *values)


class About(NamedTuple):
    """Names of the function that a ``Function`` wraps, for jaxprs and errors."""

    name: str
    # 'f at file.py:12'
    subject: str
    # the role of the function in a call: 'custom_jvp', 'custom_vjp fwd', ...
    label: str


class Function:
    """A flat function: ``call(side_in, *values)`` returns ``(values, side_out)``. Subclasses define ``call``."""

    about: About

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        raise NotImplementedError

    def close(self, side: Any, avals: Values) -> Closed:
        """The function, staged for values of types ``avals``."""
        found: list[Any] = []

        def run(*values: Any) -> list[Any]:
            outs, side_out = self.call(side, *values)
            found.append(side_out)
            return outs

        closed, consts = hoist_consts(stage(run, avals, self.about.subject, label=self.about.label))
        return Closed(closed, consts, found[0])

    def __repr__(self) -> str:
        return self.about.name


class Written(Function):
    """The user's function, as ``run(side, *values)`` on flat values. ``rule`` is the function itself, for observers."""

    def __init__(
        self, run: Callable[..., tuple[list[Any], Any]], about: About, primitive: Primitive, rule: Any = None
    ) -> None:
        self.run = run
        self.about = about
        self.primitive = primitive
        self.rule = rule

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        if observe.on_rule and self.rule is not None:
            observe.emit(observe.on_rule, self.about.label, self.primitive, self.rule)
        if observe.on_custom_rule and self.rule is not None:
            observe.emit(observe.on_custom_rule, self.about.label, self.rule)
        # operations in the user's function get their own source lines, not the line of the call
        outer_source, state.source = state.source, None
        try:
            return self.run(side, *map(as_value, values))
        finally:
            state.source = outer_source


class StagedFunction(Function):
    """``inner``, staged when first needed for each side input. In an equation, the closed-over values come first.
    If a rule closes over a tracer in ``closed_over`` too, it gets the equation's operand instead."""

    def __init__(self, inner: Function, avals_for: Rule, closed_over: Values = ()) -> None:
        self.inner = inner
        self.about = inner.about
        self.avals_for = avals_for
        self.closed_over = [c if isinstance(c, Tracer) else None for c in closed_over]
        self.found: dict[Any, Closed] = {}

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        key = (side, state.axis_env)
        closed = self.found.get(key)
        if closed is None:
            closed = self.found[key] = self.inner.close(side, self.avals_for(side))
        n = len(self.closed_over)
        operand_of = dict(safe_zip(map(id, self.closed_over), values[:n]))
        consts = [operand_of[id(c)] if id(c) in operand_of else check_alive(c) for c in closed.consts]
        return closed.evaluate(*consts, *values[n:]), closed.side


# ------------------------------------------------------------------------------------------------ batching
class OutDims:
    """The batch axes of a batched call's results. The first of its functions that runs sets them; the others follow."""

    def __init__(self, name: str, dims: Dims | None = None) -> None:
        self.name = name
        self.dims = None if dims is None else list(dims)

    def settle(self, values: Values, found: Dims, axis: AxisData) -> list[Any]:
        """``values``, which are batched along the axes ``found``, with the batch axes moved to ``dims``."""
        if self.dims is None:
            self.dims = list(found)
        return [self._moved(i, x, d, to, axis) for i, (x, d, to) in enumerate(safe_zip(values, found, self.dims))]

    def _moved(self, i: int, x: Any, dim: int | None, to: int | None, axis: AxisData) -> Any:
        if dim == to:
            return x
        if to is None:
            raise ValueError(
                f"vmap of {self.name}: result {i} of the function does not depend on the mapped arguments, but "
                "the value that its derivative rule returns does. Make the result depend on these arguments too, for "
                "example by adding 0 * x."
            )
        return match_axis(x, dim, axis.size, to, axis.division)


class Mapped(NamedTuple):
    """The vmap of a call in function form: its trace, and the named axes around the call."""

    trace: BatchTrace
    env: Any


class Batched(Function):
    """``inner``, batched. In function form it runs under the vmap ``mapped``, whose tracers it may close over."""

    def __init__(self, inner: Function, axis: AxisData, in_dims: Dims, out: OutDims, mapped: Mapped | None) -> None:
        self.inner = inner
        self.about = inner.about
        self.axis = axis
        self.in_dims = in_dims
        self.out = out
        self.mapped = mapped

    def enter(self, side: Any) -> tuple[Any, Dims]:
        """The side input for ``inner``, and the batch axes of its values."""
        return side, self.in_dims

    def leave(self, side: Any, side_out: Any, values: list[Any], dims: Dims) -> tuple[list[Any], Any]:
        """Make the results and the side output from those of ``inner``. ``dims``: the batch axes of ``values``."""
        raise NotImplementedError

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        inner_side, dims = self.enter(side)
        if self.mapped is None:
            found: list[Any] = []

            def run(*xs: Any) -> list[Any]:
                outs, side_out = self.inner.call(inner_side, *xs)
                found.append(side_out)
                return outs

            outs, out_dims = batch(run, self.axis, values, dims, self.about.subject)
            return self.leave(side, found[0], outs, out_dims)
        trace = self.mapped.trace

        def call_boxed() -> Any:
            if state.dynamic.level >= trace.level or not levels_below(values, trace.level):
                return None
            outs, side_out = self.inner.call(inner_side, *map(trace.box, values, dims))
            pairs = [trace.unbox(x) for x in outs]
            return self.leave(side, side_out, [x for x, _ in pairs], [d for _, d in pairs])

        called = _resumed(self.mapped, call_boxed)
        if called is not None:
            return called
        closed = self.close(side, [get_aval(x) for x in values])
        return eval_closed(closed.jaxpr, *closed.consts, *values), closed.side

    def close(self, side: Any, avals: Values) -> Closed:
        if self.mapped is None:
            return super().close(side, avals)
        inner_side, dims = self.enter(side)
        trace = self.mapped.trace

        def close_inside() -> Any:
            inner = self.inner.close(inner_side, [_without_axis(a, d) for a, d in safe_zip(avals, dims)])
            return inner, [trace.unbox(c) for c in inner.consts]

        inner, consts = _resumed(self.mapped, close_inside)
        all_dims = [*[d for _, d in consts], *dims]
        found: list[Any] = []

        def run(*values: Any) -> list[Any]:
            outs, out_dims = batch(inner.evaluate, self.axis, values, all_dims, self.about.subject)
            outs, side_out = self.leave(side, inner.side, outs, out_dims)
            found.append(side_out)
            return outs

        in_avals = [*[get_aval(c) for c, _ in consts], *avals]
        staged = stage(run, in_avals, self.about.subject, label=self.about.label)
        closed, more = hoist_consts(staged)
        return Closed(closed, [*more, *[c for c, _ in consts]], found[0])


class BatchedFunction(Batched):
    """The batched function itself, without its rule. It has no side input or output."""

    def leave(self, side: Any, side_out: Any, values: list[Any], dims: Dims) -> tuple[list[Any], Any]:
        return self.out.settle(values, dims, self.axis), side_out


class Pruned(Function):
    """``inner`` with only the used results."""

    def __init__(self, inner: Function, used: Flags) -> None:
        self.inner = inner
        self.about = inner.about
        self.used = used

    def kept(self, side_out: Any) -> tuple[list[bool], Any]:
        """Flags of the results of ``inner`` that stay, and the side output. Subclasses define it."""
        raise NotImplementedError

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        outs, side_out = self.inner.call(side, *values)
        kept, side_out = self.kept(side_out)
        return chosen(kept, outs), side_out

    def close(self, side: Any, avals: Values) -> Closed:
        closed = self.inner.close(side, avals)
        kept, side_out = self.kept(closed.side)
        return Closed(pruned_call(closed.jaxpr, kept), closed.consts, side_out)


def pruned_eqn(eqn: JaxprEqn, used: Flags, rules: Rule) -> JaxprEqn:
    """``eqn`` with only the ``used`` results. ``rules()`` returns the parameters that hold the rules for them."""
    call = pruned_call(eqn.params["call_jaxpr"], used)
    if call is eqn.params["call_jaxpr"]:
        return eqn
    more = {} if all(used) else rules()
    return eqn.replace(params={**eqn.params, "call_jaxpr": call, **more}, outvars=chosen(used, eqn.outvars))


def _without_axis(aval: Any, dim: int | None) -> Any:
    return aval if dim is None else aval.part(dim)


def levels_below(values: Values, level: float) -> bool:
    """Whether all tracers among ``values`` are of levels below ``level``."""
    return all(not isinstance(x, Tracer) or x._trace.level < level for x in values)


def sum_to_axis(x: Any, dim: int | None, to: int | None, axis: AxisData) -> Any:
    """``x`` with its batch axis ``dim`` moved to ``to``; if ``to`` is None, ``x`` is summed over the batch."""
    if to is None:
        return x if dim is None else reduce_sum(x, (dim,))
    return match_axis(x, dim, axis.size, to, axis.division)


# a vmap is on the stack of only one thread at a time: threads that call the same pullback take turns
_turn = threading.RLock()


def _resumed(mapped: Mapped, body: Callable[[], Result]) -> Result:
    """Run ``body`` under the vmap of a call, even if this vmap has ended: a backward pass runs after its vmap."""
    main: MainTrace = mapped.trace.main
    stack, env, outer = state.stack, state.axis_env, state.dynamic
    if main.trace.stack is stack:
        try:
            state.axis_env = mapped.env
            return body()
        finally:
            state.axis_env = env
    with _turn:
        if main.alive:
            raise UnexpectedTracerError(
                f"Encountered an unexpected tracer. The vmap of {main.subject} and the derivative of a "
                "call inside of it run on different threads. Differentiate on the thread of the vmap."
            )
        level = len(stack)
        try:
            main.level = main.trace.level = level
            state.axis_env = mapped.env
            push_again(main)
            return body()
        finally:  # see ``trace.under``
            left = stack[level:]
            del stack[level:]
            main.trace.stack = None
            state.dynamic, state.axis_env = outer, env
            if main in reaching:
                del reaching[main]
            bury(left)


# ------------------------------------------------------------------------------------------------ binding
class CustomCallPrimitive(AxisPrimitive):
    """A call of a function with a derivative rule. In function form, ``bind`` goes down the interpreters one by one."""

    def bind(self, *args: Any, **params: Any) -> list[Any]:
        """Apply the primitive at the next interpreter below ``level``. In equation form, bind it like any primitive."""
        level = params.get("level")
        if level is None:
            return super().bind(*args, **params)
        trace = _next_trace([*map(check_alive, args)], level)
        return bind_at(self, trace, args, {**params, "level": trace.level})


def custom_call(name: str, kind: str, **rules: str) -> Primitive:
    """A primitive that calls a function with a derivative rule of ``kind`` "jvp" or "vjp".
    It has the rules that both kinds share. ``rules``: printed name -> the parameter that holds a rule of the user."""
    primitive = CustomCallPrimitive(name, multiple_results=True)
    primitive.keeps_signatures = False

    def custom_impl(*args: Any, **params: Any) -> list[Any]:
        if "call_jaxpr" in params:
            return eval_closed(params["call_jaxpr"], *args)
        outs, _ = params["fun"].call(None, *args)
        check_closed_over(outs, params["level"] + HALF_LEVEL, params["fun"].about.subject, kind)
        return outs

    def custom_partial_eval(trace: Any, *args: Any, **params: Any) -> list[Any]:
        """Evaluate the call: only linear equations come here, and they need no derivative rule."""
        return custom_impl(*args, **params)

    def custom_abstract(*avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return call_jaxpr.out_avals

    def custom_transpose(cts: Values, *args: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return backward_pass_closed(call_jaxpr, args, cts)

    def custom_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        return lower_eqns(ctx, call_jaxpr.jaxpr, [], names)

    def custom_params(eqn: JaxprEqn, printer: Printer) -> Params:
        """The printed parameters: first the function's name. The parameters in ``rules`` get their printed names."""
        params = dict(eqn.params)
        if not params["num_consts"]:
            del params["num_consts"]
        params.update({shown: params.pop(held) for shown, held in rules.items()})
        return [("name", function_name(params["call_jaxpr"])), *sorted(params.items())]

    primitive.def_impl(custom_impl)
    primitive.def_abstract_eval(custom_abstract)
    set_rules(
        primitive,
        transpose=custom_transpose,
        partial_eval=custom_partial_eval,
        lower=custom_lower,
        typecheck=call_rule("call_jaxpr"),
        shown=custom_params,
        parse=unread_functions(**rules),
    )
    return primitive


def _next_trace(args: Values, level: float) -> Trace:
    """The innermost interpreter below ``level`` that must process the call. Every vmap must: rules may use its axis."""
    traces = [x._trace for x in args if isinstance(x, Tracer)]
    for main in reversed(state.stack[: math.ceil(level)]):
        if main.dynamic or main.trace_type is BatchTrace:
            return main.trace
        found = [t for t in traces if t.main is main and t.level < level]
        if found:
            return max(found, key=lambda trace: trace.level)
    raise AssertionError("evaluation is dynamic")


def mapped_by(level: int) -> Mapped:
    """The vmap at ``level``, which processes a call in function form."""
    trace: Any = state.stack[level].trace
    return Mapped(trace, state.axis_env)


def check_closed_over(values: Values, level: float, name: str, kind: str) -> None:
    """UnexpectedTracerError if ``name`` closes over a value that depends on a tracer of ``level`` or above."""
    if not levels_below(values, level):
        raise UnexpectedTracerError("Encountered an unexpected tracer. " + closed_over_message(name, kind))


def closed_over_message(name: str, kind: str) -> str:
    """The error text for a function that closes over a differentiated value; ``kind`` is 'vjp' or 'jvp'."""
    rules = "fwd and bwd rules" if kind == "vjp" else "rule"
    return (
        f"Detected differentiation of a custom_{kind} function with respect to a closed-over value. That isn't "
        f"supported because the custom {kind.upper()} rule only specifies how to differentiate the custom_{kind} "
        f"function with respect to explicit input parameters. The function is {name}. Try passing the closed-over "
        f"value into the custom_{kind} function as an argument, and adapting the custom_{kind} {rules}; where it is "
        "closed over by a function argument, closure_convert finds it."
    )


# ------------------------------------------------------------------------------------------------ the equation form
def stage_call(trace: Any, fun: Function, args: Values, kind: str) -> tuple[list[Any], ClosedJaxpr]:
    """Stage ``fun`` at ``args``. Return its closed-over values, the first operands of the equation, and its jaxpr."""
    closed = fun.close(None, [get_aval(x) for x in args])
    check_closed_over(closed.consts, trace.level + HALF_LEVEL, fun.about.subject, kind)
    return closed.consts, closed.jaxpr


def pruned_call(closed: ClosedJaxpr, used: Flags) -> ClosedJaxpr:
    """``closed`` with only the ``used`` outputs, and all inputs, since rules may read them. Cached in its memo."""
    key = ("dce, inputs kept", tuple(used))
    if key not in closed.memo:
        pruned, _ = dce_jaxpr(closed.jaxpr, used, keep_inputs=True)
        # None means ``closed`` itself: if the memo held ``closed``, reference counting could not free ``closed``
        closed.memo[key] = None if pruned is closed.jaxpr else ClosedJaxpr(pruned, closed.consts)
    return closed.memo[key] or closed


def function_name(program: ClosedJaxpr | Jaxpr) -> str:
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    return jaxpr.debug_name.partition(" at ")[0]


def zero_flags(tangents: Values, symbolic_zeros: bool) -> tuple[bool, ...]:
    """Flags of the (co)tangents that a rule gets as symbolic zeros. Zeros of type float0 always stay symbolic."""
    return tuple(type(t) is Zero and (symbolic_zeros or t.aval.dtype == dtypes.float0) for t in tangents)


def given(tangents: Values, zeros: Flags) -> list[Any]:
    """The (co)tangents without the ``zeros`` flag, as arrays."""
    return [instantiate_zeros(t) for t, zero in safe_zip(tangents, zeros) if not zero]
