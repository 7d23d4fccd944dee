"""The interpreter stack and tracers.

Each thread has a stack of ``MainTrace``s with evaluation at level 0. ``Primitive.bind`` (``core.primitive``) gives the
arguments to the interpreter of the highest level among them (data dependence), or to the dynamic one where a function
is being staged (omnistaging: then every primitive is staged, also on constants). A trace treats whatever is not its own
tracer as a constant: that is boxing and unboxing without the boxes.

A trace knows the stack it stands on, and by that the thread it belongs to: its tracers may be used there only, and
only as long as it stands there.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from minijax import errors
from minijax.config import leaks_checked, while_on
from minijax.core import observe, operands, provenance
from minijax.core.avals import AnyArray
from minijax.core.rules import Rule, RuleTable

Result = TypeVar("Result")

# How far a trace that shares its main with another stands below that one: see interpreters.linearize.
HALF_LEVEL = 0.5


class Trace:
    """One interpreter on the stack: how it processes a primitive."""

    __slots__ = ("main", "level", "stack")

    # Whether a tracer of it that outlives it is an error where ``checking_leaks`` is set.
    checks_leaks = False
    # Whether it has a say in calls with which none of its tracers has to do: it records them, or names an axis.
    reaches_all = True
    # Whether this interpreter records equations; then those above it note the user's line.
    records = False
    # Whether one that has ended may be put on the stack again, as a vmap for the functions that were called inside it.
    resumes = True
    # Whether the operation processed last is in a ``counting.Tally``: then nobody is told that it has ended.
    counted = False
    # The table that ``process_primitive`` takes its rules from; observers show the rule that fires.
    rules: RuleTable | None = None

    # An integer, its main's, but for a trace that stands under its main's own: see interpreters.linearize.
    level: float

    def __init__(self, main: MainTrace | None = None) -> None:
        # one of a user's own class is given its entry when it is put on the stack: see set_current_trace
        if main is not None:
            self.main = main
            self.level = main.level
        # the stack of the thread it runs on, None before and after: then its tracers are dead
        self.stack: list[MainTrace] | None = None

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply ``primitive``; at least one argument is this trace's tracer, or this trace is dynamic."""
        raise NotImplementedError

    def stage_value(self, x: Any) -> Any:
        """The constant ``x``, made while this trace is dynamic, as what operations give that are processed by it."""
        return x

    def rule_of(self, primitive: Any) -> Rule | None:
        """The rule that ``process_primitive`` will apply, for observers."""
        return None if self.rules is None else self.rules.get(primitive)

    def table_of(self, primitive: Any) -> str:
        """The name of the table that this rule is from."""
        return self.rules.name if self.rules is not None else ""


class MainTrace:
    """An entry of the interpreter stack: its ``level``, the ``trace_type`` and what that trace shares.

    ``label`` names the transformation ('jvp', 'vmap', ...), ``subject`` the function transformed.
    """

    __slots__ = ("level", "trace_type", "global_data", "label", "subject", "dynamic", "trace", "__weakref__")

    def __init__(
        self,
        level: int,
        trace_type: type[Trace],
        global_data: Any,
        label: str,
        subject: str = "",
        dynamic: bool = False,
        trace: Trace | None = None,
    ) -> None:
        self.level = level
        self.dynamic = dynamic
        self.trace_type = trace_type
        self.global_data = global_data
        self.label = label
        self.subject = subject
        self.trace = trace_type(self) if trace is None else trace

    @property
    def alive(self) -> bool:
        """Whether it stands on a stack; afterwards its tracers are dead."""
        return self.trace.stack is not None

    @property
    def records(self) -> bool:
        """Whether this interpreter records equations."""
        return self.trace_type.records

    def __repr__(self) -> str:
        return f"{self.label}:{self.level}" if self.level else self.label


class Tracer(AnyArray):
    """A value inside a transformation. Operators and methods are given to it by ``minijax.numpy``."""

    __slots__ = ("_trace", "__weakref__")
    # above NumPy's: its operators then defer to our reflected ones (its functions call __array__, which explains)
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    _trace: Trace

    def to_concrete_value(self) -> Any:
        """The concrete array behind this tracer, or None if there is none."""
        return None

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: Any) -> Tracer:
        # a copied trace would be a stranger to its own tracers
        return self

    def __reduce__(self) -> Any:
        raise errors.ConcretizationTypeError(
            self, "The error occurred in the __reduce__ method, which pickles a value: a tracer has none yet."
        )

    def _birth(self) -> Any:
        """Where the user's program made this tracer, if that is known (see ``errors.source_info``)."""
        return None

    def _birth_text(self) -> str:
        """Where this tracer was made, as text; '' if that is not known."""
        birth = self._birth()
        if birth is None:
            return ""
        name = provenance.assigned_name(birth)
        return errors.summarize(birth) + (f", as `{name}`" if name else "")

    def _made_by(self) -> tuple[Sequence[Any], Any] | None:
        """The equations recorded so far and this tracer's variable, if its trace records any."""
        return None

    def _inside(self) -> Tracer | None:
        """The tracer that this one holds in the place of a value, if it does."""
        return None

    def _level(self) -> tuple[str, Any]:
        """For error messages: what this tracer is at its level, and the value it holds there, None if none."""
        return f"a {self._trace.main!r} tracer", None

    def _origin_msg(self) -> str:
        """For error messages: which function is being transformed, and how this value came about."""
        return "\n".join(part for part in (self._origin(), provenance.story(self)) if part)

    def _origin(self) -> str:
        main = self._trace.main
        return f"The error occurred while tracing the function {main.subject} for {main.label}." if main.subject else ""

    def _advice(self, kind: str) -> str:
        """For error messages: what to do where Python wanted a truth value ('bool'), an 'index' or a 'value'."""
        return provenance.advice(kind, self._trace.main.label)

    def __repr__(self) -> str:
        """As JAX prints a tracer of this kind; ``format(x, "levels")`` tells what it is at each level."""
        return f"{type(self).__name__}<{self.aval}>"


class _Unset(Trace):
    """Stands at level 0 until ``interpreters.evaluate`` installs evaluation."""

    __slots__ = ()


class _ThreadState(threading.local):
    """One thread's interpreter stack; ``dynamic`` is the trace that takes what no tracer claims."""

    # what stands at level 0 of every thread's stack
    base: type[Trace] = _Unset

    def __init__(self) -> None:
        self.stack: list[MainTrace] = []
        self.dynamic: Trace
        self.start()
        # The user's line whose primitive is being transformed: what the transformation records is ascribed to it.
        # None while no transformation is at work; then the line is found by walking the frames.
        self.source: Any = None
        # names and sizes of the enclosing mapped axes, innermost last
        self.axis_env: tuple[tuple[Any, int], ...] = ()

    def start(self) -> None:
        """Put evaluation at the bottom."""
        main = MainTrace(0, _ThreadState.base, None, "eval", dynamic=True)
        self.stack[:] = [main]
        self.dynamic = main.trace
        main.trace.stack = self.stack


state = _ThreadState()

# The interpreters above evaluation that have a say in every call, of all threads. While there are none, who has no
# tracers in his hands need not look at his own stack.
reaching: dict[MainTrace, None] = {}


# What stands in the entries of interpreters that have ended for good.
ENDED = Trace()


def set_base_trace(trace_type: type[Trace]) -> None:
    """Install evaluation at level 0, on every thread that starts from now on and on this one."""
    _ThreadState.base = trace_type
    state.start()


def under(
    trace_type: type[Trace],
    label: str,
    body: Callable[[MainTrace], Result],
    global_data: Any = None,
    subject: str = "",
    dynamic: bool = False,
    checked: bool = False,
) -> Result:
    """What ``body(main)`` gives, with an interpreter ``main`` on top of this thread's stack for as long as it runs.

    However it ends, the stack is then what it was. An interrupt can come at any call and at any return, also those of
    whatever would clean up; so that is done here, by statements that call nothing. ``checked`` is
    ``_leak_checked``'s.
    """
    if leak_checks and trace_type.checks_leaks and not checked:
        return _leak_checked(trace_type, label, body, global_data, subject, dynamic)
    stack, outer = state.stack, state.dynamic
    main = MainTrace(len(stack), trace_type, global_data, label, subject, dynamic)
    try:
        if trace_type.reaches_all:
            reaching[main] = None
        stack.append(main)
        main.trace.stack = stack
        if dynamic:
            state.dynamic = main.trace
        if observe.on_main_push:
            observe.emit(observe.on_main_push, main)
        return body(main)
    except BaseException as error:
        operands.annotate(error, None, stack)
        raise
    finally:
        left = stack[main.level :]
        del stack[main.level :]
        main.trace.stack = None
        state.dynamic = outer
        if main in reaching:
            del reaching[main]
        if left != [main] or observe.on_main_pop:
            bury(left)
        if not trace_type.resumes and not observe.observers:
            # its entry and it hold each other: what its tracers hold would stay until the collector finds it
            main.trace = ENDED


# Not empty while ``checking_leaks`` is set on some thread.
leak_checks: list[str] = []
while_on("check_tracer_leaks", lambda: leak_checks.append("on"), leak_checks.clear)


def _leak_checked(
    trace_type: type[Trace],
    label: str,
    body: Callable[[MainTrace], Result],
    global_data: Any,
    subject: str,
    dynamic: bool,
) -> Result:
    """``under``; an Exception if a tracer of the interpreter is alive afterwards."""
    mains: list[MainTrace] = []
    traces: list[Trace] = []

    def noting(main: MainTrace) -> Result:
        mains.append(main)
        traces.append(main.trace)
        return body(main)

    out = under(trace_type, label, noting, global_data, subject, dynamic, checked=True)
    if leaks_checked():
        gc.collect()
        trace = traces[0]
        # asking an object for its class may run what a proxy does
        leaked = [x for x in gc.get_objects() if issubclass(type(x), Tracer) and x._trace is trace]
        if leaked:
            raise Exception(
                f"Leaked trace {mains[0]!r}. Leaked tracer(s):\n\n"
                + "\n\n".join("\n".join(filter(None, (repr(x), x._origin(), _holder(x)))) for x in leaked)
                + "\n\nReturn such values from the function instead of keeping them."
            )
    return out


def _holder(x: Tracer) -> str:
    held = provenance.held_as(x)
    return f"It is kept as {held}." if held else ""


class ensure_compile_time_eval(contextlib.ContextDecorator):
    """Under it, what no tracer claims is evaluated at once, though a function is being staged around it.

    For what a staged function computes of constants and needs as values. A tracer's operations belong to its own
    interpreter as before.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.ensure_compile_time_eval.html
    """

    def _recreate_cm(self) -> ensure_compile_time_eval:
        return ensure_compile_time_eval()  # one for each call of a decorated function

    def __init__(self) -> None:
        # one for each time that it is open: the same object may be entered again inside of itself
        self.outer: list[Trace] = []

    def __enter__(self) -> None:
        self.outer.append(state.dynamic)
        state.dynamic = state.stack[0].trace

    def __exit__(self, *_exc_info: object) -> None:
        state.dynamic = self.outer.pop()


class TraceTag:
    """What tells the tracers of one run of a user's transformation from those of another, by identity."""


class take_current_trace(contextlib.ContextDecorator):
    """``with take_current_trace() as parent``: the interpreter at work, for a transformation that stands above it."""

    def __enter__(self) -> Trace:
        return state.stack[-1].trace

    def __exit__(self, *_exc_info: object) -> None:
        pass


class set_current_trace:
    """Under it, ``trace`` is at work: what no tracer of a higher interpreter claims is given to it.

    ``trace`` is a ``Trace`` of a user's own class, which is on the stack meanwhile and processes each primitive, or
    one that stands there already. RuntimeError for one that has left the stack.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        # for each time that it is open: the trace that was dynamic, and the entry that was made for this one
        self.outer: list[tuple[Trace, MainTrace | None]] = []

    def __enter__(self) -> None:
        trace, stack, made = self.trace, state.stack, None
        if trace.stack is None and trace.rules is not None:
            raise RuntimeError(f"{trace} has ended: an interpreter can be set as long as it stands on the stack.")
        outer = state.dynamic
        if trace.stack is None:
            made = MainTrace(len(stack), type(trace), None, type(trace).__name__, dynamic=True, trace=trace)
            trace.main, trace.level = made, made.level
            push_again(made)
        else:
            state.dynamic = next(m.trace for m in reversed(stack[: trace.main.level + 1]) if m.dynamic)
        self.outer.append((outer, made))

    def __exit__(self, *_exc_info: object) -> None:
        outer, made = self.outer.pop()
        if made is not None:
            pop_main(made)
        state.dynamic = outer


class eval_context(set_current_trace):
    """Under it, what no tracer claims is evaluated at once, as under ``ensure_compile_time_eval``."""

    def __init__(self) -> None:
        super().__init__(state.stack[0].trace)


def push_main(
    trace_type: type[Trace], label: str, global_data: Any = None, subject: str = "", dynamic: bool = False
) -> MainTrace:
    """Put an interpreter on top of this thread's stack, until ``pop_main``.

    For who keeps interpreters on the stack between inputs, and brings it back himself when he is interrupted
    (``reset_stack``). Whatever runs within one call uses ``under``.
    """
    main = MainTrace(len(state.stack), trace_type, global_data, label, subject, dynamic)
    push_again(main)
    return main


def pop_main(main: MainTrace) -> None:
    """Take ``main``, and whatever an interrupted transformation left above it, off this thread's stack."""
    stack = state.stack
    if main.trace.stack is not stack:
        return
    outer = next(m.trace for m in reversed(stack[: main.level]) if m.dynamic)
    left = stack[main.level :]
    del stack[main.level :]
    if state.dynamic.level >= main.level:
        state.dynamic = outer
    bury(left)


def bury(left: list[MainTrace]) -> None:
    """Say that the interpreters in ``left`` have left the stack, the innermost first."""
    for main in reversed(left):
        main.trace.stack = None
        if main in reaching:
            del reaching[main]
        if observe.on_main_pop:
            observe.emit(observe.on_main_pop, main)


def reset_stack(above: MainTrace | None = None, axis_env: tuple[tuple[Any, int], ...] = ()) -> None:
    """Bring this thread back at evaluation: for front ends, after an exception that came at a bad moment.

    A front end that keeps interpreters on the stack between inputs gives the innermost of them, ``above`` which
    everything goes, and the mapped axes they bind.
    """
    keep = 1 if above is None else above.level + 1
    if len(state.stack) > keep:
        left = state.stack[keep:]
        del state.stack[keep:]
        bury(left)
    state.dynamic = next(m.trace for m in reversed(state.stack) if m.dynamic)
    state.axis_env = axis_env
    state.source = None


def push_again(main: MainTrace) -> None:
    """Put ``main``, which was popped, back on top, and its tracers back to life: what popping it was for failed."""
    stack, outer = state.stack, state.dynamic
    assert main.level == len(stack), "the interpreters above it are still on the stack"
    try:
        reaching[main] = None
        stack.append(main)
        main.trace.stack = stack
        if main.dynamic:
            state.dynamic = main.trace
        if observe.on_main_push:
            observe.emit(observe.on_main_push, main)
    except BaseException:
        del stack[main.level :]
        main.trace.stack = None
        state.dynamic = outer
        if main in reaching:
            del reaching[main]
        raise


def stack_depth() -> int:
    """How many interpreters stand above evaluation on this thread."""
    return len(state.stack) - 1


def records_below(level: int) -> bool:
    """Whether an interpreter under ``level`` records equations, so that transformations should note the source."""
    for main in state.stack[:level]:
        if main.trace_type.records:
            return True
    return False


def find_top_trace(args: Sequence[Any]) -> Trace:
    """The trace that processes a primitive on ``args``: see the module's text."""
    top = state.dynamic
    level = top.level
    for x in args:
        if isinstance(x, Tracer) and x._trace.level > level:
            top = x._trace
            level = top.level
    return top


def raise_dead(args: Sequence[Any], primitive: Any = None) -> None:
    """Raise ``UnexpectedTracerError`` for the first tracer among ``args`` that is dead, or another thread's."""
    here = state.dynamic.stack
    for x in args:
        if isinstance(x, Tracer) and x._trace.stack is not here:
            main = x._trace.main
            details = [f"It was used by the primitive {primitive.name}."] if primitive is not None else []
            born, holder = x._birth_text(), provenance.held_as(x)
            if born.startswith("input "):
                details.insert(0, f"The leaked value is {born}.")
                born = ""
            if holder:
                details.append(f"It escaped through {holder}.")
            raise errors.escaped_tracer_error(
                x, main.label, main.subject, born or None, " ".join(details), to_thread=x._trace.stack is not None
            )


def check_alive(x: Any) -> Any:
    """``x``, unless it is a tracer whose transformation has ended, or runs on another thread."""
    if isinstance(x, Tracer) and x._trace.stack is not state.dynamic.stack:
        raise_dead((x,))
    return x
